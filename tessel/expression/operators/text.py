"""Text: predicates on letters and patterns, and text made of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, numpy_array
from tessel.errors import ExpressionError, shown
from tessel.expression.leaves import Regex
from tessel.expression.node import Expression, argument_text, require_text
from tessel.expression.operators.shapes import Unary, of_one, require
from tessel.expression.printing import Piece, Sub
from tessel.expression.promotion import common_type
from tessel.expression.types import Family, Operand, Signature
from tessel.expression.values import Compute, Value, elementwise


def predicate(function: Callable[[Value, str], Value]) -> Compute:
    """Test for a part of a text."""

    def compute(node: TextPredicate, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(values[0], node.part)

    return compute


_WITH_OFFSETS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


_TO_TEXT = of_one(Family.TEXT, null=pa.string())
_TO_TRUTH = of_one(Family.TEXT, null=pa.string(), result=pa.bool_())


class Matches(Expression, name="matches", precedence=4, signature=_TO_TRUTH):
    """Whether a regular expression is found anywhere in the text."""

    operand: Expression
    regex: Regex

    def pieces(self) -> Iterable[Piece]:
        """Return ``x matches 'regex'``."""
        return (Sub(self.operand, 5), f" matches {self.regex}")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Search for the regular expression."""
        return pc.match_substring_regex(values[0], self.regex.pattern)


class TextPredicate(Expression, signature=_TO_TRUTH):
    """Whether the text has a part."""

    operand: Expression
    part: str

    def check(self) -> None:
        """Raise where the part is not text."""
        require_text(self.part, f"the argument of {self.name}")


class Like(TextPredicate, name="like", precedence=4):
    """Whether the whole text fits an SQL pattern of ``%`` and ``_``."""

    def check(self) -> None:
        """Raise where RE2, which the pattern runs on, does not take it."""
        super().check()
        try:
            pc.match_like(arrow_array(["_"]), self.part)
        except pa.ArrowInvalid as error:
            raise ExpressionError(
                f"like takes no pattern of {len(self.part):,} characters: {error}",
                hint="join shorter patterns by and, or use contains",
            ) from None

    def pieces(self) -> Iterable[Piece]:
        """Return ``x like 'pattern'``."""
        return (Sub(self.operand, 5), f" like {argument_text(self.part)}")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Match a pattern; one that says no more than that a part is there is a search for it."""
        part = self.part[1:-1]
        if self.part == f"%{part}%" and part and not set(part) & set("%_\\"):
            return Contains(self.operand, part).compute(values, result)
        return pc.match_like(values[0], self.part)


class StartsWith(TextPredicate, name="starts_with", compute=predicate(pc.starts_with)):
    """Whether the text starts with a part."""


class EndsWith(TextPredicate, name="ends_with", compute=predicate(pc.ends_with)):
    """Whether the text ends with a part."""


class Contains(TextPredicate, name="contains"):
    """Whether the part stands anywhere in the text."""

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Search for the part: Arrow's own search looks at each byte for itself."""
        (value,) = values
        if not self.part or not isinstance(value, pa.Array) or value.type not in _WITH_OFFSETS:
            return pc.match_substring(value, self.part)
        from tessel.expression.text_bytes import texts_of
        from tessel.kernels.search_rows import search_texts

        found = search_texts(texts_of(value), self.part.encode())
        return arrow_array(found, mask=numpy_array(value.is_null()) if value.null_count else None)


class TextFunction(Unary, signature=_TO_TEXT):
    """Text made of one text."""


class Lower(TextFunction, name="lower", compute=elementwise(pc.utf8_lower)):
    """The text in lower case."""


class Upper(TextFunction, name="upper", compute=elementwise(pc.utf8_upper)):
    """The text in upper case."""


class Strip(TextFunction, name="strip", compute=elementwise(pc.utf8_trim_whitespace)):
    """The text without white space at its ends."""


class Length(Unary, name="length"):
    """The number of characters of a text, of bytes of a binary."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return int32, or int64 for texts past 2 GiB."""
        (operand,) = operands
        require(self.name, operand, Family.TEXT, Family.BINARY)
        large = operand.type in (pa.large_string(), pa.large_binary())
        taken = pa.string() if operand.family is Family.NULL else operand.type
        return Signature((taken,), pa.int64() if large else pa.int32())

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Count characters of text, bytes of binary."""
        (value,) = values
        text = pa.types.is_string(value.type) or pa.types.is_large_string(value.type)
        return pc.utf8_length(value) if text else pc.binary_length(value)


class Replace(Expression, name="replace", signature=_TO_TEXT):
    """The text with one part put in place of another."""

    operand: Expression
    old: str
    new: str

    def check(self) -> None:
        """Raise where a part is not text, or the old one is empty."""
        require_text(self.old, "the first argument of replace")
        require_text(self.new, "the second argument of replace")
        if not self.old:
            raise ExpressionError("replace needs a part to look for", hint="the first is empty")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Put one part in place of another."""
        return pc.replace_substring(values[0], pattern=self.old, replacement=self.new)


class Slice(Expression, name="slice", signature=_TO_TEXT):
    """The characters from one place up to another."""

    operand: Expression
    start: int
    stop: int | None = None

    def check(self) -> None:
        """Raise where a place is not a whole number from 0."""
        for place in (self.start, self.stop):
            if place is not None and (type(place) is not int or not 0 <= place < 1 << 31):
                raise ExpressionError(
                    f"slice takes whole numbers from 0, not {shown(place)}",
                    hint="slice(start, stop), counted in characters from the beginning",
                )
        if self.start is None:
            raise ExpressionError("slice needs a start", hint="slice(0, stop)")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Cut characters out."""
        if self.stop is not None and self.stop <= self.start:
            return pc.utf8_slice_codeunits(values[0], start=0, stop=0)
        return pc.utf8_slice_codeunits(values[0], start=self.start, stop=self.stop)


class Concat(Expression, name="concat"):
    """Several texts one after the other; missing where one is missing."""

    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where there is no operand."""
        if not self.operands:
            raise ExpressionError("concat takes at least one text", hint="concat(a, b)")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common text type."""
        for operand in operands:
            require(self.name, operand, Family.TEXT)
        found = common_type("concat", operands)
        result = pa.string() if pa.types.is_null(found) else found
        return Signature((result,) * len(operands), result)

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Join texts."""
        return pc.binary_join_element_wise(
            *values, arrow_scalar("", result), null_handling="emit_null"
        )

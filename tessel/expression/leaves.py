"""What stands at the ends of an expression: columns, literals, value sets and regexes."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.cached import cached
from tessel.errors import ExpressionError, ExpressionTypeError, InvalidInputError
from tessel.expression import literal_codec
from tessel.expression.node import ATOM, Expression, layout, require_text
from tessel.expression.printing import Piece
from tessel.expression.registry import register
from tessel.expression.types import Operand, Signature, narrowest_integer, type_name

__all__ = ["Column", "Literal", "Regex", "ValueSet", "arguments_for", "as_expression", "literal"]

KEYWORDS = frozenset(
    (
        *("and", "or", "not", "in", "is", "null", "missing", "between", "like", "matches"),
        *("case", "when", "then", "else", "end", "true", "false"),
    )
)
"""Words of the text grammar; a column of such a name stands in backticks."""

_WORD = re.compile(r"[^\W\d]\w*")


@register
@dataclass(frozen=True, eq=False, repr=False)
class Column(Expression):
    """The values of a column."""

    name: ClassVar[str] = "column"
    source: ClassVar[tuple[str, int] | None] = None
    column: str

    def written_at(self, text: str, place: int) -> Column:
        """Remember the text that the column was read from; it is shown if there is no such column.

        The place is no part of the expression's identity.
        """
        object.__setattr__(self, "source", (text, place))
        return self

    def check(self) -> None:
        """Raise where the name is not text."""
        require_text(self.column, "a column name")

    def pieces(self) -> Iterable[Piece]:
        """Return the name, in backticks where it is not a plain word."""
        plain = _WORD.fullmatch(self.column) and self.column.casefold() not in KEYWORDS
        yield self.column if plain else "`" + self.column.replace("`", "``") + "`"

    def label(self) -> Iterable[Piece]:
        """Return ``Column["name"]``."""
        yield f'Column["{self.column}"]'


@register
@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expression):
    """One value, the same in every row.

    Attributes
    ----------
    kind
        ``"int"`` and ``"float"`` for plain Python numbers, which adapt to the operand they meet;
        otherwise the name of an Arrow type.
    content
        The value in the canonical text of `literal_codec`.
    """

    name: ClassVar[str] = "literal"
    kind: str
    content: str

    def check(self) -> None:
        """Raise where the content is not the canonical text of a value of the kind."""
        require_text(self.kind, "a literal's type")
        require_text(self.content, "a literal's content")
        if literal_codec.encode(self.kind, self.value) != self.content:
            raise ExpressionError(
                f"{self.content!r} is not the canonical form of a {self.kind} literal",
                hint="make literals with lit(...)",
            )

    @cached
    def value(self) -> Any:
        """The plain value; temporal ones as the count of units since the epoch."""
        return literal_codec.decode(self.kind, self.content)

    @cached
    def type(self) -> pa.DataType:
        """The type it has by itself: the narrowest for an integer, float64 for a float."""
        if self.kind == "int":
            return narrowest_integer(self.value)
        return literal_codec.literal_type(self.kind)

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """A negative number binds like unary minus."""
        return 11 if self.kind in ("int", "float") and self.content.startswith("-") else ATOM

    @cached
    def scalar(self) -> pa.Scalar:
        """The value as an Arrow scalar of its own type."""
        return pa.scalar(self.value, self.type)

    @property
    def is_missing_value(self) -> bool:
        """Whether the value is null or NaN."""
        return self.value is None or (isinstance(self.value, float) and math.isnan(self.value))

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the literal's own type."""
        return Signature((), self.type)

    def pieces(self) -> Iterable[Piece]:
        """Return the value as written in text."""
        yield literal_codec.source_text(self.kind, self.content)

    def label(self) -> Iterable[Piece]:
        """Return ``Int64(1000)``, ``Float64(0.5)``, ``Text("a")``."""
        yield literal_codec.label(self.kind, self.content, self.value)


@dataclass(frozen=True)
class ValueSet:
    """The values that a column is looked up in, without repeats, in written order."""

    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            if not isinstance(value, Literal):
                raise ExpressionTypeError(
                    "is_in takes plain values, not expressions",
                    hint="join comparisons with any_of(...) to compare with other columns",
                )
        unique = {value.digest: value for value in self.values}
        object.__setattr__(self, "values", tuple(unique.values()))

    @cached
    def digest(self) -> bytes:
        """The identity: 128 bits over the values' digests."""
        joined = b"".join(value.digest for value in self.values)
        return hashlib.blake2b(b"value set" + joined, digest_size=16).digest()

    @staticmethod
    def of(values: object) -> ValueSet:
        """Make a value set from any iterable of plain values, an Arrow or numpy array included."""
        if isinstance(values, ValueSet):
            return values
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidInputError(
                f"is_in takes a list of values, not {type(values).__name__}",
                hint="write is_in([value]), or == for one value",
            )
        return ValueSet(tuple(literal(value) for value in values))

    def __str__(self) -> str:
        return "(" + ", ".join(str(value) for value in self.values) + ")"


@dataclass(frozen=True)
class Regex:
    """A regular expression in RE2's syntax, checked when made."""

    pattern: str

    def __post_init__(self) -> None:
        require_text(self.pattern, "a regex")
        try:
            pc.match_substring_regex(pa.array([""]), self.pattern)
        except pa.ArrowInvalid as error:
            raise ExpressionError(
                f"{self.pattern!r} is not a regular expression: {error}",
                hint="regexes run on RE2: no backreferences and no look-around",
                pattern=self.pattern,
            ) from None

    @cached
    def digest(self) -> bytes:
        """The identity: 128 bits over the pattern."""
        return hashlib.blake2b(b"regex" + self.pattern.encode(), digest_size=16).digest()

    def __str__(self) -> str:
        return "'" + self.pattern.replace("'", "''") + "'"


def literal(value: object) -> Literal:
    """Make a literal of a plain Python, numpy or Arrow value."""
    if isinstance(value, Literal):
        return value
    if isinstance(value, Expression):
        raise ExpressionTypeError(
            f"a plain value is needed here, not the expression {value!r}",
            hint="write the value itself",
        )
    if value is None:
        return Literal("null", "null")
    if isinstance(value, bool | np.bool_):
        return Literal("bool", "true" if value else "false")
    if type(value) is int:
        narrowest_integer(value)
        return Literal("int", str(value))
    if isinstance(value, float):
        return Literal("float", literal_codec.encode("float", float(value)))
    if type(value) is str:
        return Literal("text", value)
    return _of_scalar(_arrow_scalar(value))


def _arrow_scalar(value: object) -> pa.Scalar:
    if isinstance(value, pa.Scalar):
        return value
    if isinstance(value, np.datetime64 | np.timedelta64):
        # generic and coarse numpy units (days, hours) have no Arrow type
        unit = np.datetime_data(value.dtype)[0]
        if unit not in ("s", "ms", "us", "ns"):
            kind = "M8" if isinstance(value, np.datetime64) else "m8"
            value = value.astype(f"{kind}[s]")
    supported = (int, str, bytes, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)
    if isinstance(value, (*supported, np.generic)):
        try:
            return pa.scalar(value)
        except (pa.ArrowException, OverflowError) as error:
            raise ExpressionTypeError(
                f"{value!r} does not fit an Arrow type: {error}",
                hint="give an Arrow scalar of a wider or coarser type: lit(pa.scalar(…, type))",
                type=type(value).__name__,
            ) from error
    raise ExpressionTypeError(
        f"a {type(value).__name__} is not a value that expressions take",
        hint="literals are None, bool, int, float, text, bytes, Decimal, dates, times, timestamps, "
        "durations, and numpy or Arrow scalars of such types",
        type=type(value).__name__,
    )


def _of_scalar(scalar: pa.Scalar) -> Literal:
    if isinstance(scalar, pa.DictionaryScalar):
        return _of_scalar(scalar.value)
    if not scalar.is_valid:
        return Literal("null", "null")
    kind = literal_codec.kind_of(scalar.type)
    if kind is None:
        raise ExpressionTypeError(
            f"a {type_name(scalar.type)} is not a value that expressions take",
            hint="literals are bool, numbers, text, bytes, decimals, dates, times, timestamps "
            "and durations",
        )
    return Literal(kind, literal_codec.encode(kind, literal_codec.plain_value(scalar)))


def as_expression(value: object) -> Expression:
    """Return an expression as it is and anything else as a literal."""
    return value if isinstance(value, Expression) else literal(value)


def arguments_for(cls: type[Expression], arguments: tuple[object, ...]) -> list[Any]:
    """Turn call arguments into the fields of an operator class, in order.

    Operands become expressions, a field of several operands takes all that are left, parameters
    take the value of a literal.
    """
    kinds = layout(cls)
    several = any(field.kind == "operands" for field in kinds)
    if len(arguments) > len(kinds) and not several:
        raise _arity(cls, len(arguments))
    rest = list(arguments)
    made: list[Any] = []
    for place, field in enumerate(kinds):
        if field.kind == "operands":
            after = len(kinds) - place - 1
            taken = rest[: len(rest) - after]
            rest = rest[len(taken) :]
            made.append(tuple(as_expression(value) for value in taken))
        elif not rest:
            break
        else:
            made.append(_field_value(field.kind, field.name, rest.pop(0), cls))
    if len(made) < sum(field.required for field in kinds):
        raise _arity(cls, len(arguments))
    return made


def _field_value(kind: str, name: str, value: object, cls: type[Expression]) -> Any:
    if kind == "operand":
        return as_expression(value)
    if isinstance(value, Literal):
        value = value.value
    if kind == "parameter":
        if isinstance(value, Expression):
            raise ExpressionTypeError(
                f"{cls.name} takes a plain value as its {name}, not the expression {value!r}",
                hint="write the value itself",
            )
        return value
    if kind == "values":
        return ValueSet.of(value)
    return value if isinstance(value, Regex) else Regex(value)  # type: ignore[arg-type]


def _arity(cls: type[Expression], given: int) -> ExpressionError:
    names = [field.name for field in layout(cls)]
    return ExpressionError(
        f"{cls.name} takes {len(names)} argument{'s' if len(names) != 1 else ''}, not {given}",
        hint=f"{cls.name}({', '.join(names)})",
        operator=cls.name,
        given=given,
    )

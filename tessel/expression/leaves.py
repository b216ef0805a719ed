"""What stands at the ends of an expression: columns, literals, value sets and regexes."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.cached import cached
from tessel.errors import (
    ExpressionError,
    ExpressionTypeError,
    InvalidInputError,
    UnicodeTextError,
    shown,
)
from tessel.expression import literal_codec
from tessel.expression.node import ATOM, Expression, hashed, layout, require_text
from tessel.expression.printing import Piece
from tessel.expression.scalars import elapsed_text, scalar_of
from tessel.expression.types import UNITS, Operand, Signature, narrowest_integer, type_name
from tessel.lazy import dataclass

KEYWORDS = frozenset(
    (
        *("and", "or", "not", "in", "is", "null", "missing", "between", "like", "matches"),
        *("case", "when", "then", "else", "end", "true", "false"),
    )
)
"""Words of the text grammar; a column of such a name stands in backticks."""

_WORD = re.compile(r"[^\W\d]\w*")


class Column(Expression, name="column"):
    """The values of a column."""

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


class Literal(Expression, name="literal"):
    """One value, the same in every row.

    Attributes
    ----------
    kind
        ``"int"`` and ``"float"`` for plain Python numbers, which adapt to the operand they meet;
        otherwise the name of an Arrow type.
    content
        The value in the canonical text of `literal_codec`.
    """

    kind: str
    content: str

    def check(self) -> None:
        """Raise where the content is not the canonical text of a value of the kind."""
        require_text(self.kind, "a literal's type")
        require_text(self.content, "a literal's content")
        literal_codec.check_canonical(self.kind, self.content)

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
        return arrow_scalar(self.value, self.type)

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
    """The values that a column is looked up in, without repeats, in written order.

    There may be millions: each is the kind and the content of a `Literal`, which is made for those
    alone that are looked at one by one.
    """

    pairs: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(dict.fromkeys(self.pairs)))

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Literal]:
        return itertools.starmap(Literal, self.pairs)

    @cached
    def by_kind(self) -> dict[str, list[str]]:
        """The contents of the literals of each kind."""
        found: dict[str, list[str]] = {}
        for kind, content in self.pairs:
            found.setdefault(kind, []).append(content)
        return found

    @cached
    def digest(self) -> bytes:
        """The identity: 128 bits over kinds and contents."""
        return hashed(b"value set" + json.dumps(self.pairs).encode())

    @staticmethod
    def of(values: object) -> ValueSet:
        """Make a value set from any iterable of plain values, an Arrow or numpy array included."""
        if isinstance(values, ValueSet):
            return values
        shape = getattr(values, "ndim", 1)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable) or shape != 1:
            raise InvalidInputError(
                f"is_in takes a list of values, not {type(values).__name__}",
                hint="write is_in([value]), or == for one value",
            )
        return ValueSet(tuple(_pairs(values)))

    @cached
    def _text(self) -> str:  # a plan is written out after each pass
        return "(" + ", ".join(itertools.starmap(literal_codec.source_text, self.pairs)) + ")"

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Regex:
    """A regular expression in RE2's syntax, checked when made."""

    pattern: str

    def __post_init__(self) -> None:
        require_text(self.pattern, "a regex")
        try:
            pc.match_substring_regex(arrow_array([""]), self.pattern)
        except pa.ArrowInvalid as error:
            raise ExpressionError(
                f"{shown(self.pattern)} is not a regular expression: {shown(str(error))}",
                hint="regexes run on RE2: no backreferences and no look-around",
                pattern=shown(self.pattern),
            ) from None

    @cached
    def digest(self) -> bytes:
        """The identity: 128 bits over the pattern."""
        return hashed(b"regex" + self.pattern.encode())

    def __str__(self) -> str:
        return "'" + self.pattern.replace("'", "''") + "'"


def literal(value: object) -> Literal:
    """Make a literal of a plain Python, numpy, pandas or Arrow value."""
    return value if isinstance(value, Literal) else Literal(*_pair(value))


def _pair(value: object) -> tuple[str, str]:
    """Return the kind and the content of the literal of a value."""
    if isinstance(value, Literal):
        return value.kind, value.content
    if isinstance(value, Expression):
        raise ExpressionTypeError(
            f"a plain value is needed here, not the expression {value!r}",
            hint="write the value itself",
        )
    if value is None:
        return _NULL
    if isinstance(value, bool | np.bool_):
        return "bool", "true" if value else "false"
    if type(value) is int:
        narrowest_integer(value)
        return "int", str(value)
    if isinstance(value, float):
        return "float", literal_codec.encode("float", float(value))
    if type(value) is str:
        UnicodeTextError.require(value, "a literal's content")
        return "text", value
    try:
        return _of_scalar(scalar_of(value))
    except InvalidInputError as error:
        raise ExpressionTypeError(error.message, hint=error.hint, **error.attributes) from error


def _of_scalar(scalar: pa.Scalar) -> tuple[str, str]:
    if not scalar.is_valid:
        return _NULL
    kind = literal_codec.kind_of(scalar.type)
    if kind is None:
        raise ExpressionTypeError(
            f"a {type_name(scalar.type)} is not a value that expressions take",
            hint="literals are bool, numbers, text, bytes, decimals, dates, times, timestamps "
            "and durations",
        )
    return kind, literal_codec.encode(kind, literal_codec.plain_value(scalar))


def _pairs(values: Iterable[object]) -> Iterable[tuple[str, str]]:
    """Return the kinds and contents of the literals of values; many of one type at once."""
    if isinstance(values, np.ndarray):
        if values.dtype.str in _AS_IN_ARROW:
            values = arrow_array(values)
        elif values.dtype == np.float64:
            values = values.tolist()
    if isinstance(values, pa.Array | pa.ChunkedArray):
        kind = literal_codec.kind_of(values.type)
        if kind is not None:
            write = literal_codec.encoder(kind)
            plain = literal_codec.plain_values(values)
            if not values.null_count:
                return zip(itertools.repeat(kind), map(write, plain))
            return (_NULL if each is None else (kind, write(each)) for each in plain)
    items: list[Any] = list(values)
    types = set(map(type, items))
    if types == {int}:
        narrowest_integer(min(items)), narrowest_integer(max(items))
        return zip(itertools.repeat("int"), map(str, items))
    if types == {float}:
        return zip(itertools.repeat("float"), map(repr, items))
    return map(_pair, items)


_NULL = ("null", "null")
_AS_IN_ARROW = frozenset(
    np.dtype(each).str
    for each in (
        *("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
        *(f"{kind}8[{unit}]" for kind in "mM" for unit in UNITS),
    )
)
"""Types of numpy whose values have the same type in Arrow one by one and all at once."""


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
        return elapsed_text(value)
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

"""What types mean to expressions: families, names, and the rules by which operands meet.

Everything here is a function of types alone, never of data. Operators state their rule with these
functions; the evaluator casts operands to the types a rule answers and calls one kernel.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.errors import ExpressionTypeError, nearest, shown
from tessel.expression.printing import limited_text
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.leaves import Literal
    from tessel.expression.node import Expression


class Family(enum.Enum):
    """Types that behave alike in expressions."""

    NULL = "null"
    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    TIMESTAMP = "timestamp"
    DATE = "date"
    TIME = "time"
    DURATION = "duration"
    LIST = "list"
    STRUCT = "struct"
    OTHER = "other"


FAMILY_WORDS = {
    Family.NULL: "a null",
    Family.BOOL: "a truth value",
    Family.INTEGER: "a number",
    Family.FLOAT: "a number",
    Family.DECIMAL: "a decimal",
    Family.TEXT: "text",
    Family.BINARY: "binary",
    Family.TIMESTAMP: "a timestamp",
    Family.DATE: "a date",
    Family.TIME: "a time of day",
    Family.DURATION: "a duration",
    Family.LIST: "a list",
    Family.STRUCT: "a struct",
    Family.OTHER: "a value of another type",
}

NUMBERS = (Family.INTEGER, Family.FLOAT, Family.DECIMAL)
TEMPORAL = (Family.TIMESTAMP, Family.DATE, Family.TIME, Family.DURATION)

UNITS = ("s", "ms", "us", "ns")
UNIT_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
SPAN_NANOSECONDS = {"h": 3_600 * 10**9, "min": 60 * 10**9, **UNIT_NANOSECONDS}
DAY_NANOSECONDS = 24 * SPAN_NANOSECONDS["h"]


TEXT_CHARACTERS = 120
"""Expressions in messages are cut after so many characters."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What an operator's type rule sees of one operand.

    Attributes
    ----------
    type
        Its type with dictionaries decoded and views normalised.
    written
        The operand, which error messages show: an expression, or its text.
    literal
        The literal, where the operand is one: literals adapt to what they meet.
    """

    type: pa.DataType
    written: Expression | str
    literal: Literal | None = None

    @property
    def text(self) -> str:
        """The operand as written, cut to fit: only made when it is asked for."""
        written = self.written
        return written if isinstance(written, str) else limited_text(written, TEXT_CHARACTERS)

    @property
    def family(self) -> Family:
        """The family of its type."""
        return family(self.type)

    def __str__(self) -> str:
        return f"{self.text} ({type_name(self.type)})"


@dataclass(frozen=True, slots=True)
class Signature:
    """A type rule's answer: operands are cast to ``inputs``, the kernel returns ``result``."""

    inputs: tuple[pa.DataType, ...]
    result: pa.DataType


_FAMILY_TESTS = (
    (pa.types.is_null, Family.NULL),
    (pa.types.is_boolean, Family.BOOL),
    (pa.types.is_integer, Family.INTEGER),
    (pa.types.is_floating, Family.FLOAT),
    (pa.types.is_decimal, Family.DECIMAL),
    (pa.types.is_string, Family.TEXT),
    (pa.types.is_large_string, Family.TEXT),
    (pa.types.is_binary, Family.BINARY),
    (pa.types.is_large_binary, Family.BINARY),
    (pa.types.is_fixed_size_binary, Family.BINARY),
    (pa.types.is_timestamp, Family.TIMESTAMP),
    (pa.types.is_date, Family.DATE),
    (pa.types.is_time, Family.TIME),
    (pa.types.is_duration, Family.DURATION),
    (pa.types.is_list, Family.LIST),
    (pa.types.is_large_list, Family.LIST),
    (pa.types.is_fixed_size_list, Family.LIST),
    (pa.types.is_struct, Family.STRUCT),
)


@functools.lru_cache(maxsize=512)
def family(type_: pa.DataType) -> Family:
    """Return the family of a type; dictionaries count as their values."""
    plain = plain_type(type_)
    return next((found for test, found in _FAMILY_TESTS if test(plain)), Family.OTHER)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that kernels see: dictionaries decoded, views and half floats widened."""
    if pa.types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    return pa.float32() if pa.types.is_float16(type_) else type_


def counted_nanoseconds(type_: pa.DataType) -> int | None:
    """Return the length of what instants or dates of a type count; None for any other type."""
    if pa.types.is_timestamp(type_):
        return UNIT_NANOSECONDS[type_.unit]
    if pa.types.is_date32(type_):
        return DAY_NANOSECONDS
    return UNIT_NANOSECONDS["ms"] if pa.types.is_date64(type_) else None


# --- names ----------------------------------------------------------------------------------------

_NAMED: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    **{f"int{width}": getattr(pa, f"int{width}")() for width in (8, 16, 32, 64)},
    **{f"uint{width}": getattr(pa, f"uint{width}")() for width in (8, 16, 32, 64)},
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "large_text": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date": pa.date32(),
    "date64": pa.date64(),
}
_ALIASES = {
    "boolean": "bool",
    "int": "int64",
    "float": "float64",
    "double": "float64",
    "str": "text",
    "string": "text",
    "large_string": "large_text",
    "bytes": "binary",
    "date32": "date",
    "date32[day]": "date",
    "date64[ms]": "date64",
    "timestamp": "timestamp[us]",
    "duration": "duration[us]",
    "time": "time64[us]",
}
_NAMES = {type_: name for name, type_ in _NAMED.items()}
_WITH_UNIT = re.compile(
    r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)(?:, *(?:tz=)?([^\]]+))?\]"
)
_DECIMAL = re.compile(r"decimal(?:128)?\((\d{1,2}), *(-?\d{1,2})\)")


def type_name(type_: pa.DataType) -> str:
    """Return the name of a type as `parse_type` reads it (Arrow's own for types without one)."""
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_timestamp(type_):
        return f"timestamp[{type_.unit}{f', {type_.tz}' if type_.tz else ''}]"
    if pa.types.is_decimal128(type_):
        return f"decimal128({type_.precision}, {type_.scale})"
    if pa.types.is_dictionary(type_):
        return f"dictionary of {type_name(type_.value_type)}"
    return str(type_)


def parse_type(name: str) -> pa.DataType:
    """Return the type of a name such as ``"int64"``, ``"timestamp[us, UTC]"`` or ``"text"``.

    Raises ExpressionTypeError for a name that is none, with the nearest one.
    """
    folded = _ALIASES.get(name.strip(), name.strip())
    if folded in _NAMED:
        return _NAMED[folded]
    if match := _WITH_UNIT.fullmatch(folded):
        return _unit_type(name, *match.groups())
    if match := _DECIMAL.fullmatch(folded):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and 0 <= scale <= precision:
            return pa.decimal128(precision, scale)
    known = [*_NAMED, *_ALIASES, "timestamp[us, UTC]", "time32[s]", "decimal128(10, 2)"]
    match_name = nearest(name, known)
    raise ExpressionTypeError(
        f"no type {name!r}",
        hint=(f"did you mean {match_name!r}?   " if match_name else "")
        + f"types: {', '.join(_NAMED)}, timestamp[unit], timestamp[unit, zone], duration[unit], "
        "time32[unit], time64[unit], decimal128(precision, scale)",
        type=name,
    )


def named_type(kind: Any) -> Any:
    """Return the name of a type of Arrow or Python; what is neither, such as a name, as it is."""
    if isinstance(kind, pa.DataType):
        return type_name(kind)
    return _OF_PYTHON.get(kind, kind) if isinstance(kind, type) else kind


_OF_PYTHON: dict[Any, str] = {bool: "bool", int: "int64", float: "float64", str: "string"}


def _unit_type(name: str, kind: str, unit: str, zone: str | None) -> pa.DataType:
    if kind == "timestamp":
        if zone is not None:
            check_zone(zone)
        return pa.timestamp(unit, zone)
    units = {"duration": UNITS, "time32": ("s", "ms"), "time64": ("us", "ns")}[kind]
    if zone is not None or unit not in units:
        raise ExpressionTypeError(
            f"no type {name!r}", hint=f"{kind} takes a unit of {', '.join(units)}", type=name
        )
    return getattr(pa, kind)(unit)


_OFFSET_ZONE = re.compile(r"[+-]([01]\d|2[0-3]):[0-5]\d")
_KNOWN_ZONES = 1024


@functools.lru_cache(_KNOWN_ZONES)
def is_zone(zone: str) -> bool:
    """Return whether Arrow and Python both know a time zone by this name, or it is an offset."""
    if _OFFSET_ZONE.fullmatch(zone):
        return True
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    # Arrow has a database of its own, which may be absent on Windows: Python's alone decides then.
    return _arrow_knows(zone) or not _arrow_knows("UTC")


def _arrow_knows(zone: str) -> bool:
    import pyarrow.compute as pc

    try:
        pc.local_timestamp(pa.nulls(1, pa.timestamp("s", zone)))
    except pa.ArrowException:
        return False
    return True


def check_zone(zone: str) -> None:
    """Raise ``ExpressionTypeError`` where a time zone is not one of the tz database."""
    if not is_zone(zone):
        raise ExpressionTypeError(
            f"no time zone {zone!r}",
            hint="zones are named like 'UTC', 'Europe/Paris' or '+02:00'",
            zone=zone,
        ) from None


# --- rules ----------------------------------------------------------------------------------------


def narrowest_integer(value: int, *, unsigned: bool = False) -> pa.DataType:
    """Return the narrowest type that holds an integer.

    Signed, unless ``unsigned`` is asked for (a non-negative literal beside an unsigned operand) or
    only ``uint64`` holds it.
    """
    if not unsigned or value < 0:
        for width in (8, 16, 32, 64):
            if -(1 << (width - 1)) <= value < 1 << (width - 1):
                return _NAMED[f"int{width}"]
    for width in (8, 16, 32, 64):
        if 0 <= value < 1 << width:
            return _NAMED[f"uint{width}"]
    raise ExpressionTypeError(
        f"the integer {shown(value)} does not fit 64 bits",
        hint="write it as a float, or as a decimal",
        value=shown(value),
    )


def integer_type(width: int, *, signed: bool) -> pa.DataType:
    """Return the integer type of a width, at most 64 bits."""
    return _NAMED[f"{'int' if signed else 'uint'}{min(width, 64)}"]


def is_signed(type_: pa.DataType) -> bool:
    """Say whether an integer type is signed."""
    return bool(pa.types.is_signed_integer(type_))


def finest_unit(*types: pa.DataType) -> str:
    """Return the finest time unit among types that have one."""
    units: list[str] = [type_.unit for type_ in types]
    return max(units, key=UNITS.index)


def refuse(
    what: str, operands: tuple[Operand, ...] | list[Operand], hint: str, **facts: Any
) -> Any:
    """Raise ``ExpressionTypeError``: ``what`` cannot be done with these operands."""
    raise ExpressionTypeError(
        f"cannot {what}: " + " and ".join(str(operand) for operand in operands),
        hint=hint,
        operands=[operand.text for operand in operands],
        types=[type_name(operand.type) for operand in operands],
        **facts,
    )

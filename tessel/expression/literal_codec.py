"""Literal values as canonical text, exact for every type, and back.

The kinds ``"int"`` and ``"float"`` are plain Python numbers that adapt to what they meet; every
other kind is a type name of `types.type_name`.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, arrow_scalar
from tessel.errors import ExpressionError, shown
from tessel.expression.types import (
    DAY_NANOSECONDS,
    TEMPORAL,
    UNIT_NANOSECONDS,
    Family,
    family,
    parse_type,
    plain_type,
    type_name,
)

_ADAPTING = {"int": pa.int64(), "float": pa.float64()}
_PLAIN_KINDS = {pa.large_string(): "text", pa.large_binary(): "binary"}
_LITERAL_FAMILIES = frozenset(Family) - {Family.LIST, Family.STRUCT, Family.OTHER}


@functools.cache
def literal_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a kind (int64 and float64 for plain numbers)."""
    found = _ADAPTING.get(kind)
    if found is not None:
        return found
    type_ = parse_type(kind)
    if type_name(type_) != kind or kind_of(type_) != kind:
        raise ExpressionError(
            f"{kind!r} is not the type of a literal", hint=f"write {kind_of(type_) or 'text'!r}"
        )
    return type_


def kind_of(type_: pa.DataType) -> str | None:
    """Return the literal kind of values of a type; None where literals of it do not exist."""
    plain = plain_type(type_)
    if pa.types.is_fixed_size_binary(plain):
        plain = pa.binary()
    if family(plain) not in _LITERAL_FAMILIES or pa.types.is_decimal256(plain):
        return None
    return _PLAIN_KINDS.get(plain) or type_name(plain)


def plain_value(scalar: pa.Scalar) -> Any:
    """Return an Arrow scalar as the plain value that `encode` takes."""
    return scalar.value if family(scalar.type) in TEMPORAL else scalar.as_py()


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of an Arrow array as plain ones, None where one is null."""
    values = values.cast(plain_type(values.type))
    if family(values.type) in TEMPORAL:
        values = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32())
    found: list[Any] = values.to_pylist()
    return found


def encode(kind: str, value: Any) -> str:
    """Write a plain value as the canonical text of its kind."""
    return encoder(kind)(value)


@functools.cache
def encoder(kind: str) -> Callable[[Any], str]:
    """Return what writes plain values of a kind as their canonical text."""
    type_ = literal_type(kind)
    if family(type_) in TEMPORAL:
        return _temporal_encoder(type_)
    match family(type_):
        case Family.NULL:
            return lambda value: "null"
        case Family.BOOL:
            return lambda value: "true" if value else "false"
        case Family.FLOAT:
            return lambda value: repr(float(value))
        case Family.BINARY:
            return lambda value: str(value.hex())
        case Family.DECIMAL:
            return lambda value: format(value, "f")
        case _:
            return str


def _temporal_encoder(type_: pa.DataType) -> Callable[[Any], str]:
    from tessel.expression import temporal

    match family(type_):
        case Family.TIMESTAMP:
            aware = type_.tz is not None
            return functools.partial(temporal.format_instant, unit=type_.unit, aware=aware)
        case Family.DATE:
            return functools.partial(_date_text, type_=type_)
        case Family.TIME:
            return lambda value: temporal.format_time(value * UNIT_NANOSECONDS[type_.unit])
        case _:
            return functools.partial(temporal.format_duration, unit=type_.unit)


def _date_text(value: int, type_: pa.DataType) -> str:
    from tessel.expression import temporal

    if pa.types.is_date32(type_):
        text = temporal.format_instant(value * 86_400, "s", aware=False)
        return f"@{value}" if text.startswith("@") else text[:10]
    text = temporal.format_instant(value, "ms", aware=False)
    return text[:10] if text.endswith("T00:00:00") else f"@{value}"


def decode(kind: str, content: str) -> Any:
    """Read the text of a kind as a plain value; ``ExpressionError`` where it is not one."""
    type_ = literal_type(kind)
    try:
        value = read(content, type_)
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        value = _nothing
    if value is _nothing:
        raise ExpressionError(
            f"{shown(content)} is not a {kind}", hint=_FORMS.get(family(type_), ""), kind=kind
        )
    if kind != "int":
        _fits(value, type_, content)
    return value


def check_canonical(kind: str, content: str) -> None:
    """Raise ``ExpressionError`` where a text is not the canonical one of a value of a kind."""
    if encode(kind, decode(kind, content)) != content:
        raise ExpressionError(
            f"{content!r} is not the canonical form of a {kind} literal",
            hint="make literals with lit(...)",
        )


def decode_all(kind: str, contents: Sequence[str]) -> list[Any]:
    """Read canonical texts of one kind as plain values."""
    type_ = literal_type(kind)
    convert = _CONVERTED.get(family(type_))
    if convert is not None:
        return list(map(convert, contents))
    if family(type_) is Family.TIMESTAMP:
        with contextlib.suppress(pa.ArrowInvalid):  # a year that Arrow does not read
            return plain_values(arrow_array(contents).cast(type_))
    return [decode(kind, content) for content in contents]


_CONVERTED: dict[Family, Callable[[str], Any]] = {
    Family.INTEGER: int,
    Family.FLOAT: float,
    Family.TEXT: str,
}

_nothing = object()
_FORMS = {
    Family.TIMESTAMP: "write an instant like '2024-01-31' or '2024-01-31T09:30:00.25Z'",
    Family.DATE: "write a date like '2024-01-31'",
    Family.TIME: "write a time of day like '09:30:00'",
    Family.DURATION: "write a duration like '1h30min' (units d h min s ms us ns)",
}


def _fits(value: Any, type_: pa.DataType, content: str) -> None:
    try:
        arrow_scalar(value, type_)
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise ExpressionError(
            f"{shown(content)} does not fit {type_name(type_)}", hint="take a wider type"
        ) from error


def read(content: str, type_: pa.DataType) -> Any:
    """Read text as a plain value of a type; a ``ValueError`` or a marker where it is not one."""
    match family(type_):
        case Family.NULL:
            return None if content == "null" else _nothing
        case Family.BOOL:
            return {"true": True, "false": False}.get(content, _nothing)
        case Family.INTEGER:
            return int(content) if content.removeprefix("-").isdecimal() else _nothing
        case Family.FLOAT:
            value = float(content)
            if not pa.types.is_float32(type_) or not math.isfinite(value):
                return value
            with np.errstate(over="ignore"):  # infinite, as a float of 64 bits is past 1.8e308
                return float(np.float32(value))
        case Family.TEXT:
            return content
        case Family.BINARY:
            return bytes.fromhex(content)
        case Family.DECIMAL:
            exact = decimal.Decimal(content)
            return exact.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=_EXACT)
        case _:
            return _read_temporal(content, type_)


_EXACT = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])


def _read_temporal(content: str, type_: pa.DataType) -> Any:
    from tessel.expression import temporal

    if content.startswith("@"):
        return int(content[1:])
    match family(type_):
        case Family.TIMESTAMP:
            instant = temporal.parse_instant(content)
            if instant is None or (instant.offset_seconds is not None and type_.tz is None):
                return _nothing
            return _in_unit(instant.epoch_ns(type_.tz), type_.unit)
        case Family.DATE:
            instant = temporal.parse_instant(content)
            if instant is None or not instant.date_only:
                return _nothing
            days = instant.wall_ns // DAY_NANOSECONDS
            return days if pa.types.is_date32(type_) else days * 86_400_000
        case Family.TIME:
            return _in_unit(temporal.parse_time(content), type_.unit)
        case _:
            return _in_unit(temporal.parse_duration(content), type_.unit)


def _in_unit(nanoseconds: int | None, unit: str) -> Any:
    if nanoseconds is None:
        return _nothing
    count, rest = divmod(nanoseconds, UNIT_NANOSECONDS[unit])
    return _nothing if rest else count


def source_text(kind: str, content: str) -> str:
    """Return a literal as the text grammar reads it."""
    if kind in ("null", "bool", "int") or (kind == "float" and content.strip("-")[0].isdigit()):
        return content
    quoted = "'" + content.replace("'", "''") + "'"
    return quoted if kind == "text" else f"{kind} {quoted}"


def label(kind: str, content: str, value: Any) -> str:
    """Return a literal as plans show it: ``Int64(1000)``, ``Text("a")``."""
    if kind == "int":
        return f"{'Int64' if value < 1 << 63 else 'UInt64'}({content})"
    shown = f'"{content}"' if kind == "text" else content
    named = {"float": "Float64", "null": "Null", "bool": "Bool", "text": "Text"}.get(kind)
    if named is None:
        named = kind.replace("uint", "UInt", 1) if kind.startswith("uint") else kind.capitalize()
    return f"{named}({shown})"

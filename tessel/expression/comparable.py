"""What can be compared with what, and the types in which the comparison is exact."""

from __future__ import annotations

import decimal

import pyarrow as pa

from tessel.errors import ExpressionTypeError
from tessel.expression import literal_codec
from tessel.expression.leaves import Literal
from tessel.expression.promotion import adapted, common_integer, refuse_mixed_zones, same_family
from tessel.expression.types import (
    FAMILY_WORDS,
    NUMBERS,
    TEMPORAL,
    UNIT_NANOSECONDS,
    Family,
    Operand,
    is_signed,
    refuse,
    type_name,
)

_EXACT_IN_FLOAT64 = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())


def comparison_inputs(left: Operand, right: Operand) -> tuple[pa.DataType, pa.DataType]:
    """Return the types to which two operands are cast before they are compared.

    The pair differs only where no common type holds both exactly (int64 with uint64, 64-bit
    integers with floats, timestamps of different units); the kernel compares those pairwise.
    """
    left, right = literal_beside(left, right), literal_beside(right, left)
    left, right = adapted(left, (right,)), adapted(right, (left,))
    one, two = left.type, right.type
    families = {left.family, right.family}
    if Family.NULL in families:
        known = two if left.family is Family.NULL else one
        return known, known
    if one == two and left.family not in (Family.LIST, Family.STRUCT, Family.OTHER):
        return one, two
    if families == {Family.INTEGER}:
        return _integers(one, two)
    if families == {Family.FLOAT}:
        return pa.float64(), pa.float64()
    if families == {Family.INTEGER, Family.FLOAT}:
        return _exact_number(one), _exact_number(two)
    if Family.DECIMAL in families:
        return _decimals(left, right)
    if len(families) == 1:
        same = _same_family(left, right)
        if same is not None:
            return same
    return _refuse_comparison(left, right)


def _integers(one: pa.DataType, two: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    if pa.uint64() in (one, two) and is_signed(one) != is_signed(two):
        return tuple(t if t == pa.uint64() else pa.int64() for t in (one, two))
    shared = common_integer(one, two)
    return shared, shared


def _exact_number(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(type_) or type_ in _EXACT_IN_FLOAT64:
        return pa.float64()
    return type_


def _decimals(left: Operand, right: Operand) -> tuple[pa.DataType, pa.DataType]:
    if not {left.family, right.family} <= {Family.DECIMAL, Family.INTEGER}:
        _refuse_comparison(left, right)
    scale = max(o.type.scale if o.family is Family.DECIMAL else 0 for o in (left, right))
    shared = pa.decimal256(38 + scale if scale <= 38 else 76, scale)
    return shared, shared


def _same_family(left: Operand, right: Operand) -> tuple[pa.DataType, pa.DataType] | None:
    one, two = left.type, right.type
    match left.family:
        case Family.TIMESTAMP:
            refuse_mixed_zones("compare", left, right)
            # the zone plays no part in comparing instants
            zone = one.tz and "UTC"
            return pa.timestamp(one.unit, zone), pa.timestamp(two.unit, zone)
        case Family.DURATION:
            return one, two
        case _:
            same = same_family("compare", left, right)
            return None if same is None else (same, same)


def literal_beside(operand: Operand, other: Operand) -> Operand:
    """Return a text literal beside a temporal operand, or a float beside a decimal, as that."""
    literal = operand.literal
    if literal is None:
        return operand
    fitted = fitted_literal(literal, other)
    return Operand(fitted.type, operand.written, fitted)


def fitted_literal(literal: Literal, other: Operand) -> Literal:
    """Return a literal as it is read beside an operand.

    Text beside a timestamp, date, time or duration is read as one; text without a zone takes the
    column's. A float beside a decimal is the decimal it is written as.
    """
    if literal.kind == "text" and other.family in TEMPORAL:
        found = _read_beside(literal.content, other)
        if isinstance(found, str):
            raise ExpressionTypeError(
                f"cannot compare {other} with {literal}: {found}",
                hint=f"write {_FORMS[other.family]}",
                operands=[other.text, str(literal)],
                types=[type_name(other.type), "text"],
            )
        return found
    if literal.kind == "float" and other.family is Family.DECIMAL:
        return _decimal_literal(literal)
    return literal


_FORMS = {
    Family.TIMESTAMP: "an instant like '2024-01-31' or '2024-01-31T09:30:00Z'",
    Family.DATE: "a date like '2024-01-31'; cast the column for a time of day",
    Family.TIME: "a time of day like '09:30:00'",
    Family.DURATION: "a duration like '1h30min'",
}


def _read_beside(content: str, other: Operand) -> Literal | str:
    from tessel.expression import temporal

    family, type_ = other.family, other.type
    if family is Family.TIMESTAMP:
        instant = temporal.parse_instant(content)
        if instant is None:
            return "the text is not an instant"
        if instant.offset_seconds is not None and type_.tz is None:
            return "the text has a time zone and the column has none"
        return _timed("timestamp", instant.epoch_ns(type_.tz), type_, type_.tz and "UTC")
    if family is Family.DATE:
        instant = temporal.parse_instant(content)
        if instant is None or not instant.date_only:
            return "the text is not a date"
        kind = type_name(type_)
        return Literal(kind, literal_codec.encode(kind, literal_codec.read(content, type_)))
    reader = temporal.parse_time if family is Family.TIME else temporal.parse_duration
    nanoseconds = reader(content)
    if nanoseconds is None:
        return f"the text is not {FAMILY_WORDS[family]}"
    prefix = "duration"
    if family is Family.TIME:
        unit = temporal.unit_holding(nanoseconds, type_.unit)
        prefix = "time32" if unit in ("s", "ms") else "time64"
    return _timed(prefix, nanoseconds, type_, None)


def _timed(prefix: str, nanoseconds: int, beside: pa.DataType, zone: str | None) -> Literal:
    from tessel.expression import temporal

    unit = temporal.unit_holding(nanoseconds, beside.unit)
    kind = f"{prefix}[{unit}{f', {zone}' if zone else ''}]"
    return Literal(kind, literal_codec.encode(kind, nanoseconds // UNIT_NANOSECONDS[unit]))


def _decimal_literal(literal: Literal) -> Literal:
    value = decimal.Decimal(literal.content)
    if not value.is_finite():
        return literal
    digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        return literal
    kind = f"decimal128({precision}, {scale})"
    return Literal(
        kind, literal_codec.encode(kind, value.quantize(decimal.Decimal(1).scaleb(-scale)))
    )


def _refuse_comparison(left: Operand, right: Operand) -> tuple[pa.DataType, pa.DataType]:
    hint = _hint(left, right) or _hint(right, left)
    refuse(
        "compare",
        (left, right),
        hint or "cast one side with .cast(...) so that both are of one kind",
    )
    raise AssertionError


def _hint(one: Operand, two: Operand) -> str | None:
    match one.family, two.family:
        case Family.TEXT, other if other in NUMBERS:
            if two.literal is not None:
                return f"compare with text, '{two.text}', or cast: {one.text} as .cast('float64')"
            return "cast the text with .cast('float64'), or the number with .cast('text')"
        case Family.TIMESTAMP, other if other in NUMBERS:
            seconds = type_name(pa.timestamp("s", one.type.tz))
            return (
                "compare with an instant like '2024-01-31T09:30:00'; a count since the epoch "
                f"can be cast with .cast({seconds!r})"
            )
        case Family.BOOL, other if other in NUMBERS:
            return "compare with True or False, or use the truth value itself; .cast('int8') counts"
        case Family.TIMESTAMP, Family.DATE:
            instants = type_name(pa.timestamp("us", one.type.tz))
            as_text = (
                f", or write it as text, {two.literal.content!r}" if two.literal is not None else ""
            )
            return f"compare dates with .date(), or cast the date with .cast({instants!r}){as_text}"
        case Family.DECIMAL, Family.FLOAT:
            return "cast the decimal with .cast('float64'), or write the number as a Decimal"
        case Family.LIST | Family.STRUCT, _:
            return (
                "lists and structs are not compared as a whole; reach a field with .field('name')"
            )
        case _:
            return None

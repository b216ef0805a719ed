"""Changing types: cast, and reaching a field of a struct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.errors import ColumnNotFoundError, ExpressionTypeError
from tessel.expression.leaves import Literal, as_expression
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import require
from tessel.expression.operators.time import instants, local_time, zoned_text
from tessel.expression.types import (
    NUMBERS,
    TEMPORAL,
    UNIT_NANOSECONDS,
    Family,
    Operand,
    Signature,
    family,
    named_type,
    parse_type,
    refuse,
    type_name,
)
from tessel.expression.values import Value, nan_to_null


def _from_timestamp(value: Value, result: pa.DataType) -> Value:
    zone = value.type.tz
    if pa.types.is_integer(result):
        return pc.cast(pc.cast(value, pa.int64()), result)
    if pa.types.is_timestamp(result):
        if zone is not None and result.tz is None:
            value = local_time(value)
        elif zone is None and result.tz is not None:
            return _to_zone(value, result)
        return pc.cast(value, result)
    if zone is not None:
        value = zoned_text(value) if pa.types.is_string(result) else local_time(value)
    if pa.types.is_date(result):
        return pc.cast(pc.cast(value, pa.date32()), result)
    return pc.cast(value, result)


def _to_zone(wall: Value, result: pa.DataType) -> Value:
    return pc.cast(instants(wall, result.tz), result)


_NUMBERS, _TEMPORAL = frozenset(NUMBERS), frozenset(TEMPORAL)
_CASTS: dict[Family, frozenset[Family]] = {
    Family.BOOL: frozenset({Family.BOOL, Family.INTEGER, Family.FLOAT, Family.TEXT}),
    Family.INTEGER: _NUMBERS | _TEMPORAL | {Family.BOOL, Family.TEXT},
    Family.FLOAT: _NUMBERS | {Family.TEXT},
    Family.DECIMAL: _NUMBERS | {Family.TEXT},
    Family.TEXT: _NUMBERS
    | (_TEMPORAL - {Family.DURATION})
    | {Family.TEXT, Family.BOOL, Family.BINARY},
    Family.BINARY: frozenset({Family.BINARY, Family.TEXT}),
    Family.TIMESTAMP: frozenset(
        {Family.TIMESTAMP, Family.DATE, Family.TIME, Family.INTEGER, Family.TEXT}
    ),
    Family.DATE: frozenset({Family.DATE, Family.TIMESTAMP, Family.INTEGER, Family.TEXT}),
    Family.TIME: frozenset({Family.TIME, Family.INTEGER, Family.TEXT}),
    Family.DURATION: frozenset({Family.DURATION, Family.INTEGER}),
}


class Cast(Expression, name="cast"):
    """The operand as another type. A value that does not fit raises; nothing is cut."""

    operand: Expression
    target: str

    @classmethod
    def of(cls, *arguments: object) -> Self:
        """Make a cast; the type may be an Arrow type or any of its names."""
        if len(arguments) == 2:
            target = arguments[1]
            if isinstance(target, Literal):
                target = target.value
            target = named_type(target)
            if isinstance(target, str):
                return cls(as_expression(arguments[0]), type_name(parse_type(target)))
            raise ExpressionTypeError(
                f"cast takes a type, not {target!r}", hint="cast('float64') or cast(pa.float64())"
            )
        return super().of(*arguments)

    def check(self) -> None:
        """Raise where the target is no type that values are cast to."""
        require_text(self.target, "the type of a cast")
        if type_name(parse_type(self.target)) != self.target:
            raise ExpressionTypeError(f"{self.target!r} is not the name of a type")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the target type."""
        target = parse_type(self.target)
        (operand,) = operands
        allowed = _CASTS.get(operand.family, frozenset())
        if (
            operand.family is not Family.NULL
            and operand.type != target
            and family(target) not in allowed
        ):
            words = ", ".join(sorted(item.value for item in allowed)) or "nothing else"
            refuse(f"cast to {self.target}", (operand,), f"it can become: {words}")
        return Signature((operand.type,), target)

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Cast to the result type."""
        (value,) = values
        source = value.type
        if source == result:
            return value
        if pa.types.is_floating(source) and not pa.types.is_floating(result):
            value = nan_to_null(value)
        if pa.types.is_timestamp(source):
            return _from_timestamp(value, result)
        if pa.types.is_timestamp(result) and result.tz is not None and pa.types.is_date(source):
            return _to_zone(pc.cast(value, pa.timestamp(result.unit)), result)
        if pa.types.is_floating(result) and not pa.types.is_string(source):
            return pc.cast(value, result, safe=False)
        if pa.types.is_integer(source) and pa.types.is_decimal(result):
            return pc.cast(pc.cast(value, pa.decimal128(20, 0)), result)
        if pa.types.is_temporal(source) and pa.types.is_integer(result):
            width = pa.int64() if source.bit_width == 64 else pa.int32()
            return pc.cast(pc.cast(value, width), result)
        if pa.types.is_integer(source) and pa.types.is_temporal(result):
            width = pa.int64() if result.bit_width == 64 else pa.int32()
            return pc.cast(_in_range(pc.cast(value, width), result), result)
        if pa.types.is_string(source) and pa.types.is_time(result):
            return _time_of_text(value, result)
        return pc.cast(value, result)


def _time_of_text(texts: Value, kind: pa.DataType) -> Value:
    """Return times of day that text tells, which Arrow reads as part of an instant only."""
    whole = pc.binary_join_element_wise(arrow_scalar(_A_DAY), texts, arrow_scalar(""))
    try:
        return pc.cast(pc.cast(whole, pa.timestamp(kind.unit)), kind)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(str(error).replace(_A_DAY, "")) from error


def _in_range(counts: Value, kind: pa.DataType) -> Value:
    """Return the counts of a temporal type; Arrow checks the width of such integers alone.

    Raises pyarrow.ArrowInvalid, as a cast does, where the type does not hold one of them.
    """
    if pa.types.is_time(kind):
        day = arrow_scalar(86_400 * 10**9 // UNIT_NANOSECONDS[kind.unit], counts.type)
        within = pc.and_(
            pc.greater_equal(counts, arrow_scalar(0, counts.type)), pc.less(counts, day)
        )
        if pc.all(within).as_py() is False:
            raise pa.ArrowInvalid("a time of day is at least 0 and less than a day")
    elif kind == pa.date64():
        day = arrow_scalar(86_400_000)
        days = pc.multiply(pc.divide(counts, day), day)
        if pc.all(pc.equal(days, counts)).as_py() is False:
            raise pa.ArrowInvalid("date64 holds whole days")
    return counts


_A_DAY = "1970-01-01T"


class Field(Expression, name="field"):
    """A field of a struct."""

    operand: Expression
    field_name: str

    def check(self) -> None:
        """Raise where the name is not text."""
        require_text(self.field_name, "a field name")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the field's type; an unknown field raises with the nearest name."""
        (operand,) = operands
        require("field", operand, Family.STRUCT)
        if operand.family is Family.NULL:
            return Signature((operand.type,), pa.null())
        names = [operand.type.field(place).name for place in range(operand.type.num_fields)]
        if self.field_name not in names:
            raise ColumnNotFoundError.for_name(
                self.field_name, names, where=f"the struct {operand.text}"
            )
        return Signature((operand.type,), operand.type.field(names.index(self.field_name)).type)

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Reach a field of a struct; missing where the struct is."""
        (value,) = values
        if pa.types.is_null(value.type):
            return value
        return pc.struct_field(value, self.field_name)

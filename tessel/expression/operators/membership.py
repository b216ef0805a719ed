"""Whether a value is in a set, what a table has beside it, and whether there is a value at all."""

from __future__ import annotations

import binascii
import decimal
import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.cached import cached
from tessel.errors import PlanFormatError
from tessel.expression import literal_codec
from tessel.expression.comparable import comparison_inputs, fitted_literal
from tessel.expression.leaves import Literal, ValueSet
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import Unary
from tessel.expression.printing import Piece, Sub
from tessel.expression.types import (
    UNIT_NANOSECONDS,
    Family,
    Operand,
    Signature,
    family,
    refuse,
    type_name,
)
from tessel.expression.values import Value, nan_to_null

_DAY_MS = 86_400_000


def members(values: ValueSet, type_: pa.DataType) -> tuple[pa.Array, bool]:
    """Return the values of a set that a column of a type can equal, and whether one is missing."""
    kept: dict[pa.DataType, tuple[pa.Array, bool]] = values.__dict__.setdefault("_members", {})
    if type_ not in kept:  # asked for by the planner, by statistics and for each unit
        kept[type_] = _members(values, type_)
    return kept[type_]


def _members(values: ValueSet, type_: pa.DataType) -> tuple[pa.Array, bool]:
    beside = Operand(type_, "")
    found: list[Any] = []
    has_missing = False
    for kind, contents in values.by_kind.items():
        first = Literal(kind, contents[0])
        if fitted_literal(first, beside) is first:  # and so are all of its kind
            several = [(kind, literal_codec.decode_all(kind, contents))]
        else:
            fitted = (fitted_literal(Literal(kind, each), beside) for each in contents)
            several = [(each.kind, [each.value]) for each in fitted]
        for kind_beside, plain in several:
            present = [value for value in plain if value is not None and value == value]
            has_missing |= len(present) < len(plain)
            if present:  # of missing values alone there is no unit to come from
                found += _exact(kind_beside, present, type_)
    if pa.types.is_floating(type_) and 0.0 in found:
        # the hash of Arrow's lookup tells the two zeros apart
        found += [0.0, -0.0]
    if pa.types.is_floating(type_):
        return arrow_array(np.array(found, dtype=np.float64)).cast(type_), has_missing
    if pa.types.is_temporal(type_):
        stored = pa.int64() if type_.bit_width == 64 else pa.int32()
        return arrow_array(found, stored).view(type_), has_missing
    return arrow_array(found, type_), has_missing


def _exact(kind: str, values: list[Any], type_: pa.DataType) -> list[Any]:
    """Return the values of a type that equal literals of a kind, for those that any equals."""
    own = literal_codec.literal_type(kind)
    match family(type_):
        case Family.INTEGER:
            low = 0 if pa.types.is_unsigned_integer(type_) else -(1 << (type_.bit_width - 1))
            high = low + (1 << type_.bit_width)  # comparing is exact, with infinities too
            return [int(value) for value in values if low <= value < high and value == int(value)]
        case Family.FLOAT:
            if pa.types.is_float64(type_) and pa.types.is_floating(own):
                return values
            real = (_real(kind, value, type_) for value in values)
            return [value for value in real if value is not None]
        case Family.DECIMAL:
            decimals = (_decimal(value, type_) for value in values)
            return [value for value in decimals if value is not None]
        case Family.TIMESTAMP | Family.DURATION | Family.TIME:
            return _scaled(values, UNIT_NANOSECONDS[own.unit], UNIT_NANOSECONDS[type_.unit], type_)
        case Family.DATE:
            times, by = (_DAY_MS if pa.types.is_date32(each) else 1 for each in (own, type_))
            return _scaled(values, times, by, type_)
        case _:
            return values


def _scaled(values: list[int], times: int, by: int, type_: pa.DataType) -> list[int]:
    most = 1 << (type_.bit_width - 1)
    counts = (divmod(value * times, by) for value in values)
    return [count for count, rest in counts if not rest and -most <= count < most]


def _real(kind: str, value: Any, type_: pa.DataType) -> float | None:
    if not isinstance(value, float):
        real = float(value)
        if real != value:
            return None
        value = real
    if not pa.types.is_float32(type_):
        return float(value)
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    adapts = kind == "float" and (math.isfinite(single) or not math.isfinite(value))
    return single if adapts or single == value else None


def _decimal(value: Any, type_: pa.DataType) -> decimal.Decimal | None:
    context = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        fitted = decimal.Decimal(value).quantize(
            decimal.Decimal(1).scaleb(-type_.scale), context=context
        )
    except (decimal.Inexact, decimal.InvalidOperation):
        return None
    return fitted if len(fitted.as_tuple().digits) <= type_.precision else None


class IsIn(Expression, name="is_in", precedence=4):
    """True where the operand equals one of the values; Kleene where a value is null."""

    operand: Expression
    values: ValueSet

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value, where every value can be compared with the operand."""
        (operand,) = operands
        for kind, contents in self.values.by_kind.items():
            for content in contents:
                value = Literal(kind, content)
                comparison_inputs(operand, Operand(value.type, value, value))
                if fitted_literal(value, operand) is value:
                    break  # what is not read anew beside the operand is refused by its kind alone
        return Signature((operand.type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x in (1, 2)``."""
        return (Sub(self.operand, 5), f" in {self.values}")

    def label(self) -> Iterable[Piece]:
        """Return ``(x IN (Int64(1), …))``."""
        yield "("
        yield Sub(self.operand)
        yield " IN ("
        for place, value in enumerate(self.values):
            yield ", " if place else ""
            yield from value.label()
        yield "))"

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Look values up in the set; missing ones give missing, unless the set is empty."""
        (value,) = values
        null = arrow_scalar(None, pa.bool_())
        if not len(self.values):
            return pc.and_(pc.is_null(value), arrow_scalar(False))
        if pa.types.is_null(value.type):
            return pc.cast(value, pa.bool_())
        value = nan_to_null(value)
        found, has_missing = members(self.values, value.type)
        inside = pc.is_in(value, value_set=found)
        if has_missing:
            inside = pc.if_else(inside, inside, null)
        return pc.if_else(pc.is_valid(value), inside, null)


class Lookup(Expression, name="lookup"):
    """The value that a table has beside a key; missing where the table does not have the key.

    The planner makes it of a join with few rows, each of which has a key of its own.

    Attributes
    ----------
    operand
        The key, of exactly the type of the table's keys.
    table
        An Arrow IPC stream in base64, of two columns: keys, each once and none missing, and the
        values beside them.
    """

    operand: Expression
    table: str

    @classmethod
    def of_columns(cls, operand: Expression, keys: pa.Array, values: pa.Array) -> Self:
        """Make the look-up of an operand from both columns of the table."""
        batch = pa.record_batch([keys, values], names=["key", "value"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return cls(operand, binascii.b2a_base64(sink.getvalue(), newline=False).decode())

    def check(self) -> None:
        """Raise where the table is none, or a key stands in it twice."""
        require_text(self.table, "the table of a lookup")
        keys, _ = self.columns_of_table
        if keys.null_count or pc.count_distinct(keys).as_py() < len(keys):
            raise PlanFormatError(f"{self.name}: a key is missing, or stands in the table twice")

    @cached
    def columns_of_table(self) -> tuple[pa.Array, pa.Array]:
        """The keys, and the values beside them."""
        try:
            with pa.ipc.open_stream(binascii.a2b_base64(self.table, strict_mode=True)) as reader:
                table = reader.read_all().combine_chunks()
            table.validate(full=True)
            keys, values = (column.combine_chunks() for column in table.columns)
        except (ValueError, OSError, MemoryError, pa.ArrowException) as error:
            raise PlanFormatError(f"{self.name} holds no table of two columns: {error}") from error
        return keys, values

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the type of the values, for an operand of the type of the keys."""
        (operand,) = operands
        keys, values = self.columns_of_table
        if operand.type != keys.type:
            hint = f"the keys of the table are {type_name(keys.type)}; cast the operand to it"
            refuse("look up", operands, hint)
        return Signature((keys.type,), values.type)

    def label(self) -> Iterable[Piece]:
        """Return ``LOOKUP(x, 12 keys)``."""
        yield "LOOKUP("
        yield Sub(self.operand)
        yield f", {len(self.columns_of_table[0])} keys)"

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Return what the table has beside each key."""
        (value,) = values
        keys, beside = self.columns_of_table
        if isinstance(value, pa.Scalar):
            place = pc.index_in(value, value_set=keys)
            return beside[place.as_py()] if place.is_valid else arrow_scalar(None, result)
        return beside.take(pc.index_in(value, value_set=keys))


class IsMissing(Unary, name="is_missing", precedence=4):
    """True where the operand is null or NaN; never missing itself."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value; every type is taken."""
        return Signature((operands[0].type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x is missing``."""
        return (Sub(self.operand, 5), " is missing")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Say where a value is null or NaN."""
        (value,) = values
        return pc.is_null(value, nan_is_null=pa.types.is_floating(value.type))

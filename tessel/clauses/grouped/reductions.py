"""Reductions of stored columns by group or by run, one by one, and the fields that kernels reduce.

:mod:`~tessel.clauses.grouped.kernel_reductions` enters here with the columns of a reduction. Sums
of scaled decimals add integers and the rounding residue of each value. Sums of other doubles add
fixed-point limbs. Products are split into a rounded part and its error. Extremes compare stored
integers where these have the order of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, arrow_scalar, numpy_array
from tessel.clauses.grouped.group_reductions import ReducedParts
from tessel.clauses.values import is_temporal, plain_type
from tessel.expression.encoded import BlockProgram, Number
from tessel.expression.schema import TableSchema
from tessel.kernels.decimal_sums import DecimalSum
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.fields import (
    EXTREMES,
    FieldKind,
    FieldResult,
    SumField,
)
from tessel.lazy import dataclass

__all__ = [
    "MAKERS",
    "WORST",
    "ReducedColumns",
    "Reduction",
    "is_numeric",
    "is_reducible",
    "of_some",
    "typed_values",
]

_FRACTION_BITS = 53
_SIGN = 63
_LARGEST_PRODUCT = 1 << 62

WORST = {
    FieldKind.LEAST: int(np.iinfo(np.int64).max),
    FieldKind.GREATEST: int(np.iinfo(np.int64).min),
}
"""What kernels begin the search for an extreme with."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Reduction:
    """One reduction, such as the sum of a column.

    Attributes
    ----------
    fields
        What kernels reduce for it.
    to_parts
        Turns the results of the fields, in their order, into parts that can be merged with those of
        other segments.
    finish
        Turns merged parts, and the number of values of each group, into the result.
    better
        The extreme of two parts; None for sums, which are added.
    entries
        The sorted dictionary whose row numbers the results are: its values are merged. None where
        the results are numbers.
    """

    fields: tuple[SumField, ...]
    to_parts: Callable[[list[FieldResult]], ReducedParts]
    finish: Callable[[Any, Integers], Any]
    better: np.ufunc | None = None
    entries: pa.Array | None = None


@dataclass(frozen=True)
class ReducedColumns:
    """The input columns of a reduction.

    Attributes
    ----------
    names
        In the order of the aggregate.
    known
        The truth register of the rows in which no column is missing; None for all rows.
    count
        The field that counts these rows; None for all rows.
    """

    names: tuple[str, ...]
    known: int | None
    count: SumField | None


def of_some(values: pa.Array, counts: Integers) -> pa.Array:
    """Return the results of groups, null for groups without a value."""
    if counts.all():
        return values
    return pc.if_else(arrow_array(counts > 0), values, arrow_scalar(None, values.type))


def is_reducible(which: str, kind: pa.DataType) -> bool:
    """Return whether kernels may do a reduction on stored columns of a type."""
    types = pa.types
    if is_numeric(kind) or types.is_float32(kind) or types.is_boolean(kind):
        return True
    if types.is_decimal128(kind):
        return which in ("sum", "least", "greatest")
    return types.is_string(kind) and which in ("least", "greatest")


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether stored numbers are the values of a type."""
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return True
    return is_temporal(kind) and not pa.types.is_date64(kind)


# --- sums -----------------------------------------------------------------------------------------


def _sum(program: BlockProgram, columns: ReducedColumns, schema: TableSchema) -> Reduction | None:
    """Plan the sum of the first column."""
    return _sum_of(program, columns.names[0], columns.known)


def _weights(
    program: BlockProgram, columns: ReducedColumns, schema: TableSchema
) -> Reduction | None:
    """Plan the sum of the second column."""
    return _sum_of(program, columns.names[1], columns.known)


def _sum_of(program: BlockProgram, name: str, known: int | None) -> Reduction | None:
    found = _summed(program, name, known)
    return None if found is None else Reduction(*found, _exact_sums)


def _exact_sums(parts: ReducedParts, counts: Integers) -> ExactSums:
    return ExactSums.of_parts(cast(Mapping[int, Integers], parts), len(counts))


def _products(
    program: BlockProgram, columns: ReducedColumns, schema: TableSchema
) -> Reduction | None:
    """Plan the sum of the products of two columns, or of the squares of one."""
    first, second, known = columns.names[0], columns.names[-1], columns.known
    one, other = program.number(first), program.number(second)
    if one is None or other is None:
        return None
    largest = _largest(one) * _largest(other)
    if not one.is_float and not other.is_float and largest < _LARGEST_PRODUCT:
        whole = SumField.of_integers(program.whole_product(one, other, known), int(largest))
        return Reduction((whole,), _only, _exact_sums)
    made = program.product(one, other, known)
    if made is None or not np.isfinite(float(largest)):
        return None
    product, error = made
    field = SumField.of_floats(product, float(largest))
    if not one.is_float and not other.is_float:
        field = replace(field, whole=True)
    # What rounding takes is at most half of the last bit.
    rest = replace(field, register=error, exponent=field.exponent - _FRACTION_BITS)
    # A tiny double would have a product below all doubles: its own limbs would tell.
    guards = [
        SumField.of_floats(
            program.chosen_float(number.register, known, 0.0), float(_largest(number))
        )
        for name, number in dict(zip((first, second), (one, other), strict=True)).items()
        if number.is_float and _decimal_sum(program, name) is None
    ]

    def sums(results: list[FieldResult]) -> dict[int, Integers]:
        parts: dict[int, Integers] = {}
        for result in results[:2]:
            for place, held in cast(dict[int, Integers], result).items():
                parts[place] = parts[place] + held if place in parts else held
        return parts

    return Reduction((field, rest, *guards), sums, _exact_sums)


def _only(results: list[FieldResult]) -> Mapping[int, Integers]:
    return cast(Mapping[int, Integers], results[0])


def _summed(
    program: BlockProgram, name: str, known: int | None
) -> tuple[tuple[SumField, ...], Callable[[list[FieldResult]], Mapping[int, Integers]]] | None:
    """Return the fields that sum a column, and what turns their results into sums by bit position.

    Rows that are not ``known`` add nothing.
    """
    decimal = _decimal_sum(program, name)
    if decimal is not None:
        integers = program.integers(name, known)
        residuals = program.residuals(name, decimal.up, known) if decimal.places else None
        return tuple(decimal.fields(integers, residuals)), lambda results: decimal.sums(
            cast(list[Mapping[int, Integers]], results)
        )
    number = program.number(name)
    if number is None:
        return None
    computed = None if number.scaled is None else DecimalSum.of(number.scaled.bounds)
    if computed is not None and number.scaled is not None:
        whole = program.whole(number.scaled, known)
        rest = program.float_residuals(number.register, number.scaled, computed.up, known)
        return tuple(computed.fields(whole, rest)), lambda results: computed.sums(
            cast(list[Mapping[int, Integers]], results)
        )
    largest = _largest(number)
    if not number.is_float:
        field = SumField.of_integers(program.chosen(number.register, known, 0), int(largest))
    elif np.isfinite(largest):
        register = program.chosen_float(number.register, known, 0.0)
        field = SumField.of_floats(register, float(largest))
    else:
        return None
    return (field,), _only


def _decimal_sum(program: BlockProgram, name: str) -> DecimalSum | None:
    """Return how a column of scaled decimals is summed; None for a column with other pages."""
    column = program.column(name)
    if column is None or column.exponents is None:
        return None
    scaled = program.scaled(name)
    return None if scaled is None else DecimalSum.of(scaled.bounds)


def _largest(number: Number) -> Any:
    return max(abs(number.low), abs(number.high))


# --- extremes -------------------------------------------------------------------------------------


def _least(program: BlockProgram, columns: ReducedColumns, schema: TableSchema) -> Reduction | None:
    return _extreme(program, columns, schema, FieldKind.LEAST, FieldKind.LEAST_FLOAT)


def _greatest(
    program: BlockProgram, columns: ReducedColumns, schema: TableSchema
) -> Reduction | None:
    return _extreme(program, columns, schema, FieldKind.GREATEST, FieldKind.GREATEST_FLOAT)


def _extreme(
    program: BlockProgram,
    columns: ReducedColumns,
    schema: TableSchema,
    of_integers: FieldKind,
    of_floats: FieldKind,
) -> Reduction | None:
    """Plan an extreme; of decimals of one scale it is that of their integers.

    Rows that are not known have what every value is better than.
    """
    (name,), known = columns.names, columns.known
    kind, worst = plain_type(schema.type_of(name)), WORST[of_integers]
    if pa.types.is_string(kind):
        return _extreme_text(program, columns, of_integers)
    column = program.column(name)
    if column is not None and column.places is not None:
        field = SumField(of_integers, program.chosen(program.integers(name), known, worst))
        return _extremes(field, kind, float(10**column.places))
    number = program.number(name)
    if number is None:
        return None
    if number.is_float:
        endless = np.inf if worst > 0 else -np.inf
        field = SumField(of_floats, program.chosen_float(number.register, known, endless))
    else:
        field = SumField(of_integers, program.chosen(number.register, known, worst))
    return _extremes(field, kind, None)


def _extreme_text(
    program: BlockProgram, columns: ReducedColumns, of_integers: FieldKind
) -> Reduction | None:
    """Plan the extreme of texts, which is that of their ranks in the sorted dictionary."""
    ranked = program.ranks(columns.names[0])
    if ranked is None:
        return None
    number, entries = ranked
    worst = WORST[of_integers]
    field = SumField(of_integers, program.chosen(number.register, columns.known, worst))
    return Reduction(
        (field,), lambda results: {}, lambda found, counts: None, EXTREMES[of_integers], entries
    )


def _extremes(field: SumField, kind: pa.DataType, divisor: float | None) -> Reduction:
    def values(results: list[FieldResult]) -> ReducedParts:
        found = cast(NDArray[Any], results[0])
        if divisor is not None:
            found = found / divisor
        if found.dtype == np.float64:
            found = found + 0.0  # −0.0 and 0.0 are equal, and which came first must not show
        return found

    def made(found: NDArray[Any], counts: Integers) -> pa.Array:
        # A group without a value holds the initial value of the field, which may not fit the type.
        held = found if counts.all() else np.where(counts > 0, found, 0)
        return of_some(typed_values(arrow_array(held), kind), counts)

    return Reduction((field,), values, made, EXTREMES[field.kind])


def typed_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return stored integers as values of a type."""
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind):
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = numpy_array(values)
        words[:, 1] = words[:, 0] >> _SIGN
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(words)])
    if is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return values.cast(kind)


MAKERS: dict[str, Callable[[BlockProgram, ReducedColumns, TableSchema], Reduction | None]] = {
    "greatest": _greatest,
    "least": _least,
    "products": _products,
    "sum": _sum,
    "weights": _weights,
}
"""The functions that plan a reduction, by the name that aggregates have for it."""

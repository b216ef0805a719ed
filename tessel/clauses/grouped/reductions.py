"""Reductions of stored columns by group or by run, one by one, and the fields that kernels reduce.

:mod:`~tessel.clauses.grouped.kernel_reductions` enters here with the columns of a reduction. Sums
of scaled decimals add integers and the rounding residue of each value. Sums of other doubles add
fixed-point limbs. Products of floats are split into a rounded part and its error, and integers
whose products have more than 64 bits into halves. Extremes compare stored integers where these have
the order of the values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.reductions import Extremes, of_some
from tessel.clauses.values import is_temporal, plain_type
from tessel.expression.block_columns import Number
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.decimal_sums import DecimalSum
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.fields import (
    FieldKind,
    FieldResult,
    SumField,
)
from tessel.lazy import dataclass

_LARGEST_PRODUCT = 1 << 62
"""Factors of larger products are split, so that products of their parts are not above it."""
_LARGEST_PART = 1 << 48
"""A bound on the size of each part of a sum of one segment."""

WORST = {
    FieldKind.LEAST: int(np.iinfo(np.int64).max),
    FieldKind.GREATEST: int(np.iinfo(np.int64).min),
}
"""What kernels begin the search for an extreme with."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class KernelReduction:
    """One reduction, such as the sum of a column.

    Attributes
    ----------
    fields
        What kernels reduce for it.
    to_state
        Turns the results of the fields, in their order, and the number of values of each group into
        the state of the reduction.
    """

    fields: tuple[SumField, ...]
    to_state: Callable[[list[FieldResult], Integers], Any]


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


def _is_reducible(which: str, kind: pa.DataType) -> bool:
    """Return whether kernels may do a reduction on stored columns of a type."""
    return has_numbers(kind) or (pa.types.is_string(kind) and which in ("least", "greatest"))


def has_numbers(kind: pa.DataType) -> bool:
    """Return whether kernels make the values of a type of stored numbers, or integers behind it."""
    types = pa.types
    others = types.is_float32(kind) or types.is_boolean(kind) or types.is_decimal128(kind)
    return others or is_numeric(kind)


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether stored numbers are the values of a type."""
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return True
    return is_temporal(kind) and not pa.types.is_date64(kind)


def plan_reduction(
    which: str, program: BlockProgram, columns: ReducedColumns, schema: TableSchema
) -> KernelReduction | None:
    """Plan a reduction by the name that aggregates have for it; None where kernels cannot."""
    kinds = [plain_type(schema.type_of(name)) for name in columns.names]
    if not all(_is_reducible(which, kind) for kind in kinds):
        return None
    if which == "products":
        return _products(program, columns)
    if which in ("sum", "weights"):
        found = _summed(program, columns.names[which == "weights"], columns.known)
        return None if found is None else _parts_of(*found)
    return _extreme(program, columns, kinds[0], greatest=which == "greatest")


# --- sums -----------------------------------------------------------------------------------------


def _parts_of(
    fields: Sequence[SumField], sums: Callable[[list[FieldResult]], Mapping[int, Integers]]
) -> KernelReduction:
    def state(results: list[FieldResult], counts: Integers) -> ExactSums:
        return ExactSums.of_parts(sums(results), len(counts), _LARGEST_PART)

    return KernelReduction(tuple(fields), state)


def _products(program: BlockProgram, columns: ReducedColumns) -> KernelReduction | None:
    """Plan the sum of the products of two columns, or of the squares of one."""
    first, second, known = columns.names[0], columns.names[-1], columns.known
    one, other = program.number(first), program.number(second)
    if one is None or other is None:
        return None
    if not one.is_float and not other.is_float:
        return _whole_products(program, (one, other), known)
    largest = _largest(one) * _largest(other)
    made = program.product(one, other, known)
    if made is None or not np.isfinite(float(largest)):
        return None
    product, error = made
    field = SumField.of_products(product, error, float(largest))
    # A tiny double would have a product below all doubles: its own limbs would tell.
    guards = [
        SumField.of_floats(
            program.chosen_float(number.register, known, 0.0), float(_largest(number))
        )
        for name, number in dict(zip((first, second), (one, other), strict=True)).items()
        if number.is_float and _decimal_sum(program, name) is None
    ]

    return _parts_of((field, *guards), _only)


def _whole_products(
    program: BlockProgram, factors: tuple[Number, Number], known: int | None
) -> KernelReduction:
    """Plan the sum of the products of integers, split where a product may leave 64 bits.

    All are cut at one bit, the middle of the largest, so that of large ones no part is much larger
    than another, and of smaller ones sums take fewer words.
    """
    largest, other = (int(_largest(each)) for each in factors)
    bits, part = 0, largest * other
    if part >= _LARGEST_PRODUCT:
        bits = (max(largest, other).bit_length() + 1) // 2
        part = max((max(largest, other) + (1 << bits >> 1)) >> bits, 1 << bits >> 1) ** 2
    held = [program.chosen(each.register, known, 0) for each in factors]
    parts = [program.parts(each, bits) if bits else {0: each} for each in held]
    pairs = list(itertools.product(*(each.items() for each in parts)))
    fields = [
        SumField.of_integers(program.multiplied(left, right), part)
        for (_, left), (_, right) in pairs
    ]
    places = [place + more for (place, _), (more, _) in pairs]
    return _parts_of(fields, lambda results: _added(places, results))


def _added(places: Sequence[int], results: Sequence[FieldResult]) -> dict[int, Integers]:
    """Return sums by bit position, each moved up by so many places, as one sum."""
    parts: dict[int, Integers] = {}
    for start, result in zip(places, results, strict=True):
        for place, held in cast(dict[int, Integers], result).items():
            at = start + place
            parts[at] = parts[at] + held if at in parts else held
    return parts


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


def _extreme(
    program: BlockProgram, columns: ReducedColumns, kind: pa.DataType, *, greatest: bool
) -> KernelReduction | None:
    """Plan an extreme; of decimals of one scale it is that of their integers.

    Rows that are not known have what every value is better than.
    """
    of_integers = FieldKind.GREATEST if greatest else FieldKind.LEAST
    of_floats = FieldKind.GREATEST_FLOAT if greatest else FieldKind.LEAST_FLOAT
    (name,), known = columns.names, columns.known
    worst = WORST[of_integers]
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
) -> KernelReduction | None:
    """Plan the extreme of texts, which is that of their ranks in the sorted dictionary."""
    ranked = program.ranks(columns.names[0])
    if ranked is None:
        return None
    number, entries = ranked
    worst = WORST[of_integers]
    field = SumField(of_integers, program.chosen(number.register, columns.known, worst))

    def text(results: list[FieldResult], counts: Integers) -> pa.Array:
        # A group without a value has no place: the field holds its initial value.
        places = np.where(counts > 0, cast(Integers, results[0]), 0)
        return of_some(entries.take(arrow_array(places)), counts > 0)

    return KernelReduction((field,), text)


def _extremes(field: SumField, kind: pa.DataType, divisor: float | None) -> KernelReduction:
    def extremes(results: list[FieldResult], counts: Integers) -> Extremes:
        found = cast(NDArray[Any], results[0])
        if divisor is not None:
            found = found / divisor
        if found.dtype == np.float64:
            found = found + 0.0  # −0.0 and 0.0 are equal, and which came first must not show
        return Extremes(found, counts > 0, kind)

    return KernelReduction((field,), extremes)

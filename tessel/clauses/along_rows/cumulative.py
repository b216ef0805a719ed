"""What cum_sum, cum_min, cum_max and cum_count share: an aggregate of all rows up to each one.

What is carried is the state of the aggregate for each key, as groupby makes and merges it.

What cum_min and cum_max share: the best value up to each row.

Sums as far as each row, in one pass: of what fits 64 bits, and of doubles not too far apart.

Nearly every column of counts, measurements or prices is such a one; others are added limb by limb.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.aggregates.kernels.sums import sums_from
from tessel.clauses.along_rows.key_order import key_fields, keyed_carries, keyed_rows
from tessel.clauses.along_rows.ordered import OrderedColumns
from tessel.clauses.values import (
    BoolArray,
    doubles,
    integers,
    missing_rows,
    plain,
    plain_type,
    raw_values,
)
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.kernels.running_rows import (
    REST_BITS,
    exponent_range,
    run_best,
    run_doubles,
    run_integers,
)
from tessel.lazy import dataclass


@dataclass(frozen=True)
class Running:
    """One column of a unit, and the states that were carried before its rows.

    Attributes
    ----------
    values
        Plain, a row each.
    present
        Bool, shape ``(rows,)``: rows that have a value; None where all have one.
    codes
        int64, shape ``(rows,)``: the key of each row as a number below ``groups``; None without
        keys, where there is one group.
    groups
        How many keys there are, one at least.
    states
        The carried state columns, a row a carried key.
    carried
        int64: the key of each of these rows.
    column
        The name of the column, for errors.
    """

    values: pa.Array
    present: BoolArray | None
    codes: Codes | None
    groups: int
    states: list[pa.Array]
    carried: Codes
    column: str

    @property
    def absent(self) -> BoolArray | None:
        """Rows without a value; None where there are none."""
        return None if self.present is None else ~self.present


class Cumulative(OrderedColumns):
    """A clause that aggregates, for each row, the rows of its key up to it."""

    aggregate: ClassVar[MergeableAggregate]
    """What is computed of the rows up to each one."""

    @abstractmethod
    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Return the result of each row; ``kind`` is the type of the column."""

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the aggregate; refuse types that it means nothing for."""
        return self.aggregate.result_type(kind, column)

    def state_of_all(self, values: pa.Array) -> list[pa.Array] | None:
        """Return the state of all values as one group, where that is had for less than by group."""
        return None

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return keys, then the state of each column."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        for at, column in enumerate(self.inputs):
            states = self.aggregate.partial_fields(input_schema.type_of(column))
            fields += [state.with_name(f"state_{at}_{state.name}") for state in states]
        return pa.schema([pa.field(field.name, field.type) for field in fields])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the state of each key."""
        keyed = keyed_rows(unit, self.by)
        arrays = list(keyed.keys)
        for column in self.inputs:
            values = unit.column(column)
            whole = None if self.by or not unit.num_rows else self.state_of_all(plain(values))
            if whole is None:
                whole = self.aggregate.partial(values, keyed.codes, keyed.groups)
            arrays += whole
        return pa.table(arrays, schema=self.carry_schema(unit.schema))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Merge the states of each key."""
        keyed = keyed_carries(earlier, later, self.by)
        arrays = list(keyed.keys)
        both = self._states(concat_tables([earlier, later]))
        for column, states in zip(self.inputs, both, strict=True):
            kind = schema.type_of(column)
            arrays += self.aggregate.merge(states, keyed.codes, keyed.groups, kind)
        return pa.table(arrays, schema=self.carry_schema(schema))

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Go on from the states that were carried."""
        keyed = keyed_rows(unit, self.by)
        (carried,), groups = keyed.numbers(before)
        results: dict[str, Any] = {}
        for column, states in zip(self.inputs, self._states(before), strict=True):
            values = plain(unit.column(column))
            absent = missing_rows(values)
            running = Running(
                values,
                None if absent is None else ~absent,
                keyed.codes if self.by else None,
                groups,
                states,
                carried,
                column,
            )
            results[column] = self.run(running, unit.schema.type_of(column))
        return unit.with_columns({output: results[column] for output, column in self.columns})

    def _states(self, carry: pa.Table) -> list[list[pa.Array]]:
        """Return the states of each column."""
        states = list(map(plain, carry.columns[len(self.by) :]))
        each = len(states) // len(self.inputs)  # of every type as many
        return [states[at : at + each] for at in range(0, len(states), each)]


class CumulativeExtreme(Cumulative):
    """A clause that keeps the least or the greatest value so far."""

    better: ClassVar[np.ufunc]
    """``numpy.minimum`` or ``numpy.maximum``."""

    def state_of_all(self, values: pa.Array) -> list[pa.Array] | None:
        """Return the best of numbers none of which is missing."""
        kind = values.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or values.null_count:
            return None
        best = self.better.reduce(raw_values(values, kind.to_pandas_dtype()))
        # A zero is +0.0, whichever was the best; where one is missing, so is the best.
        return None if best != best else [arrow_array([best + 0], kind)]

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Choose among what lies up to each row; what was carried is a value like others."""
        states = running.states[0]
        # Of text and the like the numbers are places in an order of all values, the carried too.
        both = running.values
        if len(states):
            both = pa.concat_arrays([states, both])
        found = OrderedNumbers.of_values(both)
        numbers = found.in_64_bits
        best, known = np.zeros(running.groups, numbers.dtype), np.zeros(running.groups, np.bool_)
        best[running.carried] = numbers[: len(states)]
        known[running.carried] = numpy_array(states.is_valid())
        best_so_far = run_best(
            numbers[len(states) :],
            running.present,
            running.codes,
            best,
            known,
            greatest=self.better is np.maximum,
        )
        return found.values(found.of_64_bits(best_so_far), running.absent)


Integers = NDArray[np.int64]

_WORD_BITS, _MANTISSA_BITS = 64, 53
# Both integers of a sum are doubles then.
_MOST_BITS = REST_BITS + _MANTISSA_BITS
# Far from where a part of a sum would leave the range of normal doubles.
_MOST_EXPONENT = 800


def running_sums(running: Running, kind: pa.DataType) -> NDArray[Any] | None:
    """Return the sum of the values of the same key as far as each row.

    Returns
    -------
    numpy.ndarray or None
        int64 or float64, shape ``(rows,)``, anything for rows without a value; None where it takes
        more to tell.
    """
    plain = plain_type(kind)
    if pa.types.is_floating(plain):
        return _doubles(running)
    if pa.types.is_integer(plain) or pa.types.is_boolean(plain) or pa.types.is_duration(plain):
        return _integers(running, plain)
    return None


def _integers(running: Running, kind: pa.DataType) -> Integers | None:
    values = integers(running.values)
    if values.dtype == np.uint64:
        # Whichever are below 2**63 are the same number; the others stand for none.
        values = values.view(np.int64)
        if running.present is not None:
            values = np.where(running.present, values, 0)
        if values.min(initial=0) < 0:
            return None
    totals = np.zeros(running.groups, np.int64)
    if len(running.carried):
        carried, overflow = sums_from(running.states).integers(signed=True)
        if overflow.any():
            return None
        totals[running.carried] = carried
    return run_integers(values.astype(np.int64, copy=False), running.present, running.codes, totals)


def _doubles(running: Running) -> NDArray[np.float64] | None:
    values = doubles(running.values)
    found = exponent_range(values, running.present)
    if found is None:
        return None
    least, most = found
    low, top = least - _MANTISSA_BITS, most + len(values).bit_length()
    sums = sums_from(running.states)
    if sums.infinities.any():
        return None
    if len(sums.limbs.limbs):
        lowest, above = sums.bit_range
        low, top = min(low, lowest), max(top, above)
    # One bit more for the sum of both.
    if top + 1 - low > _MOST_BITS or max(-low, top) > _MOST_EXPONENT:
        return None
    high, rest = np.zeros((2, running.groups), np.int64)
    words, _ = sums.words(2, low)
    rest[running.carried] = words[:, 0] & ((1 << REST_BITS) - 1)
    high[running.carried] = words[:, 1] << (_WORD_BITS - REST_BITS)
    high[running.carried] |= (words[:, 0] >> REST_BITS) & ((1 << (_WORD_BITS - REST_BITS)) - 1)
    return run_doubles(values, running.present, running.codes, low, high, rest)

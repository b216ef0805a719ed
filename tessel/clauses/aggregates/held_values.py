"""What median, quantiles and nunique share: the state of a group is its values, in order.

A state holds each value once, with how often it occurs, or as often as it occurs, whichever is
less; values are integers of the same order where their type has such, so that states of many units
merge by counting or by one sort. A state is as large as the values of its group: what merges such
states looks at ``compact``, and sorts outside of memory where they do not fit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.kernels.value_runs import (
    BITS,
    ValueRuns,
    has_integers,
    integers_of_decimals,
    joined_runs,
    ordered_integers,
    value_runs,
    values_of_integers,
)
from tessel.clauses.aggregates.present_rows import present
from tessel.clauses.values import plain, plain_type, ranks, raw_values

__all__ = [
    "GroupValues",
    "HeldValuesAggregate",
    "held_values_state",
    "ordered_runs",
    "values_of_state",
]


@dataclass(frozen=True, eq=False)
class GroupValues:
    """The values of groups in order.

    Attributes
    ----------
    runs
        Integers of the values.
    kind
        The plain type of the values.
    places
        Decimal places of the integers; :data:`BITS` where they are those of the type.
    entries
        The values that integers are places of; None where they say the value themselves.
    """

    runs: ValueRuns
    kind: pa.DataType
    places: int = BITS
    entries: pa.Array | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many values each group has."""
        return self.runs.counts

    def at(self, owners: NDArray[np.int64], places: NDArray[np.int64]) -> pa.Array:
        """Return the value at a place of each of some groups, counted from 0."""
        numbers = self.runs.at(owners, places)
        if self.entries is not None:
            return self.entries.take(arrow_array(numbers))
        return values_of_integers(numbers, self.kind, self.places)


class HeldValuesAggregate(MergeableAggregate):
    """An aggregate of the values of a group, whatever their order in the table.

    Class attributes
    ----------------
    once
        Whether it does not matter how often a value occurs.
    """

    compact: ClassVar[bool] = False
    once: ClassVar[bool] = False

    @abstractmethod
    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:
        """Return one value a group, of :meth:`result_type`, from the values of all groups."""

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        kind = plain_type(value_type)
        item = pa.int64() if has_integers(kind) else kind
        return [
            pa.field("values", pa.large_list(item)),
            pa.field("times", pa.large_list(pa.int64())),
            pa.field("places", pa.int8()),
        ]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        if has_integers(array.type):
            runs = value_runs(ordered_integers(array), codes, groups, once=self.once)
            return held_values_state(runs, arrow_array(runs.numbers))
        return self._of_entries(array, codes, groups, None)

    def _of_entries(
        self, array: pa.Array, codes: Codes, groups: int, times: NDArray[np.int64] | None
    ) -> list[pa.Array]:
        numbers, entries = _numbered(array)
        runs = value_runs(numbers, codes, groups, times, once=self.once)
        return held_values_state(runs, entries.take(arrow_array(runs.numbers)))

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        if len(codes) == groups and np.array_equal(codes, np.arange(groups)):
            return [plain(state) for state in states]
        values, lengths, times, places = _taken_apart(states)
        if not has_integers(plain_type(value_type)):
            return self._of_entries(values, np.repeat(codes, lengths), groups, times)
        numbers, common = _of_one_kind(values, lengths, places)
        runs = joined_runs(numbers, lengths, codes, groups, times, once=self.once)
        return held_values_state(runs, arrow_array(runs.numbers), common)

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        kind = plain_type(value_type)
        values, lengths, times, places = _taken_apart(states)
        groups, starts = len(lengths), np.concatenate([[0], np.cumsum(lengths)])
        if has_integers(kind):
            numbers, common = _of_one_kind(values, lengths, places)
        elif self.once:
            numbers, common = np.arange(len(values)), BITS  # in no order, but all different
        else:
            held = _ranked(values, np.repeat(np.arange(groups), lengths), groups, times)
            return self.of_values(held, groups, column)
        return self.of_values(
            GroupValues(ValueRuns(numbers, times, starts), kind, common), groups, column
        )

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        array, codes, _ = present(values, codes)
        if has_integers(array.type):
            numbers = ordered_integers(array)
        elif self.once:
            numbers = _numbered(array)[0]
        else:
            return self.of_values(_ranked(array, codes, groups, None), groups, column)
        runs = value_runs(numbers, codes, groups, once=self.once)
        return self.of_values(GroupValues(runs, array.type), groups, column)


def _numbered(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return a number of each value, and the values by number."""
    encoded = array.dictionary_encode()
    return raw_values(encoded.indices, np.int32).astype(np.int64), encoded.dictionary


def _ranked(
    array: pa.Array, codes: Codes, groups: int, times: NDArray[np.int64] | None
) -> GroupValues:
    numbers, ordered = ranks(array)
    return GroupValues(value_runs(numbers, codes, groups, times), array.type, entries=ordered)


def held_values_state(runs: ValueRuns, values: pa.Array, places: int = BITS) -> list[pa.Array]:
    """Return the state of groups.

    Parameters
    ----------
    runs
        Integers of the values of each group.
    values
        Those integers, or the values of types that have none; as many as there are integers.
    places
        Decimal places of the integers; :data:`BITS` where they are those of the type.
    """
    offsets = arrow_array(runs.starts)
    groups = len(runs.starts) - 1
    if runs.times is None:
        times = pa.nulls(groups, pa.large_list(pa.int64()))
    else:
        times = pa.LargeListArray.from_arrays(offsets, arrow_array(runs.times))
    lists = pa.LargeListArray.from_arrays(offsets, values)
    return [lists, times, arrow_array(np.full(groups, places, np.int8))]


def values_of_state(
    states: Sequence[Values], value_type: pa.DataType, rows: int
) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Give all values of some states as often as they occur, and of which state each is.

    Parameters
    ----------
    states
        State columns of a :class:`HeldValuesAggregate`.
    value_type
        Type of the aggregated column.
    rows
        How many values to give at a time.
    """
    kind = plain_type(value_type)
    values, lengths, times, places = _taken_apart(states)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    common = BITS
    if has_integers(kind):
        numbers, common = _of_one_kind(values, lengths, places)
        values = arrow_array(numbers)
    ends = np.arange(1, len(values) + 1) if times is None else np.cumsum(times)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, rows):
        entries = np.searchsorted(ends, np.arange(start, min(start + rows, total)), side="right")
        found = values.take(arrow_array(entries))
        if has_integers(kind):
            found = values_of_integers(numpy_array(found), kind, common)
        yield found, owners[entries]


def ordered_runs(
    states: Sequence[Values],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
    """Give for each state its values as integers in order, and how often each occurs.

    Parameters
    ----------
    states
        State columns of a :class:`HeldValuesAggregate`, of a type whose values have integers.
    """
    values, lengths, times, places = _taken_apart(states)
    numbers = numpy_array(values)
    ends = np.cumsum(lengths)
    for start, end, place in zip((ends - lengths).tolist(), ends.tolist(), places, strict=True):
        own = numbers[start:end]
        yield (
            own if place == BITS else integers_of_decimals(own, int(place)),
            None if times is None else times[start:end],
        )


def _taken_apart(
    states: Sequence[Values],
) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64] | None, NDArray[np.int8]]:
    """Return the values of all states, how many each has, how often each occurs, and places."""
    lists, all_times, places = (plain(state) for state in states)
    lengths = np.diff(numpy_array(lists.offsets)) if len(lists) else np.zeros(0, np.int64)
    values = lists.flatten()
    found = numpy_array(plain(places))
    if all_times.null_count == len(all_times):
        return values, lengths, None, found
    times = np.ones(len(values), np.int64)
    told = np.repeat(numpy_array(all_times.is_valid()), lengths)
    times[told] = numpy_array(all_times.flatten())
    return values, lengths, times, found


def _of_one_kind(
    values: pa.Array, lengths: NDArray[np.int64], places: NDArray[np.int8]
) -> tuple[NDArray[np.int64], int]:
    """Return integers of one kind, and their decimal places; of several kinds, ordered bits."""
    numbers = numpy_array(values)
    held = lengths > 0
    kinds = different(places[held]).tolist()
    if len(kinds) < 2:
        return numbers, (kinds or [BITS])[0]
    each = np.repeat(places, lengths)
    found = numbers.copy()
    for place in kinds:
        if place != BITS:
            chosen = each == place
            found[chosen] = integers_of_decimals(numbers[chosen], place)
    return found, BITS

"""Holistic aggregates (median, quantiles, nunique): the state of a group is all its values.

A state lists each value once, in order, with how often it occurs, or as often as it occurs, in any
order, whichever is smaller. Values are integers of the same order where their type has such. A
state is as large as the values of its group: results are made of the states of units without
concatenating them, and operators look at ``compact`` and sort outside of memory what does not fit.

References
----------
J. Gray et al., "Data Cube", 1997: distributive, algebraic and holistic aggregates.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.kernels.value_lists import NumberLists, ValueLists
from tessel.clauses.aggregates.kernels.value_runs import (
    BITS,
    ValueRuns,
    has_integers,
    integers_of_decimals,
    ordered_integers,
    placed_runs,
    values_of_integers,
)
from tessel.clauses.aggregates.present_rows import present
from tessel.clauses.values import plain, plain_type, ranks, raw_values
from tessel.lazy import dataclass

__all__ = [
    "GroupValues",
    "HolisticAggregate",
    "are_only_values",
    "holistic_state",
    "ordered_runs",
    "values_of_state",
]


_STATE = [
    pa.field("values", pa.large_list(pa.int64())),
    pa.field("times", pa.large_list(pa.int64())),
    pa.field("places", pa.int8()),
]


@dataclass(frozen=True, eq=False)
class GroupValues:
    """All values of groups.

    Attributes
    ----------
    runs
        The values as integers, by group.
    kind
        The plain type of the values.
    places
        Decimal places of the integers; :data:`BITS` where they are those of the type.
    entries
        The values whose row numbers the integers are; None where an integer is the value itself.
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
        """Return the value at a place of each of some groups in order; see :meth:`ValueRuns.at`."""
        numbers = self.runs.at(owners, places)
        if self.entries is not None:
            return self.entries.take(arrow_array(numbers))
        return values_of_integers(numbers, self.kind, self.places)


class HolisticAggregate(MergeableAggregate):
    """An aggregate of all values of a group, whatever their order in the table.

    Class attributes
    ----------------
    once
        Whether the result does not depend on how often a value occurs.
    """

    compact: ClassVar[bool] = False
    once: ClassVar[bool] = False

    @abstractmethod
    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:
        """Return one value a group, of :meth:`result_type`, from the values of all groups."""

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        kind = plain_type(value_type)
        if has_integers(kind):
            return _STATE
        return [pa.field("values", pa.large_list(kind)), *_STATE[1:]]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        numbers, entries = _integers(array)
        runs = placed_runs(numbers, codes, groups).compact(once=self.once)
        found = arrow_array(runs.numbers)
        return holistic_state(runs, found if entries is None else entries.take(found))

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        if len(codes) == groups and np.array_equal(codes, np.arange(groups)):
            return [plain(state) for state in states]
        kind = plain_type(value_type)
        lists, common, entries = _lists(states, codes, groups, kind, once=self.once)
        merged: list[list[pa.Array]] = []
        for lent in lists.some_at_a_time():
            runs = lent.compact(once=self.once)
            found = arrow_array(
                runs.numbers.copy() if runs.numbers is lent.numbers else runs.numbers
            )
            values = found if entries is None else entries.take(found)
            merged.append(holistic_state(runs, values, common))
        return [pa.concat_arrays(parts) for parts in zip(*merged, strict=True)]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        groups = len(states[0])
        return self.finish_merged(states, np.arange(groups), groups, value_type, column)

    def finish_merged(  # noqa: D102
        self,
        states: Sequence[Values],
        codes: Codes,
        groups: int,
        value_type: pa.DataType,
        column: str | None = None,
    ) -> pa.Array:
        kind = plain_type(value_type)
        lists, common, entries = _lists(
            states, codes, groups, kind, ordered=not self.once, once=self.once
        )
        results = [
            self._of_runs(GroupValues(runs, kind, common, entries), column)
            for runs in lists.some_at_a_time()
        ]
        return results[0] if len(results) == 1 else pa.concat_arrays(results)

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        array, codes, _ = present(values, codes)
        numbers, entries = _integers(array, ordered=not self.once)
        runs = placed_runs(numbers, codes, groups)
        return self._of_runs(GroupValues(runs, array.type, entries=entries), column)

    def _of_runs(self, held: GroupValues, column: str | None) -> pa.Array:
        if held.runs.times is not None:
            held = replace(held, runs=held.runs.compact())
        return self.of_values(held, len(held.runs.starts) - 1, column)


def _integers(
    array: pa.Array, *, ordered: bool = False
) -> tuple[NDArray[np.int64], pa.Array | None]:
    """Return values as integers, and a dictionary where these are row numbers in it; else None.

    The dictionary has the order of the values if ``ordered``, or any.
    """
    if has_integers(array.type):
        return ordered_integers(array), None
    if ordered:
        return ranks(array)
    encoded = array.dictionary_encode()
    return raw_values(encoded.indices, np.int32).astype(np.int64), encoded.dictionary


def _lists(
    states: Sequence[Values],
    codes: Codes,
    groups: int,
    kind: pa.DataType,
    *,
    ordered: bool = False,
    once: bool,
) -> tuple[ValueLists, int, pa.Array | None]:
    """Return the integers of states by group, their decimal places, and their dictionary."""
    if not has_integers(kind):
        values, lengths, times, _ = _taken_apart(states)
        numbers, entries = _integers(values, ordered=ordered)
        lists = [NumberLists(numbers, None if once else times, lengths, codes)]
        return ValueLists(lists, groups), BITS, entries
    # States of units are looked at where they lie, not one behind the other.
    parts = [_taken_apart(part) for part in _chunks(states)]
    common = _common_kind(parts)
    lists, start = list[NumberLists](), 0
    for values, lengths, times, places in parts:
        owners = codes[start : start + len(lengths)]
        numbers = _of_kind(numpy_array(values), lengths, places, common)
        lists.append(NumberLists(numbers, None if once else times, lengths, owners))
        start += len(lengths)
    return ValueLists(lists, groups), common, None


def _chunks(states: Sequence[Values]) -> Iterator[list[Values]]:
    """Cut states at the chunk edges of their columns: each part has one array a column."""
    table = pa.Table.from_arrays(list(states), [str(at) for at in range(len(states))])
    for batch in table.to_batches():
        yield batch.columns


def holistic_state(runs: ValueRuns, values: pa.Array, places: int = BITS) -> list[pa.Array]:
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


def are_only_values(states: Sequence[Values]) -> bool:
    """Return whether states list values as integers, without how often these occur."""
    if len(states) != len(_STATE) or states[0].type != _STATE[0].type:
        return False
    return bool(states[1].null_count == len(states[1]))


def values_of_state(
    states: Sequence[Values], value_type: pa.DataType, rows: int
) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Give all values of some states as often as they occur, and the state of each.

    Parameters
    ----------
    states
        State columns of a :class:`HolisticAggregate`.
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
        common = _common_kind([(values, lengths, times, places)])
        values = arrow_array(_of_kind(numpy_array(values), lengths, places, common))
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
        State columns of a :class:`HolisticAggregate`, of a type whose values have integers.
    """
    values, lengths, times, places = _taken_apart(states)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    runs = ValueRuns(numpy_array(values).copy(), times, starts)
    runs = runs.ordered() if times is None else runs.compact()
    for (start, end), place in zip(itertools.pairwise(runs.starts.tolist()), places, strict=True):
        own = runs.numbers[start:end]
        yield (
            own if place == BITS else integers_of_decimals(own, int(place)),
            None if runs.times is None else runs.times[start:end],
        )


_Parts = tuple[pa.Array, NDArray[np.int64], NDArray[np.int64] | None, NDArray[np.int8]]


def _taken_apart(states: Sequence[Values]) -> _Parts:
    """Return the values of all states, their number by state, how often each occurs, and places."""
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


def _common_kind(parts: Sequence[_Parts]) -> int:
    """Return the decimal places of integers; where they are of several kinds, :data:`BITS`."""
    kinds = {
        place
        for _, lengths, _, places in parts
        for place in different(places[lengths > 0]).tolist()
    }
    return int(kinds.pop()) if len(kinds) == 1 else BITS


def _of_kind(
    numbers: NDArray[np.int64], lengths: NDArray[np.int64], places: NDArray[np.int8], common: int
) -> NDArray[np.int64]:
    """Return integers of states as those of so many decimal places, or as ordered bits."""
    held = different(places[lengths > 0]).tolist()
    if all(place == common for place in held):
        return numbers
    each = np.repeat(places, lengths)
    found = numbers.copy()
    for place in held:
        chosen = each == place
        found[chosen] = integers_of_decimals(numbers[chosen], place)
    return found

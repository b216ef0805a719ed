"""Holistic aggregates (median, quantiles, nunique): the state of a group is all its values.

Values are integers of the same order where their type has such. What units found stays where it
is: results are made of it without concatenating or merging it, some groups at a time. As columns a
state lists each value once, in order, with how often it occurs, or as often as it occurs, in any
order, whichever is smaller. States are as large as the values of their groups: operators look at
``compact`` and sort outside of memory what does not fit.

References
----------
J. Gray et al., "Data Cube", 1997: distributive, algebraic and holistic aggregates.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.aggregates.base import Codes
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.kernels.value_runs import (
    BITS,
    NumberLists,
    ValueLists,
    ValueRuns,
    has_integers,
    integers_of_decimals,
    ordered_integers,
    placed_runs,
    values_of_integers,
)
from tessel.clauses.aggregates.present_rows import PresentRows
from tessel.clauses.aggregates.reductions import Reduction
from tessel.clauses.values import different_values, plain_type, ranks
from tessel.lazy import dataclass

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
    places
        Decimal places of the integers; :data:`BITS` where they are those of the type.
    entries
        The values whose row numbers the integers are, each once; None where an integer is the value
        itself.
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
        return self.values(self.runs.at(owners, places))

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the values of some of the integers."""
        if self.entries is not None:
            return self.entries.take(arrow_array(numbers))
        return values_of_integers(numbers, self.kind, self.places)

    def take(self, groups: Codes) -> GroupValues:
        """Return the values of some of the groups."""
        return replace(self, runs=self.runs.take(groups))

    def of_places(self, common: int) -> NDArray[np.int64]:
        """Return the integers as those of so many decimal places, or as ordered bits."""
        if self.places == common:
            return self.runs.numbers
        return integers_of_decimals(self.runs.numbers, self.places)

    def compact(self, *, once: bool) -> GroupValues:
        """Return the values, each once where that is less; see :meth:`ValueRuns.compact`."""
        return replace(self, runs=self.runs.compact(once=once))


@dataclass(frozen=True, eq=False)
class HeldValues:
    """All values of groups, wherever units left them.

    Attributes
    ----------
    parts
        The values of some groups, and the final group of each of these; one part at least.
    once
        Whether it does not matter how often a value occurs.
    """

    parts: Sequence[tuple[GroupValues, Codes]]
    groups: int
    once: bool

    @property
    def is_one(self) -> bool:
        """Whether all values lie side by side by group, in memory of their own."""
        (held, owners), *others = self.parts
        own = held.runs.numbers.flags.writeable and len(owners) == self.groups
        return own and not others and np.array_equal(owners, np.arange(self.groups))

    def some_at_a_time(self) -> Iterator[GroupValues]:
        """Give the values of all groups, of some after others; each is valid until the next.

        Of texts and the like integers are row numbers, which have the order of the values unless it
        does not matter how often a value occurs.
        """
        first, _ = self.parts[0]
        places, entries = BITS, None
        if not has_integers(first.kind):
            lists, entries = self._coded()
        elif self.is_one:
            yield first
            return
        else:
            places = self._common_places
            lists = [self._listed(each, each.of_places(places), own) for each, own in self.parts]
        for runs in ValueLists(lists, self.groups).some_at_a_time():
            yield GroupValues(runs, first.kind, places, entries)

    @property
    def _common_places(self) -> int:
        """Decimal places of all integers; where they are of several kinds, :data:`BITS`."""
        kinds = {held.places for held, _ in self.parts if len(held.runs.numbers)}
        return kinds.pop() if len(kinds) == 1 else BITS

    def _coded(self) -> tuple[list[NumberLists], pa.Array]:
        """Return the lists of all parts as row numbers in one dictionary, and this."""
        if self.once and len(self.parts) == 1:  # whose entries occur once
            ((held, owners),) = self.parts
            return [self._listed(held, held.runs.numbers, owners)], _entries(held)
        entries = pa.concat_arrays([_entries(held) for held, _ in self.parts])
        codes, entries = different_values(entries) if self.once else ranks(entries)
        lists, start = list[NumberLists](), 0
        for held, owners in self.parts:
            own = codes[start : start + len(_entries(held))]
            lists.append(self._listed(held, own[held.runs.numbers], owners))
            start += len(own)
        return lists, entries

    def _listed(self, held: GroupValues, numbers: NDArray[np.int64], owners: Codes) -> NumberLists:
        times = None if self.once else held.runs.times
        return NumberLists(numbers, times, np.diff(held.runs.starts), owners)


def _entries(held: GroupValues) -> pa.Array:
    assert held.entries is not None  # types without integers have a dictionary
    return held.entries


class Values(Reduction):
    """All values of a group: :class:`HeldValues`.

    Parameters
    ----------
    value_type
        Type of the column.
    once
        Whether it does not matter how often a value occurs.
    """

    compact = False

    def __init__(self, value_type: pa.DataType, *, once: bool) -> None:
        self._kind, self._once = plain_type(value_type), once

    def fields(self) -> list[pa.Field]:  # noqa: D102
        if has_integers(self._kind):
            return _STATE
        return [pa.field("values", pa.large_list(self._kind)), *_STATE[1:]]

    def reduce(self, rows: PresentRows, groups: int) -> HeldValues:  # noqa: D102
        (array,) = rows.columns
        numbers, entries = (
            (ordered_integers(array), None) if has_integers(array.type) else different_values(array)
        )
        runs = placed_runs(numbers, rows.codes, groups)
        return self.of_groups(GroupValues(runs, array.type, entries=entries))

    def of_groups(self, held: GroupValues) -> HeldValues:
        """Return the state of groups whose values are at hand."""
        groups = len(held.runs.starts) - 1
        return HeldValues([(held, np.arange(groups))], groups, self._once)

    def merge(  # noqa: D102
        self, states: Sequence[HeldValues], codes: Codes, groups: int
    ) -> HeldValues:
        starts = np.cumsum([0, *(state.groups for state in states)]).tolist()
        parts = [
            (held, codes[start + owners])
            for state, start in zip(states, starts, strict=False)
            for held, owners in state.parts
        ]
        return HeldValues(parts, groups, self._once)

    def take(self, state: HeldValues, groups: Codes) -> HeldValues:  # noqa: D102
        place = np.full(state.groups, -1, np.int64)
        place[groups] = np.arange(len(groups))
        parts: list[tuple[GroupValues, Codes]] = []
        for held, owners in state.parts:
            own = np.flatnonzero(place[owners] >= 0)
            parts.append((held.take(own), place[owners[own]]))
        return HeldValues(parts, len(groups), self._once)

    def lines(self, state: HeldValues) -> Iterator[Any]:  # noqa: D102
        for held, owners in state.parts:
            yield from (held.runs.numbers, held.runs.starts, owners)
            yield from (line for line in (held.runs.times, held.entries) if line is not None)

    def arrays(self, state: HeldValues) -> list[pa.Array]:  # noqa: D102
        return self._written(self._compact(state))

    def _written(self, held: Iterable[GroupValues]) -> list[pa.Array]:
        columns = [self._columns(each) for each in held]
        return [pa.concat_arrays(parts) for parts in zip(*columns, strict=True)]

    def _compact(self, state: HeldValues) -> Iterator[GroupValues]:
        """Give the values of all groups, of some after others, equal values of a group once."""
        for lent in state.some_at_a_time():
            held = lent.compact(once=self._once)
            if held.runs.numbers is lent.runs.numbers and not state.is_one:
                held = replace(held, runs=replace(held.runs, numbers=held.runs.numbers.copy()))
            yield held

    def _columns(self, held: GroupValues) -> list[pa.Array]:
        runs, values = held.runs, arrow_array(held.runs.numbers)
        if held.entries is not None:
            values = held.entries.take(values)
        offsets, groups = arrow_array(runs.starts), len(runs.starts) - 1
        if runs.times is None:
            times = pa.nulls(groups, pa.large_list(pa.int64()))
        else:
            times = pa.LargeListArray.from_arrays(offsets, arrow_array(runs.times))
        lists = pa.LargeListArray.from_arrays(offsets, values)
        return [lists, times, arrow_array(np.full(groups, held.places, np.int8))]

    def state(self, arrays: Sequence[pa.Array]) -> HeldValues:  # noqa: D102
        return self.of_groups(_taken_apart(arrays, self._kind))

    def compacted(self, state: HeldValues) -> HeldValues:  # noqa: D102
        held = list(self._compact(state))
        return self.of_groups(held[0]) if len(held) == 1 else self.state(self._written(held))


class HolisticAggregate(FromReductions):
    """An aggregate of all values of a group, whatever their order in the table.

    It needs ``"values"``, or ``"different"`` values where it does not matter how often they occur.
    """

    compact: ClassVar[bool] = False
    reductions: ClassVar[tuple[str, ...]] = ("values",)

    @abstractmethod
    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:
        """Return one value a group, of :meth:`result_type`, from the values of all groups."""

    def reductions_of(self, value_type: pa.DataType) -> dict[str, Reduction]:  # noqa: D102
        (which,) = self.reductions
        return {which: Values(value_type, once=which == "different")}

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        results: list[pa.Array] = []
        for held in reduced[self.reductions[0]].some_at_a_time():
            if held.runs.times is not None:
                held = held.compact(once=False)
            results.append(self.of_values(held, len(held.runs.starts) - 1, column))
        return results[0] if len(results) == 1 else pa.concat_arrays(results)


def values_of_state(state: HeldValues, rows: int) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Give all values of groups as often as they occur, and the group of each.

    Parameters
    ----------
    rows
        How many values to give at a time.
    """
    for held, groups in state.parts:
        runs = held.runs
        owners = np.repeat(groups, np.diff(runs.starts))
        ends = np.arange(1, len(owners) + 1) if runs.times is None else np.cumsum(runs.times)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, rows):
            places = np.searchsorted(ends, np.arange(start, min(start + rows, total)), side="right")
            yield held.values(runs.numbers[places]), owners[places]


def ordered_runs(state: HeldValues) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
    """Give the values of each group of each part as integers in order, and how often each occurs.

    The type of the values is one that has integers.
    """
    for held, _ in state.parts:
        runs = replace(held.runs, numbers=held.of_places(BITS).copy())
        runs = runs.ordered() if runs.times is None else runs.compact()
        for start, end in itertools.pairwise(runs.starts.tolist()):
            yield runs.numbers[start:end], None if runs.times is None else runs.times[start:end]


def _taken_apart(columns: Sequence[pa.Array], kind: pa.DataType) -> GroupValues:
    """Return the values in plain columns of :class:`Values`."""
    lists, all_times, all_places = columns
    lengths = np.diff(numpy_array(lists.offsets)) if len(lists) else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    values, times = lists.flatten(), None
    if all_times.null_count < len(all_times):
        times = np.ones(len(values), np.int64)
        told = np.repeat(numpy_array(all_times.is_valid()), lengths)
        times[told] = numpy_array(all_times.flatten())
    if not has_integers(kind):
        numbers, entries = different_values(values)
        return GroupValues(ValueRuns(numbers, times, starts), kind, entries=entries)
    numbers, all_kinds = numpy_array(values), numpy_array(all_places)
    kinds = different(all_kinds[lengths > 0]).tolist()
    common = int(kinds[0]) if len(kinds) == 1 else BITS
    if len(kinds) > 1:
        numbers, each = numbers.copy(), np.repeat(all_kinds, lengths)
        for place in kinds:
            chosen = each == place
            numbers[chosen] = integers_of_decimals(numbers[chosen], place)
    numbers = numbers.view()
    numbers.flags.writeable = False  # they are the table's
    return GroupValues(ValueRuns(numbers, times, starts), kind, common)

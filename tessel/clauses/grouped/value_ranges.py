"""The values of one group in order, more than may be held: partitioned by ranges of values.

Partial states with sorted values are added one by one. Each is cut at the bounds of the ranges by
bisection, and the parts of one range are spilled together. What an order statistic asks for is in
one range, which follows from the counts: ranges are sorted when they are asked for, and others
never are. A range that is still too much is cut again, by bounds of its own. Time and bytes grow
with the values, where sorting rows outside of memory compares each of them many times.

Who asks which values there are, in no order, gets those that are no integers by a hash.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.cancelling import check_cancelled
from tessel.clauses.aggregates.holistic import HeldValues, ordered_runs
from tessel.clauses.aggregates.kernels.value_runs import values_of_integers
from tessel.clauses.grouped.hashing import BUCKETS, level_bucket_of
from tessel.clauses.spill.spill_buffer import BufferedTable
from tessel.clauses.spill.workspace import Workspace
from tessel.clauses.values import cut_by_code, different_values, plain

Integers = NDArray[np.int64]

_RANGES = 32
_SHARE = 4
"""A range is sorted in memory where its numbers are at most such a share of what may be held."""
_DEEPEST = 8
"""So often ranges are cut again; what is then left is one number, in as many states."""
_AT_A_TIME = 1 << 16


class ValueRanges:
    """Values that are put in as states, and looked at in order; closed when done with.

    It satisfies :class:`~tessel.clauses.aggregates.base.OrderedValues` once all are in.

    Parameters
    ----------
    kind
        The plain type of the values, one whose values have integers of the same order.
    workspace
        The account and the files of the query.
    level
        How often they have been cut already.
    """

    def __init__(self, kind: pa.DataType, workspace: Workspace, level: int = 0) -> None:
        self._kind = kind
        self._workspace = workspace
        self._level = level
        self._spill_buffer = workspace.spill_buffer()
        self._bounds: Integers | None = None
        self._parts: list[list[BufferedTable]] = []
        self._counts = np.zeros(0, np.int64)

    def close(self) -> None:
        """Hold nothing more."""
        self._spill_buffer.close()

    def add(self, state: HeldValues) -> None:
        """Put the values of some states in."""
        for numbers, times in ordered_runs(state):
            self._add(numbers, times)

    @property
    def count(self) -> int:
        """How many values there are."""
        return int(self._counts.sum())

    def at(self, places: Sequence[int]) -> pa.Array:
        """Return the values at some places, ascending, counted from 0."""
        asked, found = np.array(places, np.int64), [np.zeros(0, np.int64)]
        ranges = np.searchsorted(np.cumsum(self._counts), asked, side="right")
        for part in different(ranges).tolist():
            inside = asked[ranges == part] - int(self._counts[:part].sum())
            for numbers, times in self._in_order(self._parts[part]):
                ends = np.cumsum(times)
                here = inside[(inside >= 0) & (inside < ends[-1])]
                found.append(numbers[np.searchsorted(ends, here, side="right")])
                inside = inside - ends[-1]
        return values_of_integers(np.concatenate(found), self._kind)

    def chunks(self) -> Iterator[pa.Array]:
        """Give all values in order, some at a time."""
        for part in self._parts:
            for numbers, times in self._in_order(part):
                ends = np.cumsum(times)
                for start in range(0, int(ends[-1]), _AT_A_TIME):
                    stop = min(start + _AT_A_TIME, int(ends[-1]))
                    entries = np.searchsorted(ends, np.arange(start, stop), side="right")
                    yield values_of_integers(numbers[entries], self._kind)

    # --- inside -----------------------------------------------------------------------------------

    def _add(self, numbers: Integers, times: Integers | None) -> None:
        if not len(numbers):
            return
        if self._bounds is None:
            # Later states need not be like the first: a range that gets too much is cut again.
            at = np.linspace(0, len(numbers) - 1, _RANGES + 1)[1:-1].astype(np.int64)
            self._bounds = np.unique(numbers[at])
            self._parts = [[] for _ in range(len(self._bounds) + 1)]
            self._counts = np.zeros(len(self._parts), np.int64)
        cuts = np.searchsorted(numbers, self._bounds, side="left").tolist()
        for part, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(numbers)])):
            if start < stop:
                own = None if times is None else times[start:stop]
                self._counts[part] += stop - start if own is None else own.sum()
                self._parts[part].append(self._spill_buffer.put(_table(numbers[start:stop], own)))

    def _in_order(self, part: list[BufferedTable]) -> Iterator[tuple[Integers, Integers]]:
        """Give the numbers of a range in order, each once, and how often each occurs."""
        check_cancelled()
        size = sum(each.nbytes for each in part)
        if size * _SHARE > self._workspace.account.held_limit and self._level < _DEEPEST:
            inner = ValueRanges(self._kind, self._workspace, self._level + 1)
            with contextlib.closing(inner):
                for each in part:
                    inner._add(*_arrays(self._spill_buffer.read(each)))
                for inside in inner._parts:
                    yield from inner._in_order(inside)
            return
        arrays = [_arrays(self._spill_buffer.read(each)) for each in part]
        numbers = np.concatenate([np.zeros(0, np.int64), *(own for own, _ in arrays)])
        times = np.concatenate([np.zeros(0, np.int64), *(own for _, own in arrays)])
        if not len(numbers):
            return
        if (times == 1).all():
            numbers = np.sort(numbers)
            first = np.flatnonzero(np.diff(numbers, prepend=~numbers[0]))
            yield numbers[first], np.diff(first, append=len(numbers))
            return
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        first = np.flatnonzero(np.diff(numbers, prepend=~numbers[0]))
        yield numbers[first], np.add.reduceat(times[order], first)


_MOST_LEVELS = 5
"""So often buckets are cut again, by five more bits of the hash each time."""


class ValueBuckets:
    """Different values that are put in as states, and come out once each; closed when done with.

    Parameters
    ----------
    workspace
        The account and the files of the query.
    level
        How often they have been cut already.
    """

    def __init__(self, workspace: Workspace, level: int = 0) -> None:
        self._workspace = workspace
        self._level = level
        self._spill_buffer = workspace.spill_buffer()
        self._parts: list[list[BufferedTable]] = [[] for _ in range(BUCKETS)]
        self.count = 0
        """How many values were put in."""

    def close(self) -> None:
        """Hold nothing more."""
        self._spill_buffer.close()

    def add(self, state: HeldValues) -> None:
        """Put the values of some states in."""
        for held, _ in state.parts:
            self._add(held.values(held.runs.numbers))

    def at(self, places: Sequence[int]) -> pa.Array:
        """Values by a hash have no places, and aggregates of different values ask for none."""
        raise NotImplementedError

    def chunks(self) -> Iterator[pa.Array]:
        """Give each value once, some at a time."""
        for part in self._parts:
            check_cancelled()
            size = sum(each.nbytes for each in part)
            if size * _SHARE > self._workspace.account.held_limit and self._level < _MOST_LEVELS:
                with contextlib.closing(ValueBuckets(self._workspace, self._level + 1)) as inner:
                    for each in part:
                        inner._add(plain(self._spill_buffer.read(each).column(0)))
                    yield from inner.chunks()
            elif part:
                arrays = [plain(self._spill_buffer.read(each).column(0)) for each in part]
                yield different_values(pa.concat_arrays(arrays))[1]

    def _add(self, values: pa.Array) -> None:
        self.count += len(values)
        table = pa.table({"values": values})
        for number, part in cut_by_code(table, level_bucket_of([values], self._level), BUCKETS):
            self._parts[number].append(self._spill_buffer.put(part))


def _table(numbers: Integers, times: Integers | None) -> pa.Table:
    columns = {"numbers": numbers} if times is None else {"numbers": numbers, "times": times}
    return pa.table({name: arrow_array(values) for name, values in columns.items()})


def _arrays(table: pa.Table) -> tuple[Integers, Integers]:
    numbers = numpy_array(table.column("numbers"))
    if "times" in table.column_names:
        return numbers, numpy_array(table.column("times"))
    return numbers, np.ones(len(numbers), np.int64)

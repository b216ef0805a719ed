"""The values of each group as integers: what median, quantiles and nunique stand on.

Values become integers of the same order, which are written side by side by group: a *run* a group.
Where numbers repeat a run holds each once, with how often it occurs; a table of counts or a sort of
each run finds that. Other runs stay in any order: an aggregate that asks for some places of the
order has them selected. Nothing depends on the order in which rows come, so runs of parts of the
rows join to those of all.

The lists of units stay where they are: they are copied, group by group, to memory that some groups
after others share, small enough to stay in a cache. Merged states of everything would be as large
as all values again, and memory that was never touched costs more than to sort what is in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.values import NUMBERS, TIMES, doubles, integers, of_integers
from tessel.errors import ExecutionError
from tessel.kernels.word_numbers import REPEATS, may_repeat
from tessel.lazy import dataclass
from tessel.memory import recycled

Integers = NDArray[np.int64]

BITS = -1
"""The places of integers that are no decimals: those of their type, or bits of a float."""

_CELLS = 1 << 18
"""A table of counts is used up to so many cells, however few the rows."""

_MOST_CELLS = 1 << 22
_CELLS_A_ROW = 4
"""A larger one is used up to so many cells a row: past the cache a cell costs as much as a row."""

_MOST_COUNTED = (1 << 32) - 1
"""What a cell of a table of counts holds."""

_WIDEST = 1 << 62
"""What groups, numbers and times together may reach to be sorted as one integer."""

_SIGN = np.int64(-(1 << 63))
_MAGNITUDE = np.int64((1 << 63) - 1)

_LARGE_ROWS = 1 << 14
"""Runs of so many numbers on the average are no more sorted in a cache next to the processor."""


@dataclass(frozen=True, eq=False)
class ValueRuns:
    """Integers of groups.

    Attributes
    ----------
    numbers
        int64, of each group: different and ascending where there are ``times``, else in any order,
        which may change whenever something is asked of them.
    times
        How often each occurs, int64; None where each occurs as often as it stands there.
    starts
        int64, shape ``(groups + 1,)``: where the numbers of each group start, and the end.
    """

    numbers: Integers
    times: Integers | None
    starts: Integers

    @property
    def counts(self) -> Integers:
        """How many rows each group has; int64, shape ``(groups,)``."""
        if self.times is None:
            return np.diff(self.starts)
        before = np.concatenate([[0], np.cumsum(self.times)])
        return np.diff(before[self.starts])

    @property
    def different(self) -> Integers:
        """How many different numbers each group has; int64, shape ``(groups,)``."""
        if self.times is not None:
            return np.diff(self.starts)
        from tessel.kernels.count_values import count_close
        from tessel.kernels.order_words import count_different
        from tessel.kernels.word_numbers import words_of_runs

        counts = count_close(self.numbers, self.starts)
        far = np.flatnonzero(counts < 0)
        if len(far):
            held = self if len(far) == len(counts) else self.take(far)
            if _are_large(held.starts) and may_repeat(held.numbers, held.starts):
                counts[far] = np.diff(words_of_runs(held.numbers, held.starts)[2])
            else:
                counts[far] = count_different(held.ordered().numbers, held.starts)
        return counts

    def take(self, groups: Integers) -> ValueRuns:
        """Return the runs of some of the groups."""
        from tessel.kernels.group_rows import rows_of_runs

        starts, stops = self.starts[groups], self.starts[groups + 1]
        rows = rows_of_runs(starts, stops)
        times = None if self.times is None else self.times[rows]
        ends = np.concatenate([[0], np.cumsum(stops - starts)])
        return ValueRuns(self.numbers[rows], times, ends)

    def ordered(self) -> ValueRuns:
        """Return the runs with the numbers of each group ascending."""
        from tessel.kernels.order_words import sort_runs

        if self.times is None and not _are_ascending(self.numbers, self.starts):
            sort_runs(self.numbers, self.starts)
        return self

    def at(self, owners: Integers, places: Integers) -> Integers:
        """Return the number at a place of each of some groups in order, counted from 0.

        Places of one group side by side and ascending are found sooner.
        """
        if self.times is None:
            from tessel.kernels.order_words import select_places

            return select_places(self.numbers, self.starts, owners, places)
        before = np.concatenate([[0], np.cumsum(self.times)])
        rows = before[self.starts[owners]] + places
        return self.numbers[np.searchsorted(before, rows, side="right") - 1]

    def compact(self, *, once: bool = False) -> ValueRuns:
        """Return runs that hold each number once, where that is less.

        Parameters
        ----------
        once
            Whether it does not matter how often a number occurs.
        """
        numbers, times = self.numbers, None if once else self.times
        if not len(numbers):
            return ValueRuns(numbers, None, self.starts)
        groups = len(self.starts) - 1
        low, high = int(numbers.min()), int(numbers.max())
        span = high - low + 1
        total = len(numbers) if times is None else int(times.sum())
        if total <= _MOST_COUNTED and few_cells(groups * span, len(numbers)):
            from tessel.kernels.count_values import add_counts, runs_of_counts

            all_groups = np.arange(groups)
            counts = add_counts(
                numbers, times, np.diff(self.starts), all_groups, groups=groups, low=low, span=span
            )
            found, counted, starts = runs_of_counts(counts, all_groups, low)
            return ValueRuns(found, None if once else counted, starts)
        if times is not None:
            return _added(numbers, times, self.starts, low, span)
        return _counted(self, once) if may_repeat(numbers, self.starts) else self


# --- values and integers --------------------------------------------------------------------------


def has_integers(kind: pa.DataType) -> bool:
    """Return whether values of a plain type have integers of 64 bits in their order."""
    return kind.id in NUMBERS or kind.id in TIMES


def ordered_integers(values: pa.Array) -> Integers:
    """Return integers that compare as values do; equal ones, both zeros among them, are equal.

    Parameters
    ----------
    values
        Plain, nothing missing, of a type that has integers.
    """
    if pa.types.is_floating(values.type):
        # Adding zero makes one of both zeros.
        return ordered_bits((doubles(values) + 0.0).view(np.int64))
    found = integers(values)
    if found.dtype == np.uint64:
        return found.view(np.int64) ^ _SIGN
    return found.astype(np.int64, copy=False)


def ordered_bits(bits: Integers) -> Integers:
    """Return the bits of doubles as integers of the same order, or such integers as bits."""
    # Of negative doubles the greater bits are the smaller value.
    flipped: Integers = bits ^ ((bits >> 63) & _MAGNITUDE)
    return flipped


def integers_of_decimals(numbers: Integers, places: int) -> Integers:
    """Return decimals of so many places, kept as integers, as ordered bits of their doubles."""
    return ordered_bits((numbers / float(10**places)).view(np.int64)) if places >= 0 else numbers


def values_of_integers(numbers: Integers, kind: pa.DataType, places: int = BITS) -> pa.Array:
    """Return the values of integers.

    Parameters
    ----------
    numbers
        As :func:`ordered_integers` makes them, or decimals as integers.
    places
        Decimal places of the latter.
    """
    if pa.types.is_null(kind):
        return pa.nulls(len(numbers))
    if pa.types.is_floating(kind) and places == BITS:
        found = ordered_bits(numbers).view(np.float64)
        return arrow_array(found.astype(kind.to_pandas_dtype(), copy=False), kind)
    whole = (numbers ^ _SIGN) if pa.types.is_uint64(kind) else numbers
    return of_integers(whole, kind, places=places)


def few_cells(cells: int, rows: int) -> bool:
    """Return whether rows are counted in a table of so many cells sooner than they are sorted."""
    return cells <= max(_CELLS, min(_MOST_CELLS, _CELLS_A_ROW * rows))


# --- runs -----------------------------------------------------------------------------------------


def placed_runs(numbers: Integers, codes: Integers, groups: int) -> ValueRuns:
    """Bring numbers together by group.

    Parameters
    ----------
    numbers, codes
        int64, shape ``(rows,)``: any numbers, and the group of each in ``[0, groups)``.
    """
    from tessel.kernels.group_rows import count_codes, place_numbers

    if groups == 1:
        return ValueRuns(numbers.copy(), None, np.array([0, len(numbers)]))
    starts, found = recycled(groups + 1, np.int64, fill=0), recycled(len(numbers), np.int64)
    codes = np.ascontiguousarray(codes)
    count_codes(codes, starts)
    place_numbers(np.ascontiguousarray(numbers), codes, starts[:-1].copy(), found)
    return ValueRuns(found, None, starts)


def _are_ascending(numbers: Integers, starts: Integers) -> bool:
    """Return whether numbers never go down inside of a run."""
    down = numbers[1:] < numbers[:-1]
    ends = starts[1:-1]
    down[ends[(ends > 0) & (ends < len(numbers))] - 1] = False
    return not down.any()


def _counted(runs: ValueRuns, once: bool) -> ValueRuns:
    """Keep what repeats once, with how often it occurs, where that is less; runs may be sorted."""
    from tessel.kernels.order_words import count_different, count_repeats
    from tessel.kernels.word_numbers import words_of_runs

    if _are_large(runs.starts):
        found = ValueRuns(*words_of_runs(runs.numbers, runs.starts, counted=not once))
        return found if once or len(found.numbers) * REPEATS <= len(runs.numbers) else runs
    ordered = runs.ordered()
    counts = count_different(ordered.numbers, ordered.starts)
    if int(counts.sum()) * REPEATS > len(ordered.numbers) and not once:
        return ordered
    numbers, times = count_repeats(ordered.numbers, ordered.starts, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return ValueRuns(numbers, None if once else times, starts)


def _are_large(starts: Integers) -> bool:
    """Return whether runs are so large that a hash table finds what repeats before a sort does."""
    return int(starts[-1]) >= _LARGE_ROWS * (len(starts) - 1)


def _added(numbers: Integers, times: Integers, starts: Integers, low: int, span: int) -> ValueRuns:
    """Sort runs of numbers above ``low``, and add up how often equal ones occur."""
    if not _are_ascending(numbers, starts):
        numbers, times = _sorted_with(numbers, times, starts, low, span)
    first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    first[starts[:-1][np.diff(starts) > 0]] = True
    firsts = np.flatnonzero(first)
    kept = np.add.reduceat(times, firsts)
    return ValueRuns(numbers[firsts], kept, np.searchsorted(firsts, starts))


def _sorted_with(
    numbers: Integers, times: Integers, starts: Integers, low: int, span: int
) -> tuple[Integers, Integers]:
    """Sort runs of numbers, and bring their times along."""
    groups = len(starts) - 1
    codes = np.repeat(np.arange(groups), np.diff(starts))
    bits = int(times.max()).bit_length()
    if groups * span << bits > _WIDEST:
        from tessel.kernels.group_rows import rows_by_code

        by_value = np.argsort(numbers)
        order = by_value[rows_by_code(codes[by_value], groups)[0]]
        return numbers[order], times[order]
    # Sorting one number a row is several times faster than finding the order of rows.
    codes *= span
    both = (numbers - low + codes) << bits
    both |= times
    both.sort()
    return (both >> bits) - codes + low, both & ((1 << bits) - 1)


_LEAST_AT_A_TIME = 1 << 16
_PARTS = 32
"""Groups of so many numbers, or of such a part of all, share memory: calls are few either way."""


@dataclass(frozen=True, eq=False)
class NumberLists:
    """Lists of integers.

    Attributes
    ----------
    numbers
        int64, one list after another.
    times
        How often each number occurs, int64; None for once.
    lengths, owners
        int64, shape ``(lists,)``: how many numbers each list has, and its group.
    """

    numbers: Integers
    times: Integers | None
    lengths: Integers
    owners: Integers


class ValueLists:
    """All lists of some groups.

    The runs that it gives are to be made :meth:`~ValueRuns.compact` where they have times: what
    comes of several lists is in no order, and the same number may be in each.

    Parameters
    ----------
    parts
        The lists, of one unit after another.
    """

    def __init__(self, parts: Sequence[NumberLists], groups: int) -> None:
        from tessel.kernels.group_rows import order_of_codes

        self._parts = parts
        self._has_times = any(part.times is not None for part in parts)
        once = [len(part.numbers) for part in parts if part.times is None]
        ones = np.ones(max(once, default=0) if self._has_times else 0, np.int64)
        self._times = [
            ones[: len(part.numbers)] if part.times is None else part.times for part in parts
        ]
        self._places: list[tuple[Integers, Integers, Integers]] = []
        counts = recycled(groups, np.int64, fill=0)
        for part in parts:
            held = part.numbers if part.times is None else part.times
            if not int(part.lengths.sum()) == len(part.numbers) == len(held):
                raise ExecutionError("lists of values are not as long as they say")
            order = order_of_codes(part.owners, groups)
            starts = np.cumsum(part.lengths) - part.lengths
            self._places.append((part.owners[order], starts[order], part.lengths[order]))
            counts += np.bincount(part.owners, part.lengths, groups).astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def some_at_a_time(self) -> Iterator[ValueRuns]:
        """Give the runs of all groups, of some after others; each is valid until the next."""
        starts, groups = self._starts, len(self._starts) - 1
        most = max(_LEAST_AT_A_TIME, int(starts[-1]) // _PARTS)
        cuts = [0]
        while not cuts[1:] or cuts[-1] < groups:
            end = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
            cuts.append(min(max(end, cuts[-1] + 1), groups))
        scratch = recycled((1 + self._has_times, int(np.diff(starts[cuts]).max())), np.int64)
        for first, last in itertools.pairwise(cuts):
            own = starts[first : last + 1] - starts[first]
            held = scratch[:, : int(own[-1])]
            self._place([part.numbers for part in self._parts], first, last, own, held[0])
            if self._has_times:
                self._place(self._times, first, last, own, held[1])
            yield ValueRuns(held[0], held[1] if self._has_times else None, own)

    def _place(
        self, lists: Sequence[Integers], first: int, last: int, starts: Integers, found: Integers
    ) -> None:
        from tessel.kernels.group_rows import place_lists

        places = starts[:-1].copy()
        for numbers, (owners, begins, lengths) in zip(lists, self._places, strict=True):
            own = slice(*np.searchsorted(owners, [first, last]).tolist())
            place_lists(numbers, begins[own], lengths[own], owners[own] - first, places, found)

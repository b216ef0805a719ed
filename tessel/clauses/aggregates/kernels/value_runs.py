"""The values of each group in order, as integers: what median, quantiles and nunique stand on.

Values become integers of the same order; the group and the integer of a row become one number where
both fit, so that a table of counts or a plain sort brings all groups into order at once. Where they
do not fit, rows are brought together by group, and each group is sorted. Nothing depends on the
order in which rows come, so runs of parts of the rows join to the runs of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.values import integers, is_temporal, raw_values

__all__ = [
    "BITS",
    "WIDEST",
    "ValueRuns",
    "few_cells",
    "has_integers",
    "integers_of_decimals",
    "joined_runs",
    "ordered_bits",
    "ordered_integers",
    "packed_runs",
    "value_runs",
    "values_of_integers",
]

Integers = NDArray[np.int64]

BITS = -1
"""The places of integers that are no decimals: those of their type, or bits of a float."""

_CELLS = 1 << 18
"""A table of counts is used up to so many cells, however few the rows."""

_MOST_CELLS = 1 << 22
_CELLS_A_ROW = 4
"""A larger one is used up to so many cells a row: past the cache a cell costs as much as a row."""

_SEEN = 1 << 21
"""A cell that only says whether a number was seen is an eighth of that."""

_MOST_COUNTED = (1 << 32) - 1
"""What a cell of a table of counts holds."""

WIDEST = 1 << 62
"""What groups and numbers together may reach."""

_SIGN = np.int64(-(1 << 63))
_MAGNITUDE = np.int64((1 << 63) - 1)
_REPEATS = 2
"""Values that occur so often on the average are kept once, with how often they occur."""


@dataclass(frozen=True, eq=False)
class ValueRuns:
    """Integers of groups.

    Attributes
    ----------
    numbers
        int64, ascending within each group.
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
        first = np.ones(len(self.numbers) + 1, np.int64)
        np.not_equal(self.numbers[1:], self.numbers[:-1], out=first[1:-1], casting="unsafe")
        first[self.starts] = 1
        before = np.concatenate([[0], np.cumsum(first[:-1])])
        return np.diff(before[self.starts])

    def of_groups(self, groups: Integers) -> ValueRuns:
        """Return the runs of some groups, in their order."""
        lengths = np.diff(self.starts)[groups]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.starts[groups] - starts[:-1], lengths)
        rows += np.arange(len(rows))
        times = None if self.times is None else self.times[rows]
        return ValueRuns(self.numbers[rows], times, starts)

    def at(self, owners: Integers, places: Integers) -> Integers:
        """Return the number at a place of each of some groups, counted from its first row."""
        if self.times is None:
            found: Integers = self.numbers[self.starts[owners] + places]
            return found
        before = np.concatenate([[0], np.cumsum(self.times)])
        rows = before[self.starts[owners]] + places
        return self.numbers[np.searchsorted(before, rows, side="right") - 1]


# --- values and integers --------------------------------------------------------------------------


def has_integers(kind: pa.DataType) -> bool:
    """Return whether values of a plain type have integers of 64 bits in their order."""
    types = pa.types
    return bool(
        types.is_floating(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
        or is_temporal(kind)
    )


def ordered_integers(values: pa.Array) -> Integers:
    """Return integers that compare as values do; equal ones, both zeros among them, are equal.

    Parameters
    ----------
    values
        Plain, nothing missing, of a type that has integers.
    """
    if pa.types.is_floating(values.type):
        raw = raw_values(values, values.type.to_pandas_dtype()).astype(np.float64, copy=False)
        return ordered_bits((raw + 0.0).view(np.int64))  # adding zero makes one of both zeros
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
    kind
        The plain type of the values.
    places
        Decimal places of the latter.
    """
    if pa.types.is_null(kind):
        return pa.nulls(len(numbers))
    if pa.types.is_floating(kind):
        found = ordered_bits(integers_of_decimals(numbers, places)).view(np.float64)
        return arrow_array(found.astype(kind.to_pandas_dtype(), copy=False), kind)
    if pa.types.is_boolean(kind):
        return arrow_array(numbers.astype(np.bool_))
    if pa.types.is_uint64(kind):
        return arrow_array((numbers ^ _SIGN).view(np.uint64))
    if pa.types.is_integer(kind):
        return arrow_array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind)
    width = np.int32 if kind.bit_width == 32 else np.int64
    return arrow_array(numbers.astype(width, copy=False)).view(kind)


def few_cells(cells: int, rows: int) -> bool:
    """Return whether rows are counted in a table of so many cells sooner than they are sorted."""
    return cells <= max(_CELLS, min(_MOST_CELLS, _CELLS_A_ROW * rows))


# --- runs -----------------------------------------------------------------------------------------


def value_runs(
    numbers: Integers,
    codes: Integers,
    groups: int,
    times: Integers | None = None,
    *,
    once: bool = False,
) -> ValueRuns:
    """Bring numbers into the order of their groups, and of numbers inside of them.

    Parameters
    ----------
    numbers, codes
        int64, shape ``(rows,)``: any numbers, and the group of each in ``[0, groups)``.
    groups
        How many groups there are.
    times
        How often each number occurs; None for once.
    once
        Whether it does not matter how often; each number of a group is kept once then.
    """
    if not len(numbers):
        return ValueRuns(np.zeros(0, np.int64), None, np.zeros(groups + 1, np.int64))
    times = None if once else times
    low, high = int(numbers.min()), int(numbers.max())
    span = high - low + 1
    if groups * span > WIDEST:
        return _wide_runs(numbers, codes, groups, times, once)
    packed = numbers - low
    if groups > 1:
        packed += codes * span
    return packed_runs(packed, span, groups, low=low, times=times, once=once)


def joined_runs(
    numbers: Integers,
    lengths: Integers,
    codes: Integers,
    groups: int,
    times: Integers | None,
    *,
    once: bool = False,
) -> ValueRuns:
    """Bring numbers of several runs together by group; see :func:`value_runs`.

    Parameters
    ----------
    lengths, codes
        int64: how many numbers are in each run, and the group of each.
    """
    if len(numbers):
        low, high = int(numbers.min()), int(numbers.max())
        span = high - low + 1
        total = len(numbers) if times is None or once else int(times.sum())
        if total <= _MOST_COUNTED and few_cells(groups * span, len(numbers)):
            from tessel.kernels.count_values import add_counts, runs_of_counts

            own = None if once else times
            counts = add_counts(numbers, own, lengths, codes, groups=groups, low=low, span=span)
            found, counted, starts = runs_of_counts(counts, np.arange(groups), low)
            return ValueRuns(found, None if once else counted, starts)
    return value_runs(numbers, np.repeat(codes, lengths), groups, times, once=once)


def packed_runs(
    packed: Integers,
    span: int,
    groups: int,
    *,
    low: int = 0,
    times: Integers | None = None,
    once: bool = False,
) -> ValueRuns:
    """Bring numbers into order that their groups are in already.

    Parameters
    ----------
    packed
        int64, ``group * span + number - low``; may be written over.
    span
        Numbers are in ``[low, low + span)``; times ``groups`` at most :data:`WIDEST`.
    groups, low, times, once
        As of :func:`value_runs`.
    """
    if not len(packed):
        return ValueRuns(np.zeros(0, np.int64), None, np.zeros(groups + 1, np.int64))
    if groups * span <= _SEEN if once else few_cells(groups * span, len(packed)):
        packed, times = _counted(packed, groups * span, times, once)
    elif times is None:
        packed.sort()
        packed, times = _together(packed, once)
    else:
        packed, times = _added(*_sorted_with(packed, times, groups * span))
    # Groups begin at multiples of the span.
    starts = np.searchsorted(packed, np.arange(groups + 1) * span)
    packed -= np.repeat(np.arange(groups) * span - low, np.diff(starts))
    return ValueRuns(packed, times, starts)


def _counted(
    packed: Integers, cells: int, times: Integers | None, once: bool
) -> tuple[Integers, Integers | None]:
    """Count numbers in a table."""
    if once:
        seen = np.zeros(cells, np.bool_)
        seen[packed] = True
        return np.flatnonzero(seen), None
    # Sums of counts are sums of whole doubles far below 2**53.
    table = np.bincount(packed, times)
    there = np.flatnonzero(table)
    return there, table[there].astype(np.int64, copy=False)


def _together(ordered: Integers, once: bool) -> tuple[Integers, Integers | None]:
    """Keep what repeats once, with how often it occurs, where that is less."""
    from tessel.kernels.count_repeats import count_repeats

    numbers, times = count_repeats(ordered)
    if once:
        return numbers.copy(), None
    if len(numbers) * _REPEATS > len(ordered):
        return ordered, None
    return numbers.copy(), times.copy()  # what they were written to is larger


def _sorted_with(packed: Integers, times: Integers, cells: int) -> tuple[Integers, Integers]:
    """Sort numbers below ``cells``, and bring their times along."""
    bits = int(times.max()).bit_length()
    if cells << bits > WIDEST:
        order = np.argsort(packed)
        return packed[order], times[order]
    # Sorting one number a row is several times faster than finding the order of rows.
    both = packed << bits
    both |= times
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def _added(ordered: Integers, times: Integers) -> tuple[Integers, Integers]:
    """Add up how often equal numbers, side by side, occur."""
    firsts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return ordered[firsts], np.add.reduceat(times, firsts)


def _wide_runs(
    numbers: Integers, codes: Integers, groups: int, times: Integers | None, once: bool
) -> ValueRuns:
    """Return the runs of numbers that leave no room for those of their groups."""
    if times is None:
        ordered, starts = _sorted_groups(numbers, codes, groups)
    else:
        from tessel.kernels.rows_by_code import rows_by_code

        by_value = np.argsort(numbers)
        rows, starts = rows_by_code(codes[by_value], groups)
        order = by_value[rows]
        ordered, times = numbers[order], times[order]
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    first[starts[:-1][np.diff(starts) > 0]] = True
    firsts = np.flatnonzero(first)
    if times is None and not once:
        if len(firsts) * _REPEATS > len(ordered):
            return ValueRuns(ordered, None, starts)
        times = np.ones(len(ordered), np.int64)
    kept = None if times is None else np.add.reduceat(times, firsts)
    return ValueRuns(ordered[firsts], kept, np.searchsorted(firsts, starts))


def _sorted_groups(numbers: Integers, codes: Integers, groups: int) -> tuple[Integers, Integers]:
    """Return the numbers of each group in order, and where groups start."""
    from tessel.kernels.rows_by_code import rows_by_code
    from tessel.kernels.sort_runs import sort_runs

    if groups == 1:
        return np.sort(numbers), np.array([0, len(numbers)])
    rows, starts = rows_by_code(codes, groups)
    ordered = numbers[rows]
    sort_runs(ordered, starts)
    return ordered, starts

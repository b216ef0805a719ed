"""Aggregates of windows of rows: any aggregate, and fast ways for reductions that have one.

Rows are in key order, a window is a run of them. Sums are differences of exact running sums;
extremes come from a sparse table. Aggregates of other reductions, and those of none, are computed
like groups, of which each is a window, so every aggregate there is works here and means the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.cancelling import check_cancelled
from tessel.clauses.aggregates.base import Aggregate
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.aggregates.mean import Mean
from tessel.clauses.aggregates.reductions import SUMS, of_some
from tessel.clauses.aggregates.spread import Spread
from tessel.clauses.aggregates.sum import Sum
from tessel.clauses.values import doubles, integers, missing_rows, plain
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.window_rows import (
    short_window_sums,
    window_best,
    window_lengths,
    window_sums,
    without_short,
)
from tessel.kernels.window_spreads import window_spreads
from tessel.lazy import dataclass

Places = NDArray[np.int64]

_GATHERED_ROWS = 1 << 20
"""Rows that windows computed one by one are gathered into at a time."""


@dataclass(frozen=True)
class Windows:
    """Runs of rows ``[starts[i], stops[i])``; int64, shape ``(windows,)``."""

    starts: Places
    stops: Places

    def __len__(self) -> int:
        return len(self.starts)

    @cached
    def lengths(self) -> Places:
        """How many rows each has."""
        return self.stops - self.starts

    @cached
    def shortest(self) -> int:
        """The rows of the shortest; 1 where there is no window."""
        return window_lengths(self.starts, self.stops)[0]

    @cached
    def empty(self) -> NDArray[np.bool_] | None:
        """Which have none; None where each has one at least."""
        return None if self.shortest else self.starts == self.stops

    def only(self, chosen: NDArray[np.bool_]) -> Windows:
        """Return the windows with those emptied that are not chosen."""
        return Windows(np.where(chosen, self.starts, self.stops), self.stops)

    def of_rows(self, least: int) -> Windows:
        """Return the windows with those emptied that have fewer rows."""
        return Windows(without_short(self.starts, self.stops, least), self.stops)


_EXACT = 1 << 53
"""Below it integers are doubles."""


def window_aggregate(
    aggregate: Aggregate,
    values: pa.ChunkedArray | None,
    windows: Windows,
    least: int | None,
    column: str | None,
) -> pa.Array:
    """Return an aggregate of each window.

    Parameters
    ----------
    values
        The column; None for an aggregate that counts rows.
    least
        Values that are not missing (rows, where those are counted) of which a window has at least
        so many, or its result is missing; nothing is computed of it then.
    """
    if values is None:
        lengths = windows.lengths
        return arrow_array(lengths, mask=None if least is None else lengths < least)
    array = plain(values)
    absent = missing_rows(array)
    present = windows
    if absent is not None:
        ends = np.concatenate([[0], np.cumsum(~absent)])
        present = Windows(ends[windows.starts], ends[windows.stops])
    short = None
    if least and present.shortest < least:
        present = present.of_rows(least)
        short = present.empty
    if isinstance(aggregate, FromReductions) and _REDUCED.keys() >= {*aggregate.reductions}:
        there = array if absent is None else array.filter(arrow_array(~absent))
        found = _by_reductions(aggregate, there, present, column)
    else:
        whole = windows if short is None else windows.only(~short)
        found = _one_by_one(aggregate, array, whole, column)
    return found if short is None else of_some(found, ~short)


def _by_reductions(
    aggregate: FromReductions, values: pa.Array, windows: Windows, column: str | None
) -> pa.Array:
    """Return what an aggregate makes of the reductions of each window."""
    quick = _quick(aggregate, values, windows, column)
    if quick is not None:
        return quick
    columns = list(map(plain, values.flatten())) if aggregate.further else [values]
    reduced = {which: _REDUCED[which](columns, windows) for which in aggregate.reductions}
    return aggregate.of_reductions(reduced, values.type, column)


def _at(columns: Sequence[pa.Array], rows: Places, windows: Windows) -> pa.Array:
    empty = windows.lengths == 0
    return columns[0].take(arrow_array(np.where(empty, 0, rows), mask=empty))


def _best(columns: Sequence[pa.Array], windows: Windows, *, greatest: bool) -> pa.Array:
    found = OrderedNumbers.of_values(columns[0])
    best = window_best(found.in_64_bits, windows.starts, windows.stops, greatest=greatest)
    return found.values(found.of_64_bits(best), windows.empty)


def _sums(which: str, columns: Sequence[pa.Array], windows: Windows) -> ExactSums:
    rows = len(columns[0])
    return SUMS[which](columns, np.arange(rows), rows).windows(windows.starts, windows.stops)


_REDUCED: dict[str, Callable[[Sequence[pa.Array], Windows], Any]] = {
    "count": lambda columns, windows: windows.lengths,
    "first": lambda columns, windows: _at(columns, windows.starts, windows),
    "last": lambda columns, windows: _at(columns, windows.stops - 1, windows),
    "least": functools.partial(_best, greatest=False),
    "greatest": functools.partial(_best, greatest=True),
    **{which: functools.partial(_sums, which) for which in SUMS},
}
"""What a reduction is of each window."""


def _quick(
    aggregate: FromReductions, values: pa.Array, windows: Windows, column: str | None
) -> pa.Array | None:
    """Return sums, means and spreads where two integers or one hold every sum; None elsewhere."""
    if isinstance(aggregate, Spread):
        spreads = _quick_spread(aggregate, values, windows)
        if spreads is None:
            return None
        return _told_one_by_one(aggregate, values, windows, column, *spreads)
    mean = type(aggregate) is Mean
    sums = _short_sums(values, windows, mean=mean) if mean or type(aggregate) is Sum else None
    if sums is None:
        return None
    if mean:
        return arrow_array(sums, mask=windows.empty)
    wanted = aggregate.result_type(values.type, column)
    is_float = pa.types.is_floating(wanted)
    return arrow_array(sums) if is_float else arrow_array(sums.astype(np.int64)).view(wanted)


def _short_sums(values: pa.Array, windows: Windows, *, mean: bool) -> NDArray[np.float64] | None:
    """Return sums or means as floats, where two integers or one hold every sum; None elsewhere."""
    kind = values.type
    if pa.types.is_floating(kind):
        return short_window_sums(doubles(values), windows.starts, windows.stops, mean=mean)
    is_number = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not is_number and (mean or not pa.types.is_duration(kind)):
        return None
    numbers = integers(values)
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    if largest * window_lengths(windows.starts, windows.stops)[1] >= _EXACT:
        return None
    split = 2  # the least for which all integers that are doubles are below the splitter
    return window_sums(numbers.astype(np.float64), windows.starts, windows.stops, split, mean=mean)


def _as_doubles(values: pa.Array) -> NDArray[np.float64] | None:
    """Return numbers that doubles hold as such; None for others."""
    kind = values.type
    if pa.types.is_floating(kind):
        return doubles(values)
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return None
    numbers = integers(values)
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    return numbers.astype(np.float64) if largest < _EXACT else None


def _quick_spread(
    aggregate: Spread, values: pa.Array, windows: Windows
) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
    """Return spreads of numbers and where they are certain; None where few would be."""
    numbers = _as_doubles(values)
    if numbers is None:
        return None
    found = window_spreads(
        numbers,
        windows.starts,
        windows.stops,
        ddof=aggregate.ddof,
        root=aggregate.takes_root,
        of_mean=aggregate.of_mean,
    )
    if found is None:
        return None
    rest = np.flatnonzero(~found[1])
    return found if int(windows.lengths[rest].sum()) <= 2 * len(values) else None


def _told_one_by_one(
    aggregate: Spread,
    values: pa.Array,
    windows: Windows,
    column: str | None,
    found: NDArray[np.float64],
    certain: NDArray[np.bool_],
) -> pa.Array:
    """Return spreads, the uncertain ones computed like groups."""
    if not certain.all():
        rest = np.flatnonzero(~certain)
        few = Windows(windows.starts[rest], windows.stops[rest])
        found[rest] = numpy_array(_one_by_one(aggregate, values, few, column))
    missing = windows.lengths <= aggregate.ddof
    return arrow_array(found, mask=missing if missing.any() else None)


def _one_by_one(
    aggregate: Aggregate, values: pa.Array, windows: Windows, column: str | None
) -> pa.Array:
    """Compute windows as groups: each row is gathered as often as windows hold it."""
    lengths = windows.lengths
    ends = np.cumsum(lengths)
    parts: list[pa.Array] = []
    first = 0
    while first < len(windows) or not parts:
        check_cancelled()
        taken = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, taken + _GATHERED_ROWS, side="right"))
        last = max(last, min(first + 1, len(windows)))
        own = lengths[first:last]
        codes = np.repeat(np.arange(last - first), own)
        within = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
        rows = np.repeat(windows.starts[first:last], own) + within
        gathered = values.take(arrow_array(rows))
        parts.append(aggregate.compute(gathered, codes, last - first, column))
        first = last
    return pa.concat_arrays(parts)

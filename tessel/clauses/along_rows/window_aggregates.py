"""Aggregates of windows of rows: any aggregate, and fast ways for those that have one.

Rows are in key order, a window is a run of them. Sums and what follows from sums are differences
of exact running sums; extremes come from a sparse table; the others are computed like groups, of
which each is a window, so every aggregate there is works here and means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.cancelling import check_cancelled
from tessel.clauses.aggregates.base import Aggregate
from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.aggregates.kernels.sums import products_of, sums_of
from tessel.clauses.aggregates.mean import Mean
from tessel.clauses.aggregates.selective import First, Last, Max, Min
from tessel.clauses.aggregates.spread import Sem, Spread
from tessel.clauses.aggregates.sum import Sum
from tessel.clauses.values import doubles, integers, missing_rows, plain
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

_Kernel = Callable[[Any, pa.Array, Windows, str | None], pa.Array]


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
    kernel: _Kernel | None = (
        _spread if isinstance(aggregate, Spread) else _KERNELS.get(type(aggregate))
    )
    if kernel is None:
        whole = windows if short is None else windows.only(~short)
        found = _one_by_one(aggregate, array, whole, column)
    else:
        there = array if absent is None else array.filter(arrow_array(~absent))
        found = kernel(aggregate, there, present, column)
    return found if short is None else _without(found, short)


def _without(found: pa.Array, short: NDArray[np.bool_]) -> pa.Array:
    """Return results with those missing of windows that are too short."""
    if not pa.types.is_primitive(found.type) or found.offset:
        return found.take(arrow_array(np.arange(len(found)), mask=short))
    valid = ~short & numpy_array(found.is_valid()) if found.null_count else ~short
    buffers = [arrow_array(valid).buffers()[1], found.buffers()[1]]
    return pa.Array.from_buffers(found.type, len(found), buffers)


def _count(_: Count, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    return arrow_array(windows.lengths)


def _first(_: First, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    empty = windows.lengths == 0
    return values.take(arrow_array(np.where(empty, 0, windows.starts), mask=empty))


def _last(_: Last, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    empty = windows.lengths == 0
    return values.take(arrow_array(np.where(empty, 0, windows.stops - 1), mask=empty))


def _extreme(
    aggregate: Min | Max, values: pa.Array, windows: Windows, column: str | None
) -> pa.Array:
    found = OrderedNumbers.of_values(values)
    best = window_best(
        found.in_64_bits, windows.starts, windows.stops, greatest=isinstance(aggregate, Max)
    )
    return found.values(found.of_64_bits(best), windows.empty)


def _sum(aggregate: Sum, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    short = _short_sums(values, windows, mean=False)
    if short is not None:
        wanted = aggregate.result_type(values.type, column)
        if pa.types.is_floating(wanted):
            return arrow_array(short)
        return arrow_array(short.astype(np.int64)).view(wanted)
    rows = len(values)
    sums = sums_of(values, np.arange(rows), rows).windows(windows.starts, windows.stops)
    return aggregate.of_reductions({"sum": sums}, values.type, column)


def _mean(aggregate: Mean, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    short = _short_sums(values, windows, mean=True)
    if short is not None:
        return arrow_array(short, mask=windows.empty)
    rows = len(values)
    sums = sums_of(values, np.arange(rows), rows).windows(windows.starts, windows.stops)
    reduced = {"sum": sums, "count": windows.lengths}
    return aggregate.of_reductions(reduced, values.type, column)


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
    return window_sums(numbers.astype(np.float64), windows.starts, windows.stops, 0, 0, mean=mean)


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


def _spread(aggregate: Spread, values: pa.Array, windows: Windows, column: str | None) -> pa.Array:
    quick = _quick_spread(aggregate, values, windows)
    if quick is not None:
        return _told_one_by_one(aggregate, values, windows, column, *quick)
    rows = len(values)
    each = np.arange(rows)
    reduced = {
        "sum": sums_of(values, each, rows).windows(windows.starts, windows.stops),
        "products": products_of(values, values, each, rows).windows(windows.starts, windows.stops),
        "count": windows.lengths,
    }
    return aggregate.of_reductions(reduced, values.type, column)


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
        of_mean=isinstance(aggregate, Sem),
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


_KERNELS: dict[type[Aggregate], _Kernel] = {
    Count: _count,
    First: _first,
    Last: _last,
    Max: _extreme,
    Mean: _mean,
    Min: _extreme,
    Sum: _sum,
}


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

"""Grouping entities into work units: the helpers that clauses, also your own, structure with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessel.ecs.piece import ColRange, RowRange, TimeRange, only_of_kind
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What is known of one piece between two stages, without its data.

    Attributes
    ----------
    unit
        Ordinal of the unit that left the piece.
    row_range, col_range, time_range, symbol, bucket, segments, components
        As in :class:`tessel.ecs.Piece`.
    """

    unit: int
    rows: int
    row_range: RowRange
    col_range: ColRange
    time_range: TimeRange | None = None
    symbol: int = 0
    bucket: int | None = None
    segments: tuple[str, ...] = ()
    components: tuple[object, ...] = ()

    def component(self, kind: type[T]) -> T | None:
        """Return the component of a type, as :meth:`tessel.ecs.ProcessingUnit.component` does."""
        return only_of_kind(self.components, kind)


class UnitPositions(Sequence[list[int]]):
    """The positions of the segments of each unit; a list of them is made when it is asked for.

    Parameters
    ----------
    starts
        Where each unit begins in ``positions``, and the last ends; int64, ``(units + 1,)``.
    positions
        The segments of all units by position in the index, unit by unit; int64.
    """

    def __init__(self, starts: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
        self.starts = starts
        self.positions = positions

    @classmethod
    def of(cls, units: Sequence[Sequence[int]]) -> UnitPositions:
        """Return the same units as arrays."""
        if isinstance(units, UnitPositions):
            return units
        counts = np.fromiter(map(len, units), np.int64, len(units))
        starts = np.append(0, np.cumsum(counts))
        chained = itertools.chain.from_iterable(units)
        return cls(starts, np.fromiter(chained, np.int64, int(starts[-1])))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, unit: Any) -> Any:
        """Return the positions of a unit, or those of each unit of a slice."""
        if isinstance(unit, slice):
            return [self[each] for each in range(len(self))[unit]]
        unit = range(len(self))[unit]
        return self.positions[self.starts[unit] : self.starts[unit + 1]].tolist()


@dataclass(frozen=True)
class StructuredUnits:
    """The first work units of a query.

    Attributes
    ----------
    units
        For each unit the positions of its segments in ``index``. A position that stands in several
        units is loaded once.
    """

    index: SegmentIndex
    units: Sequence[Sequence[int]]


def facts_of_segments(index: SegmentIndex) -> list[UnitFacts]:
    """Return the facts of each segment that its index knows; its unit is its row slice."""
    slices = index.slice_number.tolist()
    return [
        UnitFacts(
            slices[position],
            piece.row_stop - piece.row_start,
            piece.row_range,
            piece.col_range,
            piece.time_range,
        )
        for position, piece in enumerate(map(index.source, range(len(index))))
    ]


def structure_by_row_slice(index: SegmentIndex) -> StructuredUnits:
    """Make one unit of all column slices of each row range, in row order."""
    bounds = np.flatnonzero(np.diff(index.slice_number, prepend=-1, append=-2))
    return StructuredUnits(index, UnitPositions(bounds, np.arange(len(index))))


def structure_all_as_one(index: SegmentIndex) -> StructuredUnits:
    """Make one unit of everything, in row order; none where there is nothing."""
    return StructuredUnits(index, [list(range(len(index)))] if len(index) else [])


def structure_by_bucket(units: Sequence[UnitFacts]) -> list[list[int]]:
    """Make one unit of each hash bucket, by bucket number, pieces in plan order inside."""
    found: dict[int, list[int]] = {}
    for position, facts in enumerate(units):
        found.setdefault(0 if facts.bucket is None else facts.bucket, []).append(position)
    return [found[bucket] for bucket in sorted(found)]


def structure_by_time_bucket(first: np.ndarray, last: np.ndarray) -> list[list[int]]:
    """Make units of row slices so that every time bucket lies whole in one unit.

    Parameters
    ----------
    first, last
        For each row slice in row order the number of the bucket of its first and last row, or of
        bounds of them; both never go back. int64, shape (slices,). Slices that were cut out of one,
        by an edit or for several workers, may all have the bounds of the one: they count as one.

    Returns
    -------
    list of list of int
        Unit *i* holds a slice and those after it that share its last bucket. A slice that begins in
        a bucket which a unit before it holds is fetched by both; the later unit leaves that first
        bucket to the earlier one. A slice whose only bucket is held by an earlier unit starts no
        unit of its own.
    """
    starts, last = _apart(first, last)
    edges = [*starts.tolist(), len(first)]
    first = first[starts]
    units: list[list[int]] = []
    count = len(first)
    position = 0
    while position < count:
        end = position + 1
        while end < count and first[end] == last[position]:
            end += 1
        units.append(list(range(edges[position], edges[end])))
        # The next unit starts with the last slice taken if that goes on past the shared bucket.
        reaches_further = end - 1 > position and last[end - 1] > last[position]
        position = end - 1 if reaches_further else end
    return units


def last_bucket_of_front(first: np.ndarray, last: np.ndarray) -> int:
    """Return the last time bucket that a unit of :func:`structure_by_time_bucket` may call its own.

    Those after it belong to the units after; rows of them came with the slices that share a bucket
    with the front one.

    Parameters
    ----------
    first, last
        As of that function, of the slices of the unit: one at least.
    """
    return int(_apart(first, last)[1][0])


def _apart(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where slices begin that overlap none before them, and the last bucket up to the next.

    Slices that share one bucket do not overlap.
    """
    reached = np.maximum.accumulate(last)
    starts = np.flatnonzero(np.append([True] * bool(len(first)), first[1:] >= reached[:-1]))
    return starts, reached[np.append(starts, len(first))[1:] - 1]

"""One range of a selection: its bounds, its selection vector, and the columns read of it so far.

:class:`~tessel.store.manifest.selected_rows.SelectedRows` is a list of such ranges. Top-k and
its dynamic filter, which visits pages in an order of its own, gets them as
:class:`SelectedPages`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.lazy import dataclass
from tessel.store.segment.zone_maps import ZoneMaps

if TYPE_CHECKING:
    from tessel.store.segment.statistics import ColumnZones

_FEW_PART = 8
"""Of no more than this part of its rows a column is copied at once, and lets go of the others."""


class ReadColumns(dict[str, Any]):
    """Columns that were read, by name: one value per selected row. Text may be dictionaries.

    Rows that are left of a column are copied when the column is next asked for: what goes on with
    stored pages asks for none.
    """

    def __getitem__(self, name: str) -> pa.Array:
        values = super().__getitem__(name)
        if not isinstance(values, pa.Array):
            values = self[name] = values()
        return values

    def filter(self, mask: pa.Array, left: int) -> ReadColumns:
        """Return the rows where a mask is true; there are ``left`` of them."""
        found = self._each(lambda values: values.filter(mask))
        if left * _FEW_PART < len(mask):
            for name in found:
                found[name]  # lets go of the other rows
        return found

    def slice(self, start: int, stop: int) -> ReadColumns:
        """Return the rows ``[start, stop)``."""
        return self._each(lambda values: values[start:stop])

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> ReadColumns:
        def made(name: str) -> pa.Array:
            return change(self[name])

        return ReadColumns({name: functools.partial(made, name) for name in self})


@dataclass(slots=True, eq=False)
class SelectedRange:
    """Those rows of ``[low, high)``, counted from the first of the pieces, that are selected.

    A selection vector is a mask or row offsets; whichever is missing is made when it is needed.

    Attributes
    ----------
    mask
        A flag for each row of the range; None where all are selected, or where only ``offsets``
        are known.
    columns
        Columns that were read.
    count
        How many rows are selected; negative where they were not counted yet.
    offsets
        The selected rows, ascending, counted from ``low``; None where all are selected, or where
        only ``mask`` is known.
    """

    low: int
    high: int
    mask: npt.NDArray[np.bool_] | None = None
    columns: ReadColumns = field(default_factory=ReadColumns)
    count: int = -1
    offsets: npt.NDArray[np.int64] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the range are selected."""
        return self.mask is None and self.offsets is None

    @property
    def row_mask(self) -> npt.NDArray[np.bool_] | None:
        """A flag for each row of the range; None where all are selected.

        Few rows are known by their offsets alone until a mask is asked for: clearing the mask of a
        long range takes longer than reading a few rows.
        """
        if self.mask is None and self.offsets is not None:
            mask = np.zeros(self.high - self.low, np.bool_)
            mask[self.offsets] = True
            self.mask = mask
        return self.mask

    @property
    def rows(self) -> int:
        """How many rows are selected."""
        if self.count < 0:
            if self.offsets is not None:
                self.count = len(self.offsets)
            elif self.mask is not None:
                self.count = int(np.count_nonzero(self.mask))
            else:
                self.count = self.high - self.low
        return self.count

    def places(self) -> npt.NDArray[np.int64]:
        """Return the selected rows, counted from the first row of the pieces; int64."""
        if self.offsets is None:
            if self.mask is None:
                return np.arange(self.low, self.high)
            self.offsets = np.flatnonzero(self.mask)
        return self.offsets + self.low

    def flags(self) -> npt.NDArray[np.bool_]:
        """Return a flag for each row of the range: whether it is selected."""
        selected = self.row_mask
        return np.ones(self.high - self.low, np.bool_) if selected is None else selected

    def cut(self, low: int, high: int) -> SelectedRange | None:
        """Return the selected rows within ``[low, high)`` as a range; None where there are none."""
        low, high = max(self.low, low), min(self.high, high)
        if low >= high:
            return None
        if (low, high) == (self.low, self.high):
            return self
        begin, end = low - self.low, high - self.low
        selected = self.row_mask
        if selected is None:
            return SelectedRange(low, high, None, self.columns.slice(begin, end))
        if not self.columns:
            return SelectedRange(low, high, selected[begin:end])
        if self.offsets is None:
            self.offsets = np.flatnonzero(selected)
        first, stop = np.searchsorted(self.offsets, [begin, end]).tolist()
        columns = self.columns.slice(first, stop)
        return SelectedRange(low, high, selected[begin:end], columns, stop - first)

    def only(self, mask: pa.Array) -> SelectedRange | None:
        """Return the range with those selected rows for which ``mask``, one flag each, is true."""
        left = mask.true_count
        if left == len(mask):
            return self
        if left == 0:
            return None
        plain = np.asarray(numpy_array(fill_null(mask, False)))
        columns = self.columns.filter(mask, left)
        if self.is_whole:
            return SelectedRange(self.low, self.high, plain, columns, left)
        offsets = self.places()[plain] - self.low
        return SelectedRange(self.low, self.high, None, columns, left, offsets)

    def at(self, places: npt.NDArray[np.int64]) -> SelectedRange | None:
        """Select rows of a whole range of which no column was read.

        ``places`` are counted from ``low`` and ascend; the range owns them from then on.
        """
        if len(places) == self.rows:
            return self
        if not len(places):
            return None
        return SelectedRange(self.low, self.high, None, ReadColumns(), len(places), places)

    def where(self, mask: npt.NDArray[np.bool_]) -> SelectedRange | None:
        """Return the range with those selected rows for which a mask of all its rows is true."""
        selected = mask if self.row_mask is None else self.row_mask & mask
        left = int(np.count_nonzero(selected))
        if left == self.rows:
            return self
        if left == 0:
            return None
        columns = self.columns
        if columns:
            among = arrow_array(mask if self.row_mask is None else mask[self.row_mask])
            columns = columns.filter(among, left)
        return SelectedRange(self.low, self.high, selected, columns, left)


@dataclass(frozen=True, eq=False)
class SelectedPages:
    """Selected rows page by page of a column; by ranges of the selection where it has no pages.

    Attributes
    ----------
    ranges
        The number of the range that holds the rows of each page; int64, as all of these arrays of
        shape ``(pages,)``.
    low, high
        The rows of each, counted from the first of the pieces.
    rows
        How many of them are selected.
    are_whole
        Whether all rows of the page are selected; bool.
    numbers
        The numbers of the pages in their zone maps.
    zones
        The zone maps of the column; None where pages are not known.
    """

    ranges: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    are_whole: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int64]
    zones: ZoneMaps | None

    @classmethod
    def of(cls, ranges: Sequence[SelectedRange], column: ColumnZones | None) -> SelectedPages:
        """Return the pages of a column of ascending ranges; None of one without zone maps."""
        of = numbers = np.arange(len(ranges))
        ends = np.array([(each.low, each.high) for each in ranges], np.int64).reshape(-1, 2)
        low, high = ends.T
        whole = np.array([each.is_whole for each in ranges], np.bool_)
        are_whole, zones = np.zeros(len(ranges), np.bool_), None
        if column is not None:
            edges, zones = column.edges, column.zones
            begin = np.maximum(np.searchsorted(edges, low, "right") - 1, 0)
            pages = np.minimum(np.searchsorted(edges, high), len(edges) - 1) - begin
            of = np.repeat(of, pages)
            numbers = np.arange(len(of)) + (begin + pages - np.cumsum(pages))[of]
            first, last = edges[numbers], edges[numbers + 1]
            low, high = np.maximum(first, low[of]), np.minimum(last, high[of])
            are_whole = whole[of] & (low == first) & (high == last)
        rows = high - low
        if not whole.all():
            places = np.concatenate([each.places() for each in ranges])
            rows = np.searchsorted(places, high) - np.searchsorted(places, low)
        found = cls(of, low, high, rows, are_whole, numbers, zones)
        there = np.flatnonzero(low < high)
        return found if len(there) == len(found) else found.take(there)

    def __len__(self) -> int:
        return len(self.low)

    def take(self, at: npt.NDArray[np.int64]) -> SelectedPages:
        """Return some of the pages, in the order that is given."""
        return SelectedPages(
            self.ranges[at],
            self.low[at],
            self.high[at],
            self.rows[at],
            self.are_whole[at],
            self.numbers[at],
            self.zones,
        )

    @property
    def have_values(self) -> npt.NDArray[np.bool_]:
        """Whether some value of each may be neither null nor NaN."""
        zones = self.zones
        return np.ones(len(self), np.bool_) if zones is None else zones.bounded[self.numbers]

    @property
    def has_missing(self) -> bool:
        """Whether some row of them may be null or NaN."""
        zones, at = self.zones, self.numbers
        return zones is None or bool(zones.nulls[at].any() or zones.nans[at].any())

    def bounds(self, *, greatest: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the greatest or the least values of the zone maps, and a mask: which are known.

        They have the form of zone maps: compare them with bounds of the same column and piece
        alone.
        """
        zones, at = self.zones, self.numbers
        if zones is None:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        opened = zones.high_open if greatest else zones.low_open
        bounds = zones.maximum if greatest else zones.minimum
        return bounds[at], zones.bounded[at] & ~opened[at]

    def extremes(self, *, greatest: bool) -> npt.NDArray[Any]:
        """Return the greatest or the least values of the pages that are whole, where known."""
        bounds, known = self.bounds(greatest=greatest)
        if self.zones is not None:
            exact = self.zones.maximum_exact if greatest else self.zones.minimum_exact
            known &= exact[self.numbers] & self.are_whole
        return bounds[known]

"""One range of a selection: its bounds, its selection vector, and the columns read of it so far.

:class:`~tessel.store.manifest.selected_rows.SelectedRows` is a list of such ranges. Top-k and
distinct, which visit pages in an order of their own, get the selected rows of a page as a
:class:`SelectedPage`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.lazy import dataclass
from tessel.store.segment.zone_maps import ZoneMaps


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
        Columns that were read, by name: one value per selected row. Text may be dictionaries.
    count
        How many rows are selected; negative where they were not counted yet.
    offsets
        The selected rows, ascending, counted from ``low``; None where all are selected, or where
        only ``mask`` is known.
    """

    low: int
    high: int
    mask: npt.NDArray[np.bool_] | None = None
    columns: dict[str, pa.Array] = field(default_factory=dict)
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
            columns = {name: values[begin:end] for name, values in self.columns.items()}
            return SelectedRange(low, high, None, columns)
        if not self.columns:
            return SelectedRange(low, high, selected[begin:end])
        before = int(np.count_nonzero(selected[:begin]))
        count = int(np.count_nonzero(selected[begin:end]))
        columns = {name: values[before : before + count] for name, values in self.columns.items()}
        return SelectedRange(low, high, selected[begin:end], columns)

    def only(self, mask: pa.Array) -> SelectedRange | None:
        """Return the range with those selected rows for which ``mask``, one flag each, is true."""
        left = mask.true_count
        if left == len(mask):
            return self
        if left == 0:
            return None
        plain = np.asarray(numpy_array(fill_null(mask, False)))
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
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
        return SelectedRange(self.low, self.high, None, {}, len(places), places)

    def where(self, mask: npt.NDArray[np.bool_]) -> SelectedRange | None:
        """Return the range with those selected rows for which a mask of all its rows is true."""
        selected = mask if self.row_mask is None else self.row_mask & mask
        left = int(np.count_nonzero(selected))
        if left == self.rows:
            return self
        if left == 0:
            return None
        columns = {}
        if self.columns:
            among = arrow_array(mask if self.row_mask is None else mask[self.row_mask])
            columns = {name: values.filter(among) for name, values in self.columns.items()}
        return SelectedRange(self.low, self.high, selected, columns, left)


@dataclass(frozen=True, slots=True, eq=False)
class SelectedPage:
    """The selected rows of one page of a column; of any range where pages are not known.

    Parameters
    ----------
    zones, page
        The zone maps of the column, and the number of the page.
    """

    selected: SelectedRange
    zones: ZoneMaps | None = None
    page: int = 0
    is_whole: bool = False

    def __len__(self) -> int:
        """Return how many rows of the page are selected."""
        return self.selected.rows

    @property
    def has_values(self) -> bool:
        """Whether some value may be neither null nor NaN."""
        return self.zones is None or bool(self.zones.bounded[self.page])

    @property
    def has_missing(self) -> bool:
        """Whether some row may be null or NaN."""
        zones, page = self.zones, self.page
        return zones is None or bool(zones.nulls[page] + zones.nans[page])

    def bound(self, *, greatest: bool) -> Any | None:
        """Return the greatest or the least value of the zone map; None where it has none.

        It has the form of the zone map: compare it with bounds of the same column and piece alone.
        """
        zones, page = self.zones, self.page
        if zones is None or not zones.bounded[page]:
            return None
        if (zones.high_open if greatest else zones.low_open)[page]:
            return None
        return (zones.maximum if greatest else zones.minimum)[page]

    def extreme(self, *, greatest: bool) -> Any | None:
        """Return the greatest or the least value of the rows; None where it is not known."""
        zones, page = self.zones, self.page
        if zones is None or not self.is_whole or not zones.bounded[page]:
            return None
        exact = zones.maximum_exact if greatest else zones.minimum_exact
        return self.bound(greatest=greatest) if exact[page] else None

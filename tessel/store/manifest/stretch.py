"""Stretches of rows that are still wanted, and their parts page by page of one column.

Only :class:`~tessel.store.manifest.candidate_rows.CandidateRows` makes them; who looks for rows
best page first gets :class:`RowPart`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.store.segment.zone_maps import ZoneMaps

__all__ = ["RowPart", "Stretch"]


@dataclass(slots=True, eq=False)
class Stretch:
    """Rows ``[low, high)`` of the pieces, counted from their first.

    Attributes
    ----------
    mask
        Which of them are left; None for all, or where nobody asked yet.
    held
        Columns that were read, by name: one value per row that is left. Text may be dictionaries.
    count
        How many rows are left; negative where they were not counted yet.
    kept
        The places of those rows, counted from ``low``; None for all, or where nobody asked yet.
    """

    low: int
    high: int
    mask: npt.NDArray[np.bool_] | None = None
    held: dict[str, pa.Array] = field(default_factory=dict)
    count: int = -1
    kept: npt.NDArray[np.int64] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows are left."""
        return self.mask is None and self.kept is None

    @property
    def keep(self) -> npt.NDArray[np.bool_] | None:
        """Which rows are left; None for all.

        Of few rows places alone are known, until someone asks for a flag of each: clearing those of
        a long stretch takes longer than reading a few rows.
        """
        if self.mask is None and self.kept is not None:
            mask = np.zeros(self.high - self.low, np.bool_)
            mask[self.kept] = True
            self.mask = mask
        return self.mask

    @property
    def rows(self) -> int:
        """How many are left."""
        if self.count < 0:
            if self.kept is not None:
                self.count = len(self.kept)
            elif self.mask is not None:
                self.count = int(np.count_nonzero(self.mask))
            else:
                self.count = self.high - self.low
        return self.count

    def places(self) -> npt.NDArray[np.int64]:
        """Return where those that are left lie, from the first row of the pieces; int64."""
        if self.kept is None:
            if self.mask is None:
                return np.arange(self.low, self.high)
            self.kept = np.flatnonzero(self.mask)
        return self.kept + self.low

    def flags(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether it is left."""
        keep = self.keep
        return np.ones(self.high - self.low, np.bool_) if keep is None else keep

    def cut(self, low: int, high: int) -> Stretch | None:
        """Return what of the stretch lies in ``[low, high)``."""
        low, high = max(self.low, low), min(self.high, high)
        if low >= high:
            return None
        if (low, high) == (self.low, self.high):
            return self
        begin, end = low - self.low, high - self.low
        keep = self.keep
        if keep is None:
            held = {name: values[begin:end] for name, values in self.held.items()}
            return Stretch(low, high, None, held)
        if not self.held:
            return Stretch(low, high, keep[begin:end])
        before = int(np.count_nonzero(keep[:begin]))
        count = int(np.count_nonzero(keep[begin:end]))
        held = {name: values[before : before + count] for name, values in self.held.items()}
        return Stretch(low, high, keep[begin:end], held)

    def only(self, mask: pa.Array) -> Stretch | None:
        """Return the stretch with those of its rows for which ``mask`` is true."""
        left = mask.true_count
        if left == len(mask):
            return self
        if left == 0:
            return None
        plain = np.asarray(numpy_array(fill_null(mask, False)))
        keep = plain
        if self.keep is not None:
            keep = self.keep.copy()
            keep[self.keep] = plain
        held = {name: values.filter(mask) for name, values in self.held.items()}
        return Stretch(self.low, self.high, keep, held, left)

    def at(self, places: npt.NDArray[np.int64]) -> Stretch | None:
        """Return those rows of a whole stretch, of which nothing is held, at places from ``low``.

        Ascending, and its own from then on.
        """
        if len(places) == self.rows:
            return self
        if not len(places):
            return None
        return Stretch(self.low, self.high, None, {}, len(places), places)

    def where(self, mask: npt.NDArray[np.bool_]) -> Stretch | None:
        """Return the stretch with those of its rows that a mask of all its rows keeps."""
        keep = mask if self.keep is None else self.keep & mask
        left = int(np.count_nonzero(keep))
        if left == self.rows:
            return self
        if left == 0:
            return None
        held = {}
        if self.held:
            among = arrow_array(mask if self.keep is None else mask[self.keep])
            held = {name: values.filter(among) for name, values in self.held.items()}
        return Stretch(self.low, self.high, keep, held, left)


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """The rows that are left of one page of a column; of any rows where pages are not known.

    Parameters
    ----------
    stretch
        Those rows.
    read
        Returns the column's values of them.
    zones, page
        The zone maps of the column, and the number of the page.
    """

    stretch: Stretch
    read: Callable[[Stretch], pa.Array]
    zones: ZoneMaps | None = None
    page: int = 0

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self.stretch.rows

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
        """Return what no value lies above, or below, where that is known.

        In the terms of the zone maps: to be compared with bounds of the same column and piece.
        """
        zones, page = self.zones, self.page
        if zones is None or not zones.bounded[page]:
            return None
        if (zones.high_open if greatest else zones.low_open)[page]:
            return None
        return (zones.maximum if greatest else zones.minimum)[page]

    def values(self) -> pa.Array:
        """Return the values of the rows; text may be a dictionary."""
        return self.read(self.stretch)

    def places(self) -> npt.NDArray[np.int64]:
        """Return where the rows lie, from the first row of the pieces; int64."""
        return self.stretch.places()

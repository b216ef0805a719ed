"""Finding, for a time and a key, the row of an ordered table that is nearest on one side.

The rows of each key are brought together, in their order, which is that of time; among them the
kernel :func:`tessel.kernels.nearest_rows` finds the place of a time. Times are compared as whole
numbers, and nothing overflows whatever they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.lookup import KeyTable
from tessel.kernels.nearest_rows import Looks, NearestRows

__all__ = ["AsofTable"]

Numbers = NDArray[np.int64]


class AsofTable:
    """The right side of an as-of join, ready to be asked.

    Parameters
    ----------
    shape
        What is joined, and how.
    right
        Its rows, ordered by time.
    times
        Their times, as ``shape.times`` gives them, where these are here already.
    """

    def __init__(self, shape: AsofShape, right: pa.Table, times: Numbers | None = None) -> None:
        if times is None:
            times = shape.times(right, 1)
        self._shape = shape
        self._keys = KeyTable(shape.by_keys(right, 1)) if shape.by else None
        self._rows = None if self._keys is None else self._keys.rows
        starts = np.array([0, len(times)], np.int64) if self._keys is None else self._keys.starts
        self._nearest = NearestRows(
            times if self._rows is None else times[self._rows],
            starts,
            looks=Looks[shape.direction.upper()],
            exact=shape.allow_exact_matches,
            most_apart=shape.most_apart,
        )

    def find(self, left: pa.Table) -> Numbers:
        """Return the row of the right that goes beside each row of the left, −1 for none."""
        codes = None
        if self._keys is not None:
            codes = self._keys.find(self._shape.by_keys(left, 0))
        places = self._nearest.find(self._shape.times(left, 0), codes)
        if self._rows is None or not len(self._rows):
            return places
        # No row is found at place −1, which takes the last row and is put right after.
        rows = self._rows[places]
        rows[places < 0] = -1
        return rows

"""The first row of each group of rows as they are stored: ``distinct`` without a value decoded.

A kernel stops as soon as it has seen every group that there can be. Units of one run tell each
other which keys they have (:class:`KnownKeys`), so that later ones are left with new keys alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.stored_keys import few_groups, key_values
from tessel.kernels.first_of_groups import first_of_groups
from tessel.store.manifest.batch import Batch

__all__ = ["KnownKeys", "scanned_first_rows"]

Rows = NDArray[np.int64]

_MOST_KNOWN = 1 << 16
_MOST_ASKED = 1 << 12
"""More keys of a unit are sooner dropped later, by a hash table."""


class KnownKeys:
    """Keys that rows of one run have, and the earliest of those rows; for many threads.

    A row is dropped only where an earlier one with the same key is known, and that one is kept by
    its own unit, or dropped for one that is earlier still.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def are_new(self, keys: Sequence[pa.Array], rows: Rows) -> NDArray[np.bool_]:
        """Return which rows come before all that are known of their key, and note those.

        Parameters
        ----------
        keys
            One array a key, as long as there are rows.
        rows
            Their places in the symbol, int64.
        """
        new = np.ones(len(rows), np.bool_)
        if len(rows) > _MOST_ASKED or not all(map(_is_told, keys)):
            return new
        values = list(zip(*(each.to_pylist() for each in keys), strict=True))
        with self._lock:
            known = self._rows
            for place, (value, row) in enumerate(zip(values, rows.tolist(), strict=True)):
                before = known.get(value)
                if before is not None and before < row:
                    new[place] = False
                elif before is not None or len(known) < _MOST_KNOWN:
                    known[value] = row
        return new


def _is_told(values: pa.Array) -> bool:
    """Return whether values are equal where Python says so, and quickly made Python's."""
    kind = values.type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def scanned_first_rows(rows: Batch, keys: Sequence[str], known: KnownKeys) -> Rows | None:
    """Return where the first row of each group lies that is not known to have an earlier one.

    Parameters
    ----------
    rows
        Not read yet; they stay as they are.
    keys
        The columns by which rows are equal, at least one.
    known
        What the units of this run know of one another; a new one where a unit knows only itself.

    Returns
    -------
    numpy.ndarray or None
        int64, ascending: places of ``rows``. None where the groups need values, or are about as
        many as rows.
    """
    opened = rows.open(keys)
    grouped = None if opened is None else few_groups(opened, keys, rows.schema, drop_missing=False)
    if opened is None or grouped is None:
        return None
    assert grouped.register is not None  # there are keys
    first = first_of_groups(
        opened.spans,
        opened.program.program(),
        select=grouped.select,
        group=grouped.register,
        groups=grouped.groups,
    )
    there = np.flatnonzero(first >= 0)
    there = there[np.argsort(first[there])]
    # Kernels count from the first row of the segment.
    places: Rows = first[there] - (opened.spans[0].start - rows.first_place)
    return places[known.are_new(key_values(grouped.keys, there), rows.first_row + places)]

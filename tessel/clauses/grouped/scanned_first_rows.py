"""``distinct`` on stored integers: the first row of each key, without a value decoded.

A kernel stops as soon as it has seen every key that there can be. Units of one run share the keys
that they have seen (:class:`SeenKeys`), so that later ones choose rows with new keys alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.numbered_keys import key_values
from tessel.clauses.grouped.stored_keys import PlannedGroups, planned_groups
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.first_of_groups import first_of_groups
from tessel.store.manifest.batch import Batch

__all__ = ["SeenKeys", "scanned_first_rows"]

Rows = NDArray[np.int64]

_Plan = tuple[PlannedGroups, UnboundProgram]
"""How rows are numbered, and the program that computes it."""

_MOST_SEEN = 1 << 16
_MOST_CHECKED = 1 << 12
"""More keys of a unit than this are not checked: a hash table drops them later, and faster."""


class SeenKeys:
    """The keys seen in one run, and the earliest row of each; used by many threads.

    A row is dropped only where an earlier one with the same key was seen, which its own unit keeps,
    or drops for one that is earlier still.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def are_new(self, keys: Sequence[pa.Array], rows: Rows) -> NDArray[np.bool_]:
        """Return a mask: which rows come before all seen rows of their key. These are then seen.

        Parameters
        ----------
        keys
            One array a key, as long as there are rows.
        rows
            Their numbers in the symbol, int64.
        """
        new = np.ones(len(rows), np.bool_)
        if len(rows) > _MOST_CHECKED or not all(map(_is_hashable, keys)):
            return new
        values = list(zip(*(each.to_pylist() for each in keys), strict=True))
        with self._lock:
            seen = self._rows
            for place, (value, row) in enumerate(zip(values, rows.tolist(), strict=True)):
                before = seen.get(value)
                if before is not None and before < row:
                    new[place] = False
                elif before is not None or len(seen) < _MOST_SEEN:
                    seen[value] = row
        return new


def _is_hashable(values: pa.Array) -> bool:
    """Return whether Python compares values of a type as Arrow does, and makes them quickly."""
    kind = values.type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def scanned_first_rows(rows: Batch, keys: Sequence[str], seen: SeenKeys) -> Rows | None:
    """Return the first row of each key, but of keys that were seen in earlier rows.

    Parameters
    ----------
    rows
        Not read yet; they stay as they are.
    keys
        The columns by which rows are equal, at least one.
    seen
        Shared by the units of a run; a new one where a unit knows only itself.

    Returns
    -------
    numpy.ndarray or None
        int64, ascending: places of ``rows``. None where the groups need values, or are about as
        many as rows.
    """

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        planned = planned_groups(program, select, keys, rows.schema, drop_missing=False)
        return None if planned is None else (planned, program.program())

    opened = rows.open(keys, "first rows", plan, exact=not rows.bindings.are_stored(keys))
    grouped = None if opened is None else opened.plan[0].few(opened)
    if opened is None or grouped is None:
        return None
    assert grouped.register is not None  # there are keys
    first = first_of_groups(
        opened.spans,
        opened.bound(opened.plan[1]),
        select=grouped.select,
        group=grouped.register,
        groups=grouped.groups,
    )
    there = np.flatnonzero(first >= 0)
    there = there[np.argsort(first[there])]
    # Kernels count from the first row of the segment.
    places: Rows = first[there] - (opened.spans[0].start - rows.first_place)
    return places[seen.are_new(key_values(grouped.keys, there), rows.first_row + places)]

"""Joining the extents of a symbol once they have become many.

Two rules, so that the list stays short and the work of joining small. Appends: the last extents
are joined once there are many of one size; sizes are powers of the number joined, so each row of a
manifest is written again a number of times that grows with the logarithm of the appends. Edits all
over a symbol leave a cut at each: once the list is longer than a multiple of the square root of the
segments, all of it is joined, so each edit pays for about as many rows.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from tessel.store.history import Fold, ManifestEntry, rows_of
from tessel.store.manifest import SegmentTable
from tessel.store.operations.working import Working

if TYPE_CHECKING:
    from tessel.store.operations.stage import Stage

__all__ = ["fold_of"]

_JOINED = 16
"""So many small extents of one size at the end of a symbol are joined."""

_LONGEST = 64
_LONGEST_PER_ROOT = 4


def fold_of(stage: Stage, working: Working) -> Fold | None:
    """Join extents of a symbol's base on the occasion of a change of its rows, if it is time."""
    base = working.base
    if base is None or not working.rows_changed:
        return None
    chosen = _chosen(base.manifests)
    if not chosen:
        return None
    table = SegmentTable.from_extents(
        base.id,
        stage.extents(chosen),
        indexed=base.schema.index is not None,
        rows=rows_of(chosen),
    )
    # The columns and types as they are now: a manifest keeps no statistics of others.
    first_row = stage.add_table(base, table, working.state.types)
    into = ManifestEntry(
        stage.pending,
        rows_of(chosen),
        len(table),
        chosen[0].first_time,
        chosen[-1].last_time,
        first_row,
        chosen[0].cut_front,
        chosen[-1].cut_back,
    )
    return Fold(chosen, into)


def _chosen(extents: tuple[ManifestEntry, ...]) -> tuple[ManifestEntry, ...]:
    if len(extents) < _JOINED:
        return ()
    segments = sum(extent.segments for extent in extents)
    if len(extents) > _LONGEST + _LONGEST_PER_ROOT * math.isqrt(segments):
        return extents
    limit = _size_class(extents[-1])
    small = list(itertools.takewhile(lambda e: _size_class(e) <= limit, reversed(extents)))
    return tuple(small[::-1]) if len(small) >= _JOINED else ()


def _size_class(extent: ManifestEntry) -> int:
    return (extent.segments.bit_length() - 1) // (_JOINED.bit_length() - 1)

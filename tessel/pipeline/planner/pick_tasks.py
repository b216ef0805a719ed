"""Pass: cut long segments into tasks, so that a few of them keep all workers busy.

And so that many fit into the byte budget at a time: what a clause makes of a unit takes several
times the unit itself, and of that no account can know.
"""

from __future__ import annotations

from tessel.clauses.base import Structure
from tessel.clauses.capabilities import opens_filter
from tessel.pipeline.packing import aimed_packs, looked_at, selecting, sink_of
from tessel.pipeline.planner.draft import Draft, value_bytes
from tessel.store.manifest.index import SegmentIndex

_PAGE_ROWS = 1 << 16
"""No page of a segment has more rows, and those with fewer divide it: cuts never go through one."""

_LEAST_PIECE_ROWS = 8 * _PAGE_ROWS

_PIECES_IN_BUDGET = 16
_STORED_PIECES_IN_BUDGET = 4
"""Rows that are reduced, or filtered, as they are stored are not decoded, as a rule."""


def pick_tasks(draft: Draft) -> Draft:
    """Split row slices by the number of workers, and by the byte budget.

    Not before time buckets, which are grouped by first and last times that never go back: of the
    pieces of a segment it is known only that they lie somewhere within its times.
    """
    index = draft.index
    if index is None:
        return draft
    if any(clause.structure.input is Structure.TIME_BUCKETED for clause in draft.clauses):
        return draft
    aim = -(-index.row_count // _aimed_pieces(draft, index))
    rows = max(_LEAST_PIECE_ROWS, -(-aim // _PAGE_ROWS) * _PAGE_ROWS)
    if draft.live_bytes is not None and index.row_count:
        pieces, fewest = _PIECES_IN_BUDGET, _PAGE_ROWS
        if selecting(draft.clauses):  # columns are read for those alone: how many is not known
            pieces, fewest = 1, _LEAST_PIECE_ROWS
        elif (
            any(clause.structure.stored for clause in draft.clauses)
            or sink_of(draft.clauses, opens_filter) is not None
        ):
            pieces = _STORED_PIECES_IN_BUDGET
        most = draft.live_bytes // (pieces * _bytes_of_a_row(index))
        rows = min(rows, max(fewest, most // _PAGE_ROWS * _PAGE_ROWS))
    return draft.replace(index=index.split(rows))


def _aimed_pieces(draft: Draft, index: SegmentIndex) -> int:
    """Return how many pieces there are to be: as many as packs, or as threads that read all."""
    share = looked_at(draft.clauses, index.schema.names)
    nbytes = int((share or 1) * int(index.bytes.sum()))
    aimed = aimed_packs(index.row_count, nbytes, draft.workers)
    return aimed if share else max(aimed, draft.workers)


def _bytes_of_a_row(index: SegmentIndex) -> int:
    """Return about how many bytes a row takes once it is decoded: no fewer than it does stored."""
    stored = -(-int(index.bytes.sum()) // index.row_count)
    return max(1, stored, sum(map(value_bytes, index.schema.arrow.types)))

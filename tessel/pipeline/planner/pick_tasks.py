"""Pass: cut long segments into tasks, so that a few of them keep all workers busy.

And so that many fit into the byte budget at a time: what a clause makes of a unit takes several
times the unit itself, and of that no account can know.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessel.clauses.base import Clause, Structure, drops_rows
from tessel.clauses.capabilities import opens_filter
from tessel.pipeline.packing import sink_of
from tessel.pipeline.plan import is_plugin
from tessel.pipeline.planner.draft import Draft, value_bytes
from tessel.store.manifest.index import SegmentIndex

_PIECES_PER_WORKER = 2
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
    aim = -(-index.row_count // (_PIECES_PER_WORKER * draft.workers))
    rows = max(_LEAST_PIECE_ROWS, -(-aim // _PAGE_ROWS) * _PAGE_ROWS)
    # Behind a clause that selects rows, columns are read for those alone: how many is not known.
    if draft.live_bytes is not None and index.row_count and not _selects(draft.clauses):
        reduced = any(clause.structure.stored for clause in draft.clauses)
        pieces = _PIECES_IN_BUDGET
        if reduced or sink_of(draft.clauses, opens_filter) is not None:
            pieces = _STORED_PIECES_IN_BUDGET
        most = draft.live_bytes // (pieces * _bytes_of_a_row(index))
        rows = min(rows, max(1, most // _PAGE_ROWS) * _PAGE_ROWS)
    return draft.replace(index=index.split(rows))


def _selects(clauses: Sequence[Clause]) -> bool:
    """Return whether rows are selected before a clause reads them; casts and names are bound."""
    for clause in clauses:
        info = clause.structure
        if drops_rows(clause):
            return True
        if is_plugin(type(clause)) or info.carries or not (info.keeps_slices and info.keeps_count):
            return False
    return False


def _bytes_of_a_row(index: SegmentIndex) -> int:
    """Return about how many bytes a row takes once it is decoded: no fewer than it does stored."""
    stored = -(-int(index.bytes.sum()) // index.row_count)
    return max(1, stored, sum(map(value_bytes, index.schema.arrow.types)))

"""Pass: cut long segments into tasks, so that a few of them keep all workers busy."""

from __future__ import annotations

from tessel.clauses.base import Structure
from tessel.clauses.planner.draft import Draft

__all__ = ["pick_tasks"]

_PIECES_PER_WORKER = 4
_PAGE_ROWS = 1 << 16
"""No page of a segment has more rows, and those with fewer divide it: cuts never go through one."""

_LEAST_PIECE_ROWS = 4 * _PAGE_ROWS


def pick_tasks(draft: Draft) -> Draft:
    """Split row slices by the number of workers.

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
    return draft.replace(index=index.split(rows))

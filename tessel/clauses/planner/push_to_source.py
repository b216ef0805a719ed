"""Pass: let the index answer what it can before anything is read.

From the left, filters and date ranges are also given to the index, which drops the segments that
cannot contribute; where it shows that every row left passes, they need not run. head, tail and
row_range are given to it whole, as long as no row was dropped before them. The pass stops at the
first positional clause that it cannot absorb: a predicate to its right says nothing about which
rows that clause counts.
"""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Proves, Prunes
from tessel.clauses.planner.commutation import KEEPS_ROWS, ROW_WISE, is_one_of
from tessel.clauses.planner.draft import Draft
from tessel.clauses.positional import Positional
from tessel.store.manifest.index import SegmentIndex

__all__ = ["push_to_source"]


def push_to_source(draft: Draft) -> Draft:
    """Ask the index, clause by clause; without one, collect the clauses that it would be asked."""
    if draft.combining is not None:
        return draft
    original = set(draft.schema.names)
    pruning: list[Clause] = []
    kept: list[Clause] = []
    index = draft.index
    rows_untouched = True
    schemas = draft.schemas()
    for position, clause in enumerate(draft.clauses):
        if isinstance(clause, Positional) and rows_untouched:
            pruning.append(clause)
            index = None if index is None else clause.cut(index)
            continue
        if clause.name == "no_rows" and isinstance(clause, Prunes):
            index = None if index is None else clause.prune(index)
        if not is_one_of(clause, ROW_WISE):
            kept += draft.clauses[position:]
            break
        if isinstance(clause, Prunes) and _reads(clause, schemas[position].index) <= original:
            pruning.append(clause)
            if index is not None:
                before, index = index, clause.prune(index)
                if _all_pass(clause, before, index):
                    continue
        info = clause.structure
        original -= info.adds
        if is_one_of(clause, ("rename",)):
            original -= info.columns or frozenset()
        original &= set(schemas[position + 1].names)
        rows_untouched = rows_untouched and is_one_of(clause, KEEPS_ROWS)
        kept.append(clause)
    return draft.replace(clauses=tuple(kept), pruning=tuple(pruning), index=index)


def _all_pass(clause: Clause, before: SegmentIndex, left: SegmentIndex) -> bool:
    """Say whether a clause keeps every row of what it left of an index."""
    return isinstance(clause, Proves) and int(clause.proves(before).sum()) == left.slices


def _reads(clause: Clause, index: str | None) -> set[str]:
    columns = set(clause.structure.columns or ())
    return columns | {index} if clause.structure.uses_index and index else columns

"""Passes: choose how sorts run, and what clauses that look along the rows get.

A sort runs not at all, as the few rows that are wanted, or of all rows.
"""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.head import Head
from tessel.clauses.planner.commutation import KEEPS_ROWS, is_one_of
from tessel.clauses.planner.draft import Draft

__all__ = ["lower_order", "simplify_sorts", "take_codes"]

_MOST_TOP_ROWS = 100_000
"""Rows past which a sort that may leave memory is better than holding those wanted."""


def simplify_sorts(draft: Draft) -> Draft:
    """Leave out sorts that change nothing; write ``sort`` and then ``head`` or ``tail`` as one.

    A sort by the time index, ascending, changes nothing. Between a sort and the other may stand
    clauses that keep every row.
    """
    if not draft.has("sort"):
        return draft
    from tessel.clauses.last_of_sort import LastOfSort
    from tessel.clauses.sort import Sort
    from tessel.clauses.tail import Tail
    from tessel.clauses.top_k import TopK

    clauses: list[Clause] = []
    for clause, schema in zip(draft.clauses, draft.schemas(), strict=False):
        if type(clause) is Sort and clause.by == (schema.index,) and not clause.descending[0]:
            continue
        clauses.append(clause)
    for at, clause in enumerate(clauses):
        if type(clause) is not Sort:
            continue
        after = at + 1
        while after < len(clauses) and is_one_of(clauses[after], KEEPS_ROWS):
            after += 1
        head = clauses[after] if after < len(clauses) else None
        if (type(head) is Head or type(head) is Tail) and 0 <= head.n <= _MOST_TOP_ROWS:
            made = LastOfSort if type(head) is Tail else TopK
            clauses[at] = made(head.n, clause.by, clause.descending, clause.missing)
            del clauses[after]
    return draft.replace(clauses=tuple(clauses))


def lower_order(draft: Draft) -> Draft:
    """Replace ``sort`` by the form it is run in; put the first half of the others before them.

    A sort gets text as codes where units are row slices of one symbol as far as it: there they may
    be not read yet, and behind other clauses text is text. One by the time index first holds few
    rows at a time: to join their dictionaries would take longer than it saves.
    """
    if not draft.has("sort", "top_k", "last_of_sort"):
        return draft
    from tessel.clauses.last_of_sort import LastOfSort, PartialLastOfSort
    from tessel.clauses.leave_codes import codes_of
    from tessel.clauses.planner.insert_partial import insert_partial
    from tessel.clauses.sort import MergeSorted, Sort
    from tessel.clauses.top_k import PartialTopK, TopK

    clauses: list[Clause] = []
    for clause, schema in zip(draft.clauses, draft.schemas(), strict=False):
        if type(clause) is Sort:
            slices = not draft.inputs and all(each.structure.keeps_slices for each in clauses)
            if slices and not clause.ordering.keeps_index(schema):
                clauses += codes_of(schema.names, schema)
            clauses.append(MergeSorted(clause.by, clause.descending, clause.missing))
        elif type(clause) is TopK or type(clause) is LastOfSort:
            halves = PartialLastOfSort if type(clause) is LastOfSort else PartialTopK
            partial = halves(clause.k, clause.by, clause.descending, clause.missing)
            insert_partial(clauses, partial, clause.by)
            clauses.append(clause)
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def take_codes(draft: Draft) -> Draft:
    """Leave keys as codes for the first clause that takes more than row slices, if it takes them.

    As for sorts, units are row slices of one symbol as far as it.
    """
    clauses = draft.clauses
    at = next((at for at, each in enumerate(clauses) if not each.structure.keeps_slices), None)
    if draft.inputs or at is None or not clauses[at].structure.coded:
        return draft
    from tessel.clauses.leave_codes import codes_of

    codes = codes_of(sorted(clauses[at].structure.coded), draft.schemas()[at])
    return draft.replace(clauses=(*clauses[:at], *codes, *clauses[at:]))

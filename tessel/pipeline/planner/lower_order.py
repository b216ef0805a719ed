"""Passes: choose how sorts, top-k and distinct run, and what clauses along the rows get.

A top-k and a distinct run in two halves, of which the first only drops rows of a unit. Where that
would be few rows of a distinct it is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeGuard

from tessel.clauses.base import Clause
from tessel.pipeline.planner.commutation import MAKING, is_one_of
from tessel.pipeline.planner.draft import Draft

if TYPE_CHECKING:
    from tessel.clauses.sort import MergeSorted


def lower_order(draft: Draft) -> Draft:
    """Replace ``sort`` and ``distinct`` by the forms they are run in; put first halves early.

    A sort gets text as codes where units are row slices of one symbol as far as it: there they may
    be not read yet, and behind other clauses text is text. One by the time index first holds few
    rows at a time: to join their dictionaries would take longer than it saves.
    """
    if not draft.has("sort", "top_k", "last_of_sort", "distinct"):
        return draft
    from tessel.clauses.sort import MergeSorted, Sort
    from tessel.clauses.top_k import LastOfSort, PartialLastOfSort, PartialTopK, TopK
    from tessel.pipeline.planner.text_codes import codes_of

    clauses: list[Clause] = []
    for clause, schema in zip(draft.clauses, draft.schemas(), strict=False):
        if type(clause) is Sort:
            slices = not draft.inputs and all(each.structure.keeps_slices for each in clauses)
            if slices and not clause.ordering.keeps_index(schema):
                clauses += codes_of(schema.names, schema)
            clauses.append(MergeSorted(clause.by, clause.descending, clause.missing))
        elif type(clause) is TopK or type(clause) is LastOfSort:
            halves = PartialLastOfSort if type(clause) is LastOfSort else PartialTopK
            best = halves(clause.k, clause.by, clause.descending, clause.missing)
            behind = _insert(clauses, best, clause.by)
            clauses += [clause, *behind]
        elif is_one_of(clause, ("distinct",)):
            from tessel.clauses.distinct import Distinct, DistinctBucket, PartialDistinct
            from tessel.clauses.grouped.group_states import POSITION
            from tessel.clauses.partition import Partition

            assert isinstance(clause, Distinct)
            keys = clause.keys(schema)
            partial = PartialDistinct(keys, clause.keep)
            behind = _insert(clauses, partial, keys)
            if keys == draft.high_cardinality:
                clauses.remove(partial)
            buckets = draft.buckets_by(keys)
            clauses += [
                Partition(keys, drop_missing=False, buckets=buckets, positions=True),
                DistinctBucket(keys, clause.keep),
                MergeSorted((POSITION,), (False,), without=(POSITION,), index=schema.index),
                *behind,
            ]
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def _insert(clauses: list[Clause], partial: Clause, keys: Collection[str]) -> list[Clause]:
    """Add a clause that drops rows by ``keys``, before projections and columns made of others.

    So it may stand first, and choose rows before all their columns are read. Of groups in hash
    buckets a top-k then leaves few, before they are brought into one order: this order decides
    between equal rows.

    Returns
    -------
    list
        What goes behind the second half, which keeps all columns: the columns that are made, and
        projections after them. They are made for the rows of the result alone: which other rows
        the first half leaves depends on what it has seen, and an error may not.
    """
    at = made = len(clauses)
    while at:
        before = clauses[at - 1]
        if _orders_groups(before) and is_one_of(partial, ("partial_top_k",)):
            tied = _with_ties(partial, before)
            if tied is None:
                break
            partial = tied
        elif is_one_of(before, MAKING) and before.structure.adds.isdisjoint(keys):
            if any(map(_orders_groups, clauses[at:])):
                break
            made = at - 1
        elif not is_one_of(before, ("select",)):
            break
        at -= 1
    behind = clauses[made:]
    clauses[made:] = []
    clauses.insert(at, partial)
    return behind


def _with_ties(partial: Clause, groups: MergeSorted) -> Clause | None:
    """Return a top-k as it must be before groups are ordered; None where no order says the same."""
    from tessel.clauses.top_k import PartialTopK

    assert isinstance(partial, PartialTopK)
    if partial.missing != groups.missing:
        return None
    further = [key for key in groups.by if key not in partial.by]
    by = (*partial.by, *further)
    descending = (*partial.descending, *(False for _ in further))
    return PartialTopK(partial.k, by, descending, partial.missing)


def _orders_groups(clause: Clause) -> TypeGuard[MergeSorted]:
    return is_one_of(clause, ("merge_sorted",)) and clause.structure.reduced


def take_codes(draft: Draft) -> Draft:
    """Leave keys as codes for the first clause that takes more than row slices, if it takes them.

    As for sorts, units are row slices of one symbol as far as it.
    """
    clauses = draft.clauses
    at = next((at for at, each in enumerate(clauses) if not each.structure.keeps_slices), None)
    if draft.inputs or at is None or not clauses[at].structure.coded:
        return draft
    from tessel.pipeline.planner.text_codes import codes_of

    codes = codes_of(sorted(clauses[at].structure.coded), draft.schemas()[at])
    return draft.replace(clauses=(*clauses[:at], *codes, *clauses[at:]))

"""Pass: run distinct by hash buckets, whose number follows from the bytes to come."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.planner.draft import Draft

__all__ = ["lower_distinct"]


def lower_distinct(draft: Draft) -> Draft:
    """Replace ``distinct`` by the form it is run in."""
    if not draft.has("distinct"):
        return draft
    from tessel.clauses.distinct import Distinct, DistinctBucket, PartialDistinct
    from tessel.clauses.grouped.group_tables import POSITION
    from tessel.clauses.partition import Partition
    from tessel.clauses.planner.insert_partial import insert_partial
    from tessel.clauses.sort import MergeSorted

    clauses: list[Clause] = []
    for clause, schema in zip(draft.clauses, draft.schemas(), strict=False):
        if type(clause) is not Distinct:
            clauses.append(clause)
            continue
        keys = clause.keys(schema)
        insert_partial(clauses, PartialDistinct(keys, clause.keep), keys)
        clauses += [
            Partition(keys, drop_missing=False, buckets=draft.hash_buckets, positions=True),
            DistinctBucket(keys, clause.keep),
            MergeSorted((POSITION,), (False,), without=(POSITION,), index=schema.index),
        ]
    return draft.replace(clauses=tuple(clauses))

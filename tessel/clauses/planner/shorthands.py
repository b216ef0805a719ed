"""Pass: write clauses that are short for others as those others."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.planner.draft import Draft

__all__ = ["write_shorthands"]


def write_shorthands(draft: Draft) -> Draft:
    """Replace ``value_counts`` and ``describe`` by what they mean."""
    if not draft.has("describe", "value_counts"):
        return draft
    from tessel.clauses.describe import Describe
    from tessel.clauses.value_counts import ValueCounts

    clauses: list[Clause] = []
    for clause, schema in zip(draft.clauses, draft.schemas(), strict=False):
        if type(clause) is ValueCounts:
            clauses += clause.written()
        elif type(clause) is Describe:
            clauses += clause.written(schema)
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))

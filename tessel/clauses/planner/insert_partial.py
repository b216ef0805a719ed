"""Where the clause goes that leaves of each unit only rows that can be in the answer.

Passes enter here that run a clause in two halves, the first of which only drops rows.
"""

from __future__ import annotations

from collections.abc import Collection

from tessel.clauses.base import Clause
from tessel.clauses.planner.commutation import MAKING, is_one_of

__all__ = ["insert_partial"]


def insert_partial(clauses: list[Clause], partial: Clause, keys: Collection[str]) -> None:
    """Add a clause that drops rows, before projections and columns that it does not look at.

    So it may stand first, and choose rows before all their columns are read; and columns are
    computed for what it leaves.

    Parameters
    ----------
    clauses
        What runs before it; changed.
    partial
        Keeps rows by ``keys`` alone, as they are and in their order.
    keys
        Its columns.
    """
    at = len(clauses)
    while at and _may_pass(clauses[at - 1], keys):
        at -= 1
    clauses.insert(at, partial)


def _may_pass(left: Clause, keys: Collection[str]) -> bool:
    if is_one_of(left, ("select",)):
        return True
    return is_one_of(left, MAKING) and left.structure.adds.isdisjoint(keys)

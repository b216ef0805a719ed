"""What may pass what: a whitelist. A clause that is not in it stays where it was written.

:data:`SWAPS` holds every pair of clauses that may change places, with the function that says what
they become, or that under these circumstances they may not. A clause that nobody has listed, one of
your own for instance, is passed by nothing and passes nothing: it may look at neighbouring rows.

Row-wise clauses decide or compute each row from that row alone. Statistics of a segment may prune
with a predicate to the right of them, as long as the columns it reads are still those of the
segment, and as long as no positional clause stands to its left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.registry import find_clause
from tessel.expression.leaves import Column
from tessel.expression.node import Expression

MAKING = ("apply", "apply_together")
"""Columns are computed of each row, added or replaced."""

KEEPS_ROWS = (*MAKING, "cast", "select", "drop", "rename")
"""One row out for each row in, at the same position: positional clauses may pass to the left."""

ROW_WISE = (*KEEPS_ROWS, "filter", "date_range")
"""Each row on its own: pruning by statistics may look past them."""

PASSED_BY_FILTERS = ("concat", "merge")
"""Clauses over several symbols that keep every row of each as it is, and its order: a filter may
run on each symbol before them, and so may head and tail, whose rows are counted once more after."""

PASSED_BY_FILTERS_ON_THE_LEFT = ("inner", "left", "semi", "anti")
"""Ways to join whose every row has a row of the left, of which a filter on the left's columns may
decide before; for ``inner`` that holds of the right as well."""

Swap = Callable[[Clause, Clause], "tuple[Clause, Clause] | None"]
"""From the left and the right clause to what stands there instead; None where they stay."""


def is_one_of(clause: Clause, names: Collection[str]) -> bool:
    """Return whether a clause is one of ours of these names; subclasses are others' own."""
    return clause.name in names and type(clause) is find_clause(clause.name)


def swapped(left: Clause, right: Clause) -> tuple[Clause, Clause] | None:
    """Return the pair that may stand instead of ``left, right``, the former right one first."""
    swap = SWAPS.get((left.name, right.name))
    ours = swap and is_one_of(left, (left.name,)) and is_one_of(right, (right.name,))
    return swap(left, right) if swap and ours else None


def _always(left: Clause, right: Clause) -> tuple[Clause, Clause]:
    return right, left


def _unless_it_reads_what_is_made(left: Clause, right: Clause) -> tuple[Clause, Clause] | None:
    assert isinstance(right, Filter)
    return (right, left) if left.structure.adds.isdisjoint(right.predicate.columns()) else None


def _under_the_old_names(left: Clause, right: Clause) -> tuple[Clause, Clause] | None:
    from tessel.clauses.select import Rename
    from tessel.expression.checking import rewrite

    assert isinstance(left, Rename)
    assert isinstance(right, Filter)
    old = {new: name for name, new in left.columns}

    def named(node: Expression) -> Expression:
        found = isinstance(node, Column) and node.column in old
        return Column(old[node.column]) if found else node  # type: ignore[attr-defined]

    return Filter(rewrite(right.predicate, named), right.optimise), left


def _if_it_cannot_raise(left: Clause, right: Clause) -> tuple[Clause, Clause] | None:
    """Let a filter pass another: it then meets the rows that the other would have dropped."""
    from tessel.expression.checking import cannot_raise

    assert isinstance(right, Filter)
    return (right, left) if cannot_raise(right.predicate) else None


def _within_one_symbol(left: Clause, right: Clause) -> tuple[Clause, Clause] | None:
    """Let a filter pass a merge that puts the rows of one query in order."""
    from tessel.clauses.merge import Merge

    assert isinstance(left, Merge)
    return None if left.others else (right, left)


_LIMITS = ("head", "tail", "row_range")

SWAPS: Mapping[tuple[str, str], Swap] = {
    **dict.fromkeys(itertools.product(MAKING, ("filter",)), _unless_it_reads_what_is_made),
    **dict.fromkeys(itertools.product(MAKING, ("date_range", *_LIMITS)), _always),
    **dict.fromkeys(itertools.product(("select", "drop", "rename"), _LIMITS), _always),
    **dict.fromkeys(itertools.product(("select", "drop", "sort"), ("filter",)), _always),
    ("rename", "filter"): _under_the_old_names,
    ("merge", "filter"): _within_one_symbol,
    ("filter", "filter"): _if_it_cannot_raise,
    # What has a time index to its right had the same one before it.
    **dict.fromkeys(
        itertools.product(("select", "drop", "rename", "filter", "sort"), ("date_range",)), _always
    ),
}
"""The pairs (left, right) that may change places; the planner moves the right one to the left."""

"""What may pass what: a whitelist. A clause that is not in it stays where it was written.

Row-wise clauses decide or compute each row from that row alone. Statistics of a segment may prune
with a predicate to the right of them, as long as the columns it reads are still those of the
segment. Custom clauses are in no list: they may look at neighbours.
"""

from __future__ import annotations

from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.date_range import DateRange
from tessel.clauses.drop import Drop
from tessel.clauses.filter import Filter
from tessel.clauses.rename import Rename
from tessel.clauses.select import Select

__all__ = ["KEEPS_ROWS", "ROW_WISE", "is_one_of"]

KEEPS_ROWS: tuple[type[Clause], ...] = (Apply, Select, Drop, Rename)
"""One row out for each row in, at the same position: positional clauses may pass to the left."""

ROW_WISE: tuple[type[Clause], ...] = (*KEEPS_ROWS, Filter, DateRange)
"""Each row on its own: pruning by statistics may look past them."""


def is_one_of(clause: Clause, kinds: tuple[type[Clause], ...]) -> bool:
    """Return whether a clause is exactly of one of these classes; subclasses are others' own."""
    return type(clause) in kinds

"""Pass: nothing is read where nothing can come out, and of two limits in a row only one runs."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.planner.draft import Draft
from tessel.clauses.positional import Positional
from tessel.clauses.row_range import RowRange
from tessel.clauses.tail import Tail
from tessel.expression.leaves import Literal

__all__ = ["stop_early"]


def stop_early(draft: Draft) -> Draft:
    """Start after the last clause that keeps no row, and join limits that follow one another."""
    kept: list[Clause] = []
    schemas = draft.schemas()
    inputs = draft.inputs
    for clause, after in zip(draft.clauses, schemas[1:], strict=True):
        if _keeps_nothing(clause):
            from tessel.clauses.no_rows import NoRows

            kept = [NoRows(after, clause.describe())]
            inputs = tuple(each.then(Head(0)) for each in inputs)
        elif kept and type(kept[-1]) is type(clause) is Head and _both_count(kept[-1], clause):
            kept[-1] = Head(min(kept[-1].n, clause.n))
        elif kept and type(kept[-1]) is type(clause) is Tail and _both_count(kept[-1], clause):
            kept[-1] = Tail(min(kept[-1].n, clause.n))
        else:
            kept.append(clause)
    return draft.replace(clauses=tuple(kept), inputs=inputs)


def _keeps_nothing(clause: Clause) -> bool:
    if type(clause) is Filter:
        predicate = clause.predicate
        return isinstance(predicate, Literal) and predicate.value is not True
    if isinstance(clause, Positional) and clause.demand() == 0:
        return True
    match clause:
        case Tail(n=0):
            return True
        case RowRange(start=int(start), stop=int(stop)):
            return start >= stop and start < 0  # both count from the end
        case _:
            return False


def _both_count(first: Clause, second: Clause) -> bool:
    assert isinstance(first, Head | Tail)
    assert isinstance(second, Head | Tail)
    return first.n >= 0 and second.n >= 0

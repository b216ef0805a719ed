"""Pass: nothing is read where nothing can come out, and of two limits in a row only one runs."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.planner.draft import Draft
from tessel.clauses.positional import Positional
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
        elif kept and (limit := _joined(kept[-1], clause)) is not None:
            kept[-1] = limit
        else:
            kept.append(clause)
    return draft.replace(clauses=tuple(kept), inputs=inputs)


def _keeps_nothing(clause: Clause) -> bool:
    if type(clause) is Filter:
        predicate = clause.predicate
        return isinstance(predicate, Literal) and predicate.value is not True
    if isinstance(clause, Positional) and clause.demand() == 0:
        return True
    if clause.name == "tail":
        from tessel.clauses.tail import Tail

        return isinstance(clause, Tail) and clause.n == 0
    if clause.name == "row_range":
        from tessel.clauses.row_range import RowRange

        match clause:
            case RowRange(start=int(start), stop=int(stop)):
                return start >= stop and start < 0  # both count from the end
    return False


def _joined(first: Clause, second: Clause) -> Clause | None:
    """Return the stricter of two limits that count from the same end; None of any others."""
    if first.name not in ("head", "tail") or type(first) is not type(second):
        return None
    from tessel.clauses.tail import Tail

    for kind in (Head, Tail):
        if type(first) is type(second) is kind and first.n >= 0 and second.n >= 0:
            return kind(min(first.n, second.n))
    return None

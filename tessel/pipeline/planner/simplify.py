"""Passes: neighbours become one clause, what changes nothing goes, and no row ends the reading.

Two filters in a row become one, where that reads no more and fails no more; a sort and the limit
behind it become a top-k; of two limits only one runs. Nothing is read where nothing can come out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.positional import Head, Positional, RowRange, Tail
from tessel.expression.build import all_of
from tessel.expression.leaves import Literal
from tessel.pipeline.planner.commutation import KEEPS_ROWS, is_one_of
from tessel.pipeline.planner.draft import Draft

_MOST_TOP_ROWS = 100_000
"""Rows past which a sort that may leave memory is better than holding those wanted."""


def simplify_sorts(draft: Draft) -> Draft:
    """Leave out sorts that change nothing; write ``sort`` and then ``head`` or ``tail`` as one.

    A sort by the time index, ascending, changes nothing. Between a sort and the other may stand
    clauses that keep every row.
    """
    if not draft.has("sort"):
        return draft
    from tessel.clauses.sort import Sort
    from tessel.clauses.top_k import LastOfSort, TopK

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


def merge_filters(draft: Draft) -> Draft:
    """Join adjacent filters by ``and``.

    The second is then evaluated for rows of which the first is missing, which it never met as
    written: so only where it cannot fail. Of the filters that a query begins with each reads its
    columns for what the ones before it left; there only those over the same columns are joined.
    """
    clauses: list[Clause] = []
    joined: list[Filter] = []
    columns: frozenset[str] = frozenset()
    leading = True
    for clause in draft.clauses:
        leading = leading and is_one_of(clause, ("filter", "date_range"))
        if type(clause) is not Filter:
            clauses += [*_one(joined), clause]
            joined = []
            continue
        own = clause.predicate.columns()
        if joined and not (_may_join(joined[0], clause) and (own <= columns or not leading)):
            clauses += _one(joined)
            joined = []
        columns = columns if joined else own
        joined.append(clause)
    return draft.replace(clauses=(*clauses, *_one(joined)))


def _one(filters: Sequence[Filter]) -> Sequence[Filter]:
    """Return the filters as one, made once for all of them; none of none."""
    if len(filters) < 2:
        return filters
    return [Filter(all_of(each.predicate for each in filters), filters[0].optimise)]


def _may_join(first: Filter, second: Filter) -> bool:
    from tessel.expression.checking import cannot_raise

    return first.optimise == second.optimise and cannot_raise(second.predicate)


def stop_early(draft: Draft) -> Draft:
    """Start after the last clause that keeps no row, and join limits that follow one another."""
    kept: list[Clause] = []
    schemas = draft.schemas()
    index, inputs = draft.index, draft.inputs
    for clause, after in zip(draft.clauses, schemas[1:], strict=True):
        if _keeps_nothing(clause):
            from tessel.clauses.known_rows import NoRows

            kept = [NoRows(after, why := clause.describe())]
            if index is not None:
                index = index.cut_rows(0, 0, clause="no_rows", reason=f"no row can pass {why}")
            inputs = tuple(each.then(Head(0)) for each in inputs)
        elif kept and (limit := _joined(kept[-1], clause)) is not None:
            kept[-1] = limit
        else:
            kept.append(clause)
    return draft.replace(clauses=tuple(kept), inputs=inputs, index=index)


def _keeps_nothing(clause: Clause) -> bool:
    if type(clause) is Filter:
        predicate = clause.predicate
        return isinstance(predicate, Literal) and predicate.value is not True
    if isinstance(clause, Positional) and clause.demand() == 0:
        return True
    match clause:
        case Tail(n=n):
            return n == 0
        case RowRange(start=int(start), stop=int(stop)):
            return start >= stop and start < 0  # both count from the end
    return False


def _joined(first: Clause, second: Clause) -> Clause | None:
    """Return the stricter of two limits that count from the same end; None of any others."""
    for kind in (Head, Tail):
        if type(first) is type(second) is kind and first.n >= 0 and second.n >= 0:
            return kind(min(first.n, second.n))
    return None

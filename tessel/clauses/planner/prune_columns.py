"""Pass: read only the columns that a clause or the result uses, of every symbol."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Narrows
from tessel.clauses.planner.commutation import is_one_of
from tessel.clauses.planner.draft import Draft
from tessel.clauses.select import Select
from tessel.expression.schema import TableSchema

__all__ = ["prune_columns", "write_drop_as_select"]


def write_drop_as_select(draft: Draft) -> Draft:
    """Replace each ``drop`` by the ``select`` of what it leaves, which reads nothing more."""
    schemas = draft.schemas()
    clauses = tuple(
        Select(tuple(after.names)) if is_one_of(clause, ("drop",)) else clause
        for clause, after in zip(draft.clauses, schemas[1:], strict=True)
    )
    return draft.replace(clauses=clauses)


def prune_columns(draft: Draft) -> Draft:
    """Walk from the result to the source, note the columns that are used, and read no others.

    What only makes columns that nothing uses falls away: a rewrite may take an error away, never
    add one. One column is read even where none is used, so that rows can be counted.
    """
    schemas = draft.schemas()
    needed = set(schemas[-1].names)
    kept: list[tuple[Clause, TableSchema]] = []
    for clause, (before, after) in zip(
        reversed(draft.clauses), reversed(list(itertools.pairwise(schemas))), strict=True
    ):
        narrowed = _narrowed(clause, needed)
        if narrowed is None:
            continue
        kept.append((narrowed, after))
        info = narrowed.structure
        if info.columns is None:
            needed = set(before.names)
            continue
        needed = (needed - info.adds) & set(before.names) | info.columns
        if info.uses_index and before.index is not None:
            needed.add(before.index)
    columns = tuple(name for name in draft.schema.names if name in needed)
    columns = columns or tuple(draft.schema.names[:1])
    read = draft.schema.select(columns)
    clauses = _in_written_order(read, list(reversed(kept)))
    index = draft.index
    if index is not None:
        index = index.keep_columns(columns, clause="columns", reason="no clause reads them")
    draft = draft.replace(schema=read, clauses=clauses, columns=columns, index=index)
    if draft.combining is None:
        return draft
    from tessel.clauses.planner.narrow_inputs import narrow_inputs

    return narrow_inputs(draft)


def _narrowed(clause: Clause, needed: set[str]) -> Clause | None:
    """Return a clause that makes only the columns that are used; None where that is nothing."""
    if type(clause) is Select:
        return Select(tuple(n for n in clause.columns if n in needed) or clause.columns[:1])
    if is_one_of(clause, ("apply",)) and clause.structure.adds.isdisjoint(needed):
        return None
    return clause.narrowed(needed) if isinstance(clause, Narrows) else clause


def _in_written_order(
    read: TableSchema, clauses: Sequence[tuple[Clause, TableSchema]]
) -> tuple[Clause, ...]:
    """Put columns back in their places: one replaced but never read would come out last."""
    ordered: list[Clause] = []
    for clause, written in clauses:
        if ordered and type(clause) is type(ordered[-1]) is Select:
            ordered.pop()  # of two projections in a row the second says it all
        ordered.append(clause)
        read = clause.output_schema(read)
        names = read.names
        if names != written.names:
            names = [name for name in written.names if name in read]
        if names != read.names:
            ordered.append(Select(tuple(names)))
            read = read.select(names)
    return tuple(ordered)

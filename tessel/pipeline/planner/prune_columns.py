"""Pass: read only the columns that a clause or the result uses, of every symbol."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence, Set

from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Narrows, has_capability
from tessel.clauses.combining import Combining
from tessel.clauses.select import Select
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.commutation import is_one_of
from tessel.pipeline.planner.draft import Draft, Input


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
    return draft if draft.combining is None else _narrow_inputs(draft, draft.combining, columns)


def _narrowed(clause: Clause, needed: set[str]) -> Clause | None:
    """Return a clause that makes only the columns that are used; None where that is nothing."""
    if type(clause) is Select:
        return Select(tuple(n for n in clause.columns if n in needed) or clause.columns[:1])
    if is_one_of(clause, ("apply",)) and clause.structure.adds.isdisjoint(needed):
        return None
    return clause.narrowed(needed) if has_capability(clause, Narrows) else clause


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


def _narrow_inputs(draft: Draft, combining: Combining, columns: Sequence[str]) -> Draft:
    """Select in every input what the combining clause says it needs of it.

    A clause that does not say so reads all columns. An input of which none is needed keeps one, so
    that its rows are counted; it is left out again behind.
    """
    schemas = [each.schema for each in draft.inputs]
    reads = combining.reads(frozenset(columns), schemas)
    inputs = draft.inputs
    if reads is not None:
        inputs = tuple(_narrowed_input(each, own) for each, own in zip(inputs, reads, strict=True))
    combined = combining.combined_schema([each.schema for each in inputs])
    clauses = draft.clauses
    wanted = draft.schema
    if combined.names != wanted.names and not (clauses and type(clauses[0]) is Select):
        clauses = (Select(tuple(wanted.names)), *clauses)
    return dataclasses.replace(draft, inputs=inputs, clauses=clauses, schema=combined)


def _narrowed_input(each: Input, reads: Set[str]) -> Input:
    names = each.schema.names
    wanted = tuple(name for name in names if name in reads) or tuple(names[:1])
    return each if len(wanted) == len(names) else each.then(Select(wanted))

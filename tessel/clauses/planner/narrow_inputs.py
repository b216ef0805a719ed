"""The half of ``prune_columns`` for several symbols: of each, only the columns that are used."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tessel.clauses.planner.draft import Draft, Input
from tessel.clauses.select import Select

__all__ = ["narrow_inputs"]


def narrow_inputs(draft: Draft) -> Draft:
    """Select in every input what the combining clause says it needs of it.

    A clause that does not say so reads all columns. An input of which none is needed keeps one, so
    that its rows are counted; it is left out again behind.
    """
    assert draft.combining is not None
    assert draft.columns is not None
    schemas = [each.schema for each in draft.inputs]
    reads = draft.combining.reads(frozenset(draft.columns), schemas)
    inputs = draft.inputs
    if reads is not None:
        inputs = tuple(_narrowed(each, own) for each, own in zip(inputs, reads, strict=True))
    combined = draft.combining.combined_schema([each.schema for each in inputs])
    clauses = draft.clauses
    wanted = draft.schema
    if combined.names != wanted.names and not (clauses and type(clauses[0]) is Select):
        clauses = (Select(tuple(wanted.names)), *clauses)
    return replace(draft, inputs=inputs, clauses=clauses, schema=combined)


def _narrowed(each: Input, reads: Set[str]) -> Input:
    names = each.schema.names
    wanted = tuple(name for name in names if name in reads) or tuple(names[:1])
    return each if len(wanted) == len(names) else each.then(Select(wanted))

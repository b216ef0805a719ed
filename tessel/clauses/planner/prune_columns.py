"""Pass: read only the columns that a clause or the result uses."""

from __future__ import annotations

from tessel.clauses.drop import Drop
from tessel.clauses.planner.draft import Draft
from tessel.clauses.select import Select

__all__ = ["prune_columns", "write_drop_as_select"]


def write_drop_as_select(draft: Draft) -> Draft:
    """Replace each ``drop`` by the ``select`` of what it leaves, which reads nothing more."""
    schemas = draft.schemas()
    clauses = tuple(
        Select(tuple(after.names)) if isinstance(clause, Drop) else clause
        for clause, after in zip(draft.clauses, schemas[1:], strict=True)
    )
    return draft.replace(clauses=clauses)


def prune_columns(draft: Draft) -> Draft:
    """Walk from the result to the source and note the columns that are used.

    One column is read even where none is used, so that rows can be counted.
    """
    schemas = draft.schemas()
    needed = set(schemas[-1].names)
    for clause, before in zip(reversed(draft.clauses), reversed(schemas[:-1]), strict=True):
        info = clause.structure
        if info.columns is None:
            needed = set(before.names)
            continue
        needed = (needed - info.adds) & set(before.names) | info.columns
        if info.uses_index and before.index is not None:
            needed.add(before.index)
    columns = tuple(name for name in draft.schema.names if name in needed)
    return draft.replace(columns=columns or tuple(draft.schema.names[:1]))

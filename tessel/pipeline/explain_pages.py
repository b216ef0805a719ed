"""What page tables say of the segments that are left: which pages are dropped, and why.

The first clauses of a query ask page tables before they read a page. Here they are asked for the
tables alone; what a query then finds in the pages themselves is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tessel.arrays import arrow_scalar
from tessel.clauses.base import Clause
from tessel.clauses.date_range import DateRange
from tessel.clauses.filter import Filter
from tessel.display.documents import Table
from tessel.expression.build import all_of, col, lit
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import SourcePlan
from tessel.store.manifest.selected_rows import SelectedRows

__all__ = ["pages_table"]


def pages_table(
    source: SourcePlan, clauses: Sequence[Clause], prefix: str
) -> tuple[Table, int] | None:
    """Return how many pages the first clauses leave, and how many rows are in them.

    None where none of them asks page tables.

    Parameters
    ----------
    source
        What is read of one symbol.
    clauses
        Those of the first stage.
    prefix
        What stands before the title.
    """
    asked = list(_asked(clauses, source.schema))
    if not asked or not source.units:
        return None
    counts = [[0, 0, 0, 0] for _ in asked]
    for strip in _strips(source):
        for (_, predicate), sums in zip(asked, counts, strict=True):
            rows = len(strip)
            before, after = strip.pages_left(predicate)
            for at, number in enumerate((before, after, rows, len(strip))):
                sums[at] += number
    lines = tuple(
        (
            clause.name,
            f"{before:,} → {after:,}",
            f"{rows:,} → {left:,}",
            f"page tables: never {clause.describe()}" if after < before else "",
        )
        for (clause, _), (before, after, rows, left) in zip(asked, counts, strict=True)
    )
    count = len(source.index)
    read = f"page tables of {count:,} segment{'' if count == 1 else 's'} were read"
    title = f"{prefix}pages of {source.view.name!r}"
    table = Table(title, ("clause", "pages", "rows", "why"), lines, (read,))
    return table, counts[-1][3]


def _asked(clauses: Sequence[Clause], schema: TableSchema) -> Iterator[tuple[Clause, Expression]]:
    for clause in clauses:
        if type(clause) is Filter and clause.optimise == "speed" and clause.predicate.columns():
            yield clause, clause.predicate
        elif type(clause) is DateRange:
            yield clause, _as_predicate(clause, schema)
        else:
            return


def _as_predicate(clause: DateRange, schema: TableSchema) -> Expression:
    """Return a date range as a condition on the index."""
    assert schema.index is not None
    kind = schema.type_of(schema.index)
    low, high = clause.bounds(schema)
    index = col(schema.index)
    conditions = [] if low is None else [index >= lit(arrow_scalar(low, kind))]
    conditions += [] if high is None else [index < lit(arrow_scalar(high, kind))]
    return all_of(conditions)


def _strips(source: SourcePlan) -> Iterator[SelectedRows]:
    """Give the rows of every row slice, of which nothing but page tables is read."""
    segments = source.view.source()
    for position in dict.fromkeys(tuple(unit) for unit in source.units):
        pieces = [source.index.source(at) for at in position]
        for _, strip in itertools.groupby(pieces, lambda piece: (piece.row_start, piece.row_stop)):
            yield SelectedRows(segments, list(strip), source.schema)

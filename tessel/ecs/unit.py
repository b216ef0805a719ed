"""The processing unit: what one call of a clause's ``process`` sees.

A unit is made of pieces, each the data of one entity with its facts. Pieces of one row range lie
side by side (column slices); pieces of different row ranges follow one another in row order. A unit
never changes: every method returns a new one. Clauses work on units and on nothing else, which is
why the same clause runs in a thread and in a Spark task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.ecs.components import ColRange, RowRange, TimeRange
from tessel.errors import ColumnNotFoundError
from tessel.expression import Expression, ExpressionContext, evaluate
from tessel.expression.schema import TableSchema

__all__ = ["Piece", "ProcessingUnit"]


@dataclass(frozen=True, slots=True)
class Piece:
    """The data of one entity, with the facts that travel along.

    Attributes
    ----------
    table
        The columns; fewer rows than ``row_range`` spans once rows were dropped.
    row_range, col_range
        Where the piece came from in its symbol.
    time_range
        Bounds of the index over ``row_range``, in the index's unit; None where unknown.
    symbol
        Ordinal of the input it came from, in a query over several symbols.
    bucket
        Hash bucket of all its rows; None where the rows were not partitioned.
    planned_fetches
        How many units were planned to fetch the entity. Resample reads it: a unit whose front
        piece is planned for two units leaves that piece's first bucket to the unit before.
    """

    table: pa.Table
    row_range: RowRange
    col_range: ColRange
    time_range: TimeRange | None = None
    symbol: int = 0
    bucket: int | None = None
    planned_fetches: int = 1

    def with_table(self, table: pa.Table) -> Piece:
        """Return the piece with other data and the same facts."""
        return dataclasses.replace(self, table=table)


class ProcessingUnit:
    """An immutable group of pieces, seen as one table.

    Parameters
    ----------
    ordinal
        Place of the unit in plan order; results come out in this order.
    schema
        The columns of the unit as a whole, also where it has no pieces.
    pieces
        The data, ordered by row range, then column range.
    """

    def __init__(self, ordinal: int, schema: TableSchema, pieces: Iterable[Piece] = ()) -> None:
        self.ordinal = ordinal
        self.schema = schema
        self.pieces: tuple[Piece, ...] = tuple(pieces)
        self._memo: dict[str, Any] = {}

    def __repr__(self) -> str:
        ranges = [(p.row_range.start, p.row_range.end) for p in self.pieces[:4]]
        more = " …" if len(self.pieces) > len(ranges) else ""
        return f"<ProcessingUnit {self.ordinal}: {self.num_rows} rows, pieces {ranges}{more}>"

    # --- looking ----------------------------------------------------------------------------------

    @cached_property
    def row_groups(self) -> tuple[tuple[Piece, ...], ...]:
        """The pieces grouped by row range and symbol: each group is one horizontal strip."""
        groups: dict[tuple[int, int, int, int | None], list[Piece]] = {}
        for piece in self.pieces:
            key = (piece.symbol, piece.row_range.start, piece.row_range.end, piece.bucket)
            groups.setdefault(key, []).append(piece)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def num_rows(self) -> int:
        """Rows of the unit."""
        return sum(group[0].table.num_rows for group in self.row_groups)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the data the unit refers to."""
        return sum(piece.table.nbytes for piece in self.pieces)

    @cached_property
    def table(self) -> pa.Table:
        """The whole unit as one table in the order of its schema, without copying the data."""
        strips = [
            pa.table({n: _find(group, n) for n in self.schema.names}, schema=self.schema.arrow)
            if self.schema.names
            else group[0].table.select([])
            for group in self.row_groups
        ]
        return pa.concat_tables(strips) if strips else self.schema.empty()

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column over all rows of the unit; unknown names raise."""
        self.schema.require([name])
        chunks: list[pa.Array] = []
        for group in self.row_groups:
            chunks.extend(_find(group, name).chunks)
        return pa.chunked_array(chunks, type=self.schema.type_of(name))

    def evaluate(self, expression: Expression | ExpressionContext) -> pa.ChunkedArray:
        """Return the values of an expression, one per row; sub-expressions are computed once."""
        return evaluate(expression, self.table, self._memo)

    # --- deriving ---------------------------------------------------------------------------------

    def filter(self, mask: pa.ChunkedArray | pa.Array) -> ProcessingUnit:
        """Keep the rows where ``mask`` (bool, one per row) is true; null counts as false."""
        keep = pc.fill_null(mask, False)
        if isinstance(keep, pa.Array):
            keep = pa.chunked_array([keep])
        kept = pc.sum(keep, min_count=0).as_py()
        if kept == self.num_rows:
            return self
        return self._each_strip(lambda table, at: table.filter(keep.slice(at, table.num_rows)))

    def take(self, rows: np.ndarray) -> ProcessingUnit:
        """Return these rows of the unit in this order, as one piece."""
        return self.replace(self.table.take(pa.array(rows)))

    def slice(self, offset: int, length: int) -> ProcessingUnit:
        """Keep ``length`` rows from ``offset`` on, without copying."""
        stop = offset + length

        def cut(table: pa.Table, at: int) -> pa.Table:
            low = min(max(offset - at, 0), table.num_rows)
            high = min(max(stop - at, 0), table.num_rows)
            return table.slice(low, high - low)

        return self._each_strip(cut)

    def select(self, names: Sequence[str]) -> ProcessingUnit:
        """Keep these columns in this order; column slices that hold none of them fall away."""
        schema = self.schema.select(names)
        pieces = []
        for group in self.row_groups:
            held = [(p, [n for n in names if n in p.table.column_names]) for p in group]
            chosen = [(p, own) for p, own in held if own] or [(group[0], [])]
            pieces += [p.with_table(p.table.select(own)) for p, own in chosen]
        return ProcessingUnit(self.ordinal, schema, pieces)

    def with_column(self, name: str, values: pa.ChunkedArray | pa.Array) -> ProcessingUnit:
        """Add a column, or replace the one of that name where it stands."""
        schema = self.schema.with_column(name, values.type)
        column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        pieces: list[Piece] = []
        at = 0
        for group in self.row_groups:
            rows = group[0].table.num_rows
            part = column.slice(at, rows)
            at += rows
            holder = next((p for p in group if name in p.table.column_names), group[-1])
            for piece in group:
                if piece is holder:
                    piece = piece.with_table(_set_column(piece.table, name, part))
                pieces.append(piece)
        return ProcessingUnit(self.ordinal, schema, pieces)

    def rename(self, names: dict[str, str]) -> ProcessingUnit:
        """Rename columns by a mapping from old to new names."""

        def renamed(table: pa.Table) -> pa.Table:
            return table.rename_columns([names.get(n, n) for n in table.column_names])

        arrow = pa.schema([f.with_name(names.get(f.name, f.name)) for f in self.schema.arrow])
        index = None if self.schema.index is None else names.get(*[self.schema.index] * 2)
        pieces = [p.with_table(renamed(p.table)) for p in self.pieces]
        return ProcessingUnit(self.ordinal, TableSchema(arrow, index), pieces)

    def replace(
        self, table: pa.Table, *, index: str | None = None, bucket: int | None = None
    ) -> ProcessingUnit:
        """Return a unit holding this table as one piece that spans the same rows and times.

        Parameters
        ----------
        table
            The new data, of any schema.
        index
            Name of the time index of ``table``; by default the unit's own where still present.
        bucket
            Hash bucket of all rows, where the table was partitioned.
        """
        kept = self.schema.index if self.schema.index in table.column_names else None
        schema = TableSchema(table.schema.remove_metadata(), index or kept)
        piece = dataclasses.replace(self._span(), table=table, bucket=bucket)
        piece = dataclasses.replace(piece, col_range=ColRange(0, table.num_columns))
        return ProcessingUnit(self.ordinal, schema, [piece])

    def with_pieces(self, pieces: Iterable[Piece], schema: TableSchema) -> ProcessingUnit:
        """Return a unit of the same place in the plan with other pieces."""
        return ProcessingUnit(self.ordinal, schema, pieces)

    # --- inside -----------------------------------------------------------------------------------

    def _span(self) -> Piece:
        """Return a piece without data that covers the facts of all pieces."""
        empty = self.schema.empty()
        if not self.pieces:
            return Piece(empty, RowRange(0, 0), ColRange(0, 0))
        start = min(p.row_range.start for p in self.pieces)
        end = max(p.row_range.end for p in self.pieces)
        times = [p.time_range for p in self.pieces if p.time_range is not None]
        span = TimeRange(min(t.first for t in times), max(t.last for t in times)) if times else None
        first = self.pieces[0]
        return Piece(
            empty,
            RowRange(start, end),
            ColRange(0, len(self.schema.names)),
            span,
            first.symbol,
            first.bucket,
            first.planned_fetches,
        )

    def _each_strip(self, change: Callable[[pa.Table, int], pa.Table]) -> ProcessingUnit:
        pieces: list[Piece] = []
        at = 0
        for group in self.row_groups:
            pieces += [piece.with_table(change(piece.table, at)) for piece in group]
            at += group[0].table.num_rows
        return ProcessingUnit(self.ordinal, self.schema, pieces)


def _find(group: Sequence[Piece], name: str) -> pa.ChunkedArray:
    for piece in group:
        if name in piece.table.column_names:
            return piece.table.column(name)
    raise ColumnNotFoundError.for_name(name, [n for p in group for n in p.table.column_names])


def _set_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    field = pa.field(name, values.type)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), field, values)
    return table.append_column(field, values)

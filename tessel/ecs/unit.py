"""The processing unit: what one call of a clause's ``process`` sees.

A unit is made of pieces, each the data of one entity with its facts. Pieces of one row range lie
side by side (column slices); pieces of different row ranges follow one another in row order. A unit
never changes: every method returns a new one. Clauses work on units and on nothing else, which is
why the same clause runs in a thread and in a Spark task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, concat_tables, fill_null
from tessel.cached import cached
from tessel.cancelling import check_cancelled
from tessel.ecs.piece import (
    ColRange,
    Piece,
    RowRange,
    TimeRange,
    joined_components,
    of_kind,
    only_of_kind,
    segments_of,
    with_component,
)
from tessel.errors import ColumnNotFoundError, ExecutionError
from tessel.expression.context import ExpressionContext
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema

T = TypeVar("T")


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
        self._memo: dict[Any, Any] = {}

    def __repr__(self) -> str:
        ranges = [(p.row_range.start, p.row_range.end) for p in self.pieces[:4]]
        more = " …" if len(self.pieces) > len(ranges) else ""
        return f"<ProcessingUnit {self.ordinal}: {self.num_rows} rows, pieces {ranges}{more}>"

    # --- looking ----------------------------------------------------------------------------------

    @cached
    def row_groups(self) -> tuple[tuple[Piece, ...], ...]:
        """The pieces that lie side by side: each group is one horizontal strip.

        Side by side are pieces of one symbol, row range and bucket whose column ranges are apart;
        pieces of one row range that share columns, as two whole results do, follow one another.

        Raises
        ------
        ExecutionError
            When pieces that lie side by side differ in their number of rows.
        """
        strips: list[list[Piece]] = []
        open_strips: dict[tuple[int, int, int, int | None], list[Piece]] = {}
        for piece in self.pieces:
            key = (piece.symbol, piece.row_range.start, piece.row_range.end, piece.bucket)
            strip = open_strips.get(key)
            if strip is None or any(piece.col_range.overlaps(p.col_range) for p in strip):
                open_strips[key] = strip = []
                strips.append(strip)
            elif strip[0].table.num_rows != piece.table.num_rows:
                raise ExecutionError(
                    f"column slices of rows {piece.row_range.start} to {piece.row_range.end} have "
                    f"{strip[0].table.num_rows} and {piece.table.num_rows} rows",
                    hint="a clause that drops rows drops them from every piece: use unit.filter",
                )
            strip.append(piece)
        return tuple(tuple(strip) for strip in strips)

    @cached
    def num_rows(self) -> int:
        """Rows of the unit."""
        return sum(group[0].table.num_rows for group in self.row_groups)

    @cached
    def nbytes(self) -> int:
        """Bytes of the data the unit refers to."""
        return sum(piece.table.nbytes for piece in self.pieces)

    @cached
    def table(self) -> pa.Table:
        """The whole unit as one table in the order of its schema, without copying the data."""
        if len(self.pieces) == 1 and self.pieces[0].table.schema.equals(self.schema.arrow, True):
            return self.pieces[0].table
        if not self.schema.names:
            return _rows_only(self.num_rows)
        strips = [
            pa.table([_find(held, n) for n in self.schema.names], schema=self.schema.arrow)
            for held in self._held
        ]
        return concat_tables(strips) if strips else self.schema.empty()

    @cached
    def table_as_read(self) -> pa.Table:
        """The table with its columns as they were read, where all pieces agree: text as codes."""
        strips = [pa.table({n: _find(held, n) for n in self.schema.names}) for held in self._held]
        if len({strip.schema for strip in strips}) != 1 or not self.schema.names:
            return self.table
        return concat_tables(strips)

    def columns_as_read(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of `table_as_read`; of a unit that is not read no others are read."""
        return self.table_as_read.select(names)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column over all rows of the unit; unknown names raise."""
        self.schema.require([name])
        kind = self.schema.type_of(name)
        found = (_find(held, name) for held in self._held)
        text = (each if each.type == kind else each.cast(kind) for each in found)
        return pa.chunked_array([chunk for each in text for chunk in each.chunks], type=kind)

    def column_as_read(self, name: str) -> pa.ChunkedArray:
        """Return one column as it was read, where all pieces agree: text as codes."""
        chunks = [chunk for held in self._held for chunk in _find(held, name).chunks]
        if len({chunk.type for chunk in chunks}) != 1:
            return self.column(name)
        return pa.chunked_array(chunks)

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned when it was first called under a key.

        Clauses keep here what they need of a unit more than once, such as the numbers of its
        keys. It lives as long as this very unit.
        """
        if key not in self._memo:
            self._memo[key] = make()
        found: T = self._memo[key]
        return found

    def evaluate(
        self,
        expression: Expression | ExpressionContext,
        beside: Mapping[str, pa.ChunkedArray | pa.Array] = MappingProxyType({}),
    ) -> pa.ChunkedArray:
        """Return the values of an expression, one per row; sub-expressions are computed once.

        Parameters
        ----------
        expression
            Any expression over the columns of the unit and of ``beside``.
        beside
            Columns that stand in front of those of the unit, with a value a row.
        """
        from tessel.expression.evaluate import evaluate

        if isinstance(expression, Expression):
            expression = ExpressionContext.of(expression)
        read = expression.columns.values()
        if beside.keys().isdisjoint(read):
            values = evaluate(expression, self.table, self._memo)
        else:
            columns = {n: beside[n] if n in beside else self.column(n) for n in read}
            values = evaluate(expression, pa.table(columns))
        return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])

    @property
    def attached(self) -> tuple[object, ...]:
        """All components that are attached to rows of the unit, of any type."""
        return joined_components(self.pieces)

    def component(self, kind: type[T]) -> T | None:
        """Return the component of a type that is attached to the rows; None where none has one.

        Raises
        ------
        ExecutionError
            Where rows have different ones, as in a unit made of rows of several:
            :meth:`components` gives all.
        """
        return only_of_kind(self.attached, kind)

    def components(self, kind: type[T]) -> tuple[T, ...]:
        """Return all components of a type that rows of the unit have, in row order, each once."""
        return of_kind(self.attached, kind)

    def check_cancelled(self) -> None:
        """Raise where the query was cancelled: call it in long loops, about ten times a second.

        Raises
        ------
        CancelledError
            Which ends the query.
        """
        check_cancelled()

    # --- deriving ---------------------------------------------------------------------------------

    def filter(self, rows: Expression | pa.ChunkedArray | pa.Array) -> ProcessingUnit:
        """Keep the rows where a condition is true; null counts as false.

        Parameters
        ----------
        rows
            A predicate, or a mask: bool, one value a row. A predicate costs less where the unit is
            not read yet: other columns are then read for the rows that it leaves.
        """
        mask = self.evaluate(rows) if isinstance(rows, Expression) else rows
        self._require_rows("the mask of a filter", len(mask))
        keep = truths(mask)
        if isinstance(keep, pa.Array):
            keep = pa.chunked_array([keep])
        kept = pc.sum(keep, min_count=0).as_py()
        if kept == self.num_rows:
            return self
        return self._each_strip(lambda table, at: table.filter(keep.slice(at, table.num_rows)))

    def take(self, rows: np.ndarray) -> ProcessingUnit:
        """Return these rows of the unit in this order, as one piece.

        Parameters
        ----------
        rows
            Positions in the unit, int64, each in ``[0, num_rows)``; they may repeat.

        Notes
        -----
        The index keeps its role, for which the rows must not go back in time; a clause that takes
        them in another order returns the unit with a schema without index (:meth:`with_pieces`).
        """
        positions = arrow_array(rows, pa.int64())
        taken = self.table.take(positions) if self.schema.names else _rows_only(len(rows))
        buckets = {piece.bucket for piece in self.pieces}
        return self.replace(taken, bucket=buckets.pop() if len(buckets) == 1 else None)

    def slice(self, offset: int, length: int) -> ProcessingUnit:
        """Keep up to ``length`` rows from ``offset`` on, without copying; both not negative."""
        if offset < 0 or length < 0:
            raise ExecutionError(
                f"a unit has no slice of {length} rows from row {offset} on",
                hint="count both from 0: unit.num_rows tells where the unit ends",
            )
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
            own = [(p, set(p.table.schema.names)) for p in group]
            held = [(p, [n for n in names if n in found]) for p, found in own]
            chosen = [(p, kept) for p, kept in held if kept] or [(group[0], [])]
            pieces += [p.with_table(p.table.select(kept)) for p, kept in chosen]
        return ProcessingUnit(self.ordinal, schema, pieces)

    def with_column(
        self, name: str, values: Expression | pa.ChunkedArray | pa.Array
    ) -> ProcessingUnit:
        """Add a column, or replace the one of that name where it stands.

        ``values`` is an expression, or one value per row of the unit. Replacing the index takes
        away its role.
        """
        return self.with_columns({name: values})

    def with_columns(
        self, columns: Mapping[str, Expression | pa.ChunkedArray | pa.Array]
    ) -> ProcessingUnit:
        """Add or replace columns as :meth:`with_column` does with one, each after those before it.

        It costs one table, however many columns there are. Expressions read the columns that were
        made before them.
        """
        values: dict[str, Any] = {}
        for name, each in columns.items():
            values[name] = self.evaluate(each, values) if isinstance(each, Expression) else each
            self._require_rows(f"the new column {name!r}", len(values[name]))
        schema = self.schema.with_columns({name: each.type for name, each in values.items()})
        pieces: list[Piece] = []
        at = 0
        for group in self.row_groups:
            rows = group[0].table.num_rows
            left = {
                name: (
                    each if isinstance(each, pa.ChunkedArray) else pa.chunked_array([each])
                ).slice(at, rows)
                for name, each in values.items()
            }
            at += rows
            made: list[pa.Table] = []
            for piece in group:
                held = dict(zip(piece.table.column_names, piece.table.columns, strict=True))
                own = {name: left.pop(name) for name in held if name in left}
                made.append(pa.table({**held, **own}) if own else piece.table)
            if left:
                held = dict(zip(made[-1].column_names, made[-1].columns, strict=True))
                made[-1] = pa.table({**held, **left})
            pieces += [piece.with_table(table) for piece, table in zip(group, made, strict=True)]
        return ProcessingUnit(self.ordinal, schema, pieces)

    def with_component(self, component: object) -> ProcessingUnit:
        """Attach a component to all rows of the unit, in place of those of its type.

        It belongs to the rows, not to the unit: it is there in every unit that is derived from
        this one, in the units of later stages that hold some of its rows, and in another process.
        Rows that are joined in one table (:meth:`replace`, :meth:`take`) have the components of
        all of them. It ends with clauses of the package that make rows of the rows of several
        units, such as a sort, a group-by, a resample or a join.

        Parameters
        ----------
        component
            An object of any frozen dataclass whose fields can be hashed. To cross processes on
            Spark, the class needs ``to_json`` and ``from_json``, and stands in ``attaches`` of
            the clause.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        return self._each_held(lambda held: with_component(held, component))

    def without_components(self) -> ProcessingUnit:
        """Return the unit with nothing attached to its rows."""
        return self._each_held(lambda held: ()) if self.attached else self

    def rename(self, names: Mapping[str, str]) -> ProcessingUnit:
        """Rename columns by a mapping from old to new names; unknown old names raise."""
        schema = self.schema.rename(names)

        def renamed(table: pa.Table) -> pa.Table:
            return table.rename_columns([names.get(n, n) for n in table.schema.names])

        return self.with_pieces([p.with_table(renamed(p.table)) for p in self.pieces], schema)

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
        kept = self.schema.index if self.schema.index in table.schema.names else None
        arrow = pa.schema([pa.field(field.name, field.type) for field in table.schema])
        schema = TableSchema(arrow, index or kept)
        piece = dataclasses.replace(self._span(), table=table, bucket=bucket)
        piece = dataclasses.replace(piece, col_range=ColRange(0, table.num_columns))
        return ProcessingUnit(self.ordinal, schema, [piece])

    def with_pieces(self, pieces: Iterable[Piece], schema: TableSchema) -> ProcessingUnit:
        """Return a unit of the same place in the plan with other pieces."""
        return ProcessingUnit(self.ordinal, schema, pieces)

    def with_text(self) -> ProcessingUnit:
        """Return the unit with text that was read as codes as text."""
        return self.with_pieces(
            [p.with_table(self._text(p.table)) for p in self.pieces], self.schema
        )

    # --- inside -----------------------------------------------------------------------------------

    def _span(self) -> Piece:
        """Return a piece without data that covers the facts of all pieces."""
        empty = self.schema.empty()
        if not self.pieces:
            return Piece(empty, RowRange(0, 0), ColRange(0, 0))
        # One column slice that knows the times of its rows speaks for all; one strip that does not
        # know them leaves the times of the whole unknown.
        known = [
            [p.time_range for p in group if p.time_range is not None] for group in self.row_groups
        ]
        times = [times[0] for times in known if times]
        whole = (
            TimeRange(min(t.first for t in times), max(t.last for t in times)) if times else None
        )
        return dataclasses.replace(
            self.pieces[0],
            table=empty,
            row_range=RowRange(
                min(p.row_range.start for p in self.pieces),
                max(p.row_range.end for p in self.pieces),
            ),
            col_range=ColRange(0, len(self.schema.names)),
            time_range=whole if len(times) == len(known) else None,
            segments=segments_of(self.pieces)
            if len({p.row_range for p in self.pieces}) == 1
            else (),
            components=self.attached,
        )

    def _each_held(
        self, change: Callable[[tuple[object, ...]], tuple[object, ...]]
    ) -> ProcessingUnit:
        pieces = self.pieces or (self._span(),)
        changed = [dataclasses.replace(p, components=change(p.components)) for p in pieces]
        return self.with_pieces(changed, self.schema)

    @cached
    def _held(self) -> tuple[dict[str, pa.ChunkedArray], ...]:
        """The columns of each strip by name; of two of one name the first stands."""
        return tuple(
            {
                name: column
                for piece in reversed(group)
                for name, column in zip(piece.table.schema.names, piece.table.columns, strict=True)
            }
            for group in self.row_groups
        )

    def _text(self, table: pa.Table) -> pa.Table:
        from tessel.expression.text_bytes import decoded_text

        for at, field in enumerate(table.schema):
            kind = self.schema.type_of(field.name)
            if field.type != kind:
                table = table.set_column(at, field.name, decoded_text(table.column(at), kind))
        return table

    def _require_rows(self, what: str, length: int) -> None:
        if length != self.num_rows:
            raise ExecutionError(
                f"{what} has {length} values for {self.num_rows} rows",
                hint="give one value per row of the unit",
            )

    def _each_strip(self, change: Callable[[pa.Table, int], pa.Table]) -> ProcessingUnit:
        pieces: list[Piece] = []
        at = 0
        for group in self.row_groups:
            pieces += [piece.with_table(change(piece.table, at)) for piece in group]
            at += group[0].table.num_rows
        return ProcessingUnit(self.ordinal, self.schema, pieces)


def truths(mask: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return where a mask is true: null counts as false, and a mask of type null is null."""
    if not (pa.types.is_boolean(mask.type) or pa.types.is_null(mask.type)):
        raise ExecutionError(
            f"the mask of a filter is {mask.type}, not bool",
            hint="compare the values with something: unit.filter(unit.evaluate(col('a') > 0))",
        )
    return fill_null(mask.cast(pa.bool_()) if pa.types.is_null(mask.type) else mask, False)


def _rows_only(count: int) -> pa.Table:
    """Return a table without columns that has rows: Arrow's own concat and take lose the count."""
    return pa.table({"rows": pa.nulls(count)}).select([])


def _find(held: dict[str, pa.ChunkedArray], name: str) -> pa.ChunkedArray:
    if name not in held:
        raise ColumnNotFoundError.for_name(name, list(held), where="the pieces of a unit")
    return held[name]

"""A unit that is not read yet: what clauses do to it is bound to its batches.

The first stage of a query enters here. A clause filters, computes, renames and selects as on any
unit; where it does so by expressions, nothing is evaluated. Who asks for values gets them, of the
rows that are left: the unit is read then. Who can work on columns as they are stored takes the
batches.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeGuard

import pyarrow as pa

from tessel import telemetry
from tessel.arrays import concat_tables, numpy_array
from tessel.cached import cached, copied
from tessel.clauses.capabilities import DynamicFilter
from tessel.clauses.units.pieces import load_piece, place_of
from tessel.clauses.units.reduced import columns_of, done, runs_of, unused_after
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.unit import truths
from tessel.errors import TesselError
from tessel.expression.context import ExpressionContext
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.bindings import Bindings, Computed
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.selected_rows import SelectedRows

if TYPE_CHECKING:
    from tessel.clauses.grouped.partial_groups import PartialGroups


def bound_unit(
    sources: Sequence[PieceSource],
    segments: SegmentSource,
    bindings: Bindings,
    ordinal: int,
    symbol: int = 0,
) -> BoundUnit:
    """Return the unit of some pieces that no other unit wants, none of them read.

    Parameters
    ----------
    sources
        Where the pieces are found, at least one; those of one row range follow one another.
    bindings
        Those of their columns, to which nothing is bound yet.
    ordinal, symbol
        Of the unit, and of the input in a query over several symbols.
    """
    strips: dict[tuple[int, int], list[PieceSource]] = {}
    for source in sources:
        strips.setdefault((source.row_start, source.row_stop), []).append(source)
    schema = bindings.schema
    batches = [Batch(SelectedRows(segments, strip, schema), bindings) for strip in strips.values()]
    return BoundUnit(ordinal, schema, batches, symbol)


class BoundUnit(ProcessingUnit):
    """A unit whose pieces are read when somebody asks for them.

    Parameters
    ----------
    batches
        Its rows, at least one, in their order; all have the same clauses bound to them.

    Attributes
    ----------
    clause
        The name of the clause that is at work on it, for telemetry.
    was_reduced
        Whether that clause made its result of what is stored.
    told
        In which form it read columns then, where somebody follows.
    """

    def __init__(
        self, ordinal: int, schema: TableSchema, batches: Sequence[Batch], symbol: int = 0
    ) -> None:
        super().__init__(ordinal, schema)
        del self.pieces
        self.batches = tuple(batches)
        self.clause = ""
        self.was_reduced = False
        self.told: dict[str, str] = {}
        self._symbol = symbol
        self._coded: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<BoundUnit {self.ordinal}: {len(self.batches)} batches>"

    @property
    def is_read(self) -> bool:
        """Whether somebody has asked for its pieces."""
        return "pieces" in self.__dict__

    @cached
    def pieces(self) -> tuple[Piece, ...]:
        """What is bound, done to the rows: pieces that are read now."""
        return tuple(itertools.chain(*map(self._read, self.batches)))

    @cached
    def num_rows(self) -> int:
        """Rows of the unit; of other columns than conjuncts read none is read for it."""
        narrowed = self._rows_told()
        if narrowed is None:
            return sum(group[0].table.num_rows for group in self.row_groups)
        return sum(map(len, narrowed))

    @property
    def rows_spanned(self) -> int:
        """Rows of the row ranges, those included that conjuncts drop."""
        return sum(batch.source.pieces[0].row_stop - batch.first_row for batch in self.batches)

    @property
    def rows_unpruned(self) -> int:
        """Rows that bounds of the index and zone maps leave; no page is read for it."""
        return sum(batch.rows_unpruned for batch in self.batches)

    @property
    def bound_clauses(self) -> list[str]:
        """The names of the clauses whose conjuncts and columns are bound, in their order."""
        return list(dict.fromkeys(step.clause for step in self.batches[0].bindings.steps))

    def take_forms(self) -> dict[str, str]:
        """Return in which form columns were read since this was asked; for telemetry."""
        return {n: form for each in self.batches for n, form in each.source.take_forms().items()}

    @property
    def attached(self) -> tuple[object, ...]:
        """All components; the unit is read where row ranges differ, which may have no rows left."""
        held = {batch.components for batch in self.batches}
        return held.pop() if len(held) == 1 else super().attached

    def columns_as_read(self, names: Sequence[str]) -> pa.Table:
        """Return some columns; text is codes where all batches have it so."""
        tables = self._values(names)
        if tables is None or len({table.schema for table in tables}) > 1:
            return super().columns_as_read(names)
        return concat_tables(tables)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column over all rows of the unit; others are not read for it."""
        self.schema.require([name])
        tables = self._values([name])
        if tables is None:
            return super().column(name)
        chunks = [chunk for table in tables for chunk in table.column(name).chunks]
        return _as_declared(chunks, self.schema.type_of(name))

    def evaluate(
        self,
        expression: Expression | ExpressionContext,
        beside: Mapping[str, pa.ChunkedArray | pa.Array] = MappingProxyType({}),
    ) -> pa.ChunkedArray:
        """Return the values of an expression, one a row; its columns alone are read."""
        from tessel.expression.evaluate import evaluate

        if isinstance(expression, Expression) and expression.columns() and not beside:
            tables = self._values(sorted(expression.columns()))
            if tables is not None:
                kind = expression.result_type(self.schema)
                chunks: list[pa.Array] = []
                for table in tables:
                    values = evaluate(expression, table)
                    chunks += values.chunks if isinstance(values, pa.ChunkedArray) else [values]
                return _as_declared(chunks, kind)
        return super().evaluate(expression, beside)

    # --- binding ----------------------------------------------------------------------------------

    def filter(self, rows: Expression | pa.ChunkedArray | pa.Array) -> ProcessingUnit:
        """Keep the rows where a condition is true; a predicate is bound, and nothing evaluated."""
        if self.is_read:
            return super().filter(rows)
        if isinstance(rows, Expression):
            if not self.batches[0].bindings.can_filter(rows):
                return super().filter(rows)
            predicate = rows
            return self._each(lambda batch: batch.filter(predicate, self.clause))
        narrowed = self._rows_told()
        if narrowed is None:
            return super().filter(rows)
        self._require_rows("the mask of a filter", len(rows))
        keep = numpy_array(truths(rows))
        found: list[Batch] = []
        at = 0
        for batch, left in zip(self.batches, narrowed, strict=True):
            mask = keep[at : at + len(left)]
            at += len(left)
            found.append(batch if mask.all() else batch.keep_where(mask))
        return self.with_batches(found)

    def with_columns(
        self, columns: Mapping[str, Expression | pa.ChunkedArray | pa.Array]
    ) -> ProcessingUnit:
        """Add or replace columns; expressions are bound, and not evaluated."""
        bound = {n: e for n, e in columns.items() if isinstance(e, Expression) and e.columns()}
        if self.is_read or len(bound) < len(columns):
            return super().with_columns(columns)
        return self._each(lambda batch: batch.with_columns(bound, self.clause))

    def select(self, names: Sequence[str]) -> ProcessingUnit:
        """Keep these columns in this order."""
        return super().select(names) if self.is_read else self._each(lambda b: b.select(names))

    def rename(self, names: Mapping[str, str]) -> ProcessingUnit:
        """Rename columns by a mapping from old to new names; unknown old names raise."""
        return super().rename(names) if self.is_read else self._each(lambda b: b.rename(names))

    def between(self, low: int | None, high: int | None) -> BoundUnit:
        """Keep the rows whose time index lies in ``[low, high)``; the unit is not read yet."""
        return self._each(lambda batch: batch.between(low, high, self.clause))

    # --- for clauses that know batches ------------------------------------------------------------

    @property
    def has_codes(self) -> bool:
        """Whether text may be read as dictionaries of its type."""
        return bool(self._coded)

    def as_codes(self, names: Set[str]) -> BoundUnit:
        """Return the unit with text columns that may be read as dictionaries of their type."""
        found = self.with_batches(self.batches)
        found._coded = frozenset(names)
        return found

    def with_batches(self, batches: Sequence[Batch]) -> BoundUnit:
        """Return a unit of other batches in the same place of the plan."""
        found = BoundUnit(self.ordinal, batches[0].schema, batches, self._symbol)
        found.clause, found._coded = self.clause, self._coded
        return found

    def by_clause(self, name: str) -> BoundUnit:
        """Return the unit as a clause sees it, which telemetry names."""
        found = copied(self)
        found.clause = name
        return found

    def narrowed_by(self, dynamic: DynamicFilter) -> BoundUnit | None:
        """Return the unit with the rows that a dynamic filter leaves; None to read values.

        What raises is left to the values: they say which row it is.
        """
        if self.is_read:
            return None
        try:
            units = [self.ordinal] * len(self.batches)
            found = list(dynamic.narrow(self.batches, units))
        except TesselError:
            return None
        narrowed = [batch for batch in found if batch is not None]
        return self.with_batches(narrowed) if len(narrowed) == len(found) else None

    def rows_left(self) -> list[SelectedRows] | None:
        """Return the rows that conjuncts leave of each batch; None where values have to tell."""
        if self.is_read:
            return None
        found: list[SelectedRows] = []
        for batch in self.batches:
            rows, left = batch.narrowed(self.ordinal)
            if not all(isinstance(each, Computed) for each in left):
                return None
            found.append(rows)
        return found

    def reduced_by(
        self, reduce: Callable[[Sequence[Batch]], Sequence[PartialGroups] | None]
    ) -> Sequence[PartialGroups] | None:
        """Return what rows are reduced to as they are stored; None to read them.

        Parameters
        ----------
        reduce
            Reduces the rows of all batches together; None where values are needed. What raises is
            left to the values: they say which row it is.
        """
        try:
            found = None if self.is_read else reduce(self.batches)
        except TesselError:
            return None
        self.was_reduced = found is not None
        if telemetry.is_followed():
            self.told = self.take_forms()
        return found

    def read_whole(self) -> ProcessingUnit:
        """Return the unit as it is before any clause, with all of its rows read."""
        pieces = [
            load_piece(source, batch.source.load, self._symbol)
            for batch in self.batches
            for source in batch.source.pieces
        ]
        return ProcessingUnit(self.ordinal, self.batches[0].source.schema, pieces)

    def joined(self, others: Sequence[BoundUnit]) -> BoundUnit:
        """Return the unit with the batches of others that follow it."""
        return self.with_batches([*self.batches, *(b for unit in others for b in unit.batches)])

    # --- inside -----------------------------------------------------------------------------------

    def _rows_told(self) -> list[SelectedRows] | None:
        """Return the rows that are left, for who may go on without columns that are computed.

        Where one of these may raise it has to be computed, whatever is done to its rows then.
        """
        if any(batch.bindings.may_raise_behind for batch in self.batches):
            return None
        return self.rows_left()

    def _each(self, change: Callable[[Batch], Batch]) -> BoundUnit:
        return self.with_batches([change(batch) for batch in self.batches])

    def _span(self) -> Piece:
        if self.is_read:
            return super()._span()
        first, last = self.batches[0].source.pieces[0], self.batches[-1].source.pieces[-1]
        held = dict.fromkeys(each for batch in self.batches for each in batch.components)
        return dataclasses.replace(place_of(first, last, self._symbol), components=tuple(held))

    def _each_held(
        self, change: Callable[[tuple[object, ...]], tuple[object, ...]]
    ) -> ProcessingUnit:
        if self.is_read:
            return super()._each_held(change)
        return self._each(lambda batch: batch.with_components(change(batch.components)))

    def _values(self, names: Sequence[str]) -> list[pa.Table] | None:
        """Return stored columns of the rows that are left, a table a batch; None for others.

        Text may be dictionaries.
        """
        inside = [self.batches[0].columns.get(name, "") for name in names]
        stored = self.batches[0].source.schema
        narrowed = self._rows_told() if all(name in stored for name in inside) else None
        if narrowed is None:
            return None
        return [rows.values(inside).rename_columns(list(names)) for rows in narrowed]

    def _read(self, batch: Batch) -> Sequence[Piece]:
        rows, left = batch.narrowed(self.ordinal)
        columns, coded = batch.columns, self._coded
        if coded:
            touched = {name for each in left for name in columns_of(each)}
            coded = frozenset({columns[name] for name in coded if name in columns} - touched)
        read = functools.partial(rows.read, coded=coded)
        pieces = [load_piece(source, read, self._symbol) for source in rows.pieces]
        unit = ProcessingUnit(self.ordinal, rows.schema, pieces)
        own = list(columns.values())
        if left:
            unused = iter(unused_after(left, own))
            for run in runs_of(left):
                unit = done(run, list(itertools.islice(unused, len(run))), unit)
        if own != unit.schema.names:
            unit = unit.select(own)
        if own != list(columns):
            unit = unit.rename({own: name for name, own in columns.items() if name != own})
        if not batch.components:
            return unit.pieces
        return [dataclasses.replace(each, components=batch.components) for each in unit.pieces]


def is_bound(unit: ProcessingUnit) -> TypeGuard[BoundUnit]:
    """Return whether a unit is not read yet."""
    return isinstance(unit, BoundUnit) and "pieces" not in unit.__dict__


def _as_declared(chunks: Sequence[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """Return chunks as a column of the type; text that was read as dictionaries is decoded."""
    from tessel.clauses.values import plain

    return pa.chunked_array([c if c.type == kind else plain(c) for c in chunks], kind)

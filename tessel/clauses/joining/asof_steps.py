"""As-of joins as the planner makes them: with a side held whole, by buckets, or as two streams.

A small right is read once and asked by units of the left in parallel. A large one with keys is
joined by hash buckets of the keys, as :mod:`tessel.clauses.joining.hashed` does: the rows of a key
come together in their order, however far apart in time they are. A large one without keys is
streamed beside the left: of the right no more is held than the rows that the next row of the left
may still want. An executor that runs units side by side gives each unit of the left those of the
right whose times are in its reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import concat_tables, numpy_array
from tessel.clauses.along_rows.ordered import CarryingClause
from tessel.clauses.base import Carry, Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.joining.asof_shape import AsofShape, AsofTable, Times, pieces_in_reach
from tessel.clauses.joining.hashed import rows_of_side, whole_rows
from tessel.clauses.joining.steps import BoundStep, BucketStep, JoinStep, UnboundStep
from tessel.clauses.registry import register
from tessel.clauses.structures import UnitFacts
from tessel.clauses.units.reduced import unit_of_table, units_of_tables
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import checked_order, index_integers

_NOT_ORDERED = 'order it first, for instance with merge(on="{}"), which makes it the time index'
_CARRY: pa.Schema = pa.schema([("rows", pa.int64()), ("last", pa.int64())])


@register
@dataclass(frozen=True)
class InOrder(CarryingClause):
    """Make a column the time index, as rows pass that are ordered by it already."""

    name: ClassVar[str] = "in_order"
    internal: ClassVar[bool] = True
    column: str
    symbol: str
    hint: str = _NOT_ORDERED

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out; each unit is told of the last time before it."""
        return ClauseInfo(
            columns=frozenset([self.column]),
            keeps_count=True,
            index=IndexEffect.REPLACE,
            carries=Carry.BEFORE,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns with the new index."""
        return TableSchema(input_schema.arrow, self.column)

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return how many rows there were, and the last time as an integer in its own unit."""
        return _CARRY

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows and the last time of a unit; none is known where the unit is refused."""
        last = unit.column(self.column)[max(unit.num_rows - 1, 0) :]
        known = not last.null_count
        times = index_integers(last, self.column).tolist() if known else [None]
        return pa.table({"rows": [unit.num_rows] * len(last), "last": times}, _CARRY)

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return the rows of both, and the last time of the later one that has rows."""
        if not (earlier.num_rows and later.num_rows):
            return later if later.num_rows else earlier
        rows = earlier["rows"][0].as_py() + later["rows"][0].as_py()
        return later.set_column(0, _CARRY.field("rows"), [[rows]])

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Hand rows on; a time that is missing or goes back is an error."""
        row, last = next(iter(zip(*before.to_pydict().values(), strict=True)), (0, None))
        (table,) = _ordered([unit.table], self.column, self.symbol, self.hint, row, last)
        return unit_of_table(unit.ordinal, row, table, self.column)  # of times of the new index

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.name}({self.column!r})"


def _ordered(
    tables: Iterable[pa.Table],
    column: str,
    symbol: str,
    hint: str = _NOT_ORDERED,
    row: int = 0,
    last: int | None = None,
) -> Iterator[pa.Table]:
    """Hand on tables of rows in order; errors of the order name the symbol, none before it does."""
    before: list[TesselError] = []

    def given() -> Iterator[pa.Table]:
        try:
            yield from tables
        except TesselError as error:
            before.append(error)
            raise

    try:
        yield from checked_order(given(), column, after=last, row=row, hint=hint.format(column))
    except TesselError as error:
        if not any(error is each for each in before):
            error.with_context(input=f"symbol {symbol!r}")
        raise


class _OfTwoSymbols(JoinStep):
    """An as-of join of units of two symbols: as many rows as the left has, in its order."""

    shape: AsofShape

    @property
    def structure(self) -> ClauseInfo:
        """Units of two symbols in, row slices out: the rows of the left."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL, adds=frozenset(self.shape.schema.names), keeps_count=True
        )


@register
@dataclass(frozen=True)
class BroadcastAsof(_OfTwoSymbols, UnboundStep):
    """Put rows of the right, which are all here, beside those of units of the left."""

    name: ClassVar[str] = "broadcast_asof"
    shape: AsofShape
    symbol: str

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return what takes units of the left; a right that is not in order is refused."""
        (right,) = others
        times = self.shape.times(right, 1)
        if (times[1:] < times[:-1]).any():
            for _ in _ordered([right], self.shape.index[1], self.symbol):
                pass
        return _BoundAsof(self, right, times)


class _BoundAsof(BoundStep):
    """A :class:`BroadcastAsof` with the right: nothing is changed after it is made."""

    takes = Structure.ROW_SLICE

    def __init__(self, step: BroadcastAsof, right: pa.Table, times: Times) -> None:
        super().__init__(step)
        self._shape = step.shape
        self._table = AsofTable(step.shape, right, times)
        # One chunk a column: rows are taken from it again and again.
        self._right = right.select(list(step.shape.right_names)).combine_chunks()

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join one unit."""
        table = unit.table_as_read
        return unit.replace(self._shape.joined(table, None, self._right, self._table.find(table)))


@register
@dataclass(frozen=True)
class HashAsof(BucketStep):
    """Join one bucket of both sides; the rows that come out say where they belong."""

    name: ClassVar[str] = "hash_asof"
    shape: AsofShape
    buckets: int

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join the pieces of the left with those of the right."""
        left = rows_of_side(unit, 0, self.shape.left)
        right = rows_of_side(unit, 1, self.shape.right)
        rows = AsofTable(self.shape, right).find(left)
        places = numpy_array(left.column(POSITION))
        joined = self.shape.joined(left, None, right, rows)
        return whole_rows(unit, joined, places, self.output_schema(unit.schema))


@register
@dataclass(frozen=True)
class AsofInputs(_OfTwoSymbols):
    """Put rows of one ordered stream beside those of another, without keys."""

    name: ClassVar[str] = "asof_inputs"
    shape: AsofShape
    inputs: tuple[str, str]

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Give each piece of the left the pieces of the right that it may want, by their times.

        For an executor that runs units side by side; one that has streams uses ``interleave``.
        """
        return pieces_in_reach(self.shape, units)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join pieces of the left with those of the right that they may want."""
        sides = []
        for number, schema in enumerate((self.shape.left, self.shape.right)):
            pieces = [piece for piece in unit.pieces if piece.symbol == number]
            side = unit.with_pieces(pieces, schema)
            for _ in _ordered([side.table], self.shape.index[number], self.inputs[number]):
                pass
            sides.append(side)
        left, right = sides[0], sides[1].table.combine_chunks()
        rows = AsofTable(self.shape, right).find(left.table)
        return left.replace(self.shape.joined(left.table, None, right, rows))

    def interleave(self, inputs: Sequence[Iterator[ProcessingUnit]]) -> Iterator[ProcessingUnit]:
        """Join the streams as they come."""
        left, right = (
            _ordered((unit.table for unit in units if unit.num_rows), index, name)
            for units, index, name in zip(inputs, self.shape.index, self.inputs, strict=True)
        )
        joined = _streamed(self.shape, left, right)
        yield from units_of_tables(joined, self.shape.index[0])


def _streamed(
    shape: AsofShape, left: Iterator[pa.Table], right: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    """Give the rows of the left, each as soon as the rows of the right that it needs are here."""
    held = shape.right.empty()
    held_times: NDArray[np.int64] = np.zeros(0, np.int64)
    more = True
    for table in left:
        times = shape.times(table, 0)
        at = 0
        while at < len(times):
            # What lies before the last row before the next time is wanted by no row to come.
            start = max(0, int(np.searchsorted(held_times, times[at], "left")) - 1)
            held, held_times = held.slice(start), held_times[start:]
            stop = at + _decided(shape, times[at:], held_times) if more else len(times)
            if stop > at:
                part = table.slice(at, stop - at)
                held = held.combine_chunks()
                yield shape.joined(part, None, held, AsofTable(shape, held).find(part))
                at = stop
                continue
            following = next(right, None)
            if following is None:
                more = False
                continue
            held = concat_tables([held, following])
            held_times = np.concatenate([held_times, shape.times(following, 1)])
    for _ in right:  # whether its order breaks must not depend on the way that was chosen
        pass


def _decided(shape: AsofShape, times: NDArray[np.int64], held: NDArray[np.int64]) -> int:
    """Return how many rows of the left no row of the right that is still to come can change.

    More rows of the last time that is held may follow. So a row that looks back is decided before
    that time, and one that looks ahead before the time before it.
    """
    if not len(held):
        return 0
    bound = held[-1]
    if shape.direction != "backward":
        earlier = int(np.searchsorted(held, bound, "left"))
        if not earlier:
            return 0
        bound = held[earlier - 1]
    return int(np.searchsorted(times, bound, "left"))

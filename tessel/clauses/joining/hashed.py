"""Joining bucket by bucket: what the planner makes of two sides that are both large.

Both sides are split by the hash of their keys (:class:`JoinPartition`), each bucket is joined by
itself (:class:`HashJoin`), and the rows go back to where their left rows came from
(:class:`OrderJoined`): a bucket of that second grouping is one unit of the left, or of the right
for rows of the right that nothing matched. So the rows come out in the order and in the units in
which a broadcast join gives them, and no step sees more than a bucket.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.grouped.group_tables import POSITION
from tessel.clauses.grouped.grouping import missing_rows
from tessel.clauses.grouped.hashing import bucket_of
from tessel.clauses.index_values import with_times_of_index
from tessel.clauses.joining.lookup import KeyTable
from tessel.clauses.joining.matching import Matches
from tessel.clauses.joining.shape import JoinShape
from tessel.clauses.joining.steps import BucketStep, JoinStep
from tessel.clauses.registry import register
from tessel.clauses.structures import UnitFacts, structure_by_bucket
from tessel.ecs import Piece, ProcessingUnit
from tessel.errors import ExecutionError
from tessel.expression.schema import TableSchema
from tessel.kernels import order_of_codes

__all__ = ["HashJoin", "JoinPartition", "OrderJoined", "placed", "rows_of_side"]

_RIGHT_UNITS = 1 << 30
"""Buckets from here on are units of the right; those below are units of the left."""


@register
@dataclass(frozen=True)
class JoinPartition(JoinStep):
    """Split one side of a join into hash buckets of its keys, each row with its position.

    Attributes
    ----------
    side
        Which side it is. Rows of a missing key match nothing: they are dropped unless unmatched
        rows of this side come out, and then spread over the buckets.
    buckets
        How many buckets; no answer depends on it.
    """

    name: ClassVar[str] = "join_partition"
    internal: ClassVar[bool] = True
    shape: JoinShape
    side: Literal["left", "right"]
    buckets: int

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, hash buckets out."""
        keys = [pair[self._number] for pair in self.shape.on]
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.HASH_BUCKETED,
            columns=frozenset(keys),
            adds=frozenset([POSITION]),
            keeps_order=False,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns without a time index, and the position."""
        return TableSchema(input_schema.arrow).with_column(POSITION, pa.int64())

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Give each row its bucket; pieces come out by bucket, rows of each in order."""
        table = unit.table
        keys = self.shape.left_keys(table) if self.side == "left" else self.shape.right_keys(table)
        rows = np.arange(table.num_rows, dtype=np.int64)
        bucket = bucket_of(keys, self.buckets)
        missing = missing_rows(keys)
        if self.shape.keeps_left if self.side == "left" else self.shape.keeps_right:
            bucket[missing] = rows[missing] % self.buckets
        else:
            rows, bucket = rows[~missing], bucket[~missing]
        order = order_of_codes(bucket, self.buckets)
        rows, bucket = rows[order], bucket[order]
        positions = pa.array(rows + (unit.ordinal << 32))
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        pieces: list[Piece] = []
        for start, stop in itertools.pairwise([*starts.tolist(), len(rows)]):
            part = table.take(pa.array(rows[start:stop]))
            part = part.append_column(POSITION, positions.slice(start, stop - start))
            pieces += unit.replace(part, bucket=int(bucket[start])).pieces
        return unit.with_pieces(pieces, self.output_schema(unit.schema))

    @property
    def _number(self) -> int:
        return 0 if self.side == "left" else 1


@register
@dataclass(frozen=True)
class HashJoin(BucketStep):
    """Join one bucket of both sides; the rows that come out say where they belong.

    Attributes
    ----------
    buckets
        How many buckets both sides were split into.
    """

    name: ClassVar[str] = "hash_join"
    internal: ClassVar[bool] = True
    shape: JoinShape
    buckets: int

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join the pieces of the left with those of the right."""
        shape = self.shape
        left = rows_of_side(unit, 0, shape.left)
        right = rows_of_side(unit, 1, shape.right)
        table = KeyTable(shape.right_keys(right))
        codes = table.find(shape.left_keys(left))
        places = left.column(POSITION).to_numpy()
        if not shape.adds_columns:
            rows = np.flatnonzero(codes < 0 if shape.how == "anti" else codes >= 0)
            kept = left.select(shape.left.names).take(pa.array(rows))
            pieces = list(placed(unit, kept, places[rows], 0))
        else:
            matches = Matches.of(table, codes, keep_unmatched=shape.keeps_left)
            rows, others = matches.rows(0, len(matches))
            joined = shape.joined(left, rows, right, others)
            pieces = list(placed(unit, joined, places[rows], 0))
            if shape.keeps_right:
                used = np.zeros(right.num_rows, np.bool_)
                used[others[others >= 0]] = True
                alone = np.flatnonzero(~used)
                at = right.column(POSITION).to_numpy()[alone]
                pieces += placed(unit, shape.unmatched(right, alone), at, _RIGHT_UNITS)
        return unit.with_pieces(pieces, self.output_schema(unit.schema))


def rows_of_side(unit: ProcessingUnit, side: int, schema: TableSchema) -> pa.Table:
    """Return the rows of one of two inputs with their positions, in plan order, unchunked."""
    schema = TableSchema(schema.arrow).with_column(POSITION, pa.int64())
    pieces = [piece for piece in unit.pieces if piece.symbol == side]
    return unit.with_pieces(pieces, schema).table.combine_chunks()


def placed(
    unit: ProcessingUnit, table: pa.Table, places: np.ndarray, first_unit: int
) -> Iterator[Piece]:
    """Cut a table, whose rows are in plan order, where the units that they came from change.

    Parameters
    ----------
    unit
        Whose facts the pieces get.
    table, places
        The rows, and the position of each.
    first_unit
        Added to the number of the unit that the rows of a piece came from: the piece's bucket.
    """
    units = places >> 32
    if len(units) and int(units[-1]) >= _RIGHT_UNITS:
        raise ExecutionError(f"a join of more than {_RIGHT_UNITS:,} units of one symbol")
    table = table.append_column(POSITION, pa.array(places, pa.int64()))
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(places)]):
        part = table.slice(start, stop - start)
        yield from unit.replace(part, bucket=int(units[start]) + first_unit).pieces


@register
@dataclass(frozen=True)
class OrderJoined(Clause):
    """Bring the rows of one unit, which several buckets gave, back into their order.

    Attributes
    ----------
    schema
        The columns of the result.
    """

    name: ClassVar[str] = "order_joined"
    internal: ClassVar[bool] = True
    schema: TableSchema

    @property
    def structure(self) -> ClauseInfo:
        """The parts of one unit in, a row slice out."""
        replaced = self.schema.index is not None
        return ClauseInfo(
            Structure.HASH_BUCKETED,
            Structure.ROW_SLICE,
            keeps_order=False,
            keeps_count=True,
            index=IndexEffect.REPLACE if replaced else IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join, with the left's index where it stays."""
        return self.schema

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Group parts by the unit that they belong to.

        It is what any clause over buckets gets. That it is said here makes an executor number the
        units that come out one by one, where the numbers of units that rows came from have gaps.
        """
        return structure_by_bucket(units)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Order by position; the rows of one position are of one bucket, in order already."""
        table, schema = unit.table, self.schema
        order = np.argsort(table.column(POSITION).to_numpy(), kind="stable")
        ordered = unit.replace(table.select(schema.names).take(pa.array(order)))
        if schema.index is None:
            return ordered
        return with_times_of_index(ordered.with_pieces(ordered.pieces, schema))

    def describe(self) -> str:
        """Return one line for people."""
        return self.name

"""Joining bucket by bucket: what the planner makes of two sides that are both large.

Both sides are split by the hash of their keys (:class:`JoinPartition`), in each bucket is found
which rows go together (:class:`HashJoin`), and they go back to where their left rows came from
(:class:`ExpandJoined`): a bucket of that second grouping is
one unit of the left, or of the right for rows of the right that nothing matched. So the rows come
out in the order in which a broadcast join gives them, and no step sees more than a bucket. Until
then each row stands once, however many rows it goes with; the pairs are made some at a time, when
they are asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import MOST_UNITS
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.grouped.grouping import missing_rows
from tessel.clauses.grouped.hashing import bucket_of
from tessel.clauses.index_values import with_times_of_index
from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.lookup import KeyTable, Matches, Pairing, pairing_schema, with_pairing
from tessel.clauses.joining.shape import JoinShape
from tessel.clauses.joining.steps import BoundStep, BucketStep, JoinStep, PartOfStep, part_bytes
from tessel.clauses.registry import register
from tessel.clauses.units.reduced import unit_in_buckets
from tessel.ecs import Piece, ProcessingUnit
from tessel.errors import ExecutionError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_MOST_BUCKETS = 1 << 31
"""The number of a bucket has 31 bits."""


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
    shape: JoinShape | AsofShape
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
        keys = self.shape.keys(table, self._number)
        rows = np.arange(table.num_rows, dtype=np.int64)
        table = table.append_column(POSITION, arrow_array(rows + (unit.ordinal << 32)))
        bucket = bucket_of(keys, self.buckets)
        missing = missing_rows(keys)
        if self.shape.keeps_left if self.side == "left" else self.shape.keeps_right:
            bucket[missing] = rows[missing] % self.buckets
        else:
            rows, bucket = rows[~missing], bucket[~missing]
        schema = self.output_schema(unit.schema)
        return unit_in_buckets(unit, table, schema, bucket, self.buckets, rows)

    @property
    def _number(self) -> Literal[0, 1]:
        return 0 if self.side == "left" else 1


@register
@dataclass(frozen=True)
class HashJoin(BucketStep):
    """Find in one bucket of both sides which rows go together.

    What comes out are rows of both sides, each once for each unit of the left that wants it; see
    :mod:`tessel.clauses.joining.lookup`.

    Attributes
    ----------
    right_units
        Buckets that come out are units of the left below this number, from it on of the right.
    """

    name: ClassVar[str] = "hash_join"
    shape: JoinShape
    buckets: int
    right_units: int = MOST_UNITS

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join the pieces of the left with those of the right."""
        return _Bucket(self, unit).made()

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return what gives the rows for some units of the left at a time."""
        bucket = _Bucket(self, unit)
        return [
            (_PartOfBucket(self, bucket, start, stop), size)
            for start, stop, size in bucket.cuts(part_bytes())
        ]


class _PartOfBucket(BoundStep):
    """The rows of a bucket that some units of the left want."""

    def __init__(self, step: HashJoin, bucket: _Bucket, start: int, stop: int) -> None:
        super().__init__(step)
        self._bucket = bucket
        self._units = start, stop

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Give these rows; the unit is the one that was looked at."""
        return self._bucket.made(*self._units)


class _Bucket:
    """One bucket of both sides, whose rows that go together are found and not put together yet."""

    def __init__(self, step: HashJoin, unit: ProcessingUnit) -> None:
        self._shape = shape = step.shape
        self._right_units = right_units = step.right_units
        self._unit = unit
        self._left = rows_of_side(unit, 0, shape.left)
        self._right = rows_of_side(unit, 1, shape.right)
        self._table = KeyTable(shape.keys(self._right, 1))
        codes = self._table.find(shape.keys(self._left, 0))
        kept = codes < 0 if shape.how == "anti" else codes >= 0
        rows = np.arange(len(codes)) if shape.how in ("left", "outer") else np.flatnonzero(kept)
        self._rows = rows
        self._codes = codes[rows] if shape.adds_columns else np.full(len(rows), -1, np.int64)
        alone = self._unmatched(codes) if shape.keeps_right else rows[:0]
        self._alone = alone
        self._stretches = [
            *_stretches(numpy_array(self._left.column(POSITION))[rows], 0, right_units),
            *_stretches(numpy_array(self._right.column(POSITION))[alone], right_units),
        ]
        # Of each stretch of the left the keys of its rows that many rows of the right have.
        self._sizes = np.append(np.diff(self._table.starts), 0)  # code −1 finds the last: no row
        self._keys = [self._many(stretch) for stretch in self._stretches]

    def cuts(self, most_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Cut the stretches into parts ``[start, stop)`` of some bytes each, which are told."""
        both = (self._left, self._right)
        width = sum(side.nbytes // max(1, side.num_rows) for side in both)
        start = size = 0
        for at, (stretch, keys) in enumerate(zip(self._stretches, self._keys, strict=True)):
            size += (stretch.stop - stretch.start + int(self._sizes[keys].sum())) * width
            if size >= most_bytes:
                yield start, at + 1, size
                start, size = at + 1, 0
        if size or not start:
            yield start, len(self._stretches), size

    def made(self, start: int = 0, stop: int | None = None) -> ProcessingUnit:
        """Return the rows of some stretches, of all by default, as a unit of that many pieces."""
        pieces: list[Piece] = []
        stretches = zip(self._stretches[start:stop], self._keys[start:stop], strict=True)
        for stretch, keys in stretches:
            alone = stretch.unit >= self._right_units
            table = self._joined_alone(stretch) if alone else self._joined(stretch, keys)
            pieces += self._unit.replace(table, bucket=stretch.unit).pieces
        return self._unit.with_pieces(pieces, pairing_schema(self._shape))

    def _unmatched(self, codes: np.ndarray) -> np.ndarray:
        """Return the rows of the right whose key no row of the left has."""
        used = np.zeros(len(self._table.starts), np.bool_)
        used[codes] = True
        used[-1] = False  # where rows without a key are told, of both sides
        return np.flatnonzero(~used[self._table.codes])

    def _many(self, stretch: _Stretch) -> np.ndarray:
        if stretch.unit >= self._right_units:
            return np.zeros(0, np.int64)
        codes = self._codes[stretch.start : stretch.stop]
        return different(codes[self._sizes[codes] > 1])

    def _joined(self, stretch: _Stretch, keys: np.ndarray) -> pa.Table:
        table = self._table
        rows = self._rows[stretch.start : stretch.stop]
        codes = self._codes[stretch.start : stretch.stop]
        sizes = self._sizes[codes]
        beside = np.full(len(codes), -1, np.int64)
        beside[sizes == 1] = table.rows[table.starts[codes[sizes == 1]]]
        wanted = Matches.of(table, keys, keep_unmatched=False)
        of_keys, following = wanted.rows(0, len(wanted))
        nowhere = np.full(len(following), -1, np.int64)
        joined = self._shape.joined(
            self._left, np.append(rows, nowhere), self._right, np.append(beside, following)
        )
        numbers = np.where(sizes > 1, self._numbers(codes), -1)
        return with_pairing(
            joined,
            np.append(numpy_array(self._left.column(POSITION))[rows], nowhere),
            np.append(numbers, self._numbers(keys[of_keys])),
        )

    def _joined_alone(self, stretch: _Stretch) -> pa.Table:
        rows = self._alone[stretch.start : stretch.stop]
        positions = numpy_array(self._right.column(POSITION))[rows]
        whole = np.full(len(rows), -1, np.int64)
        return with_pairing(self._shape.unmatched(self._right, rows), positions, whole)

    def _numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return numbers that no other bucket has."""
        return codes + ((self._unit.pieces[0].bucket or 0) << 32)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Rows of a bucket that stand side by side and came from one unit, or its number and more."""

    unit: int
    start: int
    stop: int


def _stretches(
    places: np.ndarray, first_unit: int, stop_unit: int = _MOST_BUCKETS
) -> Iterator[_Stretch]:
    """Cut rows in plan order, given their positions, where the units that they came from change."""
    units = places >> 32
    if len(units) and first_unit + int(units[-1]) >= stop_unit:
        most = stop_unit - first_unit
        raise ExecutionError(f"a join of more than {most:,} units of one symbol")
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(units)]):
        yield _Stretch(int(units[start]) + first_unit, start, stop)


def rows_of_side(unit: ProcessingUnit, side: int, schema: TableSchema) -> pa.Table:
    """Return the rows of one of two inputs with their positions, in plan order, unchunked."""
    schema = TableSchema(schema.arrow).with_column(POSITION, pa.int64())
    pieces = [piece for piece in unit.pieces if piece.symbol == side]
    return unit.with_pieces(pieces, schema).table.combine_chunks()


def whole_rows(
    unit: ProcessingUnit, table: pa.Table, places: np.ndarray, schema: TableSchema
) -> ProcessingUnit:
    """Return rows of a join in plan order that go with no other, a piece a unit they belong to.

    Parameters
    ----------
    places
        The position of each row.
    """
    table = with_pairing(table, places, np.full(len(places), -1, np.int64))
    pieces: list[Piece] = []
    for stretch in _stretches(places, 0):
        part = table.slice(stretch.start, stretch.stop - stretch.start)
        pieces += unit.replace(part, bucket=stretch.unit).pieces
    return unit.with_pieces(pieces, schema)


@register
@dataclass(frozen=True)
class ExpandJoined(JoinStep):
    """Make the rows of output of one unit, for which several buckets gave rows, in their order."""

    name: ClassVar[str] = "expand_joined"
    shape: JoinShape | AsofShape

    @property
    def structure(self) -> ClauseInfo:
        """The parts of one unit in, row slices out."""
        replaced = self.shape.schema.index is not None
        return ClauseInfo(
            Structure.HASH_BUCKETED,
            keeps_order=False,
            index=IndexEffect.REPLACE if replaced else IndexEffect.DROP,
            apart=True,
        )

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Make all rows."""
        pairing = Pairing(self.shape, unit.table)
        return self.made(unit, pairing, 0, len(pairing))

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return what makes some rows at a time."""
        pairing = Pairing(self.shape, unit.table)
        width = max(1, pairing.nbytes // max(1, unit.num_rows))
        return PartOfStep.of(self, pairing, unit, width)

    def made(self, unit: ProcessingUnit, found: Pairing, start: int, stop: int) -> ProcessingUnit:
        """Return rows ``[start, stop)`` of the output of a unit."""
        made = unit.replace(found.rows(start, stop), index=self.shape.schema.index)
        return with_times_of_index(made)

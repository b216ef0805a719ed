"""Joining with a side that is read once and held whole: what the planner makes of a small one.

:class:`BroadcastJoin` is bound to the rows of the right and then probes the left's units one by
one, in parallel. Where right rows without a match come out too, it numbers the right rows that it
has used in a hidden column; :class:`AppendUnmatched` behind it lets everything pass, carries to the
end which rows those are, and adds the ones that nobody used.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.base import Carry, Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.grouped.group_tables import POSITION
from tessel.clauses.joining.lookup import KeyTable
from tessel.clauses.joining.matching import Matches
from tessel.clauses.joining.shape import JoinShape
from tessel.clauses.joining.steps import BoundStep, UnboundStep
from tessel.clauses.joining.strategy import part_bytes
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

__all__ = ["AppendUnmatched", "BroadcastJoin"]

_UNMATCHED_ROWS = 65_536


@register
@dataclass(frozen=True)
class BroadcastJoin(UnboundStep):
    """Probe units of the left with the rows of the right, which are all here.

    Attributes
    ----------
    codes
        Text columns of the result that may come out as dictionaries of text.
    """

    name: ClassVar[str] = "broadcast_join"
    internal: ClassVar[bool] = True
    shape: JoinShape
    codes: tuple[str, ...] = ()

    @property
    def structure(self) -> ClauseInfo:
        """Units of two symbols in, row slices out, in the order of the left."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL,
            Structure.ROW_SLICE,
            adds=frozenset(self.shape.schema.names),
            index=IndexEffect.DROP if self.shape.keeps_right else IndexEffect.KEEP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join; and the hidden one where unmatched right rows follow."""
        schema = self.shape.schema
        return schema.with_column(POSITION, pa.int64()) if self.shape.keeps_right else schema

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return what probes units of the left."""
        (right,) = others
        return _BoundJoin(self, right)


class _BoundJoin(BoundStep):
    """A :class:`BroadcastJoin` with the right: nothing is changed after it is made."""

    name = BroadcastJoin.name

    def __init__(self, step: BroadcastJoin, right: pa.Table) -> None:
        super().__init__(step)
        self._shape = step.shape
        self._codes = frozenset(step.codes)
        self._table = KeyTable(self._shape.right_keys(right))
        # One chunk a column: rows are taken from it again and again.
        theirs = [
            right.column(name).dictionary_encode() if shown in self._codes else right.column(name)
            for name, shown in self._shape.right_names.items()
        ]
        names = list(self._shape.right_names)
        self._right = pa.table(theirs, names=names).combine_chunks()
        self._most = max(self._table.most, 1)
        self._row_bytes = right.nbytes // max(1, right.num_rows)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out."""
        info = self._step.structure
        return ClauseInfo(
            Structure.ROW_SLICE, Structure.ROW_SLICE, adds=info.adds, index=info.index
        )

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join one unit."""
        codes = self._table.find(self._shape.left_keys(unit.table_as_read))
        if not self._shape.adds_columns:
            kept = (codes < 0) if self._shape.how == "anti" else codes >= 0
            return unit.replace(unit.filter(arrow_array(kept)).table)  # of the promised types
        matches = self._matches(codes)
        return self.made(unit, matches, 0, len(matches))

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return the joins that make the output of a unit some rows at a time."""
        width = max(1, unit.nbytes // max(1, unit.num_rows) + self._row_bytes)
        rows = max(1, part_bytes() // width)
        if not self._shape.adds_columns:
            return [(self, unit.nbytes)]
        if unit.num_rows * self._most <= rows:
            return [(self, unit.num_rows * self._most * width)]
        matches = self._matches(self._table.find(self._shape.left_keys(unit.table_as_read)))
        # A unit is not cut finer than it came where its rows do not become more.
        rows = max(rows, unit.num_rows)
        stops = [min(at + rows, len(matches)) for at in range(0, max(1, len(matches)), rows)]
        return [
            (_PartOfJoin(self, matches, at, stop), (stop - at) * width)
            for at, stop in itertools.pairwise([0, *stops])
        ]

    def made(self, unit: ProcessingUnit, matches: Matches, start: int, stop: int) -> ProcessingUnit:
        """Return rows ``[start, stop)`` of the output of a unit."""
        left, right = matches.rows(start, stop)
        whole = stop - start == len(matches) and matches.is_one_to_one
        rows = None if whole else left
        table = self._shape.joined(unit.table_as_read, rows, self._right, right, self._codes)
        if not self._shape.keeps_right:
            return unit.with_pieces(unit.replace(table).pieces, self._shape.schema)
        used = arrow_array(right, mask=right < 0)
        return unit.replace(table.append_column(pa.field(POSITION, pa.int64()), used))

    def _matches(self, codes: np.ndarray) -> Matches:
        return Matches.of(self._table, codes, keep_unmatched=self._shape.keeps_left)


class _PartOfJoin(BoundStep):
    """Some rows of what a join makes of one unit."""

    name = BroadcastJoin.name

    def __init__(self, whole: _BoundJoin, matches: Matches, start: int, stop: int) -> None:
        super().__init__(whole)
        self._whole = whole
        self._matches = matches
        self._rows = start, stop

    @property
    def structure(self) -> ClauseInfo:
        """All of one unit in, row slices out."""
        return dataclasses.replace(super().structure, input=Structure.ALL)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Make these rows; the unit is the one that was counted."""
        return self._whole.made(unit, self._matches, *self._rows)


@register
@dataclass(frozen=True)
class AppendUnmatched(UnboundStep):
    """Let the rows of a join pass, then give the right rows that none of them used."""

    name: ClassVar[str] = "append_unmatched"
    internal: ClassVar[bool] = True
    shape: JoinShape

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out; which rows of the right are used is carried to the end."""
        return ClauseInfo(
            Structure.ALL, Structure.ROW_SLICE, index=IndexEffect.DROP, carries=Carry.END
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join."""
        return self.shape.schema

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return what knows the rows of the right."""
        (right,) = others
        return _BoundAppend(self, right)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Leave the hidden column out."""
        return unit.select(self.shape.schema.names)

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of a bitmap, of blocks of 64 rows of the right."""
        return pa.schema([("block", pa.int64()), ("used", pa.uint64())])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return which rows of the right a unit has used."""
        rows = numpy_array(unit.column(POSITION).drop_null())
        return self._used(rows >> 6, np.left_shift(np.uint64(1), (rows & 63).astype(np.uint64)))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return which rows of the right either has used."""
        both = pa.concat_tables([earlier, later])
        return self._used(*map(numpy_array, both.columns))

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say that nothing after a unit matters to it."""
        return True

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Leave the hidden column out."""
        return self.process(unit)

    def _used(self, blocks: np.ndarray, used: np.ndarray) -> pa.Table:
        """Return a bitmap in which each block stands once."""
        order = np.argsort(blocks, kind="stable")
        starts = np.flatnonzero(np.diff(blocks[order], prepend=-1))
        bits = np.bitwise_or.reduceat(used[order], starts) if len(starts) else used
        found = [arrow_array(blocks[order][starts]), arrow_array(bits)]
        return pa.table(found, schema=self.carry_schema(self.shape.schema))


class _BoundAppend(AppendUnmatched):
    """An :class:`AppendUnmatched` with the right: nothing is changed after it is made."""

    _right: pa.Table

    def __init__(self, step: AppendUnmatched, right: pa.Table) -> None:
        super().__init__(step.shape)
        object.__setattr__(self, "_right", right.combine_chunks())

    def finish(self, carry: pa.Table, schema: TableSchema) -> Iterator[pa.Table]:
        """Give the rows of the right that no unit has used."""
        bitmap = np.zeros(-(-self._right.num_rows // 64), "<u8")
        bitmap[numpy_array(carry.column("block"))] = numpy_array(carry.column("used"))
        used = np.unpackbits(bitmap.view(np.uint8), count=self._right.num_rows, bitorder="little")
        left_over = np.flatnonzero(used == 0)
        for start in range(0, len(left_over), _UNMATCHED_ROWS):
            rows = left_over[start : start + _UNMATCHED_ROWS]
            yield self.shape.unmatched(self._right, rows)

"""Joining with a side that is read once and held whole: what the planner makes of a small one.

:class:`BroadcastJoin` is bound to the rows of one side and then probes them with units of the other
one by one, in parallel. Where the order of the left, which is held, has to be restored, or where
right rows without a match come out too, it numbers the held rows that it has used in a hidden
column. A sort behind it orders by these numbers; or :class:`AppendUnmatched` lets everything pass,
carries to the end which rows those are, and adds the ones that nobody used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.clauses.along_rows.ordered import CarryingClause
from tessel.clauses.base import Carry, Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.joining.lookup import KeyTable, Matches
from tessel.clauses.joining.shape import JoinShape
from tessel.clauses.joining.steps import BoundStep, PartOfStep, UnboundStep, part_bytes
from tessel.clauses.registry import register
from tessel.clauses.units.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_UNMATCHED_ROWS = 65_536

_WIDE_ROW_BYTES = 64
"""Held rows of more bytes make a unit grow by what has to be counted as alive."""


@register
@dataclass(frozen=True)
class BroadcastJoin(UnboundStep):
    """Probe the rows of one side, which are all here, with units of the other.

    Attributes
    ----------
    codes
        Text columns of the result that may come out as dictionaries of text.
    held
        Which side is here; the left only in an inner join.
    """

    name: ClassVar[str] = "broadcast_join"
    shape: JoinShape
    codes: tuple[str, ...] = ()
    held: Literal["left", "right"] = "right"

    @property
    def numbers_held(self) -> bool:
        """Whether what stands behind asks which held row each row is of."""
        return self.shape.keeps_right or self.held == "left"

    @property
    def structure(self) -> ClauseInfo:
        """Units of two symbols in, row slices out, in the order of the side that is not held."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL,
            adds=frozenset(self.shape.schema.names),
            index=IndexEffect.DROP if self.numbers_held else IndexEffect.KEEP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join, and the hidden one where held rows are numbered."""
        schema = self.shape.schema
        if not self.numbers_held:
            return schema
        return TableSchema(schema.arrow).with_column(POSITION, pa.int64())

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return what probes the held side."""
        (held,) = others
        table = KeyTable(self.shape.keys(held, 0 if self.held == "left" else 1))
        grows = table.most > 1 or held.nbytes > _WIDE_ROW_BYTES * held.num_rows
        return (_ExpandingJoin if grows else _BoundJoin)(self, held, table)


class _BoundJoin(BoundStep):
    """A :class:`BroadcastJoin` with the held side: nothing is changed after it is made."""

    takes = Structure.ROW_SLICE

    def __init__(self, step: BroadcastJoin, held: pa.Table, table: KeyTable) -> None:
        super().__init__(step)
        self._shape = shape = step.shape
        self._table = table
        self._codes = frozenset(step.codes)
        self._holds_left = step.held == "left"
        self._schema = step.output_schema(shape.left)
        names = {name: name for name in shape.left.names} if self._holds_left else shape.right_names
        # One chunk a column: rows are taken from it again and again.
        columns = [
            held.column(name).dictionary_encode() if shown in self._codes else held.column(name)
            for name, shown in names.items()
        ]
        self._held = pa.table(columns, names=list(names)).combine_chunks()
        self._row_bytes = held.nbytes // max(1, held.num_rows)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Join one unit."""
        codes = self._found(unit)
        kept = (codes < 0) if self._shape.how == "anti" else codes >= 0
        if not self._shape.adds_columns:
            return unit.replace(unit.filter(arrow_array(kept)).table)  # of the promised types
        if is_bound(unit) and not self._shape.keeps_left:
            # Late materialization: the other columns are read of the rows with a match alone.
            unit, codes = unit.filter(arrow_array(kept)), codes[kept]
        matches = self._matches(codes)
        return self.made(unit, matches, 0, len(matches))

    def made(self, unit: ProcessingUnit, found: Matches, start: int, stop: int) -> ProcessingUnit:
        """Return rows ``[start, stop)`` of the output of a unit."""
        rows, held = found.rows(start, stop)
        read = unit.table_as_read
        if self._holds_left:
            table = self._shape.joined(self._held, held, read, rows)
        else:
            whole = stop - start == len(found) and found.is_one_to_one
            own = None if whole else rows
            table = self._shape.joined(read, own, self._held, held, self._codes)
        if POSITION in self._schema:
            used = arrow_array(held, mask=held < 0)
            table = table.append_column(pa.field(POSITION, pa.int64()), used)
        return unit.with_pieces(unit.replace(table).pieces, self._schema)

    def _found(self, unit: ProcessingUnit) -> np.ndarray:
        """Return for each row of a unit the number of its key."""
        side: Literal[0, 1] = 1 if self._holds_left else 0
        names = dict.fromkeys(pair[side] for pair in self._shape.on)
        return self._table.find(self._shape.keys(unit.columns_as_read(list(names)), side))

    def _matches(self, codes: np.ndarray) -> Matches:
        return Matches.of(self._table, codes, keep_unmatched=self._shape.keeps_left)


class _ExpandingJoin(_BoundJoin):
    """One whose output may be much more than its unit: several matches a row, or wide rows."""

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return the joins that make the output of a unit some rows at a time."""
        width = max(1, unit.nbytes // max(1, unit.num_rows) + self._row_bytes)
        rows = max(1, part_bytes() // width)
        if not self._shape.adds_columns:
            return [(self, unit.nbytes)]
        most = unit.num_rows * self._table.most
        if most <= rows:
            return [(self, most * width)]
        matches = self._matches(self._found(unit))
        return PartOfStep.of(self, matches, unit, width)


@register
@dataclass(frozen=True)
class AppendUnmatched(UnboundStep, CarryingClause):
    """Let the rows of a join pass, then give the right rows that none of them used."""

    name: ClassVar[str] = "append_unmatched"
    shape: JoinShape

    structure = ClauseInfo(Structure.ALL, index=IndexEffect.DROP, carries=Carry.END)

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
        both = concat_tables([earlier, later])
        return self._used(*map(numpy_array, both.columns))

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

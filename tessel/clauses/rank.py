"""rank: the place of each value among all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.along_rows.key_order import keyed_rows
from tessel.clauses.along_rows.ordered import OrderedColumns
from tessel.clauses.along_rows.ranking import VALUE, Ranking, RankMethod, ranked_rows
from tessel.clauses.base import ClauseInfo, Structure
from tessel.clauses.ordering import stable_order
from tessel.clauses.registry import register
from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer
from tessel.clauses.spill.workspace import Workspace, workspace_of
from tessel.clauses.units.reduced import unit_of_table
from tessel.clauses.values import is_hashable, missing_rows, plain, plain_type
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError, UnsupportedTypeError
from tessel.expression.schema import TableSchema
from tessel.kernels.group_rows import order_of_codes
from tessel.lazy import dataclass

_METHODS: tuple[RankMethod, ...] = ("average", "min", "max", "dense", "ordinal")


@register
@dataclass(frozen=True)
class Rank(OrderedColumns):
    """The place of each value among the values of its key, from 1 on; missing of a missing value.

    Attributes
    ----------
    columns, by
        As for every ordered clause: pairs of result and column, and keys.
    method
        What equal values get: the ``"average"``, the ``"min"`` or the ``"max"`` of their places;
        ``"dense"`` counts distinct values; ``"ordinal"`` goes by the order of rows. Average gives
        float64, the others int64.
    descending
        Whether the greatest value is the first; rows of equal values keep their order.
    pct
        Whether ranks are given as parts, float64: over how many values the key has, for
        ``"dense"`` over how many distinct ones.

    Notes
    -----
    Values are ordered as by ``sort``: text by code point, both zeros one value. It needs everything
    before it gives anything; past the byte budget it sorts in files, and back again.
    """

    name: ClassVar[str] = "rank"
    method: RankMethod = "average"
    descending: bool = False
    pct: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in _METHODS:
            raise PlanError(
                f"rank: the method is {self.method!r}", hint=f"it is one of {list(_METHODS)}"
            )
        for name in ("descending", "pct"):
            if not isinstance(getattr(self, name), bool):
                raise PlanError(f"rank: {name} is true or false, not {getattr(self, name)!r}")

    @property
    def _ranking(self) -> Ranking:
        return Ranking(self.method, self.descending, self.pct)

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, order and count kept."""
        info = super().structure
        return ClauseInfo(
            Structure.ALL, columns=info.columns, adds=info.adds, keeps_count=True, coded=info.coded
        )

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return float64 or int64; refuse types without an order."""
        if not is_hashable(kind):
            raise UnsupportedTypeError(
                f"rank: values of column {column!r} of type {kind} have no order",
                hint="rank numbers, text, dates, times or durations; take a part with apply first",
                column=column,
                type=str(kind),
            )
        return pa.float64() if self.pct or self.method == "average" else pa.int64()

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return no columns: nothing is carried."""
        return pa.schema([])

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Rank the rows of a unit that is everything."""
        keyed = keyed_rows(unit, self.by)
        codes = keyed.codes if self.by else None
        results = {
            name: self._ranked(
                plain(unit.column(name)), codes, keyed.groups, self.result_type(name, kind)
            )
            for name, kind in ((name, unit.schema.type_of(name)) for name in self.inputs)
        }
        return unit.with_columns({output: results[column] for output, column in self.columns})

    def _ranked(
        self, values: pa.Array, codes: np.ndarray | None, groups: int, kind: pa.DataType
    ) -> pa.Array:
        missing = missing_rows(values)
        numbers = OrderedNumbers.of_values(values).numbers
        rows = None if missing is None else np.flatnonzero(~missing)
        if rows is not None:
            numbers = numbers[rows]
            codes = None if codes is None else codes[rows]
        # Integers are turned around without leaving their type.
        turned = numbers
        if self.descending:
            turned = -numbers if numbers.dtype.kind == "f" else ~numbers
        order = stable_order(turned)
        new_key = None
        if codes is not None:
            order = order[order_of_codes(codes[order], groups)]
            new_key = _differs(codes[order])
        new_value = _differs(numbers[order])
        del numbers, turned
        if new_key is not None:
            new_value |= new_key
        ranks = self._ranking.ranks_in_order(new_key, new_value)
        found = np.zeros(len(values), ranks.dtype)
        found[order if rows is None else rows[order]] = ranks
        return arrow_array(found, kind, mask=missing)

    # --- more than may be held --------------------------------------------------------------------

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Rank everything within the byte budget."""
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            account = workspace.account
            rows = size = 0
            buffered: list[BufferedTable] = []
            for unit in units:
                rows, size = rows + unit.num_rows, size + unit.nbytes
                buffered.append(_put(unit.table_as_read, buffer, workspace))
            needed = size + rows * (_BYTES_OF_A_KEYED_ROW if self.by else _BYTES_OF_A_ROW)
            if needed <= account.held_limit:
                with account.holding(needed):
                    pieces = [p for u in _units(buffered, buffer, schema) for p in u.pieces]
                    yield self.process(ProcessingUnit(0, schema, pieces)).with_text()
                return
            found = [
                self._outside(buffered, buffer, name, schema, workspace) for name in self.inputs
            ]
            for at, each in enumerate(_units(buffered, buffer, schema)):
                unit = each.with_text()
                for output, column in self.columns:
                    ranks = found[self.inputs.index(column)][at]
                    unit = unit.with_column(output, buffer.read(ranks).column(0))
                for ranked in found:
                    buffer.drop(ranked[at])
                yield unit

    def _outside(
        self,
        buffered: Sequence[BufferedTable],
        buffer: SpillBuffer,
        column: str,
        schema: TableSchema,
        workspace: Workspace,
    ) -> list[BufferedTable]:
        """Rank a column of tables that were put aside; put aside its ranks, a table for each."""
        kind = self.result_type(column, schema.type_of(column))
        names = [*(f"key_{at}" for at in range(len(self.by))), VALUE]
        types = [plain_type(schema.type_of(name)) for name in (*self.by, column)]
        narrow = pa.schema(list(zip(names, types, strict=True)))

        def tables() -> Iterator[pa.Table]:
            for each in buffered:
                table = buffer.read(each)
                columns = [plain(table.column(name)) for name in (*self.by, column)]
                yield pa.Table.from_arrays(columns, schema=narrow)

        share = workspace.account.held_limit // _SORTS_SHARE
        ranked = ranked_rows(tables(), narrow, self._ranking, workspace, share)
        made: list[BufferedTable] = []
        with contextlib.closing(_Line(ranked)) as line:
            for each in buffered:
                rows, ranks = line.take(each.rows)
                found = np.zeros(each.rows, kind.to_pandas_dtype())
                missing = np.ones(each.rows, np.bool_)
                found[rows], missing[rows] = ranks, False
                table = pa.table([arrow_array(found, kind, mask=missing)], names=["rank"])
                made.append(_put(table, buffer, workspace))
        return made


def _differs(values: np.ndarray) -> np.ndarray:
    """Return which values differ from the one before; the first does."""
    found = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def _units(
    buffered: Sequence[BufferedTable], buffer: SpillBuffer, schema: TableSchema
) -> Iterator[ProcessingUnit]:
    """Give tables that were put aside, which are put aside no longer, as units of the schema."""
    start = 0
    for at, each in enumerate(buffered):
        unit = unit_of_table(at, start, buffer.take(each), schema.index)
        start += unit.num_rows
        yield unit.with_pieces(unit.pieces, schema)


def _put(table: pa.Table, buffer: SpillBuffer, workspace: Workspace) -> BufferedTable:
    """Put a table aside, so that half of what may be held is left for the sorts."""
    half = workspace.account.held_limit // 2
    return buffer.put(table, to_file=buffer.held + table.nbytes > half)


_SORTS_SHARE = 4
"""Each of the two sorts of a column may hold a quarter."""

_BYTES_OF_A_ROW, _BYTES_OF_A_KEYED_ROW = 48, 128
"""What ranking a row in memory takes beside the row, about: its number, order, places; its key."""


class _Line:
    """Rows and their ranks, ascending, taken by so many rows of the table at a time."""

    def __init__(self, parts: Generator[tuple[np.ndarray, np.ndarray], None, None]) -> None:
        self._parts = parts
        self._rows: np.ndarray = np.zeros(0, np.int64)
        self._ranks: np.ndarray = np.zeros(0)
        self._start = 0

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the next rows have a rank, and these ranks."""
        stop = self._start + count
        rows, ranks = [self._rows], [self._ranks]
        while not len(rows[-1]) or rows[-1][-1] < stop:
            part = next(self._parts, None)
            if part is None:
                break
            rows.append(part[0])
            ranks.append(part[1])
        all_rows, all_ranks = np.concatenate(rows), np.concatenate(ranks)
        end = int(np.searchsorted(all_rows, stop))
        self._rows, self._ranks = all_rows[end:].copy(), all_ranks[end:].copy()
        taken = all_rows[:end] - self._start
        self._start = stop
        return taken, all_ranks[:end]

    def close(self) -> None:
        """Hold nothing more."""
        self._parts.close()

"""Stores and clauses that the tests of the Spark executor share."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import Clause, ClauseInfo, Structure, UnitFacts
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tests.strategies.tables import as_dictionary

# None of the clauses here is registered: nothing but the plan tells a worker of them, and the
# names that other tests see stay those of the package.


_NESTED = pa.list_(pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]))
_MONEY = pa.decimal128(9, 2)


def everything(rows: int, *, seed: int = 0) -> pa.Table:
    """Return a table with a time index and columns that Spark itself would refuse."""
    random = np.random.default_rng(seed)
    values = random.normal(size=rows)
    values[random.random(rows) < 0.1] = np.nan
    minutes = np.cumsum(random.integers(0, 40, rows))
    words = pa.array(random.choice(["red", "green", "blue", ""], rows))
    return pa.table(
        {
            "k": pa.array(
                [int(v) if v < 5 else None for v in random.integers(0, 6, rows)], pa.int32()
            ),
            "v": pa.array(values),
            "t": pa.array(minutes * 60_000_000, pa.timestamp("us")),
            "u": pa.array(random.integers(0, 2**64, rows, dtype=np.uint64), pa.uint64()),
            "s": words,
            "c": as_dictionary(words),
            "n": pa.array(minutes * 1_000_000_001, pa.timestamp("ns", "America/New_York")),
            "d": pa.array([decimal.Decimal(i).scaleb(-2) for i in range(rows)], _MONEY),
            "l": pa.array([[{"a": i, "b": [str(i)]}] * (i % 3) for i in range(rows)], _NESTED),
            "b": pa.array(random.random(rows) < 0.5),
            "e": pa.array([datetime.date(2020, 1, 1 + i % 28) for i in range(rows)], pa.date32()),
            "i": pa.array(np.arange(rows)),
        }
    )


def many_symbols(folder: Path) -> Store:
    """Make a store: ``a`` in many segments, ``b`` of fewer columns, ``empty``, ``one``."""
    store = open_store(str(folder / "store"))
    with options(segment_rows=7, segment_columns=4, fsync=False):
        store.write("a", everything(60), index="t")
        store.write("b", everything(23, seed=1).drop_columns(["l", "c"]), index="t")
        store.write("empty", everything(0), index="t")
        store.write("one", everything(1, seed=2), index="t")
    return store


class Whole(Clause):
    """Base of clauses that keep the schema and do nothing with a unit."""

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit


@dataclass(frozen=True)
class Pairs(Whole):
    """Everything in, but in units of two row slices, the last slices first."""

    name: ClassVar[str] = "test_pairs"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ALL, Structure.ROW_SLICE, keeps_order=False)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return TableSchema(input_schema.arrow)

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        slices: dict[tuple[int, int], list[int]] = {}
        for position, facts in enumerate(units):
            slices.setdefault((facts.unit, facts.row_range.start), []).append(position)
        last_first = list(slices.values())[::-1]
        pairs = [last_first[at : at + 2] for at in range(0, len(last_first), 2)]
        return [[position for one in pair for position in one] for pair in pairs]

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.with_pieces(unit.pieces, TableSchema(unit.schema.arrow))


@dataclass(frozen=True)
class Overlapping(Whole):
    """Hash buckets in; each piece goes to two units, and there is a unit of no piece."""

    name: ClassVar[str] = "test_overlapping"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.HASH_BUCKETED, Structure.HASH_BUCKETED)

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        groups = [[at, at + 1] for at in range(len(units) - 1)]
        return [*groups, []]


FACTS = TableSchema(
    pa.schema(
        [(name, pa.int64()) for name in ("ordinal", "rows", "first", "end", "planned", "symbol")]
        + [("bucket", pa.int64()), ("time_first", pa.int64()), ("time_last", pa.int64())]
    )
)


@dataclass(frozen=True)
class Facts(Clause):
    """One row a piece: what is known of it besides its data."""

    name: ClassVar[str] = "test_facts"
    needs: str = "row_slice"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure(self.needs), Structure.ROW_SLICE)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return FACTS

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        rows = [
            (
                unit.ordinal,
                piece.table.num_rows,
                piece.row_range.start,
                piece.row_range.end,
                piece.planned_fetches,
                piece.symbol,
                piece.bucket,
                piece.time_range and piece.time_range.first,
                piece.time_range and piece.time_range.last,
            )
            for piece in unit.pieces
        ]
        columns = list(zip(*rows, strict=True)) or [[]] * len(FACTS.names)
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return unit.replace(pa.Table.from_arrays(arrays, schema=FACTS.arrow))


@dataclass(frozen=True)
class Reversed(Whole):
    """Everything in, as a stream where the executor has one; rows come out last first."""

    name: ClassVar[str] = "test_reversed"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ALL, Structure.ROW_SLICE, keeps_order=False)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return TableSchema(input_schema.arrow)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        without_index = unit.with_pieces(unit.pieces, TableSchema(unit.schema.arrow))
        return without_index.take(np.arange(unit.num_rows)[::-1].copy())

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        for unit in reversed(list(units)):
            yield self.process(unit)


@dataclass(frozen=True)
class CountRows(Clause):
    """Everything in, one row out, also of nothing."""

    name: ClassVar[str] = "test_count_rows"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ALL, Structure.ROW_SLICE)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return TableSchema(pa.schema([("rows", pa.int64())]))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.replace(pa.table({"rows": [unit.num_rows]}))


@dataclass(frozen=True)
class RaiseAt(Whole):
    """Raise in the units that hold a value of column ``i``."""

    name: ClassVar[str] = "test_raise_at"
    values: tuple[int, ...]
    needs: str = "row_slice"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure(self.needs), Structure(self.needs))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        found = sorted(set(unit.column("i").to_pylist()) & set(self.values))
        if found:
            raise ValueError(f"unit with {found}")
        return unit


@dataclass(frozen=True)
class BreakPromise(Whole):
    """Return other columns than promised."""

    name: ClassVar[str] = "test_break_promise"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.select(unit.schema.names[:1])

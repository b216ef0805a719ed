"""What is carried, combined in buckets of keys as tasks do it: the bits that one scan gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.units.reduced import unit_of_table
from tessel.ecs import ProcessingUnit
from tessel.errors import CorruptStoreError, InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.pipeline.carrying import carries_between
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import run_between, summarise
from tessel.spark_exec.carries import few_task, scan_task, split_task
from tessel.spark_exec.chains import CARRY, chain_text, run_chain
from tessel.spark_exec.errors_wire import error_row
from tessel.spark_exec.parts import unit_rows
from tessel.spark_exec.plugins import packed_plugins
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.wire import (
    CARRY_ROWS,
    ERROR_ROWS,
    WITHHELD_ROWS,
    WireRow,
    received,
    sequence,
    wire_batch,
)

Q = QueryBuilder()
QUERIES = {
    "shift": Q.shift({"w": "v"}, 2, by="k"),
    "ahead": Q.shift({"w": "v"}, -1, by=["k", "c"]),
    "without keys": Q.shift({"w": "v"}, 1),
    "sums": Q.cum_sum({"w": "v"}, by="k"),
    "rolling": Q.rolling(3, by="c").agg(w="mean(v)"),
    "rolling time": Q.rolling("5s", by="k", center=True).agg(w="sum(v)", l="last(c)"),
    "ewm": Q.ewm(alpha=0.4, by=["c"]).agg(w="mean(v)"),
    "backward": Q.fill({"w": "v"}, "backward", by="k"),
    "linear": Q.fill({"w": "v"}, "linear", by="k"),
}
PLUGINS = packed_plugins(())


def _units(count: int, seed: int, sizes: Sequence[int]) -> list[ProcessingUnit]:
    random = np.random.default_rng(seed)
    rows = sum(sizes)
    values = pa.array(random.normal(size=rows), mask=random.random(rows) < 0.3)
    names = pa.array(["a", "b", None, "c"]).take(pa.array(random.integers(0, 4, rows)))
    times = pa.array(np.cumsum(random.integers(0, 3, rows)), pa.timestamp("s"))
    keys = pa.array(random.integers(0, count, rows), mask=random.random(rows) < 0.1)
    table = pa.table({"t": times, "k": keys, "c": names, "v": values})
    starts = np.cumsum([0, *sizes]).tolist()
    return [
        unit_of_table(number, start, table.slice(start, size), "t")
        for number, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]


def _stage(query: QueryBuilder, schema: TableSchema) -> Stage:
    (clause,) = query.clauses
    return Stage((clause,), (schema, clause.output_schema(schema)))


def _run(task: TaskFunction, rows: Sequence[WireRow]) -> list[WireRow]:
    return list(received(task(iter([wire_batch(rows)]))))


def _summary_rows(stage: Stage, units: Sequence[ProcessingUnit]) -> list[WireRow]:
    return [
        row
        for unit in units
        for row in unit_rows(unit.replace(summarise(stage, unit)), sequence(0, unit.ordinal))
    ]


def _scanned(
    stage: Stage, rows: Sequence[WireRow], buckets: int, failed: WireRow | None = None
) -> list[WireRow]:
    keys = stage.clauses[0].structure.carry_keys
    buckets = buckets if keys else 1
    parts = _run(split_task(keys, buckets, 1 << 20), rows)
    return _run(scan_task(chain_text(stage), PLUGINS, failed), parts)


@settings(max_examples=60)
@given(
    name=st.sampled_from(list(QUERIES)),
    keys=st.integers(1, 12),
    seed=st.integers(0, 1 << 30),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    buckets=st.integers(1, 5),
)
def test_buckets_give_what_one_scan_gives(
    name: str, keys: int, seed: int, sizes: list[int], buckets: int
) -> None:
    units = _units(keys, seed, sizes)
    stage = _stage(QUERIES[name], units[0].schema)
    seen = ((unit, summarise(stage, unit)) for unit in units)
    expected = [
        run_between(stage, unit, between.before, between.after).table
        for unit, between in carries_between(stage, seen)
    ]
    carried: dict[int, list[bytes]] = {}
    for row in _scanned(stage, _summary_rows(stage, units), buckets):
        assert row.rows == CARRY_ROWS
        carried.setdefault(row.seq, []).append(row.blob)
    found = [
        run_chain(CARRY, stage, unit, carried.get(sequence(0, unit.ordinal), ())).table
        for unit in units
    ]
    assert found == expected


def test_a_unit_is_told_of_its_own_keys() -> None:
    units = _units(1000, 1, [400, 3])
    stage = _stage(Q.shift({"w": "v"}, 1, by="k"), units[0].schema)
    rows = _scanned(stage, _summary_rows(stage, units), 1)
    assert sum(len(row.blob) for row in rows) < 2_000


def test_units_before_one_that_failed_have_theirs() -> None:
    units = _units(1, 1, [4] * 6)
    failed = error_row(InvalidInputError("no summary"), seq=sequence(0, 4))
    for query, first in ((Q.shift("v", 1), 4), (Q.shift("v", -1), 3)):
        stage = _stage(query, units[0].schema)
        rows = _scanned(stage, _summary_rows(stage, units[:4]), 2, failed)
        (error,) = (row for row in rows if row.rows == ERROR_ROWS)
        assert error.seq == sequence(0, first)
        assert error.blob == failed.blob
        carried = [row.seq for row in rows if row.rows == CARRY_ROWS]
        assert max(carried) == sequence(0, first - 1)


def test_a_task_sends_few_bytes_or_says_that_they_are_more() -> None:
    rows = [WireRow(0, number, 1, b"x" * 10) for number in range(3)]
    error = WireRow(0, 9, ERROR_ROWS, b"e")
    assert _run(few_task(40), [*rows, error]) == [*rows, error]
    *sent, sign = _run(few_task(20), [*rows, error])
    assert sent == [*rows[:2], error]
    assert sign.rows == WITHHELD_ROWS


@pytest.mark.parametrize("cut", [4, 20, -1])
def test_damage_is_told(cut: int) -> None:
    units = _units(3, 1, [9, 9])
    stage = _stage(QUERIES["shift"], units[0].schema)
    row = _scanned(stage, _summary_rows(stage, units), 1)[-1]
    with pytest.raises(CorruptStoreError):
        run_chain(CARRY, stage, units[1], [row.blob[:cut]])

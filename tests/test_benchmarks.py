"""The harness must see a wrong answer, adapt only what it says, and make the same table twice."""

from __future__ import annotations

import decimal
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import events, growth, interrupts, round_trips
from benchmarks.answers import canonical, difference
from benchmarks.commits import appends, opening, small
from benchmarks.commits.stores import kind_named
from benchmarks.commits.stores.base import rows
from benchmarks.encodings import Clock
from benchmarks.engines import load_engine
from benchmarks.measure import processor_milliseconds, touch
from benchmarks.workloads import WORKLOADS, Query
from benchmarks.workloads.trades import make

ORDERED = Query("q", "?", {})
BY_NAME = Query("q", "?", {}, key=("name",))


def _differ(left: dict[str, Any], right: dict[str, Any], query: Query = ORDERED) -> str | None:
    return difference(canonical(pa.table(left), query), canonical(pa.table(right), query))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([1, None], pa.int16()), pa.array([1, None], pa.int64())),
        (pa.array([1, None], pa.int64()), pa.array([1.0, None])),
        (pa.array([10], pa.int64()), pa.array([decimal.Decimal(10)], pa.decimal128(38, 0))),
        (pa.array([0.1 + 0.2, np.nan]), pa.array([0.3, None])),
        (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()),
        (pa.array(["a"]), pa.array(["a"], pa.large_string())),
        (pa.array([1], pa.timestamp("s", "UTC")), pa.array([10**9], pa.timestamp("ns", "UTC"))),
    ],
)
def test_adapted(left: pa.Array, right: pa.Array) -> None:
    assert _differ({"x": left}, {"x": right}) is None


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ([1, 2], [1, 3], "column 'x', row 1 (and 0 more): 2 against 3"),
        ([1, None], [1, 0], "column 'x', row 1"),
        ([1.0], [1.00001], "column 'x', row 0"),
        ([1.0], [None], "column 'x', row 0"),
        (["a", "b"], ["a", None], "column 'x', row 1"),
        (["1"], [1], "column 'x', row 0"),
        ([1, 2], [1], "2 rows against 1"),
        ([1, 2], [2, 1], "column 'x', row 0 (and 1 more)"),
    ],
)
def test_different(left: list[Any], right: list[Any], said: str) -> None:
    found = _differ({"x": left}, {"x": right})
    assert found is not None
    assert found.startswith(said)


def test_columns_are_compared_by_name() -> None:
    assert _differ({"x": [1]}, {"y": [1]}) == "columns ['x'] against ['y']"


def test_order_is_free_where_the_question_has_a_key() -> None:
    left, right = {"name": ["a", "b"], "n": [1, 2]}, {"name": ["b", "a"], "n": [2, 1]}
    assert _differ(left, right, BY_NAME) is None
    assert _differ(left, right, ORDERED) is not None


def test_touch_reads_values_and_slices() -> None:
    numbers = pa.table({"n": np.full(64, 1, np.int64)})
    # One byte a cache line of 8 numbers: the low byte of every eighth.
    assert touch(numbers) == 8
    assert touch(numbers.slice(32)) == 4
    assert touch(pa.table({"t": ["abc"], "d": pa.array(["x"]).dictionary_encode()})) > 0


def test_trades_are_the_same_every_time() -> None:
    table = make(5_000)
    assert table.equals(make(5_000))
    times = table["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) > 0).all()
    assert table["symbol"].null_count == 0
    assert set(table["venue"].unique().to_pylist()) == {f"VENUE{n:02d}" for n in range(12)}
    prices = table["price"].to_numpy()
    assert np.array_equal(prices, np.round(prices, 2))
    assert (table["bid"].to_numpy() < prices).all()
    assert (table["ask"].to_numpy() > prices).all()


def test_commits_are_counted_and_what_they_left_is_compared(tmp_path: Path) -> None:
    kind = kind_named("tessel")
    lines = small.measure(kind, tmp_path, symbols=5, rounds=2)
    assert [line[:2] for line in lines] == [("tessel", "write"), *[("tessel", "append")] * 2]
    # A pack of segments, one manifest, the entry; and the lookup that the first commit makes.
    assert all(3 <= int(str(line[2])) <= 10 for line in lines)
    with pytest.raises(SystemExit, match="holds 2 rows that are not the 3"):
        small.check(kind, "s", rows(0, 2), rows(0, 3))
    grown = appends.growth(tmp_path, [10, 20], [kind], most_real=0)
    assert [line[:3] for line in grown.rows] == [("tessel", 10, 3), ("tessel", 20, 3)]
    opened = opening.measure([1, 500])
    assert all(int(str(line[1])) <= opening.MOST_REQUESTS for line in opened.rows)


def test_events_are_measured_after_their_answers_were_compared() -> None:
    lines = list(events.row_lines(200, Clock(1, 0.0)))
    lines += events.store_lines(500, 1, {"one": 36_000.0})
    assert len({line.name for line in lines}) == len(lines) >= 15
    # What a process holds besides may shrink by more than 500 events take.
    assert all(line.figure > 0 for line in lines if "whole process" not in line.name)
    shown = events.table(lines, peer=True).splitlines()
    assert len(shown) == len(lines) + 1
    assert any(line.startswith("one latest_at") and "36,000" in line for line in shown)
    live = events.filled(500)
    wrong = events.answers(live, 500)
    events.check(wrong, 500)
    for name, table in wrong.items():
        spoiled = table.set_column(1, "value", pa.array(table["value"].to_numpy() + 1))
        with pytest.raises(SystemExit, match=f"{name}: another answer"):
            events.check({**wrong, name: spoiled}, 500)


def test_growth_is_measured_after_plans_and_sums_were_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    growth.main(["--smoke"])
    shown = capsys.readouterr().out
    assert "planning a date range" in shown
    assert "10,000" in shown


def test_questions_over_several_tables_have_one_answer(tmp_path: Path) -> None:
    workload = WORKLOADS["joins"]
    answers: dict[str, dict[str, pa.Table]] = {}
    for name in ("tessel", "duckdb", "polars"):
        engine, folder = load_engine(name), tmp_path / name
        folder.mkdir()
        for each in workload.tables:
            engine.write(each.make(700), folder, each)
        handles = {each.name: engine.open(folder, each) for each in workload.tables}
        answers[name] = {
            query.name: canonical(engine.to_arrow(query.answers[name](handles)), query)
            for query in workload.queries
            if name in query.answers
        }
    for query in workload.queries:
        expected = answers["tessel"][query.name]
        assert expected.num_rows
        assert any(column.null_count for column in expected.columns) or query.name != "asof-within"
        for found in (answers[name].get(query.name) for name in ("duckdb", "polars")):
            assert found is None or difference(found, expected) is None


def test_processor_time_of_a_process_is_counted_from_the_interrupt(tmp_path: Path) -> None:
    """What a process did before does not count, or the figure would say nothing of interrupts."""
    busy = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\n"
    loop = "print('stage', flush=True)\nwhile True: time.sleep(60)\n"
    scenario = interrupts.Scenario(busy + loop, spread_seconds=0.0)
    found = interrupts.interrupted(scenario, tmp_path, tmp_path, random.Random(0))
    assert found.code == -signal.SIGINT
    assert 0 <= found.processor_seconds < 1


def test_round_trips_are_counted_after_answers_were_compared() -> None:
    lines = round_trips.measured(40_000, 5, repeats=1, workers=2, delay=0.0)
    requests = {str(line["query"]): line["requests"] for line in lines}
    # Metadata of each of the segments, and all of its bytes.
    assert requests["all rows"] <= 2 * round_trips.SEGMENTS
    assert requests["filter in one segment"] < requests["filter"]
    objects, table = round_trips.far_store(400, 5)
    with pytest.raises(SystemExit, match="another answer"):
        round_trips.ask(objects, round_trips.Q, table.slice(1), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show processes below")
def test_processor_time_of_processes_below_counts() -> None:
    """A child that runs, one that has ended, and a grandchild."""
    spin = "import time\nwhile time.process_time() < 0.3: pass\n"
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}]); "
    before = processor_milliseconds()
    subprocess.run([sys.executable, "-c", spin], check=True)
    ended = processor_milliseconds()
    assert ended - before >= 250
    code = below + "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        assert processor_milliseconds() - ended >= 250
        process.stdin.close()

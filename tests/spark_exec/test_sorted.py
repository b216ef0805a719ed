"""Rows that tasks order by ranges of keys, and what tells these ranges."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.clauses.ordering import Ordering
from tessel.clauses.spill.sorting import KeyRanges
from tessel.clauses.units.reduced import unit_of_table
from tessel.ecs import ProcessingUnit
from tessel.errors import InvalidInputError
from tessel.spark_exec import SparkExecutor, barriers, flows
from tessel.spark_exec.errors_wire import error_row
from tessel.spark_exec.flows import FrameFlow
from tessel.spark_exec.parts import unit_rows
from tessel.spark_exec.routing import sample_task
from tessel.spark_exec.wire import ERROR_ROWS, WireRow, read_parts, sequence
from tessel.testing.parity import Failure, assert_parity, assert_same
from tests.clauses.orders import order_of_rows
from tests.spark_exec.queries import RaiseAt
from tests.spark_exec.test_carries import _run
from tests.strategies.tables import as_dictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Q = QueryBuilder()
ROWS = 3_000
SPECIAL = [None, float("nan"), -0.0, 0.0, float("inf"), float("-inf"), -1.5, 1e300]


def _table(rows: int, seed: int, *, spread: int) -> pa.Table:
    """Return rows of few or many keys, with every value that an order has a rule for."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, spread, rows)
    floats = [SPECIAL[n] if n < len(SPECIAL) else n / 7 for n in numbers.tolist()]
    texts = [None if n % 11 == 3 else f"é{n % 17}" for n in numbers.tolist()]
    words = pa.array(texts, pa.string())  # also where all are missing
    skewed = np.where(random.random(rows) < 0.7, 5, random.integers(-9, 9, rows))
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(0, 3, rows)), pa.timestamp("us")),
            "f": pa.array(floats, pa.float64()),
            "s": words,
            "c": as_dictionary(words),
            "w": pa.array(skewed, pa.int16()),
            "i": pa.array(np.arange(rows)),
            "j": pa.array(random.permutation(rows)),
        }
    )


# --- ranges -----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    rows=st.integers(1, 60),
    spread=st.sampled_from([1, 3, 12, 60]),
    seed=st.integers(0, 1 << 20),
    by=st.lists(st.sampled_from("tfscw"), min_size=1, max_size=3, unique=True),
    descending=st.lists(st.booleans(), min_size=3, max_size=3),
    missing=st.sampled_from(["first", "last"]),
    parts=st.integers(1, 9),
    sampled=st.integers(1, 60),
    slices=st.lists(st.integers(0, 60), max_size=6).map(sorted),
)
def test_ranges_in_their_order_are_all_rows_in_order(
    rows: int,
    spread: int,
    seed: int,
    by: list[str],
    descending: list[bool],
    missing: str,
    parts: int,
    sampled: int,
    slices: list[int],
) -> None:
    table = _table(rows, seed, spread=spread)
    unit_of_row = np.searchsorted(slices, np.arange(rows), side="right")
    ordering = Ordering(tuple(by), tuple(descending[: len(by)]), missing)  # type: ignore[arg-type]
    chosen = np.random.default_rng(seed).permutation(rows)[:sampled]  # units in any order
    sample = table.select(by).take(chosen)
    weights = np.random.default_rng(seed).integers(1, 5, sample.num_rows)
    ranges = KeyRanges.of_sample(ordering, sample, weights, unit_of_row[chosen], parts)
    assert len(ranges) <= 2 * parts + 2
    found = np.empty(rows, np.int64)
    for place in set(unit_of_row.tolist()):
        own = table.filter(unit_of_row == place)
        of_own = ranges.of_rows(own, place)
        found[unit_of_row == place] = of_own
        for piece in ranges.split(unit_of_table(3, 0, own, "t"), place).pieces:
            assert piece.bucket is not None
            in_piece = own.take(np.flatnonzero(of_own == piece.bucket))
            assert piece.table.column("i") == in_piece.column("i")
    assert 0 <= found.min() <= found.max() < len(ranges)
    in_ranges = []
    for part in range(len(ranges)):
        own = np.flatnonzero(found == part)
        order = ordering.order(table.take(own))
        in_ranges += (own if order is None else own[order]).tolist()
    assert in_ranges == order_of_rows(table, by, ordering.descending, missing)


def test_ranges_are_of_about_as_many_rows() -> None:
    random = np.random.default_rng(3)
    keys = pa.table({"x": random.lognormal(size=200_000)})
    sample = keys.slice(0, 8_000)
    ordering = Ordering(("x",), (True,))
    weights, units = np.full(8_000, 25), np.zeros(8_000, np.int64)
    found = KeyRanges.of_sample(ordering, sample, weights, units, 8).of_rows(keys, 0)
    counts = np.bincount(found)
    assert counts.max() <= 1.2 * 200_000 / 8


def test_rows_of_one_key_are_divided_by_units() -> None:
    units = np.repeat(np.arange(100), 1_000)
    keys = pa.table({"x": np.where(np.arange(100_000) % 10 < 8, 5, np.arange(100_000) % 7)})
    ordering = Ordering(("x",), (False,))
    chosen = np.arange(0, 100_000, 25)
    weights, places = np.full(len(chosen), 25), units[chosen]
    ranges = KeyRanges.of_sample(ordering, keys.take(chosen), weights, places, 8)
    found = [ranges.of_rows(keys.filter(units == unit), unit) for unit in range(100)]
    counts = np.bincount(np.concatenate(found))
    assert counts.max() <= 1.2 * 100_000 / 8  # eight tenths of the rows have one key
    assert np.count_nonzero(counts) <= 8 + 4


def test_rows_of_a_sample_count_by_their_weights() -> None:
    keys = pa.table({"x": list(range(100))})
    weights = np.where(np.arange(100) < 10, 91, 1)  # nine tenths of the rows are the first ten
    ranges = KeyRanges.of_sample(
        Ordering(("x",), (False,)), keys, weights, np.zeros(100, np.int64), 5
    )
    assert sum(each < 10 for each in ranges.bounds.column("x").to_pylist()) >= 4


# --- what tasks do ----------------------------------------------------------------------------


def _units(sizes: Sequence[int], seed: int = 0) -> list[ProcessingUnit]:
    table = _table(sum(sizes), seed, spread=40)
    starts = [0, *itertools.accumulate(sizes)]
    return [
        unit_of_table(number, start, table.slice(start, size), "t")
        for number, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]


def _sent(units: Sequence[ProcessingUnit], blob_bytes: int = 1 << 20) -> list[WireRow]:
    places = (sequence(0, unit.ordinal) for unit in units)
    return [
        row
        for unit, place in zip(units, places, strict=True)
        for row in unit_rows(unit, place, blob_bytes)
    ]


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=9),
    most=st.integers(1, 40),
)
def test_a_sample_stands_for_all_rows_at_equal_distances(sizes: list[int], most: int) -> None:
    failed = error_row(InvalidInputError("no"), seq=sequence(0, 99), bucket=2)
    units = _units(sizes)
    rows = _run(sample_task(most), [*_sent(units), failed])
    assert [row for row in rows if row.rows == ERROR_ROWS] == [failed]
    parts = list(read_parts(row for row in rows if row.rows != ERROR_ROWS))
    total = sum(sizes)
    assert len(parts) == bool(total)
    for part in parts:
        assert 0 < part.table.num_rows <= most
        places, steps = (each.to_pylist() for each in part.table.columns[-2:])
        (step,) = set(steps)
        taken = range(0, total, step)
        assert part.table.column("i").to_pylist() == list(taken)
        stops = list(itertools.accumulate(sizes))
        assert places == [sequence(0, bisect.bisect_right(stops, row)) for row in taken]
        assert total <= most or part.table.num_rows * 2 * step > total - 2 * step


# --- on Spark ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = open_store(str(tmp_path_factory.mktemp("sorted") / "store"))
    with options(segment_rows=170, fsync=False):
        made.write("many", _table(ROWS, 1, spread=2_000), index="t")
        made.write("few", _table(ROWS, 2, spread=12), index="t")
        one = _table(ROWS, 3, spread=2_000)
        made.write("one", one.set_column(5 - 1, "w", pa.array([7] * ROWS, pa.int16())), index="t")
        made.write("empty", _table(0, 0, spread=1), index="t")
    return made


@pytest.fixture
def ranged(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkExecutor:
    """An executor that divides few bytes into many ranges."""
    monkeypatch.setattr(barriers, "PARTITION_BYTES", 9_000)
    executor = SparkExecutor(spark)
    executor.gathered_bytes = 0
    return executor


def _noted_ranges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets how many ranges there are, each time."""
    noted: list[int] = []
    of_sample = KeyRanges.of_sample

    def noting(*given: object) -> KeyRanges:
        found = of_sample(*given)  # type: ignore[arg-type]
        noted.append(len(found))
        return found

    monkeypatch.setattr(KeyRanges, "of_sample", noting)
    return noted


SORTS = [
    Q.sort("f"),
    Q.sort("f", "s", descending=[True, False], missing="first"),
    Q.sort("s", "w", descending=True),
    Q.sort("c", "f").select("i", "c"),
    Q.rename({"w": "weight"}).sort("weight"),
    Q.sort("t", "f", descending=[False, True]).resample("500us").agg(a=("i", "first")),
    Q.filter("j % 3 == 0").apply("z", "f * 2").sort("z", "j", descending=True),
    Q.filter("j < 0").sort("f"),
    Q.sort("w", "s").shift({"before": "i"}).apply("d", "i - before").row_range(500, 900),
    Q.concat("few").sort("w", "f"),
    Q.distinct("s", "w").sort("w"),
    Q.then(RaiseAt((700, 2_000))).sort("f"),
    Q.sort("f").then(RaiseAt((700, 2_000))),
]


@pytest.mark.spark
@pytest.mark.parametrize("symbol", ["many", "few"])
@pytest.mark.parametrize("query", SORTS, ids=str)
def test_ranges_give_what_one_sort_gives(
    store: Store,
    symbol: str,
    query: QueryBuilder,
    ranged: SparkExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = _noted_ranges(monkeypatch)
    with options(hash_bucket_bytes=4_000):
        found = assert_parity(store, symbol, query, ranged)
    fails_before = isinstance(query.clauses[0], RaiseAt)
    assert isinstance(found, Failure) == any(isinstance(c, RaiseAt) for c in query.clauses)
    if not fails_before and query is not SORTS[7]:
        assert noted
        assert noted[0] > 3


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        Q.sort("w"),
        Q.filter("i % 5 > 0").apply("x", "w * 2").sort("w", "x", descending=True),
        Q.concat("few").sort("w"),
        Q.distinct("i", "w").sort("w"),
    ],
    ids=str,
)
def test_rows_that_are_equal_in_all_keys_are_many_ranges(
    store: Store, query: QueryBuilder, ranged: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = _noted_ranges(monkeypatch)
    monkeypatch.setattr(barriers, "PARTITION_BYTES", 2_000)
    monkeypatch.setattr(flows, "may_be_joined", lambda *_: False)  # ranges are of whole units
    with options(hash_bucket_bytes=4_000):
        found = assert_parity(store, "one", query, ranged)
    assert isinstance(found, pa.Table)
    assert noted[-1] > 6


@pytest.mark.spark
def test_few_bytes_are_one_range(
    store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = _noted_ranges(monkeypatch)
    assert isinstance(assert_parity(store, "many", SORTS[0], SparkExecutor(spark)), pa.Table)
    assert isinstance(assert_parity(store, "empty", SORTS[0], SparkExecutor(spark)), pa.Table)
    assert not noted


@pytest.mark.spark
def test_rows_that_are_written_in_order_and_read_in_batches(
    store: Store, ranged: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = _noted_ranges(monkeypatch)
    lazy = store.scan("many").sort("s", "j")
    expected = lazy.collect().to_arrow()
    batches = list(lazy.iter_batches(executor=ranged))
    assert_same(pa.Table.from_batches(batches), expected)
    assert len(batches) > 3
    with options(fsync=False):
        store.write("written", lazy, executor=ranged)
    assert_same(store.read("written").to_arrow(), expected)
    assert len(noted) == 2


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_sorts(seed: int, tmp_path: Path, ranged: SparkExecutor) -> None:
    random = np.random.default_rng(seed)
    own = open_store(str(tmp_path))
    with options(segment_rows=int(random.integers(20, 400)), fsync=False):
        own.write("x", _table(ROWS, seed, spread=int(random.choice([2, 20, 3_000]))), index="t")
    for _ in range(4):
        by = random.permutation(list("tfscwj"))[: random.integers(1, 4)].tolist()
        downwards = [bool(each) for each in random.integers(0, 2, len(by))]
        missing = str(random.choice(["first", "last"]))
        query = Q.filter(f"i % {random.integers(1, 4)} == 0").sort(
            *by, descending=downwards, missing=missing
        )
        assert isinstance(assert_parity(own, "x", query, ranged), pa.Table)


@pytest.mark.spark
def test_frame_flows_are_divided_too(
    store: Store, ranged: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    divided: list[object] = []
    after = barriers.Barriers._by_range

    def noting(self: barriers.Barriers, flow: object, *given: object) -> object:
        divided.append(flow)
        return after(self, flow, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(barriers.Barriers, "_by_range", noting)
    with options(hash_bucket_bytes=4_000):
        found = assert_parity(store, "many", Q.distinct("s", "w").sort("w", "s"), ranged)
    assert isinstance(found, pa.Table)
    assert len(divided) == 2  # distinct itself brings rows back into their order
    assert all(isinstance(each, FrameFlow) for each in divided)

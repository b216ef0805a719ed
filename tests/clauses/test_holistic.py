"""States that hold values: runs of integers by group, and queries on rows as they are stored."""

from __future__ import annotations

import importlib
import itertools
import statistics
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates import find_aggregate
from tessel.clauses.aggregates.holistic import GroupValues, HolisticAggregate, Values
from tessel.clauses.aggregates.kernels import value_runs as lists_module
from tessel.clauses.aggregates.kernels import value_runs as module
from tessel.clauses.aggregates.kernels.value_runs import (
    NumberLists,
    ValueLists,
    ValueRuns,
    has_integers,
    ordered_integers,
    placed_runs,
    values_of_integers,
)
from tessel.clauses.aggregates.reductions import ReductionSet
from tessel.clauses.values import different_values
from tessel.options import options
from tessel.pipeline.plan import Plan
from tests.clauses import test_hot_groups as hot_groups
from tests.clauses.helpers import events, stored
from tests.kernels.forced import LEVELS, in_form
from tests.strategies.tables import bits

Q = QueryBuilder()
LIMITS = np.iinfo(np.int64)


@pytest.mark.parametrize("cells", [0, 1 << 20])
@settings(max_examples=80)
@given(data=st.data())
def test_runs_are_those_of_sorted_lists(cells: int, data: st.DataObject) -> None:
    """Rows, or lists in several parts; all groups together, or some after others."""
    groups = data.draw(st.integers(1, 5))
    size = data.draw(st.sampled_from([3, 1 << 40, LIMITS.max]))
    number = st.integers(-size - (size == LIMITS.max), size)
    row = st.tuples(st.integers(0, groups - 1), number, st.integers(1, 3))
    parts = data.draw(st.lists(st.lists(row, max_size=20), min_size=1, max_size=3))
    counted = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    once, some = data.draw(st.booleans()), data.draw(st.sampled_from([5, 1 << 16]))
    rows = [
        (code, number, times if told else 1)
        for part, told in zip(parts, counted, strict=True)
        for code, number, times in part
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CELLS", cells)
        patch.setattr(module, "_CELLS_A_ROW", 0)
        patch.setattr(lists_module, "_LEAST_AT_A_TIME", some)
        if not any(counted) and data.draw(st.booleans()):
            codes, numbers = (np.array([row[at] for row in rows], np.int64) for at in range(2))
            given = [placed_runs(numbers, codes, groups)]
        else:
            lists = ValueLists(list(map(_lists, parts, counted)), groups)
            given = lists.some_at_a_time()
        first = 0
        for runs in given:
            if once or runs.times is not None or data.draw(st.booleans()):
                runs = runs.compact(once=once)
            _agree(runs, first, rows, once)
            first += len(runs.starts) - 1
    assert first == groups


def _lists(rows: list[tuple[int, int, int]], counted: bool) -> NumberLists:
    """Each row is a list by itself, and there are lists of nothing."""
    codes, numbers, times = (np.array([row[at] for row in rows], np.int64) for at in range(3))
    lengths = np.tile([1, 0], len(codes))
    return NumberLists(numbers, times if counted else None, lengths, np.repeat(codes, 2))


def _agree(runs: ValueRuns, first: int, rows: list[tuple[int, int, int]], once: bool) -> None:
    """Compare the runs of groups from ``first`` on with lists."""
    for group, different in enumerate(runs.different.tolist()):
        wanted = sorted(n for g, n, times in rows if g == first + group for _ in range(times))
        assert different == len(set(wanted))
        own = slice(*runs.starts[group : group + 2])
        if once:
            assert set(runs.numbers[own].tolist()) == set(wanted)
            continue
        assert runs.counts[group] == len(wanted)
        often = np.ones(len(runs.numbers), np.int64) if runs.times is None else runs.times
        assert sorted(np.repeat(runs.numbers[own], often[own]).tolist()) == wanted
        places = np.arange(len(wanted))
        for order in (places, places[::-1], np.roll(places, 1)):
            asked = np.full(len(wanted), group)
            assert runs.at(asked, order).tolist() == [wanted[place] for place in order]


AGGREGATES = (
    find_aggregate("median"),
    find_aggregate("quantile", q=0.3),
    find_aggregate("quantile", q=0.9, interpolation="lower"),
    find_aggregate("nunique"),
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float64": (pa.float64(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.25, None]))),
    "float32": (pa.float32(), st.floats(width=32)),
    "int64": (pa.int64(), st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "decimal": (pa.decimal128(5, 2), st.decimals(-9, 9, places=2)),
    "bool": (pa.bool_(), st.booleans()),
}


def _finished(
    aggregate: HolisticAggregate,
    columns: list[pa.ChunkedArray],
    codes: np.ndarray,
    groups: int,
    kind: pa.DataType,
) -> pa.Array:
    """Finish states where they lie."""
    held = ReductionSet(aggregate.reductions_of(kind))
    units = [held.of_columns(arrays) for arrays in zip(*(c.chunks for c in columns), strict=True)]
    states = held.merge(units, codes, groups)
    return aggregate.of_reductions(held.results(states), kind)


@pytest.mark.parametrize("name", sorted(COLUMNS))
@settings(max_examples=40)
@given(data=st.data())
def test_states_of_units_finish_as_their_values_do(name: str, data: st.DataObject) -> None:
    """Where they lie, some groups at a time, or merged before; as values in one unit."""
    kind, values = COLUMNS[name]
    groups = data.draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, groups - 1), values)
    units = data.draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=4))
    aggregate = data.draw(st.sampled_from(AGGREGATES))
    assert isinstance(aggregate, HolisticAggregate)
    rows = list(itertools.chain(*units))
    held = pa.array([value for _, value in rows], kind)
    wanted = aggregate.compute(held, np.array([code for code, _ in rows], np.int64), groups)
    states = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists_module, "_LEAST_AT_A_TIME", data.draw(st.sampled_from([4, 1 << 16])))
        for unit in units:
            if data.draw(st.booleans()):
                patch.setattr(module, "_CELLS", 0)
                patch.setattr(module, "_CELLS_A_ROW", 0)
            array = pa.array([value for _, value in unit], kind)
            own = np.array([code for code, _ in unit], np.int64)
            states.append(aggregate.partial(array, own, groups))
        columns = [pa.chunked_array(list(parts)) for parts in zip(*states, strict=True)]
        codes = np.tile(np.arange(groups), len(units))
        found = _finished(aggregate, columns, codes, groups, kind)
        merged = aggregate.merge(columns, codes, groups, kind)
        assert bits(found) == bits(wanted) == bits(aggregate.finish(merged, kind))


def test_states_of_decimals_and_of_doubles_are_one() -> None:
    prices, others = np.array([125, 250, 250, -375]), np.array([2.5, 0.1, 7.0])
    values = Values(pa.float64(), once=False)
    held = GroupValues(ValueRuns(prices, None, np.array([0, 3, 4])), pa.float64(), 2)
    units = [
        values.arrays(values.of_groups(held)),
        find_aggregate("median").partial(pa.array(others), np.array([0, 0, 1]), 2),  # type: ignore[attr-defined]
    ]
    columns = [pa.chunked_array(list(parts)) for parts in zip(*units, strict=True)]
    for name, wanted in (("median", [2.5, 1.625]), ("nunique", [3, 2])):
        aggregate = find_aggregate(name)
        assert isinstance(aggregate, HolisticAggregate)
        found = _finished(aggregate, columns, np.array([0, 1, 0, 1]), 2, pa.float64())
        assert found.to_pylist() == wanted


@settings(max_examples=50)
@given(
    values=st.lists(st.floats(allow_nan=False, width=32)),
    kind=st.sampled_from([pa.float64(), pa.float32()]),
)
def test_integers_of_floats_have_their_order(values: list[float], kind: pa.DataType) -> None:
    array = pa.array(np.array(values).astype(kind.to_pandas_dtype()))
    numbers = ordered_integers(array)
    held = array.to_numpy()
    assert np.array_equal(np.argsort(numbers, kind="stable"), np.argsort(held, kind="stable"))
    assert values_of_integers(numbers, kind).to_pylist() == array.to_pylist()


@settings(max_examples=50)
@given(values=st.lists(st.integers(0, 2**64 - 1)))
def test_unsigned_integers_keep_their_order(values: list[int]) -> None:
    numbers = ordered_integers(pa.array(values, pa.uint64()))
    assert (
        np.sort(numbers).tolist()
        == ordered_integers(pa.array(sorted(values), pa.uint64())).tolist()
    )
    assert values_of_integers(numbers, pa.uint64()).to_pylist() == values
    assert has_integers(pa.uint64())


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows go the way of many."""
    monkeypatch.setattr(lower_aggregation, "_LEAST_HOLISTIC_ROWS", 0)


# --- rows as they are stored ----------------------------------------------------------------------

ROWS = 4_000
lower_aggregation = importlib.import_module("tessel.pipeline.planner.lower_aggregation")


def _table() -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "venue": pa.array(np.array(["XNAS", "XNYS", "ARCX"])[random.integers(0, 3, ROWS)]),
            "symbol": pa.array(np.char.add("S", random.integers(0, 90, ROWS).astype(str))),
            "price": np.round(random.lognormal(5, 1, ROWS), 2),
            "raw": random.normal(size=ROWS),
            "qty": random.integers(-50, 5000, ROWS),
            "at": pa.array(np.cumsum(random.integers(0, 9, ROWS)), pa.timestamp("us")),
            "k": random.integers(0, 400, ROWS),
        }
    )


OUTPUTS: dict[str, tuple[Any, ...]] = {
    "m_price": ("price", "median"),
    "m_raw": ("raw", "median"),
    "m_qty": ("qty", "median"),
    "q_price": ("price", "quantile", 0.9),
    "low_price": ("price", "quantile", 0.31, "lower"),
    "low_symbol": ("symbol", "quantile", 0.31, "lower"),
    "n_symbol": ("symbol", "nunique"),
    "n_price": ("price", "nunique"),
    "n_raw": ("raw", "nunique"),
    "n_at": ("at", "nunique"),
    "last_at": ("at", "quantile", 1, "higher"),
    "total": ("qty", "sum"),
}


@pytest.fixture(scope="module")
def trades() -> Any:
    return stored(_table(), rows=1000, columns=20)


@pytest.mark.parametrize("keys", [(), ("venue",), ("venue", "symbol"), ("k",)], ids=str)
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("cells", [0, 1 << 18])
def test_stored_rows_answer_what_their_values_do(
    trades: Any,
    keys: tuple[str, ...],
    chosen: bool,
    cells: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a table of counts, and where rows are sorted."""
    monkeypatch.setattr(module, "_CELLS", cells)
    monkeypatch.setattr(module, "_CELLS_A_ROW", 0)
    table = _table()
    query = Q.filter("qty > 1000") if chosen else Q
    if chosen:
        table = table.filter(pc.greater(table["qty"], 1000))
    query = query.groupby(*keys, sort=False) if keys else query
    with events("clause.process") as seen:
        found = trades.read("x", query=query.agg(**OUTPUTS)).to_arrow()
    # Values of few rows a group are grouped as such; sums are not.
    told = [each.attributes["columns"] for each in seen if each.attributes.get("stored")]
    assert told
    are_stored = keys in [(), ("venue",)]
    assert any(columns["price"] != "values" for columns in told) is are_stored
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(tuple(row[key] for key in keys), []).append(row)
    assert [tuple(row[key] for key in keys) for row in found.to_pylist()] == list(rows)
    for row, own in zip(found.to_pylist(), rows.values(), strict=True):
        for name in ("price", "raw", "qty"):
            assert row[f"m_{name}"] == pytest.approx(
                statistics.median([each[name] for each in own]), rel=1e-15
            )
        assert row["n_symbol"] == len({each["symbol"] for each in own})
        assert row["n_price"] == len({each["price"] for each in own})
        assert row["n_raw"] == len({each["raw"] for each in own})
        assert row["n_at"] == len({each["at"] for each in own})
        assert row["last_at"] == max(each["at"] for each in own)
        assert row["total"] == sum(each["qty"] for each in own)
        for name in ("price", "symbol"):
            ordered = sorted(each[name] for each in own)
            assert row[f"low_{name}"] == ordered[31 * (len(own) - 1) // 100]


def test_duckdb_agrees(trades: Any) -> None:
    query = Q.groupby("venue").agg(
        m=("price", "median"), q=("price", "quantile", 0.9), n=("symbol", "nunique")
    )
    found = trades.read("x", query=query).to_arrow()
    t = _table()
    wanted = duckdb.sql(
        "select venue, median(price) m, quantile_cont(price, 0.9) q, count(distinct symbol) n "
        "from t group by venue order by venue"
    ).to_arrow_table()
    assert t.num_rows == ROWS
    assert found["venue"].to_pylist() == wanted["venue"].to_pylist()
    assert found["n"].to_pylist() == wanted["n"].to_pylist()
    for name in ("m", "q"):
        assert np.allclose(found[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-12)


def test_units_with_decimals_and_without_join() -> None:
    prices = [*([1.25, 2.5, -3.75] * 200), *np.random.default_rng(1).normal(size=600).tolist()]
    store = stored({"k": [1, 2] * 600, "p": prices}, rows=600, columns=20)
    found = store.read("x", query=Q.groupby("k").agg(m=("p", "median"), n=("p", "nunique")))
    for row in found.to_arrow().to_pylist():
        own = prices[row["k"] - 1 :: 2]
        assert row["m"] == statistics.median(own)
        assert row["n"] == len(set(own))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_gives_the_same_bytes(trades: Any, level: str) -> None:
    query = Q.filter("qty > 100").apply("wide", "raw + 1").groupby("venue")
    query = query.agg(**OUTPUTS, m_wide=("wide", "median"))
    wanted = trades.read("x", query=query).to_arrow()
    with in_form(level):
        assert trades.read("x", query=query).to_arrow().equals(wanted)


@pytest.mark.parametrize("query", hot_groups.QUERIES, ids=str)
def test_states_of_a_hot_group_stay_in_the_budget(query: QueryBuilder) -> None:
    """States that are more than may be held are sorted outside of memory, to the same bytes."""
    random = np.random.default_rng(11)
    keys = random.integers(0, 40, 20_000)
    keys[random.random(20_000) < 0.9] = 7
    values = random.normal(size=20_000)
    values[::13] = np.nan
    columns = {"k": keys, "v": values, "n": random.integers(0, 5000, 20_000)}
    store = stored(columns, rows=400, columns=9)
    expected = store.read("x", query=query).to_arrow()
    with options(workers=2, live_bytes=120_000, inline_bytes=0), events("memory.alive") as alive:
        found = store.read("x", query=query).to_arrow()
    assert found.equals(expected)
    assert max(event.attributes["bytes"] for event in alive) <= 120_000
    assert alive[-1].attributes["bytes"] == 0


@pytest.mark.parametrize(("less", "way"), [(0, "partial_aggregation"), (1, "partition")])
def test_values_are_not_brought_together_past_what_an_executor_takes(less: int, way: str) -> None:
    """States that hold values are as many bytes as these; past a bound they go by buckets."""

    class Taking:
        name = "taking"
        slots = 2
        gathered_bytes = 8 * 2 * ROWS - less

        def run(self, plan: Plan) -> Iterator[pa.Table]:
            found.extend(clause.name for stage in plan.stages for clause in stage.clauses)
            return iter(())

    found: list[str] = []
    query = Q.groupby("venue").agg(p=("price", "median"), q=("price", "nunique"))
    stored(_table(), rows=500).read("x", query=query, executor=Taking())
    assert found[0] == way


def test_different_values_are_counted_once_after_they_were_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As of very many values, of which few repeat: they are not written each once.
    monkeypatch.setattr(module, "_CELLS", 1)
    monkeypatch.setattr(module, "_MOST_CELLS", 1)
    drawn = np.random.default_rng(1).integers(0, 60_000, 20_000)
    codes, entries = different_values(pa.array(drawn).cast(pa.string()))
    values = Values(pa.string(), once=True)
    runs = module.placed_runs(codes, np.zeros(len(codes), np.int64), 1)
    state = values.of_groups(GroupValues(runs, pa.string(), entries=entries))
    read = values.state(values.arrays(state))
    for each in (state, read, values.compacted(state), values.compacted(read)):
        assert [held.runs.different.tolist() for held in each.some_at_a_time()] == [[len(entries)]]

"""The pipeline: early stops, loads counted, errors named, promises held, stages cut."""

from __future__ import annotations

import datetime as dt
import itertools
import threading

import pyarrow as pa
import pytest

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import QueryBuilder, Structure
from tessel.errors import ClauseFailedError, SchemaPromiseError
from tessel.options import options
from tests.clauses.helpers import answer, events, stored

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)


def _numbers(rows: int = 20, cut: int = 2, columns: int = 1):  # type: ignore[no-untyped-def]
    times = [START + dt.timedelta(hours=n) for n in range(rows)]
    return stored(
        {"t": pa.array(times, pa.timestamp("us")), "n": list(range(rows)), "m": list(range(rows))},
        index="t",
        rows=cut,
        columns=columns,
    )


def _reads(query: QueryBuilder, *, workers: int = 1, rows: int = 20) -> int:
    store = _numbers(rows)
    with options(workers=workers, inline_bytes=0), events("segment.read") as found:
        store.read("x", query=query)
    return len(found)


# --- early stops and loads ------------------------------------------------------------------------


def test_head_after_filter_stops_the_reading() -> None:
    # Rows 3, 5 and 7 are the first three odd ones past 1: in slices 1, 2 and 3, of which those of
    # the last two are gathered together, once from the segments of each column.
    query = Q.filter("n % 2 == 1 and n > 1").select("n", "m").head(3)
    assert _reads(query) == 2 + 2
    # Threads read ahead by at most two tasks each.
    assert _reads(query, workers=2, rows=200) <= (3 + 2 * 2) * 2


def test_nothing_is_read_for_no_rows() -> None:
    assert _reads(Q.filter("n % 2 == 1").head(0)) == 0
    assert _reads(Q.head(0)) == 0
    assert _reads(Q.filter("n > 1000")) == 0


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        (Q.head(3), 2 * 3),
        (Q.tail(1), 3),
        (Q.row_range(5, 6), 3),
        (Q.row_range(-1, None).select("n"), 1),
        (Q.select("m").head(2), 1),
        (Q.apply("n", "m").head(2), 2),
        (Q.groupby("n").agg(s=("m", "sum")), 0),  # also of two column slices
        (Q.select("n", "m").groupby("n").agg(s="size"), 0),  # counted as it is stored
        (Q.drop("m").agg(s=("n", "median")), 10),
        (Q.date_range("2021-01-01T04", "2021-01-01T05").select("n"), 1),
        (Q.date_range("2021-01-01T05", "2021-01-01T05").select("n"), 1 + 1),
    ],
    ids=str,
)
def test_only_what_is_needed_is_read(query: QueryBuilder, reads: int) -> None:
    assert _reads(query) == reads


@pytest.mark.parametrize("workers", [1, 4])
def test_a_segment_that_two_units_want_is_read_once(workers: int) -> None:
    store = _numbers(rows=30, cut=4, columns=2)
    query = Q.resample("3h").agg(o=("n", "median"))
    plan = store.scan("x").then(*query.clauses).plan()
    source = plan.inputs[0]
    wanted = list(itertools.chain.from_iterable(source.units))  # type: ignore[union-attr]
    assert len(wanted) > len(set(wanted)), "the case must have segments that units share"
    with options(workers=workers, inline_bytes=0), events("segment.read") as found:
        store.read("x", query=query)
    assert len(found) == len(set(wanted))


@pytest.mark.parametrize(
    ("query", "selects"),
    [
        (Q.select("n", "m"), False),
        (Q.filter("n > 5"), True),
        (Q.cast({"n": "int64"}).rename({"m": "o"}).filter("n > 5").cast({"n": "int32"}), True),
        (Q.cum_sum("n").filter("n > 5"), False),
        (Q.cast({"n": "int64"}), False),
    ],
    ids=str,
)
def test_units_are_small_only_where_whole_columns_are_read(
    query: QueryBuilder, selects: bool
) -> None:
    numbers = pa.array(range(1 << 18), pa.int32())
    store = stored({"n": numbers, "m": numbers}, rows=1 << 18)
    with options(live_bytes=1 << 20, workers=1):
        (source,) = store.scan("x").then(*query.clauses).plan().inputs
    assert (len(source.units) == 1) == selects  # type: ignore[union-attr]


# --- structures -----------------------------------------------------------------------------------


def test_every_structure_is_used() -> None:
    store = _numbers()
    store.write("y", pa.table({"n": [1]}))
    queries = {
        Structure.ROW_SLICE: Q.filter("n > 1"),
        Structure.TIME_BUCKETED: Q.resample("3h").agg(o=("n", "median")),
        Structure.HASH_BUCKETED: Q.groupby("n").agg(o=("m", "nunique")),
        Structure.ALL: Q.filter("n > 2").head(2),
        Structure.MULTI_SYMBOL: Q.concat("y"),
    }
    for structure, query in queries.items():
        stages = store.scan("x").then(*query.clauses).plan().stages
        assert structure in [stage.input for stage in stages]
        answer(store, query)


def test_a_barrier_lies_where_structures_differ() -> None:
    store = _numbers()

    def stages(query: QueryBuilder) -> list[list[str]]:
        plan = store.scan("x").then(*query.clauses).plan()
        return [[clause.name for clause in stage.clauses] for stage in plan.stages]

    assert stages(Q.filter("n > 2").apply("a", "n").select("a")) == [["filter", "apply", "select"]]
    assert stages(Q.filter("n > 2").head(2).filter("n > 3")) == [["filter"], ["head"], ["filter"]]
    assert stages(Q.head(2)) == [[]]
    median = Q.resample("3h").agg(n=("n", "median"))
    assert stages(median.resample("6h").agg(n=("n", "median"))) == [["resample"], ["resample"]]


# --- clauses of others ----------------------------------------------------------------------------


def test_a_clause_of_ones_own_as_verb_and_by_then() -> None:
    from tests.clauses.custom import DropNegative

    store = stored({"v": [1, -1, 2, None, -3]})
    for query in (Q.drop_negative("v"), Q.then(DropNegative("v")), Q.drop_negative(column="v")):
        assert answer(store, query).column("v").to_pylist() == [1, 2]


def test_a_failing_clause_is_named() -> None:
    store = stored({"v": [1, 2, 3, 4]})
    for workers in (1, 3):
        with options(workers=workers, inline_bytes=0), pytest.raises(ClauseFailedError) as caught:
            store.read("x", query=Q.fails_above("v", 2))
        error = caught.value
        assert "fails_above" in str(error)
        assert "KeyError" in error.message
        assert isinstance(error.__cause__, KeyError)
        assert error.context["symbol"] == "'x' (version 1)"
        assert error.context["clause"] == "fails_above(column='v', limit=2)"


def test_the_first_error_in_order_wins() -> None:
    store = stored({"v": list(range(40))})
    for workers in (1, 4):
        with options(workers=workers, inline_bytes=0), pytest.raises(ClauseFailedError) as caught:
            store.read("x", query=Q.slow("v").fails_above("v", 9))
        assert "value 10" in caught.value.message


@pytest.mark.parametrize("how", ["type", "extra", "order", "data", "table"])
def test_a_broken_promise_is_named(how: str) -> None:
    store = stored({"v": [1, 2], "w": [1, 2]}, columns=1)
    with pytest.raises(SchemaPromiseError, match="breaks_promise"):
        store.read("x", query=Q.breaks_promise("v", how))


def test_null_among_categories_is_a_missing_value() -> None:
    store = stored({"v": list(range(4))}, rows=4)
    categories = [("a", 2), ("b", 0), ("b", 3), (None, 1)]
    for query in (Q.sort("k", "v"), Q.distinct("k", "v").sort("k", "v"), Q.top_k(4, by="k")):
        found = answer(store, Q.odd_categories("k").then(*query.clauses))
        rows = zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True)
        assert sorted(rows, key=lambda row: (row[0] is None, row)) == categories
    groups = answer(store, Q.odd_categories("k").groupby("k", drop_missing=False).agg(n="size"))
    assert groups.to_pylist() == [{"k": k, "n": n} for k, n in (("a", 1), ("b", 2), (None, 1))]


def test_streams_are_held_to_the_same() -> None:
    store = stored({"v": list(range(9))})
    for query in (Q.every_other("v"), Q.filter("v >= 0").every_other("v")):
        assert answer(store, query).column("v").to_pylist() == [0, 2, 4, 6, 8]
    with pytest.raises(ClauseFailedError, match="'every_other' raised KeyError"):
        store.read("x", query=Q.filter("v >= 0").every_other("v", "raises"))
    with pytest.raises(SchemaPromiseError, match="every_other"):
        store.read("x", query=Q.filter("v >= 0").every_other("v", "lies"))


# --- cancellation ---------------------------------------------------------------------------------


def test_closing_the_batches_leaves_nothing_busy() -> None:
    store = stored({"v": list(range(400))})
    with options(workers=3, inline_bytes=0), events("clause.process") as found:
        batches = store.scan("x").slow("v").iter_batches()
        assert next(batches).num_rows == 2
        batches.close()
        done = len(found)
        assert done <= 1 + 2 * 3
        assert not [t for t in threading.enumerate() if t.name.startswith("tessel-pool")]
        assert len(found) == done


def test_batches_are_the_table() -> None:
    store = stored({"v": list(range(50))})
    query = Q.filter("v % 3 == 0").apply("w", "v * 2")
    batches = list(store.scan("x").then(*query.clauses).iter_batches())
    whole = store.read("x", query=query).to_arrow().replace_schema_metadata()
    assert pa.Table.from_batches(batches) == whole

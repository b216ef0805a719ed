"""A clause that fails names the rows of its unit and their segment, wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel import open as open_store
from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.errors import ClauseFailedError, IntegerOverflowError, TesselError
from tessel.options import options
from tessel.pipeline.executor import Executor
from tests.clauses.custom import FailsAbove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, IN_SEGMENT = 40, 5
Q = QueryBuilder()


@dataclass(frozen=True)
class Case:
    """A query that fails, and the rows that its error names; None where they are of no segment."""

    query: QueryBuilder
    error: type[TesselError]
    rows: tuple[int, int] | None


CASES = {
    "a clause of one's own": Case(Q.then(FailsAbove("v", 22)), ClauseFailedError, (20, 25)),
    "behind a filter of few rows": Case(
        Q.filter("v % 7 == 2").then(FailsAbove("v", 22)), ClauseFailedError, (20, 25)
    ),
    "apply": Case(Q.apply("x", "big + 1"), IntegerOverflowError, (20, 25)),
    "apply on few rows": Case(
        Q.filter("v > 22 and v < 31").apply("x", "big + 1"), IntegerOverflowError, (20, 25)
    ),
    "a filter": Case(Q.filter("big * 2 > 7"), IntegerOverflowError, (20, 25)),
    "a carry": Case(Q.shift({"w": "v"}, 1).apply("x", "big + 1"), IntegerOverflowError, (20, 25)),
    "time buckets": Case(
        Q.resample("1D").agg(x=("big", "sum"), n=("v", "median")), IntegerOverflowError, (0, 40)
    ),
    "the second symbol": Case(
        Q.head(3).concat(SubQuery("s", None, (FailsAbove("v", 22),))), ClauseFailedError, (20, 25)
    ),
    "behind a limit": Case(
        Q.filter("v > 2").tail(20).then(FailsAbove("v", 22)), ClauseFailedError, None
    ),
    "behind groups": Case(
        Q.groupby("k").agg(v=("v", "max")).then(FailsAbove("v", 22)), ClauseFailedError, None
    ),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    most = 2**63 - 1
    values = range(ROWS)
    table = pa.table(
        {
            "t": pa.array([at * 600 for at in values], pa.timestamp("s")),
            "v": pa.array(values, pa.int64()),
            "k": pa.array([at % 4 for at in values]),
            "big": pa.array([most if at in (23, 31) else at for at in values], pa.int64()),
        }
    )
    store = open_store(tmp_path / "store")
    with options(segment_rows=IN_SEGMENT):
        store.write("s", table, index="t")
    return store


def failure(store: Store, case: Case, executor: Executor | str) -> TesselError:
    """Return the error of a query, which names the rows and the segment that are expected."""
    with pytest.raises(case.error) as caught:
        store.read("s", query=case.query, executor=executor)
    error = caught.value
    assert type(error) is case.error
    if case.rows is None:
        assert "rows" not in error.context
        return error
    start, stop = case.rows
    index = store.view("s").index()
    sources = map(index.source, range(len(index)))
    held = list(
        dict.fromkeys(each.key.object for each in sources if start <= each.row_start < stop)
    )
    assert (error.attributes["row_start"], error.attributes["row_stop"]) == (start, stop)
    assert error.attributes["segments"] == held[:4]
    assert f"  in rows: {start} to {stop - 1}\n" in str(error)
    more = f" and {len(held) - 4} more" if len(held) > 4 else ""
    assert f"  in segment: {', '.join(held[:4])}{more}" in str(error)
    return error


@pytest.mark.parametrize("name", CASES)
def test_it_names_rows_and_segment(store: Store, name: str) -> None:
    told = []
    for workers in (1, 3):
        with options(workers=workers, inline_bytes=0):
            told.append(failure(store, CASES[name], "local").to_json())
    assert told[0] == told[1]


@pytest.mark.spark
def test_it_names_rows_and_segment_on_spark(store: Store, spark: SparkSession) -> None:
    from tessel.spark_exec import SparkExecutor

    for name, case in CASES.items():
        found = failure(store, case, SparkExecutor(spark)).to_json()
        assert found == failure(store, case, "local").to_json(), name

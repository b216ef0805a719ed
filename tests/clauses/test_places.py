"""A clause of one's own gives one answer wherever it stands in a query, on any segments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel import open as open_store
from tessel.api import Store
from tessel.clauses import Clause, QueryBuilder, Structure
from tessel.expression import col
from tessel.options import options
from tessel.pipeline.executor import Executor
from tests.clauses.custom import (
    DropNegative,
    EveryOther,
    FirstOfEach,
    LastOfSpan,
    Passes,
    PassesStream,
    PreviousDiffers,
    StreamOfFirsts,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40
MINUTE = 60_000_000
TABLE = pa.table(
    {
        "t": pa.array([at * 17 * MINUTE for at in range(ROWS)], pa.timestamp("us")),
        "v": pa.array([at % 7 - 3 for at in range(ROWS)], pa.int64()),
        "k": pa.array(["a", "b", "b", "c", None] * (ROWS // 5)),
    }
)
STRUCTURES = tuple(structure.value for structure in Structure)
CLAUSES: dict[str, Clause] = {
    "row slices": DropNegative("v"),
    "several symbols": Passes("multi_symbol"),
    "everything": PreviousDiffers("k"),
    "a stream of everything": EveryOther("v"),
    "hash buckets": FirstOfEach(),
    "a stream of hash buckets": StreamOfFirsts(),
    **{
        f"{needs}, grouped its own way": LastOfSpan(needs)
        for needs in ("time_bucketed", "hash_bucketed", "all")
    },
}
Q = QueryBuilder()
ALWAYS = col("v").is_missing() | ~col("v").is_missing()
PLACES: dict[str, QueryBuilder] = {
    "first": Q,
    "behind a filter": Q.filter(ALWAYS),
    "behind new columns": Q.rename({"v": "w"}).rename({"w": "v"}).cast({"v": "int64"}),
    "behind a limit": Q.filter(ALWAYS).head(ROWS),
    "behind rows of the index": Q.row_range(0, ROWS),
    "behind dates": Q.date_range("1970", "1971"),
    "behind a merge": Q.merge(on="t"),
    **{
        f"behind {kind.name} of {needs} that leave {leaves}": Q.then(kind(needs, leaves))
        for kind in (Passes, PassesStream)
        for needs in STRUCTURES
        for leaves in sorted({needs, "row_slice"})
    },
}

PLACES_ON_SPARK = [
    "first",
    "behind a filter",
    "behind a limit",
    *(f"behind passes of {needs} that leave {needs}" for needs in STRUCTURES),
]


def expected(clause: Clause) -> pa.Table:
    """Return the answer by a walk over all rows."""
    kept: list[int] = []
    seen: set[object] = set()
    rows = TABLE.to_pylist()
    for at, row in enumerate(rows):
        if isinstance(clause, DropNegative):
            keep = row["v"] >= 0
        elif isinstance(clause, PreviousDiffers):
            keep = at == 0 or row["k"] != rows[at - 1]["k"]
        elif isinstance(clause, EveryOther):
            keep = at % 2 == 0
        elif isinstance(clause, FirstOfEach):
            keep = row["k"] not in seen
            seen.add(row["k"])
        elif isinstance(clause, LastOfSpan):
            hours = [at * 17 // 60, (at + 1) * 17 // 60]
            keep = at + 1 == ROWS or hours[0] != hours[1]
        else:
            keep = True
        if keep:
            kept.append(at)
    return TABLE.take(kept)


def stored(uri: str, rows: int, columns: int) -> Store:
    store = open_store(uri)
    with options(segment_rows=rows, segment_columns=columns):
        store.write("s", TABLE, index="t")
    return store


def check(
    store: Store, clause: Clause, executor: Executor | str, places: Iterable[str] = PLACES
) -> None:
    answer = expected(clause)
    for place in places:
        query = PLACES[place].then(clause)
        found = store.read("s", query=query, executor=executor).to_arrow()
        assert found.to_pylist() == answer.to_pylist(), place


@pytest.mark.parametrize("cut", [(1, 256), (3, 2), (ROWS, 256)], ids=str)
@pytest.mark.parametrize("name", CLAUSES)
def test_one_answer_at_every_place(name: str, cut: tuple[int, int]) -> None:
    store = stored(f"memory://places-{name}-{cut}", *cut)
    with options(inline_bytes=0):
        check(store, CLAUSES[name], "local")


@pytest.mark.spark
@pytest.mark.parametrize("name", CLAUSES)
def test_one_answer_at_every_place_on_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    from tessel.spark_exec import SparkExecutor

    store = stored(f"{tmp_path}/store", 7, 2)
    check(store, CLAUSES[name], SparkExecutor(spark), PLACES_ON_SPARK)

"""The data source ``tessel`` gives streams: the rows that come to a symbol, each once, in order."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import InvalidInputError, NotAStoreError, SnapshotExpiredError, TesselError
from tessel.spark_exec import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tessel.spark_exec.source.streams import SymbolStreamReader

pytestmark = pytest.mark.spark

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streamed")


@pytest.fixture
def store(folder: Path) -> ts.Store:
    return ts.open(str(folder / str(next(_numbers))))


def reader_of(store: ts.Store, **options: Any) -> SymbolStreamReader:
    """Return what Spark has in its process for the driver's side of a stream."""
    from tessel.spark_exec.source.registration import TesselSource

    asked = {"store": store.uri, "symbol": "x", **{k: str(v) for k, v in options.items()}}
    source = TesselSource(asked)
    reader: Any = source.streamReader(source.schema())
    return reader  # type: ignore[no-any-return]


class Driven:
    """A stream that is driven as Spark drives it, without Spark; offsets are its checkpoint."""

    def __init__(self, store: ts.Store, **options: Any) -> None:
        self.store, self.options = store, options
        self.reader = reader_of(store, **options)
        self.offset: dict[str, Any] = self.reader.initialOffset()
        self.open_batch: dict[str, Any] | None = None

    def restart(self) -> None:
        """Go on in another process; a batch that was under way is run again."""
        self.reader.stop()
        self.reader = reader_of(self.store, **self.options)
        if self.offset["version"] == 0:
            self.offset = self.reader.initialOffset()

    def batch(self, *, lost: bool = False) -> list[int] | None:
        """Return the rows of the next batch; None where there is none."""
        limit = self.reader.getDefaultReadLimit()
        end = self.open_batch or self.reader.latestOffset(self.offset, limit)
        if end == self.offset:
            return None
        parts = self.reader.partitions(self.offset, end)
        rows = [row for part in parts for row in _rows(self.reader.read(part))]
        if lost:
            self.open_batch = end
            return []
        self.open_batch, self.offset = None, end
        self.reader.commit(end)
        return rows

    def batches(self) -> list[list[int]]:
        return list(iter(self.batch, None))


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column("t").to_pylist()


def frame(start: int, stop: int) -> dict[str, Any]:
    return {"t": list(range(start, stop)), "v": [0.5] * (stop - start)}


@settings(max_examples=30)
@given(
    data=st.data(),
    steps=st.lists(st.sampled_from("aaaabbbcrln"), max_size=25),
    max_versions=st.none() | st.integers(1, 3),
    max_bytes=st.none() | st.sampled_from([1, 200, 1_000]),
)
def test_every_row_comes_once_and_in_order(
    data: st.DataObject,
    steps: list[str],
    max_versions: int | None,
    max_bytes: int | None,
    folder: Path,
) -> None:
    store = ts.open(str(folder / str(next(_numbers))))
    limits = {"max_versions_per_trigger": max_versions, "max_bytes_per_trigger": max_bytes}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    with ts.options(segment_rows=4, fsync=False):
        store.write("x", frame(0, 9), index="t")
        begin = data.draw(st.none() | st.just(1))
        stream = Driven(store, **given, **({} if begin is None else {"starting_version": 1}))
        found: list[int] = []
        total = 9
        for step in steps:
            match step:
                case "a":  # rows are added
                    more = data.draw(st.integers(1, 12))
                    store.append("x", frame(total, total + more))
                    total += more
                case "b":
                    found += stream.batch() or []
                case "l":  # a batch is read, and its answer lost
                    stream.batch(lost=True)
                case "c":
                    store.compact("x")
                case "r":
                    stream.restart()
                case "n":
                    store.set_metadata("x", {"n": total})
        # A batch that was lost comes again, also where it was of no rows.
        again = stream.open_batch is not None
        rest = stream.batches()
        assert all(rest[again:-1])  # the last one may bring nothing: what was not rows is passed
    found += [row for batch in rest for row in batch]
    assert found == store.read("x").to_arrow()["t"].to_pylist()[0 if begin is None else 9 :]
    assert stream.batch() is None


def test_a_big_commit_comes_in_several_batches(store: ts.Store) -> None:
    with ts.options(segment_rows=100):
        store.write("x", frame(0, 1_000), index="t")
    stream = Driven(store, max_bytes_per_trigger=1_000)
    batches = stream.batches()
    assert len(batches) > 3
    assert [row for batch in batches for row in batch] == list(range(1_000))
    # A trigger that takes all that is there takes all.
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = reader_of(store, max_bytes_per_trigger=1)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["rows"] == 1_000


def test_so_many_versions_a_trigger(store: ts.Store) -> None:
    store.write("x", frame(0, 1), index="t")
    stream = Driven(store, max_versions_per_trigger=2, starting_version=1)
    for number in range(1, 6):
        store.append("x", frame(number, number + 1))
        store.write("other", {"n": [number]})
    assert stream.batches() == [[1, 2], [3, 4], [5]]


def test_an_edit_is_an_error_after_what_came_before_it(store: ts.Store) -> None:
    store.write("x", frame(0, 3), index="t")
    stream = Driven(store)
    assert stream.batch() == [0, 1, 2]
    store.append("x", frame(3, 5))
    store.delete_rows("x", rows=(0, 1))
    store.append("x", frame(5, 6))
    assert stream.batch() == [3, 4]
    with pytest.raises(InvalidInputError, match=r"version 3 changed(.|\n)*delete rows(.|\n)*skip"):
        stream.batch()


def test_edits_are_skipped_with_the_rows_that_they_bring(store: ts.Store) -> None:
    store.write("x", frame(0, 3), index="t")
    stream = Driven(store, on_edit="skip")
    assert stream.batch() == [0, 1, 2]
    store.append("x", frame(3, 5))
    store.update("x", {"t": [1, 1, 1], "v": [0.0] * 3})
    assert stream.batches() == [[3, 4]]
    store.append("x", frame(5, 6))
    store.write("x", frame(10, 12), index="t")
    store.append("x", frame(12, 13))
    assert stream.batch() == [5, 12]
    stream.restart()
    assert stream.batch() is None


def test_what_has_expired(store: ts.Store) -> None:
    store.write("x", frame(0, 1), index="t")
    stream = Driven(store)
    assert stream.batch() == [0]
    for number in range(1, 5):
        store.append("x", frame(number, number + 1))
    store.expire(4, dry_run=False)
    with pytest.raises(SnapshotExpiredError, match=r"version 4 is the oldest") as caught:
        stream.batch()
    assert caught.value.attributes["oldest"] == 4
    with pytest.raises(SnapshotExpiredError, match="versions 4 to"):
        Driven(store, starting_version=2)
    assert Driven(store, starting_version=4).batches() == [[4]]


@pytest.mark.parametrize("what", ["compact", "metadata", "column", "skipped"])
def test_what_brought_no_rows_may_expire(store: ts.Store, what: str) -> None:
    with ts.options(segment_rows=2):
        store.write("x", frame(0, 3), index="t")
        store.append("x", frame(3, 4))
    stream = Driven(store, on_edit="skip")
    assert stream.batch() == [0, 1, 2, 3]
    match what:
        case "compact":
            store.compact("x")
        case "metadata":
            store.set_metadata("x", {"n": 1})
        case "column":
            store.add_column("x", "w", 1)
        case _:
            store.delete_rows("x", rows=(0, 1))
    assert stream.batches() == [[]]
    stream.restart()
    for number in range(3):
        store.write("other", {"n": [number]})
    store.expire(store.newest, dry_run=False)
    store.append("x", {**frame(4, 5), **({"w": [1]} if what == "column" else {})})
    with pytest.raises(SnapshotExpiredError):
        Driven(store, starting_version=1)
    assert stream.batches() == [[4]]


def test_a_lease_keeps_what_a_batch_reads(store: ts.Store) -> None:
    with ts.options(segment_rows=2):
        store.write("x", frame(0, 6), index="t")
    reader = reader_of(store)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    store.write("x", frame(9, 10), index="t")
    store.expire(store.newest, dry_run=False)
    store.gc(minimum_age=dt.timedelta(0), dry_run=False)
    assert [row for part in parts for row in _rows(reader.read(part))] == list(range(6))
    reader.commit(end)
    with pytest.raises(TesselError):
        reader_of(store).partitions(start, end)


def test_columns_that_come_later_are_not_shown(store: ts.Store) -> None:
    store.write("x", frame(0, 2), index="t")
    stream = Driven(store, columns="t", query="t != 1")
    store.add_column("x", "w", 1)
    store.append("x", {**frame(2, 4), "w": [1, 2]})
    assert stream.batches() == [[0, 2, 3]]
    store.drop_column("x", "v")
    stream.restart()
    store.append("x", {"t": [4], "w": [1]})
    assert stream.batches() == [[4]]


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"version": 1}, InvalidInputError),
        ({"store": "s", "version": -1, "rows": 0}, InvalidInputError),
        ({"store": "s", "version": 1, "rows": "2"}, InvalidInputError),
        ({"store": "s", "version": 1, "rows": 0, "more": 1}, InvalidInputError),
        ([1], InvalidInputError),
        ({"store": "another", "version": 1, "rows": 0}, NotAStoreError),
    ],
)
def test_offsets_are_checked(store: ts.Store, told: Any, kind: type[Exception]) -> None:
    store.write("x", frame(0, 2), index="t")
    reader = reader_of(store)
    with pytest.raises(kind):
        reader.latestOffset(told, reader.getDefaultReadLimit())
    beyond = {"store": store.id, "version": 1, "rows": 3}
    with pytest.raises(InvalidInputError, match="had 2 rows at version 1, and not 3"):
        reader.latestOffset(beyond, reader.getDefaultReadLimit())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starting_versions": 1}, r"no option 'starting_versions'(.|\n)*starting_version"),
        ({"as_of": 1}, "no option 'as_of'"),
        ({"on_edit": "skipp"}, r"'skipp'(.|\n)*skip"),
        ({"starting_version": 0}, "whole number from 1 on"),
        ({"starting_version": 9}, "version 9"),
        ({"starting_version": "new"}, "a version or a tag, not 'new'"),
        ({"max_bytes_per_trigger": "1 MB"}, "whole number from 1 on, not '1 MB'"),
        ({"query": json.dumps(ts.QueryBuilder().head(3).to_json())}, "treats each row by itself"),
        (
            {"query": json.dumps(ts.QueryBuilder().shift("v").to_json())},
            "treats each row by itself",
        ),
        (
            {"query": json.dumps(ts.QueryBuilder().concat("x").to_json())},
            "treats each row by itself",
        ),
    ],
)
def test_options_that_are_refused(store: ts.Store, options: dict[str, Any], message: str) -> None:
    store.write("x", frame(0, 2), index="t")
    with pytest.raises(TesselError, match=message):
        Driven(store, **options)


def test_a_tag_is_a_start(store: ts.Store) -> None:
    store.write("x", frame(0, 2), index="t")
    store.create_tag("first")
    store.append("x", frame(2, 3))
    assert Driven(store, starting_version="first").batches() == [[2]]


# --- by Spark -------------------------------------------------------------------------------------


def copy(spark: SparkSession, store: ts.Store, checkpoint: Path, **options: Any) -> None:
    """Let Spark write what comes to ``x`` to ``y``, and end."""
    register_source(spark)
    incoming: DataFrame = (
        spark.readStream.format("tessel").options(store=store.uri, symbol="x", **options).load()
    )
    (
        incoming.writeStream.format("tessel")
        .options(store=store.uri, symbol="y", stream_id="copy", index="t")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def test_one_symbol_streams_into_another(
    store: ts.Store, tmp_path: Path, spark: SparkSession
) -> None:
    with ts.options(segment_rows=50):
        store.write("x", frame(0, 500), index="t")
    limits = {"max_bytes_per_trigger": 1_000}
    copy(spark, store, tmp_path, **limits)
    batches = len(store.versions("y"))
    assert batches > 1
    assert store.read("y").to_arrow().equals(store.read("x").to_arrow())
    store.append("x", frame(500, 510))
    store.compact("x")
    copy(spark, store, tmp_path, **limits)
    copy(spark, store, tmp_path, **limits)
    assert store.read("y").to_arrow().equals(store.read("x").to_arrow())
    assert len(store.versions("y")) == batches + 1
    store.delete_rows("x", rows=(0, 5))
    with pytest.raises(InvalidInputError, match="on_edit"):
        copy(spark, store, tmp_path)

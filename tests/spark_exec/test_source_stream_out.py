"""The data source ``tessel`` takes streams: every batch once, whatever is run again."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import tessel as ts
from tessel.errors import TesselError, UnsortedIndexError
from tessel.spark_exec import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_numbers = itertools.count()


class Stream:
    """Files that come one after another, a batch each, and a store that they are written to."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        register_source(spark)
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.store = ts.open(str(folder / "store"))
        schema = "t bigint, k bigint"
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        self.frame: DataFrame = reader.parquet(str(self.files))

    def add(self, *times: int) -> None:
        """Let a file come."""
        table = pa.table({"t": pa.array(times, pa.int64()), "k": [time % 3 for time in times]})
        pyarrow.parquet.write_table(table, self.files / f"{next(_numbers):06}.parquet")

    def run(
        self,
        frame: DataFrame | None = None,
        /,
        checkpoint: str = "c",
        mode: str = "append",
        **options: Any,
    ) -> None:
        """Write all that has come, and end."""
        asked = {"store": self.store.uri, "symbol": "x", "stream_id": "s", **options}
        (
            (self.frame if frame is None else frame)
            .writeStream.format("tessel")
            .options(**{name: each for name, each in asked.items() if each is not None})
            .option("checkpointLocation", str(self.folder / checkpoint))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    def forget_last(self, checkpoint: str = "c") -> None:
        """Leave the checkpoint as if Spark had died between the commit and writing it down."""
        commits = self.folder / checkpoint / "commits"
        last = max((each for each in commits.iterdir() if each.name.isdigit()), key=_number)
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    @property
    def rows(self) -> list[int]:
        return self.store.read("x").to_arrow()["t"].to_pylist()


def _number(path: Path) -> int:
    return int(path.name)


@pytest.fixture
def stream(tmp_path: Path, spark: SparkSession) -> Stream:
    return Stream(tmp_path, spark)


def test_batches_are_appended_each_once(stream: Stream) -> None:
    stream.add(0, 1)
    stream.add(2)
    stream.run(index="t", queryName="some")
    assert stream.rows == [0, 1, 2]
    assert stream.store.version == 2
    stream.forget_last()
    stream.run()
    assert (stream.rows, stream.store.version) == ([0, 1, 2], 2)
    stream.add(3)
    stream.run()
    assert stream.rows == [0, 1, 2, 3]
    stream.add()
    stream.run()
    stream.add(4)
    stream.run()
    assert stream.rows == [0, 1, 2, 3, 4]
    assert stream.store.schema("x").index == "t"


def test_complete_writes_the_symbol_anew_each_batch(stream: Stream) -> None:
    counts = stream.frame.groupBy("k").count()
    stream.add(0, 1)
    stream.run(counts, mode="complete")
    stream.add(2, 3)
    stream.run(counts, mode="complete")
    stream.forget_last()
    stream.run(counts, mode="complete")
    table = stream.store.read("x").to_arrow().sort_by("k")
    assert table.to_pydict() == {"k": [0, 1, 2], "count": [2, 1, 1]}
    assert stream.store.version == 2


def test_an_upsert_replaces_rows_by_key(stream: Stream) -> None:
    stream.add(0, 1)
    stream.run(index="t", verb="upsert", keys="t")
    stream.add(0, 5)
    stream.add(3)
    again = stream.frame.selectExpr("t", "k + 10 as k")
    stream.run(again, verb="upsert", keys="t")
    table = stream.store.read("x").to_arrow()
    assert table.to_pydict() == {"t": [0, 1, 3, 5], "k": [10, 1, 10, 12]}


def test_another_checkpoint_is_refused_unless_it_restarts_the_stream(stream: Stream) -> None:
    stream.add(0)
    stream.run()
    version = stream.store.version
    # The other query brings as many batches of as many rows: its numbers alone would not tell.
    message = r"another checkpoint(.|\n)*stream_restart"
    with pytest.raises(TesselError, match=message):
        stream.run(checkpoint="other")
    assert stream.store.version == version
    stream.run(checkpoint="other", stream_restart=True)
    assert stream.rows == [0, 0]
    # It may go on with the option, and is as careful as without.
    stream.forget_last("other")
    stream.run(checkpoint="other", stream_restart=True)
    assert stream.rows == [0, 0]
    stream.add(9)
    with pytest.raises(TesselError, match="another checkpoint"):
        stream.run()
    stream.run(checkpoint="third", stream_id="of its own")
    assert stream.rows == [0, 0, 0, 9]


def test_batches_that_are_lost_are_told(stream: Stream) -> None:
    stream.add(0)
    stream.run()
    stream.store.create_tag("before")
    stream.add(1)
    stream.run()
    stream.store.revert("before")
    stream.add(2)
    with pytest.raises(TesselError, match=r"batch 2 does not follow batch 0 of stream 's'"):
        stream.run()
    assert stream.rows == [0]


def test_a_batch_with_other_rows_is_no_repetition(stream: Stream) -> None:
    stream.add(0, 1)
    stream.run()
    stream.forget_last()
    with pytest.raises(TesselError, match=r"batch 0(.|\n)*stands for 2 rows(.|\n)*and now for 1"):
        stream.run(stream.frame.filter("t > 0"))
    assert stream.rows == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream_id": None}, "needs the option 'stream_id'"),
        ({"stream_ids": "s"}, r"no option 'stream_ids'(.|\n)*stream_id"),
        ({"write_id": "s"}, "no option 'write_id' here"),
        ({"stream_restart": "perhaps"}, "true or false, not 'perhaps'"),
        ({"verb": "update"}, r"update(.|\n)*upsert"),
        ({"verb": "upsert"}, "needs the option 'keys'"),
        ({"stream_id": "s" * 201}, "names no stream"),
        ({"symbol": None}, "needs the option 'symbol'"),
        ({"api_token": "x"}, "looks like a secret"),
    ],
)
def test_options_that_are_refused(stream: Stream, options: dict[str, Any], message: str) -> None:
    stream.add(0)
    with pytest.raises(TesselError, match=message):
        stream.run(**options)
    assert stream.store.version == 0


def test_a_batch_out_of_order_names_what_helps(stream: Stream) -> None:
    stream.add(5)
    stream.run(index="t")
    stream.add(3)
    with pytest.raises(UnsortedIndexError, match="upsert"):
        stream.run()
    assert stream.rows == [5]

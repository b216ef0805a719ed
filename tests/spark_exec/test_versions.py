"""What older versions of pyspark lack, tried on the one that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql import functions

from tessel.errors import MissingDependencyError
from tessel.spark_exec.versions import collected, partitioned, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Without:
    """A frame that lacks some methods, as those of older versions do."""

    def __init__(self, frame: Any, *names: str) -> None:
        self._frame = frame
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._frame, name)


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_rows_arrive_where_an_exact_exchange_brings_them(
    spark: SparkSession, partitions: int
) -> None:
    frame = spark.range(0, 200, 1, 3).withColumn(
        "number", (functions.col("id") % partitions).cast("int")
    )
    for each in (frame, _Without(frame, "repartitionById")):
        moved = partitioned(each, functions.col("number"), partitions)  # type: ignore[arg-type]
        found = moved.select("number", functions.spark_partition_id().alias("at")).distinct()
        assert {row["number"]: row["at"] for row in found.collect()} == {
            number: number for number in range(partitions)
        }
        assert moved.rdd.getNumPartitions() == partitions


@pytest.mark.spark
def test_rows_are_collected_without_a_public_call(spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id", "cast(id as string) as s", "timestamp_seconds(id) as t")
    assert collected(_Without(frame, "toArrow")).equals(collected(frame))  # type: ignore[arg-type]


def test_what_needs_a_newer_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.6")
    assert pyspark_version() == "3.5.6"
    with pytest.raises(MissingDependencyError, match=r'format\("x"\) needs pyspark 4\.0 or newer'):
        pyspark_version((4, 0), 'format("x")')

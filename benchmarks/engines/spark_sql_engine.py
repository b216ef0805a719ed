"""Spark SQL on Parquet, in a local session of two slots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from benchmarks.workloads import Workload

MASTER = "local[2]"


class _SparkSQL:
    name = "spark_sql"

    def version(self) -> str:
        from importlib.metadata import version

        return version("pyspark")

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        parquet.write_table(table, folder / f"{workload.name}.parquet")

    def open(self, folder: Path, workload: Workload) -> Any:
        from tessel.spark_exec import spark_session

        session = spark_session(MASTER)
        frame = session.read.parquet(str(folder / f"{workload.name}.parquet"))
        frame.createOrReplaceTempView(workload.name)
        return session

    def to_arrow(self, answer: Any) -> pa.Table:
        table: pa.Table = answer.toArrow()
        return table


ENGINE = _SparkSQL()

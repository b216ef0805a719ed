"""Tessel, on a store on disk, run as jobs of a local Spark session of two slots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.spark_sql_engine import MASTER
from benchmarks.engines.tessel_engine import ENGINE as ON_THREADS
from benchmarks.workloads import Workload


@dataclass(frozen=True)
class _Handle:
    """A store whose queries run on Spark."""

    store: Any
    executor: Any

    def read(self, symbol: str, query: Any) -> Any:
        return self.store.read(symbol, query=query, executor=self.executor)


class _TesselSpark:
    name = "tessel_spark"
    version = ON_THREADS.version
    write = ON_THREADS.write
    to_arrow = ON_THREADS.to_arrow

    def open(self, folder: Path, workload: Workload) -> Any:
        from tessel.spark_exec import SparkExecutor

        return _Handle(ON_THREADS.open(folder, workload), SparkExecutor(master=MASTER))


ENGINE = _TesselSpark()

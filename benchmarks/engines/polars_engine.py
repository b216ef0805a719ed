"""Polars, lazily on a Parquet file that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.workloads import Workload


class _Polars:
    name = "polars"

    def version(self) -> str:
        return pl.__version__

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        pl.DataFrame(table).write_parquet(folder / f"{workload.name}.parquet")

    def open(self, folder: Path, workload: Workload) -> Any:
        return pl.scan_parquet(folder / f"{workload.name}.parquet").set_sorted(workload.index)

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer.collect().to_arrow()


ENGINE = _Polars()

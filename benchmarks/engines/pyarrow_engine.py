"""pyarrow's datasets and compute functions, on a Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from benchmarks.workloads import Workload

_FILE = "data.parquet"


class _PyArrow:
    name = "pyarrow"

    def version(self) -> str:
        return str(pa.__version__)

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        parquet.write_table(table, folder / _FILE)

    def open(self, folder: Path, workload: Workload) -> Any:
        return dataset.dataset(folder / _FILE)

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer


ENGINE = _PyArrow()

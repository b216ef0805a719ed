"""pandas, reading a Parquet file for every question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from benchmarks.workloads import Workload

_FILE = "data.parquet"


class _Pandas:
    name = "pandas"

    def version(self) -> str:
        return pd.__version__

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        parquet.write_table(table, folder / _FILE)

    def open(self, folder: Path, workload: Workload) -> Any:
        return folder / _FILE

    def to_arrow(self, answer: Any) -> pa.Table:
        return pa.Table.from_pandas(answer, preserve_index=False)


ENGINE = _Pandas()

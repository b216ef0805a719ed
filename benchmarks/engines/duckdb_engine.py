"""DuckDB, on a database file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.workloads import Workload

_FILE = "data.duckdb"


class _DuckDB:
    name = "duckdb"

    def version(self) -> str:
        return duckdb.__version__

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        with duckdb.connect(str(folder / _FILE)) as connection:
            connection.register("source", table)
            connection.sql(f"CREATE TABLE {workload.name} AS SELECT * FROM source")

    def open(self, folder: Path, workload: Workload) -> Any:
        connection = duckdb.connect(str(folder / _FILE), read_only=True)
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer.to_arrow_table()


ENGINE = _DuckDB()

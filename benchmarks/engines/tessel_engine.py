"""Tessel, on a store on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tessel as ts
from benchmarks.workloads import Workload


def _missing_before(column: pa.ChunkedArray) -> int:
    """Return how many values are missing before the first that is there."""
    return pc.index(column.is_valid(), True).as_py()


class _Tessel:
    name = "tessel"

    def version(self) -> str:
        from importlib.metadata import version

        return version("tessel")

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        store = ts.open(str(folder))
        chosen = {"segment_columns": workload.slices} if workload.slices else {}
        with ts.options(**chosen):
            start = min((_missing_before(table[name]) for name in workload.late), default=0)
            early = table.slice(0, start).drop_columns(list(workload.late))
            store.write(workload.name, early if start else table, index=workload.index)
            if start:
                store.append(workload.name, table.slice(start), evolve="add")

    def open(self, folder: Path, workload: Workload) -> Any:
        return ts.open(str(folder), read_only=True)

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer if isinstance(answer, pa.Table) else answer.to_arrow()


ENGINE = _Tessel()

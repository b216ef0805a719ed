"""Tessel, on a store on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import tessel as ts
from benchmarks.workloads import Workload


class _Tessel:
    name = "tessel"

    def version(self) -> str:
        from importlib.metadata import version

        return version("tessel")

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        ts.open(str(folder)).write(workload.name, table, index=workload.index)

    def open(self, folder: Path, workload: Workload) -> Any:
        return ts.open(str(folder), read_only=True)

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer if isinstance(answer, pa.Table) else answer.to_arrow()


ENGINE = _Tessel()

"""Tessel without compiled kernels, on a store on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

import tessel as ts
from benchmarks.workloads import Workload


class _TesselNumpy:
    name = "tessel_numpy"

    def version(self) -> str:
        from importlib.metadata import version

        return version("tessel")

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        ts.open(str(folder)).write(workload.name, table, index=workload.index)

    def open(self, folder: Path, workload: Workload) -> Any:
        os.environ["TESSEL_JIT"] = "0"  # an engine has its process to itself
        return ts.open(str(folder), read_only=True)

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer if isinstance(answer, pa.Table) else answer.to_arrow()


ENGINE = _TesselNumpy()

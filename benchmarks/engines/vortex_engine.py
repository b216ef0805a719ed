"""Vortex, on a file that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import vortex

from benchmarks.workloads import Workload


def _file(folder: Path, workload: Workload) -> str:
    return str(folder / f"{workload.name}.vortex")


class _Vortex:
    name = "vortex"

    def version(self) -> str:
        from importlib.metadata import version

        return version("vortex-data")

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        vortex.io.write(table, _file(folder, workload))

    def open(self, folder: Path, workload: Workload) -> Any:
        return vortex.open(_file(folder, workload))

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer


ENGINE = _Vortex()

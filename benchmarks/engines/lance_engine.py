"""Lance, on a dataset that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from benchmarks.workloads import Workload

_FOLDER = "data.lance"


class _Lance:
    name = "lance"

    def version(self) -> str:
        return str(lance.__version__)

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        lance.write_dataset(table, str(folder / _FOLDER))

    def open(self, folder: Path, workload: Workload) -> Any:
        return lance.dataset(str(folder / _FOLDER))

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer


ENGINE = _Lance()

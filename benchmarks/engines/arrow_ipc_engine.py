"""An Arrow IPC file, uncompressed and mapped: what reading costs when nothing is decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from benchmarks.workloads import Workload

_FILE = "data.arrow"


class _ArrowIpc:
    name = "arrow_ipc"

    def version(self) -> str:
        return str(pa.__version__)

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        feather.write_feather(table, str(folder / _FILE), compression="uncompressed")

    def open(self, folder: Path, workload: Workload) -> Any:
        return folder / _FILE

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer


ENGINE = _ArrowIpc()

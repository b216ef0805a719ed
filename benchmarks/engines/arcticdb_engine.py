"""ArcticDB, on LMDB; it takes and gives pandas frames, or Arrow tables where asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import arcticdb
import pyarrow as pa

from benchmarks.workloads import Workload


class _ArcticDb:
    name = "arcticdb"

    def version(self) -> str:
        return str(arcticdb.__version__)

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        store = arcticdb.Arctic(f"lmdb://{folder}?map_size=8GB")
        library = store.create_library("bench")
        library.write(workload.name, table.to_pandas().set_index(workload.index))

    def open(self, folder: Path, workload: Workload) -> Any:
        return arcticdb.Arctic(f"lmdb://{folder}?map_size=8GB")["bench"]

    def to_arrow(self, answer: Any) -> pa.Table:
        frame = answer.data
        if isinstance(frame, pa.Table):
            return frame
        return pa.Table.from_pandas(frame.reset_index(), preserve_index=False)


ENGINE = _ArcticDb()

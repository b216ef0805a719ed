"""ArcticDB on LMDB: a version of each symbol by itself; there is no commit over several."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import arcticdb
import pandas as pd
import pyarrow as pa

from benchmarks.commits.stores.base import SCHEMA, StoreKind, Timing

_LIBRARY = "bench"


def _frame(table: pa.Table) -> pd.DataFrame:
    times = table.column("t").cast(pa.timestamp("ns")).to_pandas()
    return table.to_pandas().set_index("t").set_axis(times, axis=0).rename_axis("t")


class _ArcticStore:
    def __init__(self, folder: Path, *, create: bool) -> None:
        arctic = arcticdb.Arctic(f"lmdb://{folder}?map_size=4GB")
        if create:
            # A segment for each row, as in the other stores.
            options = arcticdb.LibraryOptions(rows_per_segment=2)
            arctic.create_library(_LIBRARY, options)
        self._library = arctic[_LIBRARY]

    def fill(self, symbols: Sequence[str], table: pa.Table) -> None:
        frame = _frame(table)
        self._library.write_batch([arcticdb.WritePayload(symbol, frame) for symbol in symbols])

    def commit(self, tables: Mapping[str, pa.Table], *, new: bool) -> Timing:
        start = time.perf_counter()
        payloads = [
            arcticdb.WritePayload(symbol, _frame(table)) for symbol, table in tables.items()
        ]
        staged = time.perf_counter()
        done = (self._library.write_batch if new else self._library.append_batch)(payloads)
        end = time.perf_counter()
        for each in done:
            if isinstance(each, arcticdb.DataError):
                raise RuntimeError(str(each))
        return Timing((staged - start) * 1e3, None, (end - staged) * 1e3)

    def read(self, symbol: str) -> pa.Table:
        table = pa.Table.from_pandas(self._library.read(symbol).data.reset_index())
        times = table.column("t").cast(pa.timestamp("ns")).cast(pa.int64())
        return pa.table([times, table.column("x")], schema=SCHEMA)

    def written(self) -> tuple[int, int]:
        sizes = self._library.admin_tools().get_sizes().values()
        return sum(each.count for each in sizes), sum(each.bytes_compressed for each in sizes)


class _Arctic:
    name = "arcticdb"
    version = arcticdb.__version__
    says = (
        "a version of each symbol by itself, none over several; objects are keys of one LMDB file"
    )
    most_symbols: int | None = 10_000  # 100,000 were not made after 11 minutes

    def open(self, folder: Path, *, create: bool) -> _ArcticStore:
        return _ArcticStore(folder, create=create)


KIND: StoreKind = _Arctic()

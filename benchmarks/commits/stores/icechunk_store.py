"""Icechunk: a symbol is an array of two columns with a chunk for each row."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from benchmarks.commits.stores.base import SCHEMA, StoreKind, Timing, lying_in

_TRIES = 10_000


async def _copy(store: Any, first: str, others: Sequence[str]) -> None:
    """Copy the keys of an array: making arrays one by one takes three times as long."""
    keys = [key async for key in store.list_prefix(f"{first}/")]
    values = [await store.get(key, default_buffer_prototype()) for key in keys]
    for other in others:
        for key, value in zip(keys, values, strict=True):
            await store.set(other + key.removeprefix(first), value)


class _IcechunkStore:
    def __init__(self, folder: Path, *, create: bool) -> None:
        self._folder = folder
        storage = icechunk.local_filesystem_storage(str(folder))
        of = icechunk.Repository
        self._repository = of.create(storage) if create else of.open(storage)

    def fill(self, symbols: Sequence[str], table: pa.Table) -> None:
        first, *others = symbols
        self.commit({first: table}, new=True)
        session = self._repository.writable_session("main")
        sync(_copy(session.store, first, others))
        session.commit("")

    def commit(self, tables: Mapping[str, pa.Table], *, new: bool) -> Timing:
        start = time.perf_counter()
        session = self._repository.writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        for symbol, table in tables.items():
            values = np.column_stack([table.column(n).to_numpy() for n in SCHEMA.names])
            if new:
                group.create_array(symbol, data=values.astype("f8"), chunks=(1, 2), overwrite=True)
            else:
                array: Any = group[symbol]
                before = array.shape[0]
                array.resize((before + len(values), 2))
                array[before:] = values
        staged = time.perf_counter()
        session.commit("", rebase_with=icechunk.ConflictDetector(), rebase_tries=_TRIES)
        end = time.perf_counter()
        return Timing((staged - start) * 1e3, None, (end - staged) * 1e3)

    def read(self, symbol: str) -> pa.Table:
        session = self._repository.readonly_session("main")
        values: Any = zarr.open_group(session.store, mode="r")[symbol]
        columns = np.asarray(values[:]).T
        arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        return pa.table(arrays, schema=SCHEMA)

    def written(self) -> tuple[int, int]:
        return lying_in(self._folder)


class _Icechunk:
    name = "icechunk"
    version = icechunk.__version__
    says = (
        "one commit over all arrays, tried again by rebasing; objects are files; its makers say "
        "that commits at the same time are not safe on a local disk"
    )
    most_symbols: int | None = None

    def open(self, folder: Path, *, create: bool) -> _IcechunkStore:
        return _IcechunkStore(folder, create=create)


KIND: StoreKind = _Icechunk()

"""Ours: one commit over all symbols, every object and folder of it fsynced."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import tessel
from benchmarks.commits.measure import Puts
from benchmarks.commits.stores.base import StoreKind, Timing, lying_in
from tessel.store.objects import LocalObjects
from tessel.store.repository import Repository

_AT_ONCE = 10_000


class _TesselStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repository = Repository(LocalObjects(folder), "id", read_only=False)

    def fill(self, symbols: Sequence[str], table: pa.Table) -> None:
        for start in range(0, len(symbols), _AT_ONCE):
            self.commit(dict.fromkeys(symbols[start : start + _AT_ONCE], table), new=True)

    def commit(self, tables: Mapping[str, pa.Table], *, new: bool) -> Timing:
        puts = Puts(self._repository.objects)
        start = time.perf_counter()
        with self._repository.transaction() as changes:
            for symbol, table in tables.items():
                if new:
                    changes.write(symbol, table, index="t")
                else:
                    changes.append(symbol, table)
            staged = time.perf_counter()
        end = time.perf_counter()
        first = puts.first("man/")
        puts.restore()
        return Timing((staged - start) * 1e3, (first - staged) * 1e3, (end - first) * 1e3)

    def read(self, symbol: str) -> pa.Table:
        return tessel.open(str(self._folder)).read(symbol).to_arrow()

    def written(self) -> tuple[int, int]:
        return lying_in(self._folder)


class _Tessel:
    name = "tessel"
    version = "of this folder"
    says = "one commit over all symbols; objects are files, each fsynced with its folder"
    most_symbols: int | None = None

    def open(self, folder: Path, *, create: bool) -> _TesselStore:
        if create:
            tessel.open(str(folder))
        return _TesselStore(folder)


KIND: StoreKind = _Tessel()

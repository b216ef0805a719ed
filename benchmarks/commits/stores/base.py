"""What a store must be able to do to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])
"""Every symbol: times that rise by one, and a number each."""


def rows(first: int, count: int) -> pa.Table:
    """Return rows of a symbol."""
    times = range(first, first + count)
    return pa.table({"t": list(times), "x": [time + 0.5 for time in times]}, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a commit took, in milliseconds: before it is asked for, and to its end.

    Attributes
    ----------
    staging
        Until the commit is asked for.
    encoding
        From then to the first byte of metadata; None where the store does not tell.
    acknowledging
        From then to the acknowledgement; encoding included where it is not told.
    """

    staging: float
    encoding: float | None
    acknowledging: float


class CommitStore(Protocol):
    """A store in the hands of one process."""

    def fill(self, symbols: Sequence[str], table: pa.Table) -> None:
        """Make many symbols of the same rows, the quickest way that leads to the same store."""

    def commit(self, tables: Mapping[str, pa.Table], *, new: bool) -> Timing:
        """Make symbols, or append to them, in as few commits as the store can."""

    def read(self, symbol: str) -> pa.Table:
        """Return all rows of a symbol, columns as in ``SCHEMA``."""

    def written(self) -> tuple[int, int]:
        """Return how many objects lie in the store, and their bytes."""


class StoreKind(Protocol):
    """A kind of store.

    Attributes
    ----------
    name, version
        What is measured.
    says
        What a commit of it is, and what an object: one line for the tables.
    most_symbols
        As many as it can be filled with in minutes; None where there is no limit.
    """

    name: str
    version: str
    says: str
    most_symbols: int | None

    def open(self, folder: Path, *, create: bool) -> CommitStore:
        """Open a store, or make one."""


def lying_in(folder: Path) -> tuple[int, int]:
    """Return how many files lie below a folder, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)

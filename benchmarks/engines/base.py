"""What the harness asks of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from benchmarks.workloads import Workload


class Engine(Protocol):
    """One way to keep a table and to answer questions on it.

    An engine writes with its defaults, and opens once: a process asks all its questions of one
    handle.
    """

    name: str

    def version(self) -> str:
        """Return the version of the library."""

    def write(self, table: pa.Table, folder: Path, workload: Workload) -> None:
        """Write the table into an empty folder, in the form the engine likes best."""

    def open(self, folder: Path, workload: Workload) -> Any:
        """Return the handle that the answers of a query take."""

    def to_arrow(self, answer: Any) -> pa.Table:
        """Return an answer as a table: all of it, computed."""

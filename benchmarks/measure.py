"""Clocks, consumers and peak memory, for the process that runs an engine."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_STATUS = Path("/proc/self/status")
_PROCESSES = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SAMPLE_INTERVAL_SECONDS = 0.001
_CACHE_LINE_BYTES = 64


def touch(table: pa.Table) -> int:
    """Read every cache line that holds a value of the table; return a sum, so that it is done.

    Without it an engine that hands out a view of a mapped file would look faster than it is.
    """
    return sum(_touch_array(chunk) for column in table.columns for chunk in column.chunks)


def _touch_array(array: Any) -> int:
    if pa.types.is_dictionary(array.type):
        return _touch_array(array.indices) + _touch_array(array.dictionary)
    if pa.types.is_nested(array.type):
        return sum(_touch_array(child) for child in array.flatten() if isinstance(child, pa.Array))
    total = 0
    for buffer in array.buffers():
        if buffer is not None:
            lines = np.frombuffer(buffer, np.uint8)
            # A slice shares the buffers of the whole: only its share is read.
            start = int(len(lines) * array.offset / max(1, array.offset + len(array)))
            total += int(lines[start::_CACHE_LINE_BYTES].sum(dtype=np.int64))
    return total


def milliseconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what the work returned, and how long it took."""
    start = time.perf_counter_ns()
    value = work()
    return value, (time.perf_counter_ns() - start) / 1e6


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the processor time of a run, warm: the median of some."""
    work()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def processor_milliseconds() -> float:
    """Return the processor time that this process and all below it have taken.

    An engine that works in processes of its own (a JVM, its Python workers) would be free of charge
    otherwise. Where the system does not show them, those that have ended are counted alone.
    """
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    return 1e3 * (total + sum(_ticks_below(os.getpid())) / _TICKS_A_SECOND)


def _ticks_below(parent: int) -> Iterator[int]:
    """Yield the ticks of each process below one, and of what it has waited for."""
    for threads in _PROCESSES.glob(f"{parent}/task/*/children"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            for child in threads.read_text().split():
                # The name of a program may have blanks and brackets; what follows it has none.
                fields = (_PROCESSES / child / "stat").read_text().rpartition(")")[2].split()
                yield sum(map(int, fields[11:15]))
                yield from _ticks_below(int(child))


def anonymous_bytes() -> int | None:
    """Return the anonymous resident memory of this process; None where the system does not say.

    Mapped files count in the usual figures and mean nothing: they are the system's cache.
    """
    if not _STATUS.exists():
        return None
    found = re.search(r"^RssAnon:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


class PeakMemory:
    """Watches anonymous memory while a block runs, by looking every millisecond.

    Attributes
    ----------
    peak
        The most seen, in bytes; None where the system does not say.
    """

    def __init__(self) -> None:
        self.peak = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while self.peak is not None and not self._done.wait(_SAMPLE_INTERVAL_SECONDS):
            self.peak = max(self.peak, anonymous_bytes() or 0)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        if self.peak is not None:
            self.peak = max(self.peak, anonymous_bytes() or 0)

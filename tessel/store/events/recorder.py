"""Recorder: how programs log events; a batcher stands between them and what takes the events.

``log`` appends plain Python values to lists, those of one entity, its components and timelines
together; a thread makes columns of them, by time, bytes or rows, and hands them to the sink. What
waits is bounded: who logs faster than the sink takes does the work himself.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.store.events.batch import EventBatch
from tessel.store.events.cell import Cell
from tessel.store.events.chunk import Shape, as_lists, chunk_of
from tessel.store.events.event_ids import EventIds, id_bytes
from tessel.store.events.row import CLEAR, CLEAR_RECURSIVE, Row
from tessel.store.events.timeline import Timeline, TimelineKind, check_component, check_entity
from tessel.store.events.timeline import time_point_of as times_of

__all__ = ["Recorder", "Sink"]


class Sink(Protocol):
    """What takes batches: a live store, a file, a socket."""

    def insert(self, events: Sequence[EventBatch], /) -> int:
        """Take events; return how many were new."""


class Recorder:
    """Logs events to a sink, in batches; use it as a context manager, or ``close`` it.

    Parameters
    ----------
    sink
        What takes the events.
    max_delay_seconds, max_rows, max_bytes
        A batch is handed on so long after its first event, or when so many wait. Bytes are counted
        roughly, from the values as Python has them.

    Notes
    -----
    ``flush`` returns when all that was logged before is with the sink. Nothing is lost when the
    interpreter ends. In a forked child a recorder begins anew: what waited is its parent's.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        max_delay_seconds: float = 0.05,
        max_rows: int = 65_536,
        max_bytes: int = 10 << 20,
    ) -> None:
        if not max_delay_seconds > 0 or max_rows < 1 or max_bytes < 1:
            raise InvalidInputError(
                "a recorder hands events on after some time, rows and bytes",
                hint="give a positive number of each",
            )
        self._sink = sink
        self._max_delay_seconds = max_delay_seconds
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._ids = EventIds()
        self._renew()
        _recorders.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._delivering = threading.RLock()
        self._pending: dict[tuple[Any, ...], _Pending] = {}
        self._rows = 0
        self._bytes = 0
        self._closed = False
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def log(
        self,
        entity: str,
        components: Mapping[str, Any],
        /,
        *,
        timeless: bool = False,
        **times: Any,
    ) -> None:
        """Log an event.

        Parameters
        ----------
        entity
            The path, such as ``"robot/arm"``.
        components
            A value each, or a list, array or :class:`Cell` of them: none to say that it has none
            now.
        timeless
            Whether it holds at all times; then no time is given.
        **times
            When, by timeline: a whole number, a datetime with a zone, or a timedelta.

        Raises
        ------
        InvalidInputError
            For names, times or values that mean nothing, values of another type than the component
            had, or lists of several lengths. Nothing of the event is logged.
        """
        key = (entity, *components, None, *times)
        pending = self._pending.get(key)
        if pending is None or bool(times) == timeless:
            pending = self._begin(key, entity, components, times, timeless)
        values = pending.checked(components, times)
        with self._lock:
            if self._closed:
                raise InvalidInputError("the recorder is closed")
            if self._pending.get(key) is not pending:
                self._pending.setdefault(key, pending)
                pending = self._pending[key]
            pending.add(self._ids.next(), values)
            self._rows += 1
            self._bytes += pending.row_bytes
            full = self._rows >= self._max_rows or self._bytes >= self._max_bytes
            first = self._rows == 1
        if full:
            self.flush()
        elif first:
            self._start()

    def clear(self, entity: str, /, *, recursive: bool = False, **times: Any) -> None:
        """Clear an entity, with ``recursive`` all below it; without a time what is timeless."""
        row = Row.clear(id_bytes(*self._ids.next()), entity, times, recursive=recursive)
        mark = CLEAR_RECURSIVE if recursive else CLEAR
        key = (entity, mark, None, *times)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                timelines = tuple(sorted(row.time_point, key=lambda each: each.name))
                pending = self._pending[key] = _Pending(entity, timelines, {mark: pa.bool_()})
            values = (True, *(row.time_point[timeline] for timeline in pending.timelines))
            pending.add(self._ids.next(), values)
            self._rows += 1
        self._start()

    def flush(self) -> None:
        """Hand on all that was logged before this call; return when the sink has it.

        Raises
        ------
        TesselError
            What the sink raised, here or on the thread before.
        """
        with self._delivering:
            with self._lock:
                waiting = [each.take() for each in self._pending.values() if each.ids]
                self._rows = self._bytes = 0
            if waiting:
                self._sink.insert([each() for each in waiting])
            if self._error is not None:
                error, self._error = self._error, None
                raise error

    def close(self) -> None:
        """Hand on what waits, and take no more."""
        self.flush()
        with self._lock:
            self._closed = True
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------

    def _begin(
        self,
        key: tuple[Any, ...],
        entity: str,
        components: Mapping[str, Any],
        times: Mapping[str, Any],
        timeless: bool,
    ) -> _Pending:
        """Check the names of events of a new kind, and find the types of their components."""
        check_entity(entity)
        if timeless == bool(times):
            raise InvalidInputError(
                "an event has a time, or is timeless",
                hint="give a time such as frame=42, or timeless=True",
            )
        if not components:
            raise InvalidInputError(
                f"an event of {entity!r} without a component",
                hint="to clear an entity call clear",
            )
        known = {name: kind for (path, name), kind in self._types.items() if path == entity}
        kinds = {}
        for name, value in components.items():
            check_component(name)
            kinds[name] = known.get(name) or _cell(name, value, None).type
        timelines = tuple(times_of(times))
        for timeline in timelines:
            before = self._timelines.setdefault(timeline.name, timeline)
            if before != timeline:
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {before.kind.value}s, not "
                    f"{timeline.kind.value}s",
                    timeline=timeline.name,
                )
        for name, kind in kinds.items():
            self._types[entity, name] = kind
        return _Pending(entity, timelines, kinds)

    @property
    def _types(self) -> dict[tuple[str, str], pa.DataType]:
        return self.__dict__.setdefault("_known_types", {})  # type: ignore[no-any-return]

    @property
    def _timelines(self) -> dict[str, Timeline]:
        return self.__dict__.setdefault("_known_timelines", {})  # type: ignore[no-any-return]

    def _start(self) -> None:
        thread = self._thread
        if thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="tessel-recorder", daemon=True
                    )
                    self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped.wait(self._max_delay_seconds):
                return
            try:
                self.flush()
            except BaseException as error:  # raised by the next flush, on a thread of the user
                self._error = error


class _Pending:
    """Events of one kind that wait: a list of ids, times, and values a component."""

    def __init__(
        self,
        entity: str,
        timelines: Sequence[Timeline],
        kinds: Mapping[str, pa.DataType],
    ) -> None:
        self.entity = entity
        self.timelines = tuple(timelines)
        self.kinds = dict(kinds)
        self.row_bytes = 64 + 16 * len(kinds)
        self.ids: list[tuple[int, int]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._quick = tuple(_PYTHON.get(kind) for kind in self.kinds.values())
        self._sequences = all(t.kind is TimelineKind.SEQUENCE for t in self.timelines)

    def checked(self, components: Mapping[str, Any], times: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what is kept of an event: a value a component, then a time a timeline."""
        for value, quick in zip(components.values(), self._quick, strict=True):
            if type(value) is not quick:
                return self._checked_slowly(components, times)
        if self._sequences:
            for number in times.values():
                if type(number) is not int or not -(2**63) < number < 2**63:
                    break
            else:
                return (*components.values(), *times.values())
        return (*components.values(), *self._numbers(times))

    def _numbers(self, times: Mapping[str, Any]) -> tuple[int, ...]:
        found = times_of(times)
        for timeline in self.timelines:
            if timeline not in found:
                other = next(each for each in found if each.name == timeline.name)
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {timeline.kind.value}s, not "
                    f"{other.kind.value}s",
                    timeline=timeline.name,
                )
        return tuple(found[timeline] for timeline in self.timelines)

    def _checked_slowly(
        self, components: Mapping[str, Any], times: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        cells = [_cell(name, value, self.kinds[name]) for name, value in components.items()]
        count = max(map(len, cells))
        for cell in cells:
            if len(cell) not in (0, 1, count):
                raise InvalidInputError(
                    f"component {cell.component!r} has {len(cell)} values in an event of {count} "
                    "instances",
                    hint="give none to clear it, one for all instances, or one for each",
                    component=cell.component,
                )
        self.row_bytes = max(self.row_bytes, 64 + sum(cell.values.nbytes for cell in cells))
        return (*(cell.values for cell in cells), *self._numbers(times))

    def add(self, event_id: tuple[int, int], values: tuple[Any, ...]) -> None:
        """Keep an event that was checked."""
        self.ids.append(event_id)
        self._rows.append(values)

    def take(self) -> Callable[[], EventBatch]:
        """Keep nothing of what waits; return what makes columns of it."""
        ids, rows = self.ids, self._rows
        self.ids, self._rows = [], []
        return lambda: self._batch(ids, rows)

    def _batch(self, ids: Sequence[tuple[int, int]], rows: Sequence[tuple[Any, ...]]) -> EventBatch:
        columns = list(zip(*rows, strict=True))
        count = len(self.kinds)
        cells, counts = {}, np.zeros(len(rows), np.uint32)
        for (name, kind), values in zip(self.kinds.items(), columns[:count], strict=True):
            cells[name], lengths = _column(values, kind)
            np.maximum(counts, lengths, out=counts)
        by_name = sorted(range(len(self.timelines)), key=lambda at: self.timelines[at].name)
        chunk = chunk_of(
            np.array(ids, np.uint64),
            [np.array(columns[count + at], np.int64) for at in by_name],
            counts,
            [cells[name] for name in sorted(cells)],
        )
        shape = Shape(
            self.entity,
            tuple(self.timelines[at] for at in by_name),
            tuple(sorted((name, kind) for name, kind in self.kinds.items())),
        )
        return EventBatch(shape, chunk)


_PYTHON: dict[pa.DataType, type] = {
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
}
"""Types whose values Arrow takes as they are, whatever they are: nothing is left to be checked."""


def _cell(component: str, value: Any, kind: pa.DataType | None) -> Cell:
    """Return a value, or several, as a cell of a type."""
    if value is None:
        raise InvalidInputError(
            f"component {component!r} is None",
            hint="leave it out of the event, or give an empty list",
            component=component,
        )
    if isinstance(value, Cell):
        cell = value
    elif isinstance(value, pa.Array | pa.ChunkedArray):
        cell = Cell.from_arrow(component, value)
    elif isinstance(value, np.ndarray):
        cell = Cell.from_arrow(component, pa.array(value.reshape(-1), kind))
    elif isinstance(value, list | tuple):
        cell = Cell.from_values(component, value, kind)
    else:
        cell = Cell.from_values(component, [value], kind)
    if cell.component != component or (kind is not None and cell.type != kind):
        raise InvalidInputError(
            f"component {component!r} is {kind}, and this event has {cell.type}",
            hint="the first use of a component fixes its type; use another name",
            component=component,
        )
    return cell


def _column(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Return the cells of many events, and the values in each."""
    if not any(isinstance(value, pa.Array) for value in values):
        return pa.array(values, kind), np.ones(len(values), np.uint32)
    parts = [v if isinstance(v, pa.Array) else pa.array([v], kind) for v in values]
    lengths = np.array([len(part) for part in parts])
    flat = pa.concat_arrays(parts)
    if (lengths == 1).all():
        return as_lists(flat), lengths.astype(np.uint32)
    offsets = pa.array(np.cumsum(np.concatenate([[0], lengths])), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, flat), lengths.astype(np.uint32)


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _flush_all() -> None:
    for recorder in list(_recorders):
        try:
            recorder.flush()
        except Exception as error:
            print(f"tessel: events were lost when the program ended: {error}", file=sys.stderr)


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder._renew()


atexit.register(_flush_all)
os.register_at_fork(after_in_child=_after_fork)

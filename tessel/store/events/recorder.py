"""Recorder: how programs log events; a batcher stands between them and what takes the events.

``log`` appends plain Python values to lists, those of one entity, its components and timelines
together; a thread makes columns of them, by time, bytes or rows, and hands them to the sink. What
waits is bounded: who logs faster than the sink takes does the work himself.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tessel.closing import Closing
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments, names_ours
from tessel.forking import after_fork
from tessel.store.events.batch import EventBatch
from tessel.store.events.pending import MergedBatch, Pending, cell_of, merge_same_time
from tessel.store.events.row import CLEAR, CLEAR_RECURSIVE
from tessel.store.events.timeline import EventIds, Timeline, check_component, check_entity
from tessel.store.events.timeline import time_point_of as times_of


class Sink(Protocol):
    """What takes batches: a live store, a file, a socket."""

    def insert(self, events: Sequence[EventBatch], /) -> int:
        """Take events; return how many were new."""


@checks_arguments
class Recorder(Closing):
    """Logs events to a sink, in batches; use it as a context manager, or ``close`` it.

    Parameters
    ----------
    sink
        What takes the events.
    max_delay_seconds, max_rows, max_bytes
        A batch is handed on so long after its first event, or when so many wait. Bytes are counted
        roughly, from the values as Python has them.
    merge_same_time
        Whether events of an entity that share all times, and wait together, become one with the
        greatest of their ids, as far as that changes no answer but for ids: see
        :mod:`tessel.store.events.pending`.

    Notes
    -----
    ``flush`` returns when all that was logged before is with the sink. Nothing is lost when the
    interpreter ends. In a forked child a recorder begins anew: what waited is its parent's.
    """

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs
        __getattr__ = names_ours("recorder")

    def __init__(
        self,
        sink: Sink,
        *,
        max_delay_seconds: float = 0.05,
        max_rows: int = 65_536,
        max_bytes: int = 10 << 20,
        merge_same_time: bool = False,
    ) -> None:
        if not callable(getattr(sink, "insert", None)):
            raise InvalidInputError(
                f"an object of type {type(sink).__name__} takes no events",
                hint="give a LiveStore, a SocketSink or a FileSink",
            )
        if not max_delay_seconds > 0 or max_rows < 1 or max_bytes < 1:
            raise InvalidInputError(
                "a recorder hands events on after some time, rows and bytes",
                hint="give a positive number of each",
            )
        self._sink = sink
        self._max_delay_seconds = max_delay_seconds
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._merge_same_time = bool(merge_same_time)
        self._ids = EventIds()
        self._closed = False
        self._types: dict[tuple[str, str], pa.DataType] = {}
        self._untried: set[tuple[str, str]] = set()
        """Components of which the sink has taken no event: their types are told by values alone."""
        self._timelines: dict[str, Timeline] = {}
        self._renew()
        _recorders.add(self)
        after_fork(self, Recorder._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._delivering = threading.RLock()
        self._pending: dict[tuple[Any, ...], Pending] = {}
        self._rows = 0
        self._bytes = 0
        self._undelivered: list[EventBatch] = []
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._kept_by: BaseException | None = None

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
            pending = self._begin(entity, components, times, timeless)
        self._keep(key, pending, pending.checked(components, times))

    def clear(self, entity: str, /, *, recursive: bool = False, **times: Any) -> None:
        """Clear an entity, with ``recursive`` all below it; without a time what is timeless."""
        mark = CLEAR_RECURSIVE if recursive else CLEAR
        pending = Pending(check_entity(entity), tuple(times_of(times)), {mark: pa.bool_()})
        key = (entity, mark, None, *times)
        self._keep(key, pending, pending.checked({mark: True}, times))

    def _keep(self, key: tuple[Any, ...], pending: Pending, values: tuple[Any, ...]) -> None:
        """Keep an event that was checked, with those of its kind that wait."""
        with self._lock:
            if self._closed:
                raise InvalidInputError("the recorder is closed")
            pending = self._pending.setdefault(key, pending)
            pending.add(self._ids.next(), values)
            self._rows += 1
            self._bytes += pending.row_bytes
            full = self._rows >= self._max_rows or self._bytes >= self._max_bytes
            first = self._rows == 1
        if full:
            self.flush()
        elif first:
            self._start()

    def flush(self) -> None:
        """Hand on all that was logged before this call; return when the sink has it.

        Raises
        ------
        TesselError
            What the sink raised, here or on the thread before. Events that it refused with an
            ``InvalidInputError`` are dropped; after other errors they wait for the next call.
        """
        with self._delivering:
            with self._lock:
                waiting = [each.take() for each in self._pending.values() if each.ids]
                counted = self._rows, self._bytes
                self._rows = self._bytes = 0
            batches = [each() for each in waiting]
            self._undelivered += merge_same_time(batches) if self._merge_same_time else batches
            try:
                self._deliver()
            except BaseException as problem:
                if self._undelivered:  # they wait on, and count
                    self._kept_by = problem
                    with self._lock:
                        self._rows += counted[0]
                        self._bytes += counted[1]
                raise
            if self._error is not None:
                error, self._error = self._error, None
                raise error

    def _deliver(self) -> None:
        """Hand on what waits; keep it where the sink cannot take it, drop what it refuses."""
        if not self._undelivered:
            return
        try:
            self._sink.insert(self._undelivered)
            self._note_taken(self._undelivered)
        except InvalidInputError:
            refused, self._undelivered = self._undelivered, []
            self._deliver_each(refused)
        self._undelivered = []

    def _deliver_each(self, batches: Sequence[EventBatch]) -> None:
        first: InvalidInputError | None = None
        waiting = list(batches)
        while waiting:
            batch = waiting[0]
            parts: Sequence[EventBatch] = ()
            try:
                self._sink.insert([batch])
                self._note_taken([batch])
            except InvalidInputError as error:
                if isinstance(batch, MergedBatch):  # some of its events may be good
                    parts = batch.parts
                else:
                    self._forget_types(batch)
                    first = first or error
            except BaseException:
                self._undelivered = waiting
                raise
            waiting[:1] = parts
        if first is not None:
            raise first

    def _note_taken(self, batches: Sequence[EventBatch]) -> None:
        with self._lock:
            if self._untried:
                for batch in batches:
                    self._untried.difference_update(_components(batch))

    def _forget_types(self, batch: EventBatch) -> None:
        """Forget what refused events alone have told: the next ones are taken as they are."""
        with self._lock:
            for component in self._untried.intersection(_components(batch)):
                del self._types[component]
                self._untried.remove(component)
            entity = batch.shape.entity
            self._pending = {
                key: each for key, each in self._pending.items() if each.ids or key[0] != entity
            }

    def close(self) -> None:
        """Hand on what waits, and take no more."""
        self.flush()
        with self._lock:
            self._closed = True
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    # --- inside -----------------------------------------------------------------------------------

    def _begin(
        self, entity: str, components: Mapping[str, Any], times: Mapping[str, Any], timeless: bool
    ) -> Pending:
        """Check the names of events of a new kind, and find the types of their components."""
        check_entity(entity)
        if timeless == bool(times):
            raise InvalidInputError(
                "an event has a time, or is timeless",
                hint="leave out the time, or timeless"
                if timeless
                else "give a time such as frame=42, or timeless=True",
            )
        if not components:
            raise InvalidInputError(
                f"an event of {entity!r} without a component",
                hint="to clear an entity call clear",
            )
        kinds = {}
        for name, value in components.items():
            known = self._types.get((entity, check_component(name)))
            kinds[name] = known or cell_of(name, value, None).type
        timelines = tuple(times_of(times))
        for timeline in timelines:
            before = self._timelines.setdefault(timeline.name, timeline)
            if before != timeline:
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {before.kind.value}s, not "
                    f"{timeline.kind.value}s",
                    timeline=timeline.name,
                )
        with self._lock:
            found = {(entity, name): kind for name, kind in kinds.items()}
            self._untried.update(found.keys() - self._types.keys())
            self._types.update(found)
        return Pending(entity, timelines, kinds)

    def _start(self) -> None:
        thread = self._thread
        if thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="tessel-recorder", daemon=True)
                    with contextlib.suppress(RuntimeError):  # no more threads may be started
                        thread.start()
                        self._thread = thread
        if self._thread is None:
            self.flush()  # who logs does the work, until a thread can be had
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped.wait(self._max_delay_seconds):
                return
            try:
                self.flush()
            except BaseException as error:
                if error is self._kept_by:  # tried again, here or by the next flush
                    self._wake.set()
                else:  # raised by the next flush, on a thread of the user
                    self._error = error


def _components(batch: EventBatch) -> set[tuple[str, str]]:
    return {(batch.shape.entity, name) for name, _ in batch.shape.components}


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _flush_all() -> None:
    for recorder in list(_recorders):
        try:
            recorder.flush()
        except Exception as error:
            print(f"tessel: events were lost when the program ended: {error}", file=sys.stderr)


atexit.register(_flush_all)

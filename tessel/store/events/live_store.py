"""LiveStore: events in memory, answered while they are written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from tessel.closing import Closing
from tessel.errors import (
    ForkUnsafeError,
    InvalidInputError,
    NameNotFoundError,
    StoreAccessError,
    TesselError,
)
from tessel.errors.arguments import checks_arguments, names_ours
from tessel.forking import after_fork
from tessel.store.events.answers import EventAnswers
from tessel.store.events.batch import EventBatch, pieces_of
from tessel.store.events.chunk import Chunk, compacted
from tessel.store.events.collection import (
    ArrivalClock,
    Change,
    Collected,
    Events,
    batches_of,
    collect_before,
    collect_overwritten,
    drop_where,
    id_at_fraction,
    new_batches,
)
from tessel.store.events.event_file import Journal, opening, read_events, write_events
from tessel.store.events.index import Draft, ShapeLog, View
from tessel.store.events.recording import Recording
from tessel.store.events.recordings import save_recording
from tessel.store.events.reference_reader import ReferenceReader, References
from tessel.store.events.stored_cells import CellCache
from tessel.store.events.timeline import id_parts, time_of
from tessel.store.events.wire import Address
from tessel.store.repository import Repository

if TYPE_CHECKING:
    from tessel.store.events.server import EventServer

_MOST_ROUNDS = 4


@checks_arguments
class LiveStore(Closing, EventAnswers):
    """Events by entity, timeline and component; any number of threads read while others write.

    Parameters
    ----------
    journal
        A file that has every event before :meth:`insert` returns; what it holds is taken first.
    durable
        ``"process"``: events survive ``kill -9``; ``"power"``: also that the power fails.
    references
        What fetches data held elsewhere, for :meth:`fetch`; without it none are.

    Examples
    --------
    >>> store = LiveStore()
    >>> recorder = Recorder(store)
    >>> recorder.log("robot/arm", {"angle": 0.5}, frame=42)
    >>> recorder.flush()
    >>> store.latest_at("frame", 50, "robot/arm")["angle"].cell.to_list()
    [0.5]

    Notes
    -----
    A forked child has a copy, never with half of an insert, and writes to it as it likes: the
    parent does not see it. A journal and servers are the parent's; a store that has a journal can
    only be asked in a child.
    """

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs
        __getattr__ = names_ours("live")

    def __init__(
        self,
        *,
        journal: str | Path | None = None,
        durable: Literal["process", "power"] = "process",
        references: ReferenceReader | None = None,
    ) -> None:
        if durable not in ("process", "power"):
            raise InvalidInputError(f"durable is {durable!r}", hint='it is "process" or "power"')
        super().__init__()
        self._lock = threading.RLock()
        self._clock = ArrivalClock()
        self._references = references
        self._subscribers: list[Callable[[Change], object]] = []
        self._servers: list[EventServer] = []
        self._journal: Journal | None = None
        self._recording: Recording | None = None
        if journal is not None:
            with opening(journal):
                opened = Journal(journal, sync=durable == "power")
            try:
                self._take(list(opened.replay()))
            except BaseException:
                opened.close()
                raise
            self._journal = opened
        after_fork(self, LiveStore._begin_in_child, lock_of=lambda store: store._lock)

    # --- writing ----------------------------------------------------------------------------------

    def insert(self, events: Events) -> int:
        """Take events; return how many were new. All of them, or none.

        An event that is here already is passed over. Times in any order are taken. The events'
        ``ingestion_time`` is now, by a clock that never goes back.

        Raises
        ------
        InvalidInputError
            For an event whose id another one has, a timeline of another kind than before, or a
            component of another type; the store is as it was.
        ForkUnsafeError
            In a forked child of the process that has the journal.
        """
        return self._take(batches_of(events), were_kept=False)

    def _take(self, batches: Sequence[EventBatch], *, were_kept: bool = True) -> int:
        """Take events; those that were kept come back, with the time at which they arrived."""
        with self._lock:
            self._check_process()
            draft = Draft(self._view)
            found = new_batches(self._view, draft, batches)
            new = self._clock.stamped(found, were_kept=were_kept)
            for batch in new:
                draft.add(batch)
            if self._journal is not None and new:
                self._journal.append(new)
            self._view = draft.view()  # all of it, or nothing: a query has the one or the other
        count = sum(map(len, new))
        if new:
            self._tell(Change("added", count, tuple(new)))
        return count

    def serve(
        self,
        address: Address = ("127.0.0.1", 0),
        *,
        max_request_bytes: int = 64 << 20,
        max_producers: int = 64,
        request_seconds: float = 60.0,
        on_error: Callable[[TesselError], object] | None = None,
    ) -> EventServer:
        """Take events of other processes, on threads, until the server or this store is closed.

        They log with ``Recorder(SocketSink(server.address))``; their ``flush`` returns when the
        events are here, and in the journal where there is one.

        Parameters
        ----------
        address
            ``("127.0.0.1", 9000)``, with port 0 for a free one; or the path of a UNIX socket.
        max_request_bytes
            Of one request, which is taken whole or not at all.
        max_producers
            How many processes may be connected.
        request_seconds
            How long the rest of a request may take after its first byte.
        on_error
            Called with what was refused. Who sent it is told as well.

        Returns
        -------
        EventServer
            A context manager, with the ``address`` it listens at.

        Raises
        ------
        InvalidInputError
            For an address that other machines can reach.
        StoreError
            Where it cannot listen.
        """
        from tessel.store.events.server import EventServer

        server = EventServer(
            self.insert,
            address,
            max_request_bytes=max_request_bytes,
            max_producers=max_producers,
            request_seconds=request_seconds,
            on_error=on_error,
        )
        self._servers.append(server)
        return server

    # --- letting go -------------------------------------------------------------------------------

    def collect(
        self,
        *,
        keep_bytes: int | None = None,
        fraction: float | None = None,
        before: bytes | None = None,
    ) -> Collected:
        """Let the oldest events go, by their ids.

        Timeless ones stay unless others have overwritten them, and every state at and after the
        horizon is what it was.

        Parameters
        ----------
        keep_bytes
            Until no more are held, as far as states allow.
        fraction
            That part of the bytes of temporal events.
        before
            All before this event.
        """
        given = [each for each in (keep_bytes, fraction, before) if each is not None]
        if len(given) != 1 or not 0 <= (fraction or 0) <= 1 or (keep_bytes or 0) < 0:
            raise InvalidInputError(
                "collect takes one target", hint="keep_bytes, fraction between 0 and 1, or before"
            )
        with self._lock:
            self._check_process()
            size, count = self.nbytes, len(self)
            self._forget_cells()
            view, horizons = collect_overwritten(self._view), dict[str, int]()
            for _ in range(_MOST_ROUNDS if keep_bytes is not None else 1):
                part = fraction
                if keep_bytes is not None:
                    if view.nbytes <= keep_bytes:
                        break
                    part = min(1.0, 1 - keep_bytes / view.nbytes)
                cut = id_parts(before) if before is not None else id_at_fraction(view, part or 0.0)
                view, found = collect_before(view, cut)
                horizons = {
                    name: max(time, horizons.get(name, time))
                    for name, time in {**horizons, **found}.items()
                }
            events = count - len(view)
            self._let_go(view)
            collected = Collected(events, size, self.nbytes, horizons)
        self._tell(Change("collected", events, (), tuple(sorted(horizons.items()))))
        return collected

    def drop_after(self, timeline: str, time: Any) -> int:
        """Drop every event after a time of a timeline; return how many."""
        return self._drop(timeline, self._known_time(timeline, time) + 1, 2**63 - 1)

    def drop_range(self, timeline: str, first: Any, last: Any) -> int:
        """Drop every event between two times of a timeline, both included; return how many.

        An event goes from all its timelines.

        Raises
        ------
        NameNotFoundError
            For a timeline that there is not.
        InvalidInputError
            For ends that are exchanged.
        """
        start, stop = self._known_time(timeline, first), self._known_time(timeline, last)
        if start > stop:
            raise InvalidInputError.exchanged(f"the range of {timeline!r}", first, last)
        return self._drop(timeline, start, stop)

    def _known_time(self, timeline: str, time: Any) -> int:
        """Return a time of a timeline that events have: what is dropped is named as it is."""
        known = self._view.timelines
        if timeline not in known:
            raise NameNotFoundError.for_name("timeline", timeline, sorted(known))
        return time_of(known[timeline], time)

    def _drop(self, timeline: str, start: int, stop: int) -> int:
        def keep(log: ShapeLog, chunk: Chunk) -> np.ndarray:
            at = log.shape.timeline_places.get(timeline)
            if at is None:
                return np.ones(len(chunk), np.bool_)
            times = chunk.times[at]
            return (times < start) | (times > stop)

        with self._lock:
            self._check_process()
            view = drop_where(self._view, keep)
            events = len(self._view) - len(view)
            self._forget_cells()
            self._let_go(view)
        self._tell(Change("dropped", events))
        return events

    def compact(self) -> None:
        """Merge the chunks of each shape; no answer changes."""
        with self._lock:
            draft = Draft(self._view)
            for log in self._view.logs():
                draft.replace(log, compacted(log.chunks))
            self._view = draft.view()

    def _check_process(self) -> None:
        """Refuse to change what would have to go to a parent's journal."""
        if self._journal is not None and not self._journal.is_ours:
            raise ForkUnsafeError(
                f"the journal {str(self._journal.path)!r} is written by the process that opened "
                "it, and this one was forked from it",
                hint="ask what is here, and log to the parent: serve there, a SocketSink here",
            )

    def _begin_in_child(self) -> None:
        self._lock = threading.RLock()
        self._servers = []

    def _forget_cells(self) -> None:
        """Let go of what can be read again, before events go for good."""
        if self._cells is not None:
            self._cells.clear()

    def _let_go(self, view: View) -> None:
        """Publish a view of fewer events, when the journal has it."""
        if self._journal is not None:
            self._journal.rewrite(view.batches())
        self._view = view

    # --- keeping ----------------------------------------------------------------------------------

    def save(self, store: Repository, name: str) -> int:
        """Write all events to a store as the symbols ``name/entity``; return the version.

        They are ordinary symbols, for queries of any kind; :meth:`open` makes them a live store.
        """
        return save_recording(store, name, self.batches())

    @classmethod
    def open(
        cls,
        store: Repository,
        name: str,
        *,
        cell_budget_bytes: int = 256 << 20,
        references: ReferenceReader | None = None,
    ) -> LiveStore:
        """Return the recording that :meth:`save` wrote, with the same answer to every question.

        Ids, times and what each event has are read now, cells when a query asks for them. New
        events can be logged into it; the recording stays what it is.

        Parameters
        ----------
        store, name
            As they were given to :meth:`save`; the newest version is opened.
        cell_budget_bytes
            How many bytes of cells are kept for the next query; those not used for longest are let
            go. A query takes what it needs besides, for as long as it lasts.
        references
            What fetches data held elsewhere, for :meth:`fetch`; without it none are.

        Raises
        ------
        SymbolNotFoundError
            Where there is no recording of that name.
        InvalidInputError
            For symbols that are no recording, or a budget that is no number of bytes.

        Notes
        -----
        The version is leased until the store is closed, or nobody has it any more, so that
        collections leave it alone; a store that is opened ``read_only`` cannot lease. Where the
        version has expired, a query that needs its cells raises ``SnapshotExpiredError``.
        """
        live = cls(references=references)
        live._cells = CellCache(cell_budget_bytes)
        live._recording = Recording(store, name, live._cells)
        live._take(list(live._recording.batches()))
        return live

    def fetch(self, references: References) -> Iterator[pa.Buffer | None]:
        """Give the bytes that references of an answer name, one after another; None for nulls.

        Raises
        ------
        StoreAccessError
            Without a ``references=`` reader; otherwise as ``ReferenceReader.fetch_all``.
        """
        if self._references is None:
            raise StoreAccessError(
                "this live store reads no data that are held elsewhere",
                hint='make it with references=ReferenceReader(["/data"]), the places it may read',
            )
        return self._references.fetch_all(references)

    def dump(self, path: str | Path) -> None:
        """Write all events to a file, which :meth:`load` and a journal read."""
        with opening(path):
            write_events(path, pieces_of(self.batches()))

    def load(self, path: str | Path, *, salvage: bool = False) -> int:
        """Take the events of a dump or a journal; return how many were new.

        The last frame of a journal that was being written is left out, which the log of
        ``tessel`` says.

        Parameters
        ----------
        path
            The file.
        salvage
            Whether to take what is whole of a damaged file; the log says what is left out.

        Raises
        ------
        NotAStoreError, FormatVersionError
            For a file that holds something else, or was written by a newer version.
        CorruptStoreError
            For damage without ``salvage``; nothing is taken then.
        """
        with opening(path):
            events = list(read_events(path, salvage=salvage))
        return self._take(events)

    def close(self) -> None:
        """Stop serving, and let journal and recording go; the events can still be asked.

        Cells of a recording that were not read yet can be, while nobody collects its version.
        """
        while self._servers:
            self._servers.pop().close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._recording is not None:
            self._recording.close()

    def subscribe(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call ``callback`` with every change, on the thread that made it; return what ends it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _tell(self, change: Change) -> None:
        for callback in list(self._subscribers):
            callback(change)

    def check(self) -> None:
        """Verify what must always hold; raises ``AssertionError`` where it does not."""
        self._view.verify()

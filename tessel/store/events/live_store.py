"""LiveStore: events in memory, answered while they are written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from tessel.errors import ColumnNotFoundError, InvalidInputError, NameNotFoundError
from tessel.store.events.batch import EventBatch, batches_of_rows
from tessel.store.events.chunk import Chunk, merged
from tessel.store.events.collection import (
    Collected,
    collect_before,
    drop_where,
    id_at_fraction,
)
from tessel.store.events.event_file import Journal, read_events, write_events
from tessel.store.events.event_ids import id_parts
from tessel.store.events.index import EventIndex, ShapeLog
from tessel.store.events.queries import Found, latest_at, range_of, view_of
from tessel.store.events.recordings import load_recording, save_recording
from tessel.store.events.row import Row
from tessel.store.events.table import Table
from tessel.store.events.timeline import TimelineKind, time_point_of
from tessel.store.repository import Repository

__all__ = ["Change", "LiveStore"]

Events = Row | Table | EventBatch | Iterable[Row] | Iterable[EventBatch]
_MOST_ROUNDS = 4


@dataclass(frozen=True)
class Change:
    """What a subscriber is told.

    Attributes
    ----------
    kind
        ``"added"``, ``"collected"`` or ``"dropped"``.
    events
        How many.
    batches
        Those that were added.
    horizons
        Of a collection: from when on every state is what it was.
    """

    kind: Literal["added", "collected", "dropped"]
    events: int
    batches: tuple[EventBatch, ...] = ()
    horizons: tuple[tuple[str, int], ...] = ()


class LiveStore:
    """Events by entity, timeline and component; any number of threads read while others write.

    Parameters
    ----------
    journal
        A file that has every event before :meth:`insert` returns; what it holds is taken first.
    durable
        ``"process"``: events survive ``kill -9``; ``"power"``: also that the power fails.

    Examples
    --------
    >>> store = LiveStore()
    >>> recorder = Recorder(store)
    >>> recorder.log("robot/arm", {"angle": 0.5}, frame=42)
    >>> recorder.flush()
    >>> store.latest_at("frame", 50, "robot/arm")["angle"].cell.to_list()
    [0.5]
    """

    def __init__(
        self, *, journal: str | Path | None = None, durable: Literal["process", "power"] = "process"
    ) -> None:
        if durable not in ("process", "power"):
            raise InvalidInputError(f"durable is {durable!r}", hint='it is "process" or "power"')
        self._index = EventIndex()
        self._lock = threading.RLock()
        self._subscribers: list[Callable[[Change], object]] = []
        self._journal: Journal | None = None
        if journal is not None:
            opened = Journal(journal, sync=durable == "power")
            try:
                self.insert(list(opened.replay()))
            except BaseException:
                opened.close()
                raise
            self._journal = opened

    # --- writing ----------------------------------------------------------------------------------

    def insert(self, events: Events) -> int:
        """Take events; return how many were new. All of them, or none.

        An event that is here already is passed over. Times in any order are taken.

        Raises
        ------
        InvalidInputError
            For an event whose id another one has, a timeline of another kind than before, or a
            component of another type; the store is as it was.
        """
        batches = _batches(events)
        with self._lock:
            new = self._new_ones(batches)
            if self._journal is not None and new:
                self._journal.append(new)
            for batch in new:
                self._index.log(batch.shape).add(batch.chunk)
                self._index.last_id = max(self._index.last_id, batch.chunk.last_id)
        count = sum(map(len, new))
        if new:
            self._tell(Change("added", count, tuple(new)))
        return count

    def _new_ones(self, batches: Sequence[EventBatch]) -> list[EventBatch]:
        trial = EventIndex()  # of these alone: they must fit each other as well
        new = []
        for batch in batches:
            if not len(batch):
                continue
            self._index.check(batch.shape)
            trial.check(batch.shape)
            fresh = self._without_known(self._index, batch)
            fresh = None if fresh is None else self._without_known(trial, fresh)
            if fresh is not None:
                trial.log(fresh.shape).add(fresh.chunk)
                trial.last_id = max(trial.last_id, fresh.chunk.last_id)
                new.append(fresh)
        return new

    @staticmethod
    def _without_known(index: EventIndex, batch: EventBatch) -> EventBatch | None:
        """Return a batch without the events that are here, which must be the same."""
        chunk = batch.chunk
        wanted = np.ones(len(chunk), np.bool_)
        for row in index.known(chunk).tolist():
            place = index.find(chunk.id_at(row))
            if place is None:
                continue
            if not _same(batch, row, place.log, place.chunk, place.row):
                raise InvalidInputError(
                    f"another event has the id {chunk.ids(np.array([row])).tolist()[0]}",
                    hint="make ids with EventIds, one for each process",
                    entity=batch.shape.entity,
                )
            wanted[row] = False
        for row in (np.flatnonzero(_repeated(chunk)) + 1).tolist():
            if not _same(batch, row, ShapeLog(batch.shape), chunk, row - 1):
                raise InvalidInputError(f"two events of a batch have one id: rows {row - 1}, {row}")
            wanted[row] = False
        if wanted.all():
            return batch
        rows = np.flatnonzero(wanted)
        return EventBatch(batch.shape, chunk.take(rows)) if len(rows) else None

    # --- reading ----------------------------------------------------------------------------------

    def latest_at(
        self,
        timeline: str,
        time: Any,
        entity: str,
        components: Sequence[str] | None = None,
    ) -> dict[str, Found]:
        """Return the state of an entity at a time.

        Parameters
        ----------
        timeline, time
            When: a number, or a time of the timeline's kind.
        components
            Those wanted; all by default.

        Returns
        -------
        dict
            By component; without those that were not logged by then, or cleared since.
        """
        number = self._time(timeline, time)
        return latest_at(self._index, timeline, number, entity, self._names(entity, components))

    def range(
        self,
        timeline: str,
        first: Any,
        last: Any,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        include_latest_at_start: bool = False,
    ) -> pa.Table:
        """Return what happened to an entity between two times, both included.

        Returns
        -------
        pyarrow.Table
            By (time, id): the time, ``event_id``, ``num_instances``, ``cleared`` (true for an event
            that cleared the entity), and a list or null a component.
            ``include_latest_at_start`` puts the events that are the state just before in front, as
            far as they had no part in it otherwise null.
        """
        start, stop = self._time(timeline, first), self._time(timeline, last)
        names = self._names(entity, components)
        found = range_of(self._index, timeline, start, stop, entity, names)
        if not include_latest_at_start:
            return found
        state = latest_at(self._index, timeline, start - 1, entity, names)
        before = _state_rows(state, found.schema, timeline)
        return pa.concat_tables([before, found])

    def table(
        self,
        timeline: str,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        at: Sequence[Any] | None = None,
        fill: Literal["latest_at"] | None = None,
        origins: bool = False,
    ) -> pa.Table:
        """Return a row a time of the timeline.

        Parameters
        ----------
        at
            The times of the rows; by default each at which one of the components was logged.
        fill
            ``"latest_at"`` fills with the state at the time; by default a cell is what was logged
            at exactly that time.
        origins
            Whether to add a column ``component.timeline`` that says when each cell was logged.
        """
        if fill not in (None, "latest_at"):
            raise InvalidInputError(f"fill is {fill!r}", hint='it is "latest_at", or None')
        self._time(timeline, 0)  # refuses one that is unknown
        times = None if at is None else np.array([self._time(timeline, t) for t in at], np.int64)
        return view_of(
            self._index,
            timeline,
            entity,
            self._names(entity, components),
            times,
            fill=fill is not None,
            origins=origins,
        )

    def entities(self) -> list[str]:
        """Return the paths of all entities."""
        return sorted(self._index.by_entity)

    def components(self, entity: str) -> list[str]:
        """Return the components of an entity."""
        return self._index.components(entity)

    def timelines(self) -> dict[str, TimelineKind]:
        """Return all timelines, and what they count."""
        return {name: timeline.kind for name, timeline in sorted(self._index.timelines.items())}

    def batches(self) -> list[EventBatch]:
        """Return all events as they lie."""
        logs = list(self._index.logs.values())
        return [EventBatch(log.shape, chunk) for log in logs for chunk in log.chunks]

    def __len__(self) -> int:
        return sum(len(log) for log in list(self._index.logs.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of all events, and of the orders that queries made."""
        return sum(log.nbytes for log in list(self._index.logs.values()))

    def __repr__(self) -> str:
        lines = [f"LiveStore({len(self)} events, {self.nbytes} bytes)"]
        for log in list(self._index.logs.values()):
            times = ", ".join(t.name for t in log.shape.timelines) or "timeless"
            names = ", ".join(name for name, _ in log.shape.components)
            lines.append(
                f"  {log.shape.entity} [{times}] {names}: {len(log)} events in "
                f"{len(log.chunks)} chunks"
            )
        return "\n".join(lines)

    # --- letting go -------------------------------------------------------------------------------

    def collect(
        self,
        *,
        keep_bytes: int | None = None,
        fraction: float | None = None,
        before: bytes | None = None,
    ) -> Collected:
        """Let the oldest events go, by their ids.

        Timeless ones stay, and every state at and after the horizon is what it was.

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
        if len(given) != 1 or (fraction is not None and not 0 <= fraction <= 1):
            raise InvalidInputError(
                "collect takes one target", hint="keep_bytes, fraction between 0 and 1, or before"
            )
        with self._lock:
            size = self.nbytes
            events, horizons = 0, dict[str, int]()
            for _ in range(_MOST_ROUNDS if keep_bytes is not None else 1):
                part = fraction
                if keep_bytes is not None:
                    if self.nbytes <= keep_bytes:
                        break
                    part = min(1.0, 1 - keep_bytes / self.nbytes)
                cut = id_parts(before) if before else id_at_fraction(self._index, part or 0.0)
                gone, found = collect_before(self._index, cut)
                events += gone
                horizons = {
                    name: max(time, horizons.get(name, time))
                    for name, time in {**horizons, **found}.items()
                }
            collected = Collected(events, size, self.nbytes, horizons)
            self._let_go()
        self._tell(Change("collected", events, (), tuple(sorted(horizons.items()))))
        return collected

    def drop_after(self, timeline: str, time: Any) -> int:
        """Drop every event after a time of a timeline; return how many."""
        return self.drop_range(timeline, self._time(timeline, time) + 1, 2**63 - 1)

    def drop_range(self, timeline: str, first: Any, last: Any) -> int:
        """Drop every event between two times of a timeline, both included; return how many.

        An event goes from all its timelines.
        """
        start, stop = self._time(timeline, first), self._time(timeline, last)

        def keep(log: ShapeLog, chunk: Chunk) -> np.ndarray:
            at = log.timelines.get(timeline)
            if at is None:
                return np.ones(len(chunk), np.bool_)
            times = chunk.times[at]
            return (times < start) | (times > stop)

        with self._lock:
            events = drop_where(self._index, keep)
            self._let_go()
        self._tell(Change("dropped", events))
        return events

    def compact(self) -> None:
        """Merge the chunks of each shape; no answer changes."""
        with self._lock:
            for log in list(self._index.logs.values()):
                if len(log.chunks) > 1:
                    log.chunks = (merged(log.chunks),)

    def _let_go(self) -> None:
        if self._journal is not None:
            self._journal.rewrite(self.batches())

    # --- keeping ----------------------------------------------------------------------------------

    def save(self, store: Repository, name: str) -> int:
        """Write all events to a store as the symbols ``name/entity``; return the version.

        They are ordinary symbols, for queries of any kind; :meth:`open` makes them a live store.
        """
        return save_recording(store, name, self.batches())

    @classmethod
    def open(cls, store: Repository, name: str) -> LiveStore:
        """Return the recording that :meth:`save` wrote, with the same answer to every question."""
        live = cls()
        live.insert(load_recording(store, name))
        return live

    def dump(self, path: str | Path) -> None:
        """Write all events to a file, which :meth:`load` and a journal read."""
        write_events(path, self.batches())

    def load(self, path: str | Path) -> int:
        """Take the events of a file; return how many were new. A torn last batch is left out."""
        return self.insert(list(read_events(path)))

    def close(self) -> None:
        """Let the journal go; the events can still be asked."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def subscribe(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call ``callback`` with every change, on the thread that made it; return what ends it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _tell(self, change: Change) -> None:
        for callback in list(self._subscribers):
            callback(change)

    # --- arguments --------------------------------------------------------------------------------

    def _time(self, timeline: str, time: Any) -> int:
        known = self._index.timelines.get(timeline)
        if known is None:
            raise NameNotFoundError.for_name("timeline", timeline, sorted(self._index.timelines))
        ((found, number),) = time_point_of({timeline: time}).items()
        if found.kind not in (known.kind, TimelineKind.SEQUENCE):
            raise InvalidInputError(
                f"timeline {timeline!r} counts {known.kind.value}s, and {time!r} is a "
                f"{found.kind.value}",
                timeline=timeline,
            )
        return number

    def _names(self, entity: str, components: Sequence[str] | None) -> list[str]:
        if entity not in self._index.by_entity:
            raise NameNotFoundError.for_name("entity", entity, self.entities())
        existing = self._index.components(entity)
        if components is None:
            return existing
        for name in components:
            if name not in existing:
                raise ColumnNotFoundError.for_name(name, existing, where=f"entity {entity!r}")
        return list(dict.fromkeys(components))

    # --- invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Verify what must always hold; raises ``AssertionError`` where it does not."""
        seen: set[tuple[int, int]] = set()
        for shape, log in self._index.logs.items():
            for chunk in log.chunks:
                rows = np.arange(len(chunk))
                ids = [tuple(pair) for pair in chunk.ids(rows).tolist()]
                assert ids == sorted(ids), f"ids of {shape.entity} out of order"
                assert seen.isdisjoint(ids), f"an id of {shape.entity} twice"
                seen.update(ids)
                assert len(ids) == len(chunk) > 0
                assert all(len(times) == len(chunk) for times in chunk.times)
                assert len(chunk.instances) in (1, len(chunk))
                for (name, kind), cells in zip(shape.components, chunk.cells, strict=True):
                    assert len(cells) == len(chunk)
                    held = cells.type.value_type if cells.type != kind else kind
                    assert held == kind, f"{name} of {shape.entity} is {cells.type}"
                for at in range(len(chunk.times)):
                    order, times = chunk.ordered(at)
                    assert bool((times[1:] >= times[:-1]).all())
                    if order is not None:
                        assert np.array_equal(np.sort(order), rows)
        assert all(id_ <= self._index.last_id for id_ in seen)


def _batches(events: Events) -> list[EventBatch]:
    if isinstance(events, Row):
        return batches_of_rows([events])
    if isinstance(events, Table):
        return events.batches()
    if isinstance(events, EventBatch):
        return [events]
    given: list[Any] = list(events)
    if all(isinstance(each, EventBatch) for each in given):
        return given
    return Table.from_rows(given).batches()


def _repeated(chunk: Chunk) -> np.ndarray:
    """Return which rows, from the second on, have the id of the row before."""
    ids = chunk.ids(np.arange(len(chunk)))
    return np.asarray((ids[1:] == ids[:-1]).all(axis=1))


def _same(batch: EventBatch, row: int, log: ShapeLog, chunk: Chunk, other: int) -> bool:
    mine, theirs = batch.chunk.take(np.array([row])), chunk.take(np.array([other]))
    return (
        batch.shape == log.shape
        and [times.tolist() for times in mine.times] == [times.tolist() for times in theirs.times]
        and mine.instances.tolist() == theirs.instances.tolist()
        and all(
            mine.lists(at).equals(theirs.lists(at)) for at in range(len(batch.shape.components))
        )
    )


def _state_rows(state: dict[str, Found], schema: pa.Schema, timeline: str) -> pa.Table:
    """Return the events of a state as rows of a range, those of one event together."""
    events: dict[tuple[int, bytes], dict[str, Found]] = {}
    for component, found in state.items():
        if found.time is not None:
            events.setdefault((found.time, found.event_id), {})[component] = found
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for (time, event_id), cells in sorted(events.items()):
        columns[timeline].append(time)
        columns["event_id"].append(event_id)
        columns["num_instances"].append(next(iter(cells.values())).num_instances)
        columns["cleared"].append(False)
        for name in schema.names[4:]:
            cell = cells.get(name)
            columns[name].append(None if cell is None else cell.cell.values)
    arrays = []
    for field in schema:
        values = columns[field.name]
        if field.name == timeline:
            arrays.append(pa.array(values, pa.int64()).view(field.type))
        elif pa.types.is_large_list(field.type):
            arrays.append(_lists(values, field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _lists(values: Sequence[pa.Array | None], kind: pa.DataType) -> pa.Array:
    parts = [pa.array([], kind.value_type) if each is None else each for each in values]
    offsets = pa.array(np.cumsum([0, *map(len, parts)]), pa.int64())
    flat = pa.concat_arrays([pa.array([], kind.value_type), *parts])
    mask = pa.array([each is None for each in values], pa.bool_())
    return pa.LargeListArray.from_arrays(offsets, flat, kind, mask=mask if len(parts) else None)

"""What a live store knows of its events: views, each of which is whole and never changes.

A *view* holds the logs of all shapes, by entity. Writers make the next view as a *draft*, and
publish it with one assignment; a query takes the published view and keeps it to its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Chunk, Shape, merged
from tessel.store.events.row import MARKS
from tessel.store.events.timeline import Timeline

Key = tuple[int, int, int]
"""What decides between two events: time, and the two parts of the id."""

IdTimes = npt.NDArray[np.uint64]
_MERGED_ROWS = 65_536


@dataclass(frozen=True)
class Place:
    """Where an event lies."""

    key: Key
    log: ShapeLog
    chunk: Chunk
    row: int


@dataclass(frozen=True, eq=False)
class ShapeLog:
    """The events of one shape; never changed."""

    shape: Shape
    chunks: tuple[Chunk, ...] = ()

    def with_chunk(self, chunk: Chunk) -> ShapeLog:
        """Return the log with a chunk, small ones merged: each row moves about log(rows) times."""
        chunks = [*self.chunks, chunk]
        while len(chunks) > 1:
            last, before = len(chunks[-1]), len(chunks[-2])
            if before > 2 * last or before + last > _MERGED_ROWS:
                break
            if chunks[-1].at_rest != chunks[-2].at_rest:
                break  # what is at rest is not read for the sake of a neighbour
            chunks[-2:] = [merged(chunks[-2:])]
        return ShapeLog(self.shape, tuple(chunks))

    def latest(self, timeline: str, time: int) -> Place | None:
        """Return the last event at or before a time, by (time, id)."""
        at = self.shape.timeline_places.get(timeline)
        if at is None:
            return None
        best: Place | None = None
        for chunk in reversed(self.chunks):
            low, high = chunk.bounds[at]
            if low > time or (best is not None and min(high, time) < best.key[0]):
                continue
            order, times = chunk.ordered(at)
            position = int(times.searchsorted(time, side="right")) - 1
            row = position if order is None else int(order[position])
            key = (int(times[position]), *chunk.id_at(row))
            if best is None or key > best.key:
                best = Place(key, self, chunk, row)
        return best

    def last(self) -> Place | None:
        """Return the event with the greatest id: of timeless events the one that counts."""
        if not self.chunks:
            return None
        chunk = max(self.chunks, key=attrgetter("last_id"))
        return Place((0, *chunk.last_id), self, chunk, len(chunk) - 1)

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def __len__(self) -> int:
        return sum(map(len, self.chunks))


@dataclass(frozen=True, eq=False)
class EntityLogs:
    """The logs of one entity by shape; never changed.

    Attributes
    ----------
    lists
        Names of the components of which an event had several values: they are lists from then on,
        whatever becomes of the event.
    """

    logs: Mapping[Shape, ShapeLog]
    lists: frozenset[str] = frozenset()

    @cached
    def by_component(self) -> dict[str, tuple[ShapeLog, ...]]:
        """Return the logs that have a component, marks of clears among them."""
        found: dict[str, tuple[ShapeLog, ...]] = {}
        for log in self.logs.values():
            for name in log.shape.component_places:
                found[name] = (*found.get(name, ()), log)
        return found

    @cached
    def components(self) -> tuple[str, ...]:
        """Return the names of the components, without marks of clears."""
        return tuple(sorted(self.by_component.keys() - MARKS))

    def latest(self, component: str, timeline: str, time: int) -> Place | None:
        """Return the last event with a component at or before a time; clears are not asked."""
        return _last(log.latest(timeline, time) for log in self.by_component.get(component, ()))

    def timeless(self, component: str) -> Place | None:
        """Return the last timeless event with a component; clears are not asked."""
        logs = self.by_component.get(component, ())
        return _last(log.last() for log in logs if not log.shape.timelines)


def _last(places: Iterable[Place | None]) -> Place | None:
    best: Place | None = None
    for place in places:
        if place is not None and (best is None or place.key > best.key):
            best = place
    return best


NOTHING = EntityLogs({})
"""What is known of an entity that is not here."""


class ByEntity(Mapping[str, EntityLogs]):
    """The logs of each entity; never changed. A change copies the parts that it touches.

    There are at least twice as many parts as the root of the number of entities, so that neither
    the list of parts nor a part is long: one insert of an event copies both.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, parts: Sequence[dict[str, EntityLogs]] = ({},), count: int = 0) -> None:
        self._parts = parts  # a power of two
        self._count = count

    def __getitem__(self, entity: str) -> EntityLogs:
        return self._part(entity)[entity]

    def of(self, entity: str) -> EntityLogs:
        """Return the logs of an entity; of one that is not known none."""
        return self._parts[hash(entity) & len(self._parts) - 1].get(entity, NOTHING)

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return self._count

    def every(self) -> Iterator[EntityLogs]:
        """Give the logs of all entities."""
        return itertools.chain.from_iterable(part.values() for part in self._parts)

    def replaced(self, changed: Mapping[str, EntityLogs]) -> ByEntity:
        """Return a copy in which some entities have these logs."""
        count = self._count + sum(1 for entity in changed if entity not in self._part(entity))
        parts, new = self._spread(count), set[int]()
        for entity, logs in changed.items():
            at = hash(entity) & len(parts) - 1
            if at not in new:
                parts[at] = parts[at].copy()
                new.add(at)
            parts[at][entity] = logs
        return ByEntity(parts, count)

    def _part(self, entity: str) -> dict[str, EntityLogs]:
        return self._parts[hash(entity) & len(self._parts) - 1]

    def _spread(self, count: int) -> list[dict[str, EntityLogs]]:
        """Return the parts, shared where they are enough for so many entities."""
        size = len(self._parts)
        while size * size < 4 * count:
            size *= 2
        if size == len(self._parts):
            return list(self._parts)
        parts: list[dict[str, EntityLogs]] = [{} for _ in range(size)]
        for entity, logs in self.items():
            parts[hash(entity) & size - 1][entity] = logs
        return parts


@dataclass(frozen=True, eq=False)
class View:
    """All events at one moment.

    Attributes
    ----------
    last_id
        The greatest id that was ever here.
    """

    entities: ByEntity = field(default_factory=ByEntity)
    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    last_id: tuple[int, int] = (-1, -1)

    def logs(self) -> Iterator[ShapeLog]:
        """Give all logs."""
        return itertools.chain.from_iterable(each.logs.values() for each in self.entities.every())

    def batches(self) -> list[EventBatch]:
        """Return all events as they lie."""
        return [
            EventBatch(log.shape, chunk, logs.lists & log.shape.names)
            for logs in self.entities.every()
            for log in logs.logs.values()
            for chunk in log.chunks
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(log.nbytes for log in self.logs())

    def __len__(self) -> int:
        return sum(map(len, self.logs()))

    def marks(self, entity: str) -> list[tuple[EntityLogs, str]]:
        """Return logs and marks that clear an entity: its own, and recursive ones above."""
        flat, recursive = MARKS
        logs = self.entities.of(entity)
        found = [(logs, flat)] if flat in logs.by_component else []
        above, slash = entity, "/"
        while slash:
            if recursive in logs.by_component:
                found.append((logs, recursive))
            above, slash, _ = above.rpartition("/")
            logs = self.entities.of(above)
        return found

    def find(self, event_id: tuple[int, int], entity: str) -> Place | None:
        """Return where the event of an id lies, most likely with an entity."""
        for log in itertools.chain(self.entities.of(entity).logs.values(), self.logs()):
            for chunk in log.chunks:
                row = chunk.find(event_id)
                if row is not None:
                    return Place((0, *event_id), log, chunk, row)
        return None

    def known(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Return the rows of chunks, end to end, that may be here already, as their time is."""
        first = min(chunk.first_id for chunk in chunks)
        if first > self.last_id:
            return np.zeros(0, np.int64)
        last = max(chunk.last_id for chunk in chunks)
        id_times = np.concatenate([chunk.id_times for chunk in chunks])
        times = np.sort(id_times)
        common = [
            _common(times, chunk.id_times)
            for log in self.logs()
            for chunk in log.chunks
            if chunk.last_id >= first and chunk.first_id <= last
        ]
        return np.flatnonzero(np.isin(id_times, np.concatenate([times[:0], *common])))

    def verify(self) -> None:
        """Verify what must always hold; raises ``AssertionError`` where it does not."""
        # No assert statements: under python -O this would verify nothing.
        seen: set[tuple[int, int]] = set()
        for log in self.logs():
            shape = log.shape
            _require(self.entities[shape.entity].logs[shape] is log, "a log of another shape")
            for chunk in log.chunks:
                rows = np.arange(len(chunk))
                ids = [tuple(pair) for pair in chunk.ids(rows).tolist()]
                _require(ids == sorted(ids), f"ids of {shape.entity} out of order")
                _require(seen.isdisjoint(ids), f"an id of {shape.entity} twice")
                seen.update(ids)
                _require(len(ids) == len(chunk) > 0, "a chunk without events, or ids missing")
                _require(all(len(times) == len(chunk) for times in chunk.times), "times missing")
                _require(len(chunk.instances) in (1, len(chunk)), "counts of instances missing")
                _require(len(chunk.arrived_at(rows)) == len(chunk), "arrivals missing")
                for at, ((name, kind), cells) in enumerate(
                    zip(shape.components, chunk.cells, strict=True)
                ):
                    _require(len(cells) == len(chunk), f"cells of {name} missing")
                    held = cells.type.value_type if cells.type != kind else kind
                    _require(held == kind, f"{name} of {shape.entity} is {cells.type}")
                    known = (
                        not chunk.has_several(at) or name in self.entities.of(shape.entity).lists
                    )
                    _require(known, f"{name} of {shape.entity} has several values unannounced")
                for at in range(len(chunk.times)):
                    order, times = chunk.ordered(at)
                    _require(bool((times[1:] >= times[:-1]).all()), "times out of order")
                    if order is not None:
                        _require(np.array_equal(np.sort(order), rows), "an order that is none")
        _require(all(id_ <= self.last_id for id_ in seen), "an id beyond the last")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


class Draft:
    """The next view while it is made: nobody sees it, and the view before stays as it is."""

    def __init__(self, view: View) -> None:
        self._before = view
        self._changed: dict[str, tuple[dict[Shape, ShapeLog], set[str]]] = {}
        self._timelines: dict[str, Timeline] = {}
        self._last_id = view.last_id

    def view(self) -> View:
        """Return what was made."""
        before = self._before
        changed = {}
        for entity, (logs, lists) in self._changed.items():
            known = before.entities.of(entity).lists
            changed[entity] = EntityLogs(logs, known | lists if lists else known)
        timelines = before.timelines
        if self._timelines:
            timelines = {**timelines, **self._timelines}
        return View(before.entities.replaced(changed), timelines, self._last_id)

    def declare(self, shape: Shape) -> None:
        """Take up a shape, unless it does not fit those that are here.

        Raises InvalidInputError for a timeline of another kind, or a component of another type.
        """
        for timeline in shape.timelines:
            known = self._before.timelines.get(timeline.name)
            if known is None:
                known = self._timelines.setdefault(timeline.name, timeline)
            if known != timeline:
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {known.kind.value}s, and this event says "
                    f"{timeline.kind.value}",
                    hint="the first use of a timeline fixes its kind; use another name",
                    timeline=timeline.name,
                )
        logs, _ = self._of(shape.entity)
        if shape in logs:
            return
        for log in logs.values():
            known_types = dict(log.shape.components)
            for name, kind in shape.components:
                if known_types.get(name, kind) != kind:
                    raise InvalidInputError(
                        f"component {name!r} of {shape.entity!r} is {known_types[name]}, and this "
                        f"event has {kind}",
                        hint="the first use of a component fixes its type; use another name",
                        component=name,
                    )
        logs[shape] = ShapeLog(shape)

    def add(self, batch: EventBatch) -> None:
        """Add events of a shape that was declared."""
        chunk, shape = batch.chunk, batch.shape
        logs, lists = self._of(shape.entity)
        logs[shape] = logs[shape].with_chunk(chunk)
        self._last_id = max(self._last_id, chunk.last_id)
        lists |= batch.lists
        for at, (name, _) in enumerate(shape.components):
            if chunk.has_several(at):
                lists.add(name)

    def replace(self, log: ShapeLog, chunks: tuple[Chunk, ...]) -> None:
        """Have these chunks in place of all that a log has."""
        self._of(log.shape.entity)[0][log.shape] = ShapeLog(log.shape, chunks)

    def _of(self, entity: str) -> tuple[dict[Shape, ShapeLog], set[str]]:
        """Return the logs of an entity, and the components that are lists from now on."""
        found = self._changed.get(entity)
        if found is None:
            found = self._changed[entity] = dict(self._before.entities.of(entity).logs), set()
        return found


def _common(one: IdTimes, two: IdTimes) -> IdTimes:
    """Return what two ascending arrays both hold, by looking the shorter up in the longer."""
    short, long = (one, two) if len(one) < len(two) else (two, one)
    at = np.minimum(long.searchsorted(short), len(long) - 1)
    found: IdTimes = short[long[at] == short]
    return found

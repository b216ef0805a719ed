"""What a live store knows of its events: the logs of each shape, and which of them to ask.

A log holds the chunks of one shape as a tuple that is swapped whole: who reads it holds what was
there when he looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tessel.errors import InvalidInputError
from tessel.store.events.chunk import Chunk, Shape, merged
from tessel.store.events.row import MARKS
from tessel.store.events.timeline import Timeline

__all__ = ["EventIndex", "Key", "Place", "ShapeLog", "View"]

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


class ShapeLog:
    """The events of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.chunks: tuple[Chunk, ...] = ()
        self.timelines = {timeline.name: at for at, timeline in enumerate(shape.timelines)}
        self.components = {name: at for at, (name, _) in enumerate(shape.components)}

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, and merge small ones: each row is moved about log(rows) times."""
        chunks = [*self.chunks, chunk]
        while len(chunks) > 1:
            last, before = len(chunks[-1]), len(chunks[-2])
            if before > 2 * last or before + last > _MERGED_ROWS:
                break
            if chunks[-1].at_rest != chunks[-2].at_rest:
                break  # what is at rest is not read for the sake of a neighbour
            chunks[-2:] = [merged(chunks[-2:])]
        self.chunks = tuple(chunks)

    def latest(self, chunks: Sequence[Chunk], timeline: str, time: int) -> Place | None:
        """Return the last event of some chunks at or before a time, by (time, id)."""
        at = self.timelines.get(timeline)
        if at is None:
            return None
        best: Place | None = None
        for chunk in reversed(chunks):
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

    def last(self, chunks: Sequence[Chunk]) -> Place | None:
        """Return the event with the greatest id: of timeless events the one that counts."""
        best: Place | None = None
        for chunk in chunks:
            key = (0, *chunk.last_id)
            if best is None or key > best.key:
                best = Place(key, self, chunk, len(chunk) - 1)
        return best

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def __len__(self) -> int:
        return sum(map(len, self.chunks))


class View(dict[ShapeLog, tuple[Chunk, ...]]):
    """The chunks of each log as they were when a query first asked: it never sees half an event."""

    def __missing__(self, log: ShapeLog) -> tuple[Chunk, ...]:
        chunks = self[log] = log.chunks
        return chunks


class EventIndex:
    """All logs, and the ways to them. Changed under the store's lock, read without one."""

    def __init__(self) -> None:
        self.logs: dict[Shape, ShapeLog] = {}
        self.by_component: dict[tuple[str, str], tuple[ShapeLog, ...]] = {}
        self.by_entity: dict[str, tuple[ShapeLog, ...]] = {}
        self.timelines: dict[str, Timeline] = {}
        self.last_id = (-1, -1)

    def check(self, shape: Shape) -> None:
        """Refuse a shape that does not fit those that are here.

        Raises
        ------
        InvalidInputError
            For a timeline of another kind, or a component of another type.
        """
        for timeline in shape.timelines:
            known = self.timelines.get(timeline.name, timeline)
            if known != timeline:
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {known.kind.value}s, and this event says "
                    f"{timeline.kind.value}",
                    hint="the first use of a timeline fixes its kind; use another name",
                    timeline=timeline.name,
                )
        for name, kind in shape.components:
            for log in self.by_component.get((shape.entity, name), ()):
                held = dict(log.shape.components)[name]
                if held != kind:
                    raise InvalidInputError(
                        f"component {name!r} of {shape.entity!r} is {held}, and this event has "
                        f"{kind}",
                        hint="the first use of a component fixes its type; use another name",
                        component=name,
                    )

    def log(self, shape: Shape) -> ShapeLog:
        """Return the log of a shape, a new one where there is none."""
        found = self.logs.get(shape)
        if found is None:
            found = ShapeLog(shape)
            self.timelines.update({timeline.name: timeline for timeline in shape.timelines})
            entity = shape.entity
            self.by_entity[entity] = (*self.by_entity.get(entity, ()), found)
            for name, _ in shape.components:
                before = self.by_component.get((entity, name), ())
                self.by_component[entity, name] = (*before, found)
            self.logs[shape] = found
        return found

    def components(self, entity: str) -> list[str]:
        """Return the components that an entity has, without marks of clears."""
        names = {name for log in self.by_entity.get(entity, ()) for name in log.shape.names}
        return sorted(names - set(MARKS))

    def latest(
        self, view: View, timeline: str, time: int, entity: str, component: str
    ) -> Place | None:
        """Return the last event with a component at or before a time; clears are not asked."""
        best: Place | None = None
        for log in self.by_component.get((entity, component), ()):
            found = log.latest(view[log], timeline, time)
            if found is not None and (best is None or found.key > best.key):
                best = found
        return best

    def timeless(self, view: View, entity: str, component: str) -> Place | None:
        """Return the last timeless event with a component; clears are not asked."""
        best: Place | None = None
        for log in self.by_component.get((entity, component), ()):
            found = log.last(view[log]) if not log.timelines else None
            if found is not None and (best is None or found.key > best.key):
                best = found
        return best

    def marks(self, entity: str) -> Iterator[tuple[str, str]]:
        """Give the entities and marks that clear an entity: its own, and recursive ones above."""
        flat, recursive = MARKS
        if (entity, flat) in self.by_component:
            yield entity, flat
        parts = entity.split("/")
        for count in range(len(parts), 0, -1):
            above = "/".join(parts[:count])
            if (above, recursive) in self.by_component:
                yield above, recursive

    def find(self, event_id: tuple[int, int]) -> Place | None:
        """Return where the event of an id lies."""
        if event_id > self.last_id:
            return None
        for log in list(self.logs.values()):
            for chunk in log.chunks:
                row = chunk.find(event_id)
                if row is not None:
                    return Place((0, *event_id), log, chunk, row)
        return None

    def known(self, id_times: IdTimes) -> np.ndarray:
        """Return the rows of ids that may be here already: an event has their time."""
        first, last = id_times.min(), id_times.max()
        if not len(self.logs) or int(first) > self.last_id[0]:
            return np.zeros(0, np.int64)
        times = np.sort(id_times)
        common = [
            _common(times, chunk.id_times)
            for log in self.logs.values()
            for chunk in log.chunks
            if chunk.id_times[-1] >= first and chunk.id_times[0] <= last
        ]
        return np.flatnonzero(np.isin(id_times, np.concatenate([times[:0], *common])))

    def verify(self) -> None:
        """Verify what must always hold; raises ``AssertionError`` where it does not."""
        seen: set[tuple[int, int]] = set()
        for shape, log in self.logs.items():
            for chunk in log.chunks:
                rows = np.arange(len(chunk))
                ids = [tuple(pair) for pair in chunk.ids(rows).tolist()]
                assert ids == sorted(ids), f"ids of {shape.entity} out of order"
                assert seen.isdisjoint(ids), f"an id of {shape.entity} twice"
                seen.update(ids)
                assert len(ids) == len(chunk) > 0
                assert all(len(times) == len(chunk) for times in chunk.times)
                assert len(chunk.instances) in (1, len(chunk))
                assert len(chunk.arrived_at(rows)) == len(chunk)
                for (name, kind), cells in zip(shape.components, chunk.cells, strict=True):
                    assert len(cells) == len(chunk)
                    held = cells.type.value_type if cells.type != kind else kind
                    assert held == kind, f"{name} of {shape.entity} is {cells.type}"
                for at in range(len(chunk.times)):
                    order, times = chunk.ordered(at)
                    assert bool((times[1:] >= times[:-1]).all())
                    if order is not None:
                        assert np.array_equal(np.sort(order), rows)
        assert all(id_ <= self.last_id for id_ in seen)


def _common(one: IdTimes, two: IdTimes) -> IdTimes:
    """Return what two ascending arrays both hold, by looking the shorter up in the longer."""
    short, long = (one, two) if len(one) < len(two) else (two, one)
    at = np.minimum(long.searchsorted(short), len(long) - 1)
    found: IdTimes = short[long[at] == short]
    return found

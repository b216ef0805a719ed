"""The oracle: events in a list, every question answered by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Cells = dict[str, list[object]]


@dataclass
class Event:
    """One event; ``mark`` says whether it clears its entity, or all below."""

    event_id: bytes
    entity: str
    times: dict[str, int]
    count: int = 1
    cells: Cells = field(default_factory=dict)
    mark: str | None = None

    def clears(self, entity: str) -> bool:
        if self.mark == "flat":
            return self.entity == entity
        return self.mark == "recursive" and (entity + "/").startswith(self.entity + "/")


class Model:
    """All events, by id."""

    def __init__(self) -> None:
        self.events: dict[bytes, Event] = {}

    def add(self, event: Event) -> None:
        self.events[event.event_id] = event

    def entities(self) -> list[str]:
        return sorted({event.entity for event in self.events.values()})

    def components(self, entity: str) -> list[str]:
        found = {name for e in self.events.values() if e.entity == entity for name in e.cells}
        return sorted(found)

    def latest_at(
        self, timeline: str, time: int, entity: str, component: str
    ) -> tuple[bytes, int | None, list[object], int] | None:
        """Return id, time, values and instances of the state."""
        for timeless in (True, False):
            values = [
                (0 if timeless else e.times[timeline], e.event_id, e)
                for e in self.events.values()
                if (not e.times if timeless else timeline in e.times and e.times[timeline] <= time)
            ]
            mine = [v for v in values if v[2].entity == entity and component in v[2].cells]
            clears = [v[:2] for v in values if v[2].clears(entity)]
            if mine:
                at, event_id, event = max(mine, key=lambda v: v[:2])
                if not clears or (at, event_id) > max(clears):
                    shown = None if timeless else at
                    return event_id, shown, event.cells[component], event.count
        return None

    def range(
        self, timeline: str, first: int, last: int, entity: str, components: Iterable[str]
    ) -> list[tuple[int, bytes, bool, dict[str, list[object]]]]:
        """Return time, id, whether it clears, and the cells, of all events by (time, id)."""
        found = []
        for event in self.events.values():
            time = event.times.get(timeline)
            if time is None or not first <= time <= last:
                continue
            cells = {n: event.cells[n] for n in components if n in event.cells}
            if event.clears(entity):
                found.append((time, event.event_id, True, {}))
            elif event.entity == entity and cells:
                found.append((time, event.event_id, False, cells))
        return sorted(found, key=lambda each: each[:2])

    def table(
        self,
        timeline: str,
        times: Iterable[int] | None,
        entity: str,
        components: list[str],
        *,
        fill: bool,
    ) -> list[tuple[int, dict[str, list[object] | None]]]:
        """Return a row a time."""
        if times is None:
            times = sorted(
                {
                    event.times[timeline]
                    for event in self.events.values()
                    if event.entity == entity
                    and timeline in event.times
                    and not event.cells.keys().isdisjoint(components)
                }
            )
        rows = []
        for time in times:
            row: dict[str, list[object] | None] = {}
            for component in components:
                if fill:
                    found = self.latest_at(timeline, time, entity, component)
                else:
                    found = self.temporal().latest_at(timeline, time, entity, component)
                    found = found if found is not None and found[1] == time else None
                row[component] = None if found is None else found[2]
            rows.append((time, row))
        return rows

    def lists(self) -> set[tuple[str, str]]:
        """Return entity and name of the components of which an event has several values."""
        events = self.events.values()
        return {(e.entity, n) for e in events for n, values in e.cells.items() if len(values) > 1}

    def timeless_states(self) -> set[bytes]:
        """Return the timeless events that have a say in an answer, now or ever."""
        timeless = [event for event in self.events.values() if not event.times]
        found = set()
        for event in timeless:
            own = [e for e in timeless if e.entity == event.entity]
            if event.mark is not None:
                found |= {max(e.event_id for e in own if e.mark == event.mark)}
                continue
            cleared = max((e.event_id for e in timeless if e.clears(event.entity)), default=b"")
            for name in event.cells:
                last = max(e.event_id for e in own if name in e.cells)
                found |= {last} if last > cleared else set()
        return found

    def temporal(self) -> Model:
        """Return the model without timeless events."""
        other = Model()
        other.events = {key: e for key, e in self.events.items() if e.times}
        return other

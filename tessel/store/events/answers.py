"""EventAnswers: what can be asked of events, while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tessel.errors import ColumnNotFoundError, InvalidInputError, NameNotFoundError
from tessel.store.events.batch import EventBatch
from tessel.store.events.cell_cache import CellCache
from tessel.store.events.converters import Conversion, Wanted, conversions
from tessel.store.events.extension_types import ComponentNameType, EntityPathType
from tessel.store.events.index import EventIndex
from tessel.store.events.queries import Found, kind_of, latest_at
from tessel.store.events.row import MARKS
from tessel.store.events.tables import range_of, state_rows, states_of, view_of
from tessel.store.events.timeline import TimelineKind, time_point_of

__all__ = ["EventAnswers"]


class EventAnswers:
    """The questions of a live store; no call takes a lock, or waits for one that writes."""

    def __init__(self) -> None:
        self._index = EventIndex()
        self._cells: CellCache | None = None

    def latest_at(
        self,
        timeline: str,
        time: Any,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        convert: Wanted | None = None,
    ) -> dict[str, Found]:
        """Return the state of an entity at a time.

        Parameters
        ----------
        timeline, time
            When: a number, or a time of the timeline's kind.
        components
            Those wanted; all by default.
        convert
            By component the name of a converter, or the type its values are wanted in: see
            :mod:`tessel.store.events.converters`.

        Returns
        -------
        dict
            By component; without those that were not logged by then, or cleared since.
        """
        number = self._time(timeline, time)
        names = self._names(entity, components)
        made = self._conversions(convert, entity, names)
        state = latest_at(self._index, timeline, number, entity, names)
        for each in made:
            if each.component in state:
                found = state[each.component]
                state[each.component] = replace(found, cell=each.cell(found.cell))
        return state

    def latest_at_many(
        self,
        timeline: str,
        times: Sequence[Any] | np.ndarray,
        entity: str,
        component: str,
        *,
        event_times: bool = False,
        convert: Wanted | None = None,
    ) -> pa.Table:
        """Return the state of a component at many times at once.

        Parameters
        ----------
        timeline, times
            When, in any order: numbers, or times of the timeline's kind.
        event_times
            Whether to add columns ``log_time`` and ``ingestion_time``: when the event was logged,
            and when this store took it.
        convert
            As in :meth:`latest_at`.

        Returns
        -------
        pyarrow.Table
            A row a time, in the order asked: the time; the component, a list of values;
            ``component.timeline``, when it was logged, null for timeless data; ``event_id`` and
            ``num_instances`` of the event that logged it. Null where it was not logged by then, or
            cleared since.
        """
        self._time(timeline, 0)
        (name,) = self._names(entity, [component])
        asked = self._times(timeline, times)
        made = self._conversions(convert, entity, [name])
        found = states_of(self._index, timeline, asked, entity, name, event_times=event_times)
        return _converted(found, made)

    def range(
        self,
        timeline: str,
        first: Any,
        last: Any,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        include_latest_at_start: bool = False,
        event_times: bool = False,
        convert: Wanted | None = None,
    ) -> pa.Table:
        """Return what happened to an entity between two times, both included.

        Parameters
        ----------
        event_times
            Whether to add columns ``log_time`` and ``ingestion_time``: when each event was logged,
            and when this store took it.
        convert
            As in :meth:`latest_at`.

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
        made = self._conversions(convert, entity, names)
        found = range_of(self._index, timeline, start, stop, entity, names, event_times=event_times)
        if not include_latest_at_start:
            return _converted(found, made)
        state = latest_at(self._index, timeline, start - 1, entity, names)
        before = state_rows(state, found.schema, timeline)
        return _converted(pa.concat_tables([before, found]), made)

    def table(
        self,
        timeline: str,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        at: Sequence[Any] | None = None,
        fill: Literal["latest_at"] | None = None,
        origins: bool = False,
        event_times: bool = False,
        convert: Wanted | None = None,
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
        event_times
            Whether to add columns ``component.log_time`` and ``component.ingestion_time``: when the
            event of each cell was logged by the clock of its producer, and when this store took it.
        convert
            As in :meth:`latest_at`.
        """
        if fill not in (None, "latest_at"):
            raise InvalidInputError(f"fill is {fill!r}", hint='it is "latest_at", or None')
        self._time(timeline, 0)  # refuses one that is unknown
        times = None if at is None else self._times(timeline, at)
        names = self._names(entity, components)
        made = self._conversions(convert, entity, names)
        found = view_of(
            self._index,
            timeline,
            entity,
            names,
            times,
            fill=fill is not None,
            origins=origins,
            event_times=event_times,
        )
        return _converted(found, made)

    def entities(self) -> list[str]:
        """Return the paths of all entities."""
        return sorted(self._index.by_entity)

    def components(self, entity: str) -> list[str]:
        """Return the components of an entity."""
        return self._index.components(entity)

    def contents(self) -> pa.Table:
        """Return what there is: a row for each component of each entity.

        Returns
        -------
        pyarrow.Table
            ``entity_path``, ``component`` (of Arrow types of ours, which are text elsewhere),
            ``type`` as Arrow spells it, and ``events``, how many have it; by path and name.
        """
        counts: dict[tuple[str, str], int] = {}
        for entity in self.entities():
            for log in self._index.by_entity[entity]:
                for name in log.shape.names.difference(MARKS):
                    counts[entity, name] = counts.get((entity, name), 0) + len(log)
        rows = sorted(counts)
        types = [str(kind_of(self._index, *row)) for row in rows]
        paths, names = (pa.array([row[at] for row in rows], pa.string()) for at in (0, 1))
        columns = {
            "entity_path": pa.ExtensionArray.from_storage(EntityPathType(), paths),
            "component": pa.ExtensionArray.from_storage(ComponentNameType(), names),
            "type": pa.array(types, pa.string()),
            "events": pa.array([counts[row] for row in rows], pa.int64()),
        }
        return pa.table(columns)

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
        """Bytes in memory: of events, of orders that queries made, of cells that were read."""
        kept = 0 if self._cells is None else self._cells.nbytes
        return kept + sum(log.nbytes for log in list(self._index.logs.values()))

    def __repr__(self) -> str:
        lines = [f"LiveStore({len(self)} events, {self.nbytes} bytes)"]
        for log in list(self._index.logs.values()):
            times = ", ".join(t.name for t in log.shape.timelines) or "timeless"
            names = ", ".join(name for name, _ in log.shape.components)
            rest = sum(len(chunk) for chunk in log.chunks if chunk.at_rest)
            lines.append(
                f"  {log.shape.entity} [{times}] {names}: {len(log)} events in "
                f"{len(log.chunks)} chunks{f', {rest} with cells at rest' if rest else ''}"
            )
        return "\n".join(lines)

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

    def _times(self, timeline: str, times: Sequence[Any] | np.ndarray) -> np.ndarray:
        if isinstance(times, np.ndarray) and times.dtype.kind in "iu" and times.ndim == 1:
            if times.dtype == np.uint64 and len(times) and times.max() >= 1 << 63:
                raise InvalidInputError(f"a time of {times.max()} lies past what 64 bits can count")
            return times.astype(np.int64)
        return np.array([self._time(timeline, time) for time in times], np.int64)

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

    def _conversions(
        self, wanted: Wanted | None, entity: str, components: Sequence[str]
    ) -> list[Conversion]:
        return conversions(wanted, components, lambda name: kind_of(self._index, entity, name))


def _converted(table: pa.Table, made: Sequence[Conversion]) -> pa.Table:
    for each in made:
        table = each.column(table)
    return table

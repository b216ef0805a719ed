"""EventAnswers: what can be asked of events, while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    NameNotFoundError,
    NotFoundError,
)
from tessel.errors.arguments import checks_arguments
from tessel.store.events.batch import EventBatch
from tessel.store.events.converters import Wanted, conversions
from tessel.store.events.extension_types import ComponentNameType, EntityPathType
from tessel.store.events.index import NOTHING, View
from tessel.store.events.queries import State, found_at, kind_of, latest_at
from tessel.store.events.row import MARKS
from tessel.store.events.stored_cells import CellCache
from tessel.store.events.tables import Question, state_rows
from tessel.store.events.timeline import Timeline, TimelineKind, time_of, time_point_of


@checks_arguments
class EventAnswers:
    """The questions of a live store; no call takes a lock, or waits for one that writes.

    Each is answered from one view: of everything that one ``insert`` brought, or that one call let
    go, it sees all or nothing. Names of timelines, entities and components that nobody has used yet
    are no errors, since they may come: their answer is empty, and says which name is near. Timeless
    data hold on every timeline.
    """

    def __init__(self) -> None:
        self._view = View()
        self._cells: CellCache | None = None

    def latest_at(
        self,
        timeline: str,
        time: Any,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        convert: Wanted | None = None,
        strict: bool = False,
    ) -> State:
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
        strict
            Whether names that are not known are errors.

        Returns
        -------
        State
            A dictionary by component; without those that were not logged by then, or cleared since.

        Raises
        ------
        NameNotFoundError, ColumnNotFoundError
            With ``strict``.
        """
        asked = self._ask(timeline, [time], entity, components, convert, strict=strict)
        (number,) = asked.times.tolist()
        events = latest_at(asked.view, timeline, number, entity, asked.names)
        state = State({name: found_at(at, name, time) for name, (at, time) in events.items()})
        state.unknown = asked.unknown
        for each in asked.made:
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
        strict: bool = False,
    ) -> pa.Table:
        """Return the state of a component at many times at once.

        Parameters
        ----------
        timeline, times
            When, in any order: numbers, or times of the timeline's kind.
        event_times
            Whether to add columns ``log_time`` and ``ingestion_time``: when the event was logged,
            and when this store took it.
        convert, strict
            As in :meth:`latest_at`.

        Returns
        -------
        pyarrow.Table
            A row a time, in the order asked: the time; the component, a list of values;
            ``component.timeline``, when it was logged, null for timeless data; ``event_id`` and
            ``num_instances`` of the event that logged it. Null where it was not logged by then, or
            cleared since.
        """
        asked = self._ask(timeline, times, entity, [component], convert, strict=strict)
        return asked.answer(asked.states(event_times=event_times))

    def range(
        self,
        timeline: str,
        first: Any,
        last: Any,
        entity: str,
        components: Sequence[str] | None = None,
        *,
        include_latest_at_start: bool = False,
        include_timeless: bool = False,
        event_times: bool = False,
        convert: Wanted | None = None,
        strict: bool = False,
    ) -> pa.Table:
        """Return what happened to an entity between two times, both included, the first before.

        Parameters
        ----------
        event_times
            Whether to add columns ``log_time`` and ``ingestion_time``: when each event was logged,
            and when this store took it.
        convert, strict
            As in :meth:`latest_at`.

        Returns
        -------
        pyarrow.Table
            By (time, id): the time, ``event_id``, ``num_instances``, ``cleared`` (true for an event
            that cleared the entity), and a list or null a component.
            ``include_latest_at_start`` puts the events that are the state just before in front, as
            far as they had no part in it otherwise null; ``include_timeless`` the timeless events
            that hold at all times, before all others and without a time.

        Raises
        ------
        InvalidInputError
            For ends that are exchanged.
        """
        asked = self._ask(timeline, [first, last], entity, components, convert, strict=strict)
        start, stop = asked.times.tolist()
        if start > stop:
            raise InvalidInputError.exchanged(f"the range of {timeline!r}", first, last)
        found = asked.between(start, stop, event_times=event_times)
        if include_latest_at_start or include_timeless:
            state = latest_at(asked.view, timeline, start - 1, entity, asked.names)
            chosen = {
                name: each
                for name, each in state.items()
                if (include_timeless if each[1] is None else include_latest_at_start)
            }
            found = concat_tables([*state_rows(chosen, found.schema), found])
        return asked.answer(found)

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
        strict: bool = False,
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
        convert, strict
            As in :meth:`latest_at`.
        """
        if fill not in (None, "latest_at"):
            raise InvalidInputError(f"fill is {fill!r}", hint='it is "latest_at", or None')
        asked = self._ask(timeline, at, entity, components, convert, strict=strict)
        return asked.answer(
            asked.rows_at(
                asked.distinct_times() if at is None else asked.times,
                fill=fill is not None,
                origins=origins,
                event_times=event_times,
            )
        )

    def entities(self) -> list[str]:
        """Return the paths of all entities."""
        return sorted(self._view.entities)

    def components(self, entity: str) -> list[str]:
        """Return the components of an entity."""
        return list(self._view.entities.of(entity).components)

    def contents(self) -> pa.Table:
        """Return what there is: a row for each component of each entity.

        Returns
        -------
        pyarrow.Table
            ``entity_path``, ``component`` (of Arrow types of ours, which are text elsewhere),
            ``type`` as Arrow spells it, and ``events``, how many have it; by path and name.
        """
        view, counts = self._view, dict[tuple[str, str], int]()
        for entity, logs in view.entities.items():
            for log in logs.logs.values():
                for name in log.shape.names.difference(MARKS):
                    counts[entity, name] = counts.get((entity, name), 0) + len(log)
        rows = sorted(counts)
        types = [str(kind_of(view, *row)) for row in rows]
        paths, names = (arrow_array([row[at] for row in rows], pa.string()) for at in (0, 1))
        columns = {
            "entity_path": pa.ExtensionArray.from_storage(EntityPathType(), paths),
            "component": pa.ExtensionArray.from_storage(ComponentNameType(), names),
            "type": arrow_array(types, pa.string()),
            "events": arrow_array([counts[row] for row in rows], pa.int64()),
        }
        return pa.table(columns)

    def timelines(self) -> dict[str, TimelineKind]:
        """Return all timelines, and what they count."""
        return {name: timeline.kind for name, timeline in sorted(self._view.timelines.items())}

    def batches(self) -> list[EventBatch]:
        """Return all events as they lie."""
        return self._view.batches()

    def __len__(self) -> int:
        return len(self._view)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: of events, of orders that queries made, of cells that were read."""
        kept = 0 if self._cells is None else self._cells.nbytes
        return kept + self._view.nbytes

    def __repr__(self) -> str:
        lines = [f"LiveStore({len(self)} events, {self.nbytes} bytes)"]
        for log in self._view.logs():
            times = ", ".join(t.name for t in log.shape.timelines) or "timeless"
            names = ", ".join(name for name, _ in log.shape.components)
            rest = sum(len(chunk) for chunk in log.chunks if chunk.at_rest)
            lines.append(
                f"  {log.shape.entity} [{times}] {names}: {len(log)} events in "
                f"{len(log.chunks)} chunks{f', {rest} with cells at rest' if rest else ''}"
            )
        return "\n".join(lines)

    # --- questions --------------------------------------------------------------------------------

    def _ask(
        self,
        timeline: str,
        times: Sequence[Any] | np.ndarray | None,
        entity: str,
        components: Sequence[str] | None,
        convert: Wanted | None,
        *,
        strict: bool,
    ) -> Question:
        """Take the view, and find out what is meant."""
        view = self._view
        unknown: list[NotFoundError] = []
        if timeline not in view.timelines:
            existing = sorted(view.timelines)
            unknown.append(NameNotFoundError.for_name("timeline", timeline, existing))
        axis = view.timelines.get(timeline) or _new_axis(timeline, times)
        logs = view.entities.of(entity)
        known = logs.components
        if logs is NOTHING:
            unknown.append(NameNotFoundError.for_name("entity", entity, sorted(view.entities)))
        names = known if components is None else tuple(dict.fromkeys(components))
        if logs is not NOTHING:
            where = f"entity {entity!r}"
            absent = [name for name in names if name not in known]
            unknown += [ColumnNotFoundError.for_name(name, known, where=where) for name in absent]
        if strict and unknown:
            raise unknown[0]
        if convert is not None and unknown:
            convert = {name: how for name, how in convert.items() if name in {*known} - {*names}}
        made = conversions(convert, names, lambda name: kind_of(view, entity, name))
        numbers = _numbers(axis, () if times is None else times)
        return Question(view, axis, numbers, entity, names, made, tuple(map(_near, unknown)))


def _near(error: NotFoundError) -> str:
    nearest = error.attributes.get("nearest")
    return error.message if nearest is None else f"{error.message}, did you mean {nearest!r}?"


def _new_axis(name: str, times: Sequence[Any] | np.ndarray | None) -> Timeline:
    """Return a timeline that nobody has used, of the kind that its times say."""
    if times is None or not len(times) or isinstance(times, np.ndarray):
        return Timeline(name, TimelineKind.SEQUENCE)
    return next(iter(time_point_of({name: times[0]})))


def _numbers(axis: Timeline, times: Sequence[Any] | np.ndarray) -> np.ndarray:
    if isinstance(times, np.ndarray) and times.dtype.kind in "iu" and times.ndim == 1:
        if times.dtype == np.uint64 and len(times) and times.max() >= 1 << 63:
            raise InvalidInputError(f"a time of {times.max()} lies past what 64 bits can count")
        return times.astype(np.int64)
    return np.array([time_of(axis, time) for time in times], np.int64)

"""States: what of an entity holds at a time, or at many.

An event decides over another by (time, id). A clear hides what was before it, of its entity or,
where it is recursive, of all below; a later flat clear does not undo an earlier recursive one.
Timeless data override what a timeline holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.errors import ColumnNotFoundError, InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass
from tessel.store.events.chunk import Chunk, Rows, cast_lists
from tessel.store.events.index import EntityLogs, Key, Place, ShapeLog, View
from tessel.store.events.row import INSTANCE_KEY, Cell
from tessel.store.events.timeline import STAMP, Ids, Timeline, id_bytes, ids_as_arrow, log_time

_BEFORE_ALL: Key = (-(2**63), -1, -1)


@dataclass(frozen=True)
class Found:
    """The state of a component.

    Attributes
    ----------
    cell
        Its values: none where it was set to nothing.
    time
        When it was logged, on the timeline that was asked; None for timeless data.
    event_id
        The event that logged it.
    num_instances
        How many instances that event has: a single value stands for all of them.
    instance_keys
        The keys of its instances; None where they go by their place.
    ingestion_time
        When the live store took that event; None for what no store has.
    """

    cell: Cell
    time: int | None
    event_id: bytes
    num_instances: int
    instance_keys: pa.Array | None = None
    ingestion_time: np.datetime64 | None = None

    @property
    def log_time(self) -> np.datetime64:
        """When that event was logged, by the clock of its producer."""
        return log_time(self.event_id)


class State(dict[str, Found]):
    """The state of an entity by component.

    Attributes
    ----------
    unknown
        What was asked and is not known, in words; empty at most times.
    """

    unknown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = super().__repr__()
        return f"{shown} ({'; '.join(self.unknown)})" if self.unknown else shown


# --- the state at a time --------------------------------------------------------------------------


def latest_at(
    view: View, timeline: str, time: int, entity: str, components: Sequence[str]
) -> dict[str, tuple[Place, int | None]]:
    """Return the events that are the state of some components, and when: None for timeless ones.

    Those that were never logged by then, or cleared since, are left out.
    """
    logs, marks = view.entities.of(entity), view.marks(entity)
    cleared = _last(above.latest(mark, timeline, time) for above, mark in marks)
    hidden = _last(above.timeless(mark) for above, mark in marks)
    found: dict[str, tuple[Place, int | None]] = {}
    for component in components:
        place = logs.timeless(component)
        if place is not None and place.key > hidden:
            found[component] = place, None
            continue
        place = logs.latest(component, timeline, time)
        if place is not None and place.key > cleared:
            found[component] = place, place.key[0]
    return found


def _last(places: Iterable[Place | None]) -> Key:
    """Return the last of some events."""
    return max((place.key for place in places if place is not None), default=_BEFORE_ALL)


def found_at(place: Place, component: str, time: int | None) -> Found:
    """Return the state of a component that an event is."""
    chunk, row = place.chunk, place.row
    counts = chunk.instances
    keys = place.log.shape.component_places.get(INSTANCE_KEY)
    return Found(
        Cell(component, chunk.values(place.log.shape.component_places[component], row)),
        time,
        id_bytes(place.key[1], place.key[2]),
        int(counts[0] if len(counts) == 1 else counts[row]),
        None if keys is None else chunk.values(keys, row),
        None if chunk.arrivals is None else np.datetime64(chunk.arrivals.one(row), "ns"),
    )


# --- many states at once --------------------------------------------------------------------------


@dataclass
class Latest:
    """The last events at or before many times: for each its time and id, and where it lies.

    ``source`` is the place in ``chunks``, -1 where there is none; ``row`` the row there.
    """

    times: npt.NDArray[np.int64]
    ids: Ids
    source: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    chunks: list[tuple[ShapeLog, Chunk]]

    def is_after(self, other: Latest) -> npt.NDArray[np.bool_]:
        """Return where this is there, and after the other."""
        after = _after(self.times, self.ids, other.times, other.ids)
        found: npt.NDArray[np.bool_] = (self.source >= 0) & ((other.source < 0) | after)
        return found


def _after(
    times: np.ndarray, ids: Ids, other_times: np.ndarray, other_ids: Ids
) -> npt.NDArray[np.bool_]:
    same = times == other_times
    same_first = same & (ids[:, 0] == other_ids[:, 0])
    after: npt.NDArray[np.bool_] = times > other_times
    after |= same & (ids[:, 0] > other_ids[:, 0])
    after |= same_first & (ids[:, 1] > other_ids[:, 1])
    return after


def latest_many(
    logs: EntityLogs, timeline: str, times: npt.NDArray[np.int64], component: str
) -> Latest:
    """Return the last event with a component for many times; clears are not asked."""
    count = len(times)
    best = Latest(
        np.zeros(count, np.int64),
        np.zeros((count, 2), np.uint64),
        np.full(count, -1),
        np.zeros(count, np.int64),
        [],
    )
    for log in logs.by_component.get(component, ()):
        at = log.shape.timeline_places.get(timeline, -1)
        for chunk in log.chunks if at >= 0 else ():
            order, held = chunk.ordered(at)
            position = np.searchsorted(held, times, side="right") - 1
            asked = np.flatnonzero(position >= 0)
            if not len(asked):
                continue
            position = position[asked]
            rows = position if order is None else order[position]
            found, ids = held[position], chunk.ids(rows)
            better = (best.source[asked] < 0) | _after(
                found, ids, best.times[asked], best.ids[asked]
            )
            chosen = asked[better]
            best.times[chosen] = found[better]
            best.ids[chosen] = ids[better]
            best.row[chosen] = rows[better]
            best.source[chosen] = len(best.chunks)
            best.chunks.append((log, chunk))
    return best


@dataclass
class States:
    """The states of a component at many times.

    ``found`` says which events they are of, ``there`` at which times there is one, ``is_timeless``
    that they hold at all times.
    """

    found: Latest
    there: npt.NDArray[np.bool_]
    is_timeless: bool

    def cells(self, component: str, kind: pa.DataType) -> pa.Array:
        """Return the values at each time, a list or null."""
        parts = [pa.nulls(1, pa.large_list(kind))]
        place = np.zeros(len(self.there), np.int64)
        end = 1
        for number, (log, chunk) in enumerate(self.found.chunks):
            wanted = np.flatnonzero((self.found.source == number) & self.there)
            if len(wanted):
                lists = chunk.lists(log.shape.component_places[component], self.found.row[wanted])
                parts.append(cast_lists(lists, pa.large_list(kind)))
                place[wanted] = np.arange(end, end + len(wanted))
                end += len(wanted)
        return pa.concat_arrays(parts).take(arrow_array(place))

    def origins(self, timeline: Timeline) -> pa.Array:
        """Return when each was logged; null for timeless data."""
        if self.is_timeless:
            return pa.nulls(len(self.there), timeline.type)
        return arrow_array(self.found.times, mask=~self.there).view(timeline.type)

    def event_ids(self) -> pa.Array:
        """Return the event that logged each, or null."""
        ids = ids_as_arrow(self.found.ids)
        return ids.take(arrow_array(np.arange(len(self.there)), mask=~self.there))

    def event_times(self) -> tuple[pa.Array, pa.Array]:
        """Return when the event of each was logged, and when it arrived, or null."""
        arrived = self._of_events(np.int64, Chunk.arrived_at)
        logged = self.found.ids[:, 0].astype(np.int64)
        return (
            arrow_array(logged, mask=~self.there).view(STAMP),
            arrow_array(arrived, mask=~self.there).view(STAMP),
        )

    def instances(self) -> pa.Array:
        """Return how many instances the event of each has, or null."""
        return arrow_array(self._of_events(np.uint32, Chunk.instances_at), mask=~self.there)

    def _of_events(self, dtype: npt.DTypeLike, of: Callable[[Chunk, Rows], Any]) -> np.ndarray:
        """Return a number of the event of each."""
        numbers = np.zeros(len(self.there), dtype)
        for number, (_, chunk) in enumerate(self.found.chunks):
            wanted = self.found.source == number
            numbers[wanted] = of(chunk, self.found.row[wanted])
        return numbers


def states_many(
    view: View,
    timeline: str,
    times: npt.NDArray[np.int64],
    entity: str,
    component: str,
    *,
    timeless: bool = True,
) -> States:
    """Return the state of a component at many times; of a timeline alone without ``timeless``."""
    logs = view.entities.of(entity)
    place = logs.timeless(component) if timeless else None
    if place is not None and place.key > cleared_timeless(view, entity):
        count = len(times)
        ids = np.broadcast_to(np.array(place.key[1:], np.uint64), (count, 2))
        nowhere, row = np.zeros(count, np.int64), np.full(count, place.row)
        found = Latest(nowhere, ids, nowhere, row, [(place.log, place.chunk)])
        return States(found, np.ones(count, np.bool_), is_timeless=True)
    found = latest_many(logs, timeline, times, component)
    there = found.source >= 0
    for above, mark in view.marks(entity):
        there &= found.is_after(latest_many(above, timeline, times, mark))
    return States(found, there, is_timeless=False)


def cleared_timeless(view: View, entity: str) -> Key:
    """Return the last timeless clear of an entity."""
    return _last(above.timeless(mark) for above, mark in view.marks(entity))


def kind_of(view: View, entity: str, component: str) -> pa.DataType:
    """Return the type of a component; null for one that is not known."""
    logs = view.entities.of(entity).by_component.get(component)
    return dict(logs[0].shape.components)[component] if logs else pa.null()


@checks_arguments
def join_instances(state: Mapping[str, Found], primary: str) -> pa.Table:
    """Return a row for each instance of one component, with the values of all others.

    Instances are matched by their keys where both events have keys, otherwise by their place. One
    value for several instances stands for all; of fewer values the last stands for those that lack
    one; values for further instances are left out.

    Parameters
    ----------
    state
        What ``LiveStore.latest_at`` answered.
    primary
        The component whose event says which instances there are.

    Returns
    -------
    pyarrow.Table
        ``tessel.instance_key`` (the keys, or 0, 1, …), and a column a component. Null where a
        component is set to nothing, or has no instance of that key. No rows where the primary
        component is set to nothing.

    Raises
    ------
    ColumnNotFoundError
        For a primary component that the state has not.
    InvalidInputError
        For keys of several types.

    Examples
    --------
    >>> join_instances(live.latest_at("frame", 7, "scene/cars"), "position")
    """
    if primary not in state or primary == INSTANCE_KEY:
        existing = sorted(state.keys() - {INSTANCE_KEY})
        raise ColumnNotFoundError.for_name(primary, existing, where="the state")
    first = state[primary]
    count = first.num_instances if len(first.cell) else 0
    keys = first.instance_keys
    if keys is None:
        shown: pa.Array = arrow_array(np.arange(count))
    else:
        shown = keys.slice(0, count)
    columns = {INSTANCE_KEY: shown}
    for component, found in state.items():
        if component != INSTANCE_KEY:
            columns[component] = _matched(component, found, keys, count)
    return pa.table(columns)


def _matched(component: str, found: Found, keys: pa.Array | None, count: int) -> pa.Array:
    """Return the values of a component for so many instances of another event."""
    values, own = found.cell.values, found.instance_keys
    if not len(values):
        return pa.nulls(count, values.type)
    if keys is None or own is None or len(values) < found.num_instances:
        return found.cell.instances(count)
    if own.type != keys.type:
        raise InvalidInputError(
            f"component {component!r} has instances by keys of {own.type}, and others of "
            f"{keys.type}",
            hint="log the keys of an entity in one type",
            component=component,
        )
    return values.take(pc.index_in(keys.slice(0, count), value_set=own))

"""What a live store answers: the state at a time, what happened between two, a table of both.

An event decides over another by (time, id). A clear hides what was before it, of its entity or,
where it is recursive, of all below; a later flat clear does not undo an earlier recursive one.
Timeless data override what a timeline holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import ColumnNotFoundError
from tessel.store.events.cell import Cell
from tessel.store.events.chunk import Chunk
from tessel.store.events.event_ids import Ids, id_bytes
from tessel.store.events.index import EventIndex, Key, Place, ShapeLog, View
from tessel.store.events.row import INSTANCE_KEY

__all__ = ["Found", "latest_at", "latest_many", "range_of", "view_of"]

EVENT_ID, INSTANCES, CLEARED = "event_id", "num_instances", "cleared"
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
    """

    cell: Cell
    time: int | None
    event_id: bytes
    num_instances: int
    instance_keys: pa.Array | None = None


# --- the state at a time --------------------------------------------------------------------------


def latest_at(
    index: EventIndex, timeline: str, time: int, entity: str, components: Sequence[str]
) -> dict[str, Found]:
    """Return the state of some components; without those never logged by then, or cleared since."""
    view = View()
    cleared, cleared_timeless = _cleared_at(index, view, timeline, time, entity)
    found = {}
    for component in components:
        place = index.timeless(view, entity, component)
        if place is not None and place.key > cleared_timeless:
            found[component] = _found(place, component, None)
            continue
        place = index.latest(view, timeline, time, entity, component)
        if place is not None and place.key > cleared:
            found[component] = _found(place, component, place.key[0])
    return found


def _cleared_at(
    index: EventIndex, view: View, timeline: str, time: int, entity: str
) -> tuple[Key, Key]:
    """Return the last clear of an entity on a timeline, and the last timeless one."""
    temporal = timeless = _BEFORE_ALL
    for above, mark in index.marks(entity):
        place = index.latest(view, timeline, time, above, mark)
        if place is not None and place.key > temporal:
            temporal = place.key
        place = index.timeless(view, above, mark)
        if place is not None and place.key > timeless:
            timeless = place.key
    return temporal, timeless


def _found(place: Place, component: str, time: int | None) -> Found:
    chunk, row = place.chunk, place.row
    counts = chunk.instances
    keys = place.log.components.get(INSTANCE_KEY)
    return Found(
        Cell(component, chunk.values(place.log.components[component], row)),
        time,
        id_bytes(place.key[1], place.key[2]),
        int(counts[0] if len(counts) == 1 else counts[row]),
        None if keys is None else chunk.values(keys, row),
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
    index: EventIndex,
    view: View,
    timeline: str,
    times: npt.NDArray[np.int64],
    entity: str,
    component: str,
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
    for log in index.by_component.get((entity, component), ()):
        at = log.timelines.get(timeline)
        for chunk in view[log] if at is not None else ():
            assert at is not None
            _improve(best, times, log, chunk, at)
    return best


def _improve(
    best: Latest, times: npt.NDArray[np.int64], log: ShapeLog, chunk: Chunk, at: int
) -> None:
    order, held = chunk.ordered(at)
    position = np.searchsorted(held, times, side="right") - 1
    asked = np.flatnonzero(position >= 0)
    if not len(asked):
        return
    position = position[asked]
    rows = position if order is None else order[position]
    found, ids = held[position], chunk.ids(rows)
    better = (best.source[asked] < 0) | _after(found, ids, best.times[asked], best.ids[asked])
    chosen = asked[better]
    best.times[chosen] = found[better]
    best.ids[chosen] = ids[better]
    best.row[chosen] = rows[better]
    best.source[chosen] = len(best.chunks)
    best.chunks.append((log, chunk))


def cleared_many(
    index: EventIndex, view: View, timeline: str, times: npt.NDArray[np.int64], entity: str
) -> list[Latest]:
    """Return, of every mark that clears an entity, the last event for many times."""
    return [
        latest_many(index, view, timeline, times, above, mark)
        for above, mark in index.marks(entity)
    ]


def cells_of(found: Latest, component: str, kind: pa.DataType, keep: np.ndarray) -> pa.Array:
    """Return the cells that were found, a list or null each."""
    parts = [pa.nulls(1, pa.large_list(kind))]
    place = np.zeros(len(found.source), np.int64)
    end = 1
    for number, (log, chunk) in enumerate(found.chunks):
        wanted = np.flatnonzero((found.source == number) & keep)
        if len(wanted):
            lists = chunk.lists(log.components[component], found.row[wanted])
            parts.append(lists.cast(pa.large_list(kind)))
            place[wanted] = np.arange(end, end + len(wanted))
            end += len(wanted)
    return pa.concat_arrays(parts).take(pa.array(place))


def kind_of(index: EventIndex, entity: str, component: str) -> pa.DataType:
    """Return the type of a component; raises ``ColumnNotFoundError`` where an entity lacks it."""
    logs = index.by_component.get((entity, component), ())
    if not logs:
        existing = index.components(entity)
        raise ColumnNotFoundError.for_name(component, existing, where=f"entity {entity!r}")
    return dict(logs[0].shape.components)[component]


# --- tables ---------------------------------------------------------------------------------------


def view_of(
    index: EventIndex,
    timeline: str,
    entity: str,
    components: Sequence[str],
    times: npt.NDArray[np.int64] | None,
    *,
    fill: bool,
    origins: bool,
) -> pa.Table:
    """Return a row a time: the cells logged at it, or with ``fill`` the state at it."""
    if times is None:
        times = _distinct_times(index, timeline, entity, components)
    view = View()
    clears = cleared_many(index, view, timeline, times, entity)
    columns: dict[str, pa.Array] = {timeline: pa.array(times).view(index.timelines[timeline].type)}
    for component in components:
        kind = kind_of(index, entity, component)
        found = latest_many(index, view, timeline, times, entity, component)
        keep = found.source >= 0
        for clear in clears:
            keep &= found.is_after(clear)
        if not fill:
            keep &= found.times == times
        cells = cells_of(found, component, kind, keep)
        origin = pa.array(found.times, mask=~keep)
        timeless = index.timeless(view, entity, component)
        if fill and timeless is not None and timeless.key > _cleared_timeless(index, view, entity):
            one = timeless.chunk.lists(
                timeless.log.components[component], np.array([timeless.row])
            ).cast(pa.large_list(kind))
            cells = one.take(pa.array(np.zeros(len(times), np.int64)))
            origin = pa.nulls(len(times), pa.int64())
        columns[component] = cells
        if origins:
            columns[f"{component}.{timeline}"] = origin.view(index.timelines[timeline].type)
    return pa.table(columns)


def _cleared_timeless(index: EventIndex, view: View, entity: str) -> Key:
    found = [index.timeless(view, above, mark) for above, mark in index.marks(entity)]
    return max((place.key for place in found if place is not None), default=_BEFORE_ALL)


def _distinct_times(
    index: EventIndex, timeline: str, entity: str, components: Sequence[str]
) -> npt.NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    for log in index.by_entity.get(entity, ()):
        at = log.timelines.get(timeline)
        if at is not None and not log.shape.names.isdisjoint(components):
            found += [chunk.times[at] for chunk in log.chunks]
    return np.unique(np.concatenate(found))


def range_of(
    index: EventIndex,
    timeline: str,
    first: int,
    last: int,
    entity: str,
    components: Sequence[str],
) -> pa.Table:
    """Return every event with one of the components, and every clear, by (time, id)."""
    parts: list[pa.Table] = []
    for log in index.by_entity.get(entity, ()):
        names = [name for name in components if name in log.components]
        if names:
            parts += _in_range(index, log, timeline, first, last, entity, components)
    for above, mark in index.marks(entity):
        for log in index.by_component[above, mark]:
            parts += _in_range(index, log, timeline, first, last, entity, components, clear=True)
    kinds = {name: pa.large_list(kind_of(index, entity, name)) for name in components}
    schema = _range_schema(index, timeline, kinds)
    table = pa.concat_tables([schema.empty_table(), *parts])
    order = [(timeline, "ascending"), (EVENT_ID, "ascending")]
    return table.sort_by(order).combine_chunks()


def _range_schema(index: EventIndex, timeline: str, kinds: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema(
        [
            (timeline, index.timelines[timeline].type),
            (EVENT_ID, pa.binary(16)),
            (INSTANCES, pa.uint32()),
            (CLEARED, pa.bool_()),
            *kinds.items(),
        ]
    )


def _in_range(
    index: EventIndex,
    log: ShapeLog,
    timeline: str,
    first: int,
    last: int,
    entity: str,
    components: Sequence[str],
    *,
    clear: bool = False,
) -> list[pa.Table]:
    at = log.timelines.get(timeline)
    tables = []
    for chunk in log.chunks if at is not None else ():
        assert at is not None
        order, times = chunk.ordered(at)
        start = int(times.searchsorted(first, side="left"))
        stop = int(times.searchsorted(last, side="right"))
        if start < stop:
            rows = np.arange(start, stop) if order is None else order[start:stop]
            tables.append(
                _rows_table(index, log, chunk, rows, timeline, times[start:stop], entity,
                            components, clear=clear)
            )  # fmt: skip
    return tables


def _rows_table(
    index: EventIndex,
    log: ShapeLog,
    chunk: Chunk,
    rows: np.ndarray,
    timeline: str | None,
    times: np.ndarray,
    entity: str,
    components: Sequence[str],
    *,
    clear: bool,
) -> pa.Table:
    assert timeline is not None
    raw = pa.py_buffer(chunk.ids(rows).astype(">u8").tobytes())
    columns = [
        pa.array(times).view(index.timelines[timeline].type),
        pa.Array.from_buffers(pa.binary(16), len(rows), [None, raw]),
        pa.array(np.array(chunk.instances_at(rows))),
        pa.array(np.full(len(rows), clear)),
    ]
    kinds = {}
    for name in components:
        kinds[name] = kind = pa.large_list(kind_of(index, entity, name))
        held = not clear and name in log.components
        lists = chunk.lists(log.components[name], rows).cast(kind) if held else None
        columns.append(pa.nulls(len(rows), kind) if lists is None else lists)
    return pa.Table.from_arrays(columns, schema=_range_schema(index, timeline, kinds))

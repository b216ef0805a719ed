"""Tables of what a live store holds: states at many times, a row a time, what happened between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.errors import InvalidInputError, repeated
from tessel.store.events.chunk import Chunk, cast_lists
from tessel.store.events.index import Key, Place, ShapeLog, View
from tessel.store.events.queries import kind_of, states_many
from tessel.store.events.timeline import STAMP, Timeline, ids_as_arrow

EVENT_ID, INSTANCES, CLEARED = "event_id", "num_instances", "cleared"
EVENT_TIMES = ("log_time", "ingestion_time")


def view_of(
    view: View,
    axis: Timeline,
    entity: str,
    components: Sequence[str],
    times: npt.NDArray[np.int64] | None,
    *,
    fill: bool,
    origins: bool,
    event_times: bool,
) -> pa.Table:
    """Return a row a time: the cells logged at it, or with ``fill`` the state at it."""
    if times is None:
        times = _distinct_times(view, axis.name, entity, components)
    timeline = axis.name
    beside = [timeline] * origins + list(EVENT_TIMES) * event_times
    own = (timeline, *(f"{component}.{name}" for component in components for name in beside))
    _check_names(components, own)
    columns: dict[str, pa.Array] = {timeline: arrow_array(times).view(axis.type)}
    for component in components:
        states = states_many(view, timeline, times, entity, component, timeless=fill)
        if not fill:
            states.there &= states.found.times == times
        columns[component] = states.cells(component, kind_of(view, entity, component))
        if origins:
            columns[f"{component}.{timeline}"] = states.origins(axis)
        if event_times:
            names = (f"{component}.{name}" for name in EVENT_TIMES)
            columns.update(zip(names, states.event_times(), strict=True))
    return pa.table(columns)


def states_of(
    view: View,
    axis: Timeline,
    times: npt.NDArray[np.int64],
    entity: str,
    component: str,
    *,
    event_times: bool,
) -> pa.Table:
    """Return the state of a component at many times, a row each."""
    timeline = axis.name
    _check_names([component], (timeline, EVENT_ID, INSTANCES, *EVENT_TIMES * event_times))
    states = states_many(view, timeline, times, entity, component)
    names = [timeline, component, f"{component}.{timeline}", EVENT_ID, INSTANCES]
    columns = [
        arrow_array(times).view(axis.type),
        states.cells(component, kind_of(view, entity, component)),
        states.origins(axis),
        states.event_ids(),
        states.instances(),
    ]
    if event_times:
        names += EVENT_TIMES
        columns += states.event_times()
    return pa.Table.from_arrays(columns, names=names)


def _check_names(components: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse components, or a timeline, that a table's own columns are named like."""
    twice = repeated(columns)
    if twice is not None:
        raise InvalidInputError(
            f"timeline {twice!r} is named like a column that this table has of its own",
            hint="ask latest_at, or without event_times",
            timeline=twice,
        )
    for name in components:
        if name in columns:
            raise InvalidInputError(
                f"component {name!r} is named like a column that this table has of its own",
                hint="leave it out of the components asked for, or ask latest_at",
                component=name,
            )


def _distinct_times(
    view: View, timeline: str, entity: str, components: Sequence[str]
) -> npt.NDArray[np.int64]:
    found = [np.zeros(0, np.int64)]
    for log in view.entities.of(entity).logs.values():
        at = log.shape.timeline_places.get(timeline)
        if at is not None and not log.shape.names.isdisjoint(components):
            found += [chunk.times[at] for chunk in log.chunks]
    return np.unique(np.concatenate(found))


def range_of(
    view: View,
    axis: Timeline,
    first: int,
    last: int,
    entity: str,
    components: Sequence[str],
    *,
    event_times: bool,
) -> pa.Table:
    """Return every event with one of the components, and every clear, by (time, id)."""
    schema, timeline = _range_schema(view, axis, entity, components, event_times), axis.name
    nothing = [pa.nulls(0, field.type) for field in schema]  # empty_table cannot: lists of ours
    parts = [pa.Table.from_arrays(nothing, schema=schema)]
    for log in view.entities.of(entity).logs.values():
        if not log.shape.names.isdisjoint(components):
            parts += _in_range(log, timeline, first, last, schema)
    for above, mark in view.marks(entity):
        for log in above.by_component[mark]:
            parts += _in_range(log, timeline, first, last, schema, clear=True)
    order = [(timeline, "ascending"), (EVENT_ID, "ascending")]
    return concat_tables(parts).sort_by(order).combine_chunks()


def _range_schema(
    view: View, axis: Timeline, entity: str, components: Sequence[str], event_times: bool
) -> pa.Schema:
    stamps = EVENT_TIMES * event_times
    _check_names(components, (axis.name, EVENT_ID, INSTANCES, CLEARED, *stamps))
    kinds = [(name, pa.large_list(kind_of(view, entity, name))) for name in components]
    return pa.schema(
        [
            (axis.name, axis.type),
            (EVENT_ID, pa.binary(16)),
            (INSTANCES, pa.uint32()),
            (CLEARED, pa.bool_()),
            *((name, STAMP) for name in stamps),
            *kinds,
        ]
    )


def _in_range(
    log: ShapeLog, timeline: str, first: int, last: int, schema: pa.Schema, *, clear: bool = False
) -> Iterator[pa.Table]:
    """Give the events of each chunk between two times, as tables of a schema."""
    at = log.shape.timeline_places.get(timeline)
    if at is None:
        return
    for chunk in log.chunks:
        order, times = chunk.ordered(at)
        start = int(times.searchsorted(first, side="left"))
        stop = int(times.searchsorted(last, side="right"))
        if start < stop:
            rows = np.arange(start, stop) if order is None else order[start:stop]
            held = arrow_array(times[start:stop])
            yield _rows_table(log, chunk, rows, held, schema, () if clear else schema.names)


def _rows_table(
    log: ShapeLog,
    chunk: Chunk,
    rows: np.ndarray,
    times: pa.Array,
    schema: pa.Schema,
    components: Sequence[str],
) -> pa.Table:
    """Return rows of a chunk as a table, with the cells of some components; of none: of clears."""
    columns = [
        times.view(schema.field(0).type),
        ids_as_arrow(chunk.ids(rows)),
        arrow_array(np.array(chunk.instances_at(rows))),
        arrow_array(np.full(len(rows), not components)),
    ]
    if schema.types[4:6] == [STAMP, STAMP]:
        both = chunk.id_times[rows].astype(np.int64), chunk.arrived_at(rows)
        columns += [arrow_array(each).view(STAMP) for each in both]
    for field in list(schema)[len(columns) :]:
        at = log.shape.component_places.get(field.name) if field.name in components else None
        if at is None:
            columns.append(pa.nulls(len(rows), field.type))
        else:
            columns.append(cast_lists(chunk.lists(at, rows), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def state_rows(
    state: Mapping[str, tuple[Place, int | None]], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Give the events of a state as rows of a range, the components of one event together.

    They are by (time, id); timeless ones, which have no time, are before all others.
    """
    events: dict[tuple[bool, Key], tuple[Place, list[str]]] = {}
    for component, (place, time) in state.items():
        events.setdefault((time is not None, place.key), (place, []))[1].append(component)
    for (has_time, key), (place, names) in sorted(events.items(), key=lambda each: each[0]):
        times = arrow_array([key[0] if has_time else None], pa.int64())
        yield _rows_table(place.log, place.chunk, np.array([place.row]), times, schema, names)

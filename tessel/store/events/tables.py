"""Tables of what a live store holds: states at many times, a row a time, what happened between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError, repeated
from tessel.store.events.chunk import Chunk, cast_lists
from tessel.store.events.index import ShapeLog, View
from tessel.store.events.queries import Found, kind_of, states_many
from tessel.store.events.timeline import STAMP, Timeline

__all__ = ["range_of", "state_rows", "states_of", "view_of"]

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
    for log in view.entity(entity).logs.values():
        at = log.timelines.get(timeline)
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
    for log in view.entity(entity).logs.values():
        if not log.shape.names.isdisjoint(components):
            parts += _in_range(log, timeline, first, last, schema)
    for above, mark in view.marks(entity):
        for log in above.by_component[mark]:
            parts += _in_range(log, timeline, first, last, schema, clear=True)
    order = [(timeline, "ascending"), (EVENT_ID, "ascending")]
    return pa.concat_tables(parts).sort_by(order).combine_chunks()


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
    at = log.timelines.get(timeline)
    if at is None:
        return
    for chunk in log.chunks:
        order, times = chunk.ordered(at)
        start = int(times.searchsorted(first, side="left"))
        stop = int(times.searchsorted(last, side="right"))
        if start < stop:
            rows = np.arange(start, stop) if order is None else order[start:stop]
            yield _rows_table(log, chunk, rows, times[start:stop], schema, clear=clear)


def _rows_table(
    log: ShapeLog,
    chunk: Chunk,
    rows: np.ndarray,
    times: np.ndarray,
    schema: pa.Schema,
    *,
    clear: bool,
) -> pa.Table:
    raw = pa.py_buffer(chunk.ids(rows).astype(">u8").tobytes())
    columns = [
        arrow_array(times).view(schema.field(0).type),
        pa.Array.from_buffers(pa.binary(16), len(rows), [None, raw]),
        arrow_array(np.array(chunk.instances_at(rows))),
        arrow_array(np.full(len(rows), clear)),
    ]
    if schema.types[4:6] == [STAMP, STAMP]:
        both = chunk.id_times[rows].astype(np.int64), chunk.arrived_at(rows)
        columns += [arrow_array(each).view(STAMP) for each in both]
    for field in list(schema)[len(columns) :]:
        at = None if clear else log.components.get(field.name)
        if at is None:
            columns.append(pa.nulls(len(rows), field.type))
        else:
            columns.append(cast_lists(chunk.lists(at, rows), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


_BEFORE_ALL = -(2**63) - 1


def state_rows(state: Mapping[str, Found], schema: pa.Schema, timeline: str) -> pa.Table:
    """Return the events of a state as rows of a range, those of one event together.

    They are by (time, id); timeless ones, which have no time, are before all others.
    """
    events: dict[tuple[int, bytes], dict[str, Found]] = {}
    for component, found in state.items():
        time = _BEFORE_ALL if found.time is None else found.time
        events.setdefault((time, found.event_id), {})[component] = found
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for (_, event_id), cells in sorted(events.items()):
        columns[timeline].append(next(iter(cells.values())).time)
        columns["event_id"].append(event_id)
        columns["num_instances"].append(next(iter(cells.values())).num_instances)
        columns["cleared"].append(False)
        for field in list(schema)[4:]:
            if field.type == STAMP:  # log_time, ingestion_time: any of its cells tells
                columns[field.name].append(getattr(next(iter(cells.values())), field.name))
            else:
                cell = cells.get(field.name)
                columns[field.name].append(None if cell is None else cell.cell.values)
    arrays = []
    for field in schema:
        values = columns[field.name]
        if field.name == timeline:
            arrays.append(arrow_array(values, pa.int64()).view(field.type))
        elif pa.types.is_large_list(field.type):
            arrays.append(_lists(values, field.type))
        elif field.name in EVENT_TIMES:
            arrays.append(arrow_array(np.array(values, "M8[ns]").astype(np.int64)).view(STAMP))
        else:
            arrays.append(arrow_array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _lists(values: Sequence[pa.Array | None], kind: pa.DataType) -> pa.Array:
    parts = [arrow_array([], kind.value_type) if each is None else each for each in values]
    offsets = arrow_array(np.cumsum([0, *map(len, parts)]), pa.int64())
    flat = pa.concat_arrays([arrow_array([], kind.value_type), *parts])
    mask = arrow_array([each is None for each in values], pa.bool_())
    return pa.LargeListArray.from_arrays(offsets, flat, kind, mask=mask if len(parts) else None)

"""Questions of one view, and tables of what it holds: states at many times, or what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.errors import InvalidInputError, repeated
from tessel.lazy import dataclass
from tessel.store.events.chunk import Chunk, cast_lists
from tessel.store.events.converters import Conversion
from tessel.store.events.index import Key, Place, ShapeLog, View
from tessel.store.events.queries import States, kind_of, states_many
from tessel.store.events.timeline import STAMP, Timeline, ids_as_arrow

EVENT_ID, INSTANCES, CLEARED = "event_id", "num_instances", "cleared"
EVENT_TIMES = ("log_time", "ingestion_time")


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


_UNKNOWN = b"tessel.unknown"


@dataclass(frozen=True)
class Question:
    """What is asked of components of one entity in one view.

    Attributes
    ----------
    made
        What becomes of values before they are returned.
    unknown
        What is said of the names that are not known.
    """

    view: View
    axis: Timeline
    times: npt.NDArray[np.int64]
    entity: str
    names: tuple[str, ...]
    made: Sequence[Conversion]
    unknown: tuple[str, ...]

    def answer(self, table: pa.Table) -> pa.Table:
        """Convert the columns that were asked for; the schema's metadata list unknown names."""
        for each in self.made:
            table = each.column(table)
        if not self.unknown:
            return table
        return table.replace_schema_metadata({_UNKNOWN: "; ".join(self.unknown).encode()})

    def rows_at(
        self, times: npt.NDArray[np.int64], *, fill: bool, origins: bool, event_times: bool
    ) -> pa.Table:
        """Return a row a time: the cells logged at it, or with ``fill`` the state at it."""
        timeline = self.axis.name
        beside = [timeline] * origins + list(EVENT_TIMES) * event_times
        own = (timeline, *(f"{component}.{name}" for component in self.names for name in beside))
        _check_names(self.names, own)
        columns: dict[str, pa.Array] = {timeline: arrow_array(times).view(self.axis.type)}
        for component in self.names:
            states = states_many(self.view, timeline, times, self.entity, component, timeless=fill)
            if not fill:
                states.there &= states.found.times == times
            columns[component] = self._cells(states, component)
            if origins:
                columns[f"{component}.{timeline}"] = states.origins(self.axis)
            if event_times:
                names = (f"{component}.{name}" for name in EVENT_TIMES)
                columns.update(zip(names, states.event_times(), strict=True))
        return pa.table(columns)

    def states(self, *, event_times: bool) -> pa.Table:
        """Return the state of the one component at the times, a row each."""
        (component,), timeline = self.names, self.axis.name
        _check_names(self.names, (timeline, EVENT_ID, INSTANCES, *EVENT_TIMES * event_times))
        states = states_many(self.view, timeline, self.times, self.entity, component)
        columns = {
            timeline: arrow_array(self.times).view(self.axis.type),
            component: self._cells(states, component),
            f"{component}.{timeline}": states.origins(self.axis),
            EVENT_ID: states.event_ids(),
            INSTANCES: states.instances(),
        }
        if event_times:
            columns.update(zip(EVENT_TIMES, states.event_times(), strict=True))
        return pa.Table.from_arrays([*columns.values()], names=[*columns])

    def _cells(self, states: States, component: str) -> pa.Array:
        return states.cells(component, kind_of(self.view, self.entity, component))

    def distinct_times(self) -> npt.NDArray[np.int64]:
        """Return the times at which one of the components was logged, each once, ascending."""
        found = [np.zeros(0, np.int64)]
        for log in self.view.entities.of(self.entity).logs.values():
            at = log.shape.timeline_places.get(self.axis.name)
            if at is not None and not log.shape.names.isdisjoint(self.names):
                found += [chunk.times[at] for chunk in log.chunks]
        return np.unique(np.concatenate(found))

    def between(self, first: int, last: int, *, event_times: bool) -> pa.Table:
        """Return every event with one of the components, and every clear, by (time, id)."""
        timeline, stamps = self.axis.name, EVENT_TIMES * event_times
        _check_names(self.names, (timeline, EVENT_ID, INSTANCES, CLEARED, *stamps))
        kinds = [(n, pa.large_list(kind_of(self.view, self.entity, n))) for n in self.names]
        own = (self.axis.type, pa.binary(16), pa.uint32(), pa.bool_(), *[STAMP] * len(stamps))
        names = (timeline, EVENT_ID, INSTANCES, CLEARED, *stamps)
        schema = pa.schema([*zip(names, own, strict=True), *kinds])
        nothing = [pa.nulls(0, field.type) for field in schema]  # empty_table cannot: lists of ours
        parts = [pa.Table.from_arrays(nothing, schema=schema)]
        for log in self.view.entities.of(self.entity).logs.values():
            if not log.shape.names.isdisjoint(self.names):
                parts += _in_range(log, timeline, first, last, schema)
        for above, mark in self.view.marks(self.entity):
            for log in above.by_component[mark]:
                parts += _in_range(log, timeline, first, last, schema, clear=True)
        order = [(timeline, "ascending"), (EVENT_ID, "ascending")]
        return concat_tables(parts).sort_by(order).combine_chunks()


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

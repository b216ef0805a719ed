"""Table: many events of any entities as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.store.events.batch import (
    KIND,
    EventBatch,
    batches_of_rows,
    columns_by_kind,
    only_column,
)
from tessel.store.events.chunk import lists_of
from tessel.store.events.extension_types import EntityPathType, EventIdType
from tessel.store.events.row import CLEAR, CLEAR_RECURSIVE, INSTANCE_KEY, Cell, Row
from tessel.store.events.timeline import EventIds, Timeline, TimelineKind, check_component, id_bytes

_COMPONENT = b"tessel.component"
_TIMELINE, _TIMELINE_NAME = b"tessel.timeline", b"tessel.timeline_name"
_BATCH_ID = b"tessel.batch_id"
_EVENTS = b"table of events"
_batch_ids = EventIds()


def _field(name: str, kind: pa.DataType, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    return pa.field(name, kind, metadata={KIND: name.encode()}), column


def _unused(name: str, used: set[str]) -> str:
    """Return a name that no column has yet, and note it."""
    number, found = 1, name
    while found in used:
        number += 1
        found = f"{name} {number}"
    used.add(found)
    return found


def _timelines(rows: Sequence[Row]) -> Iterator[tuple[pa.Field, pa.Array]]:
    kinds: dict[str, Timeline] = {}
    for timeline in (each for row in rows for each in row.time_point):
        known = kinds.setdefault(timeline.name, timeline)
        if known != timeline:
            raise InvalidInputError(
                f"timeline {timeline.name!r} counts {known.kind.value}s in one event, and "
                f"{timeline.kind.value}s in another",
                timeline=timeline.name,
            )
    for name, timeline in sorted(kinds.items()):
        times = arrow_array([row.time_point.get(timeline) for row in rows], pa.int64())
        metadata = {
            KIND: b"timeline",
            _TIMELINE: timeline.kind.value.encode(),
            _TIMELINE_NAME: name.encode(),
        }
        yield pa.field(name, timeline.type, metadata=metadata), times.view(timeline.type)


def _components(rows: Sequence[Row]) -> Iterator[tuple[pa.Field, pa.Array]]:
    """Give a column a component and type: two entities may have one component in two types."""
    found: dict[tuple[str, pa.DataType], dict[int, pa.Array]] = {}
    for at, row in enumerate(rows):
        for cell in row.cells:
            found.setdefault((cell.component, cell.type), {})[at] = cell.values
    for name, kind in sorted(found, key=lambda each: (each[0], str(each[1]))):
        cells = found[name, kind]
        lists = lists_of([cells.get(at) for at in range(len(rows))], kind)
        metadata = {KIND: b"component", _COMPONENT: name.encode()}
        yield pa.field(name, lists.type, metadata=metadata), lists


# --- back -----------------------------------------------------------------------------------------


def _times(field: pa.Field, column: pa.Array) -> tuple[str, pa.Array, Callable[[int], Any]]:
    """Return name, times, and what gives the time of a row as it can be logged."""
    name = check_component(field.metadata.get(_TIMELINE_NAME, b"").decode(errors="replace"))
    text = field.metadata.get(_TIMELINE, b"").decode(errors="replace")
    if text not in {kind.value for kind in TimelineKind}:
        raise InvalidInputError(f"timeline {name!r} is of no kind: {text!r}")
    timeline = Timeline(name, TimelineKind(text))
    if column.type != timeline.type:
        raise InvalidInputError(f"timeline {name!r} holds {column.type}, not {timeline.type}")
    numbers = column.view(pa.int64()).to_pylist()
    made: dict[TimelineKind, Callable[[int], Any]] = {
        TimelineKind.SEQUENCE: int,
        TimelineKind.TIMESTAMP: lambda number: np.datetime64(number, "ns"),
        TimelineKind.DURATION: lambda number: np.timedelta64(number, "ns"),
    }
    return name, column, lambda at: made[timeline.kind](numbers[at])


def _cells(field: pa.Field, column: pa.Array) -> tuple[str, pa.Array]:
    name = field.metadata.get(_COMPONENT, b"").decode(errors="replace")
    if not pa.types.is_large_list(column.type):
        raise InvalidInputError(f"component {name!r} is no column of lists", component=name)
    return name, column


def _row(
    event_id: bytes,
    entity: str,
    times: Mapping[str, Any],
    count: int,
    values: Mapping[str, pa.Array],
) -> Row:
    marks = values.keys() & {CLEAR, CLEAR_RECURSIVE}
    if marks:
        if len(values) > 1:
            raise InvalidInputError(
                f"an event that clears {entity!r} has components besides: {sorted(values)}"
            )
        return Row.clear(event_id, entity, times, recursive=CLEAR_RECURSIVE in marks)
    cells: Iterable[Cell] = [
        Cell.from_arrow(name, each) for name, each in values.items() if name != INSTANCE_KEY
    ]
    keys = values.get(INSTANCE_KEY)
    return Row(event_id, entity, times, count, cells, instance_keys=keys)


@checks_arguments
class Table:
    """A batch of events; made by :meth:`from_rows`, filled by :meth:`append_row`.

    A component is of one type for each entity. An event that is there already is taken once; one
    with its id and other content is refused.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, Row] = {}
        self._types: dict[tuple[str, str], pa.DataType] = {}

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> Table:
        """Make a batch of events."""
        table = cls()
        for row in rows:
            table.append_row(row)
        return table

    def append_row(self, row: Row) -> Self:
        """Add an event; return the table.

        Raises
        ------
        InvalidInputError
            For a component of another type than before, or an id that another event has; the table
            is as it was.
        """
        before = self._rows.get(row.event_id)
        if before is not None:
            if before != row:
                raise InvalidInputError(
                    f"two events have the id {row.event_id.hex()}: {before!r} and {row!r}"
                )
            return self
        types = {(row.entity, cell.component): cell.type for cell in row.cells}
        for (entity, component), kind in types.items():
            known = self._types.get((entity, component), kind)
            if known != kind:
                raise InvalidInputError(
                    f"component {component!r} of {entity!r} is {known} in a batch, and {kind} now",
                    component=component,
                )
        self._types.update(types)
        self._rows[row.event_id] = row
        return self

    @property
    def rows(self) -> list[Row]:
        """The events, by id."""
        return [self._rows[event_id] for event_id in sorted(self._rows)]

    def batches(self) -> list[EventBatch]:
        """Return the events as columns, a batch a shape."""
        return batches_of_rows(self.rows)

    def to_arrow(self) -> pa.RecordBatch:
        """Return the events as one record batch that says by itself what its columns are.

        A row an event, in the order of ids: ``event_id``, ``entity_path``, a column a timeline,
        ``num_instances``, and a list a component, null where the event has none.

        Raises
        ------
        InvalidInputError
            For a timeline of two kinds.
        """
        rows = self.rows
        ids = arrow_array([row.event_id for row in rows], pa.binary(16))
        paths = arrow_array([row.entity for row in rows], pa.string())
        counts = arrow_array([row.num_instances for row in rows], pa.uint32())
        own = {"event_id": (EventIdType(), ids), "entity_path": (EntityPathType(), paths)}
        columns = [
            *(_field(name, kind, kind.wrap_array(each)) for name, (kind, each) in own.items()),
            *_timelines(rows),
            _field("num_instances", pa.uint32(), counts),
            *_components(rows),
        ]
        names: set[str] = set()
        fields = [field.with_name(_unused(field.name, names)) for field, _ in columns]
        metadata = {KIND: _EVENTS, _BATCH_ID: id_bytes(*_batch_ids.next()).hex().encode()}
        arrays = [array for _, array in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata))

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Table:
        """Read what :meth:`to_arrow` made.

        Raises
        ------
        InvalidInputError
            For a batch that is none, whatever is wrong with it.
        """
        by_kind = columns_by_kind(batch)
        if (batch.schema.metadata or {}).get(KIND) != _EVENTS:
            raise InvalidInputError("a record batch that does not say it is a table of events")
        ids = only_column(by_kind, b"event_id", EventIdType(), "table").to_pylist()
        paths = only_column(by_kind, b"entity_path", EntityPathType(), "table").to_pylist()
        counts = only_column(by_kind, b"num_instances", pa.uint32(), "table").to_pylist()
        times = [_times(*each) for each in by_kind.pop(b"timeline", [])]
        cells = [_cells(*each) for each in by_kind.pop(b"component", [])]
        if by_kind:
            raise InvalidInputError(
                "a table of events has ids, paths, counts, timelines, components"
            )
        found = cls()
        for at, (event_id, path, count) in enumerate(zip(ids, paths, counts, strict=True)):
            time_point = {name: moment(at) for name, column, moment in times if column[at].is_valid}
            own: dict[str, pa.Array] = {}
            for name, column in cells:
                if column[at].is_valid:
                    if name in own:
                        raise InvalidInputError(
                            f"an event of {path!r} has component {name!r} twice", component=name
                        )
                    own[name] = column[at].values
            found.append_row(_row(event_id, path, time_point, count, own))
        return found

    def __len__(self) -> int:
        return len(self._rows)

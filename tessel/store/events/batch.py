"""Events of one shape as columns: what goes into a live store, a journal, a socket."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass
from tessel.store.events.chunk import Chunk, Shape, chunk_of, lists_of
from tessel.store.events.extension_types import EventIdType, ReferenceType, check_references
from tessel.store.events.row import INSTANCE_KEY, MARKS, Row, check_type
from tessel.store.events.timeline import (
    Timeline,
    TimelineKind,
    check_component,
    check_entity,
    from_text,
    id_parts,
    ids_as_arrow,
    ids_of_arrow,
    to_text,
)

EVENT_ID, INSTANCES = "event_id", "num_instances"
KIND, _ENTITY, _TIMELINE = b"tessel.kind", b"tessel.entity", b"tessel.timeline"
_ARRIVED, _LIST = b"tessel.ingestion_time", b"tessel.list"
_PIECE_BYTES = 16 << 20
ByKind = dict[bytes, list[tuple[pa.Field, pa.Array]]]
_OWN = frozenset((*MARKS, INSTANCE_KEY))


@checks_arguments
@dataclass(frozen=True)
class EventBatch:
    """Events of one shape, in the order of their ids.

    Attributes
    ----------
    shape, chunk
        What they have in common, and the events.
    lists
        Components that are lists, though each of these events may have one value.
    """

    shape: Shape
    chunk: Chunk
    lists: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.chunk)

    def to_arrow(self, *, arrivals: bool = False) -> pa.RecordBatch:
        """Return the events as a record batch that says by itself what its columns are.

        With ``arrivals`` its metadata say when a live store took them, where one has, and which
        components are lists: for what the store keeps. Who is sent events finds out himself.
        """
        rows = np.arange(len(self.chunk))
        ids = ids_as_arrow(self.chunk.ids(rows))
        columns: list[pa.Array] = [pa.ExtensionArray.from_storage(EventIdType(), ids)]
        fields = [pa.field(EVENT_ID, EventIdType(), metadata={KIND: b"event_id"})]
        for timeline, times in zip(self.shape.timelines, self.chunk.times, strict=True):
            columns.append(arrow_array(times).view(timeline.type))
            metadata = {KIND: b"timeline", _TIMELINE: timeline.kind.value.encode()}
            fields.append(pa.field(timeline.name, timeline.type, metadata=metadata))
        columns.append(arrow_array(self.chunk.instances_at(rows)))
        fields.append(pa.field(INSTANCES, pa.uint32(), metadata={KIND: b"num_instances"}))
        for at, (name, _) in enumerate(self.shape.components):
            cells = self.chunk.column(at)
            columns.append(cells)
            facts = {KIND: b"component"}
            if arrivals and name in self.lists:
                facts[_LIST] = b"true"
            fields.append(pa.field(name, cells.type, metadata=facts))
        metadata = {KIND: b"events", _ENTITY: self.shape.entity.encode()}
        if arrivals and self.chunk.arrivals is not None:
            metadata[_ARRIVED] = to_text(self.chunk.arrivals.at(rows)).encode()
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))

    def split(self, parts: int) -> list[EventBatch]:
        """Return the events as so many batches, or as one for each event where there are fewer.

        Raises
        ------
        InvalidInputError
            For less than one part.
        """
        if parts < 1:
            raise InvalidInputError(f"a batch is split into at least one part, not {parts}")
        parts = min(parts, len(self))
        bounds = [len(self) * part // parts for part in range(parts + 1)] if parts else []
        return [
            EventBatch(self.shape, self.chunk.take(np.arange(first, last)), self.lists)
            for first, last in itertools.pairwise(bounds)
        ]

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch, *, arrivals: bool = False) -> EventBatch:
        """Read what :meth:`to_arrow` made, with ``arrivals`` also when the events were taken.

        Raises
        ------
        InvalidInputError
            For a batch that is none, whatever is wrong with it.
        """
        by_kind = columns_by_kind(batch)
        metadata = batch.schema.metadata or {}
        if metadata.get(KIND) != b"events" or _ENTITY not in metadata:
            raise InvalidInputError("a record batch that does not say it holds events")
        entity = check_entity(metadata[_ENTITY].decode(errors="replace"))
        timelines = [_timeline(field, column) for field, column in by_kind.pop(b"timeline", [])]
        components = [_component(field, column) for field, column in by_kind.pop(b"component", [])]
        ids = only_column(by_kind, b"event_id", EventIdType(), "batch")
        instances = only_column(by_kind, b"num_instances", pa.uint32(), "batch")
        if by_kind or not components:
            raise InvalidInputError("events have ids, counts, timelines and components")
        names = [timeline.name for timeline, _ in timelines] + [name for name, *_ in components]
        if len(set(names)) != len(names):
            raise InvalidInputError("a batch of events has two columns of one name")
        timelines.sort(key=lambda each: each[0].name)
        components.sort(key=lambda each: each[0])
        counts = numpy_array(instances)
        _check_counts(components, counts)
        arrived = metadata.get(_ARRIVED) if arrivals else None
        chunk = chunk_of(
            ids_of_arrow(ids),
            [times for _, times in timelines],
            counts,
            [cells for _, _, cells in components],
            None if arrived is None else from_text(arrived.decode(errors="replace"), len(batch)),
        )
        shape = Shape(
            entity,
            tuple(timeline for timeline, _ in timelines),
            tuple((name, kind) for name, kind, _ in components),
        )
        lists = [
            field.name for field in batch.schema if arrivals and _LIST in (field.metadata or {})
        ]
        return cls(shape, chunk, shape.names & frozenset(lists))


def pieces_of(batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
    """Give batches one after the other; those with cells at rest in parts that memory holds."""
    for batch in batches:
        parts = 1
        if batch.chunk.at_rest:
            parts = int(batch.chunk.row_bytes * len(batch) // _PIECE_BYTES) + 1
        yield from batch.split(parts) if parts > 1 else [batch]


def batches_of_rows(rows: Iterable[Row]) -> list[EventBatch]:
    """Return events as batches, one a shape."""
    groups: dict[Shape, list[Row]] = {}
    for row in rows:
        if not row.cells:
            raise InvalidInputError(
                f"an event of {row.entity!r} without a cell",
                hint="append a cell; to clear an entity make the row with Row.clear",
            )
        timelines = tuple(sorted(row.time_point, key=lambda timeline: timeline.name))
        components = tuple((cell.component, cell.type) for cell in row.cells)
        groups.setdefault(Shape(row.entity, timelines, components), []).append(row)
    return [_batch(shape, members) for shape, members in groups.items()]


def _batch(shape: Shape, rows: Sequence[Row]) -> EventBatch:
    chunk = chunk_of(
        np.array([id_parts(row.event_id) for row in rows], np.uint64),
        [np.array([row.time_point[t] for row in rows], np.int64) for t in shape.timelines],
        np.array([row.num_instances for row in rows], np.uint32),
        [lists_of([row._cells[n].values for row in rows], kind) for n, kind in shape.components],
    )
    return EventBatch(shape, chunk)


def _timeline(field: pa.Field, column: pa.Array) -> tuple[Timeline, np.ndarray]:
    text = (field.metadata or {}).get(_TIMELINE, b"").decode(errors="replace")
    if text not in {kind.value for kind in TimelineKind}:
        raise InvalidInputError(f"timeline {field.name!r} is of no kind: {text!r}")
    timeline = Timeline(check_component(field.name), TimelineKind(text))
    if column.type != timeline.type or column.null_count:
        raise InvalidInputError(
            f"timeline {field.name!r} holds {column.type}, or nulls, not {timeline.type}"
        )
    return timeline, numpy_array(column.view(pa.int64()))


def _component(field: pa.Field, column: pa.Array) -> tuple[str, pa.DataType, pa.Array]:
    name = field.name
    if name not in _OWN:
        check_component(name)
    if pa.types.is_large_list(column.type):
        if column.null_count:
            raise InvalidInputError(f"component {name!r}: a cell that is null is left out instead")
        if column.type.value_type == ReferenceType():
            check_references(name, column.flatten())
        return name, check_type(name, column.type.value_type), column
    if column.null_count:
        raise InvalidInputError(f"component {name!r}: missing values stand inside lists")
    if column.type == ReferenceType():
        check_references(name, column)
    return name, check_type(name, column.type), column


def columns_by_kind(batch: pa.RecordBatch) -> ByKind:
    """Return the fields and columns of a batch that may come from anywhere, by their kind."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a record batch that is damaged: {error}") from error
    by_kind: ByKind = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        by_kind.setdefault((field.metadata or {}).get(KIND, b""), []).append((field, column))
    return by_kind


def only_column(by_kind: ByKind, kind: bytes, expected: pa.DataType, what: str) -> pa.Array:
    """Return the one column of a kind as storage: who wrote it may not have known our types."""
    found = [column for _, column in by_kind.pop(kind, [])]
    storage = expected.storage_type if isinstance(expected, pa.ExtensionType) else expected
    if len(found) == 1 and found[0].type == expected != storage:
        found = [found[0].storage]
    if len(found) != 1 or found[0].type != storage or found[0].null_count:
        raise InvalidInputError(f"a {what} of events needs one column {kind.decode()!r}: {storage}")
    return found[0]


def _check_counts(
    components: Sequence[tuple[str, pa.DataType, pa.Array]], counts: np.ndarray
) -> None:
    for name, _, cells in components:
        if not pa.types.is_large_list(cells.type):
            continue
        lengths = np.diff(numpy_array(cells.offsets))
        wrong = np.flatnonzero((lengths > 1) & (lengths != counts))
        if len(wrong):
            raise InvalidInputError(
                f"component {name!r} has {lengths[wrong[0]]} values in an event of "
                f"{counts[wrong[0]]} instances",
                component=name,
            )

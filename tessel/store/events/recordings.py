"""Saved recordings: the events of a live store as ordinary symbols, one an entity.

Each symbol has its events in the order of their ids, however many calls logged them, on the time
index ``log_time``; then ``event_id``, ``ingestion_time``, a column a timeline, ``num_instances``
and a column a component, null where an event has none. A component is a plain column until an event
holds several values, then a column of lists for good: empty cells change nothing. Where events
differ in what they have, ``tessel.presence`` says what each has: a bit a timeline and a component;
``tessel.empty`` says of which plain columns an event has a cell without a value. The metadata of
the symbol say which column is what, so that a live store that is opened from it
(:mod:`tessel.store.events.recording`) gives the same answers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.errors import InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Chunk, as_lists
from tessel.store.events.timeline import STAMP, Timeline, TimelineKind, ids_as_arrow
from tessel.store.repository import Repository

ATTACHED = "tessel.events"
EVENT_ID, INSTANCES, PRESENCE = "event_id", "num_instances", "tessel.presence"
EMPTY = "tessel.empty"
ARRIVED = "ingestion_time"
_LOG_TIME = "log_time"
_OWN = frozenset((_LOG_TIME, EVENT_ID, ARRIVED, INSTANCES))
_WINDOW_BYTES = 256 << 20
"""Events that are made columns at a time: enough for segments of the usual size."""


def save_recording(store: Repository, name: str, batches: Iterable[EventBatch]) -> int:
    """Write events as the symbols ``name/entity``, in one commit; return the version.

    Symbols that an earlier recording of that name has, and this one has not, are deleted.
    """
    by_entity: dict[str, list[EventBatch]] = {}
    for batch in batches:
        by_entity.setdefault(batch.shape.entity, []).append(batch)
    before = {each for each in store.symbols() if each.startswith(f"{name}/")}
    with store.transaction(f"recording {name}") as transaction:
        for entity, parts in by_entity.items():
            symbol = f"{name}/{entity}"
            saved = _Saved(entity, parts)
            for at, table in enumerate(saved.tables()):
                if at:
                    transaction.append(symbol, table)
                else:
                    attached = {ATTACHED: saved.description()}
                    transaction.write(symbol, table, index=_LOG_TIME, metadata=attached)
            before.discard(symbol)
        for symbol in before:
            if ATTACHED in store.view(symbol).metadata:
                transaction.delete(symbol)
    return store.at(None).number


# --- to columns -----------------------------------------------------------------------------------


class _Saved:
    """The events of one entity, and the columns that they become."""

    def __init__(self, entity: str, batches: Sequence[EventBatch]) -> None:
        self._entity = entity
        self._batches = batches
        timelines = {t.name: t for batch in batches for t in batch.shape.timelines}
        kinds = {name: kind for batch in batches for name, kind in batch.shape.components}
        self._timelines = dict(sorted(timelines.items()))
        self._kinds = dict(sorted(kinds.items()))
        taken = _OWN & (timelines.keys() | kinds.keys())
        if taken or timelines.keys() & kinds.keys():
            raise InvalidInputError(
                f"entity {entity!r} has a component or timeline {sorted(taken) or 'twice'}, which "
                "a saved recording cannot have",
                hint="log it under another name",
            )
        self._lists = {
            name
            for batch in batches
            for at, (name, _) in enumerate(batch.shape.components)
            if name in batch.lists or batch.chunk.has_several(at)
        }
        blanks = [
            (name, *batch.chunk.blanks(at))
            for batch in batches
            for at, (name, _) in enumerate(batch.shape.components)
            if name not in self._lists
        ]
        self._empty = {name for name, is_empty, _ in blanks if is_empty}
        self._missing = {name for name, _, is_missing in blanks if is_missing}
        self._names = [*self._timelines, *self._kinds]
        shapes = {_names(batch) for batch in batches}
        self._presence = len(shapes) > 1 or bool(self._empty | self._missing)

    def description(self) -> dict[str, Any]:
        """Return what the metadata of the symbol say."""
        changed = [
            pa.field(name, kind)
            for name, kind in self._kinds.items()
            if not any(comes_back(kind) for comes_back in _STORED)
        ]
        types = base64.b64encode(pa.schema(changed).serialize().to_pybytes()).decode()
        return {
            "entity": self._entity,
            "timelines": {name: each.kind.value for name, each in self._timelines.items()},
            "components": list(self._kinds),
            "lists": sorted(self._lists),
            "ingestion_time": True,
            **({"missing": sorted(self._missing)} if self._missing else {}),
            **({"types": types} if changed else {}),
        }

    def tables(self) -> Iterator[pa.Table]:
        """Give the events in the order of their ids; as many at a time as memory should hold."""
        weights = np.repeat(
            [batch.chunk.row_bytes for batch in self._batches], list(map(len, self._batches))
        )
        if weights.sum() <= _WINDOW_BYTES:
            yield self._table(self._batches)
            return
        ids = np.concatenate([b.chunk.ids(np.arange(len(b))) for b in self._batches])
        source = np.repeat(np.arange(len(self._batches)), list(map(len, self._batches)))
        row = np.concatenate([np.arange(len(batch)) for batch in self._batches])
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        window = (np.cumsum(weights[order]) // _WINDOW_BYTES).astype(np.int64)
        for rows in np.split(order, np.flatnonzero(np.diff(window)) + 1):
            numbers = set(source[rows].tolist())
            parts = ((self._batches[n], row[rows[source[rows] == n]]) for n in numbers)
            yield self._table([replace(each, chunk=each.chunk.take(here)) for each, here in parts])

    def _table(self, batches: Sequence[EventBatch]) -> pa.Table:
        tables = [self._columns(batch) for batch in batches]
        return concat_tables(tables).sort_by(EVENT_ID).combine_chunks()

    def _columns(self, batch: EventBatch) -> pa.Table:
        chunk, count = batch.chunk, len(batch)
        rows = np.arange(count)
        columns = {
            _LOG_TIME: arrow_array(chunk.id_times.astype(np.int64)).view(STAMP),
            EVENT_ID: ids_as_arrow(chunk.ids(rows)),
            ARRIVED: arrow_array(chunk.arrived_at(rows)).view(STAMP),
        }
        times = {t.name: each for t, each in zip(batch.shape.timelines, chunk.times, strict=True)}
        for name, timeline in self._timelines.items():
            held = times.get(name)
            columns[name] = (
                pa.nulls(count, timeline.type)
                if held is None
                else arrow_array(held).view(timeline.type)
            )
        columns[INSTANCES] = arrow_array(np.array(chunk.instances_at(rows)))
        places = {name: at for at, (name, _) in enumerate(batch.shape.components)}
        for name, kind in self._kinds.items():
            at = places.get(name)
            if at is None:
                kept = pa.large_list(kind) if name in self._lists else kind
                columns[name] = _at_rest(pa.nulls(count, kept))
            else:
                columns[name] = _at_rest(self._cells(chunk, at, name))
        if self._presence:
            has = np.isin(self._names, list(_names(batch)))
            bits = np.packbits(has, bitorder="little").tobytes()
            columns[PRESENCE] = arrow_array([bits], pa.binary(len(bits))).take(
                arrow_array(np.zeros(count, np.int64))
            )
        if self._empty:
            columns[EMPTY] = self._empty_bits(batch)
        return pa.table(columns)

    def _cells(self, chunk: Chunk, at: int, name: str) -> pa.Array:
        cells = chunk.column(at)
        is_list = pa.types.is_large_list(cells.type)
        if name in self._lists:
            return cells if is_list else as_lists(cells)
        if not is_list:
            return cells
        starts, lengths = numpy_array(cells.offsets)[:-1], np.diff(numpy_array(cells.offsets))
        return cells.values.take(arrow_array(starts, mask=lengths == 0))

    def _empty_bits(self, batch: EventBatch) -> pa.Array:
        """Return for each event a bit a component, set where a plain column has no value of it."""
        has = np.zeros((len(batch), len(self._kinds)), np.bool_)
        places = batch.shape.component_places
        for number, name in enumerate(self._kinds):
            if name in self._empty and name in places:
                lists = batch.chunk.lists(places[name])
                has[:, number] = np.diff(numpy_array(lists.offsets)) == 0
        packed = np.packbits(has, axis=1, bitorder="little")
        raw = pa.py_buffer(np.ascontiguousarray(packed))
        return pa.Array.from_buffers(pa.binary(packed.shape[1]), len(batch), [None, raw])


def _names(batch: EventBatch) -> frozenset[str]:
    return batch.shape.names | {timeline.name for timeline in batch.shape.timelines}


_STORED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_temporal,
)


def _at_rest(cells: pa.Array) -> pa.Array:
    """Return cells in a type that symbols have: of extension types what they are stored as."""
    if pa.types.is_large_list(cells.type):
        if not isinstance(cells.type.value_type, pa.BaseExtensionType):
            return cells
        mask = cells.is_null() if cells.null_count else None
        return pa.LargeListArray.from_arrays(cells.offsets, _at_rest(cells.values), mask=mask)
    return cells.storage if isinstance(cells.type, pa.BaseExtensionType) else cells


# --- from columns ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """What the metadata of a symbol say of its columns.

    Attributes
    ----------
    timelines
        By name, sorted.
    components
        The types of their values by name, sorted.
    lists
        The components that are columns of lists.
    has_empty
        Whether a column says which cells of plain columns have no value.
    missing
        The plain columns in which a value may be missing, and not only a cell.
    """

    entity: str
    timelines: dict[str, Timeline]
    components: dict[str, pa.DataType]
    lists: frozenset[str]
    has_presence: bool
    has_arrivals: bool
    has_empty: bool
    missing: frozenset[str]

    @classmethod
    def read(cls, symbol: str, attached: Mapping[str, Any], schema: TableSchema) -> Description:
        """Read what :func:`save_recording` attached; refuse what does not fit the columns.

        Raises InvalidInputError for a symbol that is no recording, though it says so.
        """
        entity, timelines = attached.get("entity"), attached.get("timelines")
        components, lists = attached.get("components"), attached.get("lists")
        has_arrivals = attached.get("ingestion_time") is True
        missing = attached.get("missing", [])
        kinds = {kind.value: kind for kind in TimelineKind}
        if (
            not isinstance(entity, str)
            or not isinstance(timelines, Mapping)
            or not isinstance(components, list)
            or not isinstance(lists, list | None)
            or not isinstance(missing, list)
            or not set(missing) <= set(components)
            or not set(timelines.values()) <= kinds.keys()
            or not {EVENT_ID, INSTANCES, *timelines, *components} <= set(schema.names)
            or schema.type_of(EVENT_ID) != pa.binary(16)
            or schema.type_of(INSTANCES) != pa.uint32()
            or (has_arrivals and (ARRIVED not in schema or schema.type_of(ARRIVED) != STAMP))
        ):
            raise _no_recording(symbol)
        stored = {name: schema.type_of(name) for name in sorted(components)}
        if lists is None:  # an older release: every list is one of values
            lists = [name for name, kind in stored.items() if pa.types.is_list(kind)]
        named = {name: Timeline(name, kinds[kind]) for name, kind in sorted(timelines.items())}
        if not all(pa.types.is_list(stored.get(name, pa.null())) for name in lists) or any(
            schema.type_of(name) != timeline.type for name, timeline in named.items()
        ):
            raise _no_recording(symbol)
        values = {n: kind.value_type if n in lists else kind for n, kind in stored.items()}
        values |= _types(symbol, attached.get("types"), values)
        width = (len(named) + len(values) + 7) // 8
        present = PRESENCE in schema and schema.type_of(PRESENCE) == pa.binary(width)
        width = (len(values) + 7) // 8
        empty = EMPTY in schema and schema.type_of(EMPTY) == pa.binary(width)
        return cls(
            entity, named, values, frozenset(lists), present, has_arrivals, empty,
            frozenset(missing),
        )  # fmt: skip


def _types(symbol: str, text: Any, known: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the types of components that symbols do not have."""
    if text is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, OSError, TypeError, ValueError, binascii.Error) as error:
        raise _no_recording(symbol) from error
    return {field.name: field.type for field in schema if field.name in known}


def _no_recording(symbol: str) -> InvalidInputError:
    return InvalidInputError(
        f"symbol {symbol!r} is no saved recording, though it says so",
        hint="save the recording anew",
        symbol=symbol,
    )

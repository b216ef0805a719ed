"""Saved recordings: the events of a live store as ordinary symbols, one an entity.

Each symbol has its events in the order of their ids, however many calls logged them, on the time
index ``log_time``; then ``event_id``, a column a timeline, ``num_instances`` and a column a
component, null where an event has none. A component of single values is a plain column, others are
lists. The metadata of the symbol say which column is what, so that a live store that is opened from
it gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import InvalidInputError, SymbolNotFoundError
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Shape, as_lists, chunk_of
from tessel.store.events.timeline import STAMP, Timeline, TimelineKind
from tessel.store.repository import Repository

__all__ = ["load_recording", "save_recording"]

_ATTACHED = "tessel.events"
_LOG_TIME, _EVENT_ID, _INSTANCES = "log_time", "event_id", "num_instances"
_INGESTION_TIME = "ingestion_time"
_OWN = (_LOG_TIME, _EVENT_ID, _INGESTION_TIME, _INSTANCES)


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
            table, description = _table(entity, parts)
            transaction.write(
                f"{name}/{entity}", table, index=_LOG_TIME, metadata={_ATTACHED: description}
            )
            before.discard(f"{name}/{entity}")
        for symbol in before:
            if _ATTACHED in store.view(symbol).metadata:
                transaction.delete(symbol)
    return store.at(None).number


def load_recording(store: Repository, name: str) -> list[EventBatch]:
    """Return the events of a recording.

    Raises
    ------
    SymbolNotFoundError
        Where there is no recording of that name.
    InvalidInputError
        For symbols that are no recording.
    """
    symbols = [each for each in store.symbols() if each.startswith(f"{name}/")]
    if not symbols:
        raise SymbolNotFoundError.for_name(f"{name}/…", store.symbols())
    found = []
    with store.transaction() as snapshot:  # reads all of one version, and changes nothing
        for symbol in symbols:
            description = store.view(symbol, snapshot.base_version).metadata.get(_ATTACHED)
            if isinstance(description, Mapping):
                found += _batches(symbol, snapshot.read(symbol), description)
    return found


# --- to columns -----------------------------------------------------------------------------------


def _table(entity: str, batches: Sequence[EventBatch]) -> tuple[pa.Table, dict[str, Any]]:
    timelines = {t.name: t for batch in batches for t in batch.shape.timelines}
    kinds = {name: kind for batch in batches for name, kind in batch.shape.components}
    taken = set(_OWN) & (timelines.keys() | kinds.keys())
    if taken or timelines.keys() & kinds.keys():
        raise InvalidInputError(
            f"entity {entity!r} has a component or timeline {sorted(taken) or 'twice'}, which a "
            "saved recording cannot have",
            hint="log it under another name",
        )
    plain = {
        name: not any(
            pa.types.is_large_list(batch.chunk.cells[at].type)
            for batch in batches
            for at, (each, _) in enumerate(batch.shape.components)
            if each == name
        )
        for name in kinds
    }
    tables = [_columns(batch, timelines, kinds, plain) for batch in batches]
    table = pa.concat_tables(tables).sort_by(_EVENT_ID).combine_chunks()
    description = {
        "entity": entity,
        "timelines": {name: timeline.kind.value for name, timeline in sorted(timelines.items())},
        "components": sorted(kinds),
        "ingestion_time": True,
    }
    return table, description


def _columns(
    batch: EventBatch,
    timelines: Mapping[str, Timeline],
    kinds: Mapping[str, pa.DataType],
    plain: Mapping[str, bool],
) -> pa.Table:
    chunk, count = batch.chunk, len(batch)
    rows = np.arange(count)
    arrow = batch.to_arrow()
    columns = {
        _LOG_TIME: pa.array(chunk.id_times.astype(np.int64)).view(STAMP),
        _EVENT_ID: arrow.column(0),
        _INGESTION_TIME: pa.array(chunk.arrived_at(rows)).view(STAMP),
    }
    for name, timeline in sorted(timelines.items()):
        held = timeline in batch.shape.timelines
        columns[name] = arrow.column(name) if held else pa.nulls(count, timeline.type)
    columns[_INSTANCES] = pa.array(np.array(chunk.instances_at(rows)))
    places = {name: at for at, (name, _) in enumerate(batch.shape.components)}
    for name, kind in sorted(kinds.items()):
        column_type = kind if plain[name] else pa.large_list(kind)
        if name not in places:
            columns[name] = pa.nulls(count, column_type)
        else:
            at = places[name]
            columns[name] = chunk.cells[at] if plain[name] else chunk.lists(at)
    return pa.table(columns)


# --- from columns ---------------------------------------------------------------------------------


def _batches(symbol: str, table: pa.Table, description: Mapping[str, Any]) -> list[EventBatch]:
    entity, timelines, components = _described(symbol, table, description)
    if not table.num_rows:
        return []
    has_arrivals = description.get("ingestion_time") is True
    present = [table.column(name).is_valid() for name in (*timelines, *components)]
    marks = np.zeros(table.num_rows, np.int64)
    numbers: dict[bytes, int] = {}
    stacked = np.stack([each.to_numpy() for each in present], axis=1)
    for row, bits in enumerate(np.packbits(stacked, axis=1)):
        marks[row] = numbers.setdefault(bits.tobytes(), len(numbers))
    found = []
    for number in range(len(numbers)):
        rows = np.flatnonzero(marks == number)
        part = table.take(pa.array(rows)).combine_chunks()
        here = stacked[rows[0]]
        names = [n for n, held in zip((*timelines, *components), here, strict=True) if held]
        arrived = part.column(_INGESTION_TIME).chunk(0) if has_arrivals else None
        found.append(_batch(entity, part, names, timelines, arrived))
    return found


def _described(
    symbol: str, table: pa.Table, description: Mapping[str, Any]
) -> tuple[str, dict[str, Timeline], list[str]]:
    entity = description.get("entity")
    timelines, components = description.get("timelines"), description.get("components")
    kinds = {kind.value: kind for kind in TimelineKind}
    if (
        not isinstance(entity, str)
        or not isinstance(timelines, Mapping)
        or not isinstance(components, list)
        or not set(timelines.values()) <= kinds.keys()
        or not {_EVENT_ID, _INSTANCES, *timelines, *components} <= set(table.column_names)
        or table.column(_EVENT_ID).type != pa.binary(16)
        or (description.get("ingestion_time") is True and not _has_arrivals(table))
    ):
        raise InvalidInputError(f"symbol {symbol!r} is no saved recording, though it says so")
    named = {name: Timeline(name, kinds[kind]) for name, kind in timelines.items()}
    return entity, named, list(components)


def _has_arrivals(table: pa.Table) -> bool:
    if _INGESTION_TIME not in table.column_names:
        return False
    column = table.column(_INGESTION_TIME)
    return bool(column.type == STAMP and not column.null_count)


def _batch(
    entity: str,
    part: pa.Table,
    names: Sequence[str],
    timelines: Mapping[str, Timeline],
    arrived: pa.Array | None,
) -> EventBatch:
    mine = tuple(timelines[name] for name in sorted(names) if name in timelines)
    components = sorted(name for name in names if name not in timelines)
    cells = [_cells(part.column(name).chunk(0)) for name in components]
    ids = part.column(_EVENT_ID).chunk(0)
    raw = np.frombuffer(ids.buffers()[1], ">u8", 2 * len(ids), 16 * ids.offset)
    chunk = chunk_of(
        raw.astype(np.uint64).reshape(-1, 2),
        [part.column(t.name).chunk(0).view(pa.int64()).to_numpy() for t in mine],
        pc.cast(part.column(_INSTANCES), pa.uint32()).to_numpy(),
        cells,
        None if arrived is None else arrived.view(pa.int64()).to_numpy(),
    )
    kinds = tuple(
        (name, each.type.value_type) for name, each in zip(components, cells, strict=True)
    )
    return EventBatch(Shape(entity, mine, kinds), chunk)


def _cells(column: pa.Array) -> pa.Array:
    if pa.types.is_list(column.type):
        offsets = column.offsets.cast(pa.int64())
        values = column.values
        return pa.LargeListArray.from_arrays(offsets, values)
    return column if pa.types.is_large_list(column.type) else as_lists(column)

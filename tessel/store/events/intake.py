"""What is new among events that arrive; events that are here already must be the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tessel.errors import InvalidInputError
from tessel.store.events.batch import EventBatch, batches_of_rows
from tessel.store.events.chunk import Chunk
from tessel.store.events.index import EventIndex, ShapeLog
from tessel.store.events.row import Row
from tessel.store.events.table import Table

__all__ = ["Events", "batches_of", "new_batches"]

Events = Row | Table | EventBatch | Iterable[Row] | Iterable[EventBatch]
"""What can be inserted."""


def batches_of(events: Events) -> list[EventBatch]:
    """Return events as batches, one a shape."""
    if isinstance(events, Row):
        return batches_of_rows([events])
    if isinstance(events, Table):
        return events.batches()
    if isinstance(events, EventBatch):
        return [events]
    given: list[Any] = list(events)
    if all(isinstance(each, EventBatch) for each in given):
        return given
    return Table.from_rows(given).batches()


def new_batches(index: EventIndex, batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Return the batches without the events that an index has.

    Raises
    ------
    InvalidInputError
        For an event whose id another one has, a timeline of another kind than before, or a
        component of another type.
    """
    trial = EventIndex()  # of these alone: they must fit each other as well
    new = []
    for batch in batches:
        if not len(batch):
            continue
        index.check(batch.shape)
        trial.check(batch.shape)
        fresh = _without_known(index, batch)
        fresh = None if fresh is None else _without_known(trial, fresh)
        if fresh is not None:
            trial.log(fresh.shape).add(fresh.chunk)
            trial.last_id = max(trial.last_id, fresh.chunk.last_id)
            new.append(fresh)
    return new


def _without_known(index: EventIndex, batch: EventBatch) -> EventBatch | None:
    """Return a batch without the events that are here, which must be the same."""
    chunk = batch.chunk
    wanted = np.ones(len(chunk), np.bool_)
    for row in index.known(chunk).tolist():
        place = index.find(chunk.id_at(row))
        if place is None:
            continue
        if not _same(batch, row, place.log, place.chunk, place.row):
            raise InvalidInputError(
                f"another event has the id {chunk.ids(np.array([row])).tolist()[0]}",
                hint="make ids with EventIds, one for each process",
                entity=batch.shape.entity,
            )
        wanted[row] = False
    for row in (np.flatnonzero(_repeated(chunk)) + 1).tolist():
        if not _same(batch, row, ShapeLog(batch.shape), chunk, row - 1):
            raise InvalidInputError(f"two events of a batch have one id: rows {row - 1}, {row}")
        wanted[row] = False
    if wanted.all():
        return batch
    rows = np.flatnonzero(wanted)
    return EventBatch(batch.shape, chunk.take(rows)) if len(rows) else None


def _repeated(chunk: Chunk) -> np.ndarray:
    """Return which rows, from the second on, have the id of the row before."""
    ids = chunk.ids(np.arange(len(chunk)))
    return np.asarray((ids[1:] == ids[:-1]).all(axis=1))


def _same(batch: EventBatch, row: int, log: ShapeLog, chunk: Chunk, other: int) -> bool:
    mine, theirs = batch.chunk.take(np.array([row])), chunk.take(np.array([other]))
    return (
        batch.shape == log.shape
        and [times.tolist() for times in mine.times] == [times.tolist() for times in theirs.times]
        and mine.instances.tolist() == theirs.instances.tolist()
        and all(
            mine.lists(at).equals(theirs.lists(at)) for at in range(len(batch.shape.components))
        )
    )

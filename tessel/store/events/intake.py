"""What is new among events that arrive; events that are here already must be the same."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tessel.errors import InvalidInputError
from tessel.store.events.batch import EventBatch, batches_of_rows
from tessel.store.events.chunk import Chunk, Shape
from tessel.store.events.event_ids import Ids
from tessel.store.events.index import Draft, View
from tessel.store.events.row import Row
from tessel.store.events.table import Table

Events = Row | Table | EventBatch | Iterable[Row] | Iterable[EventBatch]
"""What can be inserted."""


class ArrivalClock:
    """Says when events arrive: nanoseconds since 1970 that never go back. Used under a lock."""

    def __init__(self) -> None:
        self._last = 0

    def stamped(self, batches: Sequence[EventBatch], *, were_kept: bool) -> list[EventBatch]:
        """Return events that arrive together with the time; that of ``were_kept`` ones stays."""
        self._last = max(time.time_ns(), self._last)
        return [
            batch
            if were_kept and batch.chunk.arrivals is not None
            else EventBatch(batch.shape, batch.chunk.arrived(self._last), batch.lists)
            for batch in batches
        ]


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


def new_batches(view: View, draft: Draft, batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Return the batches without the events that a view has; the draft takes up their shapes.

    Raises
    ------
    InvalidInputError
        For an event whose id another one has, a timeline of another kind than before, or a
        component of another type.
    """
    held = [batch for batch in batches if len(batch)]
    for batch in held:
        draft.declare(batch.shape)
    if not held:
        return []
    times = np.concatenate([batch.chunk.id_times for batch in held])
    twins, known = _repeated(times), view.known([batch.chunk for batch in held])
    if not len(twins) and not len(known):
        return held
    ids = np.concatenate([batch.chunk.ids(np.arange(len(batch))) for batch in held])
    wanted = np.ones(len(ids), np.bool_)
    starts = np.cumsum([0, *map(len, held)])
    _refuse_other_twins(held, starts, ids, twins, wanted)
    _refuse_others(view, held, starts, ids, known, wanted)
    new = []
    for batch, start, stop in zip(held, starts[:-1], starts[1:], strict=True):
        rows = np.flatnonzero(wanted[start:stop])
        if len(rows) == len(batch):
            new.append(batch)
        elif len(rows):
            new.append(replace(batch, chunk=batch.chunk.take(rows)))
    return new


def _repeated(times: np.ndarray) -> np.ndarray:
    """Return the rows of which another has the time: the id, therefore, may be one as well."""
    if bool((times[1:] > times[:-1]).all()):
        return np.zeros(0, np.int64)
    ordered = np.sort(times)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(times, again)) if len(again) else np.zeros(0, np.int64)


def _refuse_other_twins(
    batches: Sequence[EventBatch],
    starts: np.ndarray,
    ids: Ids,
    rows: np.ndarray,
    wanted: np.ndarray,
) -> None:
    """Want only the first of the events of one id, which must be the same."""
    order = rows[np.lexsort((ids[rows, 1], ids[rows, 0]))]  # stable: the first one comes first
    again = np.flatnonzero((ids[order][1:] == ids[order][:-1]).all(axis=1))
    for at in again.tolist():
        first, other = (_place(batches, starts, int(order[n])) for n in (at, at + 1))
        if _event(*first) != _event(*other):
            raise InvalidInputError(
                f"two events that arrive have the id {ids[order[at]].tolist()}",
                hint="make ids with EventIds, one for each process",
                entity=first[0].entity,
            )
        wanted[order[at + 1]] = False


def _refuse_others(
    view: View,
    batches: Sequence[EventBatch],
    starts: np.ndarray,
    ids: Ids,
    known: np.ndarray,
    wanted: np.ndarray,
) -> None:
    """Want no event that is here, which must be the same."""
    for row in known.tolist():
        shape, chunk, at = _place(batches, starts, row)
        here = view.find((int(ids[row, 0]), int(ids[row, 1])), shape.entity)
        if here is None:
            continue
        if _event(shape, chunk, at) != _event(here.log.shape, here.chunk, here.row):
            raise InvalidInputError(
                f"another event has the id {ids[row].tolist()}",
                hint="make ids with EventIds, one for each process",
                entity=shape.entity,
            )
        wanted[row] = False


def _place(batches: Sequence[EventBatch], starts: np.ndarray, row: int) -> tuple[Shape, Chunk, int]:
    """Return where a row of all batches lies."""
    batch = int(np.searchsorted(starts, row, side="right")) - 1
    return batches[batch].shape, batches[batch].chunk, row - int(starts[batch])


def _event(shape: Shape, chunk: Chunk, row: int) -> tuple[Any, ...]:
    """Return all that an event is but for its id, to be compared."""
    rows = np.array([row])
    times = [int(each[row]) for each in chunk.times]
    cells = [chunk.lists(at, rows) for at in range(len(shape.components))]
    return shape, times, int(chunk.instances_at(rows)[0]), cells

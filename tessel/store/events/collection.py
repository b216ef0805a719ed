"""What comes and what goes: events that are new, collection, and plain drops.

Of events that arrive those that are here already must be the same, and are passed over. A
collection keeps every answer after its horizon.

Collected are the events with the least ids. Of each timeline the *horizon* is the greatest time of
an event that goes. One that would go by its id stays where it is the state, or the last clear, at a
horizon: the answer at a later time is either the same event, or one that is there anyway.

A timeless event whose values were all overwritten or cleared by later timeless ones is in no answer
any more, nor can it be: it goes with every collection, whatever its id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch, batches_of_rows
from tessel.store.events.chunk import Chunk, Shape, compacted
from tessel.store.events.index import Draft, Place, ShapeLog, View
from tessel.store.events.queries import cleared_timeless
from tessel.store.events.row import MARKS, Row
from tessel.store.events.table import Table


@dataclass(frozen=True)
class Change:
    """What a subscriber is told.

    Attributes
    ----------
    kind
        ``"added"``, ``"collected"`` or ``"dropped"``.
    events
        How many.
    batches
        Those that were added.
    horizons
        Of a collection: from when on every state is what it was.
    """

    kind: Literal["added", "collected", "dropped"]
    events: int
    batches: tuple[EventBatch, ...] = ()
    horizons: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Collected:
    """What a collection did.

    Attributes
    ----------
    events
        How many are gone.
    bytes_before, bytes_after
        Held by the store.
    horizons
        Of each timeline the time from which on every state is what it was.
    """

    events: int
    bytes_before: int
    bytes_after: int
    horizons: Mapping[str, int] = field(default_factory=dict)


def id_at_fraction(view: View, fraction: float) -> tuple[int, int]:
    """Return the id before which that part of the bytes of all temporal events lies."""
    ids, weights = [], []
    for log in _temporal(view):
        for chunk in log.chunks:
            ids.append(chunk.ids(np.arange(len(chunk))))
            weights.append(np.full(len(chunk), chunk.nbytes / len(chunk)))
    if not ids:
        return (0, 0)
    all_ids, weight = np.concatenate(ids), np.concatenate(weights)
    order = np.lexsort((all_ids[:, 1], all_ids[:, 0]))
    held = np.cumsum(weight[order])
    at = int(np.searchsorted(held, fraction * held[-1], side="left")) + 1
    if fraction <= 0:
        return (0, 0)
    if at >= len(order):
        return (2**64 - 1, 2**64 - 1)
    return int(all_ids[order[at], 0]), int(all_ids[order[at], 1])


def collect_before(view: View, cut: tuple[int, int]) -> tuple[View, dict[str, int]]:
    """Drop the temporal events with ids before ``cut`` but for those that are a state.

    Returns
    -------
    view, horizons
        What is left, and of each timeline the greatest time of an event before ``cut``.
    """
    leaving = {
        (log, number): chunk.before(cut)
        for log in _temporal(view)
        for number, chunk in enumerate(log.chunks)
        if chunk.first_id < cut
    }
    horizons: dict[str, int] = {}
    for (log, number), rows in leaving.items():
        for name, at in log.shape.timeline_places.items():
            latest = int(log.chunks[number].times[at][:rows].max())
            horizons[name] = max(horizons.get(name, latest), latest)
    kept = {
        (id(place.chunk), place.row)
        for logs in view.entities.every()
        for component in logs.by_component
        for name, horizon in horizons.items()
        for place in [logs.latest(component, name, horizon)]
        if place is not None
    }

    def keep(log: ShapeLog, chunk: Chunk) -> np.ndarray:
        wanted = np.ones(len(chunk), np.bool_)
        if log.shape.timelines and chunk.first_id < cut:
            going = range(chunk.before(cut))
            wanted[: len(going)] = [(id(chunk), row) in kept for row in going]
        return wanted

    return drop_where(view, keep), horizons


def collect_overwritten(view: View) -> View:
    """Drop the timeless events that are the state of no component and no last clear."""
    kept = {
        (id(place.chunk), place.row)
        for entity, logs in view.entities.items()
        for component in logs.by_component
        for place in [_timeless_state(view, entity, component)]
        if place is not None
    }

    def keep(log: ShapeLog, chunk: Chunk) -> np.ndarray:
        if log.shape.timelines:
            return np.ones(len(chunk), np.bool_)
        return np.array([(id(chunk), row) in kept for row in range(len(chunk))])

    return drop_where(view, keep)


def _timeless_state(view: View, entity: str, component: str) -> Place | None:
    place = view.entities.of(entity).timeless(component)
    if place is None or component in MARKS or place.key > cleared_timeless(view, entity):
        return place
    return None


def drop_where(view: View, keep: Callable[[ShapeLog, Chunk], np.ndarray]) -> View:
    """Return a view without the events of which ``keep`` says False.

    What is left of a chunk is copied out, so that its memory is given back.
    """
    draft = Draft(view)
    for log in view.logs():
        chunks: list[Chunk] = []
        changed = False
        for chunk in log.chunks:
            wanted = np.flatnonzero(keep(log, chunk))
            if len(wanted) == len(chunk):
                chunks.append(chunk)
                continue
            changed = True
            if len(wanted):
                chunks.append(chunk.take(wanted))
        if changed:
            small = [chunk for chunk in chunks if len(chunk) < 1024]
            large = [chunk for chunk in chunks if len(chunk) >= 1024]
            draft.replace(log, (*large, *compacted(small)))
    return draft.view()


def _temporal(view: View) -> list[ShapeLog]:
    return [log for log in view.logs() if log.shape.timelines]


# --- what is new among events that arrive ---------------------------------------------------------

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

    Raises InvalidInputError for an event whose id another one has, a timeline of another kind than
    before, or a component of another type.
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
    _, place, counts = np.unique(ids[twins], axis=0, return_inverse=True, return_counts=True)
    twins = twins[counts[place.reshape(-1)] > 1]
    wanted = np.ones(len(ids), np.bool_)
    starts = np.cumsum([0, *map(len, held)])
    first: dict[tuple[int, ...], tuple[Shape, Chunk, int]] = {}
    for row in twins.tolist():
        own = _place(held, starts, row)
        other = first.setdefault(tuple(ids[row].tolist()), own)
        if other is not own:
            _require_same(own, other, ids[row], "two events that arrive have")
            wanted[row] = False
    for row in known.tolist():
        own = _place(held, starts, row)
        here = view.find((int(ids[row, 0]), int(ids[row, 1])), own[0].entity)
        if here is not None:
            other = here.log.shape, here.chunk, here.row
            _require_same(own, other, ids[row], "another event has")
            wanted[row] = False
    new = []
    for batch, start, stop in zip(held, starts[:-1], starts[1:], strict=True):
        rows = np.flatnonzero(wanted[start:stop])
        if len(rows) == len(batch):
            new.append(batch)
        elif len(rows):
            new.append(replace(batch, chunk=batch.chunk.take(rows)))
    return new


def _repeated(times: np.ndarray) -> np.ndarray:
    """Return the rows that share their time with another row, and so may share its id."""
    if bool((times[1:] > times[:-1]).all()):
        return np.zeros(0, np.int64)
    ordered = np.sort(times)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(times, again)) if len(again) else np.zeros(0, np.int64)


def _require_same(
    own: tuple[Shape, Chunk, int], other: tuple[Shape, Chunk, int], event_id: np.ndarray, what: str
) -> None:
    if _event(*own) != _event(*other):
        raise InvalidInputError(
            f"{what} the id {event_id.tolist()}",
            hint="make ids with EventIds, one for each process",
            entity=own[0].entity,
        )


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

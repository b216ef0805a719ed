"""Letting go of events: collection that keeps every answer after its horizon, and plain drops.

Collected are the events with the least ids. Of each timeline the *horizon* is the greatest time of
an event that goes. One that would go by its id stays where it is the state, or the last clear, at a
horizon: the answer at a later time is either the same event, or one that is there anyway.

A timeless event whose values were all overwritten or cleared by later timeless ones is in no answer
any more, nor can it be: it goes with every collection, whatever its id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

import numpy as np

from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Chunk, compacted
from tessel.store.events.index import Draft, Place, ShapeLog, View
from tessel.store.events.queries import cleared_timeless
from tessel.store.events.row import MARKS


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

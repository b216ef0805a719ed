"""Letting go of events: collection that keeps every answer after its horizon, and plain drops.

Collected are the events with the least ids. Of each timeline the *horizon* is the greatest time of
an event that goes. One that would go by its id stays where it is the state, or the last clear, at a
horizon: the answer at a later time is either the same event, or one that is there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tessel.store.events.chunk import Chunk, compacted
from tessel.store.events.index import EventIndex, ShapeLog, View

__all__ = ["Collected", "collect_before", "drop_where", "id_at_fraction"]


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


def id_at_fraction(index: EventIndex, fraction: float) -> tuple[int, int]:
    """Return the id before which that part of the bytes of all temporal events lies."""
    ids, weights = [], []
    for log in _temporal(index):
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


def collect_before(index: EventIndex, cut: tuple[int, int]) -> tuple[int, dict[str, int]]:
    """Drop the temporal events with ids before ``cut`` but for those that are a state.

    Returns
    -------
    events, horizons
    """
    leaving = {
        (log, number): _before(chunk, cut)
        for log in _temporal(index)
        for number, chunk in enumerate(log.chunks)
        if chunk.first_id < cut
    }
    horizons: dict[str, int] = {}
    for (log, number), rows in leaving.items():
        for name, at in log.timelines.items():
            latest = int(log.chunks[number].times[at][rows].max())
            horizons[name] = max(horizons.get(name, latest), latest)
    kept = {
        (id(place.chunk), place.row)
        for entity, component in list(index.by_component)
        for name, horizon in horizons.items()
        for place in [index.latest(View(), name, horizon, entity, component)]
        if place is not None
    }

    def keep(log: ShapeLog, chunk: Chunk) -> np.ndarray:
        wanted = np.ones(len(chunk), np.bool_)
        if log.timelines and chunk.first_id < cut:
            rows = _before(chunk, cut)
            wanted[rows] = [(id(chunk), row) in kept for row in rows.tolist()]
        return wanted

    return drop_where(index, keep), horizons


def drop_where(index: EventIndex, keep: Callable[[ShapeLog, Chunk], np.ndarray]) -> int:
    """Drop the events of which ``keep`` says False; return how many.

    What is left of a chunk is copied out, so that its memory is given back.
    """
    dropped = 0
    for log in list(index.logs.values()):
        chunks: list[Chunk] = []
        changed = False
        for chunk in log.chunks:
            wanted = np.flatnonzero(keep(log, chunk))
            if len(wanted) == len(chunk):
                chunks.append(chunk)
                continue
            changed = True
            dropped += len(chunk) - len(wanted)
            if len(wanted):
                chunks.append(chunk.take(wanted))
        if changed:
            small = [chunk for chunk in chunks if len(chunk) < 1024]
            large = [chunk for chunk in chunks if len(chunk) >= 1024]
            log.chunks = (*large, *compacted(small))
    return dropped


def _temporal(index: EventIndex) -> list[ShapeLog]:
    return [log for log in index.logs.values() if log.timelines]


def _before(chunk: Chunk, cut: tuple[int, int]) -> np.ndarray:
    """Return the rows with ids before another; rows are in the order of ids."""
    low = int(np.searchsorted(chunk.id_times, np.uint64(cut[0]), side="left"))
    high = int(np.searchsorted(chunk.id_times, np.uint64(cut[0]), side="right"))
    same = chunk.counters.at(np.arange(low, high))
    return np.arange(low + int(np.searchsorted(same, np.uint64(cut[1]))))

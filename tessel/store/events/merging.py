"""Merging: events of one entity that share all their times become one.

A program that logs the components of an entity one by one, ``log("arm", {"x": 1.0}, frame=7)`` and
then ``log("arm", {"y": 2.0}, frame=7)``, makes an event of each. Merged they are one, with both
components and the greater of their ids. Every cell stays, so what is merged

- has the same times, the same number of instances, and no component twice;
- has no clear between, nor an event that logs one of its components at one of its times: cells
  that move to a greater id would pass it.

Then each state is what it was but for its event id, and so is what a range tells of a component.
That is so for the events of one recorder; those that others log between are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Shape, chunk_of
from tessel.store.events.row import CLEAR_RECURSIVE, INSTANCE_KEY, MARKS

__all__ = ["MergedBatch", "merge_same_time"]

Instant = tuple[str, int]
"""A timeline and a time on it; of timeless events one of no timeline."""


@dataclass(frozen=True)
class MergedBatch(EventBatch):
    """Merged events; ``parts`` are the events as they were, for a sink that refuses them."""

    parts: tuple[EventBatch, ...] = ()


@dataclass(eq=False)
class _Group:
    """Events that become one: the batch and row of each, in the order of ids."""

    times: tuple[Instant, ...]
    members: list[tuple[int, int]] = field(default_factory=list)
    components: set[str] = field(default_factory=set)


def merge_same_time(batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Return the events of some batches, those merged that can be; ids that occur once."""
    by_entity: dict[str, list[EventBatch]] = {}
    for batch in batches:
        by_entity.setdefault(batch.shape.entity, []).append(batch)
    merged: list[EventBatch] = []
    for entity, own in by_entity.items():
        clears = [each for above, each in _recursive_clears(batches) if _is_below(entity, above)]
        merged += _merge_entity(own, clears)
    return merged


def _recursive_clears(batches: Iterable[EventBatch]) -> list[tuple[str, EventBatch]]:
    return [(b.shape.entity, b) for b in batches if CLEAR_RECURSIVE in b.shape.names]


def _is_below(entity: str, above: str) -> bool:
    return entity.startswith(f"{above}/")


def _merge_entity(own: list[EventBatch], clears: list[EventBatch]) -> list[EventBatch]:
    """Merge the events of an entity; ``clears`` are those of entities above that clear it."""
    if sum(not _is_clear(batch) for batch in own) < 2:
        return own  # of one shape: each component would be there twice
    groups = _groups([*own, *clears], len(own))
    alone: dict[int, list[int]] = {}
    together: dict[tuple[int, ...], list[_Group]] = {}
    for group in groups:
        sources = tuple(source for source, _ in group.members)
        if len(sources) == 1:
            alone.setdefault(sources[0], []).append(group.members[0][1])
        else:
            together.setdefault(sources, []).append(group)
    merged = [_taken(own[source], rows) for source, rows in alone.items()]
    return merged + [_merged(own, sources, found) for sources, found in together.items()]


def _is_clear(batch: EventBatch) -> bool:
    return not batch.shape.names.isdisjoint(MARKS)


def _groups(batches: Sequence[EventBatch], own: int) -> list[_Group]:
    """Return which events of the first ``own`` batches become one; clears are groups of one."""
    groups: list[_Group] = []
    open_groups: dict[tuple[tuple[Instant, ...], int], _Group] = {}
    last: dict[tuple[str, Instant], _Group] = {}  # who logged a component at an instant last
    for source, row, times, count in _in_order(batches):
        names = batches[source].shape.names
        if _is_clear(batches[source]):
            open_groups.clear()
            if source < own:
                groups.append(_Group(times, [(source, row)]))
            continue
        group = open_groups.get((times, count))
        if group is None or not _may_grow(group, names, last):
            group = open_groups[times, count] = _Group(times)
            groups.append(group)
        group.members.append((source, row))
        group.components |= names
        last.update(((name, instant), group) for name in names for instant in times)
    return groups


def _may_grow(
    group: _Group, names: frozenset[str], last: dict[tuple[str, Instant], _Group]
) -> bool:
    """Return whether an event with some components can join a group, whose cells get its id."""
    if not group.components.isdisjoint(names) or INSTANCE_KEY in names | group.components:
        return False
    return all(last[name, at] is group for name in group.components for at in group.times)


def _in_order(
    batches: Sequence[EventBatch],
) -> Iterable[tuple[int, int, tuple[Instant, ...], int]]:
    """Give batch, row, times and instances of all events, by id."""
    sizes = [len(batch) for batch in batches]
    rows = np.concatenate([np.arange(size) for size in sizes])
    sources = np.repeat(np.arange(len(batches)), sizes)
    ids = np.concatenate([b.chunk.ids(np.arange(len(b))) for b in batches])
    instants = [times for batch in batches for times in _instants(batch)]
    counts = np.concatenate([b.chunk.instances_at(np.arange(len(b))) for b in batches])
    for at in np.lexsort((ids[:, 1], ids[:, 0])).tolist():
        yield int(sources[at]), int(rows[at]), instants[at], int(counts[at])


def _instants(batch: EventBatch) -> Iterable[tuple[Instant, ...]]:
    names = [timeline.name for timeline in batch.shape.timelines]
    if not names:
        return [(("", 0),)] * len(batch)
    columns = [
        [(name, time) for time in times.tolist()]
        for name, times in zip(names, batch.chunk.times, strict=True)
    ]
    return zip(*columns, strict=True)


def _taken(batch: EventBatch, rows: Sequence[int]) -> EventBatch:
    if len(rows) == len(batch):
        return batch
    return EventBatch(batch.shape, batch.chunk.take(np.array(rows, np.int64)))


def _merged(
    batches: Sequence[EventBatch], sources: tuple[int, ...], groups: Sequence[_Group]
) -> MergedBatch:
    """Return groups whose members are of the same batches, in the same order, as one batch."""
    rows = [np.array([group.members[at][1] for group in groups]) for at in range(len(sources))]
    cells: dict[str, pa.Array] = {}
    kinds: dict[str, pa.DataType] = {}
    parts = []
    for source, mine in zip(sources, rows, strict=True):
        order = np.argsort(mine)
        parts.append(_taken(batches[source], mine[order].tolist()))
        for at, (name, kind) in enumerate(batches[source].shape.components):
            cells[name], kinds[name] = (
                batches[source].chunk.column(at).take(arrow_array(mine)),
                kind,
            )
    first, last = batches[sources[0]], batches[sources[-1]]
    names = sorted(cells)
    chunk = chunk_of(
        last.chunk.ids(rows[-1]),
        [times[rows[-1]] for times in last.chunk.times],
        np.array(last.chunk.instances_at(rows[-1])),
        [cells[name] for name in names],
    )
    shape = Shape(
        first.shape.entity, first.shape.timelines, tuple((name, kinds[name]) for name in names)
    )
    return MergedBatch(shape, chunk, parts=tuple(parts))

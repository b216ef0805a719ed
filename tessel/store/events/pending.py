"""Pending: logged events of one kind, as Python values that wait to become columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Shape, chunk_of, lists_of
from tessel.store.events.row import CLEAR_RECURSIVE, INSTANCE_KEY, MARKS, Cell, check_length
from tessel.store.events.timeline import Timeline, TimelineKind
from tessel.store.events.timeline import time_point_of as times_of

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
    clearing = [each for each in batches if CLEAR_RECURSIVE in each.shape.names]
    merged: list[EventBatch] = []
    for entity, own in by_entity.items():
        above = (each for each in clearing if entity.startswith(f"{each.shape.entity}/"))
        merged += _merge_entity(own, list(above))
    return merged


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


class Pending:
    """Events of one kind that wait: a list of ids, times, and values a component."""

    def __init__(
        self,
        entity: str,
        timelines: Sequence[Timeline],
        kinds: Mapping[str, pa.DataType],
    ) -> None:
        self.timelines = tuple(timelines)
        self.kinds = dict(kinds)
        self._shape = Shape(
            entity,
            tuple(sorted(timelines, key=lambda timeline: timeline.name)),
            tuple(sorted(kinds.items())),
        )
        self.row_bytes = 64 + 16 * len(kinds)
        self.ids: list[tuple[int, int]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._quick = tuple(_PYTHON.get(kind) for kind in self.kinds.values())
        self._sequences = all(t.kind is TimelineKind.SEQUENCE for t in self.timelines)

    def checked(self, components: Mapping[str, Any], times: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what is kept of an event: a value a component, then a time a timeline."""
        for value, quick in zip(components.values(), self._quick, strict=True):
            if type(value) is not quick:
                return self._checked_slowly(components, times)
        if self._sequences:
            for number in times.values():
                if type(number) is not int or not -(2**63) < number < 2**63:
                    break
            else:
                return (*components.values(), *times.values())
        return (*components.values(), *self._numbers(times))

    def _numbers(self, times: Mapping[str, Any]) -> tuple[int, ...]:
        found = times_of(times)
        for timeline in self.timelines:
            if timeline not in found:
                other = next(each for each in found if each.name == timeline.name)
                raise InvalidInputError(
                    f"timeline {timeline.name!r} counts {timeline.kind.value}s, not "
                    f"{other.kind.value}s",
                    timeline=timeline.name,
                )
        return tuple(found[timeline] for timeline in self.timelines)

    def _checked_slowly(
        self, components: Mapping[str, Any], times: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        cells = [cell_of(name, value, self.kinds[name]) for name, value in components.items()]
        count = max(map(len, cells))
        for cell in cells:
            check_length(cell, count)
        self.row_bytes = max(self.row_bytes, 64 + sum(cell.values.nbytes for cell in cells))
        return (*(cell.values for cell in cells), *self._numbers(times))

    def add(self, event_id: tuple[int, int], values: tuple[Any, ...]) -> None:
        """Keep an event that was checked."""
        self.ids.append(event_id)
        self._rows.append(values)

    def take(self) -> Callable[[], EventBatch]:
        """Keep nothing of what waits; return what makes columns of it."""
        ids, rows = self.ids, self._rows
        self.ids, self._rows = [], []
        return lambda: self._batch(ids, rows)

    def _batch(self, ids: Sequence[tuple[int, int]], rows: Sequence[tuple[Any, ...]]) -> EventBatch:
        columns = list(zip(*rows, strict=True))
        count = len(self.kinds)
        cells, counts = {}, np.zeros(len(rows), np.uint32)
        for (name, kind), values in zip(self.kinds.items(), columns[:count], strict=True):
            cells[name], lengths = _column(values, kind)
            np.maximum(counts, lengths, out=counts)
        times = dict(zip(self.timelines, columns[count:], strict=True))
        chunk = chunk_of(
            np.array(ids, np.uint64),
            [np.array(times[timeline], np.int64) for timeline in self._shape.timelines],
            counts,
            [cells[name] for name, _ in self._shape.components],
        )
        return EventBatch(self._shape, chunk)


_PYTHON: dict[pa.DataType, type] = {
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
}
"""Types whose values Arrow takes as they are, whatever they are: nothing is left to be checked."""


def cell_of(component: str, value: Any, kind: pa.DataType | None) -> Cell:
    """Return a value, or several, as a cell of a type."""
    if value is None:
        raise InvalidInputError(
            f"component {component!r} is None",
            hint="leave it out of the event, or give an empty list",
            component=component,
        )
    if isinstance(value, Cell):
        cell = value
    elif isinstance(value, pa.Array | pa.ChunkedArray):
        cell = Cell.from_arrow(component, value)
    elif isinstance(value, np.ndarray):
        cell = Cell.from_values(component, value.reshape(-1), kind)
    elif isinstance(value, list | tuple):
        cell = Cell.from_values(component, value, kind)
    else:
        cell = Cell.from_values(component, [value], kind)
    if cell.component != component or (kind is not None and cell.type != kind):
        raise InvalidInputError(
            f"component {component!r} is {kind}, and this event has {cell.type}",
            hint="the first use of a component fixes its type; use another name",
            component=component,
        )
    return cell


def _column(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Return the cells of many events, and the values in each."""
    if not any(isinstance(value, pa.Array) for value in values):
        return arrow_array(values, kind), np.ones(len(values), np.uint32)
    parts = [v if isinstance(v, pa.Array) else arrow_array([v], kind) for v in values]
    return lists_of(parts, kind), np.array([len(part) for part in parts], np.uint32)

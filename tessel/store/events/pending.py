"""Pending: logged events of one kind, as Python values that wait to become columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.expression.scalars import array_of
from tessel.store.events.batch import EventBatch
from tessel.store.events.cell import Cell
from tessel.store.events.chunk import Shape, chunk_of, lists_of
from tessel.store.events.timeline import Timeline, TimelineKind
from tessel.store.events.timeline import time_point_of as times_of

__all__ = ["Pending", "cell_of"]


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
            if len(cell) not in (0, 1, count):
                raise InvalidInputError(
                    f"component {cell.component!r} has {len(cell)} values in an event of {count} "
                    "instances",
                    hint="give none to clear it, one for all instances, or one for each",
                    component=cell.component,
                )
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
        cell = Cell.from_arrow(component, array_of(value.reshape(-1), kind))
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

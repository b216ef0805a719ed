"""Row: one event, and what it is refused for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import DuplicateColumnError, InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.store.events.cell import Cell, check_instances
from tessel.store.events.event_ids import id_bytes, id_parts
from tessel.store.events.timeline import Timeline, check_entity, time_point_of

CLEAR = "tessel.clear"
"""Component of an event that clears its entity."""
CLEAR_RECURSIVE = "tessel.clear_recursive"
"""Component of an event that clears its entity and all below it."""
INSTANCE_KEY = "tessel.instance_key"
"""Component that names the instances of its event, for joins."""
MARKS = (CLEAR, CLEAR_RECURSIVE)


@checks_arguments
class Row:
    """An event: an entity, when it was, and a cell a component.

    Parameters
    ----------
    event_id
        16 bytes, see :mod:`tessel.store.events.event_ids`.
    entity
        The path.
    times
        When, on any number of timelines; none for what holds at all times.
    num_instances
        How many instances the event has. Every cell holds no value, one, or so many.
    cells
        The first cells.
    instance_keys
        A key for each instance, of any type; by default instances are joined by their place.

    Raises
    ------
    InvalidInputError
        For a cell with another number of values, or names that are none.
    DuplicateColumnError
        For a component twice.
    """

    def __init__(
        self,
        event_id: bytes,
        entity: str,
        times: Mapping[str, Any] | None = None,
        num_instances: int = 1,
        cells: Iterable[Cell] = (),
        *,
        instance_keys: pa.Array | None = None,
    ) -> None:
        check_instances(num_instances)
        self.event_id = id_bytes(*id_parts(event_id))
        self.entity = check_entity(entity)
        self.time_point: dict[Timeline, int] = time_point_of(times or {})
        self.num_instances = num_instances
        self._cells: dict[str, Cell] = {}
        for cell in cells:
            self.append_cell(cell)
        if instance_keys is not None:
            self._take_keys(instance_keys)

    def append_cell(self, cell: Cell) -> Self:
        """Add a cell; return the row."""
        if cell.component in self._cells:
            raise DuplicateColumnError(
                f"an event of {self.entity!r} has component {cell.component!r} twice",
                component=cell.component,
            )
        if len(cell) not in (0, 1, self.num_instances):
            raise InvalidInputError(
                f"component {cell.component!r} has {len(cell)} values in an event of "
                f"{self.num_instances} instances",
                hint="give none to clear it, one for all instances, or one for each",
                component=cell.component,
            )
        self._cells[cell.component] = cell
        return self

    @property
    def cells(self) -> list[Cell]:
        """The cells, keys of instances among them, by component."""
        return [self._cells[name] for name in sorted(self._cells)]

    def cell(self, component: str) -> Cell | None:
        """Return the cell of a component; None where the event has none."""
        return self._cells.get(component)

    def _take_keys(self, keys: pa.Array) -> None:
        if len(keys) != self.num_instances:
            raise InvalidInputError(
                f"{len(keys)} keys for {self.num_instances} instances", hint="give one for each"
            )
        if len(keys.unique()) != len(keys) or keys.null_count:
            raise InvalidInputError("two instances of an event have one key, or one has none")
        self._cells[INSTANCE_KEY] = Cell(INSTANCE_KEY, keys)

    @classmethod
    def clear(
        cls,
        event_id: bytes,
        entity: str,
        times: Mapping[str, Any] | None = None,
        *,
        recursive: bool = False,
    ) -> Row:
        """Make the event that clears an entity, ``recursive`` with all below it."""
        row = cls(event_id, entity, times)
        mark = CLEAR_RECURSIVE if recursive else CLEAR
        row._cells[mark] = Cell(mark, arrow_array([True]))
        return row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and (
            self.event_id,
            self.entity,
            self.time_point,
            self.num_instances,
            self.cells,
        ) == (other.event_id, other.entity, other.time_point, other.num_instances, other.cells)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        times = ", ".join(f"{t.name}={t.shown(n)}" for t, n in self.time_point.items())
        return f"Row({self.entity!r}, {times or 'timeless'}, {sorted(self._cells)})"

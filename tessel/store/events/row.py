"""Row and Cell: one event, the values of one of its components, and what they are refused for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import DuplicateColumnError, InvalidInputError, TesselError, UnsupportedTypeError
from tessel.errors.arguments import check_nesting, checks_arguments
from tessel.errors.root import without_secrets
from tessel.expression.scalars import array_of
from tessel.lazy import dataclass
from tessel.store.events.extension_types import (
    Reference,
    ReferenceType,
    check_references,
    reference_array,
)
from tessel.store.events.timeline import (
    Timeline,
    check_component,
    check_entity,
    id_bytes,
    id_parts,
    time_point_of,
)

CLEAR = "tessel.clear"
"""Component of an event that clears its entity."""
CLEAR_RECURSIVE = "tessel.clear_recursive"
"""Component of an event that clears its entity and all below it."""
INSTANCE_KEY = "tessel.instance_key"
"""Component that names the instances of its event, for joins."""
MARKS = (CLEAR, CLEAR_RECURSIVE)


@checks_arguments
@dataclass(frozen=True, eq=False)
class Cell:
    """A list of values of one component, of one type.

    No value clears the component, one value stands for all instances, otherwise there is one for
    each instance.

    Attributes
    ----------
    component
        Its name.
    values
        The values; read only, as all of Arrow is.
    """

    component: str
    values: pa.Array

    @classmethod
    def from_values(
        cls, component: str, values: Iterable[Any], data_type: pa.DataType | None = None
    ) -> Cell:
        """Make a cell of Python values; ``data_type`` is needed where there are none.

        Raises
        ------
        InvalidInputError
            For values of several types, or none without a type; for a :class:`Reference` beside
            other values, or of a component of another type.
        """
        whole = isinstance(values, np.ndarray) and values.dtype != object
        given = values if whole else list(values)
        check_nesting(given)
        try:
            if data_type == ReferenceType() or (
                not whole and any(isinstance(v, Reference) for v in given)
            ):
                array = reference_array(given)
            else:
                array = array_of(given, data_type)
        except TesselError as error:
            raise error.with_context(component=component) from None
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"component {component!r}: values that are of no one type: {error}",
                component=component,
            ) from error
        return cls.from_arrow(component, array)

    @classmethod
    def from_arrow(cls, component: str, values: pa.Array | pa.ChunkedArray) -> Cell:
        """Make a cell of an Arrow array."""
        check_component(component)
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        check_type(component, array.type)
        if array.type == ReferenceType():
            check_references(component, array)
        return cls(component, array)

    @classmethod
    def empty(cls, component: str, data_type: pa.DataType) -> Cell:
        """Make a cell without values, which clears the component."""
        return cls.from_arrow(component, arrow_array([], data_type))

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.values.type

    def to_arrow(self) -> pa.Array:
        """Return the values."""
        return self.values

    def to_list(self) -> list[Any]:
        """Return the values as Python has them."""
        return self.values.to_pylist()  # type: ignore[no-any-return]

    def instances(self, count: int) -> pa.Array:
        """Return a value for each of ``count`` instances: the last stands for those that lack one.

        An empty cell stays empty.

        Raises
        ------
        InvalidInputError
            For what is no number of instances that an event can have.
        """
        check_instances(count)
        if len(self.values) in (0, count):
            return self.values
        return self.values.take(arrow_array(np.minimum(np.arange(count), len(self.values) - 1)))

    def __repr__(self) -> str:
        return f"Cell({self.component!r}, {without_secrets(str(self.values))})"

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Cell)
            and self.component == other.component
            and self.values.equals(other.values)
        )

    __hash__ = None  # type: ignore[assignment]


def check_type(component: str, kind: pa.DataType) -> pa.DataType:
    """Return the type of a component; refuse one whose values cannot be held as columns.

    Raises UnsupportedTypeError for values without a type or a width, which any number of rows could
    claim to have, and for large lists, unions, run-ends and views of lists.
    """
    if pa.types.is_null(kind):
        raise UnsupportedTypeError(
            f"component {component!r}: the values have no type",
            hint="give the type: Cell.from_values(name, [], pa.float64())",
            component=component,
        )
    if pa.types.is_large_list(kind) or not _can_be_held(kind):
        raise UnsupportedTypeError(
            f"component {component!r}: values of type {kind} cannot be logged",
            hint="use numbers, text, bytes, times, or lists and structs of them",
            component=component,
        )
    return kind


def _can_be_held(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return type(kind).__hash__ is not None and _can_be_held(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _can_be_held(kind.value_type)
    if pa.types.is_map(kind):
        return _can_be_held(kind.key_type) and _can_be_held(kind.item_type)
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_can_be_held(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _can_be_held(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size > 0 and _can_be_held(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width > 0)
    # Arrow before 25 does not call run-ends nested.
    return not kind.num_fields and not pa.types.is_null(kind)


def check_instances(count: object) -> None:
    """Raise ``InvalidInputError`` for what is no number of instances of an event."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise InvalidInputError(f"num_instances is a whole number, not {count!r}")
    if not 0 <= count < 2**32:
        raise InvalidInputError(f"an event of {count} instances")


def check_length(cell: Cell, instances: int) -> None:
    """Raise ``InvalidInputError`` for a cell that is of no event with so many instances."""
    if len(cell) not in (0, 1, instances):
        raise InvalidInputError(
            f"component {cell.component!r} has {len(cell)} values in an event of {instances} "
            "instances",
            hint="give none to clear it, one for all instances, or one for each",
            component=cell.component,
        )


@checks_arguments
class Row:
    """An event: an entity, when it was, and a cell a component.

    Parameters
    ----------
    event_id
        16 bytes, see :mod:`tessel.store.events.timeline`.
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
        check_length(cell, self.num_instances)
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

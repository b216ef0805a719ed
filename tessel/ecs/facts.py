"""Facts of many entities kept as columns: what lets a query have 100,000 entities.

A component object for every fact of every entity costs more than the facts themselves. Entities
made together share one :class:`FactBlock`; each carries one :class:`FactRow` that points into it.
:class:`FactColumn` goes one step further: it keeps the *fields* of a component type as arrays and
makes a component when one is asked for. The component manager is the only user of blocks, rows and
selections.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np

from tessel.errors import InvalidInputError, NameNotFoundError

__all__ = ["FactBlock", "FactColumn", "FactRow", "Selection"]

ComponentT = TypeVar("ComponentT")


class FactColumn(Sequence[ComponentT], Generic[ComponentT]):
    """Components of one type, kept as one array per field and made when asked for.

    Parameters
    ----------
    component_type
        A dataclass, such as :class:`~tessel.ecs.RowRange`.
    **fields
        One array or sequence per field, all of one length. Numpy arrays give plain Python values.
        They are not copied: do not change them afterwards.

    Raises
    ------
    InvalidInputError
        When the type is no dataclass, a field is absent, or lengths differ.
    NameNotFoundError
        For a field that the type does not have.

    Examples
    --------
    >>> FactColumn(RowRange, start=np.array([0, 10]), end=np.array([10, 20]))[1]
    RowRange(start=10, end=20)
    """

    __slots__ = ("_length", "_readers", "component_type")

    def __init__(
        self, component_type: type[ComponentT], **fields: Sequence[Any] | np.ndarray[Any, Any]
    ) -> None:
        if not dataclasses.is_dataclass(component_type):
            raise InvalidInputError(
                f"{component_type.__qualname__} is no dataclass", hint="give component objects"
            )
        names = [field.name for field in dataclasses.fields(component_type) if field.init]
        for name in fields:
            if name not in names:
                raise NameNotFoundError.for_name("field", name, names)
        absent = [name for name in names if name not in fields]
        lengths = {len(values) for values in fields.values()}
        if absent or len(lengths) != 1:
            raise InvalidInputError(
                f"a column of {component_type.__qualname__} takes all its fields, of one length",
                hint=f"fields: {', '.join(names)}",
                absent=absent,
                lengths=sorted(lengths),
            )
        self.component_type = component_type
        self._length = lengths.pop()
        self._readers: tuple[Callable[[int], Any], ...] = tuple(
            _reader(fields[name]) for name in names
        )

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, position: int) -> ComponentT: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[ComponentT]: ...

    def __getitem__(self, position: int | slice) -> ComponentT | Sequence[ComponentT]:
        if isinstance(position, slice):
            return [self.read(at) for at in range(*position.indices(self._length))]
        if not -self._length <= position < self._length:
            raise IndexError(position)
        return self.read(position)

    def read(self, position: int) -> ComponentT:
        """Make the component of a valid position."""
        return self.component_type(*[read(position) for read in self._readers])


def _reader(values: Sequence[Any] | np.ndarray[Any, Any]) -> Callable[[int], Any]:
    # ``item`` gives a Python number; indexing an array would give a numpy scalar, which is slower
    # and not a plain JSON value.
    return values.item if isinstance(values, np.ndarray) else values.__getitem__


class FactBlock:
    """The facts of entities that were made together, one column per component type.

    Columns of component objects are lists of the block's own, so that a fact taken from an entity
    is freed at once; a :class:`FactColumn` stays as it is.
    """

    __slots__ = ("_columns", "readers")

    def __init__(self, columns: Mapping[type, Sequence[object]]) -> None:
        self._columns = {
            kind: values if isinstance(values, FactColumn) else list(values)
            for kind, values in columns.items()
        }
        self.readers: dict[type, Callable[[int], Any]] = {
            kind: values.read if isinstance(values, FactColumn) else values.__getitem__
            for kind, values in self._columns.items()
        }

    def forget(self, kind: type, row: int) -> None:
        """Let go of one fact; the caller makes sure that it is not read again."""
        column = self._columns[kind]
        if isinstance(column, list):
            column[row] = None


class FactRow(NamedTuple):
    """Where the facts of one entity stand.

    Attributes
    ----------
    block, row
        The row of the block that is the entity's.
    hidden
        Component types of the block that the entity has no longer, or has its own of.
    """

    block: FactBlock
    row: int
    hidden: frozenset[type] = frozenset()

    def covers(self, kind: type) -> bool:
        """Return whether the block holds the entity's component of a type."""
        return kind in self.block.readers and kind not in self.hidden

    def forget_all(self) -> None:
        """Let go of all facts that the block holds for the entity, which is being discarded."""
        for kind in self.block.readers:
            self.block.forget(kind, self.row)


class Selection(NamedTuple):
    """Entities that one call works on, and where their facts stand.

    Attributes
    ----------
    entities, rows
        Each entity, and its row of a block or None.
    shared
        What the one block of all of them offers (nothing where none has a block); None where their
        blocks differ. Units mostly hold entities made together: one look-up a type serves them.
    hidden
        The types that some of them do not have from the shared block.
    """

    entities: list[int]
    rows: list[Any]
    shared: Mapping[type, Callable[[int], Any]] | None
    hidden: frozenset[type]

    @classmethod
    def of(cls, entities: list[int], rows: list[Any]) -> Selection:
        """Make the selection; ``rows`` are ``FactRow`` or None."""
        block: FactBlock | None = rows[0].block if rows and rows[0] is not None else None
        hidden: frozenset[type] = frozenset()
        for row in rows:
            if (None if row is None else row.block) is not block:
                return cls(entities, rows, None, frozenset())
            if row is not None and row.hidden:
                hidden |= row.hidden
        return cls(entities, rows, {} if block is None else block.readers, hidden)

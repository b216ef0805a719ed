"""A piece of a unit: the data of one entity, and the facts that travel along.

Readers and barriers make pieces; units are made of them. Clauses attach components of their own to
rows: a piece holds these as a tuple, in the order of the rows that have them. The functions here
attach one, and find those of a type, for units and for pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import pyarrow as pa

from tessel.ecs.components import ColRange, RowRange, TimeRange
from tessel.errors import ExecutionError, InvalidInputError
from tessel.lazy import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """The data of one entity, with the facts that travel along.

    Attributes
    ----------
    table
        The columns; fewer rows than ``row_range`` spans once rows were dropped.
    row_range, col_range
        Where the piece came from in its symbol.
    time_range
        Bounds of the index over ``row_range``, in the index's unit; None where unknown.
    symbol
        Ordinal of the input it came from, in a query over several symbols.
    bucket
        Hash bucket of all its rows; None where the rows were not partitioned.
    planned_fetches
        How many units were planned to fetch the entity. Resample reads it: a unit whose front
        piece is planned for two units leaves that piece's first bucket to the unit before.
    segments
        Names of the objects that hold its rows; none behind the first stage with a clause, where
        rows need no longer be those of segments.
    components
        What clauses attached to its rows (:meth:`ProcessingUnit.with_component`).
    """

    table: pa.Table
    row_range: RowRange
    col_range: ColRange
    time_range: TimeRange | None = None
    symbol: int = 0
    bucket: int | None = None
    planned_fetches: int = 1
    segments: tuple[str, ...] = ()
    components: tuple[object, ...] = ()

    def with_table(self, table: pa.Table) -> Piece:
        """Return the piece with other data and the same facts."""
        return dataclasses.replace(self, table=table)


def segments_of(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """Return the names of the objects that hold the rows of some pieces."""
    return tuple(dict.fromkeys(name for piece in pieces for name in piece.segments))


def with_component(held: tuple[object, ...], component: object) -> tuple[object, ...]:
    """Add a component in place of those of its type.

    Raises
    ------
    InvalidInputError
        For what is no object of a frozen dataclass with fields that can be hashed.
    """
    kind: Any = type(component)
    options = getattr(kind, "__dataclass_params__", None)
    try:
        hash(component)
        is_fit = options is not None and options.frozen
    except TypeError:
        is_fit = False
    if not is_fit:
        raise InvalidInputError(
            f"a {kind.__qualname__} cannot be a component of a unit",
            hint="attach an object of a frozen dataclass, with tuples in place of lists",
            component=kind.__qualname__,
        )
    return (*(each for each in held if type(each) is not kind), component)


def of_kind(held: Iterable[object], kind: type[T]) -> tuple[T, ...]:
    """Return the components of a type, of that very class."""
    return tuple(each for each in held if type(each) is kind)


def only_of_kind(held: Iterable[object], kind: type[T]) -> T | None:
    """Return the component of a type; None where there is none.

    Raises
    ------
    ExecutionError
        Where there are several.
    """
    found = of_kind(held, kind)
    if len(found) > 1:
        raise ExecutionError(
            f"rows with {len(found)} different {kind.__qualname__} are in one unit",
            hint=f"components({kind.__qualname__}) gives all of them",
            component=kind.__qualname__,
        )
    return found[0] if found else None


def joined_components(pieces: Iterable[Piece]) -> tuple[object, ...]:
    """Return the components of pieces together: of equal ones the first.

    Pieces without rows count only where no piece has rows: whether one is there at all depends on
    what statistics ruled out.
    """
    all_pieces = list(pieces)
    having_rows = [piece for piece in all_pieces if piece.table.num_rows] or all_pieces
    return tuple(dict.fromkeys(each for piece in having_rows for each in piece.components))

"""A piece of a unit: the data of one entity, and the facts that travel along.

Readers and barriers make pieces; units are made of them. Clauses attach components of their own to
rows: a piece holds these as a tuple, in the order of the rows that have them. The functions here
attach one, and find those of a type, for units and for pieces.

Small facts of segments and pieces, and what entities carry besides, are immutable, each. An entity
stands for a segment, or for a piece that a stage left, while a query runs. Its facts are one
component, a ``PieceSource`` or ``UnitFacts``, made of the ranges and keys here; beside it stand how
often it is fetched, and its data once they are loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from tessel.errors import ExecutionError, InvalidInputError
from tessel.lazy import dataclass


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows ``[start, end)`` of a symbol, counted from its first row."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, order=True)
class ColRange:
    """Columns ``[start, end)`` of a symbol, counted in the order of its schema."""

    start: int
    end: int

    def overlaps(self, other: ColRange) -> bool:
        """Return whether both have a column, or are the same."""
        return self == other or (self.start < other.end and other.start < self.end)


class SegmentKey(NamedTuple):
    """Where the bytes of a segment lie; a key of dictionaries, which tuples are fast as.

    Attributes
    ----------
    object
        Name of the object in the store.
    offset, length
        Byte range inside the object.
    checksum
        That of the segment's footer, which vouches for all of its bytes.
    metadata_start
        Where in the segment its metadata begin, so that one read opens it; None where unknown.
    """

    object: str
    offset: int
    length: int
    checksum: int
    metadata_start: int | None = None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """First and last value of the time index, both inclusive, in the index's own integer unit."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FetchCount:
    """How many units fetch an entity: ``planned`` is fixed by the structure, ``live`` goes down."""

    planned: int
    live: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The data of an entity, once loaded: all rows of its row range that are still there."""

    table: pa.Table


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

    Raises InvalidInputError for what is no object of a frozen dataclass with fields that can be
    hashed.
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

    Raises ExecutionError where there are several.
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

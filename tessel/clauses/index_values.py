"""The time index of a unit as plain integers, which is what binary search and buckets work on.

in_zone gives it another time zone, and leaves the instants as they are.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.ecs.piece import TimeRange
from tessel.errors import IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.expression.types import check_zone
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers as integers_of_column


def index_of(schema: TableSchema, what: str = "this clause") -> str:
    """Return the name of the time index; IndexColumnError, which says what needs one, without."""
    if schema.index is None:
        raise IndexColumnError.required(what)
    return schema.index


def index_integers(unit: ProcessingUnit) -> np.ndarray:
    """Return the time index of a unit in its own unit since 1970, int64, shape (rows,).

    It views the stored values wherever the unit is one piece, and copies nothing.
    """
    index = index_of(unit.schema)
    return integers_of_column(unit.column(index), index)


def cut_index(unit: ProcessingUnit, low: int | None, high: int | None) -> ProcessingUnit:
    """Return the rows of a unit whose index lies in ``[low, high)``, in its own unit.

    None is no bound. It never goes back, so this is a binary search.
    """
    values = index_integers(unit)
    first = 0 if low is None else _first_at_or_after(values, low)
    last = len(values) if high is None else _first_at_or_after(values, high)
    if first == 0 and last == len(values):
        return unit
    return unit.slice(first, max(0, last - first))


def _first_at_or_after(values: np.ndarray, bound: int) -> int:
    """Return the position of the first value that is not below ``bound``, which may be any int."""
    limits = np.iinfo(np.int64)
    if bound > limits.max:
        return len(values)
    return int(np.searchsorted(values, max(bound, limits.min)))


def with_times_of_index(unit: ProcessingUnit) -> ProcessingUnit:
    """Return a unit of one piece with the time range of its own index; without one as it is.

    A clause that makes a new index says so with this: the range that the piece came with is that of
    the old one, and buckets found by it would lose rows.
    """
    if unit.schema.index is None:
        return unit
    (piece,) = unit.pieces
    values = index_integers(unit)
    times = TimeRange(int(values[0]), int(values[-1])) if len(values) else None
    return unit.with_pieces([dataclasses.replace(piece, time_range=times)], unit.schema)


@register
@dataclass(frozen=True)
class InZone(Clause):
    """The time index on the clocks of another time zone; instants and their order stay.

    Attributes
    ----------
    tz
        The zone's name, such as ``"Europe/Berlin"``, or an offset: ``"+01:00"``.
    """

    name: ClassVar[str] = "in_zone"
    tz: str

    def __post_init__(self) -> None:
        if not isinstance(self.tz, str):
            raise PlanError(f"a time zone is text, not {self.tz!r:.80}", hint='"Europe/Berlin"')
        check_zone(self.tz)

    structure = ClauseInfo(
        columns=frozenset(), uses_index=True, keeps_count=True, index=IndexEffect.REPLACE
    )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the index in the zone; an index without a zone is refused."""
        index = index_of(input_schema, "in_zone")
        kind = input_schema.type_of(index)
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            raise IndexColumnError(
                f"the index {index!r} has no time zone: it is {kind}",
                hint="tz= takes instants from one zone to another; write the symbol with times "
                "that have a zone",
                type=str(kind),
            )
        field = pa.field(index, pa.timestamp(kind.unit, self.tz))
        return TableSchema(input_schema.arrow.set(input_schema.names.index(index), field), index)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Put the zone into the type of the index: no value changes."""
        schema = self.output_schema(unit.schema)
        return unit.replace(unit.table.cast(schema.arrow), index=schema.index)

"""date_range: keep a span of the time index."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.index_values import cut_index, index_of
from tessel.clauses.registry import register
from tessel.clauses.units.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.intervals import FALSE, TRUE, UNKNOWN
from tessel.expression.periods import period_bounds, units_from_ns, zone_of
from tessel.expression.schema import TableSchema
from tessel.expression.temporal import format_instant
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex


@register
@dataclass(frozen=True)
class DateRange(Clause):
    """Keep the rows whose time index lies between two bounds.

    Attributes
    ----------
    start, end
        ISO text, or None for no bound. A partial text means its whole period at either end, so
        ``"2013-03-31"`` as end includes that day; text with seconds is an instant. Text without a
        zone takes the zone of the index.
    closed
        Which ends are included: ``"both"`` (default), ``"left"``, ``"right"`` or ``"neither"``. An
        end that is not included leaves out its whole period. A start after the end is refused;
        equal ends of which one is not included keep nothing.
    """

    name: ClassVar[str] = "date_range"
    start: str | None = None
    end: str | None = None
    closed: Literal["both", "left", "right", "neither"] = "both"

    def __post_init__(self) -> None:
        if self.closed not in ("both", "left", "right", "neither"):
            raise PlanError(
                f"date_range: closed is {self.closed!r}",
                hint="it is one of both, left, right, neither",
            )

    structure = ClauseInfo(columns=frozenset(), uses_index=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema; refuse a table without a time index, and bad bounds."""
        self.bounds(input_schema)
        return input_schema

    def bounds(self, schema: TableSchema) -> tuple[int | None, int | None]:
        """Return the bounds ``[low, high)`` in the integer unit of the index; None is unbounded."""
        kind = schema.type_of(index_of(schema, self.name))
        units_from_ns(0, kind)  # refuses an index of another type, also where there is no bound
        first, last = period_bounds(self.start, self.end, zone_of(kind))
        low = high = None
        if first is not None:
            open_left = self.closed in ("right", "neither")
            low = units_from_ns(first.end_ns if open_left else first.start_ns, kind)
        if last is not None:
            open_right = self.closed in ("left", "neither")
            high = units_from_ns(last.start_ns if open_right else last.end_ns, kind)
        return low, high

    def proves(self, index: SegmentIndex) -> npt.NDArray[np.int8]:
        """Return which row slices lie outside of the bounds, and which within."""
        start, end = self.bounds(index.schema)
        low, high = (-np.inf if start is None else start), (np.inf if end is None else end)
        first, last = index.slice_first_time, index.slice_last_time
        proof = np.full(index.slices, UNKNOWN, np.int8)
        if first is not None and last is not None:
            proof[(first >= low) & (last < high)] = TRUE
            proof[(first >= high) | (last < low)] = FALSE
        return proof

    def drop_reason(self) -> str:
        """Name the bounds."""
        left = "[" if self.closed in ("both", "left") else "("
        right = "]" if self.closed in ("both", "right") else ")"
        return f"time index: outside {left}{self.start or '…'}, {self.end or '…'}{right}"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Cut the unit by binary search; its index never goes back.

        Of a unit that is not read yet, no more than the page of each bound is.
        """
        low, high = self.bounds(unit.schema)
        if is_bound(unit):
            return unit.between(low, high)
        return cut_index(unit, low, high)


def instant(nanoseconds: int, kind: pa.DataType) -> str | None:
    """Return an instant as the text of a bound: with seconds; None past the years 1 to 9999.

    Parameters
    ----------
    nanoseconds
        Since 1970 UTC, or of the clock where the index has no zone.
    """
    aware = getattr(kind, "tz", None) is not None
    text = format_instant(nanoseconds, "ns", aware=aware)
    return None if text.startswith("@") else text

"""rolling: aggregates of a window of rows, or of time, that moves with each row."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates.present_rows import whole_structs
from tessel.clauses.along_rows.index_spans import span_on_index
from tessel.clauses.along_rows.neighbours import Reach, TimeReach
from tessel.clauses.along_rows.ordered import (
    AroundRows,
    LooksAround,
    check_keys,
    check_names,
    check_reach,
)
from tessel.clauses.along_rows.window_aggregates import Windows, window_aggregate
from tessel.clauses.base import Carry
from tessel.clauses.buckets.rules import parse_span
from tessel.clauses.index_values import index_of
from tessel.clauses.plain import is_word
from tessel.clauses.registry import register
from tessel.clauses.results import NamedAggregate
from tessel.ecs import ProcessingUnit
from tessel.errors import AggregateError, PlanError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.kernels.group_rows import rows_of_runs
from tessel.kernels.window_rows import KeyRuns, row_windows, rows_until
from tessel.lazy import dataclass

Closed = Literal["right", "left", "both", "neither"]


@register
@dataclass(frozen=True)
class Rolling(AroundRows, LooksAround):
    """Aggregates of the rows around each row, of the same key, as columns beside it.

    Attributes
    ----------
    window
        A number of rows, or a length of time such as ``"5min"``, which needs a time index.
    aggregates
        What to compute; every aggregate of ``groupby`` is one of a window, and means the same.
    by
        Keys: only rows of equal keys are in a window. A missing key is a key like others.
    min_periods
        Values that are not missing which a window must have, or its result is missing. By default
        as many as a whole window of rows has rows, 1 for a window of time, and none for ``count``
        and ``size``, which then are never missing.
    closed
        Which ends belong to the window: of rows, those ``n`` before the row and the row itself; of
        time, the instants ``window`` before the row's time and that time itself.
    center
        Whether the row lies in the middle of its window: of ``n`` rows, ``n // 2`` lie before it.
    results
        The outputs, where some compute with the results of aggregates.

    Notes
    -----
    A window of time holds *all* rows of the row's own instant where that end is closed, those that
    come later among them; a row's position decides nothing. Windows at the ends of the table are
    cut, not moved.
    """

    name: ClassVar[str] = "rolling"
    window: int | str
    aggregates: tuple[NamedAggregate, ...]
    by: tuple[str, ...] = ()
    min_periods: int | None = None
    closed: Closed = "right"
    center: bool = False
    results: tuple[ComputedColumn, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.window, bool) or not isinstance(self.window, int | str):
            raise PlanError(
                f"rolling: a window is a number of rows or a length of time, not {self.window!r}",
                hint='rolling(20) or rolling("5min")',
            )
        if isinstance(self.window, str):
            parse_span(self.window, "window")
        elif self.window < 1:
            raise PlanError(
                f"rolling: a window has at least 1 row, not {self.window}",
                hint='rolling(20), the row itself and 19 before it, or rolling("5min")',
            )
        else:
            check_reach(self.name, self.window)
        if not is_word(self.closed, ("right", "left", "both", "neither")):
            raise PlanError(
                f"rolling: closed is {self.closed!r}", hint="it is right, left, both or neither"
            )
        least = self.min_periods
        if least is not None and (type(least) is not int or least < 0):
            raise PlanError(f"rolling: min_periods is a number of values, not {least!r}")
        check_reach(self.name, least or 0)
        if not self.aggregates:
            raise AggregateError("rolling needs an aggregate", hint='agg(total=("column", "sum"))')
        check_names(self.name, self.by)
        self.check_results([])

    @property
    def uses_index(self) -> bool:
        """Whether windows are of time."""
        return isinstance(self.window, str)

    @property
    def carries(self) -> Carry | None:
        """From which side rows of other units matter."""
        return (self._row_reach if isinstance(self.window, int) else self._time_reach(1)).carries

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the results added or replaced."""
        input_schema.require(self.by, where=self.name)
        check_keys(self.by, input_schema)
        if isinstance(self.window, str):
            self._length(input_schema)
        fields = self.output_fields(input_schema)
        return input_schema.with_columns({field.name: field.type for field in fields})

    # --- what is carried --------------------------------------------------------------------------

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether the windows of a unit end before the last row that was seen after it."""
        if isinstance(self.window, int):
            return self._row_reach.suffices(summary, after)
        kind = summary.schema.field("time").type.value_type
        return self._time_reach(self._length_in(kind)).suffices(summary, after)

    def reach(self, schema: TableSchema) -> Reach | TimeReach:
        """Return how far windows look: the rows at the edges of units, by number or by time."""
        if isinstance(self.window, int):
            return self._row_reach
        return self._time_reach(self._length(schema))

    @property
    def _row_reach(self) -> Reach:
        first, last = self._row_offsets
        return Reach(self.inputs, self.by, max(-first, 0), max(last - 1, 0))

    def _time_reach(self, length: int) -> TimeReach:
        if self.center:
            return TimeReach(self.inputs, self.by, length // 2, length // 2)
        ahead = 0 if self.closed in ("right", "both") else None
        return TimeReach(self.inputs, self.by, length, ahead)

    # --- computing --------------------------------------------------------------------------------

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Compute the windows of the rows of a unit, which reach into what lies around it."""
        self.check_planned()
        reach = self.reach(unit.schema)
        if isinstance(reach, Reach):
            around = reach.around(unit, before, after)
            windows = Windows(*row_windows(around.runs, *self._row_offsets))
        else:
            around, times = reach.around(unit, before, after)
            windows = self._time_windows(around.runs, times, self._length(unit.schema))
        arranged = {
            name: around.keys.arranged(
                around.column(before.column(at), unit.column(name), after.column(at))
            )
            for at, name in enumerate(self.inputs, start=len(self.by))
        }
        made: dict[str, pa.Array] = {}
        for each in self.aggregates:
            values = each.values(arranged)
            if each.further:  # a row without its weight has no value
                values = whole_structs(values)
            found = window_aggregate(
                each.aggregate, values, windows, self._least(each), each.column
            )
            made[each.output] = around.restored(found)
        return unit.with_columns(made)

    def _least(self, each: NamedAggregate) -> int | None:
        if self.min_periods is not None:
            return self.min_periods
        if each.aggregate.name in ("count", "size"):
            return None
        if isinstance(self.window, str):
            return 1
        first, last = self._row_offsets
        return last - first

    @property
    def _row_offsets(self) -> tuple[int, int]:
        """The rows ``[first, last)`` of a window, counted from its own row."""
        assert isinstance(self.window, int)
        last = 1 + ((self.window - 1) // 2 if self.center else 0)
        first = last - self.window - (self.closed in ("left", "both"))
        return first, last - (self.closed in ("left", "neither"))

    def _time_windows(self, runs: KeyRuns, times: np.ndarray, length: int) -> Windows:
        """Find the ends of windows by the times of their keys."""
        back, ahead = (length, 0) if not self.center else (length, length)
        parts = 2 if self.center else 1
        before, until = self.closed in ("right", "neither"), self.closed in ("right", "both")
        starts = _rows_until(runs, times, -back, parts, included=before)
        stops = _rows_until(runs, times, ahead, parts, included=until)
        return Windows(starts, np.maximum(starts, stops, out=stops))

    # --- time -------------------------------------------------------------------------------------

    def _length(self, schema: TableSchema) -> int:
        """Return the length of the window in units of the index."""
        return self._length_in(schema.type_of(index_of(schema, f"rolling({self.window!r})")))

    def _length_in(self, kind: pa.DataType) -> int:
        assert isinstance(self.window, str)
        nanoseconds, unit = span_on_index(
            self.window,
            kind,
            clause=self.name,
            what="window",
            instead="give a window of rows: rolling(20)",
        )
        if nanoseconds % unit or nanoseconds // unit > 2**61:
            raise PlanError(
                f"rolling: a window of {self.window!r} is no number of units of the index, {kind}",
                hint="use a window of whole units of the index",
                window=self.window,
            )
        return nanoseconds // unit


def _rows_until(
    runs: KeyRuns, times: np.ndarray, offset: int, parts: int, *, included: bool
) -> np.ndarray:
    """Return for each row that is asked about where its key comes to its time plus an offset.

    The offset is ``offset / parts``; ``included`` passes those at that very time, too.
    """
    # Times are whole: below half a unit is below the next whole one, at or below is below it, too.
    whole, half = divmod(offset, parts)
    limits = np.iinfo(np.int64)
    own = times[rows_of_runs(runs.firsts, runs.lasts)]
    bounds = np.clip(own, limits.min + max(-whole, 0), limits.max - max(whole, 0) - 1) + whole
    return rows_until(times, bounds, included=bool(included or half), runs=runs)

"""ewm: means, variances and deviations with weights that fade from row to row, or with time."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.clauses.aggregates.mean import Mean, mean_type
from tessel.clauses.aggregates.spread import Std, Var
from tessel.clauses.along_rows.carried_lists import list_bounds, list_values, lists
from tessel.clauses.along_rows.index_spans import span_on_index
from tessel.clauses.along_rows.key_order import (
    Codes,
    key_fields,
    keyed_carries,
    keyed_rows,
)
from tessel.clauses.along_rows.ordered import AroundRows, check_keys, check_names
from tessel.clauses.buckets.rules import parse_span
from tessel.clauses.index_values import index_integers, index_of
from tessel.clauses.registry import register
from tessel.clauses.results import NamedAggregate
from tessel.clauses.values import is_temporal, plain
from tessel.ecs import ProcessingUnit
from tessel.errors import AggregateError, PlanError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.kernels.fade_rows import Fading, fade_rows, new_states
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Ewm(AroundRows):
    """Exponentially weighted aggregates of the rows up to each one, of the same key.

    Attributes
    ----------
    aggregates
        ``mean``, ``var`` and ``std`` of columns of numbers, as float64. ``ddof=1`` (the default)
        corrects var and std for the weights, ``ddof=0`` does not.
    alpha
        How much a new value counts, above 0 and at most 1; None where weights fade with time.
    by
        Keys: each fades by itself. A missing key is a key like others.
    adjust
        Whether weights are those of the rows there are, ``(1 - alpha)**i`` over their sum; else the
        first value counts as if it had always been there.
    ignore_missing
        Whether rows without a value take no part; else the values before them fade all the same.
    min_periods
        Values that there must be so far, or the result is missing.
    halflife
        Time on the index, such as ``"10s"``, in which a weight becomes half of itself; None where
        weights fade from row to row.
    results
        The outputs, where some compute with the results of aggregates.

    Notes
    -----
    The recurrences are those of pandas, in its order of operations; the answer depends on no cut
    because they run strictly from row to row. That is also why the carry of a unit is the columns
    that are read: the states are reached one unit after another. Linear recurrences compose, and
    states of units could be combined side by side; but each composition rounds, so that the last
    bits would tell where units were cut. A row without a value has no result (pandas repeats the
    one before).

    With a ``halflife`` a value fades by the time from its row to the next ones; without ``adjust``
    a new value counts as much as the older ones have faded since the row before. pandas has the
    mean of this alone; ``var`` and ``std`` weigh by the same weights.
    """

    name: ClassVar[str] = "ewm"
    aggregates: tuple[NamedAggregate, ...]
    alpha: float | None
    by: tuple[str, ...] = ()
    adjust: bool = True
    ignore_missing: bool = False
    min_periods: int = 1
    halflife: str | None = None
    results: tuple[ComputedColumn, ...] = ()

    def __post_init__(self) -> None:
        if (self.alpha is None) == (self.halflife is None):
            raise PlanError(
                f"ewm: alpha is {self.alpha!r} and halflife {self.halflife!r}",
                hint="weights fade by alpha from row to row, or by half in a time",
            )
        if self.alpha is not None and (
            type(self.alpha) not in (int, float) or not 0 < self.alpha <= 1
        ):
            raise PlanError(f"ewm: alpha is {self.alpha!r}", hint="it lies above 0, up to 1")
        if self.halflife is not None:
            self._check_halflife(self.halflife)
        if type(self.min_periods) is not int or self.min_periods < 0:
            raise PlanError(f"ewm: min_periods is a number of values, not {self.min_periods!r}")
        if not self.aggregates:
            raise AggregateError("ewm needs an aggregate", hint='agg(smooth=("column", "mean"))')
        for each in self.aggregates:
            known = isinstance(each.aggregate, Mean) or (
                isinstance(each.aggregate, Var | Std) and each.aggregate.ddof in (0, 1)
            )
            if not known:
                raise AggregateError(
                    f"ewm has no {each.aggregate.describe(each.column or '')}",
                    hint="it has mean, and var and std with ddof 0 or 1",
                    aggregate=each.aggregate.name,
                )
        check_names(self.name, self.by)
        self.check_results([])

    @property
    def uses_index(self) -> bool:
        """Whether weights fade with time."""
        return self.halflife is not None

    def _check_halflife(self, halflife: str) -> None:
        if not isinstance(halflife, str):
            raise PlanError(
                f"ewm: halflife is a time such as '10s', not {halflife!r}",
                hint="ewm(halflife=20) of rows is held as alpha",
            )
        parse_span(halflife, "halflife")
        if self.ignore_missing:
            raise PlanError(
                f"ewm: time passes over rows without a value, too (halflife={halflife!r})",
                hint="leave ignore_missing out, or drop the rows by filter first",
            )

    def _fading(self, schema: TableSchema) -> Fading:
        spreads = any(not isinstance(each.aggregate, Mean) for each in self.aggregates)
        alpha, half = self.alpha, self._half(schema)
        return Fading(alpha or 0.5, self.adjust, self.ignore_missing, spreads, half)

    def _half(self, schema: TableSchema) -> float | None:
        """Return the half-life in units of the index; None without one."""
        if self.halflife is None:
            return None
        length_ns, unit_ns = span_on_index(
            self.halflife,
            schema.type_of(index_of(schema, f"ewm(halflife={self.halflife!r})")),
            clause=self.name,
            what="halflife",
            instead="give a number of rows: ewm(halflife=20)",
        )
        return length_ns / unit_ns

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the results added or replaced, as float64."""
        stored = frozenset().union(*(each.columns for each in self.aggregates))
        input_schema.require([*sorted(stored), *self.by], where=self.name)
        check_keys(self.by, input_schema)
        self._half(input_schema)
        fields = self.output_fields(input_schema)
        return input_schema.with_columns({field.name: field.type for field in fields})

    def aggregate_type(self, aggregate: NamedAggregate, schema: TableSchema) -> pa.DataType:
        """Return float64, for columns of numbers; others are refused."""
        kind = aggregate.input_type(schema)
        found = mean_type(kind)
        if found is None or is_temporal(found):
            raise aggregate.aggregate.refuse(aggregate.column, kind, "ewm takes numbers")
        return pa.float64()

    # --- what is carried --------------------------------------------------------------------------

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return keys, and lists: of the values of rows, or of the state after all of them."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        for at in range(len(self.inputs)):
            fields.append(pa.field(f"value_{at}", pa.large_list(pa.float64())))
        if self.halflife is not None:
            fields.append(pa.field("time", pa.large_list(pa.int64())))
        return pa.schema(fields)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit: no less tells what becomes of an unknown state."""
        keyed = keyed_rows(unit, self.by)
        columns = [_floats(unit.column(name)) for name in self.inputs]
        if self.halflife is not None:
            columns.append(index_integers(unit))
        values = [arrow_array(keyed.order.arranged(each)) for each in columns]
        held = lists(keyed.order.bounds[: keyed.groups + 1], values)
        return pa.table([*keyed.keys, *held], schema=self.carry_schema(unit.schema))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Go on from the states of all before with the rows of one more unit."""
        keyed = keyed_carries(earlier, later, self.by)
        own, others = np.split(keyed.codes, [earlier.num_rows])
        starts = list_bounds(later)
        columns = [numpy_array(list_values(each)) for each in later.columns[len(self.by) :]]
        times = None if self.halflife is None else columns.pop()
        run = _Run(self._fading(schema), earlier, own, keyed.groups, others, starts, times)
        found = [run.fade(at, values, results=False) for at, values in enumerate(columns)]
        width = np.arange(keyed.groups + 1)
        held = [*lists(width * _STATE, [arrow_array(states.ravel()) for _, states, _ in found])]
        if times is not None:
            held += lists(width, [arrow_array(found[0][2])])
        return pa.table([*keyed.keys, *held], schema=earlier.schema)

    # --- computing --------------------------------------------------------------------------------

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Go on from the states that were carried."""
        self.check_planned()
        keyed = keyed_rows(unit, self.by)
        (earlier,), groups = keyed.numbers(before)
        order, starts = keyed.order, keyed.order.bounds[: keyed.groups + 1]
        times = None if self.halflife is None else order.arranged(index_integers(unit))
        owners = np.arange(keyed.groups)
        run = _Run(self._fading(unit.schema), before, earlier, groups, owners, starts, times)
        results: list[np.ndarray] = []
        for at, name in enumerate(self.inputs):
            moments, _, _ = run.fade(at, order.arranged(_floats(unit.column(name))), results=True)
            results.append(np.stack([order.restored(line) for line in moments]))
        made: dict[str, pa.Array] = {}
        for each in self.aggregates:
            found = results[self.inputs.index(each.column or "")]
            made[each.output] = self._result(each, found)
        return unit.with_columns(made)

    def _result(self, each: NamedAggregate, found: np.ndarray) -> pa.Array:
        values, counts = found[:2]
        if not isinstance(each.aggregate, Mean):
            squares, weights, weight_squares = found[2:]
            values = squares
            if getattr(each.aggregate, "ddof", 1):
                total = weights * weights
                rest = total - weight_squares
                with np.errstate(all="ignore"):
                    values = np.where(rest > 0, total / rest * squares, np.nan)
            values = np.sqrt(values) if isinstance(each.aggregate, Std) else values
        missing = np.isnan(values)
        if self.min_periods > 1:
            missing |= counts < self.min_periods
        return arrow_array(values, mask=missing if missing.any() else None)


_STATE = new_states(1).shape[1]


@dataclass(frozen=True)
class _Run:
    """Rows by key, and the states that they go on from.

    Attributes
    ----------
    before, earlier
        The states that were carried, a row a key, and the number of each key.
    owners, starts
        The number of each key that has rows, where these start, and the end of the last.
    times
        When rows are, where weights fade by time.
    """

    fading: Fading
    before: pa.Table
    earlier: Codes
    groups: int
    owners: Codes
    starts: Codes
    times: np.ndarray | None

    def fade(
        self, at: int, values: np.ndarray, *, results: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the moments of a column by place, the states of all keys, and their last times."""
        states, seen = new_states(self.groups), np.zeros(self.groups, np.int64)
        carried = numpy_array(list_values(self.before.column(f"value_{at}")))
        states[self.earlier] = carried.reshape(-1, _STATE)
        if self.times is not None:
            seen[self.earlier] = numpy_array(list_values(self.before.column("time")))
        moments = fade_rows(
            self.fading,
            values,
            self.starts,
            self.owners,
            states,
            self.times,
            seen,
            results=results,
        )
        return moments, states, seen


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, missing ones as NaN."""
    values = plain(column).cast(pa.float64(), safe=False)
    if values.null_count:
        values = fill_null(values, math.nan)
    floats: np.ndarray = numpy_array(values)
    return floats

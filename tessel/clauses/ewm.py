"""ewm: means, variances and deviations with weights that fade from row to row, or with time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence, Set
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, empty_table, fill_null, numpy_array
from tessel.cached import cached
from tessel.clauses.aggregates.mean import Mean, mean_type
from tessel.clauses.aggregates.std import Std
from tessel.clauses.aggregates.var import Var
from tessel.clauses.along_rows.index_spans import span_on_index
from tessel.clauses.along_rows.key_order import (
    KeyOrder,
    codes_of_parts,
    in_rows,
    key_fields,
    plain_keys,
)
from tessel.clauses.along_rows.neighbours import carried_keys
from tessel.clauses.along_rows.ordered import check_keys, check_names
from tessel.clauses.base import Carry, ClauseInfo, Structure
from tessel.clauses.buckets.rules import parse_span
from tessel.clauses.computed import ComputedColumn
from tessel.clauses.index_values import index_integers
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.registry import register
from tessel.clauses.results import AggregatingClause
from tessel.clauses.values import is_temporal, plain
from tessel.ecs import ProcessingUnit
from tessel.errors import AggregateError, IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.kernels.fade_rows import Fading, fade_rows, new_states
from tessel.lazy import dataclass

__all__ = ["Ewm"]


@register
@dataclass(frozen=True)
class Ewm(AggregatingClause):
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
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset(self.by).union(*(each.columns for each in self.aggregates)),
            adds=self.output_names,
            uses_index=self.halflife is not None,
            keeps_count=True,
            carries=Carry.BEFORE,
        )

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

    @cached
    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.column or "" for each in self.aggregates))

    def _fading(self, schema: TableSchema) -> Fading:
        spreads = any(not isinstance(each.aggregate, Mean) for each in self.aggregates)
        alpha, half = self.alpha, self._half(schema)
        return Fading(alpha or 0.5, self.adjust, self.ignore_missing, spreads, half)

    def _half(self, schema: TableSchema) -> float | None:
        """Return the half-life in units of the index; None without one."""
        if self.halflife is None:
            return None
        if schema.index is None:
            raise IndexColumnError.required(f"ewm(halflife={self.halflife!r})")
        span = span_on_index(
            self.halflife,
            schema.type_of(schema.index),
            clause=self.name,
            what="halflife",
            instead="give a number of rows: ewm(halflife=20)",
        )
        return span.length_ns / span.unit_ns

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

    def narrowed(self, needed: Set[str]) -> Self | None:
        """Return the clause with the needed results alone; None without any."""
        kept = tuple(each for each in self.aggregates if each.output in needed)
        return dataclasses.replace(self, aggregates=kept) if kept else None

    # --- what is carried --------------------------------------------------------------------------

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return keys, and of each column a value or the state after all values of a key."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        for at in range(len(self._columns)):
            fields.append(pa.field(f"value_{at}", pa.float64()))
            fields.append(pa.field(f"state_{at}", pa.list_(pa.float64())))
        if self.halflife is not None:
            fields.append(pa.field("time", pa.int64()))
        return pa.schema([*fields, pa.field("is_state", pa.bool_())])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit: no less tells what becomes of an unknown state."""
        rows = np.arange(unit.num_rows)
        arrays = plain_keys([unit.column(name) for name in self.by], rows)
        for name in self._columns:
            arrays += [arrow_array(_floats(unit.column(name))), pa.nulls(len(rows), _STATE)]
        if self.halflife is not None:
            arrays.append(arrow_array(index_integers(unit)))
        arrays.append(arrow_array(np.zeros(len(rows), np.bool_)))
        return pa.table(arrays, schema=self.carry_schema(unit.schema))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Go on from the states of all before with the rows of one more unit."""
        keys = [carried_keys(each, self.by) for each in (earlier, later)]
        values = [numpy_array(later.column(f"value_{at}")) for at in range(len(self._columns))]
        times = None if self.halflife is None else numpy_array(later.column("time"))
        run = _Run(self._fading(schema), earlier, keys[0], keys[1], values, later.num_rows, times)
        rows = run.rows_of_keys()
        known = rows >= 0
        both = pa.concat_tables([earlier, later]).take(arrow_array(rows[known]))
        arrays = [both.column(f"key_{at}") for at in range(len(self.by))]
        for at in range(len(values)):
            _, states, seen = run.fade(at, results=False)
            arrays += [pa.nulls(len(both), pa.float64()), _lists(states[known])]
        if self.halflife is not None:
            arrays.append(arrow_array(seen[known]))
        arrays.append(arrow_array(np.ones(len(both), np.bool_)))
        return pa.table(arrays, schema=earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Return True: nothing is carried from after."""
        return True

    # --- computing --------------------------------------------------------------------------------

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute the results of a unit that is everything."""
        nothing = empty_table(self.carry_schema(unit.schema))
        return self.process_between(unit, nothing, nothing)

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Go on from the states that were carried."""
        self.check_planned()
        keys = [unit.column(name) for name in self.by]
        values = [_floats(unit.column(name)) for name in self._columns]
        fading = self._fading(unit.schema)
        times = None if fading.half is None else index_integers(unit)
        carried = carried_keys(before, self.by)
        run = _Run(fading, before, carried, keys, values, unit.num_rows, times)
        results = [run.results(at) for at in range(len(values))]
        made: dict[str, pa.Array] = {}
        for each in self.aggregates:
            found = results[self._columns.index(each.column or "")]
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


_STATE = pa.list_(pa.float64())


class _Run:
    """The rows of a unit by key, and the states that they go on from."""

    def __init__(
        self,
        fading: Fading,
        before: pa.Table,
        carried: Sequence[Any],
        keys: Sequence[Any],
        values: Sequence[np.ndarray],
        rows: int,
        times: np.ndarray | None,
    ) -> None:
        self._fading = fading
        self._before = before
        (self._earlier, own), self._groups = codes_of_parts(
            [carried, keys], [before.num_rows, rows]
        )
        self._own = own
        self._order = KeyOrder.of_codes(own, self._groups)
        bounds = self._order.bounds
        # Keys in their order are in the order of their numbers.
        self._owners = np.flatnonzero(np.diff(bounds))
        self._starts = np.append(bounds[self._owners], rows)
        self._values = [self._order.arranged(column) for column in values]
        self._times = None if times is None else self._order.arranged(times)

    def rows_of_keys(self) -> np.ndarray:
        """Return for each key its first row in both tables, one below the other."""
        before = self._before.num_rows
        found = np.full(self._groups, -1)
        firsts = self._starts[:-1]
        order = self._order.order
        found[self._owners] = (firsts if order is None else order[firsts]) + before
        found[self._earlier] = np.arange(before)
        return found

    def fade(self, at: int, *, results: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the moments of a column by place, the states of all keys, and their last times."""
        states, seen = new_states(self._groups), np.zeros(self._groups, np.int64)
        carried = numpy_array(pc.list_flatten(self._before.column(f"state_{at}")))
        states[self._earlier] = carried.reshape(-1, states.shape[1])
        if self._times is not None:
            seen[self._earlier] = numpy_array(self._before.column("time"))
        moments = fade_rows(
            self._fading,
            self._values[at],
            self._starts,
            self._owners,
            states,
            self._times,
            seen,
            results=results,
        )
        return moments, states, seen

    def results(self, at: int) -> np.ndarray:
        """Return the moments of a column, a line each, in the order of the unit's rows."""
        moments, _, _ = self.fade(at, results=True)
        if self._order.order is None:
            return moments
        return np.stack([in_rows(line, self._order.order) for line in moments])


def _lists(states: np.ndarray) -> pa.Array:
    """Return states as they are carried."""
    ends = np.arange(len(states) + 1, dtype=np.int32) * states.shape[1]
    return pa.ListArray.from_arrays(arrow_array(ends), arrow_array(states.ravel()))


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, missing ones as NaN."""
    values = plain(column).cast(pa.float64(), safe=False)
    if values.null_count:
        values = fill_null(values, math.nan)
    floats: np.ndarray = numpy_array(values)
    return floats

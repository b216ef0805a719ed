"""ewm: means, variances and deviations with weights that fade from row to row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates import Mean, Std, Var
from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.along_rows.fading import Fading, FadingState
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
from tessel.clauses.computed import ComputedColumn
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.registry import register
from tessel.clauses.results import AggregatingClause
from tessel.clauses.values import is_temporal, plain
from tessel.ecs import ProcessingUnit
from tessel.errors import AggregateError, PlanError
from tessel.expression.schema import TableSchema

__all__ = ["Ewm", "alpha_of"]


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
        How much a new value counts, above 0 and at most 1.
    by
        Keys: each fades by itself. A missing key is a key like others.
    adjust
        Whether weights are those of the rows there are, ``(1 - alpha)**i`` over their sum; else the
        first value counts as if it had always been there.
    ignore_missing
        Whether rows without a value take no part; else the values before them fade all the same.
    min_periods
        Values that there must be so far, or the result is missing.
    results
        The outputs, where some compute with the results of aggregates.

    Notes
    -----
    The recurrences are those of pandas, in its order of operations; the answer depends on no cut
    because they run strictly from row to row. That is also why the carry of a unit is the columns
    that are read: the states are reached one unit after another. A row without a value has no
    result (pandas repeats the one before).
    """

    name: ClassVar[str] = "ewm"
    aggregates: tuple[NamedAggregate, ...]
    alpha: float
    by: tuple[str, ...] = ()
    adjust: bool = True
    ignore_missing: bool = False
    min_periods: int = 1
    results: tuple[ComputedColumn, ...] = ()

    def __post_init__(self) -> None:
        if type(self.alpha) not in (int, float) or not 0 < self.alpha <= 1:
            raise PlanError(f"ewm: alpha is {self.alpha!r}", hint="it lies above 0, up to 1")
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
            keeps_count=True,
            carries=Carry.BEFORE,
        )

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.column or "" for each in self.aggregates))

    @cached_property
    def _fading(self) -> Fading:
        spreads = any(not isinstance(each.aggregate, Mean) for each in self.aggregates)
        return Fading(self.alpha, self.adjust, self.ignore_missing, spreads)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the results added or replaced, as float64."""
        stored = frozenset().union(*(each.columns for each in self.aggregates))
        input_schema.require([*sorted(stored), *self.by], where=self.name)
        check_keys(self.by, input_schema)
        schema = input_schema
        for field in self.output_fields(input_schema):
            schema = schema.with_column(field.name, field.type)
        return schema

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
        return pa.schema([*fields, pa.field("is_state", pa.bool_())])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit: no less tells what becomes of an unknown state."""
        rows = np.arange(unit.num_rows)
        arrays = plain_keys([unit.column(name) for name in self.by], rows)
        for name in self._columns:
            arrays += [pa.array(_floats(unit.column(name))), pa.nulls(len(rows), _STATE)]
        arrays.append(pa.array(np.zeros(len(rows), np.bool_)))
        return pa.table(arrays, schema=self.carry_schema(unit.schema))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Go on from the states of all before with the rows of one more unit."""
        keys = [carried_keys(each, self.by) for each in (earlier, later)]
        values = [later.column(f"value_{at}").to_numpy() for at in range(len(self._columns))]
        run = _Run(self._fading, earlier, keys[0], keys[1], values, later.num_rows)
        states = run.states()
        both = pa.concat_tables([earlier, later]).take(pa.array(run.row_of_group))
        arrays = [both.column(f"key_{at}") for at in range(len(self.by))]
        for column in states:
            arrays += [pa.nulls(len(column), pa.float64()), pa.array(column, _STATE)]
        arrays.append(pa.array(np.ones(len(both), np.bool_)))
        return pa.table(arrays, schema=earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Return True: nothing is carried from after."""
        return True

    # --- computing --------------------------------------------------------------------------------

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute the results of a unit that is everything."""
        nothing = self.carry_schema(unit.schema).empty_table()
        return self.process_between(unit, nothing, nothing)

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Go on from the states that were carried."""
        self.check_planned()
        keys = [unit.column(name) for name in self.by]
        values = [_floats(unit.column(name)) for name in self._columns]
        run = _Run(self._fading, before, carried_keys(before, self.by), keys, values, unit.num_rows)
        results = [run.results(at) for at in range(len(values))]
        made = unit
        for each in self.aggregates:
            found = results[self._columns.index(each.column or "")]
            made = made.with_column(each.output, self._result(each, found))
        return made

    def _result(self, each: NamedAggregate, found: np.ndarray) -> pa.Array:
        means, counts, squares, weights, weight_squares = found
        values = means
        if not isinstance(each.aggregate, Mean):
            values = squares
            if getattr(each.aggregate, "ddof", 1):
                total = weights * weights
                rest = total - weight_squares
                with np.errstate(all="ignore"):
                    values = np.where(rest > 0, total / rest * squares, np.nan)
            values = np.sqrt(values) if isinstance(each.aggregate, Std) else values
        missing = np.isnan(values) | (counts < self.min_periods)
        return pa.array(values, mask=missing)


def alpha_of(
    alpha: float | None, span: float | None, halflife: float | None, com: float | None
) -> float:
    """Return how much a new value counts, from whichever of four measures is given.

    Raises
    ------
    PlanError
        Unless exactly one is given, a number in its range.
    """
    given = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise PlanError(
            f"ewm takes one of alpha, span, halflife and com, not {sorted(named) or 'none'}",
            hint="ewm(span=20)",
        )
    ((name, value),) = named.items()
    least, inclusive = {"alpha": (0, 0), "span": (1, 1), "halflife": (0, 0), "com": (0, 1)}[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PlanError(f"ewm: {name} is a number, not {value!r}")
    if value < least or (value == least and not inclusive) or (name == "alpha" and value > 1):
        raise PlanError(
            f"ewm: {name} is {value!r}",
            hint="alpha lies above 0, up to 1; span from 1 on; halflife above 0; com from 0 on",
        )
    if name == "alpha":
        return float(value)
    if name == "halflife":
        value = 1 / (1 - math.exp(-math.log(2) / value)) - 1
    return 1 / (1 + ((value - 1) / 2 if name == "span" else value))


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
    ) -> None:
        self._fading = fading
        (earlier, own), groups = codes_of_parts([carried, keys], [before.num_rows, rows])
        self._order = KeyOrder.of_codes(own, groups)
        self._groups = self._order.arranged(own)
        self._starts = np.unique(self._order.start)
        self._values = [self._order.arranged(column) for column in values]
        self._before: list[dict[int, FadingState]] = [
            {
                group: FadingState(*state)
                for group, state in zip(
                    earlier.tolist(), before.column(f"state_{at}").to_pylist(), strict=True
                )
            }
            for at in range(len(values))
        ]
        # A key's row in both tables one below the other: the first it has.
        self.row_of_group = np.full(groups, -1)
        self.row_of_group[own[::-1]] = np.arange(rows)[::-1] + before.num_rows
        self.row_of_group[earlier] = np.arange(before.num_rows)
        self.row_of_group = self.row_of_group[self.row_of_group >= 0]

    def states(self) -> list[list[list[float]]]:
        """Return for each column the state of each key after all of its rows."""
        found = []
        for at in range(len(self._values)):
            last = dict(self._before[at])
            for group, segment in self._segments():
                state = last.get(group, FadingState())
                for _ in self._fading.run(self._values[at][segment].tolist(), state):
                    pass
                last[group] = state
            found.append([state.to_list() for _, state in sorted(last.items())])
        return found

    def results(self, at: int) -> np.ndarray:
        """Return what :meth:`Fading.run` gives, a row each, in the order of the unit's rows."""
        found = np.full((5, len(self._groups)), np.nan)
        for group, segment in self._segments():
            carried = self._before[at].get(group, FadingState())
            state = FadingState(*carried.to_list())
            rows = list(self._fading.run(self._values[at][segment].tolist(), state))
            found[:, segment] = np.array(rows, np.float64).T
        rows_of_places = self._order.places if self._order.order is None else self._order.order
        return np.stack([in_rows(line, rows_of_places) for line in found])

    def _segments(self) -> list[tuple[int, slice]]:
        stops = np.append(self._starts, len(self._groups))[1:]
        return [
            (int(self._groups[start]), slice(int(start), int(stop)))
            for start, stop in zip(self._starts, stops, strict=True)
        ]


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, missing ones as NaN."""
    values = plain(column).cast(pa.float64()).fill_null(math.nan)
    floats: np.ndarray = values.to_numpy(zero_copy_only=False)
    return floats

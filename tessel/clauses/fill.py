"""fill: something in place of missing values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.clauses.along_rows.gaps import Gaps, Side, present_rows
from tessel.clauses.along_rows.key_order import patched
from tessel.clauses.along_rows.ordered import LooksAround, OrderedColumns, check_reach
from tessel.clauses.base import Carry, ClauseInfo
from tessel.clauses.constants import Constant, check_constant, constant_of
from tessel.clauses.index_values import index_of
from tessel.clauses.registry import register
from tessel.clauses.values import plain_type
from tessel.ecs import ProcessingUnit
from tessel.errors import ExpressionTypeError, PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

Method = Literal["forward", "backward", "linear", "value"]

_CARRIES: dict[str, Carry | None] = {
    "forward": Carry.BEFORE,
    "backward": Carry.AFTER,
    "linear": Carry.BOTH,
    "value": None,
}


@register
@dataclass(frozen=True)
class Fill(OrderedColumns, LooksAround):
    """Put something in place of missing values, null or NaN.

    Attributes
    ----------
    columns, by
        As for every ordered clause: pairs of result and column, and keys.
    method
        ``"forward"`` takes the last value before, ``"backward"`` the next one after, of the same
        key and of any type. ``"linear"`` goes straight from the one to the other: numbers, as
        floats. ``"value"`` puts ``value``.
    value
        What is put by ``"value"``; a value that the type of the column holds.
    limit
        Rows that are filled in a row at most: those next to the value they are filled from, for
        ``"linear"`` the value before. By default all.
    along
        What ``"linear"`` goes along: ``"rows"`` of the key, or the ``"time"`` of the index.

    Notes
    -----
    Linear: with the value ``a`` before and ``b`` after, ``a + (b - a) * (passed / whole)`` in
    float64; between two values of one instant it is ``a``. Nothing is filled that has a value on
    one side alone.
    """

    name: ClassVar[str] = "fill"
    method: Method = "forward"
    value: Constant = None
    limit: int | None = None
    along: Literal["rows", "time"] = "rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_constant(self.name, self.value)
        if self.method not in _CARRIES:
            raise PlanError(
                f"fill: the method is {self.method!r}", hint=f"it is one of {list(_CARRIES)}"
            )
        if (self.method == "value") == (self.value is None):
            raise PlanError(
                f"fill: the method is {self.method!r} and the value {self.value!r}",
                hint="give the value to fill with"
                if self.value is None
                else 'a value goes with method="value", and with no other',
            )
        limit = self.limit
        if limit is not None and (type(limit) is not int or limit < 1 or self.method == "value"):
            raise PlanError(
                f"fill: limit is {limit!r}",
                hint="it is a number of rows from 1 on; a constant value has no limit",
            )
        check_reach(self.name, limit or 0)
        if self.along not in ("rows", "time") or (self.along == "time" and self.method != "linear"):
            raise PlanError(
                f"fill: along is {self.along!r} for the method {self.method!r}",
                hint='"linear" goes along "rows" or "time"; the others know only rows',
            )

    @property
    def carries(self) -> Carry | None:
        """Return the side, or sides, that values are taken from."""
        return _CARRIES[self.method]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return dataclasses.replace(super().structure, uses_index=self.along == "time")

    @property
    def _gaps(self) -> Gaps:
        return Gaps(tuple(self.inputs), self.by, self.along == "time")

    def reach(self, schema: TableSchema) -> Gaps:
        """Return the carry that fills missing values from rows of other units."""
        return self._gaps

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the column; a float for linear, which is refused of other types."""
        constant_of(self.value, kind, clause=self.name, column=column)
        if self.method != "linear":
            return kind
        plain = plain_type(kind)
        if pa.types.is_floating(plain):
            return plain
        if pa.types.is_integer(plain) or pa.types.is_decimal(plain) or pa.types.is_null(plain):
            return pa.float64()
        raise ExpressionTypeError(
            f"fill: there is no line between values of column {column!r} of type {kind}",
            hint="fill it forward or backward, or cast it to a number first",
            column=column,
            type=str(kind),
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the columns added or replaced."""
        if self.along == "time":
            index_of(input_schema, 'fill(method="linear", along="time")')
        return super().output_schema(input_schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether what is missing at the end of a unit has a value after it."""
        limit = self.limit if self.method == "backward" else None
        return self._gaps.suffices(summary, after, limit)

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Fill the missing values of a unit from its own values and those around it."""
        results = dict(zip(self.inputs, self._results(unit, before, after), strict=True))
        return unit.with_columns({output: results[column] for output, column in self.columns})

    def _results(self, unit: ProcessingUnit, before: pa.Table, after: pa.Table) -> Iterator[Any]:
        columns = {name: unit.column(name) for name in self.inputs}
        if self.method == "value":
            for name, column in columns.items():
                constant = constant_of(self.value, column.type, clause=self.name, column=name)
                absent = np.flatnonzero(~present_rows(column))
                chosen = np.zeros(len(absent), np.int64)
                yield patched(column, absent, pa.chunked_array([constant]), chosen, all_valid=True)
        elif self.method == "linear":
            sides = self._gaps.sides(unit, before, after)
            for (name, column), both in zip(columns.items(), sides, strict=True):
                yield _linear(*both, self.result_type(name, column.type), self.limit)
        else:
            backward = self.method == "backward"
            carried = after if backward else before
            # A row that is not filled keeps what it has: null, or NaN bit for bit.
            yield from self._gaps.filled(unit, carried, backward=backward, limit=self.limit)


def _linear(before: Side, after: Side, kind: pa.DataType, limit: int | None) -> pa.Array:
    own = before.distance == 0
    reached = before.found & after.found
    if limit is not None:
        reached &= before.distance <= limit
    passed, left = before.distance, after.distance
    if before.times is not None and after.times is not None:
        start, stop = before.times[before.rows], after.times[after.rows]
        own_time = before.times[len(before.times) - len(own) :]
        passed, left = own_time - start, stop - own_time
    whole = np.where(reached, passed + left, 1)
    first, last = (_floats(side)[side.rows] for side in (before, after))
    with np.errstate(all="ignore"):
        share = np.where(whole > 0, passed / np.maximum(whole, 1), 0.0)
        values = np.where(own, first, first + (last - first) * share)
    found = arrow_array(values, mask=~(own | reached))
    return found.cast(kind) if found.type != kind else found


def _floats(side: Side) -> np.ndarray:
    values: np.ndarray = numpy_array(fill_null(side.values.cast(pa.float64(), safe=False), 0.0))
    return values

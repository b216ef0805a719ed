"""shift, diff and pct_change: of each row, the row ``n`` places before of its key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, one_array
from tessel.clauses.along_rows.carried_lists import list_values
from tessel.clauses.along_rows.key_order import Codes, taken
from tessel.clauses.along_rows.neighbours import Reach
from tessel.clauses.along_rows.ordered import LooksAround, OrderedColumns, check_reach
from tessel.clauses.base import Carry
from tessel.clauses.constants import Constant, check_constant, constant_of
from tessel.clauses.positional import check_count
from tessel.clauses.registry import register
from tessel.clauses.values import BoolArray
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression.build import col
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.kernels.source_rows import rows_away
from tessel.lazy import dataclass


@dataclass(frozen=True)
class ShiftedColumns(OrderedColumns, LooksAround):
    """A clause whose results depend on the row ``n`` rows before, of the same key.

    Attributes
    ----------
    columns, by
        As for every ordered clause: pairs of result and column, and keys.
    n
        Rows to look back; a negative one looks ahead, 0 is the row itself.
    """

    n: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, self.n)
        check_reach(self.name, self.n)

    @property
    def carries(self) -> Carry | None:
        """Return before, or after for a negative ``n``."""
        return self._reach.carries

    @property
    def _reach(self) -> Reach:
        return Reach(tuple(self.inputs), self.by, max(self.n, 0), max(-self.n, 0))

    def reach(self, schema: TableSchema) -> Reach:
        """Return how far it looks: ``n`` rows to one side."""
        return self._reach

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether each key of a unit has ``n`` rows after it."""
        return self._reach.suffices(summary, after)

    def shifted(
        self,
        unit: ProcessingUnit,
        before: pa.Table,
        after: pa.Table,
        fills: Mapping[str, pa.Array] | None = None,
    ) -> dict[str, pa.ChunkedArray]:
        """Return the columns that are read, ``n`` rows before each row of a unit.

        Parameters
        ----------
        fills
            By column an array of the one value that stands where there is no such row; null by
            default.
        """
        fills = fills or {}
        if not self.by:
            return {
                name: self._slid(
                    unit.column(name), before.column(at), after.column(at), fills.get(name)
                )
                for at, name in enumerate(self.inputs)
            }
        around = self._reach.around(unit, before, after)
        keys = around.keys
        order = keys.places if keys.order is None else keys.order
        rows = rows_away(order, keys.bounds, self.n, around.start, around.stop)
        absent = rows < 0
        found: dict[str, pa.ChunkedArray] = {}
        for at, name in enumerate(self.inputs, start=len(self.by)):
            column = around.column(before.column(at), unit.column(name), after.column(at))
            found[name] = _taken(column, rows, absent, fills.get(name))
        return found

    def _slid(
        self,
        column: pa.ChunkedArray,
        before: pa.ChunkedArray,
        after: pa.ChunkedArray,
        fill: pa.Array | None,
    ) -> pa.ChunkedArray:
        """Return a column without keys, joined with neighbouring rows and cut to its length."""
        rows, away = len(column), abs(self.n)
        near = list_values(before if self.n >= 0 else after)
        gap = _repeated(fill, column.type, min(max(away - len(near), 0), rows))
        if self.n >= 0:
            chunks = [gap, near.slice(max(len(near) - away, 0)), *column.chunks]
        else:
            chunks = [*column.slice(min(away, rows)).chunks, near.slice(max(away - rows, 0)), gap]
        slid = pa.chunked_array([c for c in chunks if len(c)], type=column.type).slice(0, rows)
        # Few rows alone would make a batch of so few.
        return pa.chunked_array([one_array(slid)])


def _repeated(fill: pa.Array | None, kind: pa.DataType, count: int) -> pa.Array:
    if fill is None:
        return pa.nulls(count, kind)
    return fill.take(arrow_array(np.zeros(count, np.int64)))


def _taken(
    values: pa.ChunkedArray, rows: Codes, absent: BoolArray, fill: pa.Array | None
) -> pa.ChunkedArray:
    """Return some rows of a column, and a value where there is none."""
    if fill is None:
        found = taken(values, rows, absent)
    else:
        values = pa.chunked_array([*values.chunks, fill], type=values.type)
        found = taken(values, np.where(absent, len(values) - 1, rows))
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


@dataclass(frozen=True)
class ComparedColumns(ShiftedColumns):
    """A clause whose results are an expression of a value and the one ``n`` rows before."""

    @abstractmethod
    def compared(self, now: Expression, then: Expression) -> Expression:
        """Return what is computed."""

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the expression; refuse types that it means nothing for."""
        expression, then = self._expression(column)
        schema = TableSchema(pa.schema([(column, kind), (then, kind)]))
        try:
            return expression.result_type(schema)
        except TesselError as error:
            error.with_context(column=column)
            raise

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Compute the expression of each row and the one ``n`` places away."""
        shifted = self.shifted(unit, before, after)
        made: dict[str, pa.ChunkedArray] = {}
        for output, column in self.columns:
            expression, then = self._expression(column)
            table = pa.table({column: unit.column(column), then: shifted[column]})
            made[output] = evaluate(expression, table)
        return unit.with_columns(made)

    def _expression(self, column: str) -> tuple[Expression, str]:
        """Return the expression, and the name that the shifted column has in it."""
        then = f"{column} {abs(self.n)} rows {'before' if self.n >= 0 else 'after'}"
        return self.compared(col(column), col(then)), then


@register
@dataclass(frozen=True)
class Shift(ShiftedColumns):
    """The value of a column ``n`` rows before, of the same key; any type.

    Attributes
    ----------
    columns, by
        As for every ordered clause: pairs of result and column, and keys.
    n
        Rows to look back; a negative one looks ahead, 0 is the row itself.
    fill
        What stands where there is no such row; by default missing. A value that is missing in its
        own row is shifted as it is, and not filled.
    """

    name: ClassVar[str] = "shift"
    fill: Constant = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_constant(self.name, self.fill)

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the column; refuse a fill value that it does not hold."""
        constant_of(self.fill, kind, clause=self.name, column=column)
        return kind

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Look up the row ``n`` places away, where its key reaches so far."""
        fills = {}
        if self.fill is not None:
            for name in self.inputs:
                kind = unit.schema.type_of(name)
                fills[name] = constant_of(self.fill, kind, clause=self.name, column=name)
        shifted = self.shifted(unit, before, after, fills)
        return unit.with_columns({output: shifted[column] for output, column in self.columns})


@register
@dataclass(frozen=True)
class Diff(ComparedColumns):
    """A value minus the one ``n`` rows before, of the same key; missing where either is.

    It is the ``-`` of expressions: integers widen, past 64 bits it raises, instants give durations,
    decimals stay exact.
    """

    name: ClassVar[str] = "diff"

    def compared(self, now: Expression, then: Expression) -> Expression:
        """Return the difference."""
        return now - then


@register
@dataclass(frozen=True)
class PctChange(ComparedColumns):
    """A value over the one ``n`` rows before, of the same key, less 1; missing where either is.

    float64, a fraction and not a percentage: 0.5 is half as much again. From zero it is ±inf, and
    missing to zero again.
    """

    name: ClassVar[str] = "pct_change"

    def compared(self, now: Expression, then: Expression) -> Expression:
        """Return the quotient less 1."""
        return now / then - 1

"""What shift, diff and pct_change share: of each row, the row ``n`` places before of its key."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tessel.clauses.along_rows.neighbours import Reach
from tessel.clauses.along_rows.ordered import OrderedColumns, check_reach
from tessel.clauses.base import Carry
from tessel.clauses.positional import check_count
from tessel.clauses.values import BoolArray
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression import Expression, col, evaluate
from tessel.expression.schema import TableSchema

__all__ = ["ComparedColumns", "ShiftedColumns"]


@dataclass(frozen=True)
class ShiftedColumns(OrderedColumns):
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

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return keys and values of the rows at the edge."""
        return self._reach.schema(input_schema)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the last ``n`` rows of each key, or the first ones."""
        return self._reach.summary(unit)

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return the last ``n`` rows of each key of both, or the first ones."""
        return self._reach.combined(earlier, later)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether each key of a unit has ``n`` rows after it."""
        return self._reach.suffices(summary, after)

    def shifted(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> tuple[dict[str, pa.ChunkedArray], BoolArray]:
        """Return the columns that are read, ``n`` rows before each row of a unit.

        Returns
        -------
        columns : dict of str to pyarrow.ChunkedArray
            By the name of the column; null where there is no such row.
        absent : numpy.ndarray
            Bool, shape ``(rows,)``: where there is none.
        """
        around = self._reach.around(unit, before, after)
        keys = around.keys
        wanted = keys.places - self.n
        inside = (wanted >= keys.start) & (wanted < keys.stop)
        rows = around.of_unit(keys.rows_at(np.where(inside, wanted, -1)))
        absent = rows < 0
        indices = pa.array(np.maximum(rows, 0), mask=absent)
        shifted = [column.take(indices) for column in around.table.columns]
        return dict(zip(self.inputs, shifted, strict=True)), absent


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
        shifted, _ = self.shifted(unit, before, after)
        made = unit
        for output, column in self.columns:
            expression, then = self._expression(column)
            table = pa.table({column: unit.column(column), then: shifted[column]})
            values = evaluate(expression, table)
            made = made.with_column(output, values)
        return made

    def _expression(self, column: str) -> tuple[Expression, str]:
        """Return the expression, and the name that the shifted column has in it."""
        then = f"{column} {abs(self.n)} rows {'before' if self.n >= 0 else 'after'}"
        return self.compared(col(column), col(then)), then

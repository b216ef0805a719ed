"""shift: the value some rows before, or after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tessel.clauses.base import Carry
from tessel.clauses.constants import Constant, check_constant, constant_of
from tessel.clauses.neighbours import Reach
from tessel.clauses.ordered import OrderedColumns
from tessel.clauses.positional import check_count
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema

__all__ = ["Shift"]


@register
@dataclass(frozen=True)
class Shift(OrderedColumns):
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
    n: int = 1
    fill: Constant = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, self.n)
        check_constant(self.name, self.fill)

    @property
    def carries(self) -> Carry | None:
        """Return before, or after for a negative ``n``."""
        return self._reach.carries

    @property
    def _reach(self) -> Reach:
        return Reach(tuple(self.inputs), self.by, max(self.n, 0), max(-self.n, 0))

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the column; refuse a fill value that it does not hold."""
        constant_of(self.fill, kind, clause=self.name, column=column)
        return kind

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

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Look up the row ``n`` places away, where its key reaches so far."""
        around = self._reach.around(unit, before, after)
        keys = around.keys
        wanted = keys.places - self.n
        inside = (wanted >= keys.start) & (wanted < keys.stop)
        rows = around.places_of_unit(keys.rows_at(np.where(inside, wanted, -1)))
        absent = rows < 0
        indices = pa.array(np.maximum(rows, 0), mask=absent)
        shifted = [column.take(indices) for column in around.table.columns]
        results = dict(zip(self.inputs, shifted, strict=True))
        made = unit
        for output, column in self.columns:
            values = self._filled(results[column], absent, column)
            made = made.with_column(output, values)
        return made

    def _filled(self, values: Any, absent: np.ndarray, column: str) -> Any:
        if self.fill is None or not absent.any():
            return values
        kind = values.type
        constant = constant_of(self.fill, kind, clause=self.name, column=column)
        with_constant = pa.chunked_array([*values.chunks, constant], type=kind)
        rows = np.where(absent, len(values), np.arange(len(values)))
        return with_constant.take(pa.array(rows))

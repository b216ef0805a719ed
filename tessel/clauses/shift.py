"""shift: the value some rows before, or after."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.along_rows.shifted import ShiftedColumns
from tessel.clauses.constants import Constant, check_constant, constant_of
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.lazy import dataclass


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

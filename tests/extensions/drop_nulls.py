"""The clause ``drop_nulls``: rows in which a column has a value; a file of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tessel as ts


@ts.register
@dataclass(frozen=True)
class DropNulls(ts.Clause):
    """Drop the rows in which a column is missing."""

    name: ClassVar[str] = "drop_nulls"
    column: str

    @property
    def structure(self) -> ts.ClauseInfo:
        rows = ts.Structure.ROW_SLICE
        return ts.ClauseInfo(rows, rows, columns=frozenset([self.column]))

    def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
        input_schema.type_of(self.column)
        return input_schema

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        return unit.filter(~ts.col(self.column).is_missing())


@ts.register
@dataclass(frozen=True)
class DropNullsOfArrays(DropNulls):
    """The same by an array, which is asked for."""

    name: ClassVar[str] = "drop_nulls_of_arrays"

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        return unit.filter(unit.column(self.column).is_valid())

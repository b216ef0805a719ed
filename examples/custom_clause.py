"""A clause of your own in one file: it works in the builder, in JSON, in explain, and on Spark."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

import tessel as ts


@ts.register
@dataclass(frozen=True)
class DropOutliers(ts.Clause):
    """Keep the rows whose value lies within a factor of a reference value."""

    name: ClassVar[str] = "drop_outliers"
    column: str
    reference: float
    factor: float = 10.0

    @property
    def structure(self) -> ts.ClauseInfo:
        """Works on row slices, one by one, and reads one column."""
        row_slice = ts.Structure.ROW_SLICE
        return ts.ClauseInfo(row_slice, row_slice, columns=frozenset([self.column]))

    def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
        """The columns stay; an unknown one is refused before anything runs."""
        input_schema.require([self.column])
        return input_schema

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        """Keep the rows near the reference."""
        low, high = self.reference / self.factor, self.reference * self.factor
        return unit.filter(unit.evaluate(ts.col(self.column).between(low, high)))


store = ts.open("memory://custom-clause")
store.write("readings", pa.table({"value": [9.5, 10.25, 9_999.0, 11.0, 0.001, 10.5]}))

query = ts.QueryBuilder().drop_outliers("value", reference=10.0).head(3)
print(store.read("readings", query=query))
print(store.explain("readings", query))

again = ts.QueryBuilder.from_json(query.to_json())
print("the JSON form gives the same query:", again == query)

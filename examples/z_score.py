"""A z-score filter as a clause: keep the rows near the mean, in units of the standard deviation.

Mean and deviation are those of the whole column, so the clause needs everything: `Structure.ALL`.
It takes the rows as a stream and holds only the units themselves; the two sums are exact (the
correctly rounded sums of `math.fsum`), so no cut of the rows into units can change which rows stay.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tessel as ts


@ts.register
@dataclass(frozen=True)
class ZScore(ts.Clause):
    """Keep the rows whose value is at most ``limit`` standard deviations from the mean.

    Missing and infinite values are neither counted nor kept. Where all values are equal, all stay.
    """

    name: ClassVar[str] = "z_score"
    column: str
    limit: float = 3.0

    def __post_init__(self) -> None:
        """Refuse what no table could make right; what depends on columns waits for a schema."""
        if not self.limit > 0:
            raise ts.errors.PlanError(f"z_score: the limit is a number above 0, not {self.limit}")

    @property
    def structure(self) -> ts.ClauseInfo:
        """Everything in order in, row slices out; one column is read."""
        return ts.ClauseInfo(
            ts.Structure.ALL, ts.Structure.ROW_SLICE, columns=frozenset([self.column])
        )

    def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
        """The columns stay; a column that is no number is refused before anything is read."""
        kind = input_schema.type_of(self.column)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise ts.errors.ExpressionTypeError(
                f"z_score takes a column of numbers, and {self.column!r} is {kind}",
                hint=f'cast it first: apply("{self.column}", col("{self.column}").cast("float64"))',
            )
        return input_schema

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        """Filter one unit that holds everything."""
        return next(iter(self.consume([unit], unit.schema)), unit.slice(0, 0))

    def consume(
        self, units: Iterable[ts.ProcessingUnit], schema: ts.TableSchema
    ) -> Iterator[ts.ProcessingUnit]:
        """Take all units, learn mean and deviation, and give the units back filtered."""
        held = list(units)
        values = [self._values(unit) for unit in held]
        present = [value[np.isfinite(value)] for value in values]
        count = sum(map(len, present))
        if count == 0:
            yield from (unit.slice(0, 0) for unit in held)
            return
        mean = math.fsum(x for part in present for x in part) / count
        variance = math.fsum((x - mean) ** 2 for part in present for x in part) / count
        bound = self.limit * math.sqrt(variance)
        for unit, value in zip(held, values, strict=True):
            yield unit.filter(pa.array(np.abs(value - mean) <= bound))  # NaN is never kept

    def _values(self, unit: ts.ProcessingUnit) -> np.ndarray:
        """Return the column as doubles, NaN where it is missing."""
        doubles = pc.cast(unit.column(self.column), pa.float64(), safe=False)
        return np.asarray(doubles.to_numpy())


if __name__ == "__main__":
    store = ts.open("memory://z-score")
    readings = [10.0, 10.5, 9.5, None, 10.25, 9.75, 500.0, 10.0]
    store.write("readings", pa.table({"value": readings, "at": range(len(readings))}))
    query = ts.QueryBuilder().z_score("value", limit=2.0).select("at", "value")
    print(store.read("readings", query=query))
    print(store.explain("readings", query))

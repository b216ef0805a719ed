"""filter: keep the rows where a predicate is true."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import ExpressionTypeError, PlanError
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex


@register
@dataclass(frozen=True)
class Filter(Clause):
    """Keep the rows where ``predicate`` is true; false and missing drop out.

    Attributes
    ----------
    predicate
        An expression of type bool; a bare boolean column is one.
    optimise
        ``"speed"`` keeps dictionaries as they are, ``"memory"`` trims them to what survived and
        copies the survivors. The answer is the same.
    """

    name: ClassVar[str] = "filter"
    predicate: Expression
    optimise: Literal["speed", "memory"] = "speed"

    def __post_init__(self) -> None:
        if not isinstance(self.predicate, Expression):
            raise PlanError(
                f"filter takes an expression, not {self.predicate!r}",
                hint='text is read by q.filter("price > 100") and by parse("price > 100")',
                clause=self.name,
            )
        if self.optimise not in ("speed", "memory"):
            raise PlanError(
                f"filter: optimise is {self.optimise!r}",
                hint="it is speed or memory",
                clause=self.name,
            )

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order kept."""
        return ClauseInfo(columns=self.predicate.columns())

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema; a predicate that is not boolean is refused."""
        kind = self.predicate.result_type(input_schema)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise ExpressionTypeError(
                f"a filter takes a condition, but {self.predicate} is {kind}",
                hint=f"compare it with something: {self.predicate} > ...",
                expression=str(self.predicate),
                type=str(kind),
            )
        return input_schema

    def proves(self, index: SegmentIndex) -> npt.NDArray[np.int8]:
        """Return in which row slices, by their statistics, no row is true, or every row is."""
        from tessel.expression.intervals import evaluate_statistics

        return evaluate_statistics(self.predicate, index.statistics, index.schema)

    def drop_reason(self) -> str:
        """Name the predicate."""
        return f"statistics: never {self.predicate}"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the rows where the predicate is true."""
        kept = unit.filter(self.predicate)
        if self.optimise == "memory" and kept is not unit:
            kept = kept.with_pieces(
                [p.with_table(_trimmed(p.table)) for p in kept.pieces], kept.schema
            )
        return kept


def _trimmed(table: pa.Table) -> pa.Table:
    """Return the table with dictionaries that hold only the values in use."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            values = table.column(at).cast(field.type.value_type)
            trimmed = values.dictionary_encode().cast(field.type)
            table = table.set_column(at, field, trimmed)
    return table

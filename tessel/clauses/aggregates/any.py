"""The aggregate ``any``: whether one of the values is true."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Codes
from tessel.clauses.aggregates.kernels.extremes import greatest
from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.selective import SelectiveAggregate

__all__ = ["AnyTrue"]


@register
class AnyTrue(SelectiveAggregate):
    """Whether one of the values that are not missing is true; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "any"
    reductions: ClassVar[tuple[str, ...] | None] = ("greatest",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        kind = super().result_type(value_type, column)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise self.refuse(
                column, value_type, "any takes bool columns: compare first, or apply a condition"
            )
        return pa.bool_()

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field(self.name, pa.bool_())]

    def choose(self, values: pa.Array, codes: Codes, groups: int) -> pa.Array:  # noqa: D102
        return greatest(values.cast(pa.bool_()), codes, groups)

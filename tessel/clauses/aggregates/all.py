"""The aggregate ``all``: whether none of the values is false."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Codes
from tessel.clauses.aggregates.kernels.extremes import least
from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.selective import SelectiveAggregate

__all__ = ["AllTrue"]


@register
class AllTrue(SelectiveAggregate):
    """Whether none of the values that are not missing is false; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "all"
    reductions: ClassVar[tuple[str, ...] | None] = ("least",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        kind = super().result_type(value_type, column)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise self.refuse(
                column, value_type, "all takes bool columns: compare first, or apply a condition"
            )
        return pa.bool_()

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field(self.name, pa.bool_())]

    def choose(self, values: pa.Array, codes: Codes, groups: int) -> pa.Array:  # noqa: D102
        return least(values.cast(pa.bool_()), codes, groups)

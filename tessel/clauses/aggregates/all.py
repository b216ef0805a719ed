"""The aggregate ``all``: whether none of the values is false."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.from_reductions import SelectiveAggregate
from tessel.clauses.aggregates.registry import register

__all__ = ["AllTrue"]


@register
class AllTrue(SelectiveAggregate):
    """Whether none of the values that are not missing is false; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "all"
    reductions: ClassVar[tuple[str, ...]] = ("least",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        kind = super().result_type(value_type, column)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise self.refuse(
                column,
                value_type,
                f"{self.name} takes bool columns: compare first, or apply a condition",
            )
        return pa.bool_()

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return super().of_reductions(reduced, value_type, column).cast(pa.bool_())

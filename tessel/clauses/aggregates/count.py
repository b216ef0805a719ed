"""The aggregates ``count``, of values that are not missing, and ``size``, of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.registry import register


@register
class Count(FromReductions):
    """How many values are neither null nor NaN, int64; 0 of none. Takes every type."""

    name: ClassVar[str] = "count"
    reductions: ClassVar[tuple[str, ...]] = ("count",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return arrow_array(reduced["count"])


@register
class Size(Count):
    """How many rows a group has, missing values included, int64. Needs no column."""

    name: ClassVar[str] = "size"
    reads_values: ClassVar[bool] = False

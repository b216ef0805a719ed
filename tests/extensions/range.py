"""The aggregate ``range``, greatest value less least: a file for ``clauses/aggregates/``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import plain_type


@register
class Range(FromReductions):
    """The distance from the least value to the greatest; missing of none."""

    name: ClassVar[str] = "range"
    reductions: ClassVar[tuple[str, ...]] = ("least", "greatest")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        return plain_type(value_type)

    def of_reductions(
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return pc.subtract(reduced["greatest"], reduced["least"])

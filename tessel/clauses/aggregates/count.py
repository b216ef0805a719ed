"""The aggregate ``count``: how many values are not missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.present_rows import counts_of, merged_counts
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import missing_rows, plain

__all__ = ["Count"]


@register
class Count(MergeableAggregate):
    """How many values are neither null nor NaN, int64; 0 of none. Takes every type."""

    name: ClassVar[str] = "count"
    reductions: ClassVar[tuple[str, ...]] = ()

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field("count", pa.int64())]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        missing = missing_rows(plain(values))
        kept = codes if missing is None else codes[~missing]
        return [arrow_array(counts_of(kept, groups))]

    def partial_of_reductions(  # noqa: D102
        self, counts: NDArray[np.int64], reduced: Mapping[str, Any]
    ) -> list[pa.Array]:
        return [arrow_array(counts)]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        return [arrow_array(merged_counts(states[0], codes, groups))]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

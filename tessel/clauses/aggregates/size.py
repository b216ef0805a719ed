"""The aggregate ``size``: how many rows a group has."""

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
from tessel.clauses.values import plain

__all__ = ["Size"]


@register
class Size(MergeableAggregate):
    """How many rows a group has, missing values included, int64. Needs no column."""

    name: ClassVar[str] = "size"
    reductions: ClassVar[tuple[str, ...]] = ()
    reads_values: ClassVar[bool] = False

    def result_type(self, value_type: pa.DataType | None, column: str | None = None) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def partial_fields(self, value_type: pa.DataType | None) -> list[pa.Field]:  # noqa: D102
        return [pa.field("size", pa.int64())]

    def partial(  # noqa: D102
        self, values: Values | None, codes: Codes, groups: int
    ) -> list[pa.Array]:
        return [arrow_array(counts_of(codes, groups))]

    def partial_of_reductions(  # noqa: D102
        self, counts: NDArray[np.int64], reduced: Mapping[str, Any]
    ) -> list[pa.Array]:
        return [arrow_array(counts)]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType | None
    ) -> list[pa.Array]:
        return [arrow_array(merged_counts(states[0], codes, groups))]

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType | None, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

    def compute(  # noqa: D102
        self, values: Values | None, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        return arrow_array(counts_of(codes, groups))

"""The aggregate ``range``, greatest value less least: a file for ``clauses/aggregates/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.kernels.extremes import greatest, least
from tessel.clauses.aggregates.present_rows import present
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import plain, plain_type


@register
class Range(MergeableAggregate):
    """The distance from the least value to the greatest; missing of none."""

    name: ClassVar[str] = "range"
    reductions: ClassVar[tuple[str, ...] | None] = ("least", "greatest")

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        return plain_type(value_type)

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:
        return [pa.field(name, plain_type(value_type)) for name in ("least", "greatest")]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:
        array, codes, _ = present(values, codes)
        return [least(array, codes, groups), greatest(array, codes, groups)]

    def partial_of_reductions(
        self, counts: NDArray[np.int64], reduced: Mapping[str, Any]
    ) -> list[pa.Array]:
        return [reduced["least"], reduced["greatest"]]

    def merge(
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        low, high = (present(state, codes) for state in states)
        return [least(low[0], low[1], groups), greatest(high[0], high[1], groups)]

    def finish(
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return pc.subtract(plain(states[1]), plain(states[0]))

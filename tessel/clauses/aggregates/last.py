"""The aggregate ``last``: the last value in row order."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes
from tessel.clauses.aggregates.kernels.positions import last_rows
from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.selective import SelectiveAggregate

__all__ = ["Last"]


@register
class Last(SelectiveAggregate):
    """The last value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "last"
    reductions: ClassVar[tuple[str, ...] | None] = ("last",)

    def choose(self, values: pa.Array, codes: Codes, groups: int) -> pa.Array:  # noqa: D102
        rows = last_rows(codes, groups)
        return values.take(arrow_array(rows, mask=rows < 0))

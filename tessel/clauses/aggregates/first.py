"""The aggregate ``first``: the first value in row order."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Codes
from tessel.clauses.aggregates.kernels.positions import first_rows
from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.selective import SelectiveAggregate

__all__ = ["First"]


@register
class First(SelectiveAggregate):
    """The first value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "first"
    reductions: ClassVar[tuple[str, ...] | None] = ("first",)

    def choose(self, values: pa.Array, codes: Codes, groups: int) -> pa.Array:  # noqa: D102
        rows = first_rows(codes, groups)
        return values.take(arrow_array(rows, mask=rows < 0))

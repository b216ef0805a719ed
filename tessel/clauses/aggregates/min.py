"""The aggregate ``min``: the least value."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.from_reductions import SelectiveAggregate
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_hashable

__all__ = ["Min"]


@register
class Min(SelectiveAggregate):
    """The least of the values that are not missing, of their own type; missing of none.

    Text is ordered by code point, binary by byte, False before True. A zero is +0.0, whichever
    zeros the group holds.
    """

    name: ClassVar[str] = "min"
    reductions: ClassVar[tuple[str, ...]] = ("least",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        if not is_hashable(value_type):
            raise self.refuse(column, value_type, "min takes columns of single values")
        return super().result_type(value_type, column)

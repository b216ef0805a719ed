"""The aggregate ``max``: the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values, present, register
from tessel.clauses.aggregates.kernels.extremes import greatest
from tessel.clauses.values import is_hashable, plain, plain_type

__all__ = ["Max"]


@register
@dataclass(frozen=True)
class Max(MergeableAggregate):
    """The greatest of the values that are not missing, of their own type; missing of none.

    Text is ordered by code point, binary by byte, False before True. A zero is +0.0, whichever
    zeros the group holds.
    """

    name: ClassVar[str] = "max"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        if not is_hashable(value_type):
            raise self.refuse(column, value_type, "max takes columns of single values")
        return plain_type(value_type)

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field("max", plain_type(value_type))]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        return [greatest(array, codes, groups)]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        return self.partial(states[0], codes, groups)

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

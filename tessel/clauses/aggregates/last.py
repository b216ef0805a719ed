"""The aggregate ``last``: the last value in row order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values, present, register
from tessel.clauses.aggregates.kernels.positions import last_rows
from tessel.clauses.values import plain, plain_type

__all__ = ["Last"]


@register
@dataclass(frozen=True)
class Last(MergeableAggregate):
    """The last value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "last"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return plain_type(value_type)

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field("last", plain_type(value_type))]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        rows = last_rows(codes, groups)
        return [array.take(pa.array(rows, mask=rows < 0))]

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        return self.partial(states[0], codes, groups)

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

"""Selective aggregates (min, max, first, last): the state of a group is one of its values.

Selecting among the values selected from parts selects among all values, so merging is the same as
reducing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.present_rows import present
from tessel.clauses.values import plain, plain_type

__all__ = ["SelectiveAggregate"]


class SelectiveAggregate(MergeableAggregate):
    """An aggregate that selects one of the values that are not missing; missing if there is none.

    Class attributes
    ----------------
    reductions
        The reduction that selects the value on stored integers: ``"least"``, ``"greatest"``,
        ``"first"`` or ``"last"``. None where values must be decoded.
    """

    reductions: ClassVar[tuple[str, ...] | None] = None

    @abstractmethod
    def choose(self, values: pa.Array, codes: Codes, groups: int) -> pa.Array:
        """Return the selected value of each group, null for a group without one.

        ``values`` are plain and without missing ones, in row order; ``codes`` are their groups.
        """

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return plain_type(value_type)

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [pa.field(self.name, plain_type(value_type))]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        array, codes, _ = present(values, codes)
        return [self.choose(array, codes, groups)]

    def partial_of_reductions(  # noqa: D102
        self, counts: NDArray[np.int64], reduced: Mapping[str, Any]
    ) -> list[pa.Array]:
        return list(reduced.values())

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        return self.partial(states[0], codes, groups)

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

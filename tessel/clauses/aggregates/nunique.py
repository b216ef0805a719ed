"""The aggregate ``nunique``: how many different values there are."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import OrderedValues
from tessel.clauses.aggregates.holistic import GroupValues, HolisticAggregate
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_hashable, normalised


@register
class NUnique(HolisticAggregate):
    """How many different values that are not missing there are, int64; 0 of none.

    −0.0 and 0.0 are one value. Takes every type that can be a key.
    """

    name: ClassVar[str] = "nunique"
    reductions: ClassVar[tuple[str, ...]] = ("different",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        if not is_hashable(value_type):
            raise self.refuse(column, value_type, "nunique takes columns of single values")
        return pa.int64()

    def of_values(self, held: GroupValues, groups: int, column: str | None) -> pa.Array:  # noqa: D102
        return arrow_array(held.runs.different)

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Count the different values of each chunk; the last one may go on in the next."""
        found = 0
        before: pa.Array | None = None
        for chunk in values.chunks():
            array = normalised(chunk)
            if not len(array):
                continue
            changes = pc.not_equal(array.slice(1), array.slice(0, len(array) - 1))
            found += 1 + changes.true_count
            if before is not None and before.equals(array.slice(0, 1)):
                found -= 1
            before = array.slice(len(array) - 1)
        return arrow_array([found], pa.int64())

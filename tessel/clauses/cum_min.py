"""cum_min: the least value of a column up to each row."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.selective import Min
from tessel.clauses.along_rows.cumulative import CumulativeExtreme
from tessel.clauses.registry import register
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class CumMin(CumulativeExtreme):
    """The least value up to each row, of the same key; missing where the row has no value.

    Types and order are those of the aggregate ``min``: text by code point, a zero is +0.0.
    """

    name: ClassVar[str] = "cum_min"

    @property
    def aggregate(self) -> MergeableAggregate:
        """The aggregate ``min``."""
        return Min()

    @property
    def better(self) -> np.ufunc:
        """The lesser of two, element by element."""
        return np.minimum

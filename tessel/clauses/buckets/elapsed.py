"""Buckets of a fixed length: elapsed time, whatever clocks do."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tessel.clauses.buckets.base import Closed, Integers
from tessel.errors import IntegerOverflowError
from tessel.lazy import dataclass


@dataclass(frozen=True)
class ElapsedBucketer:
    """Buckets of ``width`` units of the index; bucket 0 begins at ``origin``, in ``[0, width)``."""

    width: int
    origin: int
    closed: Closed

    def numbers(self, values: Integers) -> Integers:
        """Return the bucket of each value."""
        # floor((value - origin) / width) without the subtraction, which could pass 64 bits.
        quotient, remainder = np.divmod(values, self.width)
        if self.closed == "left":
            return quotient - (remainder < self.origin)
        return quotient - (remainder <= self.origin)

    def edges(self, numbers: Integers) -> Integers:
        """Return the left edge of each bucket."""
        if len(numbers):
            limits = np.iinfo(np.int64)
            low = int(numbers.min()) * self.width + self.origin
            high = int(numbers.max()) * self.width + self.origin
            if low < limits.min or high > limits.max:
                raise past_the_index()
        return numbers * self.width + self.origin

    def labels(self, numbers: Integers, side: Literal["left", "right"]) -> Integers:
        """Return the edge of each bucket on one side."""
        return self.edges(numbers + (side == "right"))


def past_the_index() -> IntegerOverflowError:
    """Make the error for an edge that the type of the index cannot hold."""
    return IntegerOverflowError(
        "the edge of a time bucket lies past what the index type can hold",
        hint="filter the outermost instants away, or use a coarser unit",
    )

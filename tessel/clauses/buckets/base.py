"""What a bucketer is, and the plainest one: buckets of a fixed length, whatever clocks do."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tessel.errors import IntegerOverflowError
from tessel.lazy import dataclass

Closed = Literal["left", "right"]
Integers = NDArray[np.int64]


_LEAST_ROWS_A_BUCKET = 4


class Bucketer(Protocol):
    """Assigns values of a time index to numbered buckets.

    Values and edges are int64 in the unit of the index, since 1970; bucket numbers are int64.
    Bucket ``k`` holds the values from edge ``k`` to edge ``k + 1``; which of the two edges is its
    own says ``closed``. Numbers never go back where values do not. A bucket may be of no length (a
    date that a zone skips): then no value is in it.
    """

    @property
    def closed(self) -> Closed:
        """Which edge of a bucket belongs to it."""

    def numbers(self, values: Integers) -> Integers:
        """Return the bucket of each value, which may come in any order."""

    def edges(self, numbers: Integers) -> Integers:
        """Return the left edge of each bucket.

        Raises IntegerOverflowError where an edge lies past what 64 bits hold in the unit of the
        index.
        """

    def labels(self, numbers: Integers, side: Literal["left", "right"]) -> Integers:
        """Return what each bucket is called: its left or its right edge.

        A rule that names its buckets by their last day (``ME``, ``QE``, ``YE``) gives the first
        instant of that day for ``right``. Raises as ``edges``.
        """


def bucket_runs(bucketer: Bucketer, values: Integers) -> tuple[Integers, Integers]:
    """Return the buckets of values that never go back, and where each begins.

    Buckets with many rows are found by binary search for their edges; the rows in between are not
    looked at.

    Returns
    -------
    numbers
        The buckets that have values, ascending; int64, shape ``(buckets,)``.
    starts
        Position of the first value of each, same shape.
    """
    if len(values) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, last = bucketer.numbers(values[[0, -1]]).tolist()
    if (last - first) * _LEAST_ROWS_A_BUCKET > len(values):
        numbers = bucketer.numbers(values)
        starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
        return numbers[starts], starts
    numbers = np.arange(first, last + 1)
    side: Closed = "left" if bucketer.closed == "left" else "right"
    inner = np.searchsorted(values, bucketer.edges(numbers[1:]), side=side)
    starts = np.concatenate([[0], inner]).astype(np.int64)
    held = np.diff(starts, append=len(values)) > 0
    return numbers[held], starts[held]


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

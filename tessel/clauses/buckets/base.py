"""What a bucketer is: the contract that the rules of time buckets are held to."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Closed = Literal["left", "right"]
Integers = NDArray[np.int64]

DAY_NS = 24 * 3600 * 1_000_000_000

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

        Raises
        ------
        IntegerOverflowError
            Where an edge lies past what 64 bits hold in the unit of the index.
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

"""Byte ranges put together into the parts that are read: over a whole plan, purely by arithmetic.

Only the I/O queue and ``explain`` enter here. Objects are laid out one after the other on one line,
further apart than any gap, so that one sort and one running maximum treat all of them at once; a
loop runs only over parts that reach the size limit.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.segment.sources.base import ByteRanges, CoalesceLimits, Integers

__all__ = ["CoalesceLimits", "Parts", "coalesce"]

_LINE_BYTES = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What is read, and which wanted range lies in which parts.

    Attributes
    ----------
    ranges
        The parts: none empty, no two overlapping, ascending within each object.
    first, stop
        Per wanted range: it lies in parts ``[first, stop)``, in their order. None for a range
        without bytes.
    """

    ranges: ByteRanges
    first: Integers
    stop: Integers

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def bytes(self) -> int:
        """Bytes that are read, gaps included."""
        return int((self.ranges.end - self.ranges.start).sum())

    def pairs(self) -> tuple[Integers, Integers]:
        """Return all pairs of a wanted range and a part that it lies in, as two arrays."""
        counts = self.stop - self.first
        wanted = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        return wanted, np.arange(len(wanted)) - np.repeat(before - self.first, counts)


def coalesce(ranges: ByteRanges, limits: CoalesceLimits) -> Parts:
    """Put ranges together.

    Parameters
    ----------
    ranges
        In any order; they may touch, overlap, repeat, or have no bytes.
    limits
        With splitting, no part is longer than ``part_bytes``; a range is cut only where it is
        longer than that, or overlaps others. Without, no range is cut, and a part is longer only
        for a range that is, or for ranges that overlap.

    Raises
    ------
    InvalidInputError
        For a range that ends before it starts, starts before its object, or lies beyond 2**62
        bytes.
    """
    _check(ranges)
    nothing = np.zeros(len(ranges), np.int64)
    has_bytes = np.flatnonzero(ranges.end > ranges.start)
    if not len(has_bytes):
        none = ByteRanges(ranges.names, nothing[:0], nothing[:0], nothing[:0])
        return Parts(none, nothing, nothing.copy())
    places = _places(ranges, limits.gap_bytes)
    shift = places[ranges.object[has_bytes]]
    start, end = ranges.start[has_bytes] + shift, ranges.end[has_bytes] + shift
    # By start, then end: of ranges that start together the order must not decide where parts end.
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    part_start, part_end = _cut(start, reach, limits)
    first, stop = nothing, nothing.copy()
    first[has_bytes[order]] = np.searchsorted(part_end, start, "right")
    stop[has_bytes[order]] = np.searchsorted(part_start, end, "left")
    objects = np.searchsorted(places, part_start, "right") - 1
    return Parts(
        ByteRanges(ranges.names, objects, part_start - places[objects], part_end - places[objects]),
        first,
        stop,
    )


def _check(ranges: ByteRanges) -> None:
    wrong = (ranges.start < 0) | (ranges.end < ranges.start) | (ranges.end > _LINE_BYTES)
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInputError(
            f"bytes {ranges.start[at]} to {ranges.end[at]} of "
            f"{ranges.names[int(ranges.object[at])]!r} are no range",
            object=ranges.names[int(ranges.object[at])],
        )


def _places(ranges: ByteRanges, gap_bytes: int) -> Integers:
    """Return where each object begins on the line, ascending."""
    lengths = np.zeros(len(ranges.names), np.int64)
    np.maximum.at(lengths, ranges.object, ranges.end)
    total = sum(lengths.tolist()) + (gap_bytes + 1) * len(lengths)
    if total > _LINE_BYTES:
        raise InvalidInputError(
            f"ranges over {total} bytes of objects cannot be put together at once",
            hint="plan fewer segments at a time",
        )
    lengths += gap_bytes + 1
    return np.cumsum(lengths) - lengths


def _cut(start: Integers, reach: Integers, limits: CoalesceLimits) -> tuple[Integers, Integers]:
    """Return the parts of sorted ranges; ``reach`` is the running maximum of their ends."""
    begins = np.concatenate(([0], np.flatnonzero(start[1:] > reach[:-1] + limits.gap_bytes) + 1))
    ends = np.concatenate((begins[1:], [len(start)]))
    part_start, part_end = start[begins], reach[ends - 1]
    long = np.flatnonzero(part_end - part_start > limits.part_bytes)
    if not len(long):
        return part_start, part_end
    keep = np.ones(len(begins), bool)
    keep[long] = False
    cuts = [
        _cut_run(start[a:b].tolist(), reach[a:b].tolist(), limits)
        for a, b in zip(begins[long].tolist(), ends[long].tolist(), strict=True)
    ]
    cut_start = np.array([place for starts, _ in cuts for place in starts], np.int64)
    cut_end = np.array([place for _, stops in cuts for place in stops], np.int64)
    part_start = np.concatenate((part_start[keep], cut_start))
    part_end = np.concatenate((part_end[keep], cut_end))
    order = np.argsort(part_start)
    return part_start[order], part_end[order]


def _cut_run(
    start: list[int], reach: list[int], limits: CoalesceLimits
) -> tuple[list[int], list[int]]:
    """Cut ranges that lie near each other into parts, each as full of whole ranges as may be."""
    starts: list[int] = []
    stops: list[int] = []
    at, place = 0, start[0]
    while at < len(start):
        limit = place + limits.part_bytes
        # All ranges before ``after`` end inside the part; the one at ``at`` may not.
        after = bisect_right(reach, limit, at)
        starts.append(place)
        if after > at or not limits.splits:
            after = max(after, at + 1)
            while after < len(start) and start[after] < reach[after - 1] and not limits.splits:
                # Nothing is cut: what overlaps the end belongs to this part too.
                after += 1
            stops.append(reach[after - 1])
            at = after
            place = max(start[at], reach[at - 1]) if at < len(start) else place
        else:
            stops.append(limit)
            place = limit
    return starts, stops

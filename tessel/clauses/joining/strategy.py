"""Which way a join is run: what the planner decides from what it knows before anything is read."""

from __future__ import annotations

from collections.abc import Sequence

from tessel.clauses.combining import CombinedInput, PlanLimits
from tessel.options import current

_BROADCAST_SHARE = 8
"""A right of at most this share of the bytes alive is held whole: stored bytes are fewer than those
in memory, and its keys are held once more in the table that finds them."""
_HELD_LEFT_SHARE = 64
"""A left that is held makes a sort of all that comes out: to exchange no rows pays for few."""
_MOST_BUCKETS = 1024
_PART_BYTES = 16 * 1024 * 1024
"""Aimed-for bytes of output that are made at a time, or fewer:"""
_PART_SHARE = 16
"""so many parts at least fit the bytes alive."""


def is_held_whole(right: CombinedInput, limits: PlanLimits) -> bool:
    """Return whether the right is read once and held, for units of the left to ask."""
    return right.bytes <= limits.live_bytes // _BROADCAST_SHARE


def is_left_held(left: CombinedInput, limits: PlanLimits) -> bool:
    """Return whether the left is held, for units of a large right to ask."""
    return limits.is_here and left.bytes <= limits.live_bytes // _HELD_LEFT_SHARE


def bucket_count(inputs: Sequence[CombinedInput], limits: PlanLimits) -> int:
    """Return how many hash buckets both sides are split into."""
    by_bytes = -(-sum(each.bytes for each in inputs) // limits.bucket_bytes)
    return min(_MOST_BUCKETS, max(limits.workers, by_bytes))


def part_bytes() -> int:
    """Return how many bytes of output are made at a time, where more can be made of a unit."""
    return min(_PART_BYTES, current().live_bytes // _PART_SHARE)

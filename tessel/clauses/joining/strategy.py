"""Which way a join is run: what the planner decides from what it knows before anything is read."""

from __future__ import annotations

from collections.abc import Sequence

from tessel.clauses.combining import CombinedInput, PlanLimits

__all__ = ["bucket_count", "is_held_whole"]

_BROADCAST_SHARE = 8
"""A right of at most this share of the bytes alive is held whole: stored bytes are fewer than those
in memory, and its keys are held once more in the table that finds them."""
_MOST_BUCKETS = 1024


def is_held_whole(right: CombinedInput, limits: PlanLimits) -> bool:
    """Return whether the right is read once and held, for units of the left to ask."""
    return right.bytes <= limits.live_bytes // _BROADCAST_SHARE


def bucket_count(inputs: Sequence[CombinedInput], limits: PlanLimits) -> int:
    """Return how many hash buckets both sides are split into."""
    by_bytes = -(-sum(each.bytes for each in inputs) // limits.bucket_bytes)
    return min(_MOST_BUCKETS, max(limits.workers, by_bytes))

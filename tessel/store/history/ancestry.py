"""Going back along the line of versions that led to one, in few steps.

Each entry knows its parent and one version further back, its *jump*, chosen so that any version is
reached in a number of steps that grows with the logarithm of the distance (Myers 1983, "An
applicative random-access stack"): at depth d, the jump removes the smallest term of d as a sum of
numbers 2ᵏ - 1. Nothing else is stored, and no entry is ever changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tessel.store.history.log import LogEntry

__all__ = ["ancestor", "jump_from", "line"]


def jump_from(parent: LogEntry, entry: Callable[[int], LogEntry], oldest: int) -> int:
    """Return the jump of a version made on ``parent``; 0 where it would be before ``oldest``."""
    if _jump_depth(parent.depth + 1) == parent.depth:
        return parent.number
    return entry(parent.jump).jump if parent.jump >= max(1, oldest) else 0


def _jump_depth(depth: int) -> int:
    rest, term = depth, 0
    while rest:
        term = (1 << (rest + 1).bit_length() - 1) - 1
        rest -= term
    return depth - term


def ancestor(start: LogEntry, number: int, entry: Callable[[int], LogEntry]) -> int:
    """Return the newest version not after ``number`` on the line that ends in ``start``.

    Only entries after ``number`` are read.
    """
    while start.number > number:
        if start.jump > number:
            start = entry(start.jump)
        elif start.parent > number:
            start = entry(start.parent)
        else:
            return start.parent
    return start.number


def line(
    start: LogEntry | None, entry: Callable[[int], LogEntry], oldest: int
) -> Iterator[LogEntry]:
    """Yield the versions on the line that ends in ``start``, the newest first, as far as kept."""
    while start is not None:
        yield start
        start = entry(start.parent) if start.parent >= max(1, oldest) else None

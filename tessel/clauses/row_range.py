"""row_range: keep rows by position, like ``iloc``."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.positional import Positional, check_count
from tessel.clauses.registry import register
from tessel.errors import PlanError
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class RowRange(Positional):
    """Keep the rows ``[start, stop)``; negative positions count from the end, None is the end.

    Ends that are exchanged, both counted from the same end, are refused; equal ones keep nothing.
    """

    name: ClassVar[str] = "row_range"
    start: int | None = None
    stop: int | None = None

    def __post_init__(self) -> None:
        for position in (self.start, self.stop):
            if position is not None:
                check_count(self.name, position)
        start, stop = self.start, self.stop
        if start is not None and stop is not None and start > stop and (start < 0) == (stop < 0):
            raise PlanError.exchanged(self.name, start, stop)

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows kept out of ``total``."""
        start, stop, _ = slice(self.start, self.stop).indices(total)
        return start, max(start, stop)

    def demand(self) -> int | None:
        """Return ``stop`` where neither end counts from the end of the table."""
        start = 0 if self.start is None else self.start
        if start < 0 or self.stop is None or self.stop < 0:
            return None
        return max(start, self.stop) if self.stop > start else 0

    def undecided(self) -> int:
        """Return how far from the end an end of the range is counted."""
        return max(0, -(self.start or 0), -(self.stop or 0))

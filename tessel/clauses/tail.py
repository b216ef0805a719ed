"""tail: keep the last rows."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.positional import Positional, check_count
from tessel.clauses.registry import register
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Tail(Positional):
    """Keep the last ``n`` rows; a negative ``n`` drops that many from the start."""

    name: ClassVar[str] = "tail"
    n: int = 5

    def __post_init__(self) -> None:
        check_count(self.name, self.n)

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows kept out of ``total``."""
        return (max(0, total - self.n) if self.n >= 0 else min(-self.n, total)), total

    def demand(self) -> int | None:
        """Return None: only the total tells which rows are the last."""
        return None

    def undecided(self) -> int:
        """Return ``n`` where it is not negative: the rows that are the last so far."""
        return max(0, self.n)

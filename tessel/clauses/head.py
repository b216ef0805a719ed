"""head: keep the first rows."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.positional import Positional, check_count
from tessel.clauses.registry import register
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Head(Positional):
    """Keep the first ``n`` rows; a negative ``n`` drops that many from the end."""

    name: ClassVar[str] = "head"
    n: int = 5

    def __post_init__(self) -> None:
        check_count(self.name, self.n)

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows kept out of ``total``."""
        return 0, min(self.n, total) if self.n >= 0 else max(0, total + self.n)

    def demand(self) -> int | None:
        """Return ``n`` where it is not negative."""
        return self.n if self.n >= 0 else None

    def undecided(self) -> int:
        """Return how many rows a negative ``n`` drops from the end."""
        return max(0, -self.n)

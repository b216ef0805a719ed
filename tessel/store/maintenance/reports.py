"""What maintenance tells: plain records, which the command line prints and programs read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final

from tessel.lazy import dataclass

KINDS: Final[Mapping[str, str]] = {
    "store": "identity",
    "log": "log entries",
    "refs": "branches and tags",
    "leaf": "symbol index",
    "man": "manifests",
    "seg": "segments",
    "lease": "leases",
    "temporary": "temporary files",
}
"""Kinds of objects, as names begin, and what people call them."""


@dataclass(slots=True)
class Tally:
    """How many objects, and their bytes."""

    objects: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more."""
        self.objects += 1
        self.bytes += size


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a collection found, and took.

    Attributes
    ----------
    dry_run
        Whether nothing was to be deleted.
    live
        What kept versions refer to, by kind (see :data:`KINDS`).
    dead
        What nothing refers to, and that is old enough: deleted, unless ``dry_run``.
    young
        What nothing refers to yet, and may belong to a writer that is at work.
    leased
        What is kept for leases alone.
    deleted
        What was deleted.
    """

    dry_run: bool
    live: dict[str, Tally] = field(default_factory=dict)
    dead: dict[str, Tally] = field(default_factory=dict)
    young: dict[str, Tally] = field(default_factory=dict)
    leased: dict[str, Tally] = field(default_factory=dict)
    deleted: Tally = field(default_factory=Tally)

    @property
    def dead_bytes(self) -> int:
        """Bytes that are dead."""
        return sum(tally.bytes for tally in self.dead.values())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row for each kind of object that there is."""
        states = {"live": self.live, "dead": self.dead, "young": self.young, "leased": self.leased}
        for kind, name in KINDS.items():
            if any(kind in tallies for tallies in states.values()):
                row: dict[str, Any] = {"kind": name}
                for state, tallies in states.items():
                    tally = tallies.get(kind, Tally())
                    row |= {state: tally.objects, f"{state}_bytes": tally.bytes}
                yield row

    def __str__(self) -> str:
        dead = sum(tally.objects for tally in self.dead.values())
        if self.dry_run:
            return f"{dead} objects, {self.dead_bytes:,} bytes would be deleted"
        return f"{self.deleted.objects} objects, {self.deleted.bytes:,} bytes deleted"


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """Which versions were given up, or would be.

    Attributes
    ----------
    dry_run
        Whether nothing was to be changed.
    oldest_before, oldest
        The oldest version that is kept, besides those with a tag and the newest ones of branches:
        until now, and from now on.
    expired
        How many versions are given up.
    kept
        Versions before ``oldest`` that are kept for a tag or as the newest of a branch.
    oldest_time
        When ``oldest`` landed; None where there is no version.
    version
        The version that the expiry became; None where nothing was to be done, or changed.
    """

    dry_run: bool
    oldest_before: int
    oldest: int
    expired: int
    kept: tuple[int, ...]
    oldest_time: datetime | None
    version: int | None

    def __str__(self) -> str:
        if not self.expired:
            return f"nothing to expire: versions from {self.oldest} on are kept"
        verb = "would expire" if self.dry_run else "expired"
        beside = f"; of those before it {len(self.kept)} are kept too" if self.kept else ""
        return f"{self.expired} versions {verb}, version {self.oldest} is the oldest{beside}"

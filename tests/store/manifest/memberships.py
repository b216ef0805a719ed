"""A membership over two mappings held in memory: a snapshot that no store has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class SymbolMembership:
    """A symbol of a :class:`MembershipTable`: name, estimate, and manifests in row order."""

    name: str
    bytes_per_segment: int
    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManifestMembers:
    """A manifest of a :class:`MembershipTable`: its set, and segments by symbol id."""

    set: str | None
    segments: Mapping[int, int]


@dataclass(frozen=True)
class MembershipTable:
    """A ``Membership`` over two mappings held in memory."""

    by_symbol: Mapping[int, SymbolMembership] = field(default_factory=dict)
    by_manifest: Mapping[str, ManifestMembers] = field(default_factory=dict)

    @cached_property
    def _by_set(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for manifest, members in self.by_manifest.items():
            if members.set is not None:
                found.setdefault(members.set, []).append(manifest)
        return found

    def symbols(self) -> Iterable[int]:
        """Return the ids of all symbols."""
        return self.by_symbol.keys()

    def name_of(self, symbol: int) -> str:
        """Return the name of a symbol."""
        return self.by_symbol[symbol].name

    def bytes_per_segment(self, symbol: int) -> int:
        """Return the estimate for a symbol."""
        return self.by_symbol[symbol].bytes_per_segment

    def manifests_of(self, symbol: int) -> Sequence[str]:
        """Return the manifests of a symbol in row order; none for unknown ids."""
        found = self.by_symbol.get(symbol)
        return () if found is None else found.manifests

    def members_of(self, manifest: str) -> Mapping[int, int]:
        """Return how many segments of each symbol a manifest holds."""
        return self.by_manifest[manifest].segments

    def segments_of(self, symbol: int, manifest: str) -> int:
        """Return how many segments of a symbol a manifest holds."""
        return self.by_manifest[manifest].segments[symbol]

    def set_of(self, manifest: str) -> str | None:
        """Return the set that a manifest was packed for; None for a tail."""
        return self.by_manifest[manifest].set

    def manifests_in(self, name: str) -> Collection[str]:
        """Return the manifests of a set."""
        return self._by_set.get(name, ())

    def leaf_of(self, symbol: int) -> str:
        """Return the one leaf that there is."""
        return ""

    def all_live(self, manifest: str) -> bool:
        """Return True: the table says what manifests hold."""
        return True

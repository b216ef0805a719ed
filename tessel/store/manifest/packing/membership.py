"""What the packing is told: the manifests of a snapshot both ways, and what a flush changes.

The packing asks for what its closure touches and nothing else, so a :class:`Membership` may read
its answers lazily from wherever a snapshot keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass

_SEGMENT_BYTES = 24
_STATISTICS_BYTES = 15


def estimate_bytes_per_segment(statistics_columns: int) -> int:
    """Return about how many bytes of a manifest one segment takes, compressed.

    An estimate by the schema alone, so that it is the same wherever the segment lies; what it
    misses is found before upload (``oversized``).
    """
    return _SEGMENT_BYTES + _STATISTICS_BYTES * statistics_columns


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive segments of a symbol in its new state.

    Attributes
    ----------
    segments
        How many; at least one.
    manifest
        The manifest in which exactly these rows lie, unaltered and in this order; None for rows
        that are new or altered, a changed row range included.
    """

    segments: int
    manifest: str | None = None

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise InvalidInputError(f"a run has at least one segment, not {self.segments}")


@dataclass(frozen=True, slots=True)
class SymbolContent:
    """A symbol that a flush creates or changes, in its new state.

    Attributes
    ----------
    id
        Its id; one that the snapshot does not know is a symbol created in this transaction.
    name
        Its name, which rules look at.
    bytes_per_segment
        Estimated bytes of a manifest that one of its segments takes; at least one.
    runs
        All its segments, in row order. Empty for a symbol without rows.
    """

    id: int
    name: str
    bytes_per_segment: int
    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        if self.bytes_per_segment < 1:
            raise InvalidInputError(f"segments of symbol {self.name!r} take at least one byte each")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a flush does to the symbols of the snapshot before it.

    Attributes
    ----------
    contents
        The symbols created or changed. Those that only gain a tail are not among them.
    deleted
        Ids of the symbols that are gone; a name that was deleted and made anew has its old id
        here and its new id among ``contents``.
    """

    contents: tuple[SymbolContent, ...] = ()
    deleted: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        ids = {content.id for content in self.contents}
        if len(ids) != len(self.contents) or not ids.isdisjoint(self.deleted):
            raise InvalidInputError("a flush changes or deletes each symbol once")


class Membership(Protocol):
    """The symbols and manifests of the snapshot before the flush, looked up both ways."""

    def symbols(self) -> Iterable[int]:
        """Return the ids of all symbols; only ``repack`` asks."""

    def name_of(self, symbol: int) -> str:
        """Return the name of a symbol."""

    def bytes_per_segment(self, symbol: int) -> int:
        """Return the estimate for a symbol, as in ``SymbolContent``."""

    def manifests_of(self, symbol: int) -> Sequence[str]:
        """Return the manifests of a symbol in row order, tails included; none for unknown ids."""

    def members_of(self, manifest: str) -> Mapping[int, int]:
        """Return the symbols that share a manifest for this snapshot, and about how many segments.

        Segments are estimated where rows were cut; :meth:`segments_of` counts them.
        """

    def segments_of(self, symbol: int, manifest: str) -> int:
        """Return how many segments of a symbol a manifest holds for this snapshot: exactly.

        Asked only for symbols and manifests that are packed.
        """

    def set_of(self, manifest: str) -> str | None:
        """Return the set that a manifest was packed for; None for a tail."""

    def manifests_in(self, name: str) -> Collection[str]:
        """Return the manifests of a set.

        Asked only for sets that are written to and have a cardinality or count their symbols.
        """

    def leaf_of(self, symbol: int) -> str:
        """Return what tells the leaf of the symbol index that a symbol lies in from others."""

    def all_live(self, manifest: str) -> bool:
        """Return whether a manifest holds nothing but what its members have there."""


def content_of(
    symbol: int, membership: Membership, manifests: Sequence[str] | None = None
) -> SymbolContent:
    """Return a symbol as it is: what it has in some of its manifests, or in all."""
    held = membership.manifests_of(symbol) if manifests is None else manifests
    runs = tuple(Run(membership.segments_of(symbol, each), each) for each in held)
    name, rate = membership.name_of(symbol), membership.bytes_per_segment(symbol)
    return SymbolContent(symbol, name, rate, runs)


def tails_of(symbol: int, membership: Membership) -> Sequence[str]:
    """Return the tails behind all packed manifests of a symbol."""
    manifests = membership.manifests_of(symbol)
    first = len(manifests)
    while first and membership.set_of(manifests[first - 1]) is None:
        first -= 1
    return manifests[first:]

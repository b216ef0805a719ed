"""What the packing is told, and what it comes to.

It is told the manifests of a snapshot both ways, and what a flush changes. It asks for what its
closure touches and nothing else, so a :class:`Membership` may read its answers lazily from wherever
a snapshot keeps them. It comes to manifests to write, manifests that stay, and what it took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from tessel.display.documents import Table
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.validation import DEFAULT_SET

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


# --- what it comes to -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placement:
    """Where consecutive segments of a symbol lie after the flush.

    Attributes
    ----------
    start, stop
        Segments ``[start, stop)`` of the symbol, counted in its new state.
    manifest
        The existing manifest that goes on holding them; None for one that is to be written.
    written
        The place of that one in ``PackingPlan.written``; None for an existing manifest.
    """

    start: int
    stop: int
    manifest: str | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Segments ``[start, stop)`` of a symbol, counted in its new state."""

    symbol: int
    start: int
    stop: int

    @property
    def segments(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A manifest to write.

    Attributes
    ----------
    set
        The set to store with it; None for a tail.
    of_leaf
        Whether its symbols are those of one leaf of the symbol index, and in no lookup.
    """

    set: str | None
    parts: tuple[Part, ...]
    segments: int
    bytes: int
    of_leaf: bool = False

    @classmethod
    def of(
        cls, target: str | None, rated: Iterable[tuple[Part, int]], *, of_leaf: bool = False
    ) -> PlannedManifest:
        """Plan a manifest of parts, each with the estimated bytes of one of its segments."""
        parts: list[Part] = []
        segments = size = 0
        for part, rate in sorted(rated, key=lambda each: each[0].symbol):
            parts.append(part)
            segments += part.stop - part.start
            size += (part.stop - part.start) * rate
        return cls(target, tuple(parts), segments, size, of_leaf)


@dataclass(frozen=True, slots=True)
class PackingMetrics:
    """What a packing touched; everything outside the closure is neither read nor counted.

    Attributes
    ----------
    closure_symbols, closure_manifests, closure_segments
        What had to be looked at: live symbols, packed manifests before, segments packed.
    reused
        Manifests of the closure that came out as they were.
    flipped
        Symbols packed in another set than before, by id.
    overflowed
        How often a symbol found no place in a set and went on to the next.
    split
        Symbols too big for one manifest.
    pulled
        Sets that were full, so that manifests nobody had changed came into the closure.
    """

    closure_symbols: int
    closure_manifests: int
    closure_segments: int
    written: int
    written_segments: int
    reused: int
    flipped: tuple[int, ...]
    overflowed: int
    split: int
    pulled: tuple[str, ...]


@dataclass(frozen=True)
class PackingPlan:
    """The manifests of a closure after a flush.

    Attributes
    ----------
    written
        Manifests to write, in an order that depends on content only.
    kept
        Manifests of the closure that stay as they are, sorted. Those outside it stay anyway.
    released
        Packed manifests that the new snapshot no longer refers to, sorted.
    placements
        Where all segments of each live symbol of the closure are, in row order.
    """

    written: tuple[PlannedManifest, ...]
    kept: tuple[str, ...]
    released: tuple[str, ...]
    placements: Mapping[int, tuple[Placement, ...]]
    metrics: PackingMetrics

    def describe(self) -> Table:
        """Return what would be written, as a table for people."""
        metrics = self.metrics
        return Table(
            "packing",
            ("set", "symbols", "segments", "estimated bytes"),
            tuple((each.set, len(each.parts), each.segments, each.bytes) for each in self.written),
            notes=(
                f"closure: symbols {metrics.closure_symbols}, manifests "
                f"{metrics.closure_manifests}; reused {metrics.reused}, "
                f"released {len(self.released)}",
                f"changed sets {len(metrics.flipped)}, overflowed {metrics.overflowed}, "
                f"split {metrics.split}",
            ),
        )


def oversized(
    configuration: ManifestConfiguration,
    written: Sequence[PlannedManifest],
    lengths: Sequence[int],
    inflation: Mapping[int, Fraction] | None = None,
) -> dict[int, Fraction]:
    """Check encoded manifests against the byte limits of their sets, before they are uploaded.

    Parameters
    ----------
    written, lengths
        The manifests, and how many bytes each of them came to.

    Returns
    -------
    dict[int, Fraction]
        Empty where all keep their limits. Else how many times bigger than estimated symbols are:
        plan again with this as ``inflation``, and check again. Each round raises the estimates of
        what was too big, so the rounds end.
    """
    before = {} if inflation is None else dict(inflation)
    raised: dict[int, Fraction] = {}
    for planned, length in zip(written, lengths, strict=True):
        target = configuration.set_named(planned.set or DEFAULT_SET)
        if length <= target.byte_limit:
            continue
        factor = Fraction(length, planned.bytes)
        for part in planned.parts:
            scaled = before.get(part.symbol, Fraction(1)) * factor
            raised[part.symbol] = max(scaled, raised.get(part.symbol, scaled))
    return before | raised if raised else {}


def check_bytes(configuration: ManifestConfiguration, target: ManifestSet, size: int) -> None:
    """Check that a piece that cannot be cut keeps the byte limit of a set."""
    if size <= target.byte_limit:
        return
    place = [each.name for each in configuration.sets].index(target.name)
    path = f"sets[{place}].max_bytes"
    raise InvalidInputError(
        f"a row slice takes about {size} bytes of a manifest; {path} allows {target.byte_limit}",
        hint="raise max_bytes, or write the symbol with more columns in each segment",
        option=path,
    )

"""What a packing comes to: manifests to write, manifests that stay, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tessel.display.documents import Table
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.manifest.packing.bins import Placement
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.validation import DEFAULT_SET


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
    parts
        What it holds, by symbol id.
    segments, bytes
        How many segments, and their estimated bytes.
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
        held = sorted(rated, key=lambda each: each[0].symbol)
        segments = sum(part.segments for part, _ in held)
        size = sum(part.segments * rate for part, rate in held)
        return cls(target, tuple(part for part, _ in held), segments, size, of_leaf)


@dataclass(frozen=True, slots=True)
class PackingMetrics:
    """What a packing touched; everything outside the closure is neither read nor counted.

    Attributes
    ----------
    closure_symbols, closure_manifests, closure_segments
        What had to be looked at: live symbols, packed manifests before, segments packed.
    written, written_segments
        Manifests that are written, and their segments.
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
    metrics
        What it took.
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
    configuration
        The one they were planned with.
    written, lengths
        The manifests, and how many bytes each of them came to.
    inflation
        What they were planned with.

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

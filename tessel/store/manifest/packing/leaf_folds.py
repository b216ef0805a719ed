"""Which rows of a leaf of the symbol index are folded into manifests of their own, and when.

In the usual configuration a symbol that is made or written goes to a tail, and leaves the manifest
that it was in. What is left behind there is dead: the symbol's entry decides. So a leaf gathers
tails, and its manifests die by and by. Before either becomes much, the leaf is folded: what lies in
tails and in dying manifests is packed with other rows of the leaf, and nothing outside the leaf.

Parts of a symbol that are folded are joined with those before them while these are no larger, so
that a segment is written again a number of times that grows with the logarithm of the appends.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from tessel.lazy import dataclass
from tessel.store.manifest.packing.configuration import ManifestConfiguration

__all__ = ["LEAF_TAILS", "LeafExtent", "LeafFold", "LeafSymbol", "fold_start", "plan_leaf_fold"]

LEAF_TAILS = 32
"""A leaf with so many tails is folded."""

_LEAST_LIVE = 16
"""A manifest of a leaf with fewer live segments counts as a tail."""


class LeafExtent(NamedTuple):
    """What a leaf says of an extent: manifest, segments, set and what it was packed with."""

    manifest: str
    segments: int
    set: str | None
    held: int | None


@dataclass(frozen=True, slots=True)
class LeafSymbol:
    """A symbol of a leaf: its name, about how many bytes a segment takes, and its extents."""

    name: str
    bytes_per_segment: int
    extents: Sequence[tuple[str, int, str | None, int | None]]


@dataclass(frozen=True, slots=True)
class LeafFold:
    """What is folded of a leaf.

    Attributes
    ----------
    symbols
        Names of the symbols that are packed by leaf, in order.
    stays
        The manifests whose extents may stay.
    """

    symbols: tuple[str, ...]
    stays: frozenset[str]


def plan_leaf_fold(
    configuration: ManifestConfiguration, symbols: Sequence[LeafSymbol]
) -> LeafFold | None:
    """Return what is to be folded of a leaf as a commit would leave it; None for nothing.

    It is due when the leaf has ``LEAF_TAILS`` tails, or when half of a manifest is dead. To the
    leaf, rows that another leaf has in its manifest (which a split leaves so) are dead too.
    """
    found = _Manifests(symbols)
    if not found.due:
        return None
    totals = [sum(segments for _, segments, *_ in symbol.extents) for symbol in symbols]
    packed = [
        symbol
        for symbol, segments in zip(symbols, totals, strict=True)
        if configuration.leaf_set(symbol.name, segments, segments * symbol.bytes_per_segment)
    ]
    # Tails of large symbols, which are not the leaf's to fold, do not make it due.
    found = _Manifests(packed)
    if not found.due:
        return None
    return LeafFold(tuple(symbol.name for symbol in packed), found.staying(packed))


class _Manifests:
    """What a leaf has in manifests: how many tails, and which manifests die."""

    def __init__(self, symbols: Iterable[LeafSymbol]) -> None:
        live: dict[str, int] = {}
        held: dict[str, int] = {}
        tails: set[str] = set()
        self._held = held
        for symbol in symbols:
            for manifest, segments, set_name, packed in symbol.extents:
                if packed is not None:
                    held[manifest] = packed
                    live[manifest] = live.get(manifest, 0) + segments
                elif set_name is None:
                    tails.add(manifest)
        fragments = {manifest for manifest in held if live[manifest] < _LEAST_LIVE}
        dying = {manifest for manifest, packed in held.items() if 2 * live[manifest] <= packed}
        self.due = bool(dying) or len(tails) + len(fragments) >= LEAF_TAILS
        self._stays = frozenset(held.keys() - dying - fragments)

    def staying(self, symbols: Sequence[LeafSymbol]) -> frozenset[str]:
        """Return the manifests that stay: half of one must live on once all is folded."""
        before, stays = frozenset[str](), self._stays
        while stays != before:
            live = dict.fromkeys(stays, 0)
            for symbol in symbols:
                for manifest, segments, *_ in symbol.extents[: fold_start(symbol.extents, stays)]:
                    live[manifest] += segments
            before, stays = stays, frozenset(m for m in stays if 2 * live[m] > self._held[m])
        return stays


def fold_start(
    extents: Sequence[tuple[str, int, str | None, int | None]], stays: Container[str]
) -> int:
    """Return from which extent of a symbol on all are folded; their number where none is.

    Parameters
    ----------
    extents
        Of the symbol, in row order.
    stays
        The manifests whose extents may stay.
    """
    start = next((at for at, each in enumerate(extents) if each[0] not in stays), None)
    if start is None:
        return len(extents)
    folded = sum(each[1] for each in extents[start:])
    while start and extents[start - 1][1] <= folded:
        start -= 1
        folded += extents[start][1]
    return start

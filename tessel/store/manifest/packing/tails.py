"""Tails: the small manifests that appends write, which belong to no set, and when they are folded.

An append writes one tail for all symbols of its commit and nothing else. Tails of a symbol that
grow many are joined to one, in classes of powers, or packed into the set once they are as much as
the manifest that would be rewritten. Either way a segment is written again a number of times that
grows with the logarithm of the appends, and a symbol has a logarithmic number of manifests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tessel.lazy import dataclass
from tessel.store.manifest.packing.bins import Item, fill, fill_in_order, split
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.pack import SliceEnds
from tessel.store.manifest.packing.plan import (
    Membership,
    Part,
    PlannedManifest,
    SymbolContent,
    check_bytes,
    tails_of,
)
from tessel.store.manifest.packing.validation import DEFAULT_SET

FAN_IN = 16
"""So many tails of one size class are folded together."""


def should_fold(tails: Sequence[int]) -> int:
    """Return how many of a symbol's last tails are due to be folded; 0 for none.

    Parameters
    ----------
    tails
        Segments of the symbol in each of its tails, in row order.
    """
    if len(tails) < FAN_IN:
        return 0
    limit = _size_class(tails[-1])
    count = 0
    for segments in reversed(tails):
        if _size_class(segments) > limit:
            break
        count += 1
    return count if count >= FAN_IN else 0


def _size_class(segments: int) -> int:
    return (segments.bit_length() - 1) // (FAN_IN.bit_length() - 1)


@dataclass(frozen=True, slots=True)
class TailJoin:
    """The tails of one symbol that become one: consecutive manifests, in row order."""

    symbol: int
    manifests: tuple[str, ...]
    segments: int


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """What becomes of the tails of some symbols.

    Attributes
    ----------
    joined
        Tails to write, each with the joins it holds (by symbol id).
    packed
        Ids of the symbols whose tails go into their sets: changed symbols for ``pack``, with all
        their manifests as runs.
    """

    joined: tuple[tuple[TailJoin, ...], ...]
    packed: tuple[int, ...]


def plan_folds(
    configuration: ManifestConfiguration, symbols: Iterable[int], membership: Membership
) -> FoldPlan:
    """Plan the folding of tails of the symbols that a commit appends to."""
    due: list[tuple[int, str | None, Sequence[str], int]] = []
    together: Counter[str | None] = Counter()
    for symbol in sorted(set(symbols)):
        manifests, tails = membership.manifests_of(symbol), tails_of(symbol, membership)
        held = [membership.members_of(each)[symbol] for each in tails]
        count = should_fold(held)
        if count:
            base = manifests[-len(tails) - 1] if len(manifests) > len(tails) else None
            together[base] += sum(held)
            due.append((symbol, base, tails, count))
    limits = configuration.set_named(DEFAULT_SET)
    packed: list[int] = []
    joins: list[TailJoin] = []
    for symbol, base, tails, count in due:
        run = tuple(tails[-count:])
        segments = sum(membership.members_of(each)[symbol] for each in run)
        cost = _rewritten(limits, symbol, base, tails, membership)
        rate = membership.bytes_per_segment(symbol)
        is_packed = together[base] >= cost or not limits.fits(segments, segments * rate)
        if is_packed and not _of_leaf(configuration, symbol, membership):
            packed.append(symbol)
        else:
            joins.append(TailJoin(symbol, run, segments))

    def weight(join: TailJoin) -> tuple[int, int]:
        return join.segments, join.segments * membership.bytes_per_segment(join.symbol)

    gathered = fill_in_order(_as_sizes(limits), joins, weight)
    return FoldPlan(tuple(map(tuple, gathered)), tuple(packed))


def plan_tails(
    configuration: ManifestConfiguration,
    added: Iterable[SymbolContent],
    *,
    slice_ends: SliceEnds | None = None,
    inflation: Mapping[int, Fraction] | None = None,
) -> tuple[PlannedManifest, ...]:
    """Plan the tails of one commit: as few as the limits of ``default`` allow, mostly one.

    Parameters
    ----------
    added
        The symbols, with the new rows alone as their runs.
    slice_ends
        As for ``pack``, counted in the new segments of the symbol.
    inflation
        As for ``pack``, from ``oversized``.
    """
    factors = {} if inflation is None else inflation
    limits = _as_sizes(configuration.set_named(DEFAULT_SET))
    items: list[Item] = []
    big: list[PlannedManifest] = []
    for content in sorted(added, key=lambda each: each.id):
        item = Item(content, inflation=factors.get(content.id, Fraction(1)))
        if limits.fits(item.segments, item.size):
            items += [item] if item.segments else []
            continue
        ends = None if slice_ends is None else slice_ends(item.id)
        for piece in split(limits, item, None, ends, afresh=True):
            part = Part(item.id, piece.start, piece.stop)
            check_bytes(configuration, limits, part.segments * item.rate)
            big.append(PlannedManifest.of(None, [(part, item.rate)]))
    shared = [
        PlannedManifest.of(None, [(Part(i.id, 0, i.segments), i.rate) for i in each])
        for each in fill(limits, items)
    ]
    return (*shared, *big)


def _as_sizes(default: ManifestSet) -> ManifestSet:
    """Return the limits for tails: a default set that counts symbols limits bytes only."""
    return ManifestSet(DEFAULT_SET, default.max_segments, max_bytes=default.max_bytes)


def _of_leaf(configuration: ManifestConfiguration, symbol: int, membership: Membership) -> bool:
    """Return whether the leaf of a symbol folds its tails into the set (``plan_leaf_folds``)."""
    segments = sum(membership.members_of(m)[symbol] for m in membership.manifests_of(symbol))
    size = segments * membership.bytes_per_segment(symbol)
    return configuration.leaf_set(membership.name_of(symbol), segments, size) is not None


def _rewritten(
    limits: ManifestSet, symbol: int, base: str | None, tails: Sequence[str], membership: Membership
) -> int:
    """Return how many segments in sets are rewritten when the tails of a symbol are packed."""
    if base is None:
        return 0
    members = membership.members_of(base)
    own = sum(members.values())
    if membership.set_of(base) == DEFAULT_SET and len(members) == 1:
        # The last manifest of a big symbol stays where the tails do not fit beside it.
        more = own + sum(membership.members_of(each)[symbol] for each in tails)
        if not limits.fits(more, more * membership.bytes_per_segment(symbol)):
            return 0
    return own

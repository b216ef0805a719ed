"""The packing: which manifests a flush writes, and which segments go into each.

Pure: nothing is read or written, and the result depends on content alone, not on the order in which
anything is given. The sets are packed in order of overflow; what does not fit into one is tried in
the next, down to ``default``, which takes everything. Where a set has too many manifests only
because of some that nobody changed, those come into the closure and all is packed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from tessel.lazy import dataclass
from tessel.store.manifest.packing.bins import (
    Bin,
    Item,
    fill,
    fullest,
    make_items,
    split,
)
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.plan import (
    Changes,
    Membership,
    PackingMetrics,
    PackingPlan,
    Part,
    Placement,
    PlannedManifest,
    check_bytes,
    content_of,
)


class Closure:
    """The symbols whose manifests are written anew when some symbols change.

    All that share a manifest with one of them, and so on. Tails join nobody: they are left where
    they are unless their own symbol changes. A symbol that the snapshot does not know is its own
    closure.

    Parameters
    ----------
    alone
        Whether symbols leave their manifests by themselves: then nobody is drawn in, and the
        manifests stay with those who share them.

    Attributes
    ----------
    symbols
        Ids, those that started it included (deleted ones too).
    """

    def __init__(
        self, membership: Membership, symbols: Iterable[int], *, alone: bool = False
    ) -> None:
        self._membership = membership
        self._alone = alone
        self.symbols: set[int] = set()
        self.manifests: set[str] = set()
        self._follow(list(symbols))

    def pull(self, manifests: Iterable[str]) -> None:
        """Take further manifests in, with all that share them."""
        for manifest in manifests:
            self.manifests.add(manifest)
            self._follow(list(self._membership.members_of(manifest)))

    def _follow(self, waiting: list[int]) -> None:
        membership = self._membership
        while waiting:
            symbol = waiting.pop()
            if symbol in self.symbols:
                continue
            self.symbols.add(symbol)
            if self._alone:
                continue
            for manifest in membership.manifests_of(symbol):
                if manifest in self.manifests or membership.set_of(manifest) is None:
                    continue
                self.manifests.add(manifest)
                waiting.extend(membership.members_of(manifest))


SliceEnds = Callable[[int], Sequence[int]]
"""Gives the ends of the row slices of a symbol, ascending, in segments of its new state.

Asked only for symbols too big for one manifest, which are cut at these places.
"""


def pack(
    configuration: ManifestConfiguration,
    changes: Changes,
    membership: Membership,
    inflation: Mapping[int, Fraction] | None = None,
    *,
    slice_ends: SliceEnds | None = None,
) -> PackingPlan:
    """Plan the manifests of a flush.

    Raises InvalidInputError when a single row slice is over the byte limit of ``default``.

    Parameters
    ----------
    membership
        The snapshot before it. Asked about the closure only.
    inflation
        How many times bigger than estimated the segments of symbols are, from ``oversized``.
    slice_ends
        Where big symbols may be cut; None where each segment is a row slice of its own.
    """
    return _Packing(configuration, changes, membership, slice_ends, inflation, False).plan()


def repack(
    configuration: ManifestConfiguration,
    membership: Membership,
    inflation: Mapping[int, Fraction] | None = None,
    *,
    slice_ends: SliceEnds | None = None,
) -> PackingPlan:
    """Plan all manifests of a snapshot anew, tails included; parameters as for :func:`pack`.

    Manifests that come out as they are stay, so to repack twice writes nothing the second time.
    """
    contents = tuple(content_of(symbol, membership) for symbol in sorted(membership.symbols()))
    changes = Changes(contents)
    return _Packing(configuration, changes, membership, slice_ends, inflation, True).plan()


@dataclass
class _Outcome:
    """What one pass over the sets comes to.

    Attributes
    ----------
    placed
        Each manifest: its set, the parts of items in it, and the existing one that holds them.
    """

    placed: list[tuple[ManifestSet, list[tuple[Item, Part]], str | None]]
    overflowed: int = 0
    split: int = 0


@dataclass(eq=False)
class _Packing:
    """One packing on its way to a plan."""

    _configuration: ManifestConfiguration
    _changes: Changes
    _membership: Membership
    _slice_ends: SliceEnds | None
    _inflation: Mapping[int, Fraction] | None
    _afresh: bool

    def __post_init__(self) -> None:
        changed = [content.id for content in self._changes.contents]
        self._closure = Closure(
            self._membership,
            [*changed, *self._changes.deleted],
            alone=self._configuration.usual and not self._afresh,
        )
        self._pulled: list[str] = []

    def plan(self) -> PackingPlan:
        """Pack until no full set has to be pulled in; each set is at most twice."""
        while True:
            items = make_items(
                self._closure.symbols, self._changes, self._membership, self._inflation or {}
            )
            outcome = self._over_sets(items)
            if outcome is not None:
                return self._planned(items, outcome)

    def _planned(self, items: list[Item], outcome: _Outcome) -> PackingPlan:
        """Tell what is written from what came out as it was."""
        written: list[PlannedManifest] = []
        kept: set[str] = set()
        flipped: set[int] = set()
        placements: dict[int, list[Placement]] = {each.id: [] for each in self._changes.contents}
        for target, parts, manifest in outcome.placed:
            number = None
            if manifest is None:
                number = len(written)
                rated = ((part, item.rate) for item, part in parts)
                of_leaf = self._configuration.by_leaf(target)
                written.append(PlannedManifest.of(target.name, rated, of_leaf=of_leaf))
            else:
                kept.add(manifest)
            for item, part in parts:
                placed = Placement(part.start, part.stop, manifest, number)
                placements.setdefault(item.id, []).append(placed)
                if item.set_before not in (None, target.name):
                    flipped.add(item.id)
        for item in items:
            placements[item.id] += item.tails
        closure = self._closure.manifests
        metrics = PackingMetrics(
            closure_symbols=len(items),
            closure_manifests=len(closure),
            closure_segments=sum(item.segments for item in items),
            written=len(written),
            written_segments=sum(each.segments for each in written),
            reused=len(kept),
            flipped=tuple(sorted(flipped)),
            overflowed=outcome.overflowed,
            split=outcome.split,
            pulled=tuple(sorted(set(self._pulled))),
        )
        return PackingPlan(
            tuple(written),
            tuple(sorted(kept)),
            tuple(sorted(closure - kept)),
            {symbol: tuple(each) for symbol, each in placements.items()},
            metrics,
        )

    def _over_sets(self, items: list[Item]) -> _Outcome | None:
        """Pack set by set; None where manifests were pulled into the closure on the way."""
        names, segments = [i.content.name for i in items], [i.all_segments for i in items]
        waiting: dict[str, list[Item]] = {}
        for item, name in zip(items, self._configuration.targets(names, segments), strict=True):
            waiting.setdefault(name, []).append(item)
        outcome = _Outcome([])
        for target in self._configuration.packing_order:
            fitting: list[Item] = []
            overflow: list[Item] = []
            for item in waiting.get(target.name, ()):
                fits = target.fits(item.segments, item.size)
                (fitting if fits else overflow).append(item)
            bins = self._bins(target, fitting)
            if bins and self._pull(target, bins):
                return None
            if target.cardinality is not None:
                bins, left = fullest(target, bins, target.cardinality - len(self._outside(target)))
                overflow += left
            for each in bins:
                parts = [(item, Part(item.id, 0, item.segments)) for item in each]
                outcome.placed.append((target, parts, self._as_it_was(target, each)))
            if target.overflow_to is None:
                outcome.split += len(overflow)
                for item in overflow:
                    for piece in self._split(target, item):
                        part = Part(item.id, piece.start, piece.stop)
                        outcome.placed.append((target, [(item, part)], piece.manifest))
            else:
                waiting.setdefault(target.overflow_to, []).extend(overflow)
                outcome.overflowed += len(overflow)
        return outcome

    def _bins(self, target: ManifestSet, items: Sequence[Item]) -> list[Bin]:
        """Put items into bins: where no set is shared, those of one leaf, or each by itself."""
        if not self._configuration.usual:
            return fill(target, items)
        if not self._configuration.by_leaf(target):
            return [[item] for item in items]
        leaves: dict[str, list[Item]] = {}
        for item in items:
            leaves.setdefault(self._membership.leaf_of(item.id), []).append(item)
        return [each for _, held in sorted(leaves.items()) for each in fill(target, held)]

    def _outside(self, target: ManifestSet) -> list[str]:
        inside = self._closure.manifests
        return [m for m in self._membership.manifests_in(target.name) if m not in inside]

    def _pull(self, target: ManifestSet, bins: Sequence[Bin]) -> bool:
        """Take manifests of a set into the closure where the new ones find no place beside them."""
        pulled: list[str] = []
        if target.cardinality is not None:
            outside = self._outside(target)
            if len(outside) + len(bins) > target.cardinality:
                pulled = outside
        count = target.symbols_per_manifest
        # Only the last manifest of the set may hold fewer, not the last of each flush.
        if not pulled and count is not None and any(len(each) < count for each in bins):
            members = self._membership.members_of
            pulled = [m for m in self._outside(target) if len(members(m)) < count]
        if pulled:
            self._closure.pull(pulled)
            self._pulled.append(target.name)
        return bool(pulled)

    def _split(self, target: ManifestSet, item: Item) -> list[Placement]:
        ends = None if self._slice_ends is None else self._slice_ends(item.id)
        pieces = split(target, item, self._membership, ends, afresh=self._afresh)
        for piece in pieces:
            if piece.manifest is None:
                check_bytes(self._configuration, target, (piece.stop - piece.start) * item.rate)
        return pieces

    def _as_it_was(self, target: ManifestSet, each: Bin) -> str | None:
        """Return the manifest of the set that holds exactly these items, if there is one."""
        home = each[0].home
        if home is None or self._membership.set_of(home) != target.name:
            return None
        whole = len(self._membership.members_of(home)) == len(each)
        same = whole and all(item.home == home for item in each)
        # Other limits may have held when it was written: they are those of all that it holds.
        asks = self._configuration.usual or self._afresh
        if not same or (asks and not self._membership.all_live(home)):
            return None
        return home

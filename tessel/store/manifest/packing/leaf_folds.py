"""Which rows of a leaf of the symbol index are folded into manifests of their own, and when.

In the usual configuration a symbol that is made or written goes to a tail, and leaves the manifest
that it was in. What is left behind there is dead: the symbol's entry decides. So a leaf gathers
tails, and its manifests die by and by. Before either becomes much, the leaf is folded: what lies in
tails and in dying manifests is packed with other rows of the leaf, and nothing outside the leaf.

Parts of a symbol that are folded are joined with those before them while these are no larger, so
that a segment is written again a number of times that grows with the logarithm of the appends.

The commit is tried on the symbol index first, so that leaves are folded as they will be written,
split or joined with a neighbour. What is folded are the rows that the commit leaves, up to those
that it writes; it takes effect as other repackings do, after the changes of the commit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import field

from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.history.changes import Repacking
from tessel.store.history.snapshot import Overlay
from tessel.store.history.symbol import Packing, SymbolPacking
from tessel.store.manifest.packing.bins import fill_in_order
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.plan import PlannedManifest, estimate_bytes_per_segment
from tessel.store.manifest.packing.rows import EncodedManifest, PackedRows, Staged, encode

LEAF_TAILS = 32
"""A leaf with so many tails is folded."""

_LEAST_LIVE = 16
"""A manifest of a leaf with fewer live segments counts as a tail."""


@dataclass(frozen=True, slots=True)
class LeafFold:
    """What is folded of a leaf.

    Attributes
    ----------
    symbols
        Names of the symbols that are packed by leaf, in order.
    """

    symbols: tuple[str, ...]
    stays: frozenset[str]


def plan_leaf_fold(
    configuration: ManifestConfiguration, symbols: Sequence[SymbolPacking]
) -> LeafFold | None:
    """Return what is to be folded of a leaf as a commit would leave it; None for nothing.

    It is due when the leaf has ``LEAF_TAILS`` tails, or when half of a manifest is dead. To the
    leaf, rows that another leaf has in its manifest (which a split leaves so) are dead too.
    """
    if not _fates(symbols)[0]:
        return None
    most = current().segment_columns
    packed = []
    for symbol in symbols:
        segments = sum(extent.segments for extent in symbol.extents)
        rate = estimate_bytes_per_segment(min(symbol.columns, most))
        if configuration.leaf_set(symbol.name, segments, segments * rate):
            packed.append(symbol)
    # Tails of large symbols, which are not the leaf's to fold, do not make it due.
    due, held, stays = _fates(packed)
    if not due:
        return None
    before = frozenset[str]()
    while stays != before:  # half of a manifest that stays must live on once all is folded
        live = dict.fromkeys(stays, 0)
        for symbol in packed:
            for manifest, segments, *_ in symbol.extents[: fold_start(symbol.extents, stays)]:
                live[manifest] += segments
        before, stays = stays, frozenset(m for m in stays if 2 * live[m] > held[m])
    return LeafFold(tuple(symbol.name for symbol in packed), stays)


def _fates(symbols: Iterable[SymbolPacking]) -> tuple[bool, dict[str, int], frozenset[str]]:
    """Return whether a leaf is due, what its manifests were packed with, and which may stay."""
    live: dict[str, int] = {}
    held: dict[str, int] = {}
    tails: set[str] = set()
    for symbol in symbols:
        for manifest, segments, set_name, packed in symbol.extents:
            if packed is not None:
                held[manifest] = packed
                live[manifest] = live.get(manifest, 0) + segments
            elif set_name is None:
                tails.add(manifest)
    fragments = {manifest for manifest in held if live[manifest] < _LEAST_LIVE}
    dying = {manifest for manifest, packed in held.items() if 2 * live[manifest] <= packed}
    due = bool(dying) or len(tails) + len(fragments) >= LEAF_TAILS
    return due, held, frozenset(held.keys() - dying - fragments)


def fold_start(extents: Sequence[Packing], stays: Container[str]) -> int:
    """Return from which extent of a symbol on all are folded; their number where none is.

    Parameters
    ----------
    extents
        Of the symbol, in row order.
    """
    start = next((at for at, each in enumerate(extents) if each.manifest not in stays), None)
    if start is None:
        return len(extents)
    folded = sum(each.segments for each in extents[start:])
    while start and extents[start - 1].segments <= folded:
        start -= 1
        folded += extents[start].segments
    return start


_LEAVES_PER_COMMIT = 4
"""So many leaves get manifests of their own in one commit, which puts a bounded number of objects;
the tails of others are joined to one tail, and folded when there are as many again."""

_ROUNDS = 8
"""So often leaves are folded again because they come out cut in other places: checksums have more
or fewer digits each time, and a cut may be a matter of one byte. What then still lies in two leaves
is folded when one of them is touched again."""


_Join = tuple[str, PackedRows]
"""The name of a symbol, and its extents that are folded."""


@dataclass(frozen=True)
class LeafFolds:
    """Folds leaves of the symbol index; used once, by one thread.

    Parameters
    ----------
    staged
        Rows that are in no manifest yet; opens manifests, those that the commit writes too.
    """

    configuration: ManifestConfiguration
    after: Overlay
    fresh: Container[str]
    staged: Staged
    _made: dict[PlannedManifest, EncodedManifest] = field(default_factory=dict)

    def fold(self) -> tuple[list[tuple[str, bytes]], list[Repacking]]:
        """Return the manifests to write, and what moves into them."""
        leaves = [list(leaf.packings()) for leaf in self.after.changed_leaves()]
        known = {packing.name: packing for leaf in leaves for packing in leaf}
        for _ in range(_ROUNDS):
            encoded = self._folded(leaves)
            if not encoded:
                return [], []
            # What was folded takes more or fewer bytes in its leaf, so that may be cut elsewhere.
            repackings = [
                Repacking(name, rows.state.id, rows.extents, (made.entries[rows.state.id, 0],))
                for group, made in encoded
                for name, rows in group
            ]
            tried = self.after.copy()
            for each in repackings:
                each.apply(tried, 0)
            found = [list(leaf.packings()) for leaf in tried.changed_leaves()]
            if [_names(leaf) for leaf in found] == [_names(leaf) for leaf in leaves]:
                break
            leaves = [[known.get(each.name, each) for each in leaf] for leaf in found]
        return [(made.name, made.data) for _, made in encoded], repackings

    def _folded(
        self, leaves: Iterable[Sequence[SymbolPacking]]
    ) -> list[tuple[list[_Join], EncodedManifest]]:
        """Encode what is due in leaves."""
        plans = [plan_leaf_fold(self.configuration, leaf) for leaf in leaves]
        due = [j for j in [list(self._joins(plan)) for plan in plans if plan is not None] if j]
        target, default = self.configuration.sets[0], self.configuration.sets[-1]
        encoded: list[tuple[list[_Join], EncodedManifest]] = []
        for joins in due[:_LEAVES_PER_COMMIT]:
            encoded += [
                (group, self._encoded(group, target))
                for group in fill_in_order(target, joins, _weight)
            ]
        rest = [join for joins in due[_LEAVES_PER_COMMIT:] for join in joins]
        return encoded + [
            (group, self._encoded(group, None)) for group in fill_in_order(default, rest, _weight)
        ]

    def _joins(self, plan: LeafFold) -> Iterator[_Join]:
        for name in plan.symbols:
            state = self.after[name]
            extents = list(state.manifests)
            while extents and extents[-1].reference.object in self.fresh:
                extents.pop()
            start = fold_start([each.packing for each in extents], plan.stays)
            if start < len(extents):
                yield name, PackedRows(state, extents[start:], self.staged)

    def _encoded(self, group: Sequence[_Join], target: ManifestSet | None) -> EncodedManifest:
        name, rated = None if target is None else target.name, [rows.rated for _, rows in group]
        planned = PlannedManifest.of(name, rated, of_leaf=target is not None)
        # Encoded once: all that was cut in the same places stays as long as it is.
        if planned not in self._made:
            sources = {rows.state.id: rows for _, rows in group}
            self._made[planned] = encode(planned, sources)
        return self._made[planned]


def _names(leaf: Iterable[SymbolPacking]) -> list[str]:
    return [each.name for each in leaf]


def _weight(join: _Join) -> tuple[int, int]:
    part, rate = join[1].rated
    return part.segments, part.segments * rate

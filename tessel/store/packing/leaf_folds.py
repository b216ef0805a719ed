"""Folding the leaves that a commit touches: their tails and dying manifests become new ones.

The commit is tried on the symbol index first, so that leaves are folded as they will be written,
split or joined with a neighbour. What is folded are the rows that the commit leaves, up to those
that it writes; it takes effect as other repackings do, after the changes of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import field

from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.history.changes import Repacking, apply
from tessel.store.history.snapshot import Overlay
from tessel.store.history.symbol import ManifestEntry, SymbolPacking, SymbolState
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.leaf_folds import (
    LeafExtent,
    LeafFold,
    LeafSymbol,
    fold_start,
    plan_leaf_fold,
)
from tessel.store.manifest.packing.membership import estimate_bytes_per_segment
from tessel.store.manifest.packing.plan import Part, PlannedManifest
from tessel.store.packing.carrying_out import objects_of
from tessel.store.packing.encoding import EncodedManifest, encode
from tessel.store.packing.membership import bytes_per_segment
from tessel.store.packing.rows import PackedRows, Staged

__all__ = ["LeafFolds"]

_LEAVES_PER_COMMIT = 4
"""So many leaves get manifests of their own in one commit, which puts a bounded number of objects;
the tails of others are joined to one tail, and folded when there are as many again."""

_ROUNDS = 8
"""So often leaves are folded again because they come out cut in other places: checksums have more
or fewer digits each time, and a cut may be a matter of one byte. What then still lies in two leaves
is folded when one of them is touched again."""


@dataclass(frozen=True, slots=True)
class _Join:
    """The extents of a symbol that are folded, and what the commit makes of it."""

    name: str
    state: SymbolState
    rows: PackedRows


@dataclass(frozen=True)
class LeafFolds:
    """Folds leaves of the symbol index; used once, by one thread.

    Parameters
    ----------
    configuration
        Sets and rules.
    after
        The symbols as the commit leaves them.
    fresh
        Names of the manifests that it writes.
    staged
        Rows that are in no manifest yet.
    manifest
        Opens a manifest, one that the commit writes too.
    """

    configuration: ManifestConfiguration
    after: Overlay
    fresh: Container[str]
    staged: Staged
    manifest: Callable[[ManifestReference], Manifest]
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
                Repacking(
                    join.name, join.state.id, join.rows.extents, (made.entry_of(join.state.id),)
                )
                for group, made in encoded
                for join in group
            ]
            tried = self.after.copy()
            for each in repackings:
                apply(each, tried, 0)
            found = [list(leaf.packings()) for leaf in tried.changed_leaves()]
            if [_names(leaf) for leaf in found] == [_names(leaf) for leaf in leaves]:
                break
            leaves = [[known.get(each.name, each) for each in leaf] for leaf in found]
        return objects_of([made for _, made in encoded]), repackings

    def _folded(
        self, leaves: Iterable[Sequence[SymbolPacking]]
    ) -> list[tuple[list[_Join], EncodedManifest]]:
        """Encode what is due in leaves."""
        due = [joins for leaf in leaves if (joins := self._due(leaf))]
        target, default = self.configuration.sets[0], self.configuration.sets[-1]
        encoded: list[tuple[list[_Join], EncodedManifest]] = []
        for joins in due[:_LEAVES_PER_COMMIT]:
            encoded += [(group, self._encoded(group, target)) for group in _groups(joins, target)]
        rest = [join for joins in due[_LEAVES_PER_COMMIT:] for join in joins]
        return encoded + [(group, self._encoded(group, None)) for group in _groups(rest, default)]

    def _due(self, leaf: Sequence[SymbolPacking]) -> list[_Join]:
        most = current().segment_columns
        symbols = [
            LeafSymbol(each.name, estimate_bytes_per_segment(min(each.columns, most)), each.extents)
            for each in leaf
        ]
        plan = plan_leaf_fold(self.configuration, symbols)
        if plan is None:
            return []
        return list(self._joins(plan))

    def _joins(self, plan: LeafFold) -> Iterator[_Join]:
        for name in plan.symbols:
            state = self.after[name]
            extents = list(state.manifests)
            while extents and extents[-1].reference.object in self.fresh:
                extents.pop()
            start = fold_start([_leaf_extent(each) for each in extents], plan.stays)
            if start < len(extents):
                rows = PackedRows(state, extents[start:], self.staged, self.manifest)
                yield _Join(name, state, rows)

    def _encoded(self, group: Sequence[_Join], target: ManifestSet | None) -> EncodedManifest:
        parts = tuple(Part(join.state.id, 0, join.rows.segments) for join in group)
        planned = PlannedManifest(
            None if target is None else target.name,
            parts,
            sum(part.segments for part in parts),
            sum(_size(join) for join in group),
            of_leaf=target is not None,
        )
        # Encoded once: all that was cut in the same places stays as long as it is.
        if planned not in self._made:
            sources = {join.state.id: join.rows for join in group}
            self._made[planned] = encode(planned, sources, self.staged, self.manifest)
        return self._made[planned]


def _names(leaf: Iterable[SymbolPacking]) -> list[str]:
    return [each.name for each in leaf]


def _size(join: _Join) -> int:
    return join.rows.segments * bytes_per_segment(join.state)


def _groups(joins: Iterable[_Join], target: ManifestSet) -> list[list[_Join]]:
    """Return joins as they fit into manifests of a set, in order; each fits by itself."""
    groups: list[list[_Join]] = []
    segments = size = 0
    for join in joins:
        segments, size = segments + join.rows.segments, size + _size(join)
        if not groups or not target.fits(segments, size):
            groups.append([])
            segments, size = join.rows.segments, _size(join)
        groups[-1].append(join)
    return groups


def _leaf_extent(extent: ManifestEntry) -> LeafExtent:
    return LeafExtent(extent.reference.object, extent.segments, extent.set, extent.held)

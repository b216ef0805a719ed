"""Folding the leaves that a commit touches: their tails and dying manifests become new ones.

The commit is tried on the symbol index first, so that leaves are folded as they will be written,
split or joined with a neighbour. What is folded are rows of the version before, of symbols that
the commit does not write whole; it takes effect as other repackings do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tessel.options import current
from tessel.store.history import (
    ManifestEntry,
    Overlay,
    Repacking,
    Snapshot,
    SymbolPacking,
    SymbolState,
    repacked,
)
from tessel.store.manifest import Manifest, ManifestReference
from tessel.store.manifest.packing import (
    LeafExtent,
    LeafFold,
    LeafSymbol,
    ManifestConfiguration,
    ManifestSet,
    Part,
    PlannedManifest,
    estimate_bytes_per_segment,
    fold_start,
    plan_leaf_fold,
)
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
    """The last extents of a symbol: its names after the commit and before, and its state before."""

    name: str
    before: str
    state: SymbolState
    rows: PackedRows


@dataclass(frozen=True)
class LeafFolds:
    """Folds leaves of the symbol index; used once, by one thread.

    Parameters
    ----------
    configuration
        Sets and rules.
    snapshot
        The version before the commit.
    staged
        Rows that are in no manifest yet.
    manifest
        Opens a manifest.
    before
        Name and state before the commit of the symbols that it alters, by id.
    written
        Ids of the symbols that it writes whole.
    """

    configuration: ManifestConfiguration
    snapshot: Snapshot
    staged: Staged
    manifest: Callable[[ManifestReference], Manifest]
    before: Mapping[int, tuple[str, SymbolState]]
    written: Collection[int]
    _made: dict[PlannedManifest, EncodedManifest] = field(default_factory=dict)

    def fold(
        self, after: Mapping[str, SymbolState | None]
    ) -> tuple[list[tuple[str, bytes]], list[Repacking]]:
        """Return the manifests to write, and what moves into them.

        Parameters
        ----------
        after
            The symbols that the commit changes, as it leaves them; None for those that are gone.
        """
        tried = self._tried(after)
        leaves = [list(leaf.packings()) for leaf in tried.changed_leaves()]
        known = {packing.name: packing for leaf in leaves for packing in leaf}
        for _ in range(_ROUNDS):
            encoded = self._folded(leaves)
            if not encoded:
                break
            # What was folded takes more or fewer bytes in its leaf, so that may be cut elsewhere.
            folded = self._tried(after)
            for group, made in encoded:
                for join in group:
                    _move(folded, join, made)
            found = [list(leaf.packings()) for leaf in folded.changed_leaves()]
            if [_names(leaf) for leaf in found] == [_names(leaf) for leaf in leaves]:
                break
            leaves = [[known.get(each.name, each) for each in leaf] for leaf in found]
        repackings = [
            Repacking(
                join.before, join.state.id, join.rows.extents, (made.entry_of(join.state.id),)
            )
            for group, made in encoded
            for join in group
        ]
        return [(made.name, made.data) for _, made in encoded], repackings

    def _tried(self, after: Mapping[str, SymbolState | None]) -> Overlay:
        tried = self.snapshot.overlay()
        for name, state in after.items():
            if state is not None:
                tried[name] = state
            elif name in tried:
                del tried[name]
        return tried

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
        ids = {each.name: each.id for each in leaf}
        return list(self._joins(ids, plan))

    def _joins(self, ids: Mapping[str, int], plan: LeafFold) -> Iterator[_Join]:
        for name in plan.symbols:
            if ids[name] in self.written:
                continue
            known = self.before.get(ids[name])
            before, state = (name, self.snapshot[name]) if known is None else known
            start = fold_start([_leaf_extent(each) for each in state.manifests], plan.stays)
            if start < len(state.manifests):
                rows = PackedRows(state, state.manifests[start:], self.staged, self.manifest)
                yield _Join(name, before, state, rows)

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


def _move(symbols: Overlay, join: _Join, made: EncodedManifest) -> None:
    """Put the extent of what was folded into a symbol, unless the commit cuts what it replaces."""
    state = symbols[join.name]
    extents = repacked(state.manifests, join.rows.extents, (made.entry_of(join.state.id),))
    if extents is not None:
        symbols[join.name] = dataclasses.replace(state, manifests=extents)


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

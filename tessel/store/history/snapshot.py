"""The state of every symbol after one commit, read as far as it is asked for.

Beside the symbol index a version has a second tree, the lookup from manifests to symbols. Symbols
name their manifests themselves. The lookup is the other way round, for the manifests that a closure
is packed of: which manifests a set has, and which symbols share one. Left out are tails, which
belong to no set, and manifests of one leaf, whose symbols lie side by side in the symbol index:
nobody asks who shares one, so neither an append nor a write of a small symbol touches it.

There is one small document for each symbol in each manifest, under a key that begins with the set,
then the manifest. So what a commit writes of the lookup grows with what it changes and the
logarithm of all there is, and so does what a closure reads. A commit makes it of the states before
and after, whenever it is drafted: it cannot tell other than the symbols do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import takewhile

from tessel.lazy import dataclass
from tessel.store.history.documents import Fields, damaged
from tessel.store.history.leaves import Document, Leaf, Node
from tessel.store.history.symbol import SymbolState
from tessel.store.history.tree import Nodes, differences, find, updated, walk

_PREFIX = "man/"


@dataclass(frozen=True, slots=True)
class Member:
    """A symbol in a packed manifest.

    Attributes
    ----------
    segments
        How many of its segments are there, as its extents say.
    """

    set: str
    manifest: str
    symbol: int
    name: str
    segments: int


class Lookup:
    """The packed manifests of one version; immutable, reads only what is asked for."""

    def __init__(self, nodes: Nodes, root: Node) -> None:
        self._nodes = nodes
        self.root = root

    def members(self, set_name: str, manifest: str) -> Iterator[Member]:
        """Yield the symbols in a manifest of a set, by id."""
        prefix = _manifest_key(set_name, manifest)
        for member in self._from(prefix):
            if (member.set, member.manifest) != (set_name, manifest):
                return
            yield member

    def manifests(self, set_name: str) -> Iterator[str]:
        """Yield the manifests of a set, sorted; the symbols in them are passed over."""
        firsts = self.first_members(f"{set_name}/")
        return (each.manifest for each in takewhile(lambda each: each.set == set_name, firsts))

    def first_members(self, key: str = "") -> Iterator[Member]:
        """Yield the first symbol of each manifest from a key on, by set and manifest."""
        while (found := next(self._from(key), None)) is not None:
            yield found
            # A key behind those of all symbols in this manifest.
            key = _manifest_key(found.set, found.manifest) + "~"

    def __iter__(self) -> Iterator[Member]:
        """Yield everything, by set, manifest and symbol id."""
        return self._from("")

    def _from(self, start: str) -> Iterator[Member]:
        for leaf in walk(self._nodes, self.root, start):
            for key, document in leaf.documents.items():
                if key >= start:
                    yield _member(key, document, leaf.name)


def _documents(states: Mapping[str, SymbolState | None]) -> dict[str, Document]:
    segments: dict[tuple[str, str, int, str], int] = {}
    for name, state in states.items():
        for extent in () if state is None else state.manifests:
            if state is not None and extent.set is not None and extent.held is None:
                key = (extent.set, extent.reference.object, state.id, name)
                segments[key] = segments.get(key, 0) + extent.segments
    return {
        f"{_manifest_key(set_name, manifest)}{symbol:016x}": {"name": name, "segments": count}
        for (set_name, manifest, symbol, name), count in segments.items()
    }


def _manifest_key(set_name: str, manifest: str) -> str:
    return f"{set_name}/{manifest.removeprefix(_PREFIX)}/"


def _member(key: str, document: Document, where: str) -> Member:
    try:
        set_name, manifest, symbol = key.split("/")
        number = int(symbol, 16)
    except ValueError:
        damaged(where, f"{key!r:.80} is no key of the lookup from manifests to symbols")
    fields = Fields(document, where)
    return Member(
        set_name, _PREFIX + manifest, number, fields.text("name"), fields.integer("segments")
    )


class Snapshot(Mapping[str, SymbolState]):
    """All symbols after one commit, by name, sorted; immutable.

    Asking for one symbol reads the nodes of the symbol index on the way to it; iterating reads all.

    Parameters
    ----------
    root, lookup
        The roots of the symbol index, and of the lookup from manifests to symbols.
    """

    def __init__(self, nodes: Nodes, root: Node | None = None, lookup: Node | None = None) -> None:
        self.nodes = nodes
        self.root: Node = Leaf() if root is None else root
        self.lookup = Lookup(nodes, Leaf() if lookup is None else lookup)

    def __getitem__(self, symbol: str) -> SymbolState:
        found = self.leaf_of(symbol).state(symbol)
        if found is None:
            raise KeyError(symbol)
        return found

    def __contains__(self, symbol: object) -> bool:
        if not isinstance(symbol, str):
            return False
        return symbol in self.leaf_of(symbol).documents

    def __iter__(self) -> Iterator[str]:
        for leaf in self.leaves():
            yield from leaf.documents

    def __len__(self) -> int:
        return self.root.symbols

    def leaf_of(self, symbol: str) -> Leaf:
        """Return the leaf that holds a name, or would."""
        return find(self.nodes, self.root, symbol)

    def leaves(self) -> Iterator[Leaf]:
        """Yield all leaves in the order of names."""
        return walk(self.nodes, self.root)

    def near(self, symbol: str) -> list[str]:
        """Return the names to propose in place of one that does not exist.

        All of them, or in a store of many symbols the neighbours in the order of names.
        """
        if len(self) <= _PROPOSED:
            return list(self)
        return list(self.leaf_of(symbol).documents)


_PROPOSED = 10_000


class Overlay(MutableMapping[str, SymbolState]):
    """A snapshot with changes on it that are not written; only what is asked for is read."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._changed: dict[str, SymbolState | None] = {}
        self._root: Node | None = None

    def copy(self) -> Overlay:
        """Return the same changes, to which others can be added."""
        found = Overlay(self._base)
        found._changed = dict(self._changed)
        return found

    def __getitem__(self, symbol: str) -> SymbolState:
        if symbol not in self._changed:
            return self._base[symbol]
        found = self._changed[symbol]
        if found is None:
            raise KeyError(symbol)
        return found

    def __setitem__(self, symbol: str, state: SymbolState) -> None:
        self._changed[symbol] = state
        self._root = None

    def __delitem__(self, symbol: str) -> None:
        if symbol not in self:
            raise KeyError(symbol)
        self._changed[symbol] = None
        self._root = None

    def __contains__(self, symbol: object) -> bool:
        if isinstance(symbol, str) and symbol in self._changed:
            return self._changed[symbol] is not None
        return symbol in self._base

    def __iter__(self) -> Iterator[str]:
        yield from (symbol for symbol in self._base if symbol not in self._changed)
        for symbol, state in self._changed.items():
            if state is not None:
                yield symbol

    def __len__(self) -> int:
        added = sum(state is not None for state in self._changed.values())
        return len(self._base) + added - sum(symbol in self._base for symbol in self._changed)

    def root(self) -> Node:
        """Return the root of the changed symbol index; its new nodes are not written yet."""
        if self._root is None:
            changes = {
                symbol: None if state is None else state.to_json()
                for symbol, state in self._changed.items()
            }
            root = self._base.root
            self._root = updated(self._base.nodes, root, changes) if changes else root
        return self._root

    def changed_leaves(self) -> Iterator[Leaf]:
        """Yield the leaves that writing the changed symbol index would write."""
        return walk(self._base.nodes, self.root(), enters=lambda child: False)

    def leaves(self) -> Iterator[Leaf]:
        """Yield all leaves of the changed symbol index in the order of names."""
        return walk(self._base.nodes, self.root())

    def lookup(self) -> Node:
        """Return the root of the changed lookup; its new nodes are not written yet."""
        base, root = self._base, self._base.lookup.root
        old = _documents({name: base.get(name) for name in self._changed})
        new = _documents(self._changed)
        changes: dict[str, Document | None] = {k: v for k, v in new.items() if old.get(k) != v}
        changes |= dict.fromkeys(old.keys() - new.keys())
        return updated(base.nodes, root, changes) if changes else root


def changed_symbols(
    before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, SymbolState | None, SymbolState | None]]:
    """Yield name, earlier and later state of each symbol that differs, sorted by name.

    None stands for a symbol that is not there. A symbol that was changed and changed back does not
    differ; nor does one whose rows are the same, only packed in other manifests.
    """
    for name, left, right in differences(after.nodes, before.root, after.root):
        was = None if left is None else left.state(name)
        becomes = None if right is None else right.state(name)
        if was is None or becomes is None or not _same(was, becomes):
            yield name, was, becomes


def _same(was: SymbolState, becomes: SymbolState) -> bool:
    # What one commit made of a symbol is one content, wherever it was packed since.
    if was.changed and (was.id, was.changed) == (becomes.id, becomes.changed):
        return True
    return _essence(was) == _essence(becomes)


def _essence(state: SymbolState) -> SymbolState:
    return dataclasses.replace(state, changed=0, next_column_id=0)

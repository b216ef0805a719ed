"""The state of every symbol after one commit, read as far as it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

from tessel.store.history.leaves import Leaf, Node
from tessel.store.history.lookup import Lookup, lookup_after
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.tree import Nodes, find, unwritten, updated, walk

__all__ = ["ManifestEntry", "Overlay", "Snapshot", "SymbolState"]


class Snapshot(Mapping[str, SymbolState]):
    """All symbols after one commit, by name, sorted; immutable.

    Asking for one symbol reads the nodes of the symbol index on the way to it; iterating reads all.

    Parameters
    ----------
    nodes
        Reads nodes.
    root, lookup
        The roots of the symbol index, and of the lookup from manifests to symbols.
    """

    def __init__(self, nodes: Nodes, root: Node | None = None, lookup: Node | None = None) -> None:
        self.nodes = nodes
        self.root: Node = Leaf() if root is None else root
        self.lookup = Lookup(nodes, Leaf() if lookup is None else lookup)

    @property
    def symbols(self) -> Mapping[str, SymbolState]:
        """The symbols by name."""
        return self

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

    def overlay(self) -> Overlay:
        """Return a mapping that can be changed; the snapshot stays as it is."""
        return Overlay(self)


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
        return unwritten(self.root())

    def leaves(self) -> Iterator[Leaf]:
        """Yield all leaves of the changed symbol index in the order of names."""
        return walk(self._base.nodes, self.root())

    def lookup(self) -> Node:
        """Return the root of the changed lookup; its new nodes are not written yet."""
        base = self._base
        before = {name: base.get(name) for name in self._changed}
        return lookup_after(base.nodes, base.lookup.root, before, self._changed)

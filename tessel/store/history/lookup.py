"""The lookup from manifests to symbols: a second tree beside the symbol index.

Symbols name their manifests themselves. This is the other way round, for the manifests that a
closure is packed of: which manifests a set has, and which symbols share one. Left out are tails,
which belong to no set, and manifests of one leaf, whose symbols lie side by side in the symbol
index: nobody asks who shares one, so neither an append nor a write of a small symbol touches it.

There is one small document for each symbol in each manifest, under a key that begins with the set,
then the manifest. So what a commit writes of the lookup grows with what it changes and the
logarithm of all there is, and so does what a closure reads. A commit makes it of the states before
and after, whenever it is drafted: it cannot tell other than the symbols do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tessel.lazy import dataclass
from tessel.store.history.documents import Fields, damaged
from tessel.store.history.leaves import Document, Leaf, Node
from tessel.store.history.symbol import SymbolState
from tessel.store.history.tree import Nodes, updated

__all__ = ["Lookup", "Member", "lookup_after"]

_PREFIX = "man/"


@dataclass(frozen=True, slots=True)
class Member:
    """A symbol in a packed manifest.

    Attributes
    ----------
    set, manifest
        The set, and the name of the manifest.
    symbol, name
        Id and name of the symbol.
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
        key = f"{set_name}/"
        while True:
            found = next(self._from(key), None)
            if found is None or found.set != set_name:
                return
            yield found.manifest
            key = _after(found)

    def first_members(self) -> Iterator[Member]:
        """Yield the first symbol of each manifest, by set and manifest."""
        key = ""
        while (found := next(self._from(key), None)) is not None:
            yield found
            key = _after(found)

    def __iter__(self) -> Iterator[Member]:
        """Yield everything, by set, manifest and symbol id."""
        return self._from("")

    def _from(self, start: str) -> Iterator[Member]:
        for leaf in _leaves_from(self._nodes, self.root, start):
            for key, document in leaf.documents.items():
                if key >= start:
                    yield _member(key, document, leaf.name)


def lookup_after(
    nodes: Nodes,
    root: Node,
    before: Mapping[str, SymbolState | None],
    after: Mapping[str, SymbolState | None],
) -> Node:
    """Return the root of a lookup after some symbols changed; new nodes are not written yet.

    Parameters
    ----------
    nodes, root
        The lookup before.
    before, after
        The symbols that changed, by name; None where there is none of that name.
    """
    old = _documents(before)
    new = _documents(after)
    changes: dict[str, Document | None] = {
        key: document for key, document in new.items() if old.get(key) != document
    }
    changes |= dict.fromkeys(old.keys() - new.keys())
    return updated(nodes, root, changes) if changes else root


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


def _after(member: Member) -> str:
    """Return a key behind those of all symbols in the manifest of this one."""
    return _manifest_key(member.set, member.manifest) + "~"


def _member(key: str, document: Document, where: str) -> Member:
    parts = key.split("/")
    try:
        set_name, manifest, symbol = parts
        number = int(symbol, 16)
    except ValueError:
        damaged(where, f"{key!r:.80} is no key of the lookup from manifests to symbols")
    fields = Fields(document, where)
    return Member(
        set_name, _PREFIX + manifest, number, fields.text("name"), fields.integer("segments")
    )


def _leaves_from(nodes: Nodes, node: Node, start: str) -> Iterator[Leaf]:
    """Yield the leaves with keys from ``start`` on, perhaps with some before in the first."""
    if isinstance(node, Leaf):
        yield node
        return
    for child in node.children[node.child_of(start) :]:
        yield from _leaves_from(nodes, nodes.resolved(child, node.level - 1), start)

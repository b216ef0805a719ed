"""The symbol index as a tree of nodes: finding, walking, changing and comparing.

A change copies the nodes on the way to the symbols it touches and shares all others with the tree
before, so a commit writes nodes in proportion to the symbols it touches and to the logarithm of
the symbols there are. Two trees are compared without reading what they share.

The tree is a B-tree (Bayer and McCreight 1972) that is never changed in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from tessel.errors import TesselError
from tessel.store.history.documents import Reference, damaged, fetch, seal
from tessel.store.history.leaves import (
    INNER_CHILDREN,
    Child,
    Document,
    Inner,
    Leaf,
    Node,
    cut_inner,
    cut_leaf,
    read_node,
)
from tessel.store.lru_cache import LruCache
from tessel.store.names import new_name
from tessel.store.objects.base import ObjectStore, checksum

ROOT_BYTES = 8 * 1024
"""A leaf up to this size rides in the log entry, which saves a durable put."""

ROOT_CHILDREN = 32

_OBJECT_BYTES = 1 << 20
_CACHED_LEAVES = 256
_CACHED_INNER = 1_024
"""A commit makes two or three anew, and comes back to each of the others in its turn."""


class Nodes:
    """Reads nodes, verified, through an LRU cache; safe to use from several threads."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        # Few inner nodes lead to all leaves, and leaves that come and go must not push them out.
        self._cached: tuple[LruCache[tuple[str, int], Node], LruCache[tuple[str, int], Node]]
        self._cached = LruCache(_CACHED_LEAVES), LruCache(_CACHED_INNER)

    def load(self, child: Child, level: int) -> Node:
        """Return the node that a child stands for, which must be of the given level."""
        found = self._cached[level > 0].get(child.place)
        if found is None:
            found = read_node(fetch(self._objects, child.reference, offset=child.offset))
            if isinstance(found, Leaf):
                found.length = child.reference.length
            self.put([(child, found)])
        # Also for cached nodes: another parent may lie about them.
        if (found.level, found.symbols) != (level, child.symbols) or found.first != child.first:
            name = child.reference.object
            damaged(name, "a node of the symbol index is not what its parent says")
        return found

    def put(self, written: Sequence[tuple[Child, Node]]) -> None:
        """Cache nodes that have just been written or read."""
        for child, node in written:
            self._cached[node.level > 0].put(child.place, node)

    def resolved(self, child: Child | Node, level: int) -> Node:
        """Return a node that may not have been read yet."""
        return self.load(child, level) if isinstance(child, Child) else child


class NodeWriter:
    """Gathers the nodes of one commit into few objects, named before they are written."""

    def __init__(self) -> None:
        self._buffers: list[tuple[str, bytearray]] = []
        self.written: list[tuple[Child, Node]] = []
        """The nodes gathered, and what their parents remember of them."""

    def root(self, node: Node) -> Node:
        """Return the root once all nodes below it are gathered: its children have places."""
        if isinstance(node, Leaf):
            return node
        return Inner(node.level, tuple(self._child(child) for child in node.children))

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and bytes of the objects to write."""
        for name, buffer in self._buffers:
            yield name, bytes(buffer)

    def _child(self, node: Child | Node) -> Child:
        if isinstance(node, Child):
            return node
        node = self.root(node)
        data = seal(node.to_json())
        if not self._buffers or len(self._buffers[-1][1]) >= _OBJECT_BYTES:
            self._buffers.append((new_name("leaf"), bytearray()))
        name, buffer = self._buffers[-1]
        reference = Reference(name, len(data), checksum(data))
        child = Child(node.first, node.symbols, reference, len(buffer))
        buffer += data
        if isinstance(node, Leaf):
            node.length = len(data)
        self.written.append((child, node))
        return child


def find(nodes: Nodes, root: Node, symbol: str) -> Leaf:
    """Return the leaf that holds a name, or would."""
    while isinstance(root, Inner):
        root = nodes.resolved(root.children[root.child_of(symbol)], root.level - 1)
    return root


def walk(
    nodes: Nodes,
    root: Node,
    start: str = "",
    *,
    enters: Callable[[Child], bool] = lambda child: True,
    failed: Callable[[Child, TesselError], None] | None = None,
) -> Iterator[Leaf]:
    """Yield leaves in the order of names.

    Parameters
    ----------
    nodes, root
        The tree; nodes that are not written yet are walked without a question.
    start
        Names before it are left out, but for those in its leaf.
    failed
        Takes the error of a node that cannot be read, which is left out then; by default the
        error is raised.
    """
    waiting: list[tuple[Child | Node, int]] = [(root, root.level)]
    while waiting:
        held, level = waiting.pop()
        if isinstance(held, Child):
            if not enters(held):
                continue
            try:
                node = nodes.load(held, level)
            except TesselError as error:
                if failed is None:
                    raise
                failed(held, error)
                continue
        else:
            node = held
        if isinstance(node, Leaf):
            yield node
        else:
            below = node.children[node.child_of(start) :]
            waiting += ((child, node.level - 1) for child in reversed(below))


def updated(nodes: Nodes, root: Node, changes: Mapping[str, Document | None]) -> Node:
    """Return the root of a tree with some symbols replaced, added, or (None) removed."""
    level = root.level
    parts: Sequence[Node] = _update(nodes, root, sorted(changes.items()), ROOT_CHILDREN)
    while len(parts) > 1:
        level += 1
        parts = _cut(level, parts, ROOT_CHILDREN)
    top: Node = parts[0] if parts else Leaf()
    while isinstance(top, Inner) and len(top.children) == 1:
        only = top.children[0]
        if isinstance(only, Child) and top.level == 1:
            break  # a leaf that was not touched stays where it is
        below = nodes.resolved(only, top.level - 1)
        if isinstance(below, Leaf) and not _rides(below):
            break
        top = below
    if isinstance(top, Leaf) and not _rides(top):
        return Inner(1, (top,))
    if isinstance(top, Inner) and len(top.children) > ROOT_CHILDREN:
        return Inner(top.level + 1, tuple(cut_inner(top.level, top.children, ROOT_CHILDREN)))
    return top


def _rides(leaf: Leaf) -> bool:
    return len(leaf) == 0 or len(seal(leaf.to_json())) <= ROOT_BYTES


def _cut(level: int, children: Sequence[Child | Node], most: int) -> Sequence[Inner]:
    """Return one node where children are at most ``most``, else as many as they need."""
    return cut_inner(level, children, most if len(children) <= most else INNER_CHILDREN)


def _update(
    nodes: Nodes,
    node: Node,
    changes: Sequence[tuple[str, Document | None]],
    most: int,
) -> Sequence[Node]:
    """Return what a node becomes: several where it is split, none where it is empty.

    It may have ``most`` children: the root may have more than others.
    """
    if isinstance(node, Leaf):
        return node.changed(changes)
    below = node.level - 1
    parts: list[Child | Node] = []
    after = 0
    for at, inside in itertools.groupby(changes, lambda change: node.child_of(change[0])):
        parts += node.children[after:at]
        child = nodes.resolved(node.children[at], below)
        parts += _update(nodes, child, list(inside), INNER_CHILDREN)
        after = at + 1
    parts += node.children[after:]
    return _cut(node.level, _joined(nodes, parts, below), most)


def _joined(nodes: Nodes, parts: list[Child | Node], level: int) -> list[Child | Node]:
    """Join new nodes that have become small with a neighbour."""
    if not any(map(_small, parts)):
        return parts
    result: list[Child | Node] = []
    for part in parts:
        if result and (_small(part) or _small(result[-1])):
            before = nodes.resolved(result.pop(), level)
            result += _both(before, nodes.resolved(part, level))
        else:
            result.append(part)
    return result


def _small(part: Child | Node) -> bool:
    return not isinstance(part, Child) and part.small


def _both(before: Node, after: Node) -> Sequence[Node]:
    if isinstance(before, Leaf) and isinstance(after, Leaf):
        return cut_leaf([*before.documents.items(), *after.documents.items()])
    assert isinstance(before, Inner)
    assert isinstance(after, Inner)
    return cut_inner(before.level, before.children + after.children, INNER_CHILDREN)


def differences(nodes: Nodes, a: Node, b: Node) -> Iterator[tuple[str, Leaf | None, Leaf | None]]:
    """Yield each name whose symbol differs, with the leaf that has it in either tree, sorted.

    Nodes that both trees share are not read.
    """
    sides: list[list[Child | Node]] = [[a], [b]]
    levels = [a.level, b.level]
    while max(levels) > 0:
        top = max(levels)
        for side in (0, 1):
            if levels[side] == top:
                opened = (nodes.resolved(node, top) for node in sides[side])
                sides[side] = [child for node in opened for child in node.children]
                levels[side] = top - 1
        if levels[0] == levels[1]:
            before, after = ({n.place for n in s if isinstance(n, Child)} for s in sides)
            shared = before & after
            sides = [
                [n for n in side if not isinstance(n, Child) or n.place not in shared]
                for side in sides
            ]
    held = [_leaf_of_each(nodes, side) for side in sides]
    for name in sorted(held[0].keys() | held[1].keys()):
        old, new = held[0].get(name), held[1].get(name)
        if not (old and new and old.documents[name] == new.documents[name]):
            yield name, old, new


def _leaf_of_each(nodes: Nodes, side: Sequence[Child | Node]) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}
    for node in side:
        leaf = nodes.resolved(node, 0)
        assert isinstance(leaf, Leaf)
        found |= dict.fromkeys(leaf.documents, leaf)
    return found

"""The symbol index against a dictionary: contents, shape, sharing, comparison, damage."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import CorruptStoreError
from tessel.store.history.documents import Fields, seal
from tessel.store.history.leaves import Child, Inner, Leaf, Node, read_node
from tessel.store.history.tree import Nodes, NodeWriter, differences, find, updated, walk
from tests.store.history.helpers import CountingObjects, small_nodes

HOSTILE = ["..", "../a", "/etc/passwd", "A", "a", "Ä", "ä", "A\u0308", "é", "", " ", "\u202e",
           "𝔘", "\uffff", "\U00010000", "a" * 1000, "%00", "log/0", "null", "\\", '"']  # fmt: skip
NAMES = st.sampled_from(HOSTILE) | st.integers(0, 60).map("s{:02}".format) | st.text(max_size=5)
DOCUMENTS = st.fixed_dictionaries(
    {"schema": st.sampled_from(["one", "two" * 40]), "n": st.integers(0, 3)}
)
CHANGES = st.dictionaries(
    NAMES.filter(lambda name: name.isprintable() or name < "\ud800"), st.none() | DOCUMENTS
)


class Index:
    """A tree and the place it lies in, written and read back after every change."""

    def __init__(self) -> None:
        self.objects = CountingObjects()
        self.root: Node = Leaf()

    def change(self, changes: dict[str, Any]) -> NodeWriter:
        writer = NodeWriter()
        root = writer.root(updated(Nodes(self.objects), self.root, changes))
        for name, data in writer.objects():
            assert self.objects.put_if_absent(name, data)
        self.root = read_node(Fields(_reread(root.to_json()), "log/x"))
        return writer

    def contents(self) -> dict[str, Any]:
        nodes = Nodes(self.objects)
        return {
            name: leaf.documents[name] for leaf in walk(nodes, self.root) for name in leaf.documents
        }


def _reread(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))


def _check_shape(nodes: Nodes, node: Node, *, top: bool = True) -> None:
    if isinstance(node, Leaf):
        assert top or len(node)
        assert len(node) <= 8
        assert list(node.documents) == sorted(node.documents)
        return
    assert 1 <= len(node.children) <= (3 if top else 8)
    for child in node.children:
        assert isinstance(child, Child)
        _check_shape(nodes, nodes.load(child, node.level - 1), top=False)


@settings(max_examples=60)
@given(st.lists(CHANGES, max_size=12))
def test_a_tree_holds_what_a_dictionary_holds(steps: list[dict[str, Any]]) -> None:
    with small_nodes():
        index, model = Index(), dict[str, Any]()
        for changes in steps:
            index.change(changes)
            model |= {name: value for name, value in changes.items() if value is not None}
            model = {name: v for name, v in model.items() if changes.get(name, v) is not None}
            assert list(index.contents().items()) == sorted(model.items())
            assert index.root.symbols == len(model)
            nodes = Nodes(index.objects)
            _check_shape(nodes, index.root)
            for name in {*changes, *HOSTILE}:
                assert find(nodes, index.root, name).documents.get(name) == model.get(name)


def _names(count: int) -> dict[str, Any]:
    return {f"s{n:05}": {"schema": "one", "n": 0} for n in range(count)}


def test_growing_and_shrinking_splits_and_merges() -> None:
    with small_nodes():
        index, model = Index(), _names(200)
        order = list(model)
        random.Random(7).shuffle(order)
        for name in order:
            index.change({name: model[name]})
        assert index.root.level >= 3
        assert index.contents() == model
        nodes = Nodes(index.objects)
        assert sum(1 for _ in walk(nodes, index.root)) <= 200 / 2
        random.Random(8).shuffle(order)
        for at, name in enumerate(order):
            index.change({name: None})
            del model[name]
            assert index.contents() == model
            leaves = sum(1 for _ in walk(Nodes(index.objects), index.root))
            assert leaves <= max(1, (199 - at) / 2), "leaves of one symbol are joined"
        assert isinstance(index.root, Leaf)
        assert index.contents() == {}


@pytest.mark.parametrize("count", [1_000, 30_000])
def test_one_symbol_rewrites_only_the_way_to_it(count: int) -> None:
    index = Index()
    index.change(_names(count))
    assert index.root.level == (1 if count == 1_000 else 2)
    before = len(seal(index.root.to_json()))
    assert before < 4_096
    rng = random.Random(count)
    for _ in range(5):
        index.objects.forget()
        name = f"s{rng.randrange(count):05}"
        writer = index.change({name: {"schema": "one", "n": 1}})
        assert len(writer.written) == index.root.level
        assert len(index.objects.puts) == 1
        assert len(index.objects.reads) == index.root.level
        assert index.objects.puts[0][1] < 48 * 1024


def test_one_very_large_symbol_has_a_leaf_of_its_own() -> None:
    index = Index()
    model = _names(300) | {"s00150x": {"schema": "x" * 100_000, "n": 1}}
    index.change(model)
    assert index.contents() == model
    sizes = [len(leaf) for leaf in walk(Nodes(index.objects), index.root)]
    assert 1 in sizes or max(sizes) < 129


def test_schemas_are_stored_once_in_a_leaf() -> None:
    schema = "abcdefgh" * 100
    symbols = [(f"s{n}", {"schema": schema, "n": n}) for n in range(9)]
    assert seal(Leaf(symbols).to_json()).count(schema.encode()) == 1


@settings(max_examples=60)
@given(CHANGES, CHANGES, st.lists(CHANGES, max_size=3))
def test_differences_are_those_of_the_dictionaries(
    start: dict[str, Any], first: dict[str, Any], rest: list[dict[str, Any]]
) -> None:
    with small_nodes():
        index = Index()
        index.change({name: {"schema": "one", "n": 9} for name in map("s{:02}".format, range(40))})
        index.change(start)
        before, old = index.root, index.contents()
        for changes in [first, *rest]:
            index.change(changes)
        after, new = index.root, index.contents()
        found = list(differences(Nodes(index.objects), before, after))
        expected = [
            name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)
        ]
        assert [name for name, _, _ in found] == expected
        for name, left, right in found:
            assert (left.documents[name] if left else None) == old.get(name)
            assert (right.documents[name] if right else None) == new.get(name)
        assert list(differences(Nodes(index.objects), after, after)) == []


def test_differences_read_only_what_is_not_shared() -> None:
    index = Index()
    index.change(_names(30_000))
    before = index.root
    index.change({"s12345": {"schema": "one", "n": 1}})
    index.objects.forget()
    assert [found[0] for found in differences(Nodes(index.objects), before, index.root)] == [
        "s12345"
    ]
    assert len(index.objects.reads) == 2 * index.root.level


# --- what is read is checked ----------------------------------------------------------------------

_CHILD = ["a", 1, "leaf/x", 0, 10, 7]
FORGED: dict[str, Any] = {
    "no level": {"schemas": [], "symbols": []},
    "negative level": {"level": -1, "schemas": [], "symbols": []},
    "symbols without schemas": {"level": 0, "symbols": []},
    "a schema that is not there": {"level": 0, "schemas": [], "symbols": [["a", {"schema": 0}]]},
    "a schema that is a number": {"level": 0, "schemas": [1], "symbols": [["a", {"schema": 0}]]},
    "a negative schema": {"level": 0, "schemas": ["x"], "symbols": [["a", {"schema": -1}]]},
    "a symbol that is text": {"level": 0, "schemas": ["x"], "symbols": ["a"]},
    "a name that is a number": {"level": 0, "schemas": ["x"], "symbols": [[1, {"schema": 0}]]},
    "names out of order": {"level": 0, "schemas": ["x"],
                           "symbols": [["b", {"schema": 0}], ["a", {"schema": 0}]]},
    "one name twice": {"level": 0, "schemas": ["x"],
                       "symbols": [["a", {"schema": 0}], ["a", {"schema": 0}]]},
    "no children": {"level": 1, "children": []},
    "children out of order": {"level": 1, "children": [_CHILD, _CHILD]},
    "a child of nothing": {"level": 1, "children": [["a", 0, "leaf/x", 0, 10, 7]]},
    "a short child": {"level": 1, "children": [["a", 1, "leaf/x", 0, 10]]},
    "a child with a negative offset": {"level": 1, "children": [["a", 1, "leaf/x", -1, 10, 7]]},
    "children of a wrong type": {"level": 1, "children": {"a": 1}},
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_node_is_refused(case: str) -> None:
    with pytest.raises(CorruptStoreError, match="leaf/forged is damaged"):
        read_node(Fields(FORGED[case], "leaf/forged"))


@pytest.mark.parametrize("lie", ["level", "symbols", "first", "length", "checksum", "offset"])
def test_a_child_is_what_its_parent_says(lie: str) -> None:
    index = Index()
    index.change(_names(500))
    assert isinstance(index.root, Inner)
    child = index.root.children[1]
    assert isinstance(child, Child)
    place = child.to_json()
    if lie != "level":
        at = {"first": 0, "symbols": 1, "offset": 3, "length": 4, "checksum": 5}[lie]
        place[at] = place[at] + "x" if lie == "first" else place[at] + 1
    forged = Child.read(place, "leaf/forged")
    with pytest.raises(CorruptStoreError):
        Nodes(index.objects).load(forged, 1 if lie == "level" else 0)
    nodes = Nodes(index.objects)
    nodes.load(child, 0)
    if lie in ("level", "symbols", "first"):
        with pytest.raises(CorruptStoreError):
            nodes.load(forged, 1 if lie == "level" else 0)

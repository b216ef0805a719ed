"""Nodes of the symbol index: leaves with symbols, inner nodes with children, and their bytes.

The symbols of a snapshot are the leaves of a tree, sorted by name (by code point). The root rides
in the log entry. All other nodes that a commit wrote lie one after the other in one object under
``leaf/``, each a sealed document of its own; a parent knows object, offset, length, checksum,
number of symbols and first name of each child.

A leaf holds the symbols as plain data, and makes a :class:`SymbolState` only of those asked for: a
commit of one symbol copies its neighbours as they are. Schemas, the longest part and often alike,
are kept once in a leaf.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tessel.lazy import dataclass
from tessel.store.history.documents import Fields, Reference, damaged
from tessel.store.history.symbol import SymbolPacking, SymbolState, packing_of

LEAF_SYMBOLS = 64
LEAF_BYTES = 16 * 1024
"""A leaf with more of either is split; one symbol alone may be larger."""

INNER_CHILDREN = 24
"""A commit copies an inner node of each level. So many children each cost the fewest bytes between
10,000 and 100,000 symbols that need no more levels than 64 children do (docs/history.md)."""

Document = Mapping[str, Any]
"""One symbol as plain data, as ``SymbolState.to_json`` makes it; one that has no ``"schema"`` is an
entry of the lookup (:mod:`tessel.store.history.snapshot`), which lies in leaves as well."""


@dataclass(frozen=True, slots=True)
class Child:
    """What an inner node remembers of a node below it.

    Attributes
    ----------
    first
        The first name in it, or below it.
    symbols
        How many symbols it holds.
    """

    first: str
    symbols: int
    reference: Reference
    offset: int

    @property
    def place(self) -> tuple[str, int]:
        """Object and offset: children of one place are one node."""
        return self.reference.object, self.offset

    def to_json(self) -> list[Any]:
        """Return the child as plain data."""
        at = self.reference
        return [self.first, self.symbols, at.object, self.offset, at.length, at.checksum]

    @classmethod
    def read(cls, item: object, name: str) -> Child:
        """Read a child from the document of a node."""
        if not isinstance(item, list) or len(item) != 6:
            damaged(name, "an entry of its symbol index is no child")
        keys = ("first", "symbols", "object", "offset", "length", "checksum")
        fields = Fields(dict(zip(keys, item, strict=True)), name)
        if fields.integer("symbols") == 0:
            damaged(name, "its symbol index has a child without symbols")
        return cls(
            fields.text("first"), fields.integer("symbols"), Reference.read(fields),
            fields.integer("offset"),
        )  # fmt: skip


class Leaf:
    """Symbols by name; immutable.

    Parameters
    ----------
    symbols
        Name and plain data of each symbol, sorted by name.
    name
        The object that it was read from, for messages.
    length
        How many bytes it takes at rest, or at most so many; None where that is not known.
    """

    level = 0
    children: tuple[Child | Node, ...] = ()

    def __init__(
        self,
        symbols: Iterable[tuple[str, Document]] = (),
        name: str = "",
        length: int | None = None,
    ) -> None:
        self.documents: dict[str, Document] = dict(symbols)
        self.name = name
        self.length = length
        self._states: dict[str, SymbolState] = {}

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def symbols(self) -> int:
        """How many symbols it holds."""
        return len(self.documents)

    @property
    def first(self) -> str:
        """The first name; a leaf in a tree has one."""
        return next(iter(self.documents))

    @property
    def small(self) -> bool:
        """Whether it should be joined with a neighbour."""
        if len(self.documents) >= LEAF_SYMBOLS // 4:
            return False
        length = self.length
        if length is None:
            length = sum(_weights(self.documents.items()))
        return length < LEAF_BYTES // 4

    def state(self, symbol: str) -> SymbolState | None:
        """Return a symbol; None where the leaf has none of that name."""
        found = self._states.get(symbol)
        if found is None and symbol in self.documents:
            found = SymbolState.read(Fields(self.documents[symbol], self.name))
            self._states[symbol] = found
        return found

    def packings(self) -> Iterator[SymbolPacking]:
        """Yield where the rows of each symbol are packed.

        Every commit asks this of all symbols of its leaf, so nothing else of them is decoded.
        """
        for symbol, document in self.documents.items():
            try:
                extents = [packing_of(each) for each in document["manifests"]]
                packing = SymbolPacking(
                    symbol, document["id"], len(document["column_ids"]), extents
                )
            except (AttributeError, KeyError, TypeError, ValueError):
                damaged(self.name, f"it does not say where the rows of {symbol!r:.80} are packed")
            yield packing

    def changed(self, changes: Sequence[tuple[str, Document | None]]) -> list[Leaf]:
        """Return leaves with symbols replaced, added, or (None) removed; none if none are left."""
        documents = dict(self.documents)
        before: list[tuple[str, Document]] = []
        after: list[tuple[str, Document]] = []
        for symbol, document in changes:
            if symbol in documents:
                before.append((symbol, documents.pop(symbol)))
            if document is not None:
                documents[symbol] = document
                after.append((symbol, document))
        symbols = sorted(documents.items(), key=operator.itemgetter(0))
        if self.length is not None and 0 < len(symbols) <= LEAF_SYMBOLS:
            # The usual case: it surely fits, so the symbols that stay need not be weighed.
            length = self.length + sum(_weights(after)) - sum(map(_own_weight, before))
            if length <= LEAF_BYTES:
                return [Leaf(symbols, length=length)]
        return cut_leaf(symbols)

    def to_json(self) -> dict[str, Any]:
        """Return the leaf as plain data, each schema once."""
        schemas: dict[str, int] = {}
        symbols = []
        for symbol, document in self.documents.items():
            if "schema" in document:
                at = schemas.setdefault(document["schema"], len(schemas))
                document = {**document, "schema": at}
            symbols.append([symbol, document])
        return {"level": 0, "schemas": list(schemas), "symbols": symbols}

    @classmethod
    def read(cls, fields: Fields) -> Leaf:
        """Read a leaf from its document."""
        name, schemas = fields.name, fields.sequence("schemas")
        symbols: list[tuple[str, Document]] = []
        for item in fields.sequence("symbols"):
            if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], dict):
                damaged(name, "an entry of its symbol index is no symbol")
            symbol, document = item
            if "schema" in document:
                at = Fields(document, name).integer("schema")
                if at >= len(schemas) or not isinstance(schemas[at], str):
                    damaged(name, "a symbol has a schema that is not there")
                document["schema"] = schemas[at]
            symbols.append((symbol, document))
        _check_order([symbol for symbol, _ in symbols], name)
        return cls(symbols, name)


@dataclass(frozen=True, slots=True)
class Inner:
    """A node above others.

    Attributes
    ----------
    level
        Leaves have level 0, their parents 1, and so on; all leaves are equally deep.
    children
        In the order of names: nodes as they were read, or made and not written yet.
    """

    level: int
    children: tuple[Child | Node, ...]
    symbols: int = field(init=False)

    def __post_init__(self) -> None:
        # Once: every look at a node compares it with what its parent says.
        object.__setattr__(self, "symbols", sum(child.symbols for child in self.children))

    @property
    def first(self) -> str:
        """The first name below it."""
        return self.children[0].first

    @property
    def small(self) -> bool:
        """Whether it should be joined with a neighbour."""
        return len(self.children) < INNER_CHILDREN // 4

    def child_of(self, symbol: str) -> int:
        """Return the position of the child that holds a name, if any does."""
        return max(0, bisect_right(self.children, symbol, key=lambda child: child.first) - 1)

    def to_json(self) -> dict[str, Any]:
        """Return the node as plain data; all nodes below it have been written."""
        children = [child.to_json() for child in self.children if isinstance(child, Child)]
        assert len(children) == len(self.children)
        return {"level": self.level, "children": children}

    @classmethod
    def read(cls, fields: Fields) -> Inner:
        """Read an inner node from its document."""
        children = tuple(Child.read(item, fields.name) for item in fields.sequence("children"))
        if not children:
            damaged(fields.name, "a node of its symbol index has no children")
        _check_order([child.first for child in children], fields.name)
        return cls(fields.integer("level"), children)


Node = Leaf | Inner


def read_node(fields: Fields) -> Node:
    """Read a node of either kind from its document."""
    return Inner.read(fields) if fields.integer("level") else Leaf.read(fields)


def _check_order(names: Sequence[object], where: str) -> None:
    if not all(isinstance(name, str) for name in names) or any(
        a >= b for a, b in itertools.pairwise(names)  # type: ignore[operator]
    ):  # fmt: skip
        damaged(where, "the names in its symbol index are not in order")


def cut_leaf(symbols: Sequence[tuple[str, Document]]) -> list[Leaf]:
    """Return leaves of about equal weight for sorted symbols, none for no symbols."""
    weights = list(_weights(symbols))
    total = sum(weights)
    if len(symbols) <= LEAF_SYMBOLS and (total <= LEAF_BYTES or len(symbols) == 1):
        return [Leaf(symbols)] if symbols else []
    # Cut with room to grow: a leaf that is full is split by the next symbol.
    room = 3 / 4
    parts = max(len(symbols) / (room * LEAF_SYMBOLS), total / (room * LEAF_BYTES))
    return [Leaf(part) for part in _shares(symbols, weights, math.ceil(parts))]


def cut_inner(level: int, children: Sequence[Child | Node], most: int) -> list[Inner]:
    """Return inner nodes of about equal numbers of children, at most ``most`` each."""
    parts = math.ceil(len(children) / most)
    bounds = [len(children) * part // parts for part in range(parts + 1)] if parts else []
    return [Inner(level, tuple(children[a:b])) for a, b in itertools.pairwise(bounds)]


def _weights(symbols: Iterable[tuple[str, Document]]) -> Iterator[int]:
    """Yield the bytes that each symbol takes; a schema counts where it is first seen."""
    schemas: set[str] = set()
    for symbol, document in symbols:
        schema = document.get("schema", "")
        weight = _own_weight((symbol, document))
        yield weight + (0 if schema in schemas else len(schema) + 3)
        schemas.add(schema)


def _own_weight(symbol: tuple[str, Document]) -> int:
    """Return the bytes that a symbol takes besides its schema."""
    name, document = symbol
    if "schema" in document:
        document = {**document, "schema": 0}
    return len(json.dumps([name, document], separators=(",", ":"))) + 2


def _shares(
    symbols: Sequence[tuple[str, Document]], weights: Sequence[int], parts: int
) -> Iterator[Sequence[tuple[str, Document]]]:
    """Cut symbols into about equal weights, each part within the number that a leaf holds."""
    share = sum(weights) / parts
    start, weight = 0, 0.0
    for at, own in enumerate(weights):
        full = weight + own / 2 > share or at - start >= LEAF_SYMBOLS
        if full and at > start:
            yield symbols[start:at]
            start, weight = at, 0.0
        weight += own
    if start < len(symbols):
        yield symbols[start:]

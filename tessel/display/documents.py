"""The documents that parts build and the renderers draw: plain values, no behaviour.

A part that has something to show (a plan, a profile, a result) makes one of these; it never formats
text, and nothing here knows what a clause is.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeAlias

from tessel.errors import InvalidInputError, UnsupportedTypeError, repeated
from tessel.lazy import dataclass

Facts: TypeAlias = tuple[tuple[str, object], ...]
"""Named values in the order to show them; values are text, numbers, truths or None."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows.

    Attributes
    ----------
    title
        Shown above; may be empty.
    columns
        Headings; a line break makes a heading of several lines.
    rows
        One value per column: text, a number, a truth, or None for missing. Columns of numbers are
        aligned to the right.
    notes
        Lines shown below.

    Raises
    ------
    InvalidInputError
        When a row has another number of values than there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInputError(
                    f"a row of {len(row)} values in a table of {len(self.columns)} columns",
                    table=self.title,
                )


@dataclass(frozen=True, slots=True)
class Tree:
    """A label with facts, and what lies below it."""

    label: str
    facts: Facts = ()
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A box of a graph; ``name`` is what edges refer to, ``label`` what is shown."""

    name: str
    label: str
    facts: Facts = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two boxes, by their names."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Boxes and arrows.

    Raises
    ------
    InvalidInputError
        When two nodes have one name, or an edge refers to a node that is not there.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        known = {node.name for node in self.nodes}
        if (twice := repeated(node.name for node in self.nodes)) is not None:
            raise InvalidInputError(f"two nodes of a graph are named {twice!r}", graph=self.title)
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in known:
                    raise InvalidInputError(
                        f"an edge of a graph refers to {end!r}, which is no node",
                        graph=self.title,
                    )


@dataclass(frozen=True, slots=True)
class Span:
    """A part of an axis; ``kind`` chooses its colour: read, fetch, clause, write, spill, pruned."""

    start: float
    stop: float
    label: str
    kind: str = ""
    facts: Facts = ()


@dataclass(frozen=True, slots=True)
class Lane:
    """Spans that follow one another along an axis, or lie within one another."""

    label: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes under one another along one axis from 0 to ``stop``: of time, of rows.

    Attributes
    ----------
    title
        Shown above; may be empty.
    unit
        Of the axis.
    notes
        Lines shown below.

    Raises
    ------
    InvalidInputError
        When a span lies outside of the axis, or ends before it begins.
    """

    title: str
    unit: str
    stop: float
    lanes: tuple[Lane, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for lane in self.lanes:
            for span in lane.spans:
                if not 0 <= span.start <= span.stop <= self.stop:
                    raise InvalidInputError(
                        f"a span from {span.start} to {span.stop} on an axis to {self.stop}",
                        lane=lane.label,
                    )


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that is shown at once."""

    title: str
    parts: tuple[Part, ...] = ()


Part: TypeAlias = Table | Tree | Graph | Lanes | Section | Document | str
"""What a document is made of; a plain string is a paragraph."""


# --- trees as graphs, and where the boxes of a graph go ------------------------------------------


def graph_of_tree(tree: Tree) -> Graph:
    """Return a tree as a graph whose edges lead from each child to its parent.

    Trees are plans: what is below is done first, and its rows flow up.
    """
    nodes: list[Node] = []
    edges: list[Edge] = []

    def visit(part: Tree) -> str:
        name = f"n{len(nodes)}"
        nodes.append(Node(name, part.label, part.facts))
        edges.extend(Edge(visit(child), name) for child in part.children)
        return name

    visit(tree)
    return Graph(tuple(nodes), tuple(edges))


def layers(graph: Graph) -> list[list[Node]]:
    """Return the nodes by layer: one more than the deepest of those with an edge to it.

    Edges that close a cycle count for nothing. Within a layer nodes keep their order.
    """
    before: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        before[edge.target].append(edge.source)
    depth: dict[str, int] = {}
    for start in before:
        # Depth first without recursion: plans may be deep. A name on the path is part of a cycle.
        path = [start]
        on_path = {start}
        while path:
            name = path[-1]
            ahead = [s for s in before[name] if s not in depth and s not in on_path]
            if ahead:
                path.append(ahead[0])
                on_path.add(ahead[0])
            else:
                depth.setdefault(
                    name, 1 + max((depth.get(s, -1) for s in before[name]), default=-1)
                )
                on_path.discard(path.pop())
    found: list[list[Node]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for node in graph.nodes:
        found[depth[node.name]].append(node)
    return [layer for layer in found if layer]


# --- single values, and how wide text is: what all renderers agree on -----------------------------

ELLIPSIS = "…"
"""Stands for what is not shown; as a cell it fits in a column of any kind."""


def cell_text(value: object) -> str:
    """Return a value as one line: ``null`` for missing, unprintable characters escaped."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def facts_text(facts: Facts) -> str:
    """Return facts as ``name=value`` with a comma between."""
    return ", ".join(f"{name}={cell_text(value)}" for name, value in facts)


def labelled_lines(told: Node | Span) -> list[str]:
    """Return the label and the facts of a box or a span, one a line."""
    return [cell_text(told.label), *(f"{name}: {cell_text(value)}" for name, value in told.facts)]


def is_numeric(values: Iterable[object]) -> bool:
    """Return whether all values are numbers, missing values and ellipses aside."""
    told = [value for value in values if value is not None and value != ELLIPSIS]
    return bool(told) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in told
    )


def text_width(text: str) -> int:
    """Return how many cells of a terminal a line takes (Unicode Standard Annex 11)."""
    if text.isascii():
        return len(text)
    import unicodedata  # only text that is not ASCII needs it

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shortened(text: str, width: int) -> str:
    """Return the text, or the start of it and an ellipsis where it is wider than ``width``."""
    if text_width(text) <= width:
        return text
    kept, used = [], text_width(ELLIPSIS)
    for character in text:
        used += text_width(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def axis_text(value: float) -> str:
    """Return a place on an axis, of five digits or as a whole number."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.5g}"


# --- as JSON, for programs -----------------------------------------------------------------------


def render_json(document: Part) -> str:
    """Return a document as JSON text; each part is an object with its ``kind``.

    Numbers that JSON cannot hold (``nan``, infinities) and values of other types are text.
    """
    return json.dumps(_plain(document, "parts"), ensure_ascii=False, indent=2, allow_nan=False)


def _plain(value: Any, field: str) -> Any:
    """Return what a field of a part holds, as JSON has it."""
    if field == "facts":
        return {name: _plain(each, "") for name, each in value}
    if isinstance(value, tuple):
        return [_plain(each, field) for each in value]
    if field in ("nodes", "edges", "lanes", "spans"):
        return _fields(value)
    if field in ("children", "parts"):
        if isinstance(value, str):
            return {"kind": "text", "text": value}
        if not isinstance(value, Table | Tree | Graph | Lanes | Section | Document):
            raise UnsupportedTypeError(f"a {type(value).__qualname__} is no part of a document")
        return {"kind": type(value).__name__.lower(), **_fields(value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _fields(part: Any) -> dict[str, Any]:
    """Return what a part, a node or an edge is made of, its title first."""
    names = [each.name for each in dataclasses.fields(part)]
    names.sort(key=lambda name: name != "title")
    return {name: _plain(getattr(part, name), name) for name in names}

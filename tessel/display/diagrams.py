"""The graphs and trees of a document in the languages of mermaid and of Graphviz (DOT)."""

from __future__ import annotations

from collections.abc import Iterator

from tessel.display.cells import cell_text
from tessel.display.documents import Document, Graph, Node, Part, Section, Tree
from tessel.display.layout import graph_of_tree
from tessel.errors import InvalidInputError

__all__ = ["render_dot", "render_mermaid"]

# ``#`` and ``"`` end a mermaid label or start an entity in it, ``<`` would start HTML.
_MERMAID = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"})
_DOT = str.maketrans({"\\": "\\\\", '"': '\\"'})


def render_mermaid(document: Part) -> str:
    """Return the graphs and trees of a document as one mermaid flowchart.

    Raises
    ------
    InvalidInputError
        When the document holds neither a graph nor a tree.
    """
    lines = ["flowchart LR"]
    for number, graph in enumerate(_drawable(document)):
        names = {node.name: f"g{number}n{at}" for at, node in enumerate(graph.nodes)}
        inner = []
        for node in graph.nodes:
            label = "<br/>".join(line.translate(_MERMAID) for line in _label(node))
            inner.append(f'{names[node.name]}["{label}"]')
        for edge in graph.edges:
            label = cell_text(edge.label).translate(_MERMAID)
            arrow = f'-- "{label}" -->' if label else "-->"
            inner.append(f"{names[edge.source]} {arrow} {names[edge.target]}")
        if graph.title:
            title = cell_text(graph.title).translate(_MERMAID)
            lines.append(f'    subgraph g{number}["{title}"]')
            lines += [f"        {line}" for line in inner]
            lines.append("    end")
        else:
            lines += [f"    {line}" for line in inner]
    return "\n".join(lines)


def render_dot(document: Part) -> str:
    """Return the graphs and trees of a document as one DOT digraph.

    Raises
    ------
    InvalidInputError
        When the document holds neither a graph nor a tree.
    """
    lines = ["digraph {", "    rankdir=LR", "    node [shape=box]"]
    for number, graph in enumerate(_drawable(document)):
        names = {node.name: f"g{number}n{at}" for at, node in enumerate(graph.nodes)}
        inner = []
        for node in graph.nodes:
            # ``\n`` is DOT's own line break and comes after the escapes.
            label = "\\n".join(line.translate(_DOT) for line in _label(node))
            inner.append(f'{names[node.name]} [label="{label}"]')
        for edge in graph.edges:
            label = cell_text(edge.label).translate(_DOT)
            told = f' [label="{label}"]' if label else ""
            inner.append(f"{names[edge.source]} -> {names[edge.target]}{told}")
        if graph.title:
            # Only a subgraph whose name begins with ``cluster`` is drawn with a frame and a label.
            lines.append(f"    subgraph cluster_{number} {{")
            lines.append(f'        label="{cell_text(graph.title).translate(_DOT)}"')
            lines += [f"        {line}" for line in inner]
            lines.append("    }")
        else:
            lines += [f"    {line}" for line in inner]
    return "\n".join([*lines, "}"])


def _label(node: Node) -> list[str]:
    facts = [f"{name}: {cell_text(value)}" for name, value in node.facts]
    return [cell_text(node.label), *facts]


def _drawable(document: Part) -> list[Graph]:
    found = list(_graphs(document))
    if not found:
        raise InvalidInputError(
            "the document holds no graph and no tree to draw",
            hint="render it as text, HTML or JSON",
        )
    return found


def _graphs(part: Part) -> Iterator[Graph]:
    if isinstance(part, Graph):
        yield part
    elif isinstance(part, Tree):
        yield graph_of_tree(part)
    elif isinstance(part, Section | Document):
        for inner in part.parts:
            yield from _graphs(inner)

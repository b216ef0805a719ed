"""The graphs and trees of a document in the languages of mermaid and of Graphviz (DOT)."""

from __future__ import annotations

from collections.abc import Iterator

from tessel.display.documents import (
    Document,
    Graph,
    Part,
    Section,
    Tree,
    cell_text,
    graph_of_tree,
    labelled_lines,
)
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass


def render_mermaid(document: Part) -> str:
    """Return the graphs and trees of a document as one mermaid flowchart.

    Raises
    ------
    InvalidInputError
        When the document holds neither a graph nor a tree.
    """
    return "\n".join(["flowchart LR", *_drawn(document, _MERMAID)])


def render_dot(document: Part) -> str:
    """Return the graphs and trees of a document as one DOT digraph.

    Raises
    ------
    InvalidInputError
        When the document holds neither a graph nor a tree.
    """
    opening = ["digraph {", "    rankdir=LR", "    node [shape=box]"]
    return "\n".join([*opening, *_drawn(document, _DOT), "}"])


@dataclass(frozen=True)
class _Language:
    """How a language writes boxes and arrows; the fields are formats of names and labels."""

    escapes: dict[int, str]
    line_break: str
    box: str
    arrow: str
    labelled_arrow: str
    frame: tuple[str, ...]
    frame_end: str


_MERMAID = _Language(
    # ``#`` and ``"`` end a mermaid label or start an entity in it, ``<`` would start HTML.
    str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}),
    "<br/>",
    '{0}["{1}"]',
    "{0} --> {1}",
    '{0} -- "{2}" --> {1}',
    ('subgraph g{0}["{1}"]',),
    "end",
)
_DOT = _Language(
    str.maketrans({"\\": "\\\\", '"': '\\"'}),
    "\\n",  # DOT's own line break, which comes after the escapes
    '{0} [label="{1}"]',
    "{0} -> {1}",
    '{0} -> {1} [label="{2}"]',
    # Only a subgraph whose name begins with ``cluster`` is drawn with a frame and a label.
    ("subgraph cluster_{0} {{", '    label="{1}"'),
    "}",
)


def _drawn(document: Part, language: _Language) -> Iterator[str]:
    """Give the lines of all graphs, those of a graph with a title in a frame."""

    def told(text: str) -> str:
        return cell_text(text).translate(language.escapes)

    graphs = list(_graphs(document))
    if not graphs:
        raise InvalidInputError(
            "the document holds no graph and no tree to draw",
            hint="render it as text, HTML or JSON",
        )
    for number, graph in enumerate(graphs):
        names = {node.name: f"g{number}n{at}" for at, node in enumerate(graph.nodes)}
        labels = (map(told, labelled_lines(node)) for node in graph.nodes)
        inner = [
            language.box.format(name, language.line_break.join(lines))
            for name, lines in zip(names.values(), labels, strict=True)
        ]
        for edge in graph.edges:
            arrow = language.labelled_arrow if edge.label else language.arrow
            inner.append(arrow.format(names[edge.source], names[edge.target], told(edge.label)))
        if not graph.title:
            yield from (f"    {line}" for line in inner)
            continue
        yield from (f"    {line.format(number, told(graph.title))}" for line in language.frame)
        yield from (f"        {line}" for line in inner)
        yield f"    {language.frame_end}"


def _graphs(part: Part) -> Iterator[Graph]:
    if isinstance(part, Graph):
        yield part
    elif isinstance(part, Tree):
        yield graph_of_tree(part)
    elif isinstance(part, Section | Document):
        for inner in part.parts:
            yield from _graphs(inner)

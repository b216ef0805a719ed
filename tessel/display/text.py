"""Documents as text for terminals and reprs: light boxes, aligned columns, a limited width."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from tessel.display.documents import (
    ELLIPSIS,
    Document,
    Graph,
    Lanes,
    Part,
    Section,
    Table,
    Tree,
    axis_text,
    cell_text,
    facts_text,
    is_numeric,
    shortened,
    text_width,
)
from tessel.errors import UnsupportedTypeError

_DEFAULT_WIDTH = 120
# Text is not cut to less than a moment with its zone takes: 2013-01-01 05:00:00-0500.
_LEAST_TEXT_WIDTH = 24
_EDGES = 3  # a bar and two spaces a column


def render_text(document: Part, *, width: int = _DEFAULT_WIDTH) -> str:
    """Return a document as lines of text.

    Parameters
    ----------
    document
        A document or any part of one.
    width
        Columns of the terminal. In a table that is wider, text is cut with ``…`` first, then
        columns in the middle are left out; numbers are never cut.
    """
    return "\n".join(line.rstrip() for line in _lines(document, width))


@functools.singledispatch
def _lines(part: object, width: int) -> Iterator[str]:
    raise UnsupportedTypeError(f"a {type(part).__qualname__} is no part of a document")


@_lines.register
def _(part: str, width: int) -> Iterator[str]:
    yield from part.splitlines()


@_lines.register(Section)
@_lines.register(Document)
def _(part: Section | Document, width: int) -> Iterator[str]:
    if part.title:
        yield part.title
        if isinstance(part, Document):
            yield "═" * min(text_width(part.title), width)
    for number, inner in enumerate(part.parts):
        if number or (part.title and isinstance(inner, Section)):
            yield ""
        yield from _lines(inner, width)


@_lines.register
def _(part: Tree, width: int) -> Iterator[str]:
    yield shortened(_labelled(part), width)
    yield from _branches(part, "", width)


def _labelled(tree: Tree) -> str:
    label = cell_text(tree.label)
    return f"{label}  ({facts_text(tree.facts)})" if tree.facts else label


def _branches(tree: Tree, indent: str, width: int) -> Iterator[str]:
    for number, child in enumerate(tree.children, start=1):
        last = number == len(tree.children)
        yield shortened(f"{indent}{'└─ ' if last else '├─ '}{_labelled(child)}", width)
        yield from _branches(child, indent + ("   " if last else "│  "), width)


@_lines.register
def _(part: Graph, width: int) -> Iterator[str]:
    if part.title:
        yield part.title
    labels = {node.name: cell_text(node.label) for node in part.nodes}
    for node in part.nodes:
        facts = f"  ({facts_text(node.facts)})" if node.facts else ""
        yield shortened(f"{labels[node.name]}{facts}", width)
        for edge in part.edges:
            if edge.source == node.name:
                why = f"  {cell_text(edge.label)}" if edge.label else ""
                yield shortened(f"  ──▶ {labels[edge.target]}{why}", width)


@_lines.register
def _(part: Lanes, width: int) -> Iterator[str]:
    """Draw each lane as a line: full where spans cover all of a place, shaded where some of it."""
    yield from [part.title] if part.title else []
    labels = [shortened(cell_text(lane.label), _LEAST_TEXT_WIDTH) for lane in part.lanes]
    widest = max(map(text_width, labels), default=0)
    places = max(1, min(width - widest - 2, _DEFAULT_WIDTH))
    for lane, label in zip(part.lanes, labels, strict=True):
        covered = [0.0] * places
        shown = [span for span in lane.spans if span.kind != "pruned"]
        for span in shown if part.stop else ():
            low, high = (each / part.stop * places for each in (span.start, span.stop))
            for at in range(int(low), min(places, int(high) + 1)):
                covered[at] += max(0.0, min(high, at + 1) - max(low, at))
        marks = ["·" if each < 0.01 else "▒" if each < 0.99 else "█" for each in covered]
        yield f"{label}{' ' * (widest - text_width(label))}  {''.join(marks)}"
    yield f"0 to {axis_text(part.stop)} {part.unit}"
    yield from part.notes


@_lines.register
def _(part: Table, width: int) -> Iterator[str]:
    if part.title:
        yield part.title
    if part.columns:
        yield from _box(_fitted(part, width))
    yield from part.notes


def _fitted(table: Table, width: int) -> list[_Column]:
    """Return the columns that fit, each at its width: first and last ones if not all do."""
    columns = [
        _Column(heading, [row[at] for row in table.rows], width)
        for at, heading in enumerate(table.columns)
    ]
    elided = _Column(ELLIPSIS, [ELLIPSIS] * len(table.rows), width)
    shown, hidden = columns, 0
    while sum(c.least + _EDGES for c in shown) + 1 > width and hidden < len(columns) - 1:
        hidden += 1
        front = (len(columns) - hidden + 1) // 2
        shown = [*columns[:front], elided, *columns[front + hidden :]]
    while sum(c.width + _EDGES for c in shown) + 1 > width:
        widest = max(shown, key=lambda column: column.width - column.least)
        if widest.width == widest.least:
            break
        widest.width -= 1
    return shown


class _Column:
    """One column while a table is laid out."""

    def __init__(self, heading: str, values: Sequence[object], limit: int) -> None:
        self.heading = [cell_text(line) for line in heading.split("\n")]
        self.texts = [cell_text(value) for value in values]
        self.numeric = is_numeric(values)
        titles = max(map(text_width, self.heading))
        values_width = max(map(text_width, self.texts), default=0)
        self.least = values_width if self.numeric else min(values_width, _LEAST_TEXT_WIDTH)
        self.least = max(self.least, min(text_width(self.heading[0]), _LEAST_TEXT_WIDTH))
        self.least = max(self.least, text_width(ELLIPSIS))  # a first heading may have no width
        self.width = max(self.least, min(max(titles, values_width), limit))

    def padded(self, text: str) -> str:
        short = shortened(text, self.width)
        space = " " * (self.width - text_width(short))
        return space + short if self.numeric else short + space


def _box(columns: Sequence[_Column]) -> Iterator[str]:
    def rule(left: str, between: str, right: str) -> str:
        return left + between.join("─" * (column.width + 2) for column in columns) + right

    def line(texts: Sequence[str]) -> str:
        cells = [column.padded(text) for column, text in zip(columns, texts, strict=True)]
        return f"│ {' │ '.join(cells)} │"

    yield rule("┌", "┬", "┐")
    height = max(len(column.heading) for column in columns)
    for at in range(height):
        yield line([c.heading[at] if at < len(c.heading) else "" for c in columns])
    if columns[0].texts:
        yield rule("├", "┼", "┤")
    for texts in zip(*[column.texts for column in columns], strict=True):
        yield line(texts)
    yield rule("└", "┴", "┘")

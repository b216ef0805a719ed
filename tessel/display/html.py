"""Documents as HTML for notebooks and reports: escaped, with their own style, nothing fetched."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from html import escape

from tessel.display.documents import (
    Document,
    Graph,
    Lane,
    Lanes,
    Node,
    Part,
    Section,
    Span,
    Table,
    Tree,
    axis_text,
    cell_text,
    facts_text,
    is_numeric,
    labelled_lines,
    layers,
    shortened,
    text_width,
)
from tessel.errors import UnsupportedTypeError

_COLOURS = {
    "read": "#4c8bf5",
    "fetch": "#f29900",
    "clause": "#34a853",
    "write": "#a142f4",
    "spill": "#d93025",
    "spark": "#12a4af",
    "pruned": "#8884",
}
_LANES_STYLE = (
    ".tessel .lane{display:grid;grid-template-columns:11em 1fr;align-items:center;gap:.6em}"
    ".tessel .lane svg{width:100%;max-width:none;background:#8881;border-radius:2px}"
    ".tessel .lane span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;"
    "text-align:right}"
    ".tessel .axis{display:flex;justify-content:space-between;opacity:.7;"
    "font-variant-numeric:tabular-nums}"
    ".tessel .key i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}"
) + "".join(f".tessel .{kind}{{fill:{c};background:{c}}}" for kind, c in _COLOURS.items())

_STYLE = (
    ".tessel{font:13px/1.45 system-ui,sans-serif}"
    ".tessel table{border-collapse:collapse;margin:.4em 0}"
    ".tessel th,.tessel td{border:1px solid #8884;padding:.15em .6em;text-align:left;"
    "white-space:pre;vertical-align:top}"
    ".tessel td.long{white-space:pre-wrap;min-width:20em}"
    ".tessel th small{font-weight:normal;opacity:.7}"
    ".tessel .number{text-align:right;font-variant-numeric:tabular-nums}"
    ".tessel .missing{opacity:.5;font-style:italic}"
    ".tessel caption{text-align:left;font-weight:600}"
    ".tessel .note,.tessel .facts{opacity:.75;margin:.1em 0}"
    ".tessel ul{margin:.1em 0;padding-left:1.4em}"
    ".tessel svg{max-width:100%;height:auto;color:inherit}" + _LANES_STYLE
)
_CHARACTER_WIDTH, _LINE_HEIGHT, _PADDING, _GAP_ACROSS, _GAP_DOWN = 7, 16, 10, 50, 18
_LONGEST_LABEL = 48


def render_html(document: Part) -> str:
    """Return a document, or any part of one, as a ``div`` with its style; it fetches nothing."""
    return f'<div class="tessel"><style>{_STYLE}</style>{"".join(_parts(document, 2))}</div>'


@functools.singledispatch
def _parts(part: object, level: int) -> Iterator[str]:
    raise UnsupportedTypeError(f"a {type(part).__qualname__} is no part of a document")


@_parts.register
def _(part: str, level: int) -> Iterator[str]:
    yield f"<p>{escape(part)}</p>"


@_parts.register(Section)
@_parts.register(Document)
def _(part: Section | Document, level: int) -> Iterator[str]:
    yield "<section>"
    if part.title:
        yield f"<h{level}>{escape(part.title)}</h{level}>"
    for inner in part.parts:
        yield from _parts(inner, min(level + 1, 6))
    yield "</section>"


@_parts.register
def _(part: Tree, level: int) -> Iterator[str]:
    yield "<ul>"
    yield from _branch(part)
    yield "</ul>"


def _branch(tree: Tree) -> Iterator[str]:
    facts = f' <span class="facts">{escape(facts_text(tree.facts))}</span>' if tree.facts else ""
    yield f"<li>{escape(cell_text(tree.label))}{facts}"
    if tree.children:
        yield "<ul>"
        for child in tree.children:
            yield from _branch(child)
        yield "</ul>"
    yield "</li>"


@_parts.register
def _(part: Table, level: int) -> Iterator[str]:
    numeric = [is_numeric(row[at] for row in part.rows) for at in range(len(part.columns))]
    yield "<table>"
    if part.title:
        yield f"<caption>{escape(part.title)}</caption>"
    if part.columns:
        yield "<thead><tr>"
        for heading, number in zip(part.columns, numeric, strict=True):
            first, *more = heading.split("\n")
            small = "".join(f"<br><small>{escape(line)}</small>" for line in more)
            yield f"<th{_kind(number)}>{escape(cell_text(first))}{small}</th>"
        yield "</tr></thead>"
    yield "<tbody>"
    for row in part.rows:
        yield "<tr>"
        for value, number in zip(row, numeric, strict=True):
            missing = value is None
            text = cell_text(value)
            long = text_width(text) > _LONGEST_LABEL
            yield f"<td{_kind(number, missing, long)}>{escape(text)}</td>"
        yield "</tr>"
    yield "</tbody></table>"
    for note in part.notes:
        yield f'<p class="note">{escape(note)}</p>'


def _kind(number: bool, missing: bool = False, long: bool = False) -> str:
    kinds = {"number": number, "missing": missing, "long": long}
    names = [name for name, holds in kinds.items() if holds]
    return f' class="{" ".join(names)}"' if names else ""


@_parts.register
def _(part: Graph, level: int) -> Iterator[str]:
    if part.title:
        yield f"<h{level}>{escape(part.title)}</h{level}>"
    yield from _drawing(part)


def _box_lines(node: Node) -> list[str]:
    return [shortened(line, _LONGEST_LABEL) for line in labelled_lines(node)]


def _drawing(graph: Graph) -> Iterator[str]:
    """Draw the graph as SVG, layers from left to right."""
    places: dict[str, tuple[int, int, int, int]] = {}
    left = bottom = 0
    for layer in layers(graph):
        widths = [max(map(text_width, _box_lines(node))) for node in layer]
        width = max(widths) * _CHARACTER_WIDTH + 2 * _PADDING
        top = 1
        for node in layer:
            height = len(_box_lines(node)) * _LINE_HEIGHT + _PADDING
            places[node.name] = (left + 1, top, width, height)
            top += height + _GAP_DOWN
        left += width + _GAP_ACROSS
        bottom = max(bottom, top)
    width, height = max(left - _GAP_ACROSS + 2, 2), max(bottom - _GAP_DOWN + 1, 2)
    yield (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'fill="none" stroke="currentColor" font-family="monospace" font-size="11">'
    )
    for edge in graph.edges:
        yield from _arrow(places[edge.source], places[edge.target], edge.label)
    for node in graph.nodes:
        of = re.split(r"[^\w.]", node.label, maxsplit=1)[0]
        yield f'<g data-of="{escape(of)}" tabindex="0"><title>{_hover(node)}</title>'
        yield from _box(places[node.name], _box_lines(node))
        yield "</g>"
    yield "</svg>"


def _box(place: tuple[int, int, int, int], lines: Sequence[str]) -> Iterator[str]:
    x, y, width, height = place
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" pointer-events="all"/>'
    for number, line in enumerate(lines, start=1):
        weight = ' font-weight="bold"' if number == 1 else ""
        yield (
            f'<text x="{x + _PADDING}" y="{y + number * _LINE_HEIGHT}" fill="currentColor" '
            f'stroke="none"{weight}>{escape(line)}</text>'
        )


def _arrow(
    source: tuple[int, int, int, int], target: tuple[int, int, int, int], label: str
) -> Iterator[str]:
    x1, y1 = source[0] + source[2], source[1] + source[3] // 2
    x2, y2 = target[0], target[1] + target[3] // 2
    bend = _GAP_ACROSS // 2
    yield f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" opacity=".6"/>'
    yield f'<path d="M{x2 - 6} {y2 - 4}L{x2} {y2}L{x2 - 6} {y2 + 4}" opacity=".6"/>'
    if label:
        yield (
            f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 4}" text-anchor="middle" '
            f'fill="currentColor" stroke="none">{escape(cell_text(label))}</text>'
        )


# --- lanes: a strip for each, spans within spans below them -------------------------------------

_LANES_WIDTH, _LANE_HEIGHT, _LEAST_WIDTH = 1_000, 14, 0.7
_TICKS = 5


@_parts.register
def _(part: Lanes, level: int) -> Iterator[str]:
    """Yield HTML that draws lanes; a script stretches them by their ``data-`` attributes."""
    yield f'<div class="lanes" data-stop="{part.stop!r}" data-unit="{escape(part.unit)}">'
    if part.title:
        yield f"<b>{escape(cell_text(part.title))}</b>"
    for lane in part.lanes:
        label = escape(cell_text(lane.label))
        yield f'<div class="lane"><span title="{label}">{label}</span>'
        yield from _strip(lane, part.stop)
        yield "</div>"
    ticks = (part.stop * at / (_TICKS - 1) for at in range(_TICKS))
    shown = "".join(f"<span>{axis_text(tick)} {escape(part.unit)}</span>" for tick in ticks)
    yield f'<div class="lane"><span></span><div class="axis">{shown}</div></div>'
    kinds = dict.fromkeys(span.kind for lane in part.lanes for span in lane.spans if span.kind)
    yield f'<p class="key">{"".join(f"<i class={k!r}></i>{escape(k)}" for k in kinds)}</p>'
    yield "</div>"
    for note in part.notes:
        yield f'<p class="note">{escape(note)}</p>'


def _strip(lane: Lane, stop: float) -> Iterator[str]:
    open_until: list[float] = []  # of the spans around the next one
    rects: list[str] = []
    depth = 1
    for span in sorted(lane.spans, key=lambda each: (each.start, -each.stop)):
        while open_until and open_until[-1] <= span.start:
            open_until.pop()
        rects.append(_rect(span, stop, len(open_until)))
        open_until.append(span.stop)
        depth = max(depth, len(open_until))
    height = depth * _LANE_HEIGHT
    yield (
        f'<svg viewBox="0 0 {_LANES_WIDTH} {height}" height="{height}" preserveAspectRatio="none" '
        f'role="img" fill="#888">{"".join(rects)}</svg>'
    )


def _rect(span: Span, stop: float, depth: int) -> str:
    left = span.start / stop * _LANES_WIDTH if stop else 0.0
    width = max(_LEAST_WIDTH, (span.stop - span.start) / stop * _LANES_WIDTH if stop else 0.0)
    return (
        f'<rect class="span {escape(span.kind)}" data-of="{escape(cell_text(span.label))}" '
        f'tabindex="0" x="{left:.2f}" y="{depth * _LANE_HEIGHT + 1}" width="{width:.2f}" '
        f'height="{_LANE_HEIGHT - 2}">'
        f"<title>{_hover(span)}</title></rect>"
    )


def _hover(told: Node | Span) -> str:
    """Return the text shown for the element under the pointer."""
    return escape("\n".join(labelled_lines(told)))


# --- a page: one file with its style and its script, which fetches nothing ------------------------

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_PAGE_STYLE = (
    "body{margin:1.2em auto;max-width:76em;padding:0 1em}"
    "nav a{margin-right:1.2em}"
    "section[id]{scroll-margin-top:1em}"
    ".tessel [data-of]{cursor:pointer}"
    ".tessel g[data-of]:hover rect,.tessel rect[data-of]:hover{filter:brightness(1.25)}"
    ".tessel.choosing [data-of]:not(.chosen){opacity:.18}"
    ".tessel button{margin-left:.4em;min-width:2em}"
    "#tip{position:fixed;z-index:9;padding:.4em .7em;border-radius:4px;background:#222;"
    "color:#eee;white-space:pre-wrap;font:12px/1.4 system-ui,sans-serif;max-width:34em;"
    "pointer-events:none;overflow-wrap:anywhere}"
)
_SCRIPT = """
const root = document.querySelector(".tessel"), tip = document.getElementById("tip");
for (const title of root.querySelectorAll("svg title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
const show = (element, x, y) => {
  tip.hidden = !element;
  if (!element) return;
  tip.textContent = element.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 8 : y + 18) + "px";
};
root.addEventListener("mousemove", e => show(e.target.closest("[data-tip]"), e.clientX, e.clientY));
root.addEventListener("mouseleave", () => show(null));
root.addEventListener("focusin", e => {
  const element = e.target.closest("[data-tip]");
  if (!element) return;
  const box = element.getBoundingClientRect();
  show(element, box.x, box.bottom);
});
const choose = name => {
  const same = name !== null && root.dataset.chosen !== name;
  root.dataset.chosen = same ? name : "";
  root.classList.toggle("choosing", same);
  for (const each of root.querySelectorAll("[data-of]"))
    each.classList.toggle("chosen", same && each.dataset.of === name);
};
root.addEventListener("click", e => {
  const element = e.target.closest("[data-of]");
  if (element) choose(element.dataset.of);
  else if (!e.target.closest("button,a")) choose(null);
});
root.addEventListener("keydown", e => {
  if (e.key === "Enter" && e.target.dataset.of !== undefined) choose(e.target.dataset.of);
  if (e.key === "Escape") { choose(null); show(null); }
});
for (const lanes of root.querySelectorAll(".lanes")) {
  const stop = Number(lanes.dataset.stop), strips = lanes.querySelectorAll("svg");
  let from = 0, part = 1;
  const draw = () => {
    for (const strip of strips) {
      const place = [from * 1000, 0, part * 1000, strip.getAttribute("height")];
      strip.setAttribute("viewBox", place.join(" "));
    }
    const ticks = lanes.querySelectorAll(".axis span");
    ticks.forEach((tick, at) => {
      const value = stop * (from + part * at / (ticks.length - 1));
      const digits = value < 10000 ? 5 : 15;
      const text = Number(value.toPrecision(digits)).toLocaleString("en");
      tick.textContent = `${text} ${lanes.dataset.unit}`;
    });
  };
  const zoom = (by, middle) => {
    const wide = Math.min(1, Math.max(1e-4, part * by));
    from = Math.max(0, Math.min(1 - wide, from + middle * (part - wide)));
    part = wide;
    draw();
  };
  const bar = document.createElement("div");
  const button = (text, title, work) => {
    const made = document.createElement("button");
    made.textContent = text; made.title = title; made.onclick = work;
    bar.append(made);
  };
  button("+", "zoom in", () => zoom(.5, .5));
  button("−", "zoom out", () => zoom(2, .5));
  button("◀", "earlier", () => { from = Math.max(0, from - part / 2); draw(); });
  button("▶", "later", () => { from = Math.min(1 - part, from + part / 2); draw(); });
  button("all", "the whole axis", () => { from = 0; part = 1; draw(); });
  lanes.prepend(bar);
  for (const strip of strips) strip.addEventListener("wheel", e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    const box = strip.getBoundingClientRect();
    zoom(e.deltaY < 0 ? .8 : 1.25, (e.clientX - box.x) / box.width);
  }, {passive: false});
}
"""


def render_page(document: Document) -> str:
    """Return a document as a page; its sections are named above it.

    Boxes of graphs and spans of lanes say what they are under the pointer. A click on one leaves
    those of its name, another click shows all again. Lanes are stretched by their buttons.
    """
    names = [part.title for part in document.parts if isinstance(part, Section)]
    links = "".join(f'<a href="#{escape(_anchor(name))}">{escape(name)}</a>' for name in names)
    body = render_html(document)
    for name in names:
        heading = f"<section><h3>{escape(name)}</h3>"
        body = body.replace(heading, heading.replace(">", f' id="{escape(_anchor(name))}">', 1), 1)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(document.title) or 'Tessel'}</title><style>{_PAGE_STYLE}</style></head>"
        f'<body><nav>{links}</nav>{body}<div id="tip" hidden></div>'
        f"<script>{_SCRIPT}</script></body></html>"
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")

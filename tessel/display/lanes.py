"""Lanes of spans along an axis as HTML: a strip for each lane, spans within spans below them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tessel.display.cells import cell_text
from tessel.display.documents import Lane, Lanes, Span

_COLOURS = {
    "read": "#4c8bf5",
    "fetch": "#f29900",
    "clause": "#34a853",
    "write": "#a142f4",
    "spill": "#d93025",
    "spark": "#12a4af",
    "pruned": "#8884",
}
LANES_STYLE = (
    ".tessel .lane{display:grid;grid-template-columns:11em 1fr;align-items:center;gap:.6em}"
    ".tessel .lane svg{width:100%;max-width:none;background:#8881;border-radius:2px}"
    ".tessel .lane span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;"
    "text-align:right}"
    ".tessel .axis{display:flex;justify-content:space-between;opacity:.7;"
    "font-variant-numeric:tabular-nums}"
    ".tessel .key i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}"
) + "".join(f".tessel .{kind}{{fill:{c};background:{c}}}" for kind, c in _COLOURS.items())

_WIDTH, _HEIGHT, _LEAST_WIDTH = 1_000, 14, 0.7
_TICKS = 5


def lanes_html(part: Lanes) -> Iterator[str]:
    """Give the pieces of a block that draws lanes; a script may stretch it by its ``data``."""
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
    height = depth * _HEIGHT
    yield (
        f'<svg viewBox="0 0 {_WIDTH} {height}" height="{height}" preserveAspectRatio="none" '
        f'role="img" fill="#888">{"".join(rects)}</svg>'
    )


def _rect(span: Span, stop: float, depth: int) -> str:
    left = span.start / stop * _WIDTH if stop else 0.0
    width = max(_LEAST_WIDTH, (span.stop - span.start) / stop * _WIDTH if stop else 0.0)
    return (
        f'<rect class="span {escape(span.kind)}" data-of="{escape(cell_text(span.label))}" '
        f'tabindex="0" x="{left:.2f}" y="{depth * _HEIGHT + 1}" width="{width:.2f}" '
        f'height="{_HEIGHT - 2}">'
        f"<title>{hover_text([span.label, *(f'{n}: {cell_text(v)}' for n, v in span.facts)])}"
        "</title></rect>"
    )


def axis_text(value: float) -> str:
    """Return a place on an axis, of five digits or as a whole number."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.5g}"


def hover_text(lines: list[str]) -> str:
    """Return what is shown of an element under the pointer."""
    return escape("\n".join(map(cell_text, lines)))

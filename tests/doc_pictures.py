"""Draws the pictures of ``docs/concepts.md`` from a store: ``python -m tests.doc_pictures``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path

import tessel as ts
from tessel.display.documents import Edge, Graph, Node
from tessel.display.html import render_html
from tessel.pipeline.plan import Plan, SourcePlan
from tessel.store.manifest.index import SegmentIndex

__all__ = ["PICTURES"]

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
_ROWS = 1_000


def _store() -> ts.Store:
    store = ts.open("memory://")
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    columns = {
        "time": [start + dt.timedelta(minutes=m) for m in range(_ROWS)],
        "symbol": ["AAPL", "MSFT"] * (_ROWS // 2),
        "price": [100 + m / 100 for m in range(_ROWS)],
        "volume": list(range(_ROWS)),
        "venue": ["X"] * _ROWS,
        "note": [""] * _ROWS,
    }
    with ts.options(segment_rows=250, segment_columns=2):
        store.write("trades", columns, index="time")
    return store


def _query(store: ts.Store) -> ts.LazyTable:
    query = store.scan("trades").filter("price > 104")
    return query.groupby("symbol").agg(high=("price", "max"))


def segments() -> str:
    """Draw the segments of a symbol: rows down, columns across, what is read filled."""
    plan = _query(_store()).plan()
    (source,) = plan.inputs
    assert isinstance(source, SourcePlan)
    names, index = source.view.schema.names, source.view.index()
    read = _places(source.index, len(names))
    width, height, left, top = 110, 46, 150, 34
    lines = []
    for column, name in enumerate(names):
        lines.append(_text(left + column * width + width / 2, top - 12, name, "middle"))
    for (first, last, start, end), why in _shown(index, read, source.index.row_start.min()):
        y, box = top + first * height / 250, (last - first) * height / 250 - 6
        fill = {"read": "#bcd9f5"}.get(why, "#f2f2f2")
        x, across = left + start * width, (end - start) * width - 6
        lines.append(
            f'<rect x="{x}" y="{y:g}" width="{across}" height="{box:g}" rx="4" fill="{fill}"/>'
        )
        lines.append(_text(x + across / 2, y + box / 2 + 4, why, "middle"))
        if start == 0:
            lines.append(_text(left - 10, y + box / 2 + 4, f"rows {first} to {last - 1}", "end"))
    return _svg(left + len(names) * width + 10, top + 4 * height + 10, lines)


def _places(index: SegmentIndex, columns: int) -> set[tuple[int, int, int, int]]:
    starts, ends = index.row_start.tolist(), index.row_end.tolist()
    wide = zip(index.column_start.tolist(), index.column_end.tolist(), strict=True)
    return {
        (first, last, start, min(end, columns))
        for first, last, (start, end) in zip(starts, ends, wide, strict=True)
    }


def _shown(
    index: SegmentIndex, read: set[tuple[int, int, int, int]], least: int
) -> list[tuple[tuple[int, int, int, int], str]]:
    """Return the place of each segment, and whether it is read or why not."""
    found = []
    for place in sorted(_places(index, len(index.schema.names))):
        dropped = "never price > 104" if place[0] < least else "not asked for"
        found.append((place, "read" if place in read else dropped))
    return found


def versions() -> str:
    """Draw the log of a store with a branch and a tag."""
    store = ts.open("memory://")
    store.write("trades", {"n": [1]})
    store.append("trades", {"n": [2]})
    store.create_tag("audited")
    store.create_branch("trial")
    store.on_branch("trial").append("trades", {"n": [99]})
    store.append("trades", {"n": [3]})
    lines = {name: store.on_branch(name).log()[::-1] for name in ("main", "trial")}
    tags = {number: name for name, number in store.tags().items()}
    nodes, edges = {}, set()
    for line in lines.values():
        done = [each for each in line if each.symbol or each.change == "create-branch"]
        for before, each in zip([None, *done], done, strict=False):
            tag = (("tag", tags[each.number]),) if each.number in tags else ()
            what = f"{each.change} {each.symbol}".strip()
            facts = (("branch", each.branch), ("commit", what), *tag)
            nodes[each.number] = Node(str(each.number), f"version {each.number}", facts)
            if before is not None:
                edges.add((str(before.number), str(each.number)))
    pairs = tuple(Edge(*pair) for pair in sorted(edges))
    return _of_graph(Graph(tuple(nodes[number] for number in sorted(nodes)), pairs))


def stages() -> str:
    """Draw the stages of a query that groups, and what lies between them."""
    plan: Plan = _query(_store()).plan()
    nodes = [Node("source", "segments", (("left by statistics", len(plan.inputs[0].index)),))]
    edges = []
    for number, stage in enumerate(plan.stages, start=1):
        names = tuple(("clause", clause.name) for clause in stage.clauses)
        nodes.append(Node(str(number), f"stage {number}", (("units", stage.input.value), *names)))
        edges.append(Edge(nodes[-2].name, str(number), "" if number == 1 else "barrier"))
    nodes.append(Node("result", "result", (("columns", ", ".join(plan.schema.names)),)))
    edges.append(Edge(nodes[-2].name, "result"))
    return _of_graph(Graph(tuple(nodes), tuple(edges)))


def _of_graph(graph: Graph) -> str:
    found = re.search(r"<svg .*?</svg>", render_html(graph), re.DOTALL)
    assert found is not None
    box = re.search(r'viewBox="0 0 (\d+) (\d+)"', found[0])
    assert box is not None
    body = found[0].partition(">")[2].removesuffix("</svg>")
    return _svg(int(box[1]), int(box[2]), [body.replace("currentColor", "#333")])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    shown = text.replace("<", "&lt;").replace(">", "&gt;")
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="#333" stroke="none">{shown}</text>'
    )


def _svg(width: int, height: int, lines: list[str]) -> str:
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 16}" '
        f'width="{width + 16}" height="{height + 16}" font-family="monospace" font-size="12">\n'
        f'<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" fill="#fff"/>\n'
        f'<g fill="none" stroke="#555">\n{body}\n</g>\n</svg>\n'
    )


PICTURES: dict[str, Callable[[], str]] = {
    "segments": segments,
    "versions": versions,
    "stages": stages,
}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")

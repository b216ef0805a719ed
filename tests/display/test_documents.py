"""Golden texts: each document in each form, as people and programs see it."""

from __future__ import annotations

import html.parser
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.display import (
    Document,
    Edge,
    Graph,
    Lane,
    Lanes,
    Node,
    Section,
    Span,
    Table,
    Tree,
    render_dot,
    render_html,
    render_json,
    render_mermaid,
    render_page,
    render_text,
)
from tessel.display.documents import layers, shortened, text_width
from tessel.errors import InvalidInputError, UnsupportedTypeError

TABLE = Table(
    "segments",
    ("name\nstring", "rows", "kept"),
    (("a|<b>", 12, True), (None, 1_000, False), ("日本\n", None, None)),
    ("nothing was read",),
)
TREE = Tree(
    "head",
    (("n", 5),),
    (Tree("filter", (("predicate", 'a < "x"'),), (Tree("scan"),)), Tree("other")),
)
GRAPH = Graph(
    (Node("s", "scan", (("rows", 4),)), Node("f", 'filter "a<b"'), Node("h", "head")),
    (Edge("s", "f"), Edge("f", "h", "#1 barrier")),
    "stages",
)
DOCUMENT = Document("query", (TABLE, Section("plan", ("As written.", TREE)), GRAPH))


TEXT = """\
query
═════
segments
┌────────┬──────┬───────┐
│ name   │ rows │ kept  │
│ string │      │       │
├────────┼──────┼───────┤
│ a|<b>  │   12 │ true  │
│ null   │ 1000 │ false │
│ 日本\\n │ null │ null  │
└────────┴──────┴───────┘
nothing was read

plan
As written.

head  (n=5)
├─ filter  (predicate=a < "x")
│  └─ scan
└─ other

stages
scan  (rows=4)
  ──▶ filter "a<b"
filter "a<b"
  ──▶ head  #1 barrier
head"""


def test_text():
    assert render_text(DOCUMENT) == TEXT


def test_mermaid():
    assert render_mermaid(DOCUMENT) == (
        "flowchart LR\n"
        '    g0n0["head<br/>n: 5"]\n'
        '    g0n1["filter<br/>predicate: a #lt; #quot;x#quot;"]\n'
        '    g0n2["scan"]\n'
        '    g0n3["other"]\n'
        "    g0n2 --> g0n1\n"
        "    g0n1 --> g0n0\n"
        "    g0n3 --> g0n0\n"
        '    subgraph g1["stages"]\n'
        '        g1n0["scan<br/>rows: 4"]\n'
        '        g1n1["filter #quot;a#lt;b#quot;"]\n'
        '        g1n2["head"]\n'
        "        g1n0 --> g1n1\n"
        '        g1n1 -- "#35;1 barrier" --> g1n2\n'
        "    end"
    )


def test_dot():
    assert render_dot(Section("", (GRAPH, Tree('a\\"b')))) == (
        "digraph {\n"
        "    rankdir=LR\n"
        "    node [shape=box]\n"
        "    subgraph cluster_0 {\n"
        '        label="stages"\n'
        '        g0n0 [label="scan\\nrows: 4"]\n'
        '        g0n1 [label="filter \\"a<b\\""]\n'
        '        g0n2 [label="head"]\n'
        "        g0n0 -> g0n1\n"
        '        g0n1 -> g0n2 [label="#1 barrier"]\n'
        "    }\n"
        '    g1n0 [label="a\\\\\\"b"]\n'
        "}"
    )


def test_json():
    assert json.loads(render_json(DOCUMENT)) == {
        "kind": "document",
        "title": "query",
        "parts": [
            {
                "kind": "table",
                "title": "segments",
                "columns": ["name\nstring", "rows", "kept"],
                "rows": [["a|<b>", 12, True], [None, 1000, False], ["日本\n", None, None]],
                "notes": ["nothing was read"],
            },
            {
                "kind": "section",
                "title": "plan",
                "parts": [
                    {"kind": "text", "text": "As written."},
                    {
                        "kind": "tree",
                        "label": "head",
                        "facts": {"n": 5},
                        "children": [
                            {
                                "kind": "tree",
                                "label": "filter",
                                "facts": {"predicate": 'a < "x"'},
                                "children": [
                                    {"kind": "tree", "label": "scan", "facts": {}, "children": []}
                                ],
                            },
                            {"kind": "tree", "label": "other", "facts": {}, "children": []},
                        ],
                    },
                ],
            },
            {
                "kind": "graph",
                "title": "stages",
                "nodes": [
                    {"name": "s", "label": "scan", "facts": {"rows": 4}},
                    {"name": "f", "label": 'filter "a<b"', "facts": {}},
                    {"name": "h", "label": "head", "facts": {}},
                ],
                "edges": [
                    {"source": "s", "target": "f", "label": ""},
                    {"source": "f", "target": "h", "label": "#1 barrier"},
                ],
            },
        ],
    }


def test_json_holds_no_number_that_json_has_not():
    table = Table("", ("x",), ((float("nan"),), (float("-inf"),), (Decimal("1.50"),), (0.1,)))
    rows = json.loads(render_json(table), parse_constant=pytest.fail)["rows"]
    assert rows == [["nan"], ["-inf"], ["1.50"], [0.1]]


class Outline(html.parser.HTMLParser):
    """Checks that tags close in order; keeps the tags and the text."""

    VOID = ("br", "meta")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text.append(data)


def test_html_of_a_table():
    text = render_html(TABLE)
    assert text.endswith(
        "<table><caption>segments</caption><thead><tr>"
        "<th>name<br><small>string</small></th>"
        '<th class="number">rows</th><th>kept</th></tr></thead><tbody>'
        '<tr><td>a|&lt;b&gt;</td><td class="number">12</td><td>true</td></tr>'
        '<tr><td class="missing">null</td><td class="number">1000</td><td>false</td></tr>'
        '<tr><td>日本\\n</td><td class="number missing">null</td>'
        '<td class="missing">null</td></tr>'
        '</tbody></table><p class="note">nothing was read</p></div>'
    )


@pytest.mark.parametrize("page", [False, True])
def test_html_is_whole_and_fetches_nothing(page):
    text = render_page(DOCUMENT) if page else render_html(DOCUMENT)
    outline = Outline(text)
    assert text.startswith("<!DOCTYPE html>" if page else '<div class="tessel">')
    links = [names["href"] for _, names in outline.seen if "href" in names]
    assert all(link is not None and link.startswith("#") for link in links)
    assert not any("src" in names for _, names in outline.seen)
    assert [tag for tag, _ in outline.seen].count("script") == page
    assert "url(" not in text
    assert "@import" not in text
    shown = "".join(outline.text)
    for told in ("segments", "a|<b>", "nothing was read", "As written.", 'a < "x"', "#1 barrier"):
        assert told in shown
    assert [tag for tag, _ in outline.seen].count("rect") == 3


NASTY = '<script>alert("&")</script>'


def test_nothing_of_a_document_becomes_markup():
    document = Document(
        NASTY,
        (
            NASTY,
            Table(NASTY, (NASTY,), ((NASTY,),), (NASTY,)),
            Tree(NASTY, ((NASTY, NASTY),)),
            Section(NASTY, (Graph((Node("n", NASTY, ((NASTY, NASTY),)),), (), NASTY),)),
            Graph((Node("n", "n"),), (Edge("n", "n", NASTY),)),
        ),
    )
    span = Span(0, 1, NASTY, NASTY, ((NASTY, NASTY),))
    lanes = Lanes(NASTY, NASTY, 1, (Lane(NASTY, (span,)),), (NASTY,))
    document = Document(NASTY, (*document.parts, lanes, Section(NASTY, (lanes,))))
    outline = Outline(render_page(document))
    assert [tag for tag, _ in outline.seen].count("script") == 1  # its own
    assert "".join(outline.text).count("<script>") >= 40


# --- lanes ------------------------------------------------------------------------------------

LANES = Lanes(
    "rows",
    "ms",
    8.0,
    (
        Lane("thread 1", (Span(0, 4, "a", "read", (("rows", 3),)), Span(1, 2, "b", "clause"))),
        Lane("two", (Span(6, 8, "c", "pruned"), Span(4, 5, "d"))),
    ),
    ("one is not drawn",),
)


def test_lanes_as_text():
    assert render_text(LANES, width=18) == (
        "rows\nthread 1  ████····\ntwo       ····█···\n0 to 8 ms\none is not drawn"
    )
    assert render_text(LANES, width=14).split("\n")[1:3] == ["thread 1  ██··", "two       ··▒·"]
    assert render_text(Lanes("", "rows", 0.0, (Lane("x", (Span(0, 0, "y"),)),)), width=5) == (
        "x  ··\n0 to 0 rows"
    )


def test_lanes_as_html():
    outline = Outline(render_html(LANES))
    rects = [names for tag, names in outline.seen if tag == "rect"]
    places = [(each["data-of"], each["x"], each["y"], each["width"]) for each in rects]
    assert places == [
        ("a", "0.00", "1", "500.00"),
        ("b", "125.00", "15", "125.00"),  # within the one before, and so below it
        ("d", "500.00", "1", "125.00"),
        ("c", "750.00", "1", "250.00"),
    ]
    assert "a\nrows: 3" in outline.text
    assert [names["height"] for tag, names in outline.seen if tag == "svg"] == ["28", "14"]


def test_lanes_as_json():
    told = json.loads(render_json(LANES))
    assert told["lanes"][0]["spans"][0] == {
        **{"start": 0, "stop": 4, "label": "a", "kind": "read", "facts": {"rows": 3}}
    }


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 9)])
def test_a_span_outside_of_its_axis_is_refused(start, stop):
    with pytest.raises(InvalidInputError, match="on an axis to 8"):
        Lanes("", "ms", 8, (Lane("x", (Span(start, stop, "y"),)),))


# --- width --------------------------------------------------------------------------------------


def test_text_is_cut_before_numbers_and_columns():
    table = Table("", ("number", "text"), ((123_456_789, "x" * 60),))
    assert render_text(table, width=44) == (
        "┌───────────┬──────────────────────────────┐\n"
        "│    number │ text                         │\n"
        "├───────────┼──────────────────────────────┤\n"
        "│ 123456789 │ xxxxxxxxxxxxxxxxxxxxxxxxxxx… │\n"
        "└───────────┴──────────────────────────────┘"
    )


def test_columns_in_the_middle_give_way_and_the_rest_stays_whole():
    table = Table("", tuple("abcdef"), (tuple(10_000_000 + at for at in range(6)),))
    assert render_text(table, width=40) == (
        "┌──────────┬──────────┬───┬──────────┐\n"
        "│        a │        b │ … │        f │\n"
        "├──────────┼──────────┼───┼──────────┤\n"
        "│ 10000000 │ 10000001 │ … │ 10000005 │\n"
        "└──────────┴──────────┴───┴──────────┘"
    )


def test_a_table_without_rows_and_one_without_columns():
    assert render_text(Table("t", ("a",), (), ("n",))) == "t\n┌───┐\n│ a │\n└───┘\nn"
    assert render_text(Table("t", (), ((), ()), ("n",))) == "t\nn"


cells = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=60)


@given(st.data(), st.integers(1, 8), st.integers(40, 150))
def test_boxes_are_straight_and_within_the_width(data: st.DataObject, columns: int, width: int):
    rows = data.draw(st.lists(st.tuples(*[cells] * columns), max_size=5))
    headings = data.draw(st.tuples(*[st.text(max_size=30)] * columns))
    lines = render_text(Table("", headings, tuple(rows)), width=width).splitlines()
    widths = {text_width(line) for line in lines}
    assert len(widths) == 1
    # The first and the last column always stay; two of them, at least 24 wide, and an ellipsis.
    assert widths.pop() <= max(width, 2 * 27 + 5)


def test_a_heading_without_width_takes_a_cell():
    headings = ("\u0301\naaaa", "b" * 40)
    lines = render_text(Table("", headings, ()), width=31).splitlines()
    assert len({text_width(line) for line in lines}) == 1


@given(st.text(), st.integers(1, 20))
def test_shortened_text_fits(text: str, width: int):
    short = shortened(text, width)
    assert text_width(short) <= width
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


# --- misuse -------------------------------------------------------------------------------------


def test_documents_check_themselves():
    with pytest.raises(InvalidInputError, match="a row of 1 values in a table of 2 columns"):
        Table("t", ("a", "b"), ((1,),))
    with pytest.raises(InvalidInputError, match="two nodes of a graph are named 'a'"):
        Graph((Node("a", "x"), Node("a", "y")))
    with pytest.raises(InvalidInputError, match="refers to 'b', which is no node"):
        Graph((Node("a", "x"),), (Edge("a", "b"),))


@pytest.mark.parametrize("render", [render_mermaid, render_dot])
def test_a_document_with_nothing_to_draw_says_so(render):
    with pytest.raises(InvalidInputError, match="no graph and no tree"):
        render(Document("d", (TABLE, "text")))


@pytest.mark.parametrize("render", [render_text, render_html, render_json])
def test_what_is_no_part_is_refused(render):
    with pytest.raises(UnsupportedTypeError, match="a int is no part of a document"):
        render(Section("s", (3,)))


# --- layout -------------------------------------------------------------------------------------


def names(graph: Graph) -> list[list[str]]:
    return [[node.name for node in layer] for layer in layers(graph)]


def graph(nodes: str, *edges: str) -> Graph:
    return Graph(tuple(Node(n, n) for n in nodes), tuple(Edge(e[0], e[1]) for e in edges))


def test_layers():
    assert names(graph("dcba", "ab", "bd", "ac", "cd", "ad")) == [["a"], ["c", "b"], ["d"]]
    assert names(graph("ab")) == [["a", "b"]]
    assert layers(Graph(())) == []


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12))
def test_layers_place_every_node_once_also_with_cycles(pairs: list[tuple[str, str]]):
    drawn = graph("abcdef", *["".join(pair) for pair in pairs])
    placed = {name: at for at, layer in enumerate(names(drawn)) for name in layer}
    assert sorted(placed) == list("abcdef")
    forward = graph("abcdef", *["".join(sorted(pair)) for pair in pairs if pair[0] != pair[1]])
    placed = {name: at for at, layer in enumerate(names(forward)) for name in layer}
    assert all(placed[edge.source] < placed[edge.target] for edge in forward.edges)
    Outline(render_html(drawn))

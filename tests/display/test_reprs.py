"""What notebooks show of stores, queries, versions and differences."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import tessel as ts
from tessel.display.preview import preview
from tessel.errors import NameNotFoundError

HOSTILE = '<img src=x onerror="alert(1)">'


class _Cells(HTMLParser):
    """The texts of a page, and the names of its elements, each of which is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.names: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _shown(value: Any) -> _Cells:
    found = _Cells(value._repr_html_())
    assert not found.names & {"img", "script", "link"}
    return found


@pytest.fixture
def store() -> ts.Store:
    store = ts.open("memory://")
    times = pa.array([1, 2, 3], pa.timestamp("us"))
    store.write("trades", pa.table({HOSTILE: ["a", HOSTILE, None], "t": times}), index="t")
    return store


def test_a_store(store: ts.Store) -> None:
    assert _shown(store).texts[-4:] == ["trades", "3", "2", "t"]
    for number in range(25):
        store.write(f"other{number}", {"n": [number]})
    shown = _shown(store)
    assert shown.texts[-1] == "6 more: symbols()"
    assert len([text for text in shown.texts if text.startswith("other")]) == 20


def test_queries(store: ts.Store) -> None:
    query = ts.QueryBuilder().filter(ts.col(HOSTILE) == "a").head(2)
    lines = ["head(n=2)"]
    assert _shown(query).texts[-1:] == lines
    texts = _shown(store.scan("trades").then(*query.clauses)).texts
    assert lines[0] in texts
    columns = [HOSTILE, "string", "t", "timestamp[us]", "index"]
    assert texts[texts.index("type") + 1 :] == [*columns, "not run yet: collect() runs it"]
    # A query that is wrong, or whose symbol is gone, shows why.
    assert "no symbol 'trade'" in " ".join(_shown(store.scan("trade")).texts)
    assert "'no'" in " ".join(_shown(store.scan("trades").select("no")).texts)


def test_versions_and_what_differs(store: ts.Store) -> None:
    store.append("trades", pa.table({HOSTILE: ["b"], "t": pa.array([4], pa.timestamp("us"))}))
    store.write(HOSTILE, {"n": [1]})
    texts = _shown(store.log()).texts
    assert HOSTILE in texts
    assert texts[texts.index("append") - 3] == "2"
    assert store.log("trades") == list(store.log("trades"))
    texts = _shown(store.diff(1, 3)).texts
    assert {"version 1 → 3", "added", "changed", HOSTILE} <= set(texts)
    assert store.diff(1, 3).rows[0] == {
        "symbol": HOSTILE,
        "change": "added",
        **dict.fromkeys(
            ["rows_before", "rows_after", "segments_removed", "segments_added", "columns"]
        ),
    }


def test_results_have_the_index_first_and_leave_the_middle_of_many_columns_out() -> None:
    wide = pa.table({f"c{number}": [number] for number in range(100)})
    shown = preview(wide, index="c99")
    assert shown.title == "1 row × 100 columns"
    assert len(shown.columns) == 41
    assert shown.columns[0] == "c99\nint64 (index)"
    assert shown.columns[20] == shown.rows[0][20] == "…"
    assert shown.columns[-1] == "c98\nint64"
    assert shown.notes == ("60 columns not shown",)


def test_times_do_not_wrap_and_long_texts_do(store: ts.Store) -> None:
    store.write("notes", {"t": pa.array([1], pa.timestamp("ns")), "w": ["word " * 40]})
    page = store.read("notes")._repr_html_()
    assert "<td>1970-01-01 00:00:00.000000001</td>" in page
    assert '<td class="long">word word' in page


def test_an_explanation_is_its_text_and_has_no_other_formats() -> None:
    store = ts.open("memory://")
    store.write("t", {"a": [1]})
    shown = store.scan("t").filter("a > 0").explain()
    assert str(shown) == repr(shown) == shown.render("text") == shown.render()
    assert shown._repr_html_() == shown.render("html")
    assert json.loads(shown.render("json"))
    with pytest.raises(NameNotFoundError, match="did you mean 'html'"):
        shown.render("htm")

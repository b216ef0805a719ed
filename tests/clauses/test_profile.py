"""Profiles of runs: figures against the rows themselves, traces and pages as files."""

from __future__ import annotations

import html.parser
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts
from tessel.display.documents import Document, Graph, Lanes, Part, Section
from tessel.errors import InvalidInputError
from tessel.pipeline.run_page import page_of

ROWS = 40_000
RANDOM = np.random.default_rng(7)
TABLE = pa.table(
    {
        "t": pa.array(np.arange(ROWS), pa.timestamp("s")),
        "n": np.arange(ROWS),
        "k": RANDOM.integers(0, 5, ROWS),
        "x": RANDOM.random(ROWS),
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ts.Store:
    store = ts.open(tmp_path_factory.mktemp("profile") / "store")
    with ts.options(segment_rows=5_000):
        store.write("s", TABLE, index="t")
        store.write("few", pa.table({"k": [1, 2], "name": ["a", "b"]}))
    return store


def _lines(result: ts.Result) -> dict[str, dict[str, Any]]:
    return {line["clause"]: line for line in result.profile().to_arrow().to_pylist()}


def test_rows_units_and_time_of_a_filter_are_those_of_the_table(store: ts.Store) -> None:
    result = store.scan("s").filter("x > 0.75").collect()
    line = _lines(result)["filter"]
    expected = int((TABLE["x"].to_numpy() > 0.75).sum())
    assert (line["rows_in"], line["rows_out"], line["units"]) == (ROWS, expected, 8)
    assert line["busy_ns"] > 0
    profile = result.profile()
    assert profile.rows == len(result) == expected
    assert 0 < profile.seconds < 600
    assert profile.seconds * 1e9 <= result.lineage.elapsed_ns


def test_it_is_what_explain_tells(store: ts.Store) -> None:
    lazy = store.scan("s").filter("x > 0.5").groupby("k").agg(n="count")
    explained = lazy.explain(analyze=True)
    assert explained.profile is not None
    told, profile = explained.profile.to_arrow(), lazy.collect().profile()
    assert told.drop(["busy_ns"]).equals(profile.to_arrow().drop(["busy_ns"]))
    assert [part.title for part in explained.document.parts[-2:]] == [  # type: ignore[union-attr]
        table.title for table in profile.tables
    ]
    assert lazy.explain().profile is None
    assert "clauses as they ran" in str(profile)
    assert "<table>" in profile._repr_html_()
    assert json.loads(profile.render("json"))["title"] == "run"


def test_what_is_asked_first_is_told_apart(store: ts.Store) -> None:
    profile = store.scan("s").join("few", on="k").filter("n < 100").collect().profile()
    names = set(profile.to_arrow()["clause"].to_pylist())
    assert profile.plan.question is None
    if profile.asked.question is not None and profile.asked.question.purpose:
        assert profile.tables[0].title == "asked first"
    assert names


def test_runs_of_other_threads_are_not_in_it(store: ts.Store) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def run(limit: int) -> int:
        result = store.scan("s").filter(f"x * 0 + n < {limit}").collect()
        return int(_lines(result)["filter"]["rows_out"])

    limits = [1_000 * at for at in range(1, 30)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, limits)) == limits


def test_a_result_that_travelled_has_no_run(store: ts.Store) -> None:
    result = store.read("s")
    there = pickle.loads(pickle.dumps(result))
    assert there.to_arrow().equals(result.to_arrow())
    assert there.lineage == result.lineage
    with pytest.raises(InvalidInputError, match="not known in this process"):
        there.profile()


# --- traces -----------------------------------------------------------------------------------


def test_a_trace_is_an_array_of_events_on_tracks(store: ts.Store, tmp_path: Path) -> None:
    with ts.options(workers=3, inline_bytes=0):
        profile = store.scan("s").filter("x > 0.5").sort("x").collect().profile()
    profile.write_trace(tmp_path / "trace.json")
    lines = json.loads((tmp_path / "trace.json").read_text())
    tracks = {line["tid"]: line["args"]["name"] for line in lines if line["ph"] == "M"}
    events = [line for line in lines if line["ph"] == "X"]
    assert {line["tid"] for line in events} <= set(tracks)
    assert len(set(tracks.values())) == len(tracks)
    filters = [line for line in events if line["name"] == "filter"]
    assert sum(line["args"]["rows_in"] for line in filters) == ROWS
    assert all(0 <= line["ts"] <= profile.seconds * 1e6 for line in events)
    assert all(line["ts"] + line["dur"] <= profile.seconds * 1e6 + 1 for line in events)
    assert all("plan" not in line["args"] for line in lines)


@pytest.mark.parametrize("name", ["write_trace", "write_html"])
@pytest.mark.parametrize("path", ["absent/folder/file", "", "a\0b"])
def test_a_file_that_cannot_be_written_is_one_error_and_the_answer_stays(
    store: ts.Store, name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = store.scan("s").head(3).collect()
    with pytest.raises(InvalidInputError, match="no file can be written at"):
        getattr(result.profile(), name)(path)
    assert len(result) == 3
    assert list(tmp_path.iterdir()) == []


# --- pages --------------------------------------------------------------------------------------


def _parts(document: Document | Section) -> list[Part]:
    found: list[Part] = []
    for part in document.parts:
        found += _parts(part) if isinstance(part, Section) else [part]
    return found


def _lanes(result: ts.Result) -> list[Lanes]:
    return [part for part in _parts(page_of(result.profile())) if isinstance(part, Lanes)]


def test_pruned_and_read_segments_cover_the_rows(store: ts.Store) -> None:
    result = (
        store.scan("s")
        .date_range("1970-01-01T03:20:00", "1970-01-01T05:33:20")
        .filter("x >= 0")
        .collect()
    )
    _, pruning = _lanes(result)
    spans = pruning.lanes[0].spans
    assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
    assert (spans[0].start, spans[-1].stop, pruning.stop) == (0, ROWS, ROWS)
    read = sum(span.stop - span.start for span in spans if span.kind == "read")
    assert 8_000 <= read <= 15_000
    assert all("date_range" in dict(span.facts)["why"] for span in spans if span.kind == "pruned")


def test_pages_are_drawn_by_clause_as_explain_counts_them(store: ts.Store) -> None:
    rows = 5 * ROWS
    store.write("long", pa.table({"n": np.arange(rows)}))
    query = store.scan("long").filter("n < 1000")
    _, pruning = _lanes(query.collect())
    (first,) = pruning.lanes[1:]
    assert [span.start for span in first.spans[1:]] == [span.stop for span in first.spans[:-1]]
    left = sum(span.stop - span.start for span in first.spans if span.kind == "read")
    assert 1_000 <= left < rows
    explained = next(p for p in query.explain(pages=True).document.parts if "pages of" in str(p))
    assert explained.rows[0][2] == f"{rows:,} → {int(left):,}"  # type: ignore[union-attr]
    assert {dict(s.facts)["never"] for s in first.spans if s.kind == "pruned"} == {
        "filter(n < 1000)"
    }


def test_the_plan_is_drawn_as_it_ran(store: ts.Store) -> None:
    result = (
        store.scan("s")
        .filter("x > 0.5")
        .join("few", on="k")
        .groupby("name")
        .agg(n="count")
        .collect()
    )
    graph = next(p for p in _parts(page_of(result.profile())) if isinstance(p, Graph))
    labels = [node.label.partition("(")[0] for node in graph.nodes]
    assert labels.count("read 's'") == labels.count("read 'few'") == 1
    ends = {edge.source for edge in graph.edges}
    assert [node.label for node in graph.nodes if node.name not in ends] == ["result"]


class _Checked(html.parser.HTMLParser):
    """Checks that elements close in order, and keeps what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.fetched += [str(told[name]) for name in ("src", "href", "data") if name in told]
        self.ids += [str(told["id"])] if "id" in told else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_fetches_nothing(store: ts.Store, tmp_path: Path) -> None:
    store.write("<i>'s\"", TABLE)
    lazy = store.scan("<i>'s\"").filter("x > 0.5").sort("x")
    lazy.collect().profile().write_html(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    checked = _Checked(text)
    assert all(link.startswith("#") and link[1:] in checked.ids for link in checked.fetched)
    assert "<i>" not in text.replace("<i class", "")
    assert "default-src 'none'" in html.unescape(text)
    for word in ("url(", "@import", "http:", "https:", "fetch(", "XMLHttp"):
        assert word not in text


def test_a_page_of_a_version_that_is_gone_says_so(
    store: ts.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessel.errors import SnapshotExpiredError
    from tessel.pipeline import run_page

    def gone(*_: object) -> None:
        raise SnapshotExpiredError("version 1 has expired")

    result = store.scan("s").filter("x > 0.5").collect()
    monkeypatch.setattr(run_page, "pages_asked", gone)
    parts = _parts(page_of(result.profile()))
    assert any("cannot be read: version 1 has expired" in part for part in map(str, parts))


def test_many_events_leave_the_shortest_out(
    store: ts.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessel.pipeline import run_page

    monkeypatch.setattr(run_page, "_MOST_SPANS", 3)
    timeline = _lanes(store.scan("s").filter("x > 0.5").collect())[0]
    assert sum(len(lane.spans) for lane in timeline.lanes) == 3
    assert "are not drawn" in timeline.notes[0]


def test_nothing_of_a_symbol_is_read_and_drawn(store: ts.Store) -> None:
    store.write("none", TABLE.slice(0, 0))
    for lazy in (store.scan("none").filter("x > 1"), store.scan("s").filter("n < 0")):
        assert _lanes(lazy.collect())

"""explain as people read it: what the planner did, what is dropped and why, stages and barriers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel import telemetry
from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.display.documents import Table
from tessel.ecs import ComponentManager, FetchCount
from tessel.errors import NameNotFoundError, TesselError
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.pipeline import executor as pipeline
from tessel.pipeline import explain_metadata
from tessel.pipeline.explain import Explanation
from tessel.pipeline.plan import Plan
from tessel.store.manifest.piece import PieceSource
from tests.clauses.helpers import SETTINGS, events, fresh_store
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.steps import Step

Q = QueryBuilder()
PAGE = 1 << 16


@pytest.fixture(scope="module")
def store() -> Store:
    """Four pages in one segment, a row a minute; ``b`` is 0 in the first two pages and 1 after."""
    store = fresh_store()
    rows = np.arange(4 * PAGE)
    minutes = pa.array(rows * 60_000_000, pa.int64()).cast(pa.timestamp("us"))
    store.write("x", pa.table({"t": minutes, "a": rows, "b": rows // (2 * PAGE)}), index="t")
    store.write("y", pa.table({"t": minutes[:3], "a": pa.array([1, 2, 3], pa.int32())}), index="t")
    return store


def _golden(name: str) -> str:
    """Return the text that is expected."""
    return (Path(__file__).parent / "golden" / f"explain_{name}.txt").read_text(encoding="utf-8")


def _text(explanation: object) -> str:
    text = re.sub(r"about [\d,]+ bytes", "about N bytes", str(explanation)) + "\n"
    return re.sub(r"│ [0-9a-f]{8} @", "│ XXXXXXXX @", text)


def test_one_symbol(store: Store) -> None:
    query = (
        Q.apply("c", "a + b")
        .filter("t >= '1970-03-01' and a < 200000 and b > 0 and 1 < 2")
        .select("c")
        .head(7)
    )
    with events("segment.read") as found:
        assert _text(store.explain("x", query, pages=True)) == _golden("one_symbol")
    assert not found


def test_several_symbols(store: Store) -> None:
    query = Q.merge("y").filter("a > 5").head(3)
    assert _text(store.explain("x", query)) == _golden("several_symbols")


def test_what_statistics_tell(store: Store) -> None:
    query = Q.filter("a < 1000000").agg(n="size", low=("a", "min"))
    assert _text(store.explain("x", query)) == _golden("statistics")


def test_pages_are_told_of_few_segments_or_if_asked_for(store: Store) -> None:
    query = Q.filter("a > 5")
    assert "pages of" not in str(store.explain("x", query, pages=False))
    told = "│ filter │ 4 → 4 │ 262,144 → 262,144 │     │"
    assert told in str(store.explain("x", query))
    assert told in str(store.explain("x", query, pages=True))
    with options(segment_rows=2):
        store.write("many", {"a": list(range(130))})
    assert "pages of" not in str(store.explain("many", query))
    assert "page tables of 63 segments were read" in str(
        store.explain("many", Q.filter("a < 126 and a % 2 == 0"))
    )
    assert "pages of" not in str(store.explain("x", Q.head(5), pages=True))
    assert "pages of" not in str(store.explain("x", Q.filter("a < 0"), pages=True))


def test_rows_ruled_out_are_those_that_no_answer_has(store: Store) -> None:
    query = Q.date_range("1970-02-01", "1970-03-01").filter("a % 2 == 0 and b == 0")
    text = str(store.explain("x", query, pages=True))
    assert "│ date_range │ 4 → 2 │ 262,144 → 131,072 │" in text
    assert len(store.read("x", query=query)) <= 131_072


# --- what is said is what runs --------------------------------------------------------------------


def _said(explanation: Explanation) -> Counter[str]:
    """Return what an explanation says of a run, in numbers."""
    found: Counter[str] = Counter(segments=0, rows=0, units=0, barriers=0)
    for part in explanation.document.parts:
        text = " ".join(getattr(part, "notes", ()))
        read = re.search(r"to read at most: ([\d,]+) segments?, ([\d,]+) rows", text)
        if read is not None:
            found["segments"] += int(read[1].replace(",", ""))
            found["rows"] += int(read[2].replace(",", ""))
        for row in getattr(part, "rows", ()) if part.title.endswith("stages") else ():
            if row[0] == "1" and (units := re.match(r"([\d,]+)(: \[|$)", row[-1])):
                found["units"] += int(units[1].replace(",", ""))
            found["barriers"] += row[-1] == "units are grouped anew"
            found["takes"] += "as stored" in " ".join(row)
    return found


def _ran(seen: Sequence[telemetry.Event]) -> Counter[str]:
    reads = [each.attributes for each in seen if each.name == "segment.read"]
    starts = [each.attributes["units"] for each in seen if each.name == "stage.start"]
    return Counter(
        segments=len({each["object"] for each in reads}),
        rows=sum(each.get("rows", 0) for each in reads),
        units=sum(starts),
        barriers=sum(each.name == "barrier" for each in seen),
    )


def _plans(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in plan.inputs:
        if isinstance(part, Plan):
            yield from _plans(part)


def _may_stop_early(steps: Sequence[Step]) -> bool:
    return any(
        step.verb in ("head", "tail", "row_range", "top_k")
        or _may_stop_early(step.arguments.get("steps", ()))
        for step in steps
    )


def _index(table: pa.Table) -> str | None:
    return "t" if "t" in table.column_names else None


def _compare(data: st.DataObject) -> None:
    tables = {"x": data.draw(query_tables()), "y": data.draw(query_tables(max_rows=8))}
    schemas = {n: TableSchema(t.schema, _index(t)) for n, t in tables.items()}
    steps = data.draw(chains(schemas["x"], others={"y": schemas["y"]}))
    store, query = fresh_store(), build(steps)
    note(repr(query))
    # A row range is one segment, so that rows read are rows of the symbol.
    with options(segment_rows=data.draw(st.integers(1, 9)), segment_columns=1_000):
        for name, table in tables.items():
            store.write(name, table, index=_index(table))
    seen: list[telemetry.Event] = []
    setting: dict[str, Any] = data.draw(st.sampled_from(SETTINGS))
    with options(**setting):
        explanation = store.explain("x", query, pages=data.draw(st.booleans()))
        if any(plan.question is not None for plan in _plans(explanation.plan)):
            return  # what is run follows from an answer that is in the rows
        with telemetry.subscribe(seen.append):
            try:
                store.read("x", query=query)
            except TesselError:
                return
    said, ran = _said(explanation), _ran(seen)
    note(f"{explanation}")
    assert all(ran[what] <= said[what] for what in ran), (said, ran)
    if not _may_stop_early(steps):
        assert (ran["units"], ran["barriers"]) == (said["units"], said["barriers"])


@settings(max_examples=40)
@given(data=st.data())
def test_what_is_said_is_what_runs(data: st.DataObject) -> None:
    _compare(data)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(data=st.data())
def test_what_is_said_is_what_runs_of_many(data: st.DataObject) -> None:
    _compare(data)


@pytest.mark.parametrize(
    "query",
    [
        Q.select("a"),
        Q.filter("a > 17"),
        Q.resample("7min").agg(n=("a", "nunique")),
        Q.filter("a > 3").sort("b"),
        Q.filter("b > 3").merge("y"),
    ],
    ids=repr,
)
def test_the_entities_that_are_said_are_those_of_a_run(
    query: QueryBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, ...]] = []

    class Noting(ComponentManager):
        def add(self, count: int, columns: Mapping[type, Sequence[Any]]) -> list[int]:
            if PieceSource in columns:
                for source, fetches in zip(columns[PieceSource], columns[FetchCount], strict=True):
                    rows, cols = source.row_range, source.col_range
                    facts = (f"{source.key.object.split('/')[-1][:8]} @{source.key.offset:,}",)
                    ranges = f"[{rows.start}, {rows.end})", f"[{cols.start}, {cols.end})"
                    made.append((*facts, *ranges, str(fetches.planned)))
            return super().add(count, columns)

    store = fresh_store()
    rows = pa.array(range(24))
    minutes = pa.array([row * 60_000_000 for row in range(24)], pa.timestamp("us"))
    with options(segment_rows=5, segment_columns=2):
        for name in ("x", "y"):
            store.write(name, pa.table({"t": minutes, "a": rows, "b": rows}), index="t")
    explanation = store.explain("x", query)
    monkeypatch.setattr(pipeline, "ComponentManager", Noting)
    monkeypatch.setattr(explain_metadata, "_SHOWN_ENTITIES", 100)
    whole = store.explain("x", query)
    store.read("x", query=query)
    said = _entities(whole)
    assert [(*row[1:4], row[7]) for row in said] == made
    assert all(len(row[6].split()) == int(row[7]) for row in said)
    assert set(_entities(explanation)) <= set(said)


def _entities(explanation: Explanation) -> list[tuple[Any, ...]]:
    tables = [part for part in explanation.document.parts if isinstance(part, Table)]
    return [row for part in tables if "entities of" in part.title for row in part.rows]


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        (pa.array([3, 9], pa.int32()), "3", "9"),
        (pa.array([0, 400], pa.int32()).cast(pa.date32()), "1970-01-01", "1971-02-05"),
        (
            pa.array([1, 2], pa.timestamp("ns", "UTC")),
            *(f"1970-01-01T00:00:00.00000000{n}Z" for n in "12"),
        ),
        (None, "", ""),
    ],
    ids=str,
)
def test_times_of_entities_are_those_of_the_index(
    values: pa.Array | None, first: str, last: str
) -> None:
    store = fresh_store()
    columns = {"a": pa.array([1, 2])} if values is None else {"t": values, "a": pa.array([1, 2])}
    store.write("x", pa.table(columns), index=None if values is None else "t")
    ((*_, found_first, found_last, _, _),) = _entities(store.explain("x", Q))
    assert (found_first, found_last) == (first, last)


def test_of_many_entities_the_first_are_shown() -> None:
    store = fresh_store()
    with options(segment_rows=1):
        store.write("x", pa.table({"a": range(1_200)}))
    explanation = store.explain("x", Q.agg(n=("a", "nunique")))
    assert len(_entities(explanation)) == 8
    assert "and 1,192 more" in str(explanation)
    assert _entities(store.explain("x", Q.filter("a < 0"))) == []


def test_a_stream_is_not_said_to_be_grouped(store: Store) -> None:
    query = Q.filter("a > 5").sort("b").head(3)
    text = str(store.explain("x", query))
    assert "units are taken in order" in text
    assert "grouped anew" not in text
    with events("barrier") as found:
        store.read("x", query=query)
    assert not found


def test_rows_of_pages_that_are_dropped_are_not_to_be_read(store: Store) -> None:
    query = Q.filter("b > 0 and a % 3 == 0").select("a")
    explanation = store.explain("x", query, pages=True)
    assert "to read at most: 1 segment, 131,072 rows" in str(explanation)
    with events("segment.read") as found:
        store.read("x", query=query)
    assert sum(each.attributes["rows"] for each in found) <= 131_072


def test_nothing_is_said_that_pages_decide(store: Store) -> None:
    for query in (Q.groupby("b").agg(n=("a", "sum")), Q.agg(n=("a", "sum"))):
        assert "as stored" not in str(store.explain("x", query, pages=True))


def test_rows_that_pass_an_outer_join_are_not_said_to_be_grouped(store: Store) -> None:
    store.write("other", pa.table({"a": [1, 2_000_000], "z": [0.5, 1.5]}))
    query = Q.select("a").join("other", "a", "outer")
    text = str(store.explain("x", query))
    assert "append_unmatched" in text
    assert "grouped anew" not in text
    with events("barrier") as found:
        store.read("x", query=query)
    assert not found


def test_a_plan_is_a_graph_in_two_languages() -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": [1, 2], "v": [1, 2]}))
    lazy = store.scan("x").filter("v > 1").groupby("k").agg(a=("v", "sum"))
    explained, ran = lazy.explain(), lazy.explain(analyze=True)
    for form, opening, arrow in [("mermaid", "flowchart", "-->"), ("dot", "digraph", "->")]:
        text = explained.render(form)
        assert text.startswith(opening)
        assert f"g0n0 {arrow} g0n1" in text
        assert "merge_aggregation" in text
        assert "kernel on stored columns" not in text
        assert "kernel on stored columns" in ran.render(form)
    with pytest.raises(NameNotFoundError, match="mermayd"):
        explained.render("mermayd")


def test_every_cell_and_line_is_in_the_arrow_form() -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": [1, 2], "v": [1, 2]}))
    lazy = store.scan("x").filter("v > 1").groupby("k").agg(a=("v", "sum"))
    for explained in lazy.explain(), lazy.explain(analyze=True):
        found = explained.to_arrow()
        assert found.schema == pa.schema(
            [("table", "string"), ("row", "int64"), ("column", "string"), ("value", "string")]
        )
        rows = found.to_pylist()
        for table in explained.document.parts:
            assert isinstance(table, Table)
            mine = [each for each in rows if each["table"] == table.title]
            cells = [each["value"] for each in mine if each["row"] is not None]
            assert cells == [str(value) for row in table.rows for value in row]
            assert [each["value"] for each in mine if each["row"] is None] == list(table.notes)

"""Each pass of the planner by golden before and after, and the walk-through of the design."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import Head, QueryBuilder, UnitFacts
from tessel.ecs.piece import ColRange, RowRange
from tessel.errors import IndexColumnError, NameNotFoundError
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.desugar import desugar
from tessel.pipeline.planner.draft import Draft
from tessel.pipeline.planner.lower_aggregation import lower_aggregation
from tessel.pipeline.planner.lower_order import lower_order, take_codes
from tessel.pipeline.planner.planner import PASSES
from tessel.pipeline.planner.prune_columns import prune_columns
from tessel.pipeline.planner.pushdown import push_to_source
from tessel.pipeline.planner.simplify import simplify_sorts
from tests.clauses.helpers import stored

Q = QueryBuilder()
SCHEMA = TableSchema(
    pa.schema(
        [("t", pa.timestamp("us")), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())]
    ),
    "t",
)


def _lines(draft: Draft) -> list[str]:
    """Return a draft as text: what is asked of the index, what is read, what runs."""
    lines = [f"index: {clause.describe()}" for clause in draft.pruning]
    lines += [] if draft.columns is None else [f"read: {', '.join(draft.columns)}"]
    return lines + [clause.describe() for clause in draft.clauses]


def _after(run_pass: object, query: QueryBuilder, **facts: int) -> list[str]:
    return _lines(run_pass(Draft(SCHEMA, query.clauses, **facts)))  # type: ignore[operator, arg-type]


@dataclass(frozen=True)
class Golden:
    query: QueryBuilder
    after: list[str]


DROPS = [
    Golden(Q.drop("a"), ["select(columns=['t', 'b', 'c'])"]),
    Golden(
        Q.drop("a").drop("c"), ["select(columns=['t', 'b', 'c'])", "select(columns=['t', 'b'])"]
    ),
    Golden(Q.head(2), ["head(n=2)"]),
]


@pytest.mark.parametrize("golden", DROPS, ids=lambda g: str(g.after))
def test_desugar(golden: Golden) -> None:
    assert _after(desugar, golden.query) == golden.after


PUSHED = [
    Golden(Q.filter("a > 1"), ["index: filter(a > 1)", "filter(a > 1)"]),
    Golden(
        Q.head(2).filter("a > 1"), ["index: head(n=2)", "index: filter(a > 1)", "filter(a > 1)"]
    ),
    Golden(
        Q.filter("a > 1").head(2).filter("b > 1"),
        ["index: filter(a > 1)", "filter(a > 1)", "head(n=2)", "filter(b > 1)"],
    ),
    Golden(
        Q.apply("a", "b").filter("a > 1").filter("b > 1"),
        ["index: filter(b > 1)", "apply(column='a', b)", "filter(a > 1)", "filter(b > 1)"],
    ),
    Golden(
        Q.rename({"a": "b", "b": "a"}).filter("a > 1").filter("c == 'x'").tail(2),
        [
            "index: filter(c == 'x')",
            "rename(columns={'a': 'b', 'b': 'a'})",
            "filter(a > 1)",
            "filter(c == 'x')",
            "tail(n=2)",
        ],
    ),
    Golden(
        Q.date_range("2021").select("t", "a").row_range(1, 2),
        [
            "index: date_range(start='2021')",
            "date_range(start='2021')",
            "select(columns=['t', 'a'])",
            "row_range(start=1, stop=2)",
        ],
    ),
    Golden(
        Q.select("a").row_range(1, 9).tail(2),
        ["index: row_range(start=1, stop=9)", "index: tail(n=2)", "select(columns=['a'])"],
    ),
]


@pytest.mark.parametrize("golden", PUSHED, ids=lambda g: "; ".join(g.after))
def test_push_to_source(golden: Golden) -> None:
    assert _after(push_to_source, golden.query) == golden.after


PRUNED = [
    Golden(Q, ["read: t, a, b, c"]),
    Golden(Q.filter("a > 1").select("b"), ["read: a, b", "filter(a > 1)", "select(columns=['b'])"]),
    Golden(
        Q.select("a", "b", "c").groupby("a").agg(n=("b", "sum")),
        [
            "read: a, b",
            "select(columns=['a', 'b'])",
            "partition(keys=['a'])",
            "aggregation(keys=['a'], aggregates=[n=sum(b)])",
        ],
    ),
    Golden(
        Q.apply("unused", "b + 1").apply("a", "b").select("a", "c"),
        ["read: b, c", "apply(column='a', b)", "select(columns=['a', 'c'])"],
    ),
    Golden(
        Q.apply("a", "b"),
        ["read: t, b, c", "apply(column='a', b)", "select(columns=['t', 'a', 'b', 'c'])"],
    ),
    Golden(
        Q.date_range("2021").select("a"),
        ["read: t, a", "date_range(start='2021')", "select(columns=['a'])"],
    ),
    Golden(
        Q.resample("1h").agg(n="size"),
        ["read: t", "resample(rule='1h', aggregates=[n=size()])"],
    ),
    Golden(
        Q.agg(n="size"),
        ["read: t", "partition(keys=[])", "aggregation(keys=[], aggregates=[n=size()])"],
    ),
]


@pytest.mark.parametrize("golden", PRUNED, ids=lambda g: "; ".join(g.after))
def test_prune_columns(golden: Golden) -> None:
    assert _after(prune_columns, golden.query) == golden.after


def test_lower_aggregation() -> None:
    merged = Q.groupby("c").agg(n=("a", "sum"))
    assert _after(lower_aggregation, merged) == [
        "partial_aggregation(keys=['c'], aggregates=[n=sum(a)])",
        _line_of_merge("keys=['c'], aggregates=[n=sum(a)]"),
    ]
    bucketed = Q.groupby("c", sort=False, drop_missing=False).agg(n=("a", "median"))
    assert _after(lower_aggregation, bucketed, bytes=1000, bucket_bytes=100, workers=3) == [
        "partition(keys=['c'], drop_missing=False, buckets=10, positions=True)",
        "aggregation(keys=['c'], aggregates=[n=median(a)], sort=False)",
        "merge_sorted(by=['__tessel_position'], descending=[False], "
        "without=['__tessel_position'], groups=True)",
    ]
    assert _after(lower_aggregation, bucketed, bytes=1, workers=3)[0] == (
        "partition(keys=['c'], drop_missing=False, buckets=3, positions=True)"
    )
    assert _after(lower_aggregation, Q.agg(n=("a", "nunique"))) == [
        "aggregation(keys=[], aggregates=[n=nunique(a)])"
    ]
    assert _after(lower_aggregation, Q.resample("1h").agg(n=("a", "median"))) == [
        "resample(rule='1h', aggregates=[n=median(a)])"
    ]
    lowered = lower_aggregation(Draft(SCHEMA, Q.resample("1h").agg(n=("a", "sum")).clauses))
    assert [clause.name for clause in lowered.clauses] == ["partial_resample", "merge_aggregation"]


SORTS = [
    Golden(Q.sort("t"), []),
    Golden(Q.sort("t").head(3), ["head(n=3)"]),
    Golden(
        Q.sort("a").sort("t"),
        ["sort(by=['a'], descending=[False])", "sort(by=['t'], descending=[False])"],
    ),
    Golden(Q.sort("a").head(3), ["top_k(k=3, by=['a'], descending=[False])"]),
    Golden(
        Q.sort("a", missing="first").select("b").apply("b", "b + 1").head(3).head(1),
        [
            "top_k(k=3, by=['a'], descending=[False], missing='first')",
            "select(columns=['b'])",
            "apply(column='b', b + 1)",
            "head(n=1)",
        ],
    ),
    Golden(
        Q.sort("a").filter("b > 1").head(3),
        ["sort(by=['a'], descending=[False])", "filter(b > 1)", "head(n=3)"],
    ),
    Golden(Q.sort("a").head(-3), ["sort(by=['a'], descending=[False])", "head(n=-3)"]),
    Golden(
        Q.sort("a").head(1_000_000),
        ["sort(by=['a'], descending=[False])", "head(n=1000000)"],
    ),
]


@pytest.mark.parametrize("golden", SORTS, ids=lambda g: "; ".join(g.after))
def test_simplify_sorts(golden: Golden) -> None:
    assert _after(simplify_sorts, golden.query) == golden.after


def test_lower_order() -> None:
    assert _after(lower_order, Q.sort("a", "b", descending=[True, False])) == [
        "leave_codes(columns=['c'])",
        "merge_sorted(by=['a', 'b'], descending=[True, False])",
    ]
    behind = Q.groupby("c").agg(n="count(a)").sort("n")
    assert _after(lower_order, behind)[-1] == "merge_sorted(by=['n'], descending=[False])"
    assert "leave_codes" not in "".join(_after(lower_order, behind))
    assert _after(lower_order, Q.top_k(3, "a")) == [
        "partial_top_k(k=3, by=['a'], descending=[True])",
        "top_k(k=3, by=['a'], descending=[True])",
    ]


def test_take_codes() -> None:
    rolling = Q.rolling(2, by=["a", "c"]).agg(m=("b", "mean"))
    assert _after(take_codes, rolling)[0] == "leave_codes(columns=['c'])"
    assert _after(take_codes, Q.filter("a > 1").shift("b", by="c").rank("b", by="c"))[1] == (
        "leave_codes(columns=['c'])"
    )
    for query in (Q.shift("b", by="a"), Q.shift("b"), Q.sort("a").shift("b", by="c")):
        assert "leave_codes" not in "".join(_after(take_codes, query))


def _line_of_merge(start: str) -> str:
    return f"merge_aggregation({start})"


def test_no_pass_changes_the_schema_of_the_result() -> None:
    queries = [golden.query for golden in (*DROPS, *PUSHED, *PRUNED, *SORTS)]
    for query in queries:
        draft = Draft(SCHEMA, query.clauses)
        wanted = draft.schemas()[-1]
        for run_pass in PASSES:
            draft = run_pass(draft)
            found = draft.schemas()[-1]
            assert (found.arrow, found.index) == (wanted.arrow, wanted.index)


# --- the walk-through -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def six() -> Store:
    """Three row slices of two column slices each: six segments."""
    return stored({"a": list(range(6)), "b": list(range(6)), "c": list("uvwxyz"), "d": [0] * 6})


WALK = """\
query
═════
as written
┌───────────────┐
│ clause        │
├───────────────┤
│ filter(a > 0) │
│ head(n=2)     │
└───────────────┘

planner
┌────────────────┬───┬──────────────────────┐
│ pass           │   │ step                 │
├────────────────┼───┼──────────────────────┤
│ push_to_source │ + │ index: filter(a > 0) │
│ prune_columns  │ + │ read: a, b, c, d     │
└────────────────┴───┴──────────────────────┘

'x' (version 1)
┌────────┬──────────┬──────┬─────┐
│ clause │ segments │ rows │ why │
├────────┼──────────┼──────┼─────┤
│ all    │ 6        │ 6    │     │
└────────┴──────────┴──────┴─────┘
to read at most: 6 segments, 6 rows, about N bytes
columns: 4 of 4: a, b, c, d
nothing was read

entities of 'x'
┌────────┬─────────────────┬────────┬─────────┬───────┬──────┬───────┬─────────┐
│ entity │ segment         │ rows   │ columns │ first │ last │ units │ fetches │
├────────┼─────────────────┼────────┼─────────┼───────┼──────┼───────┼─────────┤
│ 0      │ segment         │ [0, 2) │ [0, 2)  │       │      │ 0     │ 1       │
│ 1      │ segment         │ [0, 2) │ [2, 4)  │       │      │ 0     │ 1       │
│ 2      │ segment         │ [2, 4) │ [0, 2)  │       │      │ 1     │ 1       │
│ 3      │ segment         │ [2, 4) │ [2, 4)  │       │      │ 1     │ 1       │
│ 4      │ segment         │ [4, 6) │ [0, 2)  │       │      │ 2     │ 1       │
│ 5      │ segment         │ [4, 6) │ [2, 4)  │       │      │ 2     │ 1       │
└────────┴─────────────────┴────────┴─────────┴───────┴──────┴───────┴─────────┘

stages
┌─────────┬───────────────┬───────────────────────┬────────────────────────────────────┐
│ stage   │ clause        │ structure             │ units                              │
├─────────┼───────────────┼───────────────────────┼────────────────────────────────────┤
│ 1       │ filter(a > 0) │ ROW_SLICE → ROW_SLICE │ 3: [0 1] [2 3] [4 5]               │
│ barrier │               │ ROW_SLICE → ALL       │ units are taken in order           │
│ 2       │ head(n=2)     │ ALL → ROW_SLICE       │ in order, until 2 rows have passed │
└─────────┴───────────────┴───────────────────────┴────────────────────────────────────┘
result: a: int64, b: int64, c: string, d: int64
index: none
"""

DROPPED = """\
'x' (version 1)
┌─────────┬──────────┬───────┬───────────────────────────────────┐
│ clause  │ segments │ rows  │ why                               │
├─────────┼──────────┼───────┼───────────────────────────────────┤
│ all     │ 6        │ 6     │                                   │
│ filter  │ 6 → 2    │ 6 → 2 │ statistics: never a > 1 and b < 4 │
│ columns │ 2 → 1    │ 2 → 2 │ no clause reads them              │
└─────────┴──────────┴───────┴───────────────────────────────────┘
to read at most: 1 segment, 2 rows, about N bytes
columns: 2 of 4: a, b
nothing was read
"""


def _text(store: Store, query: QueryBuilder) -> str:
    # Names of segments are drawn; how many bytes they take is the business of the encodings.
    text = (
        re.sub(r"about [\d,]+ bytes", "about N bytes", str(store.explain("x", query, pages=False)))
        + "\n"
    )
    return re.sub(r"[0-9a-f]{8} @[\d,]+(?= *│)", lambda held: "segment".ljust(len(held[0])), text)


def test_the_walk_through(six: Store) -> None:
    query = Q.filter("a > 0").head(2)
    assert _text(six, query) == WALK
    plan = six.scan("x").then(*query.clauses).plan()
    assert list(plan.inputs[0].units) == [[0, 1], [2, 3], [4, 5]]  # type: ignore[union-attr]
    assert len(plan.stages) == 2
    pieces = [
        UnitFacts(row, 1, RowRange(2 * row, 2 * row + 2), ColRange(2 * column, 2 * column + 2))
        for row in range(3)
        for column in range(2)
    ]
    assert Head(2).restructure(pieces, six.schema("x")) == [[0, 1, 2, 3, 4, 5]]


def test_explain_gives_the_reason_of_every_drop(six: Store) -> None:
    query = Q.filter("a > 1 and b < 4").select("a", "b").head(3)
    assert DROPPED in _text(six, query)


def test_explain_of_positions_and_times() -> None:
    times = pa.array([dt.datetime(2021, 1, 1 + n) for n in range(6)], pa.timestamp("us"))
    store = stored({"t": times, "a": list(range(6))}, index="t")
    assert "│ position: outside rows 0 to 1" in _text(store, Q.head(1))
    assert "time index: outside [2021-01-05, …]" in _text(store, Q.date_range("2021-01-05"))
    assert "0 segments, 0 rows" in _text(store, Q.filter("a > 100"))
    assert "1 a run of touching time buckets" in _text(
        store, Q.resample("1D").agg(m=("a", "median")).resample("2D").agg(m=("m", "median"))
    )
    assert "1 a bucket" in _text(store, Q.groupby("a").agg(m=("a", "median")))
    assert "those of 2 inputs, in order" in _text(store, Q.concat("x"))


def test_explain_in_its_other_forms(six: Store) -> None:
    found = six.explain("x", Q.head(1))
    assert found.render("html").startswith("<")
    assert found.render("json").startswith("{")
    assert found._repr_html_() == found.render("html")
    assert repr(found) == str(found) == found.render()
    with pytest.raises(NameNotFoundError, match="did you mean 'html'"):
        found.render("htm")


def test_explain_refuses_what_running_would(six: Store) -> None:
    with pytest.raises(IndexColumnError):
        six.explain("x", Q.date_range("2021"))

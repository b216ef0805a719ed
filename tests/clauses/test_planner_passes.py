"""Each pass that moves, folds or replaces clauses, by golden before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import Concat, Merge, QueryBuilder, SubQuery
from tessel.clauses.combining import Combining
from tessel.expression import col, lit
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.draft import Draft, Input
from tessel.pipeline.planner.fold_constants import fold_constants
from tessel.pipeline.planner.index_predicates import index_predicates
from tessel.pipeline.planner.planner import PASSES
from tessel.pipeline.planner.prune_columns import prune_columns
from tessel.pipeline.planner.pushdown import push_into_inputs, push_left
from tessel.pipeline.planner.resample_range import range_before_resample
from tessel.pipeline.planner.simplify import merge_filters, stop_early

Q = QueryBuilder()
SCHEMA = TableSchema(
    pa.schema(
        [("t", pa.timestamp("us")), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())]
    ),
    "t",
)
OTHER = TableSchema(
    pa.schema([("t", pa.timestamp("ns")), ("a", pa.int32()), ("d", pa.float64())]), "t"
)


@dataclass(frozen=True)
class Golden:
    """A query and what a pass makes of it, in lines."""

    query: QueryBuilder
    after: list[str]
    schema: TableSchema = SCHEMA


def _draft(query: QueryBuilder, schema: TableSchema = SCHEMA) -> Draft:
    """Return the draft of a query, which may begin by taking ``x`` together with ``y``."""
    first = query.clauses[0] if query.clauses else None
    if not isinstance(first, Combining):
        return Draft(schema, query.clauses)
    inputs = (Input(SubQuery("x"), SCHEMA), Input(SubQuery("y"), OTHER))
    combined = first.combined_schema([each.schema for each in inputs])
    return Draft(combined, query.clauses[1:], combining=first, inputs=inputs)


def _lines(run_pass: Callable[[Draft], Draft], golden: Golden) -> list[str]:
    return list(run_pass(_draft(golden.query, golden.schema)).lines())


FOLDED = [
    Golden(Q.filter(lit(1) < 2), []),
    Golden(Q.filter(lit(1) > 2), ["filter(false)"]),
    Golden(Q.filter(lit(None)), ["filter(false)"]),
    Golden(Q.filter("a > null"), ["filter(false)"]),
    Golden(Q.filter("a > 1 and 1 < 2"), ["filter(a > 1)"]),
    Golden(Q.filter("a > 1 or 1 < 2"), []),
    Golden(Q.filter("a > 1 and 2 < 1"), ["filter(false)"]),
    Golden(Q.filter("a > 1 or 2 < 1 or b > 1"), ["filter(a > 1 or b > 1)"]),
    Golden(Q.filter("a > 2 + 3 * 4"), ["filter(a > int32 '14')"]),
    Golden(Q.filter("t is missing"), ["filter(false)"]),
    Golden(Q.filter("t is not missing"), []),
    Golden(Q.filter("a is missing"), ["filter(a is missing)"]),
    # Column by column nothing is known: no rule looks at two operands at once.
    Golden(
        Q.filter("a is missing or a is not missing"), ["filter(a is missing or a is not missing)"]
    ),
    Golden(Q.apply("d", lit(2) * 3 + col("a")), ["apply(column='d', int16 '6' + a)"]),
    # A constant that cannot be computed raises when a row reaches it, and not before.
    Golden(
        Q.filter(lit(2**63 - 1) + lit(2**62) > col("a")),
        ["filter(9223372036854775807 + 4611686018427387904 > a)"],
    ),
    # Text that was computed is not read as an instant, as a text literal would be.
    Golden(Q.filter("concat('a', 'b') == c"), ["filter(concat('a', 'b') == c)"]),
]

INDEX = [
    Golden(
        Q.filter("t > '2021-03-01'"), ["date_range(start='2021-03-01T00:00:00', closed='right')"]
    ),
    Golden(Q.filter("t >= '2021-03-01'"), ["date_range(start='2021-03-01T00:00:00')"]),
    Golden(Q.filter("t < '2021-03-01'"), ["date_range(end='2021-03-01T00:00:00', closed='left')"]),
    Golden(Q.filter("'2021-03-01' >= t"), ["date_range(end='2021-03-01T00:00:00')"]),
    Golden(Q.filter("not (t < '2021-03-01')"), ["date_range(start='2021-03-01T00:00:00')"]),
    Golden(
        Q.filter("t == '2021-03-01T01:02:03.5'"),
        ["date_range(start='2021-03-01T01:02:03.5', end='2021-03-01T01:02:03.5')"],
    ),
    Golden(
        Q.filter(col("t").between("2021-03-01", "2021-03-02")),
        ["date_range(start='2021-03-01T00:00:00', end='2021-03-02T00:00:00')"],
    ),
    Golden(
        Q.filter("t > '2021-03-01' and a > 1 and t <= '2021-03-02' and t > '2020-01-01'"),
        [
            "date_range(start='2021-03-01T00:00:00', end='2021-03-02T00:00:00', closed='right')",
            "filter(a > 1)",
        ],
    ),
    Golden(
        Q.filter("t in ('2021-03-05', '2021-03-01')"),
        [
            "date_range(start='2021-03-01T00:00:00', end='2021-03-05T00:00:00')",
            "filter(t in ('2021-03-05', '2021-03-01'))",
        ],
    ),
    Golden(
        Q.filter("t < '2021-03-01' and (t > '2021-01-01' or t == '2020-01-01')"),
        [
            "date_range(start='2020-01-01T00:00:00', end='2021-03-01T00:00:00', closed='left')",
            "filter(t > '2021-01-01' or t == '2020-01-01')",
        ],
    ),
    Golden(
        Q.rename({"t": "u"}).filter("u > '2021-01-01'"),
        [
            "rename(columns={'t': 'u'})",
            "date_range(start='2021-01-01T00:00:00', closed='right')",
        ],
    ),
    # What says nothing of the index, or not with an instant, stays.
    Golden(Q.filter("t != '2021-01-01'"), ["filter(t != '2021-01-01')"]),
    Golden(
        Q.filter("t > '2021-01-01' or a > 1"),
        ["filter(t > '2021-01-01' or a > 1)"],
    ),
    Golden(
        Q.filter("not (t > '2021-01-01' and a > 1)"), ["filter(not (t > '2021-01-01' and a > 1))"]
    ),
    Golden(Q.filter(col("t") > col("t").floor("1h")), ["filter(t > floor(t, '1h'))"]),
    Golden(Q.filter("t > null"), ["filter(t > null)"]),
    Golden(Q.apply("t", "a").filter("t > 1"), ["apply(column='t', a)", "filter(t > 1)"]),
]

ZONED = TableSchema(pa.schema([("t", pa.timestamp("s", "Europe/Paris")), ("a", pa.int64())]), "t")
DAYS = TableSchema(pa.schema([("t", pa.date32()), ("a", pa.int64())]), "t")
NUMBERS = TableSchema(pa.schema([("t", pa.int64()), ("a", pa.int64())]), "t")
INDEX += [
    Golden(Q.filter("t >= '2021-03-01'"), ["date_range(start='2021-02-28T23:00:00Z')"], ZONED),
    Golden(
        Q.filter("t >= '2021-07-01T00:00+05:00'"),
        ["date_range(start='2021-06-30T19:00:00Z')"],
        ZONED,
    ),
    Golden(
        Q.filter("t > '2021-03-01'"),
        ["date_range(start='2021-03-01T00:00:00', closed='right')"],
        DAYS,
    ),
    Golden(Q.filter("t > 5"), ["filter(t > 5)"], NUMBERS),
]

RESAMPLED = Q.resample("1h", closed="right").agg(n=("a", "sum"))
BEFORE_RESAMPLE = [
    Golden(
        RESAMPLED.date_range("2021-03-01T05", "2021-03-01T06"),
        [
            "date_range(start='2021-03-01T02:00:00', end='2021-03-01T08:00:00')",
            "resample(rule='1h', aggregates=[n=sum(a)], closed='right')",
            "date_range(start='2021-03-01T05', end='2021-03-01T06')",
        ],
    ),
    Golden(
        Q.resample("1D", origin="2021-01-01T06").agg(n=("a", "sum")).date_range("2021-03-01"),
        [
            "date_range(start='2021-02-26T06:00:00')",
            "resample(rule='1D', aggregates=[n=sum(a)], origin='2021-01-01T06')",
            "date_range(start='2021-03-01')",
        ],
    ),
    Golden(
        RESAMPLED.filter("n > 1").date_range("2021-03-01"),
        [
            "resample(rule='1h', aggregates=[n=sum(a)], closed='right')",
            "filter(n > 1)",
            "date_range(start='2021-03-01')",
        ],
    ),
]

LEFT = [
    Golden(Q.apply("d", "a + b").filter("a > 1"), ["filter(a > 1)", "apply(column='d', a + b)"]),
    Golden(Q.apply("d", "a + b").filter("d > 1"), ["apply(column='d', a + b)", "filter(d > 1)"]),
    Golden(
        Q.apply("a", "a + b").filter("a > 1 and b > 1"),
        ["filter(b > 1)", "apply(column='a', a + b)", "filter(a > 1)"],
    ),
    # What may raise passes no filter: it would meet rows that the other drops.
    Golden(
        Q.apply("a", "a + b").filter("a > 1 and b * b > 1"),
        ["apply(column='a', a + b)", "filter(a > 1 and b * b > 1)"],
    ),
    Golden(
        Q.apply("a", "a + b").filter("b * b > 1 and a > 1"),
        ["filter(b * b > 1)", "apply(column='a', a + b)", "filter(a > 1)"],
    ),
    Golden(
        Q.rename({"a": "b", "b": "a"}).filter("a > 1"),
        ["filter(b > 1)", "rename(columns={'a': 'b', 'b': 'a'})"],
    ),
    Golden(Q.select("a").filter("a > 1"), ["filter(a > 1)", "select(columns=['a'])"]),
    Golden(Q.drop("b").filter("a > 1"), ["filter(a > 1)", "drop(columns=['b'])"]),
    Golden(
        Q.filter("a > 1").select("t").date_range("2021"),
        ["date_range(start='2021')", "filter(a > 1)", "select(columns=['t'])"],
    ),
    Golden(
        Q.filter("a > 1").apply("d", "a").select("d").head(2),
        ["filter(a > 1)", "head(n=2)", "apply(column='d', a)", "select(columns=['d'])"],
    ),
    Golden(
        Q.filter("a > 1").select("a").head(2),
        ["filter(a > 1)", "select(columns=['a'])", "head(n=2)"],
    ),
    # These stay where they are.
    Golden(Q.head(2).filter("a > 1"), ["head(n=2)", "filter(a > 1)"]),
    Golden(
        Q.groupby("a").agg(n="size").filter("a > 1"),
        [
            "partition(keys=['a'])",
            "aggregation(keys=['a'], aggregates=[n=size()])",
            "filter(a > 1)",
        ],
    ),
    Golden(
        Q.previous_differs("a").filter("a > 1"), ["previous_differs(column='a')", "filter(a > 1)"]
    ),
    Golden(Q.drop_negative("a").head(1), ["drop_negative(column='a')", "head(n=1)"]),
]

CONCAT, MERGE = Q.then(Concat((SubQuery("y"),))), Q.then(Merge((SubQuery("y"),)))
INPUTS = [
    Golden(
        CONCAT.filter("a > 1"),
        ["input 1: 'x' → filter(a > 1)", "input 2: 'y' → filter(a > 1)"],
    ),
    Golden(
        CONCAT.filter("a * a > 1"),
        [
            "input 1: 'x' → filter(a * a > 1)",
            "input 2: 'y' → filter(cast(a, 'int64') * cast(a, 'int64') > 1)",
        ],
    ),
    Golden(
        CONCAT.filter("b > 1").filter("d is missing"),
        [
            "input 1: 'x' → filter(b > 1) → filter(cast(null, 'float64') is missing)",
            "input 2: 'y' → filter(cast(null, 'int64') > 1) → filter(d is missing)",
        ],
    ),
    Golden(
        MERGE.date_range("2021").filter("a > 1").head(3),
        [
            "input 1: 'x' → date_range(start='2021') → filter(a > 1) → head(n=3)",
            "input 2: 'y' → date_range(start='2021') → filter(a > 1) → head(n=3)",
            "head(n=3)",
        ],
    ),
    Golden(
        CONCAT.select("a").row_range(2, 5),
        [
            "input 1: 'x' → head()",
            "input 2: 'y' → head()",
            "select(columns=['a'])",
            "row_range(start=2, stop=5)",
        ],
    ),
    Golden(CONCAT.tail(4), ["input 1: 'x' → tail(n=4)", "input 2: 'y' → tail(n=4)", "tail(n=4)"]),
    Golden(CONCAT.head(-4), ["input 1: 'x'", "input 2: 'y'", "head(n=-4)"]),
    Golden(
        CONCAT.drop_negative("a").filter("a > 1").head(1),
        ["input 1: 'x'", "input 2: 'y'", "drop_negative(column='a')", "filter(a > 1)", "head(n=1)"],
    ),
]

INPUTS += [
    Golden(
        Q.join("y", on="a").filter("b > 1 and c == 'x'").filter("d > 0.5").filter("b * b > 1"),
        [
            "input 1: 'x' → filter(b > 1 and c == 'x')",
            "input 2: 'y' → filter(d > 0.5)",
            "filter(b * b > 1)",
        ],
    ),
    Golden(
        Q.join("y", on="a", how="left").date_range("2021").filter("b * b > 1").select("b").head(3),
        [
            "input 1: 'x' → date_range(start='2021') → filter(b * b > 1) → head(n=3)",
            "input 2: 'y'",
            "select(columns=['b'])",
            "head(n=3)",
        ],
    ),
    # Rows without a match are missing on the right: what it says of them is known behind.
    Golden(
        Q.join("y", on="a", how="left").filter("d is missing"),
        ["input 1: 'x'", "input 2: 'y'", "filter(d is missing)"],
    ),
    Golden(
        Q.join("y", on="a", how="anti").filter("a > 1").head(3),
        ["input 1: 'x' → filter(a > 1)", "input 2: 'y'", "head(n=3)"],
    ),
    Golden(
        Q.join("y", on="a", how="outer").filter("b > 1"),
        ["input 1: 'x'", "input 2: 'y'", "filter(b > 1)"],
    ),
    Golden(Q.join("y", on="a").filter("b > d"), ["input 1: 'x'", "input 2: 'y'", "filter(b > d)"]),
    Golden(
        Q.join("y", on="a").filter("t_right > '2021-01-01'"),
        ["input 1: 'x'", "input 2: 'y'", "filter(t_right > '2021-01-01')"],
    ),
]

JOINED = [
    Golden(Q.filter("a > 1").filter("a < 5"), ["filter(a > 1 and a < 5)"]),
    # Of what a query begins with, the second column is read for what the first one left.
    Golden(Q.filter("a > 1").filter("b < 5"), ["filter(a > 1)", "filter(b < 5)"]),
    Golden(Q.head(-1).filter("a > 1").filter("b < 5"), ["head(n=-1)", "filter(a > 1 and b < 5)"]),
    Golden(Q.filter("a > 1").filter("a * a < 5"), ["filter(a > 1)", "filter(a * a < 5)"]),
    Golden(
        Q.filter("a > 1").filter("a < 5", optimise="memory"),
        ["filter(a > 1)", "filter(a < 5, optimise='memory')"],
    ),
    Golden(
        Q.filter("a > 1").date_range("2021").filter("a < 5"),
        ["filter(a > 1)", "date_range(start='2021')", "filter(a < 5)"],
    ),
]

STOPPED = [
    Golden(Q.filter(lit(False)), ["no_rows(filter(false))"]),
    Golden(
        Q.fails_above("a").head(0).apply("d", "a"), ["no_rows(head(n=0))", "apply(column='d', a)"]
    ),
    Golden(Q.tail(0), ["no_rows(tail(n=0))"]),
    Golden(Q.row_range(5, 5), ["no_rows(row_range(start=5, stop=5))"]),
    Golden(Q.row_range(-3, -3), ["no_rows(row_range(start=-3, stop=-3))"]),
    Golden(Q.row_range(-3, 2), ["row_range(start=-3, stop=2)"]),
    Golden(Q.row_range(2, -3), ["row_range(start=2, stop=-3)"]),
    Golden(Q.filter("a > 1").head(5).head(3), ["filter(a > 1)", "head(n=3)"]),
    Golden(Q.filter("a > 1").tail(3).tail(5), ["filter(a > 1)", "tail(n=3)"]),
    Golden(Q.head(-1).head(3), ["head(n=-1)", "head(n=3)"]),
    Golden(
        CONCAT.filter("a > 1").head(0),
        ["input 1: 'x' → head(n=0)", "input 2: 'y' → head(n=0)", "no_rows(head(n=0))"],
    ),
]


@pytest.mark.parametrize(
    ("run_pass", "golden"),
    [
        *((fold_constants, golden) for golden in FOLDED),
        *((index_predicates, golden) for golden in INDEX),
        *((range_before_resample, golden) for golden in BEFORE_RESAMPLE),
        *((push_left, golden) for golden in LEFT),
        *((push_into_inputs, golden) for golden in INPUTS),
        *((merge_filters, golden) for golden in JOINED),
        *((stop_early, golden) for golden in STOPPED),
    ],
    ids=lambda value: (
        value.__name__
        if callable(value)
        else "; ".join(clause.describe() for clause in value.query.clauses)
    ),
)
def test_a_pass(run_pass: Callable[[Draft], Draft], golden: Golden) -> None:
    assert _lines(run_pass, golden) == golden.after
    draft = _draft(golden.query, golden.schema)
    before, after = draft.schemas()[-1], run_pass(draft).schemas()[-1]
    assert (after.arrow, after.index) == (before.arrow, before.index)


@pytest.mark.parametrize(
    ("query", "after"),
    [
        (
            CONCAT.select("d", "a"),
            [
                "input 1: 'x' → select(columns=['a'])",
                "input 2: 'y' → select(columns=['a', 'd'])",
                "read: a, d",
                "select(columns=['d', 'a'])",
            ],
        ),
        (
            CONCAT.agg(n=("d", "sum")),
            [
                "input 1: 'x' → select(columns=['t'])",
                "input 2: 'y' → select(columns=['d'])",
                "read: d",
                "select(columns=['d'])",
                "partition(keys=[])",
                "aggregation(keys=[], aggregates=[n=sum(d)])",
            ],
        ),
        (
            MERGE.select("b"),
            [
                "input 1: 'x' → select(columns=['t', 'b'])",
                "input 2: 'y' → select(columns=['t'])",
                "read: b",
                "select(columns=['b'])",
            ],
        ),
        (
            CONCAT.previous_differs("a").select("a"),
            [
                "input 1: 'x'",
                "input 2: 'y'",
                "read: t, a, b, c, d",
                "previous_differs(column='a')",
                "select(columns=['a'])",
            ],
        ),
    ],
    ids=str,
)
def test_columns_are_pruned_below_concat_and_merge(query: QueryBuilder, after: list[str]) -> None:
    assert list(prune_columns(_draft(query)).lines()) == after


def test_the_passes_and_their_order() -> None:
    assert [each.__name__ for each in PASSES] == [
        "desugar",
        "compute_columns",
        "fold_constants",
        "index_predicates",
        "range_before_resample",
        "push_left",
        "push_into_inputs",
        "merge_filters",
        "simplify_sorts",
        "stop_early",
        "push_to_source",
        "count_rows",
        "prune_columns",
        "lower_aggregation",
        "lower_order",
        "take_codes",
        "answer_from_statistics",
        "pick_tasks",
    ]

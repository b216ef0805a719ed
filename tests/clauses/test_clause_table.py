"""The table of all clauses in the documents is the one that the code declares."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tessel.clauses import (
    AggregateColumns,
    Aggregation,
    AlignColumns,
    AppendUnmatched,
    Apply,
    ApplyTogether,
    AsofInputs,
    BroadcastAsof,
    BroadcastJoin,
    Cast,
    Clause,
    Concat,
    CumCount,
    CumMax,
    CumMin,
    CumSum,
    DateRange,
    Describe,
    Diff,
    Distinct,
    DistinctBucket,
    Drop,
    Ewm,
    ExpandJoined,
    Explode,
    Fill,
    FillBuckets,
    Filter,
    HashAsof,
    HashJoin,
    Head,
    InOrder,
    InZone,
    Join,
    JoinAsof,
    JoinPartition,
    KnownRows,
    LastOfSort,
    LatestAt,
    LeaveCodes,
    Merge,
    MergeAggregation,
    MergeInputs,
    MergeRange,
    MergeSorted,
    NamedAggregate,
    NoRows,
    PartialAggregation,
    PartialDistinct,
    PartialLastOfSort,
    PartialResample,
    PartialTopK,
    Partition,
    PctChange,
    Rank,
    Rename,
    Resample,
    Rolling,
    RowRange,
    Sample,
    Select,
    Shares,
    Shift,
    Sort,
    Structure,
    SubQuery,
    Tail,
    Take,
    TimePartition,
    TopK,
    TurnFigures,
    ValueCounts,
    clause_names,
    find_clause,
)
from tessel.clauses.aggregates import find_aggregate
from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.shape import JoinShape
from tessel.expression import col
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema

DOCUMENT = Path(__file__).parents[2] / "docs" / "clauses.md"
SCHEMA = TableSchema(
    pa.schema(
        [
            ("t", pa.timestamp("us")),
            ("k", pa.string()),
            ("v", pa.int64()),
            ("l", pa.list_(pa.int64())),
        ]
    ),
    "t",
)
SUM = (NamedAggregate("s", "v", find_aggregate("sum")),)
SHAPE = JoinShape(SCHEMA, SCHEMA, (("k", "k"),), "inner", "_right")
ASOF = AsofShape(SCHEMA, SCHEMA, (("k", "k"),), "backward", None, True, "_right")
MEAN = (NamedAggregate("m", "v", find_aggregate("mean")),)
MEDIAN = (NamedAggregate("m", "v", find_aggregate("median")),)
SAMPLES: tuple[Clause, ...] = (
    Filter(col("v") > 1),
    Apply("w", col("v") + 1),
    Select(("t", "k")),
    Drop(("k",)),
    Rename((("k", "key"),)),
    DateRange("2021"),
    Head(2),
    Tail(2),
    RowRange(1, 2),
    Partition(("k",)),
    Aggregation(("k",), MEDIAN),
    Resample("1h", MEDIAN),
    Sort(("v",), (False,)),
    TopK(2, ("v",), (True,)),
    Distinct(("k",)),
    Sample(3),
    Take((2, 1)),
    InZone("Europe/Berlin"),
    AggregateColumns("sum", Aggregation(("k",), ())),
    Explode(("l",)),
    Cast((("v", "float64"),)),
    ValueCounts(("k",)),
    Describe(),
    Concat((SubQuery("y"),)),
    Join(SubQuery("y"), (("k", "k"),)),
    JoinAsof(SubQuery("y")),
    Merge(),
    Shift((("w", "v"),)),
    Diff((("w", "v"),)),
    PctChange((("w", "v"),)),
    CumSum((("w", "v"),)),
    CumMin((("w", "v"),)),
    CumMax((("w", "v"),)),
    CumCount((("w", "v"),)),
    Rolling(3, SUM),
    Ewm(MEAN, 0.5),
    Fill((("w", "v"),)),
    Rank((("w", "v"),)),
    LatestAt(("2021-01-01",)),
    PartialAggregation(("k",), SUM),
    MergeAggregation(("k",), SUM, SCHEMA),
    PartialResample("1h", SUM),
    MergeSorted(("v",), (False,)),
    PartialTopK(2, ("v",), (True,)),
    LastOfSort(2, ("v",), (False,)),
    PartialLastOfSort(2, ("v",), (False,)),
    FillBuckets(Resample("1h", SUM, empty="null"), SCHEMA),
    PartialDistinct(("k",)),
    DistinctBucket(("k",)),
    Shares("v"),
    TurnFigures(SCHEMA),
    AlignColumns(SCHEMA),
    ApplyTogether((ComputedColumn("n", col("v") + 1),)),
    MergeInputs(SCHEMA, ("x", "y")),
    TimePartition(SCHEMA, (3,)),
    MergeRange(SCHEMA, 2),
    BroadcastJoin(SHAPE),
    AppendUnmatched(SHAPE),
    JoinPartition(SHAPE, "left", 1),
    HashJoin(SHAPE, 1),
    ExpandJoined(SHAPE),
    InOrder("t", "x"),
    LeaveCodes(("s",)),
    BroadcastAsof(ASOF, "y"),
    HashAsof(ASOF, 1),
    AsofInputs(ASOF, ("x", "y")),
    NoRows(SCHEMA),
    KnownRows.of(SCHEMA.empty()),
)
HEADER = (
    "| clause | input | output | keeps order | keeps count | index | positional | planner only |"
)


def rows_of_the_table() -> list[str]:
    """Return the rows as the code has them."""
    rows = []
    for clause in SAMPLES:
        info = clause.structure
        cells = [
            f"`{clause.name}`",
            info.input.name,
            info.output.name,
            _yes(info.keeps_order),
            _yes(info.keeps_count),
            info.index.value,
            _yes(info.positional),
            _yes(clause.internal),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


CARRY_HEADER = "| clause | carries from | what it carries |"
CARRYING: tuple[tuple[Clause, str], ...] = (
    (Shift((("w", "v"),)), "the last `n` rows of each key"),
    (Shift((("w", "v"),), (), -1), "the first `−n` rows of each key"),
    (Diff((("w", "v"),)), "as `shift`"),
    (PctChange((("w", "v"),)), "as `shift`"),
    (CumSum((("w", "v"),)), "the exact sum of each key"),
    (CumMin((("w", "v"),)), "the least value of each key"),
    (CumMax((("w", "v"),)), "the greatest value of each key"),
    (CumCount((("w", "v"),)), "the count of each key"),
    (Rolling(3, SUM), "the last rows of each key, fewer than a window"),
    (Rolling(3, SUM, center=True), "the first and the last rows of each key, half a window"),
    (Rolling("1h", SUM), "the rows of the first instant and of the last window"),
    (Ewm(MEAN, 0.5), "the columns that are read; from unit to unit, the state of each key"),
    (Fill((("w", "v"),)), "the first and the last value of each key, and rows beyond them"),
    (Fill((("w", "v"),), (), "backward"), "the same"),
    (Fill((("w", "v"),), (), "linear"), "the same"),
    (LatestAt(("2021-01-01",)), "the first time, and the last row of each key"),
    (InOrder("v", "x"), "how many rows there were, and the last time"),
    (AppendUnmatched(SHAPE), "which rows of the right were used"),
)


def test_the_document_says_what_is_carried() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = lines.index(CARRY_HEADER) + 2
    stop = lines.index("", start)
    rows = [
        f"| `{clause.name}` | {clause.structure.carries.value} | {what} |"
        for clause, what in CARRYING
        if clause.structure.carries is not None
    ]
    assert lines[start:stop] == rows
    carrying = {clause.name for clause in SAMPLES if clause.structure.carries is not None}
    assert carrying == {clause.name for clause, _ in CARRYING}


def _yes(flag: bool) -> str:
    return "yes" if flag else "–"


def test_the_samples_are_all_clauses() -> None:
    ours = {n for n in clause_names() if find_clause(n).__module__.startswith("tessel.")}
    assert [clause.name for clause in SAMPLES if clause.name not in ours] == []
    assert {clause.name for clause in SAMPLES} == ours


def test_the_document_holds_the_table() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEADER) + 2
    stop = lines.index("", start)
    assert lines[start:stop] == rows_of_the_table()


@pytest.mark.parametrize("clause", SAMPLES, ids=lambda clause: clause.name)
def test_the_file_of_a_clause_says_what_it_means(clause: Clause) -> None:
    assert clause.__doc__
    assert type(clause).structure.__doc__
    assert type(clause).process.__doc__


@pytest.mark.parametrize(
    "clause",
    [c for c in SAMPLES if not c.internal and c.structure.input is not Structure.MULTI_SYMBOL],
    ids=lambda clause: clause.name,
)
def test_the_index_does_what_is_declared(clause: Clause) -> None:
    schema = SCHEMA
    if isinstance(clause, InZone):  # which refuses times without a zone
        kind = pa.timestamp("us", "UTC")
        schema = TableSchema(SCHEMA.arrow.set(0, pa.field("t", kind)), "t")
    kept = clause.output_schema(schema).index
    assert kept == {"keep": "t", "drop": None, "replace": "t"}[clause.structure.index.value]

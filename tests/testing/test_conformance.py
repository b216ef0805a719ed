"""The suite for authors: our own clauses and an example's pass it, faulty ones are caught."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from tessel.clauses import (
    Carry,
    Clause,
    ClauseInfo,
    QueryBuilder,
    Shift,
    Structure,
    StructuredUnits,
    UnitFacts,
    register,
    structure_by_bucket,
)
from tessel.clauses.structures import facts_of_segments
from tessel.ecs import Piece, ProcessingUnit
from tessel.expression import col
from tessel.expression.schema import TableSchema
from tessel.store import SegmentIndex
from tessel.testing.conformance import CHECKS, ClauseCase, check_clause
from tests.clauses.attaching import Mark, Span, Stamp
from tests.clauses.custom import DropNegative, EveryOther, LastOfSpan, PreviousDiffers, RowWise

START = dt.datetime(2021, 1, 1)
ROWS = 25
TABLE = pa.table(
    {
        "t": pa.array(
            [START + dt.timedelta(minutes=17 * n) for n in range(ROWS)], pa.timestamp("us")
        ),
        "k": pa.array(["a", "b", None, "a"] * 6 + ["c"]).dictionary_encode(),
        "v": pa.array([None if n % 5 == 0 else n % 7 - 3 for n in range(ROWS)], pa.int64()),
        "f": pa.array([float("nan") if n % 4 == 0 else n / 8 for n in range(ROWS)]),
    }
)
Q = QueryBuilder()
OURS: dict[str, QueryBuilder] = {
    "filter": Q.filter("v > 0 and f < 3"),
    "apply": Q.apply("f", col("f") * 2 + col("v")),
    "select": Q.select("f", "t"),
    "drop": Q.drop("k"),
    "rename": Q.rename({"v": "f", "f": "v"}),
    "date_range": Q.date_range("2021-01-01T01", "2021-01-01T03"),
    "head": Q.head(7),
    "tail": Q.tail(7),
    "row_range": Q.row_range(-9, -2),
    "sort": Q.sort("f", "k", descending=[True, False], missing="first"),
    "sort by time": Q.sort("t", "v", descending=[False, True]),
    "top_k": Q.top_k(7, "v", "k"),
    "distinct": Q.distinct("k", "v", keep="last"),
    "distinct of all": Q.distinct(keep="none"),
    "sample": Q.sample(7, seed=3),
    "sample by chance": Q.sample(fraction=0.4),
    "sample with replacement": Q.sample(30, replacement=True),
    "cast": Q.cast({"v": "float32", "t": "timestamp[s]"}),
    "cast what fits": Q.cast({"v": "uint8"}, strict=False),
    "value_counts": Q.value_counts("k", drop_missing=False, normalise=True),
    "value_counts, unsorted": Q.value_counts("v", "k", sort=False),
    "describe": Q.describe(),
    "concat": Q.concat("symbol", "symbol"),
    "merge of symbols": Q.merge("symbol"),
    "merge of segments": Q.merge(on="t"),
    "merge of what overlaps": Q.concat("symbol").merge(on="t"),
    "shift": Q.shift({"w": "f", "x": "k"}, 2, by="k"),
    "shift back": Q.shift(["f", "v"], -2, by=["k", "v"], fill=1),
    "shift and filter": Q.filter("v > -2").shift({"w": "f"}, -3).filter("w > 1"),
    "diff": Q.diff({"w": "f", "x": "t", "y": "v"}, 2, by="k"),
    "pct_change": Q.pct_change(["f", "v"], -1),
    "cum_sum": Q.cum_sum(["f", "v"], by="k"),
    "cum_min": Q.cum_min({"low": "f", "first": "k"}),
    "cum_max": Q.cum_max({"high": "v", "last": "t"}, by=["k"]),
    "cum_count": Q.cum_count({"n": "f"}, by="v"),
    "rolling rows": Q.rolling(3, by="k", min_periods=1).agg(s=("f", "sum"), m=("v", "median")),
    "rolling, centred": Q.rolling(4, center=True).agg(low=("v", "min"), f=("f", "var"), n="size"),
    "rolling time": Q.rolling("40min", by="v").agg(a=("f", "mean"), b=("k", "last"), n="size"),
    "rolling time, centred": Q.rolling("1h", center=True, closed="left").agg(f=("f", "max")),
    "fill forward": Q.fill(["f", "k"], by="v", limit=2),
    "fill backward": Q.fill({"a": "f", "b": "t"}, "backward", by="k"),
    "fill linear": Q.fill(["f", "v"], "linear", along="time"),
    "fill with a value": Q.fill("f", value=0),
    "rank": Q.rank({"r": "f"}, by="k").rank("v", "dense", descending=True),
    "ewm": Q.ewm(span=3, by="k").agg(m=("f", "mean"), s=("v", "std")),
    "ewm by time": Q.ewm(halflife="40min", by="k").agg(m=("f", "mean"), s=("v", "std")),
    "latest_at": Q.latest_at(["2021-01-01T01", "2021-01-01T03:07", "2022"], origin="then"),
    "latest_at by key": Q.latest_at(["2021-01-01T00:20", "2021-01-01T05"], by=["k"]),
    "groupby, merged": Q.groupby("k").agg(s=("v", "sum"), m=("f", "mean"), n="size"),
    "groupby, bucketed": Q.groupby("k", drop_missing=False).agg(m=("f", "median")),
    "groupby, unsorted": Q.groupby("k", "v", sort=False).agg(d=("f", "nunique")),
    "groupby, spreads and bars": Q.groupby("k").agg(
        w=("f", "weighted_mean", "v"), bar=("f", "ohlc"), d=("f", "std"), n=("v", "var", 0)
    ),
    "groupby, quantiles": Q.groupby("k").agg(
        q=("v", "quantile", 0.9, "lower"), m=("f", "quantile", 0.3), t=("t", "std")
    ),
    "resample, spreads": Q.resample("1h").agg(e=("f", "sem"), v=("f", "vwap", "v")),
    "rolling, weighted": Q.rolling(3, by="k").agg(w=("f", "vwap", "v"), q=("v", "quantile", 0.1)),
    "agg": Q.agg(m=("f", "median"), first=("v", "first")),
    "resample, merged": Q.resample("1h").agg(s=("f", "sum"), low=("v", "min")),
    "resample, keys": Q.resample("1h", by="k").agg(s=("f", "sum"), d=("v", "nunique")),
    "resample, months": Q.resample("ME").agg(s=("f", "sum"), m=("v", "median")),
    "resample, filled": Q.resample("1h", by="k", empty="ffill").agg(
        s=("f", "sum"), low=("v", "min")
    ),
    "resample, whole": Q.resample("1h", closed="right", label="right").agg(m=("v", "median")),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("check", CHECKS)
def test_our_clauses(name: str, check: str) -> None:
    query = OURS[name]
    CHECKS[check](ClauseCase(lambda: query.clauses, TABLE, "t"))


@pytest.mark.parametrize(
    "make",
    [lambda: DropNegative("v"), lambda: PreviousDiffers("k"), lambda: EveryOther("v")],
    ids=["drop_negative", "previous_differs", "every_other"],
)
def test_clauses_of_others(make: Callable[[], Clause]) -> None:
    check_clause(make, TABLE, index="t")
    check_clause(make, TABLE.drop_columns(["t"]))


def test_the_clause_of_the_examples() -> None:
    import examples.custom_clause as example

    readings = pa.table({"value": [9.5, None, 10.25, 9_999.0, float("nan"), 0.001, 10.5]})
    check_clause(lambda: example.DropOutliers("value", reference=10.0), readings)


# --- faulty clauses -------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Faulty(RowWise):
    """Wrong in one of the ways that the suite looks for."""

    name: ClassVar[str] = "faulty"
    fault: str = ""
    calls: ClassVar[list[int]] = []

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset([self.column]),
            keeps_count=self.fault == "says that it keeps all",
        )

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        if self.fault == "first row of each unit":
            return unit.slice(0, 1)
        if self.fault == "impure":
            self.calls.append(1)
            return unit.slice(0, len(self.calls) % 5)
        if self.fault == "nulls apart":
            kept = [v is None or v != v for v in unit.column(self.column).to_pylist()]
            nulls = [v is None for v in unit.column(self.column).to_pylist()]
            return unit.filter(pa.array(nulls if any(nulls) else [not k for k in kept], pa.bool_()))
        if self.fault == "another type":
            return unit.with_column(self.column, pa.array(["x"] * unit.num_rows))
        if self.fault == "says that it keeps all":
            return unit.slice(0, unit.num_rows // 2)
        return unit


@register
@dataclass(frozen=True)
class Forgetful(RowWise):
    """Its JSON form forgets a field."""

    name: ClassVar[str] = "forgetful"
    limit: int = 0

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(unit.evaluate(col(self.column) > self.limit))

    def to_json(self) -> dict[str, Any]:
        return {"clause": self.name, "column": self.column}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("another type", "schema promise"),
        ("first row of each unit", "any split"),
        ("impure", "any split"),
        ("says that it keeps all", "any split"),
    ],
)
def test_faulty_clauses_are_caught(fault: str, check: str) -> None:
    with pytest.raises(AssertionError, match=rf"^{check}: faulty"):
        check_clause(lambda: Faulty("f", fault), TABLE, index="t")


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("impure", "purity"),
        ("nulls apart", "missing values"),
        ("says that it keeps all", "what is declared"),
        ("first row of each unit", "any split"),
        ("another type", "schema promise"),
    ],
)
def test_each_check_alone_finds_its_fault(fault: str, check: str) -> None:
    from tessel.errors import TesselError

    with pytest.raises((AssertionError, TesselError)):
        CHECKS[check](ClauseCase(lambda: Faulty("f", fault), TABLE, "t"))


def test_a_forgetful_plan_is_caught() -> None:
    with pytest.raises(AssertionError, match="JSON form"):
        CHECKS["JSON round trip"](ClauseCase(lambda: Forgetful("v", 2), TABLE, "t"))


def test_another_executor_is_compared() -> None:
    def right(store: Any, symbol: str, query: QueryBuilder) -> pa.Table:
        return store.read(symbol, query=query).to_arrow()

    def wrong(store: Any, symbol: str, query: QueryBuilder) -> pa.Table:
        return right(store, symbol, query).slice(1)

    check_clause(lambda: DropNegative("v"), TABLE, index="t", executors=[right])
    with pytest.raises(AssertionError, match=r"^other executors: drop_negative"):
        check_clause(lambda: DropNegative("v"), TABLE, index="t", executors=[right, wrong])


def test_units_that_are_grouped_otherwise_behind_other_clauses_are_caught() -> None:
    @register
    @dataclass(frozen=True)
    class GroupsOnlySegments(LastOfSpan):
        name: ClassVar[str] = "groups_only_segments"

        def structure_units(self, index: SegmentIndex) -> StructuredUnits:
            groups = LastOfSpan(span=self.span).restructure(facts_of_segments(index), index.schema)
            return StructuredUnits(index, groups)

        def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
            return structure_by_bucket([replace(facts, bucket=facts.unit) for facts in units])

    check_clause(lambda: LastOfSpan(), TABLE, index="t")
    with pytest.raises(AssertionError, match=r"^any place: groups_only_segments"):
        check_clause(lambda: GroupsOnlySegments(), TABLE, index="t")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("loses", "the component of the unit, after process"),
        ("undeclared", "Span cannot be received"),
        ("has no plain form", "Mark cannot be sent"),
    ],
)
def test_components_that_would_be_lost_are_caught(fault: str, message: str) -> None:
    @register
    @dataclass(frozen=True)
    class Attaches(RowWise):
        name: ClassVar[str] = "attaches_badly"

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            if fault == "loses":
                return ProcessingUnit(0, unit.schema, map(bare, unit.pieces))
            return unit.with_component(Span(1, 2) if fault == "undeclared" else Mark("a"))

    def bare(piece: Piece) -> Piece:
        return replace(piece, components=())

    with pytest.raises(AssertionError, match=rf"^components: attaches_badly.*{message}"):
        check_clause(lambda: Attaches("v"), TABLE, index="t")
    CHECKS["components"](ClauseCase(Stamp, pa.table({"n": [1, 2, 3]})))


def test_a_schema_is_a_promise_for_columns_that_are_declared_only() -> None:
    @register
    @dataclass(frozen=True)
    class ReadsMore(RowWise):
        name: ClassVar[str] = "reads_more"

        @property
        def structure(self) -> ClauseInfo:
            return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, columns=frozenset())

        def output_schema(self, input_schema: TableSchema) -> TableSchema:
            input_schema.require([self.column])
            return input_schema

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            return unit.filter(unit.evaluate(col(self.column) > 0))

    with pytest.raises(AssertionError, match=r"^what is declared: reads_more"):
        check_clause(lambda: ReadsMore("v"), TABLE, index="t")


# --- faulty carries -------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Forgets(Shift):
    """Carries from before, and forgets in one of the ways that the suite looks for."""

    name: ClassVar[str] = "forgets"
    fault: str = ""

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        carried = super().summary(unit)
        return carried.slice(0, 0) if self.fault == "rows of a unit" else carried

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        return later if self.fault == "what was before" else super().combine(earlier, later, schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        return self.fault == "to look ahead" or super().suffices(summary, after)


@pytest.mark.parametrize(
    ("n", "fault"),
    [(2, "rows of a unit"), (2, "what was before"), (-2, "to look ahead"), (-2, "what was before")],
)
def test_faulty_carries_are_caught(n: int, fault: str) -> None:
    case = ClauseCase(lambda: Forgets((("w", "v"),), (), n, None, fault), TABLE, "t")
    with pytest.raises(AssertionError, match="the answer of units"):
        CHECKS["carries"](case)


def test_a_carry_without_the_methods_is_caught() -> None:
    @dataclass(frozen=True)
    class Says(RowWise):
        name: ClassVar[str] = "says_that_it_carries"

        @property
        def structure(self) -> ClauseInfo:
            return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, carries=Carry.BEFORE)

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            return unit

    with pytest.raises(AssertionError, match="the methods of Carries"):
        CHECKS["carries"](ClauseCase(lambda: Says("v"), TABLE, "t"))


def test_the_suite_needs_no_library_of_the_tests_of_this_package():
    text = "import sys; sys.modules['hypothesis'] = None; import tessel.testing.conformance"
    subprocess.run([sys.executable, "-c", text], check=True)

"""The builder: immutable, equal by its plain form, with verbs that are looked up and corrected."""

from __future__ import annotations

import copy
import inspect
import json
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import Filter, QueryBuilder, Select, SubQuery
from tessel.errors import (
    AggregateError,
    PlanError,
    TesselError,
    TruthValueError,
    UnknownVerbError,
)
from tessel.expression import col, lit
from tessel.expression.schema import TableSchema
from tests.strategies.queries import build, chains, query_tables

Q = QueryBuilder()
LONG = (
    Q.date_range("2021", closed="left")
    .filter("a > 1 and b in ('x', 'it''s')", optimise="memory")
    .apply("c", col("a") / 3 + 0.1)
    .rename({"a": "b", "b": "a"})
    .groupby("a", sort=False, drop_missing=False)
    .agg({"c": ["sum", "max"]}, n="size")
    .concat(SubQuery("y", 3, Q.tail(2).clauses), "z", join="inner")
    .row_range(-3)
)


def test_every_verb_returns_a_new_query_and_branches_share_nothing() -> None:
    root = Q.filter("a > 1")
    one, other = root.head(1), root.select("a")
    assert [c.name for c in root.clauses] == ["filter"]
    assert [c.name for c in one.clauses] == ["filter", "head"]
    assert [c.name for c in other.clauses] == ["filter", "select"]
    with pytest.raises(AttributeError):
        root.clauses = ()  # type: ignore[misc]
    grouped = root.groupby("a")
    assert grouped.agg(n="size") != grouped.agg(m="size")


@settings(max_examples=40)
@given(data=st.data())
def test_equality_hash_and_copies(data: st.DataObject) -> None:
    table = data.draw(query_tables(max_rows=0))
    schema = TableSchema(table.schema, "t" if "t" in table.column_names else None)
    query = build(data.draw(chains(schema, others={"y": schema})))
    other = build(data.draw(chains(schema, others={"y": schema})))
    text = json.dumps(query.to_json())
    for same in (
        QueryBuilder.from_json(text),
        QueryBuilder.from_json(json.loads(text)),
        copy.copy(query),
        copy.deepcopy(query),
        pickle.loads(pickle.dumps(query)),
    ):
        assert same == query
        assert hash(same) == hash(query)
        assert same.clauses == query.clauses
        assert [hash(c) for c in same.clauses] == [hash(c) for c in query.clauses]
        assert repr(same) == repr(query)
    assert (query == other) == (repr(query) == repr(other))


def test_a_query_is_made_of_clauses_by_name_or_by_place() -> None:
    clauses = QueryBuilder().head(3).tail(2).clauses
    assert QueryBuilder(clauses=clauses) == QueryBuilder(clauses) == QueryBuilder().then(*clauses)
    assert list(inspect.signature(QueryBuilder).parameters) == ["clauses"]


def test_clauses_are_equal_by_what_they_say() -> None:
    assert Filter(col("a") > 1) == Filter(col("a") > lit(1))
    assert Filter(col("a") > 1) != Filter(col("a") > 2)
    assert Filter(col("a") > 1) != Filter(col("a") > 1, "memory")
    assert Filter(col("a")) != Select(("a",))
    assert len({Filter(col("a") > 1), Filter(col("a") > 1), Filter(col("a") > 2)}) == 2
    assert Q != 3


def _names(query: QueryBuilder) -> list[str]:
    return [clause.name for clause in query.clauses]


def test_a_query_goes_through_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(_names, LONG).result() == _names(LONG)


def test_bracket_forms() -> None:
    assert Q[Q["a"] > 1] == Q.filter("a > 1")
    assert Q[["a", "b"]] == Q.select("a", "b")
    assert Q["a"].equals(col("a"))
    with pytest.raises(PlanError, match="not indexed by 3"):
        Q[3]
    with pytest.raises(PlanError, match="row_range"):
        Q[1:2]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("where", "filter"),
        ("fliter", "filter"),
        ("assign", "with_columns"),
        ("withColumn", "with_columns"),
        ("limit", "head"),
        ("groupBy", "groupby"),
        ("heads", "head"),
        ("union", "concat"),
        ("iloc", "row_range"),
        ("drop_negatives", "drop_negative"),
    ],
)
def test_near_misses_name_the_right_verb(wrong: str, right: str) -> None:
    with pytest.raises(UnknownVerbError, match=f"'{right}'") as caught:
        getattr(Q, wrong)
    assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize("name", ["merge_aggregation", "partial_resample", "merge_sorted", "zzz"])
def test_what_only_the_planner_makes_is_no_verb(name: str) -> None:
    with pytest.raises(UnknownVerbError):
        getattr(Q, name)
    assert not hasattr(Q, name)
    assert not hasattr(Q, "_private")


def test_then_takes_clauses_only() -> None:
    assert Q.then(Select(("a",)), Select(("a",))) == Q.select("a").select("a")
    for thing in ("head", Select, None):
        with pytest.raises(PlanError, match="is not a clause"):
            Q.then(thing)  # type: ignore[arg-type]


def test_a_flag_is_true_or_false() -> None:
    odd: Any = ["no", 0, [True], np.array([1, 2]), pd.NA]
    for wrong in odd:
        for make in (
            lambda flag: Q.groupby("a", sort=flag).agg(n="size"),
            lambda flag: Q.groupby("a", drop_missing=flag).agg(n="size"),
            lambda flag: Q.resample("1h", by="a", drop_missing=flag).agg(n="size"),
            lambda flag: Q.value_counts("a", normalise=flag),
            lambda flag: Q.rolling(2, center=flag).agg(n="size"),
            lambda flag: Q.ewm(span=2, adjust=flag).agg(m=("a", "mean")),
            lambda flag: Q.explode("a", keep_empty=flag),
            lambda flag: Q.join_asof("x", allow_exact_matches=flag),
            lambda flag: Q.cast({"a": "int8"}, strict=flag),
            lambda flag: Q.rank("a", pct=flag),
        ):
            with pytest.raises(TesselError, match=r"(is true or false|takes True or False), not"):
                make(wrong)
    assert Q.groupby("a", sort=np.True_).agg(n="size") == Q.groupby("a").agg(n="size")


@pytest.mark.parametrize("wrong", [None, 0, ["x"], b"x"])
def test_a_suffix_is_text(wrong: Any) -> None:
    for make in (Q.join, Q.join_asof):
        with pytest.raises(PlanError, match="suffix is text, not"):
            make("x", "a", suffix=wrong)


def test_a_word_is_no_array() -> None:
    odd: Any = [np.array([1, 2]), pd.NA, ["left"]]
    for wrong in odd:
        with pytest.raises(PlanError, match="it is right, left, both or neither"):
            Q.rolling(2, closed=wrong).agg(n="size")
        with pytest.raises(AggregateError, match="it is one of linear"):
            Q.agg(n=("a", "quantile", 0.5, wrong))


def test_a_registered_clause_names_its_wrong_arguments() -> None:
    odd: Any = Q
    for make, told in (
        (lambda: odd.partition(), "partition: missing a required argument: 'keys'"),
        (lambda: odd.drop_negative("a", "b"), "drop_negative: too many positional arguments"),
        (lambda: odd.drop_negative(colum="a"), "drop_negative has no argument 'colum'"),
        (lambda: odd.aggregation("a", 7), "aggregation: keys takes a list of"),
        (lambda: odd.aggregate_columns(3, ("a",)), "aggregate_columns: how takes text, not 3"),
    ):
        with pytest.raises(TesselError, match=told):
            make()


def test_the_truth_of_a_condition_is_refused() -> None:
    with pytest.raises(TruthValueError, match="&"):
        Q.filter((col("a") > 1) and (col("b") > 1))  # type: ignore[arg-type]


def test_the_schema_is_known_without_data() -> None:
    schema = TableSchema(pa.schema([("t", pa.timestamp("s")), ("a", pa.int32())]), "t")
    found = Q.filter("a > 1").resample("1h").agg(s=("a", "sum"), m=("a", "mean")).schema(schema)
    assert found.arrow == pa.schema(
        [("t", pa.timestamp("s")), ("s", pa.int64()), ("m", pa.float64())]
    )
    assert found.index == "t"


def test_the_text_of_a_query() -> None:
    assert repr(Q.filter("a > 1").head(3)) == "QueryBuilder()\n  .filter(a > 1)\n  .head(n=3)"
    assert repr(Q) == "QueryBuilder()"

"""The JSON form of plans: stable, and nothing from outside is trusted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import Clause, ClauseInfo, QueryBuilder, find_clause, register
from tessel.errors import (
    ExpressionSyntaxError,
    NameNotFoundError,
    PlanError,
    PlanFormatError,
    TesselError,
    VersionNotFoundError,
)
from tessel.expression import col
from tests.clauses.custom import DropNegative, RowWise

Q = QueryBuilder()

GOLDEN = {
    "tessel_plan": 1,
    "clauses": [
        {"clause": "date_range", "start": "2021-01", "end": None, "closed": "both"},
        {"clause": "filter", "predicate": {"expression": "a > 1"}, "optimise": "speed"},
        {
            "clause": "partition",
            "keys": ["b"],
            "drop_missing": True,
            "buckets": 1,
            "positions": False,
        },
        {
            "clause": "aggregation",
            "keys": ["b"],
            "aggregates": [{"output": "s", "column": "a", "aggregate": "sum"}],
            "sort": True,
        },
        {
            "clause": "concat",
            "others": [{"symbol": "y", "as_of": None, "clauses": []}],
            "join": "outer",
        },
        {"clause": "rename", "columns": [["s", "total"]]},
        {"clause": "row_range", "start": None, "stop": 3},
    ],
}


def test_golden() -> None:
    query = (
        Q.date_range("2021-01")
        .filter("a > 1")
        .groupby("b")
        .agg(s=("a", "sum"))
        .concat("y")
        .rename({"s": "total"})
        .row_range(stop=3)
    )
    assert query.to_json() == GOLDEN
    assert QueryBuilder.from_json(json.dumps(GOLDEN)) == query


RUBBISH: list[tuple[Any, str]] = [
    ({"clause": "head", "n": "5"}, r"head\.n takes int, not '5'"),
    ({"clause": "head", "n": True}, r"head\.n takes int, not True"),
    ({"clause": "head", "n": 1.5}, r"head\.n takes int, not 1\.5"),
    ({"clause": "head", "m": 5}, r"(?s)head has no field 'm'.*fields: \['n'\]"),
    ({"clause": "filter"}, r"filter lacks the field 'predicate'"),
    ({"clause": "filter", "predicate": "a > 1"}, r"filter\.predicate takes an expression"),
    ({"clause": "filter", "predicate": {"expression": "a", "x": 1}}, r"filter\.predicate takes"),
    (
        {"clause": "filter", "predicate": {"expression": "a"}, "optimise": "fast"},
        r"filter\.optimise takes 'speed' or 'memory', not 'fast'",
    ),
    ({"clause": "select", "columns": "a"}, r"select\.columns takes a list, not 'a'"),
    ({"clause": "select", "columns": ["a", 3]}, r"select\.columns\[1\] takes str, not 3"),
    ({"clause": "rename", "columns": [["a"]]}, r"rename\.columns\[0\] takes a list of 2 items"),
    ({"clause": "concat", "others": ["y"]}, r"concat\.others\[0\] takes an object"),
    ({"clause": "concat", "others": [{"symbol": 1}]}, "not the plain form of a symbol's query"),
    ({"clause": "concat", "others": [{"symbol": "y", "as_of": 1.5}]}, "as_of is a version number"),
    ({"clause": "aggregation", "keys": [], "aggregates": [{"output": 1}]}, "plain form of an agg"),
    (3, "is not a clause"),
    ({"n": 5}, "is not a clause"),
    ({"clause": ["head"]}, "is not a clause"),
]


@pytest.mark.parametrize(("clause", "text"), RUBBISH, ids=str)
def test_rubbish_is_refused_with_its_place(clause: Any, text: str) -> None:
    plan = {"tessel_plan": 1, "clauses": [{"clause": "head", "n": 5}, clause]}
    with pytest.raises(PlanFormatError, match=text) as caught:
        QueryBuilder.from_json(plan)
    assert "clauses[1]" in str(caught.value)
    nested = {"clause": "concat", "others": [{"symbol": "y", "clauses": [clause]}]}
    with pytest.raises(PlanFormatError, match=text):
        QueryBuilder.from_json({"tessel_plan": 1, "clauses": [nested]})


@pytest.mark.parametrize(
    "plan",
    [
        None,
        [],
        "",
        "{",
        "3",
        "[" * 100_000,
        {},
        {"tessel_plan": 2, "clauses": []},
        {"tessel_plan": 1},
        {"tessel_plan": 1, "clauses": "head"},
        {"tessel_plan": 1, "clauses": {"clause": "head"}},
    ],
    ids=lambda plan: repr(plan)[:40],
)
def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(PlanFormatError):
        QueryBuilder.from_json(plan)


def test_unknown_clauses_and_aggregates_name_the_nearest() -> None:
    for name, nearest in (("filtre", "filter"), ("drop_negatives", "drop_negative")):
        plan = {"tessel_plan": 1, "clauses": [{"clause": name}]}
        with pytest.raises(NameNotFoundError, match=f"did you mean '{nearest}'"):
            QueryBuilder.from_json(plan)
    text = json.dumps(GOLDEN).replace('"sum"', '"summ"')
    with pytest.raises(NameNotFoundError, match="did you mean 'sum'"):
        QueryBuilder.from_json(text)
    text = json.dumps(GOLDEN).replace("a > 1", "a >")
    with pytest.raises(ExpressionSyntaxError):
        QueryBuilder.from_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(data=st.data(), value=json_values)
def test_any_damage_gives_a_typed_error_or_a_valid_plan(data: st.DataObject, value: Any) -> None:
    plan = json.loads(json.dumps(GOLDEN))
    clause = plan["clauses"][data.draw(st.integers(0, len(plan["clauses"]) - 1))]
    clause[data.draw(st.sampled_from(sorted(clause)))] = value
    try:
        query = QueryBuilder.from_json(plan)
    except TesselError:
        return
    assert QueryBuilder.from_json(query.to_json()) == query


def test_an_expression_that_shares_much_is_written_as_its_context() -> None:
    shared = col("a") + 1
    for _ in range(16):
        shared = shared + shared
    query = Q.filter(shared > 0)
    text = json.dumps(query.to_json())
    assert len(text) < 20_000
    assert QueryBuilder.from_json(text) == query


# --- clauses of others ----------------------------------------------------------------------------


def test_numpy_numbers_are_numbers() -> None:
    clause = Q.fails_above("v", np.int64(3)).clauses[0]
    assert clause.to_json() == {"clause": "fails_above", "column": "v", "limit": 3}


def test_a_field_without_plain_form_is_named() -> None:
    query = Q.then(DropNegative({1, 2}))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"drop_negative\.column is a set, which has no plain form"):
        query.to_json()


def test_registering() -> None:
    assert find_clause("drop_negative") is DropNegative
    with pytest.raises(PlanError, match="not a frozen dataclass"):
        register(type("Plain", (RowWise,), {"name": "plain", "process": lambda s, u: u}))

    @dataclass(frozen=True)
    class Nameless(Clause):
        structure = ClauseInfo  # type: ignore[assignment]

        def output_schema(self, input_schema: Any) -> Any:
            return input_schema

        def process(self, unit: Any) -> Any:
            return unit

    with pytest.raises(PlanError, match="no usable name"):
        register(Nameless)

    @dataclass(frozen=True)
    class Other(Nameless):
        name: ClassVar[str] = "head"

    with pytest.raises(PlanError, match="'head' is registered already"):
        register(Other)
    assert find_clause("head").__name__ == "Head"


def test_a_clause_may_be_defined_again_in_its_own_place() -> None:
    """A notebook cell that is run twice registers the same clause twice."""

    def define() -> type[Clause]:
        @register
        @dataclass(frozen=True)
        class Again(RowWise):
            name: ClassVar[str] = "again"

            def process(self, unit: Any) -> Any:
                return unit

        return Again

    define()
    second = define()
    assert find_clause("again") is second


@pytest.mark.parametrize(
    "plan",
    [
        {"tessel_plan": 1, "clauses": [], "store": "/another"},
        {
            "tessel_plan": 1,
            "clauses": [
                {
                    "clause": "join",
                    "other": {"symbol": "y", "as_of": None, "clauses": [], "store": "/another"},
                    "on": [["t", "t"]],
                    "how": "inner",
                    "suffix": "_right",
                }
            ],
        },
    ],
    ids=["query", "other side"],
)
def test_a_query_names_no_store(plan: dict[str, Any]) -> None:
    with pytest.raises(PlanFormatError, match="no field 'store': it reads the store that"):
        QueryBuilder.from_json(plan)


def test_a_symbol_beside_is_read_as_of_a_name_when_the_query_runs() -> None:
    store = ts.open("memory://")
    store.write("x", pa.table({"n": [0]}))
    store.write("y", pa.table({"n": [1]}))
    store.create_tag("first")
    store.create_branch("work")
    store.write("y", pa.table({"n": [2]}))

    def read(as_of: int | str | None) -> list[int]:
        plan = {"clause": "concat", "others": [{"symbol": "y", "as_of": as_of, "clauses": []}]}
        query = QueryBuilder.from_json({"tessel_plan": 1, "clauses": [plan]})
        assert QueryBuilder.from_json(query.to_json()) == query
        found: list[int] = store.read("x", query=query)["n"].to_pylist()
        return found

    assert [read(each) for each in (None, "first", "work", "main")] == [
        [0, 2],
        [0, 1],
        [0, 1],
        [0, 2],
    ]
    store.reset_branch("work", "main")
    assert [read(each) for each in ("first", "work", "main")] == [[0, 1], [0, 2], [0, 2]]
    store.write("y", pa.table({"n": [3]}))
    assert read("main") == [0, 3]
    with pytest.raises(VersionNotFoundError, match="did you mean 'first'"):
        read("frist")

"""Digests, contexts, depth, size, truth, and the JSON form against rubbish."""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tessel.errors import (
    ExpressionDepthError,
    NameNotFoundError,
    PlanFormatError,
    TruthValueError,
)
from tessel.expression import Expression, ExpressionContext, all_of, any_of, col, lit, parse, when
from tessel.expression.evaluate import evaluate
from tessel.expression.leaves import ValueSet
from tessel.expression.registry import make


def test_ten_thousand_terms() -> None:
    terms = [col("a") == number for number in range(10_000)]
    joined = functools.reduce(operator.or_, terms)
    assert joined.depth == 2 + 1
    assert joined.equals(any_of(terms))
    assert parse(str(joined)).equals(joined)
    assert Expression.from_json(joined.to_json()).equals(joined)
    got = evaluate(joined, pa.table({"a": [5, 10_000, None]}))
    assert got.to_pylist() == [True, False, None]
    assert all_of(terms).equals(functools.reduce(operator.and_, terms))


def test_depth_is_limited() -> None:
    expression: Expression = col("a")
    for _ in range(999):
        expression = expression + 1
    with pytest.raises(ExpressionDepthError):
        expression + 1
    assert expression.depth == 1_000
    assert parse(str(expression)).equals(expression)
    assert Expression.from_json(json.loads(json.dumps(expression.to_json()))).equals(expression)
    assert evaluate(expression, pa.table({"a": [0]})).to_pylist() == [999]


def test_the_deepest_choices_run_as_written() -> None:
    expression: Expression = lit(2**63 - 1) + 1
    for _ in range(490):
        expression = when(col("a") > 0).then(expression + 1).otherwise(0)
    assert evaluate(expression, pa.table({"a": [0]})).to_pylist() == [0]


def test_shared_expressions_stay_small() -> None:
    expression: Expression = col("e")
    for _ in range(24):
        expression = expression * expression
    assert len(ExpressionContext.of(expression).order) == 25
    assert len(str(expression)) < 20_000
    assert str(expression).endswith("…")
    assert len(repr(expression)) < 1_000
    assert len(ExpressionContext.of(expression).display_name()) < 3_000
    assert Expression.from_json(expression.to_json()).equals(expression)
    assert evaluate(expression, pa.table({"e": [1.0]})).to_pylist() == [1.0]


def test_equal_parts_are_computed_once_and_kept() -> None:
    shared = col("a") + 1
    memo: dict[str, Any] = {}
    table = pa.table({"a": [1, 2]})
    evaluate((shared > 1) & (col("a") + 1 < 9), table, memo)
    kept = memo[shared.digest.hex()]
    assert kept.to_pylist() == [2, 3]
    memo[shared.digest.hex()] = pa.array([100, 200], pa.int64())
    assert evaluate(shared * 2, table, memo).to_pylist() == [200, 400]


def test_the_display_name_of_the_design() -> None:
    predicate = (col("price") > 100.0) & (col("volume") < 1000)
    assert ExpressionContext.of(predicate).display_name() == (
        '((Column["price"] GT Float64(100.0)) AND (Column["volume"] LT Int64(1000)))'
    )


def test_a_context_names_everything_by_digest() -> None:
    predicate = col("s").is_in(["a", "b"]) & col("s").matches("x") & (col("n") > 1)
    context = ExpressionContext.of(predicate)
    assert sorted(context.columns.values()) == ["n", "s"]
    written = context.to_json()
    assert list(written["values"].values()) == [["int", "1"]]
    assert list(written["value_sets"].values()) == [[["text", "a"], ["text", "b"]]]
    assert list(written["regexes"].values()) == ["x"]
    operators = ["and", "greater", "is_in", "matches"]
    assert sorted(node["operator"] for node in written["nodes"].values()) == operators
    root = written["nodes"][context.root]
    assert list(context.children(context.root)) == root["operands"]
    assert all(len(name) == 32 for name in context.order)


def test_digests_are_the_same_everywhere() -> None:
    assert (col("a") > 1).digest.hex() == DIGEST
    assert (col("a") > 1).digest != (col("a") >= 1).digest
    assert (col("a") - col("b")).digest != (col("b") - col("a")).digest
    assert lit(1).digest != lit(1.0).digest
    assert lit(0.0).digest != lit(-0.0).digest


DIGEST = "94d95fc468b721db849877cf954f8cff"


@pytest.mark.parametrize(
    "use",
    [
        bool,
        lambda e: e and e,
        lambda e: 1 < e < 3,
        lambda e: e in [col("x")],
        lambda e: 1 in e,
        list,
    ],
)
def test_expressions_have_no_truth(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TruthValueError) as caught:
        use(col("a") == 1)
    assert caught.value.hint


def _changed(change: Callable[[dict[str, Any]], Any]) -> Any:
    predicate = (col("a") + 1 > 2) & col("s").is_in(["x", None]) & col("s").matches("y")
    data = copy.deepcopy(predicate.to_json())
    answer = change(data)
    return data if answer is None else answer


def _first(section: str) -> Callable[[dict[str, Any]], str]:
    return lambda data: next(iter(data[section]))


RUBBISH: list[Callable[[dict[str, Any]], Any]] = [
    lambda data: [],
    lambda data: "a > 1",
    lambda data: data.update(format="tessel.expression/2"),
    lambda data: data.update(root="0" * 32),
    lambda data: data.update(root=5),
    lambda data: data.pop("nodes") and None,
    lambda data: data.update(nodes=[]),
    lambda data: data.update(columns={"x": 5}),
    lambda data: data["columns"].update({_first("columns")(data): "other"}),
    lambda data: data["columns"].update({"f" * 32: "a"}),
    lambda data: data["values"].update({_first("values")(data): ["int", "01"]}),
    lambda data: data["values"].update({_first("values")(data): ["int", "two"]}),
    lambda data: data["values"].update({_first("values")(data): ["int65", "2"]}),
    lambda data: data["values"].update({_first("values")(data): [5]}),
    lambda data: data["value_sets"].update({_first("value_sets")(data): [["text", "other"]]}),
    lambda data: data["value_sets"].clear(),
    lambda data: data["regexes"].update({_first("regexes")(data): "("}),
    lambda data: data["regexes"].update({_first("regexes")(data): "z"}),
    lambda data: data["nodes"][data["root"]].update(operator="nand"),
    lambda data: data["nodes"][data["root"]].update(operator="or"),
    lambda data: data["nodes"][data["root"]].update(operands="x"),
    lambda data: data["nodes"][data["root"]].update(operands=[]),
    lambda data: data["nodes"][data["root"]].update(operands=[data["root"], data["root"]]),
    lambda data: data["nodes"][data["root"]].update(more=1),
    lambda data: data["nodes"].update({data["root"]: "and"}),
]


@pytest.mark.parametrize("change", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_is_no_json_form(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(PlanFormatError):
        Expression.from_json(_changed(change))


def test_unchanged_json_is_read() -> None:
    assert Expression.from_json(_changed(lambda data: None)).columns() == {"a", "s"}


def test_unknown_operators_raise_with_the_nearest_name() -> None:
    with pytest.raises(NameNotFoundError) as caught:
        make("lenght", col("a"))
    assert caught.value.attributes["nearest"] == "length"


def test_a_value_set_is_told_by_its_literals() -> None:
    values = [1, -2, 2**63, 0.5, float("inf"), "é'", None, True, b"x", 1]
    found = ValueSet.of(values)
    literals = [lit(value) for value in values[:-1]]
    assert [str(each) for each in found] == [str(each) for each in literals]
    assert found.digest == ValueSet.of(literals).digest == ValueSet(found.pairs).digest
    digests = {
        ValueSet.of(part).digest for part in ([1], [1.0], ["1"], [1, 2], [2, 1], ["1, 2"], [])
    }
    assert len(digests) == 7


@pytest.mark.parametrize("join", [operator.and_, operator.or_])
def test_what_is_written_out_late_is_there_for_who_goes_through_the_fields(join: Any) -> None:
    """As a debugger and hypothesis do: also before anybody asked for the operands of a chain."""
    short = join(col("a") > 1, col("b") > 2)
    for made in (short, join(short, col("c") > 3), join(join(short, col("c") > 3), col("d"))):
        held = {name: getattr(made, name) for name in type(made).__dataclass_fields__}
        assert held["operands"] == tuple(made.operands)

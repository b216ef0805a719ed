"""The laws of the three forms: tree, text, JSON."""

from __future__ import annotations

import copy
import json
import pickle

from hypothesis import given, note

from tessel.expression import Expression, ExpressionContext, parse
from tests.strategies import expressions as drawn


@given(drawn.expressions())
def test_text_reads_back(expression: Expression) -> None:
    text = str(expression)
    note(text)
    assert parse(text).equals(expression)


@given(drawn.expressions())
def test_json_reads_back(expression: Expression) -> None:
    data = json.loads(json.dumps(expression.to_json(), allow_nan=False))
    again = Expression.from_json(data)
    assert again.equals(expression)
    assert str(again) == str(expression)
    assert again.to_json() == data


@given(drawn.expressions())
def test_context_reads_back(expression: Expression) -> None:
    context = ExpressionContext.of(expression)
    again = ExpressionContext.from_json(context.to_json())
    assert again == context
    assert again.expression().equals(expression)
    assert set(again.order) == set(context.order)


@given(drawn.expressions())
def test_pickle_and_copy_keep_the_expression(expression: Expression) -> None:
    assert pickle.loads(pickle.dumps(expression)).equals(expression)
    assert copy.copy(expression).equals(expression)
    assert copy.deepcopy(expression).equals(expression)


@given(drawn.expressions(), drawn.expressions())
def test_equal_digests_mean_equal_texts(one: Expression, two: Expression) -> None:
    assert one.equals(two) == (str(one) == str(two))
    assert one.equals(two) == (hash(one) == hash(two))

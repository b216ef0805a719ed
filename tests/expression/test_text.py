"""The text form: what is read, what is refused, and the words of the refusal."""

from __future__ import annotations

import functools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable

import lark
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import ExpressionError, ExpressionSyntaxError, TesselError
from tessel.expression import Expression, col, lit, parse, when
from tessel.expression.syntax_errors import syntax_error
from tessel.expression.text import _RULES, _MisuseError
from tests.expression.grammar import GRAMMAR, TABLES, grammar_digest, tables

a, b, c = col("a"), col("b"), col("c")

SAME = [
    ("a > 1 AND b < 2 or c == 3", ((a > 1) & (b < 2)) | (c == 3)),
    ("not a == 1 and b == 2", ~(a == 1) & (b == 2)),
    ("a + b * c ** 2", a + b * c**2),
    ("-a ** 2", -(a**2)),
    ("2 ** -a", 2**-a),
    ("a - b - c", (a - b) - c),
    ("a / (b / c)", a / (b / c)),
    ("1 < a <= 5", (lit(1) < a) & (a <= 5)),
    ("a between 1 and 5 and b == 1", (a >= 1) & (a <= 5) & (b == 1)),
    ("a not between 1 and 5", ~((a >= 1) & (a <= 5))),
    ("a in (1, 2,)", a.is_in([1, 2])),
    ("a not in ('x')", a.not_in(["x"])),
    ("a IS NULL", a.is_missing()),
    ("a is not missing", a.not_missing()),
    ("a matches '\\d+'", a.matches("\\d+")),
    ("a not like 'x%'", ~a.like("x%")),
    ("`a b` == `c``d`", col("a b") == col("c`d")),
    ("'it''s' == \"x'y\"", lit("it's") == "x'y"),
    ("a < float32 '1e60'", a < lit(np.float32("inf"))),
    ("where(a, 1, 2)", when(a).then(1).otherwise(2)),
    ("case when a then 1 end", when(a).then(1).otherwise(None)),
    ("fill_missing(a, 0)", a.fill_missing(0)),
    ("clip(a, 0, 9)", a.clip(0, 9)),
    ("(a == 1) & ~(b == 2) | (c == 3)", ((a == 1) & ~(b == 2)) | (c == 3)),
    ("a ^ b", a ^ b),
    ("1_000 + 1.5e3 + .5", lit(1000) + 1500.0 + 0.5),
    ("+a", a),
    ("--5", -lit(-5)),
    ("android == island", col("android") == col("island")),
    ("COALESCE(a, b)", a.fill_missing(b)),
    ("timestamp '2024-01-31T09:30:00Z'", parse("timestamp[us, UTC] '2024-01-31T09:30:00Z'")),
    ("duration '90min'", parse("duration[us] '1h30min'")),
    ("date '2024-01-31' > a", parse("date '2024-01-31'") > a),
    ("a\n  > 1", a > 1),
]


@pytest.mark.parametrize(("text", "wanted"), SAME, ids=[text for text, _ in SAME])
def test_text_means_what_operators_mean(text: str, wanted: Expression) -> None:
    got = parse(text)
    assert got.equals(wanted), f"{got} is not {wanted}"


WRONG = {
    "a = 1": "write == to compare",
    "a && b": "write 'and' for &&",
    "a || b": "write 'or' for ||",
    "a <> b": "write != for <>",
    "!a": "write 'not' for !",
    "a is None": "write 'is missing'",
    "a == 'x": "the text that starts here has no closing '",
    'a == "x': 'the text that starts here has no closing "',
    "`a == 1": "the column name that starts here has no closing `",
    "(a > 1": "the '(' at character 1 is not closed",
    "a > 1)": "there is no '(' for this ')'",
    "a amd b": "did you mean 'and'?",
    "“x”": "write straight quotes: 'text'",
    "end > 1": "'end' is a word of the language; a column of that name is `end`",
    "a in (b)": "text stands in quotes, 'a'; compare with other columns by == and or",
    "": None,
    "a >": None,
    "a b": "a column whose name has a space stands in backticks: `a b`",
    "a in 1": "values stand in parentheses: in ('a', 'b')",
    "1 2": None,
    "case a end": None,
    "a and and b": "'and' is a word of the language; a column of that name is `and`",
    "f(": "the '(' at character 2 is not closed",
    "1.2.3": None,
    "5a": None,
}


@pytest.mark.parametrize(("text", "hint"), WRONG.items(), ids=WRONG)
def test_slips_are_told(text: str, hint: str | None) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        parse(text)
    assert caught.value.hint == hint
    assert caught.value.detail is not None
    assert "^" in caught.value.detail


def test_the_words_of_a_syntax_error() -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        parse("price > 100\nand qty = 5")
    assert str(caught.value) == (
        "[expression-syntax] not an expression: found '=', expected an operator "
        "(and, or, ==, <, +, in, is, …)\n"
        "    line 2: and qty = 5\n"
        "                    ^\n"
        "  write == to compare"
    )


def test_unknown_functions_raise_with_the_nearest_name() -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        parse("1 + lenght(a)")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean 'length'?")
    assert caught.value.detail == "1 + lenght(a)\n    ^^^^^^"


@pytest.mark.parametrize(
    "text",
    [
        "a matches '('",
        "99999999999999999999",
        "int8 '300'",
        "date 'soon'",
        "length(a, b)",
        "length()",
    ],
)
def test_values_and_calls_that_mean_nothing_show_their_place(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.detail is not None
    assert caught.value.hint


def test_long_lines_are_cut_around_the_place() -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        parse(" and ".join(["a == 1"] * 500) + " and = 2")
    assert caught.value.detail is not None
    shown, carets = caught.value.detail.split("\n")
    assert len(shown) < 200
    assert shown[carets.index("^")] == "="


_TOKENS = re.findall(
    r"\S+",
    """( ) , + - * / // % ** | ^ & ~ == != < <= > >= = && a b `c` 1 2.5 'x' "y" and or not in is
    null missing between like matches case when then else end true false length( floor( coalesce(
    clip( round( cast( slice( where( date '2024-01-31' int8 '5' duration '1h' “ """,
)


@given(st.lists(st.sampled_from(_TOKENS), max_size=12).map(" ".join) | st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expression = parse(text)
    except TesselError:
        return
    assert parse(str(expression)).equals(expression)


def _told(read: Callable[[str], object], text: str) -> object:
    try:
        return str(read(text))
    except TesselError as error:
        return type(error), str(error), error.detail


class _Tree(lark.Transformer[lark.Token, object]):
    """Has the rules as methods."""


@functools.cache
def _reader() -> lark.Lark:
    for name, rule in _RULES.items():
        setattr(_Tree, name, staticmethod(lambda parts, rule=rule: rule(*parts)))
    grammar = GRAMMAR.read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", transformer=_Tree(), maybe_placeholders=False)


def _read_by_lark(text: str) -> object:
    """Read a text by lark alone, which calls the rules as it goes."""
    try:
        return _reader().parse(text)
    except lark.UnexpectedInput as error:
        raise syntax_error(text, error) from None
    except _MisuseError as error:
        raise error.told(text) from None


def test_the_tables_are_those_of_the_grammar() -> None:
    assert json.loads(TABLES.read_text(encoding="utf-8"))["grammar"] == grammar_digest(), (
        "run `make grammar`"
    )
    assert tables() == TABLES.read_text(encoding="utf-8")


def test_the_tables_read_what_lark_reads() -> None:
    chance = random.Random(7)
    drawn = [" ".join(chance.choices(_TOKENS, k=chance.randint(1, 9))) for _ in range(1_500)]
    texts = [text for text, _ in SAME] + list(WRONG) + drawn
    found = [_told(parse, text) for text in texts]
    assert found == [_told(_read_by_lark, text) for text in texts]
    assert sum(isinstance(each, str) for each in found) > len(SAME)


def test_lark_is_imported_by_a_wrong_text_only() -> None:
    code = (
        "import sys; from tessel import TesselError, parse\n"
        "parse('floor(a) > 1 and b is null'); assert 'lark' not in sys.modules\n"
        "try: parse('a >')\nexcept TesselError: assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

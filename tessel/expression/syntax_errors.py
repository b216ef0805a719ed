"""Telling what is wrong with a text, in the words of the person who wrote it.

The place comes from the parser; the words for what was expected from the tables here; the likely
slip from the characters around the place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tessel.errors import ExpressionSyntaxError, nearest
from tessel.expression.leaves import KEYWORDS

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput

_VALUE_TOKENS = frozenset({"NAME", "INTEGER", "REAL", "TEXT", "TYPED", "QUOTED_NAME"})
_OPERATOR_TOKENS = frozenset({"PLUS", "STAR", "COMPARISON", "SLASH", "_AND", "_OR"})
_WORDS = {
    "TEXT": "a text in quotes",
    "RPAR": "')'",
    "LPAR": "'('",
    "COMMA": "','",
    "_AND": "'and'",
    "_THEN": "'then'",
    "_WHEN": "'when'",
    "_ELSE": "'else'",
    "_END": "'end'",
    "_IN": "'in'",
    "_MISSING": "'missing' or 'null'",
    "$END": "the end of the text",
}
_SLIPS = tuple(
    (re.compile(pattern, re.IGNORECASE), hint)
    for pattern, hint in (
        (r"[“”„‘’‚«»]", "write straight quotes: 'text'"),
        (r"&&|(?<=&)&", "write 'and' for &&"),
        (r"\|\||(?<=\|)\|", "write 'or' for ||"),
        (r"<>|(?<=<)>", "write != for <>"),
        (r"=", "write == to compare"),
        (r"!", "write 'not' for !"),
        (
            r"\.\s*(?P<name>[^\W\d]\w*)\s*\(",
            "functions stand before their arguments: {name}({before}, …); methods are of Python: "
            'ts.col("{before}").{name}(…)',
        ),
        (
            r"\.\s*(?P<name>[^\W\d]\w*)",
            "a column has no table before its name: {name}; a name with a dot stands in backticks: "
            "`{before}.{name}`",
        ),
        (r"\[", "a column is its name alone: price; an odd name stands in backticks: `my price`"),
        (r"::?\s*(?P<name>\w*)", "write cast({before}, 'int64') for another type"),
        (r"as\b", "a type is text, behind a comma: cast(price, 'int64')"),
        (r"\*\s*\)", 'rows are counted by agg(n="count"), --agg n=count'),
        (r"[@$]", 'values of Python are compared in Python: ts.col("price") > value'),
        (r"[;#]", "the text is one expression, without ; and comments"),
        (r"if\b|\?", "write case when price > 1 then 2 else 3 end"),
        (r"ilike\b", "write lower(symbol) like 'a%'"),
        (
            r"(?P<name>contains|starts_?with|ends_?with)\b",
            "functions stand before their arguments: contains(symbol, 'a')",
        ),
        (r",\d{3}", "digits are not grouped by commas: 1000, or 1_000"),
    )
)
"""Patterns of the text from the error on, each with its hint; the first that matches is told."""
_SPACED = re.compile(r"([^\W\d]\w*)\s+$")
_SHOWN_CHARACTERS = 160


def marked(text: str, place: int, length: int = 1) -> str:
    """Return the line of a place, cut to fit, with carets under it."""
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[start : len(text) if end < 0 else end]
    column = place - start
    shift = max(0, column - _SHOWN_CHARACTERS // 2)
    shown = ("…" if shift else "") + line[shift : shift + _SHOWN_CHARACTERS]
    at = column - shift + (1 if shift else 0)
    carets = max(1, min(length, len(shown) - at))
    number = text.count("\n", 0, place) + 1
    prefix = f"line {number}: " if "\n" in text else ""
    return f"{prefix}{shown}\n{' ' * (len(prefix) + at)}{'^' * carets}"


def cut(text: str) -> str:
    """Return a text for a message, which does not grow with it."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def syntax_error(text: str, error: UnexpectedInput) -> ExpressionSyntaxError:
    """Return the error for a text that the parser did not take."""
    place, length = _place(text, error)
    found = cut(text[place : place + length])
    expected = _expected(error)
    told = f"found {found!r}" if found else "the text ends too early"
    if not text.strip():
        told = "the text is empty"
    slip = _slip(text, place, length)
    return ExpressionSyntaxError(
        f"not an expression: {told}, expected {expected}",
        detail=marked(text, place, length),
        hint=slip,
        place=place,
        found=found,
        expected=expected,
    )


def _place(text: str, error: UnexpectedInput) -> tuple[int, int]:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            return len(text.rstrip()), 0
        return error.token.start_pos or 0, len(error.token)
    if isinstance(error, UnexpectedCharacters):
        place = error.pos_in_stream or 0
        word = re.compile(r"\w+").match(text, place)
        return place, len(word[0]) if word else 1
    return len(text), 0


def _expected(error: UnexpectedInput) -> str:
    accepted: set[str] = set(getattr(error, "accepts", None) or ())
    accepted = accepted or set(getattr(error, "allowed", None) or ())
    accepted = accepted or set(getattr(error, "expected", None) or ())
    words: list[str] = []
    if accepted >= _VALUE_TOKENS:
        words.append("a value (a column, a number, a text in quotes, a call)")
        accepted -= _VALUE_TOKENS | {"LPAR"}
    if accepted >= _OPERATOR_TOKENS:
        # the lexer takes what may follow anywhere; the parser knows what may follow here
        words.append("an operator (and, or, ==, <, +, in, is, …)")
        accepted -= _OPERATOR_TOKENS | {"LPAR", "_IN"}
        if hasattr(error, "allowed"):
            accepted = set()
    words += [word for token, word in _WORDS.items() if token in accepted]
    return " or ".join(words) or "something else"


def _slip(text: str, place: int, length: int) -> str | None:
    """Return what was probably meant."""
    word = text[place : place + length]
    if word[:1] in ("'", '"', "`") and text.count(word[0], place) < 2:
        closing = "column name" if word[0] == "`" else "text"
        return f"the {closing} that starts here has no closing {word[0]}"
    if re.search(r"(^|\()\s*(select|with|from)\s", text, re.IGNORECASE):
        return "there is no SQL here, only conditions; DuckDB reads results: to_duckdb()"
    if text[:place].rstrip().lower().endswith(" is"):
        if word.lower() in ("none", "nan", "na", "nil"):
            return "write 'is missing'"
        return "write == to compare; 'is' asks for missing values alone"
    if re.search(r"\bin\s*$", text[:place], re.IGNORECASE):
        return "values stand in parentheses: in ('a', 'b')"
    before = re.search(r"\w+$", text[:place])
    for pattern, hint in _SLIPS:
        if found := pattern.match(text, place):
            return hint.format(before=before[0] if before else "price", **found.groupdict())
    unclosed = _unclosed(text)
    if place >= len(text.rstrip()) and unclosed is not None:
        return f"the '(' at character {unclosed + 1} is not closed"
    if word == ")":
        return "there is no '(' for this ')'"
    if word.isalpha():
        match = nearest(word, sorted(KEYWORDS))
        if match is not None and match != word.lower():
            return f"did you mean {match!r}?"
        if word.lower() in KEYWORDS:
            return f"{word!r} is a word of the language; a column of that name is `{word}`"
        first = _SPACED.search(text[:place])
        if first is not None and first[1].lower() not in KEYWORDS:
            return f"a column whose name has a space stands in backticks: `{first[1]} {word}`"
    return None


_QUOTED = re.compile(r"'[^']*+(?:''[^']*+)*+'|\"[^\"]*+(?:\"\"[^\"]*+)*+\"|`[^`]*+(?:``[^`]*+)*+`")


def _unclosed(text: str) -> int | None:
    """Return the place of the innermost bracket that is left open."""
    bare = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    opened: list[int] = []
    for place, character in enumerate(bare):
        if character == "(":
            opened.append(place)
        elif character == ")" and opened:
            opened.pop()
    return opened[-1] if opened else None

"""The text form: `parse` reads what ``str`` of an expression writes, and what people write.

The grammar is in ``grammar.lark``; ``make grammar`` writes what lark makes of it to
``grammar.json``, by which `lalr` reads texts. lark is imported where a text is wrong: it finds the
place, and `syntax_errors` the words.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tessel.errors import (
    ExpressionSyntaxError,
    ExpressionTypeError,
    InvalidInputError,
    LimitError,
    TesselError,
    UnicodeTextError,
    nearest,
)
from tessel.errors.arguments import checks_arguments
from tessel.expression import build, literal_codec
from tessel.expression.lalr import NoSentenceError, Token, read_sentence
from tessel.expression.leaves import KEYWORDS, Column, Literal, Regex, ValueSet
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.boolean import And, Case, Not, Or
from tessel.expression.registry import all_operators, make, operator_class
from tessel.expression.types import parse_type, type_name
from tessel.options import LEAST_TEXT_BYTES, current

if TYPE_CHECKING:
    from lark import Lark

_MOST_DIGITS = 4_000
"""Digits of an integer past which Python would refuse to read it."""

_LONGEST_KEPT = 4096
"""Characters of a text whose expression is kept."""

_Made = TypeVar("_Made")

_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_NOT_CALLED = ("aggregate", "column", "literal", "is_in")
_SHORTHANDS: dict[str, Callable[..., Expression]] = {
    "where": build.where,
    "fill_missing": build.coalesce,
    "clip": lambda operand, low, high: operand.clip(low, high),
    "not_missing": lambda operand: operand.not_missing(),
    "floor": lambda operand, *rule: make("floor" if rule else "floor_number", operand, *rule),
}


@functools.cache
def functions() -> dict[str, Callable[..., Expression]]:
    """Return what text can call, by name."""
    named = {
        name: cls.of
        for name, cls in all_operators().items()
        if name not in _NOT_CALLED and name not in KEYWORDS
    }
    return {**named, **_SHORTHANDS}


@checks_arguments
def parse(text: str) -> Expression:
    """Read an expression from text.

    Parameters
    ----------
    text
        For instance ``price > 100 and symbol in ('AAPL', 'MSFT')``. Python's precedence; keywords
        in any case; ``'text'`` with quotes doubled inside; odd column names in backticks;
        ``timestamp '2024-01-31T09:30:00Z'``; ``case when … then … else … end``; calls such as
        ``floor(time, '15min')``.

    Returns
    -------
    Expression
        The same as the operators and methods of `col` would make. ``parse(str(e)).equals(e)``.

    Raises
    ------
    ExpressionSyntaxError
        Where the text is none; shows the line with a caret, what was expected, and what was
        probably meant.
    LimitError
        For a text of more bytes than the option ``max_text_bytes``.
    UnicodeTextError
        For a text with half of a surrogate pair.

    Examples
    --------
    >>> ts.parse("price > 10 and symbol in ('AAPL', 'MSFT')")
    <expression price > 10 and symbol in ('AAPL', 'MSFT')>
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"parse takes text, not {type(text).__name__}", hint="parse('price > 100')"
        )
    UnicodeTextError.require(text, "the text of an expression")
    if len(text) * 4 > LEAST_TEXT_BYTES:
        size, most = len(text.encode()), current().max_text_bytes
        if size > most:
            raise LimitError.exceeded(
                "the text of an expression", size, "bytes", option="max_text_bytes", limit=most
            )
    return _read(text) if len(text) <= _LONGEST_KEPT else _read.__wrapped__(text)


@functools.lru_cache(maxsize=256)
def _read(text: str) -> Expression:
    """Read a text; what was read lately is kept, for expressions never change."""
    try:
        return _placed(read_sentence(text, _RULES), text)
    except NoSentenceError:
        raise _told(text) from None
    except _MisuseError as error:
        raise error.told(text) from error.__cause__


def _told(text: str) -> TesselError:
    """Return the error for a text that is no sentence of the grammar."""
    from lark.exceptions import UnexpectedInput

    from tessel.expression.syntax_errors import syntax_error

    try:
        lark_parser().parse(text)
    except UnexpectedInput as error:
        return syntax_error(text, error)
    raise AssertionError(f"the tables refuse what the grammar takes: {text}")


def _placed(expression: Expression, text: str) -> Expression:
    for node in post_order(expression):
        if isinstance(node, Column) and node.source is not None and not node.source[0]:
            node.written_at(text, node.source[1])
    return expression


class _MisuseError(Exception):
    """A word that the grammar takes and the language does not; keeps its place."""

    def __init__(self, place: int, length: int, error: TesselError) -> None:
        super().__init__()
        self.place, self.length, self.error = place, length, error

    def told(self, text: str) -> TesselError:
        """Return the error with the text and a caret."""
        from tessel.expression.syntax_errors import marked

        if self.error.detail is None:
            self.error.detail = marked(text, self.place, self.length)
        return self.error


@functools.cache
def lark_parser() -> Lark:
    """Return the parser that lark makes of ``grammar.lark``, of which it gives plain trees."""
    from lark import Lark

    grammar = pkgutil.get_data(__package__, "grammar.lark")
    assert grammar is not None
    return Lark(grammar.decode(), parser="lalr", maybe_placeholders=False, regex=False)


def _at(token: Token, make_it: Callable[[], _Made]) -> _Made:
    """Make something of a token; what goes wrong is told at its place."""
    try:
        return make_it()
    except TesselError as error:
        raise _MisuseError(token.start_pos, len(token), error) from error


def _unquoted(token: str) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def _typed(token: Token) -> Literal:
    kind, _, quoted = token.partition("'")
    name = kind.strip()
    content = _unquoted("'" + quoted)
    if name.lower() == "float":
        return Literal(
            "float", literal_codec.encode("float", literal_codec.decode("float", content))
        )
    return _at(token, lambda: _typed_literal(name, content))


def _typed_literal(name: str, content: str) -> Literal:
    from tessel.expression import temporal

    lower = name.lower()
    if lower == "decimal":
        lower = _decimal_type(content)
    elif lower == "timestamp":
        instant = temporal.parse_instant(content)
        if instant is not None:
            unit = temporal.unit_holding(instant.wall_ns, "us")
            lower = f"timestamp[{unit}{'' if instant.offset_seconds is None else ', UTC'}]"
    elif lower == "duration":
        unit = temporal.unit_holding(temporal.parse_duration(content) or 0, "us")
        lower = f"duration[{unit}]"
    elif "[" in name:
        # zones keep their letters
        lower = name[: name.index("[")].lower() + name[name.index("[") :]
    type_ = parse_type(lower)
    kind = literal_codec.kind_of(type_) or type_name(type_)
    return Literal(kind, literal_codec.encode(kind, literal_codec.decode(kind, content)))


def _decimal_type(content: str) -> str:
    whole, _, points = content.strip().lstrip("+-").partition(".")
    digits = len(whole.lstrip("0")) + len(points)
    return f"decimal128({max(digits, 1)}, {len(points)})"


def _integer(digits: str) -> int:
    """Read the digits of an integer; of more than any type holds only so many are read."""
    digits = digits.replace("_", "").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        raise ExpressionTypeError(
            f"an integer of {len(digits):,} digits does not fit 64 bits",
            hint="write it as a float, or as a decimal",
        )
    return int(digits)


def _negative(operand: Expression) -> Expression:
    if isinstance(operand, Literal) and not operand.content.startswith("-"):
        if operand.kind == "int":
            return build.lit(-operand.value)
        if operand.kind == "float" and operand.content != "nan":
            return build.lit(-operand.value)
    return make("negative", operand)


def _compared(*parts: Any) -> Expression:
    """Join ``a < b < c`` as Python does: every neighbouring pair."""
    pairs = [
        make(_COMPARISONS[parts[place]], parts[place - 1], parts[place + 1])
        for place in range(1, len(parts), 2)
    ]
    return build.all_of(pairs)


def _tight(
    connective: type[Or | And], word: str, left: Expression, sign: Token, right: Expression
) -> Expression:
    """Join conditions by a sign that stands between them, not between numbers beside it."""
    for side in (left, right):
        if isinstance(side, Literal) and side.kind not in ("bool", "null"):
            error = ExpressionSyntaxError(
                f"{sign} binds closer than comparisons, so it joins {left} and {right} here",
                hint=f"write {word!r} for it, or brackets around each condition: "
                f"(price > 1) {sign} (volume > 5)",
            )
            raise _MisuseError(sign.start_pos, 1, error)
    return connective.of(left, right)


def _call(name: Token, *arguments: Expression) -> Expression:
    function = functions().get(name.lower())
    if function is None:
        return _aggregated(name, arguments)
    try:
        return _at(name, lambda: function(*arguments))
    except TypeError:
        error = ExpressionSyntaxError(f"{name} cannot take {len(arguments)} arguments")
        raise _MisuseError(name.start_pos, len(name), error) from None


def _aggregated(name: Token, arguments: tuple[Expression, ...]) -> Expression:
    from tessel.expression.operators.aggregate import Aggregated, aggregate_call_names
    from tessel.expression.syntax_errors import cut

    if name.lower() in aggregate_call_names():
        return Aggregated(name.lower(), arguments)
    match = nearest(str(name), [*functions(), *sorted(aggregate_call_names())])
    error = ExpressionSyntaxError(
        f"no function {cut(str(name))!r}",
        hint=(f"did you mean {match!r}?   " if match else "")
        + f"functions: {', '.join(sorted(functions()))}",
        name=cut(str(name)),
    )
    raise _MisuseError(name.start_pos, len(name), error)


def _values(*items: Expression) -> ValueSet:
    for item in items:
        if not isinstance(item, Literal):
            error = ExpressionSyntaxError(
                f"a list after 'in' holds plain values, not {item!r}",
                hint="text stands in quotes, 'a'; compare with other columns by == and or",
            )
            raise _MisuseError(0, 1, error)
    return ValueSet.of(items)


def _case(*parts: Any) -> Expression:
    branches = [part for part in parts if isinstance(part, tuple)]
    otherwise = parts[-1] if isinstance(parts[-1], Expression) else build.lit(None)
    conditions, values = zip(*branches, strict=True)
    return Case(conditions, values, otherwise)


def _operator(name: str) -> Callable[..., Expression]:
    """Return what makes an operator of its fields; its module is imported by the first call."""
    return lambda *fields: operator_class(name)(*fields)


def _matches(operand: Expression, text: Token) -> Expression:
    return _operator("matches")(operand, _at(text, lambda: Regex(_unquoted(text))))


_RULES: dict[str, Callable[..., Any]] = {
    "start": lambda tree: tree,
    "either": Or.of,
    "both": And.of,
    "tight_either": functools.partial(_tight, Or, "or"),
    "tight_both": functools.partial(_tight, And, "and"),
    "negated": Not,
    "compared": _compared,
    "values": _values,
    "is_in": _operator("is_in"),
    "not_in": lambda operand, values: Not(_operator("is_in")(operand, values)),
    "is_missing": _operator("is_missing"),
    "not_missing": lambda operand: Not(_operator("is_missing")(operand)),
    "between": lambda operand, low, high: operand.between(low, high),
    "not_between": lambda operand, low, high: Not(operand.between(low, high)),
    "matches": _matches,
    "not_matches": lambda operand, text: Not(_matches(operand, text)),
    "like": lambda operand, text: _operator("like")(operand, _unquoted(text)),
    "not_like": lambda operand, text: Not(_operator("like")(operand, _unquoted(text))),
    "positive": lambda operand: operand,
    "negative": _negative,
    "integer": lambda token: _at(token, lambda: build.lit(_integer(token))),
    "real": lambda token: build.lit(float(token)),
    "text": lambda token: build.lit(_unquoted(token)),
    "typed": _typed,
    "true": lambda: build.lit(True),
    "false": lambda: build.lit(False),
    "null": lambda: build.lit(None),
    "column": lambda token: Column(str(token)).written_at("", token.start_pos),
    "quoted_column": lambda token: Column(_unquoted(token)).written_at("", token.start_pos),
    "call": _call,
    "branch": lambda condition, value: (condition, value),
    "case": _case,
    **{
        name: functools.partial(make, name)
        for name in (
            *("add", "subtract", "multiply", "divide", "floor_divide", "modulo", "power", "xor"),
        )
    },
}
"""What each rule of the grammar makes of its parts."""

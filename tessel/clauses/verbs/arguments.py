"""How the arguments of verbs are read: what people may write, as what clauses hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tessel.clauses.combining import SubQuery
from tessel.errors import PlanError
from tessel.expression import Expression, lit, parse

__all__ = ["ExpressionLike", "as_expression", "as_names", "as_queries", "as_row_count"]

ExpressionLike = Expression | str


def as_expression(value: Any) -> Expression:
    """Return an expression as it is, text parsed, any other value as a literal."""
    if isinstance(value, Expression):
        return value
    return parse(value) if isinstance(value, str) else lit(value)


def as_names(names: tuple[str | Sequence[str], ...]) -> tuple[str, ...]:
    """Return names of columns, given one by one or in lists, as one tuple."""
    flat: list[str] = []
    for name in names:
        flat += list(name) if isinstance(name, Iterable) and not isinstance(name, str) else [name]
    for name in flat:
        if not isinstance(name, str):
            raise PlanError(f"a column is named by text, not by {name!r}")
    return tuple(flat)


def as_queries(verb: str, others: Sequence[Any]) -> tuple[SubQuery, ...]:
    """Return symbols by name, or with clauses of their own first, as queries."""
    for each in others:
        if not isinstance(each, str | SubQuery):
            raise PlanError(
                f"{verb} takes symbols, not {each!r}",
                hint=f'{verb}("other"), or {verb}(SubQuery("other", None, clauses))',
            )
    return tuple(SubQuery(each) if isinstance(each, str) else each for each in others)


def as_row_count(verb: str, n: Any) -> int:
    """Return a whole number of rows; anything else is refused."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise PlanError(f"{verb} takes a whole number of rows, not {n!r}")
    return int(n.__index__())

"""Expressions under a name, and the plain form of one.

``col("price").mean().alias("m")`` is an expression with the name of the column that it makes. Verbs
that make columns take it where they take an expression: ``with_columns``, ``agg``, ``groupby``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tessel.errors import PlanError, PlanFormatError
from tessel.expression.node import Expression
from tessel.lazy import dataclass

_SHOWN_CHARACTERS = 200
_MOST_EXPRESSION_TEXT = 10_000
"""Characters up to which a plan holds an expression as text; one that shares much is written as
its context, which names each part once."""


def expression_form(expression: Expression) -> str | dict[str, Any]:
    """Return an expression as plain data: its text, or its context where that is too long."""
    text = str(expression)
    return text if len(text) <= _MOST_EXPRESSION_TEXT else expression.to_json()


def expression_from_form(form: Any) -> Expression:
    """Rebuild an expression from :func:`expression_form`; anything else raises."""
    from tessel.expression.text import parse

    return parse(form) if isinstance(form, str) else Expression.from_json(form)


@dataclass(frozen=True, eq=False)
class ComputedColumn:
    """A name, and the expression whose values stand under it."""

    name: str
    expression: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"a computed column needs a name, not {self.name!r}")
        if not isinstance(self.expression, Expression):
            raise PlanError(
                f"{self.name} is computed by an expression, not by {self.expression!r}",
                hint='col("a") + col("b"), or text read by parse("a + b")',
            )

    def to_json(self) -> dict[str, Any]:
        """Return the plain form."""
        return {"name": self.name, "expression": expression_form(self.expression)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ComputedColumn:
        """Rebuild from the plain form; raises ``PlanFormatError`` on anything else."""
        if set(data) != {"name", "expression"} or not isinstance(data["name"], str):
            raise PlanFormatError(
                f"not the plain form of a computed column: {dict(data)!r}",
                hint='write {"name": "day", "expression": "floor(time, \'1d\')"}',
            )
        return cls(data["name"], expression_from_form(data["expression"]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ComputedColumn)
            and self.name == other.name
            and self.expression.equals(other.expression)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.expression.digest))

    def __repr__(self) -> str:
        return f"{self.name}={shown_expression(self.expression)}"


def shown_expression(expression: Expression) -> str:
    """Return the text of an expression for people, cut where it is long."""
    text = str(expression)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"

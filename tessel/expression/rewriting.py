"""Rewriting: the same expression with some of its nodes replaced, operands first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tessel.expression.leaves import Column
from tessel.expression.node import Expression, layout, post_order


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with every node replaced by what ``change`` makes of it.

    Parameters
    ----------
    expression
        What is rewritten; it stays as it is.
    change
        Called once a distinct node, operands before their operator, with the node over its new
        operands; returns the node itself where nothing is to change.

    Returns
    -------
    Expression
        ``expression`` itself where nothing changed. However deep it is, nothing recurses.
    """
    made: dict[int, Expression] = {}
    for node in post_order(expression):
        made[id(node)] = change(_over(node, made))
    return made[id(expression)]


def with_columns(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """Return the expression with others in the place of some columns, all at once."""

    def change(node: Expression) -> Expression:
        return columns.get(node.column, node) if isinstance(node, Column) else node

    return rewrite(expression, change) if columns else expression


def _over(node: Expression, made: dict[int, Expression]) -> Expression:
    """Return a node over the new forms of its operands."""
    values: list[Any] = []
    changed = False
    for field in layout(type(node)):
        value = getattr(node, field.name)
        if field.kind == "operand":
            new: Any = made[id(value)]
            changed = changed or new is not value
        elif field.kind == "operands":
            new = tuple(made[id(operand)] for operand in value)
            changed = changed or any(a is not b for a, b in zip(new, value, strict=True))
        else:
            new = value
        values.append(new)
    return type(node)(*values) if changed else node

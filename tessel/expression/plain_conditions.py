"""Conjunctions of comparisons of columns with values, which bounds settle by two comparisons each.

Late reading enters here, once for every unit of a query, where the statistics domain in full costs
more than looking at the pages that it might rule out. What is said is what
:func:`~tessel.expression.statistics.evaluate_statistics` says of whole pages, or less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.kernels.values import literal_value
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And
from tessel.expression.operators.comparison import (
    FLIPPED,
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
)
from tessel.expression.schema import TableSchema

__all__ = ["PlainCondition", "plain_conditions"]

Flags = npt.NDArray[np.bool_]
_Verdict = Callable[[Any, Any, Any], Flags]

_NEVER: dict[type[Comparison], _Verdict] = {
    Less: lambda low, high, bound: low >= bound,
    LessEqual: lambda low, high, bound: low > bound,
    Greater: lambda low, high, bound: high <= bound,
    GreaterEqual: lambda low, high, bound: high < bound,
    Equal: lambda low, high, bound: (low > bound) | (high < bound),
}
_ALWAYS: dict[type[Comparison], _Verdict] = {
    Less: lambda low, high, bound: high < bound,
    LessEqual: lambda low, high, bound: high <= bound,
    Greater: lambda low, high, bound: low > bound,
    GreaterEqual: lambda low, high, bound: low >= bound,
    Equal: lambda low, high, bound: (low == bound) & (high == bound),
}


@dataclass(frozen=True, slots=True)
class PlainCondition:
    """``column asked bound``.

    Attributes
    ----------
    column
        Its name.
    asked
        Less, LessEqual, Greater, GreaterEqual or Equal.
    bound
        An integer, in the unit of the column; a float; or text, which is asked with Equal only.
    """

    column: str
    asked: type[Comparison]
    bound: int | float | str

    def never(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Flags:
        """Return between which bounds no number is so."""
        return _NEVER[self.asked](low, high, self.bound)

    def always(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Flags:
        """Return between which bounds every number is so."""
        return _ALWAYS[self.asked](low, high, self.bound)


_MOST_KEPT = 256
_kept: dict[tuple[Any, ...], tuple[PlainCondition, ...] | None] = {}


def plain_conditions(
    context: ExpressionContext, schema: TableSchema
) -> tuple[PlainCondition, ...] | None:
    """Return the conditions that a predicate consists of; None where it is of another shape.

    Raises
    ------
    ColumnNotFoundError, ExpressionTypeError
        Where the predicate does not fit the schema.
    """
    types = node_types(context, schema)
    names = context.columns.values()
    key = context.root, *(schema.type_of(name) for name in names)
    if key not in _kept:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        found = _conditions(context.expression(), types, schema)
        _kept[key] = None if found is None else tuple(found)
    return _kept[key]


def _conditions(node: Expression, types: Any, schema: TableSchema) -> list[PlainCondition] | None:
    if isinstance(node, And):
        found: list[PlainCondition] = []
        for child in node.children:
            below = _conditions(child, types, schema)
            if below is None:
                return None
            found += below
        return found
    if not isinstance(node, Comparison):
        return None
    condition = _condition(node, types[node.digest.hex()], schema)
    return None if condition is None else [condition]


def _condition(node: Comparison, kind: NodeType, schema: TableSchema) -> PlainCondition | None:
    assert kind.signature is not None
    one, other = node.children
    asked: type[Comparison] = type(node)
    fitted, target = kind.operands[1].literal, kind.signature.inputs[1]
    if isinstance(one, Literal):
        one, other, asked = other, one, FLIPPED[asked]
        fitted, target = kind.operands[0].literal, kind.signature.inputs[0]
    if not isinstance(one, Column) or fitted is None or asked not in _NEVER:
        return None
    if fitted.is_missing_value or len(set(kind.signature.inputs)) != 1:
        return None
    stored = schema.type_of(one.column)
    if pa.types.is_integer(stored) and pa.types.is_integer(target):
        return PlainCondition(one.column, asked, literal_value(fitted, target).as_py())
    if stored != target:
        return None
    if pa.types.is_float64(stored) or (pa.types.is_string(stored) and asked is Equal):
        return PlainCondition(one.column, asked, literal_value(fitted, target).as_py())
    if pa.types.is_timestamp(stored) or pa.types.is_duration(stored):
        return PlainCondition(one.column, asked, literal_value(fitted, target).value)
    return None

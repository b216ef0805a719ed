"""Sargable predicates: conjunctions of comparisons of a column with a constant.

Zone maps decide such a conjunct by two comparisons of arrays. Selections ask here first, once for
every unit of a query, because the interval rules in full cost more than reading the pages that they
might prune. What is proved here, :func:`~tessel.expression.statistics.evaluate_statistics` proves
as well.
"""

from __future__ import annotations

from collections.abc import Callable
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
from tessel.lazy import dataclass

__all__ = ["SargableConjunct", "sargable_conjuncts"]

Flags = npt.NDArray[np.bool_]
_Test = Callable[[Any, Any, Any], Flags]

_NEVER: dict[type[Comparison], _Test] = {
    Less: lambda low, high, bound: low >= bound,
    LessEqual: lambda low, high, bound: low > bound,
    Greater: lambda low, high, bound: high <= bound,
    GreaterEqual: lambda low, high, bound: high < bound,
    Equal: lambda low, high, bound: (low > bound) | (high < bound),
}
_ALWAYS: dict[type[Comparison], _Test] = {
    Less: lambda low, high, bound: high < bound,
    LessEqual: lambda low, high, bound: high <= bound,
    Greater: lambda low, high, bound: low > bound,
    GreaterEqual: lambda low, high, bound: low >= bound,
    Equal: lambda low, high, bound: (low == bound) & (high == bound),
}


@dataclass(frozen=True, slots=True)
class SargableConjunct:
    """One conjunct, ``column operator bound``.

    Attributes
    ----------
    column
        Its name.
    operator
        Less, LessEqual, Greater, GreaterEqual or Equal.
    bound
        An integer, in the unit of the column; a float; or text, which is compared by Equal only.
    """

    column: str
    operator: type[Comparison]
    bound: int | float | str

    def never(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Flags:
        """Return a mask: which of the ranges ``[low, high]`` have no value that satisfies it."""
        return _NEVER[self.operator](low, high, self.bound)

    def always(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Flags:
        """Return a mask: in which of the ranges ``[low, high]`` every value satisfies it."""
        return _ALWAYS[self.operator](low, high, self.bound)


_MOST_MEMOS = 256
_memo: dict[tuple[Any, ...], tuple[SargableConjunct, ...] | None] = {}


def sargable_conjuncts(
    context: ExpressionContext, schema: TableSchema
) -> tuple[SargableConjunct, ...] | None:
    """Return the conjuncts of a predicate; None where one of them is not sargable.

    Raises
    ------
    ColumnNotFoundError, ExpressionTypeError
        Where the predicate does not fit the schema.
    """
    types = node_types(context, schema)
    names = context.columns.values()
    key = context.root, *(schema.type_of(name) for name in names)
    if key not in _memo:
        if len(_memo) >= _MOST_MEMOS:
            _memo.clear()
        found = _conjuncts(context.expression(), types, schema)
        _memo[key] = None if found is None else tuple(found)
    return _memo[key]


def _conjuncts(node: Expression, types: Any, schema: TableSchema) -> list[SargableConjunct] | None:
    if isinstance(node, And):
        found: list[SargableConjunct] = []
        for child in node.children:
            below = _conjuncts(child, types, schema)
            if below is None:
                return None
            found += below
        return found
    if not isinstance(node, Comparison):
        return None
    conjunct = _conjunct(node, types[node.digest.hex()], schema)
    return None if conjunct is None else [conjunct]


def _conjunct(node: Comparison, kind: NodeType, schema: TableSchema) -> SargableConjunct | None:
    assert kind.signature is not None
    one, other = node.children
    operator: type[Comparison] = type(node)
    fitted, target = kind.operands[1].literal, kind.signature.inputs[1]
    if isinstance(one, Literal):
        one, other, operator = other, one, FLIPPED[operator]
        fitted, target = kind.operands[0].literal, kind.signature.inputs[0]
    if not isinstance(one, Column) or fitted is None or operator not in _NEVER:
        return None
    if fitted.is_missing_value or len(set(kind.signature.inputs)) != 1:
        return None
    stored = schema.type_of(one.column)
    if pa.types.is_integer(stored) and pa.types.is_integer(target):
        return SargableConjunct(one.column, operator, literal_value(fitted, target).as_py())
    if stored != target:
        return None
    if pa.types.is_float64(stored) or (pa.types.is_string(stored) and operator is Equal):
        return SargableConjunct(one.column, operator, literal_value(fitted, target).as_py())
    if pa.types.is_timestamp(stored) or pa.types.is_duration(stored):
        return SargableConjunct(one.column, operator, literal_value(fitted, target).value)
    return None

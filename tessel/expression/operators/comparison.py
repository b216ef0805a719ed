"""Comparison: ``== != < <= > >=``. A comparison with a missing value is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import pyarrow as pa

from tessel.expression.comparable import comparison_inputs, literal_beside
from tessel.expression.operators.shapes import Binary
from tessel.expression.printing import Piece, Sub
from tessel.expression.types import Operand, Signature


class Comparison(Binary):
    """Two operands whose order, or equality, is asked for."""

    precedence: ClassVar[int] = 4
    orders: ClassVar[bool] = True

    def fitted(self, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return text beside an instant, date, time or duration read as one."""
        left, right = operands
        return literal_beside(left, right), literal_beside(right, left)

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value, where the two kinds can be compared."""
        return Signature(comparison_inputs(*operands, orders=self.orders), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``left sign right``; comparisons do not chain."""
        return (Sub(self.left, 5), f" {self.sign} ", Sub(self.right, 5))


class Equal(Comparison, name="equal", sign="==", word="EQ", orders=False):
    """``left == right``."""


class NotEqual(Comparison, name="not_equal", sign="!=", word="NE", orders=False):
    """``left != right``."""


class Less(Comparison, name="less", sign="<", word="LT"):
    """``left < right``."""


class LessEqual(Comparison, name="less_equal", sign="<=", word="LE"):
    """``left <= right``."""


class Greater(Comparison, name="greater", sign=">", word="GT"):
    """``left > right``."""


class GreaterEqual(Comparison, name="greater_equal", sign=">=", word="GE"):
    """``left >= right``."""


FLIPPED: dict[type[Comparison], type[Comparison]] = {
    Less: Greater,
    LessEqual: GreaterEqual,
    Greater: Less,
    GreaterEqual: LessEqual,
    Equal: Equal,
    NotEqual: NotEqual,
}
"""The comparison that says the same with its sides exchanged."""

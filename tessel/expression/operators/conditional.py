"""Choosing between values: case (when/where) and coalesce."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import pyarrow as pa

from tessel.errors import ExpressionError
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import require
from tessel.expression.printing import Piece, Sub
from tessel.expression.promotion import common_type
from tessel.expression.registry import register
from tessel.expression.types import Family, Operand, Signature
from tessel.lazy import dataclass

__all__ = ["Case", "Coalesce"]


@register
@dataclass(frozen=True, eq=False, repr=False)
class Case(Expression):
    """The value of the first condition that is true, or ``otherwise``.

    A condition that is missing is not true. Rows take part in a branch only if they reach it: a
    branch raises for no other rows.
    """

    name: ClassVar[str] = "case"
    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    otherwise: Expression

    def check(self) -> None:
        """Raise where conditions and values do not pair up."""
        if not self.conditions or len(self.conditions) != len(self.values):
            raise ExpressionError(
                f"case has {len(self.conditions)} conditions and {len(self.values)} values",
                hint="write when(condition).then(value).otherwise(value)",
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of the values."""
        count = len(self.conditions)
        for condition in operands[:count]:
            require("when", condition, Family.BOOL)
        result = common_type("choose between", operands[count:])
        inputs = (pa.bool_(),) * count + (result,) * (count + 1)
        return Signature(inputs, result)

    def pieces(self) -> Iterable[Piece]:
        """Return ``case when c then a else b end``."""
        yield "case"
        for condition, value in zip(self.conditions, self.values, strict=True):
            yield " when "
            yield Sub(condition)
            yield " then "
            yield Sub(value)
        yield " else "
        yield Sub(self.otherwise)
        yield " end"

    def label(self) -> Iterable[Piece]:
        """Return ``CASE(WHEN c THEN a ELSE b)``."""
        yield "CASE("
        for condition, value in zip(self.conditions, self.values, strict=True):
            yield "WHEN "
            yield Sub(condition)
            yield " THEN "
            yield Sub(value)
            yield " "
        yield "ELSE "
        yield Sub(self.otherwise)
        yield ")"


@register
@dataclass(frozen=True, eq=False, repr=False)
class Coalesce(Expression):
    """The first operand that is not missing."""

    name: ClassVar[str] = "coalesce"
    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where there is no operand."""
        if not self.operands:
            raise ExpressionError("coalesce takes at least one operand", hint="coalesce(a, b)")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of the operands."""
        result = common_type("coalesce", operands)
        return Signature((result,) * len(operands), result)

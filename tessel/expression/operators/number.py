"""Numbers beyond arithmetic: smaller and larger of several, clip, log, exp, sqrt."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.errors import ExpressionError
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Unary, require
from tessel.expression.promotion import common_type
from tessel.expression.registry import register
from tessel.expression.types import Family, Operand, Signature, refuse
from tessel.lazy import dataclass

__all__ = ["ClipHigh", "ClipLow", "Exp", "Log", "MaxOf", "MinOf", "Sqrt"]

_NUMBERS = (Family.INTEGER, Family.FLOAT, Family.DECIMAL)
_UNORDERED = (Family.LIST, Family.STRUCT, Family.OTHER)


@dataclass(frozen=True, eq=False, repr=False)
class Extreme(Expression):
    """The smallest or largest of several operands."""

    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where there is no operand."""
        if not self.operands:
            raise ExpressionError(
                f"{self.name} takes at least one operand", hint=f"{self.name}(a, b)"
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of the operands."""
        for operand in operands:
            if operand.family in _UNORDERED:
                refuse(f"take {self.name} of", (operand,), "its values have no order")
        result = common_type(f"take {self.name} of", operands)
        return Signature((result,) * len(operands), result)


@register
class MinOf(Extreme):
    """The smallest of the operands in each row; missing ones are skipped."""

    name: ClassVar[str] = "min_of"


@register
class MaxOf(Extreme):
    """The largest of the operands in each row; missing ones are skipped."""

    name: ClassVar[str] = "max_of"


@dataclass(frozen=True, eq=False, repr=False)
class Clip(Expression):
    """A value held on one side of a bound; missing where either is."""

    operand: Expression
    bound: Expression

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of operand and bound."""
        for operand in operands:
            if operand.family in _UNORDERED:
                refuse("clip", (operand,), "its values have no order")
        result = common_type("clip", operands)
        return Signature((result, result), result)


@register
class ClipLow(Clip):
    """The operand, or the bound where the operand is below it."""

    name: ClassVar[str] = "clip_low"


@register
class ClipHigh(Clip):
    """The operand, or the bound where the operand is above it."""

    name: ClassVar[str] = "clip_high"


class FloatFunction(Unary):
    """A function of one number, computed in float64."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return float64."""
        require(self.name, operands[0], *_NUMBERS)
        return Signature((pa.float64(),), pa.float64())


@register
class Log(FloatFunction):
    """The natural logarithm."""

    name: ClassVar[str] = "log"


@register
class Exp(FloatFunction):
    """The exponential function."""

    name: ClassVar[str] = "exp"


@register
class Sqrt(FloatFunction):
    """The square root."""

    name: ClassVar[str] = "sqrt"

"""Whether a value is in a set, and whether there is a value at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import pyarrow as pa

from tessel.expression.comparable import comparison_inputs, fitted_literal
from tessel.expression.leaves import Literal, ValueSet
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Unary
from tessel.expression.printing import Piece, Sub
from tessel.expression.registry import register
from tessel.expression.types import Operand, Signature
from tessel.lazy import dataclass

__all__ = ["IsIn", "IsMissing"]


@register
@dataclass(frozen=True, eq=False, repr=False)
class IsIn(Expression):
    """True where the operand equals one of the values; Kleene where a value is null."""

    name: ClassVar[str] = "is_in"
    precedence: ClassVar[int] = 4
    operand: Expression
    values: ValueSet

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value, where every value can be compared with the operand."""
        (operand,) = operands
        for kind, contents in self.values.by_kind.items():
            for content in contents:
                value = Literal(kind, content)
                comparison_inputs(operand, Operand(value.type, value, value), orders=False)
                if fitted_literal(value, operand) is value:
                    break  # what is not read anew beside the operand is refused by its kind alone
        return Signature((operand.type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x in (1, 2)``."""
        return (Sub(self.operand, 5), f" in {self.values}")

    def label(self) -> Iterable[Piece]:
        """Return ``(x IN (Int64(1), …))``."""
        yield "("
        yield Sub(self.operand)
        yield " IN ("
        for place, value in enumerate(self.values):
            yield ", " if place else ""
            yield from value.label()
        yield "))"


@register
class IsMissing(Unary):
    """True where the operand is null or NaN; never missing itself."""

    name: ClassVar[str] = "is_missing"
    precedence: ClassVar[int] = 4

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value; every type is taken."""
        return Signature((operands[0].type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x is missing``."""
        return (Sub(self.operand, 5), " is missing")

"""Shapes that operators share: infix with two operands, a call with one operand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import pyarrow as pa

from tessel.expression.node import Expression
from tessel.expression.printing import Piece, Sub
from tessel.expression.types import FAMILY_WORDS, Family, Operand, Signature, refuse

Rule = Callable[[Expression, tuple[Operand, ...]], Signature]
"""What is given as :meth:`~tessel.expression.node.Expression.signature` of an operator."""


class Binary(Expression):
    """Two operands with a sign between them; plans may show a word in its place."""

    sign: ClassVar[str]
    word: ClassVar[str] = ""
    left: Expression
    right: Expression

    def pieces(self) -> Iterable[Piece]:
        """Return ``left sign right``; the right operand of equal precedence takes parentheses."""
        yield Sub(self.left, self.precedence)
        yield f" {self.sign} "
        yield Sub(self.right, self.precedence + 1)

    def label(self) -> Iterable[Piece]:
        """Return ``(left WORD right)``."""
        yield "("
        yield Sub(self.left)
        yield f" {self.word or self.sign} "
        yield Sub(self.right)
        yield ")"


class Unary(Expression):
    """One operand, written as a call."""

    operand: Expression


def of_one(
    *families: Family, result: pa.DataType | None = None, null: pa.DataType | None = None
) -> Rule:
    """Return the rule of one operand of some families, whose type the result has by default.

    Parameters
    ----------
    null
        The type that an operand of nulls alone is taken as; by default as it is.
    """

    def signature(node: Expression, operands: tuple[Operand, ...]) -> Signature:
        (operand,) = operands
        require(node.name, operand, *families)
        is_typed = null is None or operand.family is not Family.NULL
        taken = operand.type if is_typed else null
        return Signature((taken,), taken if result is None else result)

    return signature


def require(name: str, operand: Operand, *families: Family) -> None:
    """Refuse an operand outside the families that an operator takes; null is always taken."""
    if operand.family is not Family.NULL and operand.family not in families:
        words = " or ".join(dict.fromkeys(FAMILY_WORDS[family] for family in families))
        fix = "; cast the operand first with .cast(...)"
        if families == (Family.BOOL,):
            fix = ', such as ts.col("price") > 1; of text: ts.parse("price > 1")'
        refuse(f"take {name} of", (operand,), f"{name} takes {words}{fix}")

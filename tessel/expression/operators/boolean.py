"""Truth: ``& | ^ ~`` in Kleene's logic, where missing means unknown.

And and Or hold a flat tuple of any number of operands, so long chains neither nest nor slow down.

Choosing between values: case (when/where) and coalesce.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.errors import ExpressionError
from tessel.expression.leaves import as_expression
from tessel.expression.node import Expression
from tessel.expression.operators.shapes import Binary, Unary, require
from tessel.expression.printing import Piece, Sub
from tessel.expression.promotion import common_type
from tessel.expression.types import Family, Operand, Signature
from tessel.expression.values import Compute, Value, elementwise, nan_to_null


def chain(function: Callable[[Value, Value], Value]) -> Compute:
    """Compute a flat chain, pair by pair."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return functools.reduce(function, values)

    return compute


def truths(node: Expression, operands: tuple[Operand, ...]) -> Signature:
    """Return the signature of an operator on truth values; refuses anything else."""
    for operand in operands:
        require(node.name, operand, Family.BOOL)
    return Signature((pa.bool_(),) * len(operands), pa.bool_())


class Connective(Expression, signature=truths):
    """A flat chain of truth values; operands of the same connective are taken in."""

    word: ClassVar[str]
    operands: tuple[Expression, ...]
    if TYPE_CHECKING:  # no name of the class: who goes through those asks each object for them
        _extends: ClassVar[tuple[Self, Expression]]

    def __post_init__(self) -> None:
        flat: list[Expression] = []
        for operand in self.operands:
            flat.extend(operand.operands if type(operand) is type(self) else (operand,))
        object.__setattr__(self, "operands", tuple(flat))
        super().__post_init__()

    def check(self) -> None:
        """Raise where there are fewer than two operands."""
        if len(self.operands) < 2:
            raise ExpressionError(
                f"{self.name} takes at least two operands, not {len(self.operands)}",
                hint="all_of(...) and any_of(...) take any number",
            )

    @classmethod
    def of(cls, *arguments: object) -> Self:
        """Join operands; adding one to a chain does not look at the chain again."""
        if len(arguments) == 2:
            first, second = (as_expression(argument) for argument in arguments)
            if type(first) is cls and type(second) is not cls:
                return cls._extended(first, second)
        return cls(tuple(as_expression(argument) for argument in arguments))

    @classmethod
    def _extended(cls, chain: Self, operand: Expression) -> Self:
        joined = object.__new__(cls)
        object.__setattr__(joined, "_extends", (chain, operand))
        joined._seal(max(chain.depth, operand.depth + 1), chain._size + operand._size)
        return joined

    def __getattr__(self, name: str) -> Any:
        """Write out the operands of a chain that was extended, once they are asked for."""
        if name != "operands" or "_extends" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        added: list[Expression] = []
        chain = self
        while "operands" not in chain.__dict__:
            chain, operand = chain._extends
            added.append(operand)
        operands = (*chain.operands, *reversed(added))
        object.__setattr__(self, "operands", operands)
        return operands

    def pieces(self) -> Iterable[Piece]:
        """Return the operands with ``and`` or ``or`` between them."""
        for place, operand in enumerate(self.operands):
            if place:
                yield f" {self.name} "
            yield Sub(operand, self.precedence + 1)

    def label(self) -> Iterable[Piece]:
        """Return ``(a AND b AND c)``."""
        yield "("
        for place, operand in enumerate(self.operands):
            if place:
                yield f" {self.word} "
            yield Sub(operand)
        yield ")"


class And(Connective, name="and", word="AND", precedence=2, compute=chain(pc.and_kleene)):
    """True where all operands are; false where one is false, whatever the others are."""


class Or(Connective, name="or", word="OR", precedence=1, compute=chain(pc.or_kleene)):
    """True where one operand is, whatever the others are; false where all are false."""


class Xor(
    Binary,
    name="xor",
    sign="^",
    word="XOR",
    precedence=6,
    signature=truths,
    compute=elementwise(pc.xor),
):
    """True where exactly one of the two is; written ``^``."""


class Not(Unary, name="not", signature=truths, compute=elementwise(pc.invert)):
    """True where the operand is false."""

    @property
    def precedence(self) -> int:  # type: ignore[override]
        """Of ``not x``, or of a comparison where it reads ``x not in (…)``."""
        return 4 if self.operand.name in ("is_in", "is_missing") else 3

    def pieces(self) -> Iterable[Piece]:
        """Return ``not x``, ``x not in (…)`` or ``x is not missing``."""
        from tessel.expression.operators.membership import IsIn, IsMissing

        match self.operand:
            case IsIn(operand=inner, values=values):
                return (Sub(inner, 5), f" not in {values}")
            case IsMissing(operand=inner):
                return (Sub(inner, 5), " is not missing")
            case _:
                return ("not ", Sub(self.operand, 3))


class Case(Expression, name="case"):
    """The value of the first condition that is true, or ``otherwise``.

    A condition that is missing is not true. Rows take part in a branch only if they reach it: a
    branch raises for no other rows.
    """

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

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Return the value of the first true condition; the last value is the otherwise."""
        count = len(self.conditions)
        chosen = values[-1]
        for condition, value in zip(
            reversed(values[:count]), reversed(values[count : 2 * count]), strict=True
        ):
            chosen = pc.if_else(pc.coalesce(condition, arrow_scalar(False)), value, chosen)
        return chosen


class Coalesce(Expression, name="coalesce"):
    """The first operand that is not missing."""

    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where there is no operand."""
        if not self.operands:
            raise ExpressionError("coalesce takes at least one operand", hint="coalesce(a, b)")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the common type of the operands."""
        result = common_type("coalesce", operands)
        return Signature((result,) * len(operands), result)

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Return the first value that is not missing; a NaN that nothing replaces becomes null."""
        return pc.coalesce(*(nan_to_null(value) for value in values))

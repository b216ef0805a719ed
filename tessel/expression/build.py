"""How users begin an expression: columns, literals, choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from tessel.errors.arguments import checks_arguments
from tessel.expression.leaves import Column, Literal, as_expression, literal
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And, Or
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.operators.arithmetic import MaxOf, MinOf
    from tessel.expression.operators.boolean import Case, Coalesce


@checks_arguments
def col(name: str) -> Column:
    """Return the values of a column.

    Parameters
    ----------
    name
        The column's name; whether it exists is checked when the expression meets a table.

    Examples
    --------
    >>> str(ts.col("price") * 2 > ts.col("qty"))
    'price * 2 > qty'
    """
    return Column(name)


@checks_arguments
def lit(value: object) -> Literal:
    """Return one value as an expression.

    Plain Python ``int`` and ``float`` adapt to what they meet: an integer has the narrowest type
    that holds it, a float the column's. A numpy or Arrow scalar keeps its own type.

    Raises
    ------
    ExpressionTypeError
        For a value of a type that expressions do not take, or an integer past 64 bits.

    Examples
    --------
    >>> trades.apply("x", ts.lit("new")).head(1).collect()["x"].to_pylist()
    ['new']
    """
    return literal(value)


@checks_arguments
@dataclass(frozen=True, slots=True)
class WhenCondition:
    """A condition that waits for its value: call `then`."""

    _goes_on: ClassVar[str] = "go on with .then(value).otherwise(other)"

    _before: WhenBranches | None
    _condition: Expression

    def then(self, value: object) -> WhenBranches:
        """Give the value for rows where the condition is true."""
        return WhenBranches(self._before, self._condition, as_expression(value))


@checks_arguments
@dataclass(frozen=True, slots=True)
class WhenBranches:
    """Conditions with their values; `otherwise` ends the chain and gives the expression."""

    _goes_on: ClassVar[str] = "end it by .otherwise(value); .otherwise(None) makes the rest missing"

    _before: WhenBranches | None
    _condition: Expression
    _value: Expression

    def when(self, condition: object) -> WhenCondition:
        """Add a condition for rows that no earlier one took."""
        return WhenCondition(self, as_expression(condition))

    def otherwise(self, value: object) -> Case:
        """Give the value for all other rows; ``None`` makes them missing."""
        from tessel.expression.operators.boolean import Case

        conditions: list[Expression] = []
        values: list[Expression] = []
        branch: WhenBranches | None = self
        while branch is not None:
            conditions.append(branch._condition)
            values.append(branch._value)
            branch = branch._before
        return Case(tuple(conditions[::-1]), tuple(values[::-1]), as_expression(value))


@checks_arguments
def when(condition: object) -> WhenCondition:
    """Begin a choice: ``when(c).then(a).when(d).then(b).otherwise(e)``.

    The first condition that is true decides; a missing condition is not true. A branch raises
    only for rows that reach it.

    Examples
    --------
    >>> size = ts.when(ts.col("qty") > 2).then("large").otherwise("small")
    >>> trades.apply("size", size).collect()["size"].to_pylist()
    ['small', 'small', 'large', 'large']
    """
    return WhenCondition(None, as_expression(condition))


@checks_arguments
def where(condition: object, value: object, otherwise: object) -> Case:
    """Return ``value`` where the condition is true and ``otherwise`` elsewhere.

    Examples
    --------
    >>> trades.apply("x", ts.where(ts.col("qty") > 2, 1, 0)).collect()["x"].to_pylist()
    [0, 0, 1, 1]
    """
    return when(condition).then(value).otherwise(otherwise)


@checks_arguments
def coalesce(*operands: object) -> Coalesce:
    """Return the first operand that is not missing, in each row.

    Examples
    --------
    >>> trades.apply("x", ts.coalesce(ts.col("price"), 0.0)).collect()["x"].to_pylist()
    [10.0, 20.0, 0.0, 21.0]
    """
    from tessel.expression.operators.boolean import Coalesce

    return Coalesce(tuple(as_expression(operand) for operand in operands))


def min_of(*operands: object) -> MinOf:
    """Return the smallest of the operands in each row; missing ones are skipped."""
    from tessel.expression.operators.arithmetic import MinOf

    return MinOf(tuple(as_expression(operand) for operand in operands))


def max_of(*operands: object) -> MaxOf:
    """Return the largest of the operands in each row; missing ones are skipped."""
    from tessel.expression.operators.arithmetic import MaxOf

    return MaxOf(tuple(as_expression(operand) for operand in operands))


def all_of(conditions: Iterable[object]) -> Expression:
    """Return whether all conditions are true (Kleene); ``lit(True)`` for none."""
    return _joined(And, conditions, literal(True))


def any_of(conditions: Iterable[object]) -> Expression:
    """Return whether one condition is true (Kleene); ``lit(False)`` for none."""
    return _joined(Or, conditions, literal(False))


def _joined(
    connective: type[And | Or], conditions: Iterable[object], none: Expression
) -> Expression:
    operands = tuple(as_expression(condition) for condition in conditions)
    if len(operands) > 1:
        return connective(operands)
    return operands[0] if operands else none

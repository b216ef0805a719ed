"""Expressions that mean nothing, and results that do not fit."""

from __future__ import annotations

from typing import Self

from tessel.errors.names import raise_the_limit
from tessel.errors.root import TesselError

__all__ = [
    "ExpressionDepthError",
    "ExpressionError",
    "ExpressionSyntaxError",
    "ExpressionTypeError",
    "IntegerOverflowError",
    "TruthValueError",
]


class ExpressionError(TesselError, ValueError):
    """An expression that means nothing."""

    kind = "expression-invalid"


class ExpressionSyntaxError(ExpressionError):
    """Text that is not an expression; ``detail`` shows the place."""

    kind = "expression-syntax"


class ExpressionTypeError(ExpressionError, TypeError):
    """Operands whose types do not go together; names the column, both types and a way out."""

    kind = "expression-type"


class ExpressionDepthError(ExpressionError, RecursionError):
    """An expression nested more deeply than the limit."""

    kind = "expression-depth"

    @classmethod
    def exceeded(cls, depth: int, limit: int) -> Self:
        """Make the error for an expression of so many operators from itself to its columns."""
        return cls(
            f"the expression is nested {depth:,} deep; the limit is {limit:,}",
            hint="join many conditions with all_of(...) or any_of(...), which do not nest, and "
            f"compute long sums in steps with apply; or {raise_the_limit('max_depth', depth)}",
            option="max_depth",
            given=depth,
            limit=limit,
        )


class TruthValueError(ExpressionError, TypeError):
    """An expression used where Python wants True or False."""

    kind = "expression-truth"


class IntegerOverflowError(TesselError, OverflowError):
    """Integer arithmetic or an integer sum past 64 bits; results never wrap."""

    kind = "integer-overflow"

    @classmethod
    def of_group(
        cls, aggregate: str, column: str | None, value: int, result_type: object, *, hint: str
    ) -> Self:
        """Return the error of an aggregate whose result in one group does not fit its type.

        Parameters
        ----------
        aggregate, column
            The aggregate, and what it was computed of; None for a column without a name.
        value, result_type
            The result, and the Arrow type that does not hold it.
        hint
            What to do.
        """
        what = "a column" if column is None else f"column {column!r}"
        return cls(
            f"{aggregate} of {what} is {value} in one group, past {result_type}",
            hint=hint,
            aggregate=aggregate,
            column=column,
            value=str(value),
            type=str(result_type),
        )

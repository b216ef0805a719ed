"""Aggregates of expressions: ``(col("price") * col("qty")).sum()``, ``quantile(price, 0.9)``.

An aggregate makes one value of many rows, so it is no value of a row: it stands in ``agg``, alone
or in an expression with others (``max(price) - min(price)``), which knows what the names mean. Here
is only how it is written, kept and read.
"""

from __future__ import annotations

from collections.abc import Iterable

from tessel.errors import AggregateError
from tessel.expression.node import Expression, require_text
from tessel.expression.printing import Piece
from tessel.expression.types import Operand, Signature

_names = {
    *("all", "any", "count", "first", "last", "max", "mean", "median", "min", "nunique", "ohlc"),
    *("quantile", "sem", "size", "std", "sum", "var", "vwap", "weighted_mean"),
}


def declare_aggregate(name: str) -> None:
    """Let text call an aggregate by this name."""
    _names.add(name)


def aggregate_call_names() -> frozenset[str]:
    """Return the names of aggregates that text can call."""
    return frozenset(_names)


class Aggregated(Expression, name="aggregate"):
    """An aggregate of expressions, for ``agg``: one value a group, not one a row.

    Attributes
    ----------
    operands
        What is aggregated, and literals for the aggregate's parameters.
    """

    how: str
    operands: tuple[Expression, ...]

    def check(self) -> None:
        """Raise where the name of the aggregate is no word."""
        require_text(self.how, "the name of an aggregate")
        if not self.how.isidentifier():
            raise AggregateError(f"no aggregate can have the name {self.how!r}")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Refuse: a row has no aggregate."""
        raise AggregateError(
            f"{self} is an aggregate of rows, not a value of each row",
            hint="aggregates stand in agg(...), where expressions compute with several, or with "
            "their results by apply after it",
            aggregate=self.how,
        )

    def pieces(self) -> Iterable[Piece]:
        """Return the call: ``sum(price * qty)``."""
        return self._call(self.how, 1)

    def label(self) -> Iterable[Piece]:
        """Return the call as plans show it: ``SUM(...)``."""
        return self._call(self.how.upper(), 1)

"""The aggregate ``var``: the variance."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.mean import mean_type
from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.spread import Spread
from tessel.clauses.values import is_temporal

__all__ = ["Var"]


@register
class Var(Spread):
    """The variance of the values that are not missing, with ``ddof`` (1: of a sample).

    Numbers, bools and decimals: the exact variance rounded once to float64. Missing where no more
    than ``ddof`` values are there, or one is infinite. Temporal types are refused: their squares
    have no type.
    """

    name: ClassVar[str] = "var"

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        found = mean_type(value_type)
        if found is None or is_temporal(found):
            hint = "var takes numbers" if found is None else "take std, which is a duration"
            raise self.refuse(column, value_type, hint)
        return found

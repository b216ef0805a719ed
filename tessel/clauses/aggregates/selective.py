"""Aggregates that select one value of a group: ``first last min max all any``, and ``ohlc``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Aggregate, AggregateBundle
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.registry import register
from tessel.clauses.values import is_hashable, plain_type


class SelectiveAggregate(FromReductions):
    """An aggregate that selects one of the values that are not missing, by its one reduction."""

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        return plain_type(value_type)

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return reduced[self.reductions[0]]


@register
class First(SelectiveAggregate):
    """The first value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "first"
    reductions: ClassVar[tuple[str, ...]] = ("first",)


@register
class Last(SelectiveAggregate):
    """The last value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "last"
    reductions: ClassVar[tuple[str, ...]] = ("last",)


class _Extreme(SelectiveAggregate):
    """The least or the greatest of values that have an order."""

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        if not is_hashable(value_type):
            raise self.refuse(column, value_type, f"{self.name} takes columns of single values")
        return super().result_type(value_type, column)


@register
class Max(_Extreme):
    """The greatest of the values that are not missing, of their own type; missing of none.

    Text is ordered by code point, binary by byte, False before True. A zero is +0.0, whichever
    zeros the group holds.
    """

    name: ClassVar[str] = "max"
    reductions: ClassVar[tuple[str, ...]] = ("greatest",)


@register
class Min(_Extreme):
    """The least of the values that are not missing, of their own type; missing of none.

    Text is ordered by code point, binary by byte, False before True. A zero is +0.0, whichever
    zeros the group holds.
    """

    name: ClassVar[str] = "min"
    reductions: ClassVar[tuple[str, ...]] = ("least",)


@register
class AllTrue(SelectiveAggregate):
    """Whether none of the values that are not missing is false; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "all"
    reductions: ClassVar[tuple[str, ...]] = ("least",)

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:  # noqa: D102
        kind = super().result_type(value_type, column)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise self.refuse(
                column,
                value_type,
                f"{self.name} takes bool columns: compare first, or apply a condition",
            )
        return pa.bool_()

    def of_reductions(  # noqa: D102
        self, reduced: Mapping[str, Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return super().of_reductions(reduced, value_type, column).cast(pa.bool_())


@register
class AnyTrue(AllTrue):
    """Whether one of the values that are not missing is true; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "any"
    reductions: ClassVar[tuple[str, ...]] = ("greatest",)


@register
class Ohlc(AggregateBundle):
    """Open, high, low and close of a column: four outputs of one name.

    ``agg(bar=("price", "ohlc"))`` makes ``bar_open``, ``bar_high``, ``bar_low`` and ``bar_close``.
    """

    name: ClassVar[str] = "ohlc"

    def parts(self) -> Mapping[str, Aggregate]:  # noqa: D102
        return {"open": First(), "high": Max(), "low": Min(), "close": Last()}

"""The bundle ``ohlc``: first, greatest, least and last value, as bars of prices have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tessel.clauses.aggregates.base import Aggregate, AggregateBundle
from tessel.clauses.aggregates.first import First
from tessel.clauses.aggregates.last import Last
from tessel.clauses.aggregates.max import Max
from tessel.clauses.aggregates.min import Min
from tessel.clauses.aggregates.registry import register

__all__ = ["Ohlc"]


@register
class Ohlc(AggregateBundle):
    """Open, high, low and close of a column: four outputs of one name.

    ``agg(bar=("price", "ohlc"))`` makes ``bar_open``, ``bar_high``, ``bar_low`` and ``bar_close``.
    """

    name: ClassVar[str] = "ohlc"

    def parts(self) -> Mapping[str, Aggregate]:  # noqa: D102
        return {"open": First(), "high": Max(), "low": Min(), "close": Last()}

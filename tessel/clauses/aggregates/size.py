"""The aggregate ``size``: how many rows a group has."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.registry import register

__all__ = ["Size"]


@register
class Size(Count):
    """How many rows a group has, missing values included, int64. Needs no column."""

    name: ClassVar[str] = "size"
    reads_values: ClassVar[bool] = False

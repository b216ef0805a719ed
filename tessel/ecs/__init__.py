"""Entities, their components, and the processing units that clauses work on."""

from __future__ import annotations

from tessel.ecs.components import (
    Bucket,
    ColRange,
    Columns,
    FetchCount,
    RowRange,
    SegmentKey,
    Statistics,
    Symbol,
    TimeRange,
)
from tessel.ecs.facts import FactColumn
from tessel.ecs.manager import ComponentManager
from tessel.ecs.unit import Piece, ProcessingUnit, segments_of

__all__ = [
    "Bucket",
    "ColRange",
    "Columns",
    "ComponentManager",
    "FactColumn",
    "FetchCount",
    "Piece",
    "ProcessingUnit",
    "RowRange",
    "SegmentKey",
    "Statistics",
    "Symbol",
    "TimeRange",
    "segments_of",
]

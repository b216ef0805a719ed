"""Entities, their components, and the processing units that clauses work on."""

from __future__ import annotations

from tessel.ecs.manager import ComponentManager
from tessel.ecs.piece import (
    ColRange,
    Columns,
    FetchCount,
    Piece,
    RowRange,
    SegmentKey,
    TimeRange,
    segments_of,
)
from tessel.ecs.unit import ProcessingUnit

__all__ = [
    "ColRange",
    "Columns",
    "ComponentManager",
    "FetchCount",
    "Piece",
    "ProcessingUnit",
    "RowRange",
    "SegmentKey",
    "TimeRange",
    "segments_of",
]

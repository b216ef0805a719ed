"""Entities, their components, and the processing units that clauses work on."""

from __future__ import annotations

from tessel.ecs.components import (
    ColRange,
    Columns,
    FetchCount,
    RowRange,
    SegmentKey,
    TimeRange,
)
from tessel.ecs.manager import ComponentManager
from tessel.ecs.piece import Piece, segments_of
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

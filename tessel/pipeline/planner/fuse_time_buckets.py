"""Row-wise clauses before a resample run in its units: no barrier lies between.

A resample whose aggregates do not merge takes units in which its buckets are whole. What a query
does to rows before, a date range or a filter, it does to each row alone, and so as well inside such
a unit; as stages apart, all rows would be put aside before the first bucket is computed.
"""

from __future__ import annotations

from tessel.clauses.base import Clause, Structure
from tessel.clauses.structures import StructuredUnits, structure_by_row_slice
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Stage, cut_stages
from tessel.pipeline.planner.commutation import ROW_WISE, is_one_of
from tessel.store.manifest.index import SegmentIndex


def fused_stages(clauses: tuple[Clause, ...], schema: TableSchema) -> tuple[Stage, ...]:
    """Cut the clauses on one symbol into stages, the first two joined where they may be."""
    stages = cut_stages(clauses, schema)
    if len(stages) < 2 or stages[1].input is not Structure.TIME_BUCKETED:
        return stages
    first, second, *rest = stages
    if type(second.clauses[0]).structure_units is Clause.structure_units:
        return stages  # its restructure wants the columns that the clauses before leave
    if not all(is_one_of(clause, ROW_WISE) for clause in first.clauses):
        return stages
    joined = Stage((*first.clauses, *second.clauses), (*first.schemas, *second.schemas[1:]))
    return (joined, *rest)


def first_units(stage: Stage, index: SegmentIndex) -> StructuredUnits:
    """Group the segments of a symbol into the units of the first stage."""
    if not stage.clauses:
        return structure_by_row_slice(index)
    buckets = (c for c in stage.clauses if c.structure.input is Structure.TIME_BUCKETED)
    return next(buckets, stage.clauses[0]).structure_units(index)

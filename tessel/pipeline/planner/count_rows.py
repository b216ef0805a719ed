"""Pass: ``count`` of a column in which nothing is missing counts rows, and reads no column."""

from __future__ import annotations

import dataclasses

from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.size import Size
from tessel.clauses.aggregation import Aggregation
from tessel.clauses.base import drops_rows
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.partition import Partition
from tessel.clauses.resample import Resample
from tessel.clauses.select import Select
from tessel.pipeline.planner.draft import Draft
from tessel.store.manifest.index import SegmentIndex

__all__ = ["count_rows"]


def count_rows(draft: Draft) -> Draft:
    """Count rows where statistics tell that no row slice misses a value of the column.

    Asked of columns as they are stored: what stands before the aggregates only drops rows or
    columns.
    """
    if draft.index is None:
        return draft
    clauses = list(draft.clauses)
    for at, clause in enumerate(clauses):
        if isinstance(clause, Aggregation | Resample) and clause.aggregates:
            aggregates = tuple(_counted(each, draft.index) for each in clause.aggregates)
            if aggregates != clause.aggregates:
                clauses[at] = dataclasses.replace(clause, aggregates=aggregates)
                return draft.replace(clauses=tuple(clauses))
            return draft
        if not (type(clause) in (Select, Partition) or drops_rows(clause)):
            return draft
    return draft


def _counted(each: NamedAggregate, index: SegmentIndex) -> NamedAggregate:
    if type(each.aggregate) is not Count or each.computed or each.column is None:
        return each
    if index.statistics.facts(each.column).missing.any():
        return each
    return dataclasses.replace(each, column=None, aggregate=Size())

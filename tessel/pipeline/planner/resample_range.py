"""Pass: of a resample whose buckets are cut to a range, only the rows of those buckets are read.

Sound only where a bucket does not depend on rows outside of it: where buckets start at the epoch or
at an instant that the query names, not at the first row, and where empty ones are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.resample import Resample
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.pipeline.planner.commutation import MAKING, is_one_of
from tessel.pipeline.planner.draft import Draft

if TYPE_CHECKING:
    from tessel.clauses.date_range import DateRange

_MARGIN = 2
"""Buckets read beyond each end: the range itself, which stays, decides which of them come out."""


def range_before_resample(draft: Draft) -> Draft:
    """Add to a date range on the labels of a resample one on the rows before it."""
    if not draft.has("date_range"):
        return draft
    from tessel.clauses.date_range import DateRange

    clauses: list[Clause] = []
    schemas = draft.schemas()
    for at, clause in enumerate(draft.clauses):
        maker = _maker_of_labels(draft.clauses, at, schemas) if type(clause) is DateRange else None
        if maker is not None and type(made := draft.clauses[maker]) is Resample:
            rows = _rows_of(made, cast(DateRange, clause), schemas[maker])
            if rows is not None:
                clauses.insert(len(clauses) - (at - maker), rows)
        clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def _maker_of_labels(
    clauses: Sequence[Clause], end: int, schemas: Sequence[TableSchema]
) -> int | None:
    """Return the last clause before ``end`` that does not leave rows and labels as they are."""
    for at in reversed(range(end)):
        clause, index = clauses[at], schemas[at].index
        passes = is_one_of(clause, ("select", "rename"))
        passes = passes or (is_one_of(clause, MAKING) and index not in clause.structure.adds)
        if not passes or schemas[at + 1].index != index:
            return at
    return None


def _rows_of(resample: Resample, labels: DateRange, schema: TableSchema) -> DateRange | None:
    """Return a range that holds all rows of the buckets with such labels; None without one."""
    from tessel.clauses.date_range import DateRange, instant

    assert schema.index is not None  # a resample has one
    kind = schema.type_of(schema.index)
    if not pa.types.is_timestamp(kind) or not resample.whole_by_itself:
        return None
    low, high = labels.bounds(resample.output_schema(schema))
    bucketer = resample.bucketer(schema)
    limits = np.iinfo(np.int64)
    ends: list[str | None] = []
    for bound, beyond in ((low, -_MARGIN), (high, _MARGIN)):
        if bound is None:
            ends.append(None)
            continue
        try:
            number = bucketer.numbers(np.array([bound], dtype=np.int64)) + beyond
            (edge,) = bucketer.edges(number).tolist()
        except (TesselError, OverflowError):
            return None
        if not limits.min < edge < limits.max:
            return None
        ends.append(instant(edge * UNIT_NANOSECONDS[kind.unit], kind))
    if ends == [None, None]:
        return None
    return DateRange(ends[0], ends[1])

"""Pass: count, size, min and max of whole segments are told by their statistics, without reading.

Row slices whose filters are all proved, and whose statistics are exact in what is asked, leave the
index; what they contribute stands in the plan. The others are read, and the two are merged. Never
told by statistics: bounds of text that was cut, of slices that lost rows, of decimals past 64 bits;
counts of a slice of which only a part is left, unless nothing is missing in it.

Pass: ``count`` of a column in which nothing is missing counts rows, and reads no column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.count import Count, Size
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.selective import Max, Min
from tessel.clauses.aggregation import PartialAggregation
from tessel.clauses.base import drops_rows
from tessel.clauses.capabilities import Proves, has_capability
from tessel.clauses.grouped.group_states import GroupShape, StateKey
from tessel.clauses.partition import Partition
from tessel.clauses.results import NamedAggregate
from tessel.clauses.select import Rename, Select
from tessel.clauses.values import plain_type
from tessel.expression.intervals import TRUE
from tessel.pipeline.planner.commutation import is_one_of
from tessel.pipeline.planner.draft import Draft
from tessel.store.manifest.index import SegmentIndex

_ANSWERED = (Size, Count, Min, Max)
Flags = npt.NDArray[np.bool_]


def answer_from_statistics(draft: Draft) -> Draft:
    """Take out of the index the row slices that statistics answer for."""
    index = draft.index
    if index is None or index.slices == 0:
        return draft
    reduced = _reduced(draft, index)
    if reduced is None:
        return draft
    at, partial, names, told = reduced
    for each in partial.aggregates:
        told = told & _exact(each, index, names)
    if not told.any():
        return draft
    from tessel.clauses.known_rows import KnownRows

    source = draft.schemas()[at]
    shape = GroupShape((), partial.aggregates, source)
    states: dict[StateKey, Any] = {}
    for each in partial.aggregates:
        assert isinstance(each.aggregate, FromReductions)  # all of those that are answered are
        (which,) = each.aggregate.reductions
        kind = each.input_type(source)
        states[each.inputs, which] = _state(each, kind, index, names, told)
    known = shape.of_states([], states)
    clauses = list(draft.clauses)
    clauses.insert(at + 1, KnownRows.of(known))
    left = index.keep_slices(~told, clause="statistics", reason="they tell the answer")
    return draft.replace(clauses=tuple(clauses), index=left)


def _reduced(
    draft: Draft, index: SegmentIndex
) -> tuple[int, PartialAggregation, Mapping[str, str], Flags] | None:
    """Return the aggregation of a query to one row, and what statistics may tell it of.

    Returns
    -------
    tuple or None
        Its position; the clause; the column of the symbol that each column is, as it sees them;
        the row slices of which every row passes all filters. None for any other query.
    """
    partial = next((c for c in draft.clauses if type(c) is PartialAggregation), None)
    if partial is None or partial.keys:
        return None
    if not all(type(each.aggregate) in _ANSWERED for each in partial.aggregates):
        return None
    names = {name: name for name in draft.schema.names}
    told = np.ones(index.slices, dtype=bool)
    renamed = False
    for at, clause in enumerate(draft.clauses):
        if clause is partial:
            return at, partial, names, told
        if is_one_of(clause, ("rename",)):
            assert isinstance(clause, Rename)
            renamed = True
            new = dict(clause.columns)
            names = {new.get(name, name): source for name, source in names.items()}
        elif has_capability(clause, Proves) and not renamed:
            told &= clause.proves(index) == TRUE
        elif type(clause) is not Select:
            return None
    return None


def _exact(each: NamedAggregate, index: SegmentIndex, names: Mapping[str, str]) -> Flags:
    """Return the row slices whose statistics say exactly what is asked."""
    if each.column is None:
        return np.ones(index.slices, dtype=bool)
    facts = index.statistics.facts(names[each.column])
    if pa.types.is_null(facts.minimum.type):  # a column without an order has no bounds
        return np.asarray((facts.missing == 0) & (type(each.aggregate) is Count))
    # Of a slice that was cut and then written again, what is missing is told of the uncut one: it
    # has bounds, which are no longer exact.
    rows = index.slice_row_end - index.slice_row_start
    unbounded = numpy_array(facts.minimum.is_null())
    all_missing = index.slice_is_whole & (facts.missing >= rows) & unbounded
    if type(each.aggregate) is Count:
        is_uncut = index.slice_is_whole & (facts.minimum_exact | facts.maximum_exact)
        return np.asarray((facts.missing == 0) | is_uncut | all_missing)
    is_exact = facts.minimum_exact if type(each.aggregate) is Min else facts.maximum_exact
    return np.asarray(is_exact | all_missing)


def _state(
    each: NamedAggregate,
    kind: pa.DataType | None,
    index: SegmentIndex,
    names: Mapping[str, str],
    told: Flags,
) -> Any:
    """Return the state of one aggregate over the row slices that are told."""
    rows = (index.slice_row_end - index.slice_row_start)[told]
    if each.column is None or type(each.aggregate) is Size:
        return np.array([rows.sum()], np.int64)
    facts = index.statistics.facts(names[each.column])
    if type(each.aggregate) is Count:
        return np.array([(rows - facts.missing[told]).sum()], np.int64)
    assert isinstance(each.aggregate, Min | Max)
    bounds = facts.minimum if type(each.aggregate) is Min else facts.maximum
    values = bounds.filter(arrow_array(told)).cast(plain_type(kind))
    (state,) = each.aggregate.partial(values, np.zeros(len(values), np.int64), 1)
    return state


def count_rows(draft: Draft) -> Draft:
    """Count rows where statistics tell that no row slice misses a value of the column.

    Asked of columns as they are stored: what stands before the aggregates only drops rows or
    columns.
    """
    if draft.index is None:
        return draft
    clauses = list(draft.clauses)
    for at, clause in enumerate(clauses):
        grouping: Any = clause
        if is_one_of(clause, ("aggregation", "resample")) and grouping.aggregates:
            aggregates = tuple(_counted(each, draft.index) for each in grouping.aggregates)
            if aggregates != grouping.aggregates:
                clauses[at] = dataclasses.replace(grouping, aggregates=aggregates)
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

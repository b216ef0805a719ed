"""Whether units of a group-by would have nearly as many groups as rows, which the first rows tell.

States of so many groups cost more than their rows, to make and to merge: then rows go to hash
buckets as they are, and each group is made once, whole. Which of the two is chosen changes no
answer. Statistics rule it out where the keys have few values; otherwise the keys of some rows at
the start of the symbol are read, once a process for each version of a symbol.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.clauses.aggregation import PartialAggregation
from tessel.clauses.base import Clause
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.head import Head
from tessel.clauses.plan import Plan, Question
from tessel.clauses.planner.commutation import is_one_of
from tessel.clauses.planner.draft import Draft
from tessel.clauses.select import Select
from tessel.clauses.values import is_temporal
from tessel.store.encodings.distinct import expected_distinct
from tessel.store.manifest.index import SegmentIndex

__all__ = ["hint_of_groups"]

_LEAST_ROWS = 1 << 19
"""Fewer rows are grouped either way before it is found out which is better."""

_SAMPLED_ROWS = 1 << 16
_FEW = 1 << 16
"""So many groups are few for the rows of any unit."""

_MANY_PART = 2
"""Groups are many when they are more than half of the rows of a unit."""

_known: weakref.WeakKeyDictionary[SegmentIndex, dict[tuple[str, ...], bool]] = (
    weakref.WeakKeyDictionary()
)


def hint_of_groups(
    draft: Draft,
    whole: SegmentIndex,
    sample: Callable[[tuple[Clause, ...]], Plan],
    revised: Callable[[bool], Plan],
) -> tuple[bool, Question | None]:
    """Return whether groups are many, so far as that is known, and how to find it out otherwise.

    Parameters
    ----------
    draft
        As the last pass left it.
    whole
        All segments of the symbol.
    sample
        Plans clauses on the symbol.
    revised
        Plans the query again, for many groups or for few.
    """
    keys = _stored_keys(draft)
    if not keys or draft.index is None or draft.index.row_count < _LEAST_ROWS:
        return False, None
    known = _known.setdefault(whole, {})
    if keys not in known and _are_few(draft.index, keys):
        known[keys] = False
    if keys in known:
        return known[keys], None
    unit_rows = int((draft.index.slice_row_end - draft.index.slice_row_start).max())

    def revise(answer: pa.Table) -> Plan:
        many = False
        if answer.num_rows:
            found = group_codes([answer.column(key) for key in keys], drop_missing=False)
            groups = expected_distinct(answer.num_rows, len(found), unit_rows)
            many = groups * _MANY_PART > unit_rows
        known[keys] = many
        return revised(many)

    first = sample((Select(keys), Head(_SAMPLED_ROWS)))
    return False, Question(first, revise, 0, "how many groups there are")


def _stored_keys(draft: Draft) -> tuple[str, ...]:
    """Return the keys of partials of rows of the symbol, where the keys are columns of it."""
    for clause in draft.clauses:
        if type(clause) is PartialAggregation:
            stored = all(key in draft.schema for key in clause.keys)
            return clause.keys if stored else ()
        if not is_one_of(clause, ("filter", "date_range", "select")):
            return ()
    return ()


def _are_few(index: SegmentIndex, keys: tuple[str, ...]) -> bool:
    """Return whether bounds of the keys alone say that they have few values."""
    groups = 1
    for key in keys:
        kind = index.schema.type_of(key)
        if pa.types.is_boolean(kind):
            groups *= 3
            continue
        if not (pa.types.is_integer(kind) or is_temporal(kind)):
            return False
        facts = index.statistics.facts(key)
        if facts.minimum.null_count or facts.maximum.null_count:
            return False
        least = np.asarray(numpy_array(facts.minimum)).min()
        greatest = np.asarray(numpy_array(facts.maximum)).max()
        groups *= int(_integer(greatest)) - int(_integer(least)) + 2
    return groups <= _FEW


def _integer(value: np.generic) -> np.generic:
    return value.view(np.int64) if value.dtype.kind in "mM" else value

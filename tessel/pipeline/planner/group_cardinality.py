"""The estimate of cardinality: whether a unit has nearly as many groups, or keys, as rows.

Partial states of so many groups cost more than their rows, to make and to merge, and a distinct
drops few rows of a unit: then rows go to hash buckets as they are, and each group is made once,
whole. The choice changes no answer. Low
cardinality follows from the bounds of the keys where these have few values; otherwise the keys of
some rows at the start of the symbol are read, once a process for each version of a symbol.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.clauses.base import Clause
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.positional import Head
from tessel.clauses.select import Select
from tessel.clauses.structures import structure_by_row_slice
from tessel.clauses.values import is_temporal
from tessel.kernels.word_numbers import expected_distinct
from tessel.pipeline.packing import small_runs
from tessel.pipeline.plan import Plan, Question, SourceUnits
from tessel.pipeline.planner.commutation import is_one_of
from tessel.pipeline.planner.draft import Draft
from tessel.store.manifest.index import SegmentIndex

_LEAST_ROWS = 1 << 19
"""Fewer rows are grouped either way before it is found out which is better."""

_SAMPLED_ROWS = 1 << 16
_LOW_GROUPS = 1 << 16
"""Up to so many groups cardinality is low, whatever the rows of a unit."""

_HIGH_PART = 2
"""Cardinality is high when a unit has more groups than this part of its rows: the half."""

_known: weakref.WeakKeyDictionary[SegmentIndex, dict[tuple[str, ...], bool]] = (
    weakref.WeakKeyDictionary()
)


def cardinality_hint(
    draft: Draft,
    whole: SegmentIndex,
    sample: Callable[[tuple[Clause, ...]], Plan],
    revised: Callable[[tuple[str, ...]], Plan],
) -> tuple[tuple[str, ...], Question | None]:
    """Return keys of high cardinality, and the question to ask first where that is not known.

    Parameters
    ----------
    sample
        Plans clauses on the symbol.
    revised
        Plans the query again, for keys of high cardinality or for none.
    """
    keys = _stored_keys(draft)
    if not keys or draft.index is None or draft.index.row_count < _LEAST_ROWS:
        return (), None
    known = _known.setdefault(whole, {})
    if keys not in known and _is_low(draft.index, keys):
        known[keys] = False
    if keys in known:
        return keys if known[keys] else (), None
    unit_rows = _unit_rows(draft.index, draft.live_bytes)

    def revise(answer: pa.Table) -> Plan:
        is_high = False
        if answer.num_rows:
            # Missing keys are one group, which says nothing of how often others repeat.
            found = group_codes([answer.column(key) for key in keys], drop_missing=True)
            present = unit_rows * len(found.codes) // answer.num_rows
            groups = expected_distinct(len(found.codes), len(found), present)
            is_high = groups * _HIGH_PART > unit_rows
        known[keys] = is_high
        return revised(keys if is_high else ())

    first = sample((Select(keys), Head(_SAMPLED_ROWS)))
    return (), Question(first, revise, 0, "how many groups there are")


def _unit_rows(index: SegmentIndex, live_bytes: int | None) -> int:
    """Return the rows of the largest unit, where small neighbours are read as one."""
    read = SourceUnits(index, structure_by_row_slice(index).units)
    ends = np.append(0, np.cumsum(read.rows))
    runs = np.arange(len(ends)) if live_bytes is None else small_runs(read, live_bytes)
    return int(np.diff(ends[runs]).max())


def _stored_keys(draft: Draft) -> tuple[str, ...]:
    """Return the keys of what reduces units, where they are stored columns of the symbol."""
    for clause in draft.clauses:
        if is_one_of(clause, ("partial_aggregation", "partial_distinct")):
            reducing: Any = clause
            is_distinct = clause.name == "partial_distinct"
            keys: tuple[str, ...] = reducing.columns if is_distinct else reducing.keys
            return keys if all(key in draft.schema for key in keys) else ()
        if not is_one_of(clause, ("filter", "date_range", "select")):
            return ()
    return ()


def _is_low(index: SegmentIndex, keys: tuple[str, ...]) -> bool:
    """Return whether the bounds of the keys alone prove that cardinality is low."""
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
    return groups <= _LOW_GROUPS


def _integer(value: np.generic) -> np.generic:
    return value.view(np.int64) if value.dtype.kind in "mM" else value

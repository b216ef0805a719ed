"""Pass: choose how aggregations run: partials that merge where they can, whole groups elsewhere."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tessel.arrays import different
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.aggregation import Aggregation, MergeAggregation, PartialAggregation
from tessel.clauses.base import Clause
from tessel.clauses.computed import key_names, stored_names
from tessel.clauses.partition import Partition
from tessel.clauses.results import NamedAggregate
from tessel.errors import PlanError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.commutation import is_one_of
from tessel.pipeline.planner.draft import Draft, value_bytes

if TYPE_CHECKING:
    from tessel.clauses.resample import Resample

_BYTES_A_VALUE = 8
_HOLISTIC_BUCKETS = 32
"""Holistic states are merged up to the bytes of so many hash buckets."""

_GATHERED_IN_BUDGET = 10
"""Units of rows that were gathered for their buckets: so many fit at a time."""

_LEAST_HOLISTIC_ROWS = 1 << 16
"""Fewer rows are brought together by group sooner than their values are put in order twice."""


def lower_aggregation(draft: Draft) -> Draft:
    """Replace groupby and resample by the form they are run in."""
    clauses: list[Clause] = []
    for clause, following, schema in draft.steps(Partition, Aggregation):
        if type(clause) is Partition and type(following) is Aggregation:
            _check_same_keys(following, clause.keys)
            clauses += _groupby(clause, following, schema, draft)
        elif is_one_of(clause, ("resample",)):
            clauses += _resample(clause, schema, draft)
        else:
            if type(clause) is Aggregation:
                _check_same_keys(clause, ())
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


def _check_same_keys(aggregation: Aggregation, keys: tuple[str | ComputedColumn, ...]) -> None:
    """Refuse an aggregation whose groups the clause before did not bring together."""
    if aggregation.keys != keys:
        names = list(key_names(aggregation.keys))
        raise PlanError(
            f"aggregation by {names} follows no partition by the same keys",
            hint="write groupby(...).agg(...), which makes both",
            clause=aggregation.name,
        )


def _reduces_units(clause: Resample, draft: Draft) -> bool:
    """Return whether a resample makes partials of units, or gathers the rows of each bucket.

    It gathers where it must, and what holds values anyway, while the rows of a bucket, with those
    that were cut off with them, are few for the byte budget.
    """
    aggregates = clause.aggregates
    if all(has_compact_state(each.aggregate) for each in aggregates):
        return True
    index = draft.index
    if index is None or index.slice_first_time is None or draft.live_bytes is None:
        return False
    if index.schema.index is None:  # without rows, its times are not wanted either
        return False
    if not all(each.aggregate.mergeable for each in aggregates):
        return False
    holistic = sum(not has_compact_state(each.aggregate) for each in aggregates)
    if draft.gathered_bytes is not None:
        most = draft.gathered_bytes
        if index.row_count * _BYTES_A_VALUE * holistic > most:
            return False
    rows = index.slice_row_end - index.slice_row_start
    units = clause.structure_units(index).units
    largest = max(
        (int(rows[different(index.slice_number[unit])].sum()) for unit in units), default=0
    )
    width = sum(map(value_bytes, index.schema.arrow.types))
    return largest * width * _GATHERED_IN_BUDGET > draft.live_bytes


def _merges(aggregates: tuple[NamedAggregate, ...], draft: Draft) -> bool:
    """Return whether units make partial states, which are merged.

    Holistic states are as many bytes as the values. Local memory is bounded either way; but partial
    states are gathered in one place, where they must not be many times the byte budget.
    """
    if not all(each.aggregate.mergeable for each in aggregates):
        return False
    holistic = sum(not has_compact_state(each.aggregate) for each in aggregates)
    if not holistic:
        return True
    if draft.index is None:
        return False
    rows = int((draft.index.slice_row_end - draft.index.slice_row_start).sum())
    most = _HOLISTIC_BUCKETS * draft.bucket_bytes
    if draft.gathered_bytes is not None:
        most = min(most, draft.gathered_bytes)
    return rows >= _LEAST_HOLISTIC_ROWS and rows * _BYTES_A_VALUE * holistic <= most


def _groupby(
    partition: Partition, aggregation: Aggregation, schema: TableSchema, draft: Draft
) -> list[Clause]:
    keys, aggregates = stored_names(aggregation.keys), aggregation.aggregates
    written = aggregation.describe()
    if not (keys and keys == draft.high_cardinality) and _merges(aggregates, draft):
        return [
            PartialAggregation(
                keys, aggregates, partition.drop_missing, aggregation.sort, written=written
            ),
            MergeAggregation(keys, aggregates, schema, aggregation.sort, written=written),
        ]
    if not keys:
        return [aggregation]  # one group: nothing to spread over buckets, nothing to order
    from tessel.clauses.grouped.group_states import POSITION
    from tessel.clauses.sort import MergeSorted

    buckets = draft.buckets_by(keys)
    # Groups are brought into one order in the end: by key, or by the first place of each.
    hidden = () if aggregation.sort else (POSITION,)
    by = hidden or keys
    ordered = MergeSorted(by, (False,) * len(by), without=hidden, groups=True)
    return [
        dataclasses.replace(partition, buckets=buckets, positions=not aggregation.sort),
        dataclasses.replace(aggregation, sort=False),
        ordered,
    ]


def _resample(clause: Clause, schema: TableSchema, draft: Draft) -> list[Clause]:
    from tessel.clauses.resample import PartialResample, Resample

    assert isinstance(clause, Resample)
    if schema.index is None:
        return [clause]
    filled: list[Clause] = []
    if clause.empty != "omit":
        from tessel.clauses.fill_buckets import FillBuckets

        filled = [FillBuckets(clause, schema)]
    if not _reduces_units(clause, draft):
        return [dataclasses.replace(clause, empty="omit"), *filled]
    written = clause.describe()
    fields = {field.name: getattr(clause, field.name) for field in dataclasses.fields(clause)}
    del fields["empty"], fields["results"]
    keys = (schema.index, *stored_names(clause.by))
    # Without keys the partials of one bucket follow one another: the order is there already.
    merged = MergeAggregation(
        keys, clause.aggregates, schema, sort=bool(clause.by), index=schema.index, written=written
    )
    return [PartialResample(**fields, written=written), merged, *filled]

"""Clauses: what a query is made of, and what each part of it does to a unit of work.

A clause is one file, or stands in one with those that differ from it in a word. Clauses know
segments by their index (from ``store``) and data by their units (from ``ecs``); they know neither
how a query is planned nor where it runs, which is the business of :mod:`tessel.pipeline`.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "aggregation": "Aggregation MergeAggregation PartialAggregation",
        "apply": "Apply",
        "apply_together": "ApplyTogether",
        "base": "Carry Clause ClauseInfo IndexEffect Structure",
        "builder": "QueryBuilder",
        "combining": "AlignColumns Combining SubQuery clauses_from_json",
        "concat": "Concat",
        "cumulative": "CumCount CumMax CumMin CumSum",
        "date_range": "DateRange",
        "describe": "Describe Shares TurnFigures ValueCounts",
        "distinct": "Distinct DistinctBucket PartialDistinct",
        "ewm": "Ewm",
        "explode": "Explode",
        "fill": "Fill",
        "fill_buckets": "FillBuckets",
        "filter": "Filter",
        "aggregate_columns": "AggregateColumns",
        "index_values": "InZone with_times_of_index",
        "join": "Join",
        "join_asof": "JoinAsof",
        "joining.asof_steps": "AsofInputs BroadcastAsof HashAsof InOrder",
        "joining.broadcast": "AppendUnmatched BroadcastJoin",
        "joining.hashed": "ExpandJoined HashJoin JoinPartition",
        "known_rows": "KnownRows NoRows",
        "latest_at": "LatestAt",
        "leave_codes": "LeaveCodes",
        "merge": "Merge MergeInputs MergeRange TimePartition",
        "partition": "Partition",
        "positional": "Head Positional RowRange Tail Take",
        "capabilities": (
            "Broadcasts Carries Consumes Expands Interleaves Joins Limits Narrows Proves"
        ),
        "rank": "Rank",
        "registry": "clause_names find_clause register",
        "resample": "PartialResample Resample",
        "rolling": "Rolling",
        "results": "NamedAggregate",
        "units.bound_unit": "bound_unit",
        "units.pieces": "load_piece",
        "units.reduced": "units_of_tables",
        "sample": "Sample",
        "select": "Cast Drop Rename Select",
        "shifted": "Diff PctChange Shift",
        "sort": "MergeSorted Sort",
        "structures": (
            "StructuredUnits UnitFacts last_bucket_of_front structure_all_as_one "
            "structure_by_bucket structure_by_row_slice structure_by_time_bucket"
        ),
        "top_k": "LastOfSort PartialLastOfSort PartialTopK TopK",
        "verbs": "Verbs",
        "verbs.grouping": "GroupedQuery ResampledQuery WindowQuery",
    },
)

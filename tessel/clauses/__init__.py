"""Clauses and the pipeline: what a query is made of, how it is planned, how it runs on threads.

One clause is one file. Clauses know segments by their index (from ``store``) and data by their
units (from ``ecs``); they know nothing of Spark.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "aggregation": "Aggregation MergeAggregation OrderGroups PartialAggregation",
        "apply": "Apply",
        "apply_together": "ApplyTogether",
        "base": "Carry Clause ClauseInfo IndexEffect Structure",
        "builder": "QueryBuilder",
        "cast": "Cast",
        "combining": "AlignColumns Combining SubQuery clauses_from_json",
        "concat": "Concat",
        "cum_count": "CumCount",
        "cum_max": "CumMax",
        "cum_min": "CumMin",
        "cum_sum": "CumSum",
        "date_range": "DateRange",
        "describe": "Describe TurnFigures",
        "diff": "Diff",
        "distinct": "Distinct DistinctBucket PartialDistinct",
        "drop": "Drop",
        "ewm": "Ewm",
        "explain": "Explanation explain_plan",
        "explode": "Explode",
        "fill": "Fill",
        "fill_buckets": "FillBuckets",
        "filter": "Filter",
        "head": "Head",
        "index_values": "with_times_of_index",
        "join": "Join",
        "join_asof": "JoinAsof",
        "joining.asof_steps": "AsofInputs BroadcastAsof HashAsof InOrder",
        "joining.broadcast": "AppendUnmatched BroadcastJoin",
        "joining.hashed": "ExpandJoined HashJoin JoinPartition OrderJoined",
        "known_rows": "KnownRows",
        "last_of_sort": "LastOfSort PartialLastOfSort",
        "latest_at": "LatestAt",
        "leave_codes": "LeaveCodes",
        "merge": "Merge MergeInputs",
        "named_aggregate": "NamedAggregate",
        "no_rows": "NoRows",
        "partition": "Partition",
        "pct_change": "PctChange",
        "plan": "Catalog Plan Question SourcePlan Stage answered plugins_of",
        "planner.planner": "plan_query query_schema",
        "positional": "Positional",
        "capabilities": (
            "Broadcasts Carries Consumes Expands Interleaves Joins Limits Narrows Proves"
        ),
        "rank": "Rank",
        "registry": "clause_names find_clause register",
        "rename": "Rename",
        "resample": "PartialResample Resample",
        "rolling": "Rolling",
        "row_range": "RowRange",
        "running.bound_unit": "bound_unit",
        "running.carrying": "Between carries_between",
        "running.pieces": "load_piece",
        "running.pipeline": "Executor LocalExecutor result_table run_stages run_units symbols_of",
        "running.stage": (
            "bound_stage interleave_units run_between run_bound run_clauses run_stage "
            "summarise without_segments"
        ),
        "running.streams": "units_of_tables",
        "sample": "Sample",
        "select": "Select",
        "shift": "Shift",
        "sort": "MergeSorted Sort",
        "structures": (
            "StructuredUnits UnitFacts last_bucket_of_front structure_all_as_one "
            "structure_by_bucket structure_by_row_slice structure_by_time_bucket"
        ),
        "tail": "Tail",
        "top_k": "PartialTopK TopK",
        "value_counts": "Shares ValueCounts",
        "verbs": "Verbs",
        "verbs.grouping": "GroupedQuery ResampledQuery",
        "verbs.windows": "EwmQuery RollingQuery",
    },
)

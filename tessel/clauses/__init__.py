"""Clauses and the pipeline: what a query is made of, how it is planned, how it runs on threads.

One clause is one file. Clauses know segments by their index (from ``store``) and data by their
units (from ``ecs``); they know nothing of Spark.
"""

from tessel.clauses.aggregation import (
    Aggregation,
    MergeAggregation,
    OrderGroups,
    PartialAggregation,
)
from tessel.clauses.apply import Apply
from tessel.clauses.apply_together import ApplyTogether
from tessel.clauses.base import Carry, Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.builder import QueryBuilder
from tessel.clauses.cast import Cast
from tessel.clauses.combining import AlignColumns, Combining, SubQuery, clauses_from_json
from tessel.clauses.concat import Concat
from tessel.clauses.cum_count import CumCount
from tessel.clauses.cum_max import CumMax
from tessel.clauses.cum_min import CumMin
from tessel.clauses.cum_sum import CumSum
from tessel.clauses.date_range import DateRange
from tessel.clauses.describe import Describe, TurnFigures
from tessel.clauses.diff import Diff
from tessel.clauses.distinct import Distinct, DistinctBucket, PartialDistinct
from tessel.clauses.drop import Drop
from tessel.clauses.ewm import Ewm
from tessel.clauses.explain import Explanation, explain_plan
from tessel.clauses.explode import Explode
from tessel.clauses.fill import Fill
from tessel.clauses.fill_buckets import FillBuckets
from tessel.clauses.filter import Filter
from tessel.clauses.head import Head
from tessel.clauses.index_values import with_times_of_index
from tessel.clauses.join import Join
from tessel.clauses.join_asof import JoinAsof
from tessel.clauses.joining.asof_steps import AsofInputs, BroadcastAsof, HashAsof, InOrder
from tessel.clauses.joining.broadcast import AppendUnmatched, BroadcastJoin
from tessel.clauses.joining.hashed import ExpandJoined, HashJoin, JoinPartition, OrderJoined
from tessel.clauses.joining.key_codes import KeyCodes
from tessel.clauses.known_rows import KnownRows
from tessel.clauses.last_of_sort import LastOfSort, PartialLastOfSort
from tessel.clauses.latest_at import LatestAt
from tessel.clauses.merge import Merge, MergeInputs
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.no_rows import NoRows
from tessel.clauses.partition import Partition
from tessel.clauses.pct_change import PctChange
from tessel.clauses.plan import (
    Catalog,
    Plan,
    Question,
    SourcePlan,
    Stage,
    answered,
    plugins_of,
)
from tessel.clauses.planner import plan_query, query_schema
from tessel.clauses.positional import Positional
from tessel.clauses.powers import (
    Appends,
    Asks,
    Broadcasts,
    Carries,
    Consumes,
    Expands,
    Interleaves,
    Joins,
    Limits,
    Narrows,
    Proves,
    Prunes,
    ReducesPieces,
)
from tessel.clauses.rank import Rank
from tessel.clauses.registry import clause_names, find_clause, register
from tessel.clauses.rename import Rename
from tessel.clauses.resample import PartialResample, Resample
from tessel.clauses.rolling import Rolling
from tessel.clauses.row_range import RowRange
from tessel.clauses.running.bound_unit import bound_unit
from tessel.clauses.running.carrying import Between, carries_between
from tessel.clauses.running.pieces import load_piece
from tessel.clauses.running.pipeline import (
    Executor,
    LocalExecutor,
    result_table,
    run_stages,
    run_units,
    symbols_of,
)
from tessel.clauses.running.stage import (
    bound_stage,
    interleave_units,
    run_between,
    run_bound,
    run_clauses,
    run_stage,
    summarise,
    without_segments,
)
from tessel.clauses.running.streams import units_of_tables
from tessel.clauses.sample import Sample
from tessel.clauses.select import Select
from tessel.clauses.shift import Shift
from tessel.clauses.sort import MergeSorted, Sort, SortUnits
from tessel.clauses.structures import (
    StructuredUnits,
    UnitFacts,
    structure_all_as_one,
    structure_by_bucket,
    structure_by_row_slice,
    structure_by_time_bucket,
)
from tessel.clauses.tail import Tail
from tessel.clauses.top_k import PartialTopK, TopK
from tessel.clauses.value_counts import Shares, ValueCounts
from tessel.clauses.verbs import EwmQuery, GroupedQuery, ResampledQuery, RollingQuery, Verbs

__all__ = [
    "Aggregation",
    "AlignColumns",
    "AppendUnmatched",
    "Appends",
    "Apply",
    "ApplyTogether",
    "Asks",
    "AsofInputs",
    "Between",
    "BroadcastAsof",
    "BroadcastJoin",
    "Broadcasts",
    "Carries",
    "Carry",
    "Cast",
    "Catalog",
    "Clause",
    "ClauseInfo",
    "Combining",
    "Concat",
    "Consumes",
    "CumCount",
    "CumMax",
    "CumMin",
    "CumSum",
    "DateRange",
    "Describe",
    "Diff",
    "Distinct",
    "DistinctBucket",
    "Drop",
    "Ewm",
    "EwmQuery",
    "Executor",
    "ExpandJoined",
    "Expands",
    "Explanation",
    "Explode",
    "Fill",
    "FillBuckets",
    "Filter",
    "GroupedQuery",
    "HashAsof",
    "HashJoin",
    "Head",
    "InOrder",
    "IndexEffect",
    "Interleaves",
    "Join",
    "JoinAsof",
    "JoinPartition",
    "Joins",
    "KeyCodes",
    "KnownRows",
    "LastOfSort",
    "LatestAt",
    "Limits",
    "LocalExecutor",
    "Merge",
    "MergeAggregation",
    "MergeInputs",
    "MergeSorted",
    "NamedAggregate",
    "Narrows",
    "NoRows",
    "OrderGroups",
    "OrderJoined",
    "PartialAggregation",
    "PartialDistinct",
    "PartialLastOfSort",
    "PartialResample",
    "PartialTopK",
    "Partition",
    "PctChange",
    "Plan",
    "Positional",
    "Proves",
    "Prunes",
    "QueryBuilder",
    "Question",
    "Rank",
    "ReducesPieces",
    "Rename",
    "Resample",
    "ResampledQuery",
    "Rolling",
    "RollingQuery",
    "RowRange",
    "Sample",
    "Select",
    "Shares",
    "Shift",
    "Sort",
    "SortUnits",
    "SourcePlan",
    "Stage",
    "Structure",
    "StructuredUnits",
    "SubQuery",
    "Tail",
    "TopK",
    "TurnFigures",
    "UnitFacts",
    "ValueCounts",
    "Verbs",
    "answered",
    "bound_stage",
    "bound_unit",
    "carries_between",
    "clause_names",
    "clauses_from_json",
    "explain_plan",
    "find_clause",
    "interleave_units",
    "load_piece",
    "plan_query",
    "plugins_of",
    "query_schema",
    "register",
    "result_table",
    "run_between",
    "run_bound",
    "run_clauses",
    "run_stage",
    "run_stages",
    "run_units",
    "structure_all_as_one",
    "structure_by_bucket",
    "structure_by_row_slice",
    "structure_by_time_bucket",
    "summarise",
    "symbols_of",
    "units_of_tables",
    "with_times_of_index",
    "without_segments",
]

"""From clauses and a catalog of symbols to a plan; no data is read."""

from __future__ import annotations

from collections.abc import Callable

from tessel.clauses.base import Clause, Structure
from tessel.clauses.combining import CombinedInput, Combining, PlanLimits, SubQuery
from tessel.clauses.plan import Catalog, Plan, SourcePlan, Stage, continued, cut_stages
from tessel.clauses.planner.draft import Draft
from tessel.clauses.planner.lower_aggregation import lower_aggregation
from tessel.clauses.planner.prune_columns import prune_columns, write_drop_as_select
from tessel.clauses.planner.push_to_source import push_to_source
from tessel.clauses.positional import Positional
from tessel.clauses.structures import structure_by_row_slice
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.options import Options, current
from tessel.store import SegmentIndex, SymbolView

__all__ = ["PASSES", "plan_query", "query_schema"]

PASSES: tuple[Callable[[Draft], Draft], ...] = (
    write_drop_as_select,
    push_to_source,
    prune_columns,
    lower_aggregation,
)
"""The passes on the clauses of one symbol, in the order in which they run."""

_PIECES_PER_WORKER = 4
_PAGE_ROWS = 1 << 16
"""No page of a segment has more rows, and those with fewer divide it: cuts never go through one."""

_LEAST_PIECE_ROWS = 4 * _PAGE_ROWS

_AFTER_COMBINING: tuple[Callable[[Draft], Draft], ...] = (write_drop_as_select, lower_aggregation)


def plan_query(
    catalog: Catalog, query: SubQuery, options: Options | None = None, slots: int | None = None
) -> Plan:
    """Plan a query.

    Parameters
    ----------
    catalog
        Where the symbols are found.
    query
        A symbol, a version, and the clauses to run.
    slots
        Tasks that the executor runs at a time; by default the workers of the options.

    Raises
    ------
    TesselError
        Of the class that fits, for everything that can be known to be wrong before data is read.
    """
    options = options or current()
    workers = slots or options.workers
    view = catalog.view(query.symbol, query.as_of)
    combining = [at for at, clause in enumerate(query.clauses) if _combines(clause)]
    try:
        if not combining:
            return _plan_symbol(view, query.clauses, workers, options)
        return _plan_combined(catalog, query, combining[-1], workers, options)
    except TesselError as error:
        error.with_context(symbol=f"{query.symbol!r} (version {view.version})")
        raise


def query_schema(catalog: Catalog, query: SubQuery) -> TableSchema:
    """Return the schema of a query's result, also over several symbols; only metadata are read."""
    schema = catalog.view(query.symbol, query.as_of).schema
    for clause in query.clauses:
        if isinstance(clause, Combining) and _combines(clause):
            others = [query_schema(catalog, other) for other in clause.others]
            schema = clause.combined_schema([schema, *others])
        else:
            schema = clause.output_schema(schema)
    return schema


def _plan_symbol(
    view: SymbolView, clauses: tuple[Clause, ...], workers: int, options: Options
) -> Plan:
    index = view.index()
    draft = Draft(
        view.schema,
        clauses,
        bytes=int(index.bytes.sum()),
        workers=workers,
        bucket_bytes=options.hash_bucket_bytes,
    )
    schema = draft.schemas()[-1]
    for run_pass in PASSES:
        draft = run_pass(draft)
    for clause in draft.pruning:
        index = clause.cut(index) if isinstance(clause, Positional) else clause.prune(index)  # type: ignore[attr-defined]
    if draft.columns is not None:
        index = index.keep_columns(draft.columns, clause="columns", reason="no clause reads them")
    stages = cut_stages(draft.clauses, index.schema)
    index = _in_pieces(index, stages, workers)
    first = stages[0].clauses
    structured = first[0].structure_units(index) if first else structure_by_row_slice(index)
    absorbed = tuple(clause for clause in draft.pruning if isinstance(clause, Positional))
    source = SourcePlan(view, structured.index, structured.units, absorbed)
    return Plan((source,), stages, schema)


def _in_pieces(index: SegmentIndex, stages: tuple[Stage, ...], workers: int) -> SegmentIndex:
    """Cut long segments into pieces, so that a few of them keep all workers busy.

    Not before time buckets, which are grouped by first and last times that never go back: of the
    pieces of a segment it is known only that they lie somewhere within its times.
    """
    if any(stage.input is Structure.TIME_BUCKETED for stage in stages):
        return index
    aim = -(-index.row_count // (_PIECES_PER_WORKER * workers))
    rows = max(_LEAST_PIECE_ROWS, -(-aim // _PAGE_ROWS) * _PAGE_ROWS)
    return index.split(rows)


def _combines(clause: Clause) -> bool:
    return isinstance(clause, Combining) and clause.structure.input is Structure.MULTI_SYMBOL


def _plan_combined(
    catalog: Catalog, query: SubQuery, at: int, workers: int, options: Options
) -> Plan:
    """Plan the last clause over several symbols; what stands before it is its first input."""
    clause = query.clauses[at]
    assert isinstance(clause, Combining)
    parts = [SubQuery(query.symbol, query.as_of, query.clauses[:at]), *clause.others]
    plans = [plan_query(catalog, part, options, workers) for part in parts]
    combined = clause.combined_schema([plan.schema for plan in plans])
    draft = Draft(
        combined,
        query.clauses[at + 1 :],
        bytes=sum(map(_bytes, plans)),
        workers=workers,
        bucket_bytes=options.hash_bucket_bytes,
    )
    schema = draft.schemas()[-1]
    for run_pass in _AFTER_COMBINING:
        draft = run_pass(draft)
    inputs = [
        CombinedInput(part.symbol, plan.schema, _bytes(plan))
        for part, plan in zip(parts, plans, strict=True)
    ]
    limits = PlanLimits(workers, options.live_bytes, options.hash_bucket_bytes)
    lowered = clause.lowered(inputs, combined, limits)
    for at, first in enumerate(lowered.before):
        plans[at] = continued(plans[at], first)
    stages = cut_stages((*lowered.steps, *draft.clauses), combined)
    return Plan(tuple(plans), stages, schema)


def _bytes(plan: Plan | SourcePlan) -> int:
    if isinstance(plan, SourcePlan):
        return int(plan.index.bytes.sum())
    return sum(map(_bytes, plan.inputs))

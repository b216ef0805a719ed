"""From clauses and a catalog of symbols to a plan; no data is read."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tessel.clauses.apply_together import together
from tessel.clauses.base import Clause, Structure
from tessel.clauses.combining import (
    MOST_UNITS,
    CombinedInput,
    Combining,
    PlanLimits,
    SubQuery,
    check_count,
)
from tessel.clauses.filter import Filter
from tessel.clauses.positional import Positional
from tessel.errors.root import naming
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import Options, current
from tessel.pipeline.plan import (
    Catalog,
    Change,
    Plan,
    Question,
    SourcePlan,
    SourceUnits,
    continued,
    cut_stages,
)
from tessel.pipeline.planner.desugar import desugar
from tessel.pipeline.planner.draft import Draft, Input
from tessel.pipeline.planner.fold_constants import fold_constants
from tessel.pipeline.planner.fuse_time_buckets import first_units, fused_stages
from tessel.pipeline.planner.index_predicates import index_predicates
from tessel.pipeline.planner.lower_order import lower_order, take_codes
from tessel.pipeline.planner.pick_tasks import pick_tasks
from tessel.pipeline.planner.plan_cache import cached_plan
from tessel.pipeline.planner.prune_columns import prune_columns
from tessel.pipeline.planner.pushdown import push_into_inputs, push_left, push_to_source
from tessel.pipeline.planner.questions import asks_for_origin, plan_question
from tessel.pipeline.planner.simplify import merge_filters, simplify_sorts, stop_early
from tessel.store.view import SymbolView

Pass = Callable[[Draft], Draft]

_BUCKETS_IN_BUDGET = 32
_LEAST_BUCKET_BYTES = 64 * 1024
"""A hash bucket is so small a part of the byte budget: several are worked on at a time."""


def _of(clauses: str, name: str, module: str) -> Pass:
    """Return a pass that is imported for drafts that have a clause of one of these names."""

    def run(draft: Draft) -> Draft:
        if draft.has(*clauses.split()):
            draft = getattr(importlib.import_module(f"{__package__}.{module}"), name)(draft)
        return draft

    run.__name__ = name
    return run


_GROUPS = "partition aggregation resample"
_compute_columns = _of(f"{_GROUPS} rolling ewm", "compute_columns", "compute_columns")
_lower_aggregation = _of(_GROUPS, "lower_aggregation", "lower_aggregation")

PASSES: tuple[Pass, ...] = (
    desugar,
    _compute_columns,
    fold_constants,
    index_predicates,
    _of("resample", "range_before_resample", "resample_range"),
    push_left,
    push_into_inputs,
    merge_filters,
    simplify_sorts,
    stop_early,
    push_to_source,
    _of("aggregation resample", "count_rows", "answer_from_statistics"),
    prune_columns,
    _lower_aggregation,
    lower_order,
    take_codes,
    _of("partial_aggregation", "answer_from_statistics", "answer_from_statistics"),
    pick_tasks,
)
"""The passes, in the order in which they run."""

REQUIRED: frozenset[Pass] = frozenset((desugar, _compute_columns, _lower_aggregation))
"""Those without which a query does not run; all others only make it cheaper."""


def plan_query(
    catalog: Catalog,
    query: SubQuery,
    *,
    slots: int | None = None,
    passes: tuple[Pass, ...] = PASSES,
    gathered_bytes: int | None = None,
) -> Plan:
    """Plan a query.

    Raises TesselError, of the class that fits, for everything that can be known to be wrong before
    data is read.

    Parameters
    ----------
    query
        A symbol, a version, and the clauses to run.
    slots
        Tasks that the executor runs at a time; by default the workers of the options.
    passes
        What rewrites the query, in order; tests leave some out.
    gathered_bytes
        The most bytes that the executor brings to one place; None where memory has its budget.
    """
    check_count(len(query.clauses))
    options = current()
    slots = slots or options.workers
    return _Planner(catalog, options, slots, passes, gathered_bytes).plan(query)


_Steps = dict[tuple[int, int], tuple[Clause, TableSchema, TableSchema]]
"""From a clause and the schema before it, by their ids, to both and the schema after it."""


def query_schema(catalog: Catalog, query: SubQuery, known: _Steps | None = None) -> TableSchema:
    """Return the schema of a query's result, also over several symbols; only metadata are read.

    Steps that are ``known`` are not taken again, those that are taken are added: each clause over
    several symbols asks for all that stands before it.
    """
    check_count(len(query.clauses))
    known = {} if known is None else known
    schema = catalog.view(query.symbol, query.as_of).schema
    combines = any(map(_combines, query.clauses))  # whose steps are known by each clause
    for clause in query.clauses if combines else together(query.clauses):
        step = id(clause), id(schema)
        if step not in known:
            if isinstance(clause, Combining) and _combines(clause):
                others = [query_schema(catalog, other, known) for other in clause.others]
                after = clause.combined_schema([schema, *others])
            else:
                after = clause.output_schema(schema)
            known[step] = clause, schema, after
        schema = known[step][-1]
    return schema


@dataclass(frozen=True, eq=False)
class _Planner:
    """One query on its way to a plan. Every symbol is looked up once."""

    catalog: Catalog
    options: Options
    workers: int
    passes: tuple[Pass, ...]
    gathered_bytes: int | None
    views: dict[tuple[str, int | str | None], SymbolView] = dataclasses.field(default_factory=dict)
    known: _Steps = dataclasses.field(default_factory=dict)

    def view(self, symbol: str, as_of: int | str | None) -> SymbolView:
        """Return a symbol at a version, as the catalog gives it."""
        key = (symbol, as_of)
        if key not in self.views:
            self.views[key] = self.catalog.view(symbol, as_of)
        return self.views[key]

    def plan(self, query: SubQuery) -> Plan:
        """Plan a query, which may be the input of another."""
        places = range(len(query.clauses))
        asking = next((at for at in places if asks_for_origin(query.clauses[at])), None)
        combining = next((at for at in reversed(places) if _combines(query.clauses[at])), None)
        view = self.view(query.symbol, query.as_of)
        asks = asking is not None or combining is not None

        def found() -> Mapping[tuple[str, int | str | None], SymbolView]:
            return self.views if asks else {(query.symbol, query.as_of): view}

        def make() -> Plan:
            if asking is not None:
                before = dataclasses.replace(query, clauses=query.clauses[:asking])
                schema = query_schema(self, before, self.known)
                return plan_question(query, asking, schema, self.plan)
            if combining is not None:
                return self._combined(query, combining)
            return self._one_symbol(view, query.clauses)

        with naming(symbol=f"{query.symbol!r} (version {view.version})"):
            if self.passes is not PASSES:
                return make()
            options = self.options, self.workers, self.gathered_bytes
            return cached_plan(query, options, self.view, found, make, asks=asks)

    def _draft(self, schema: TableSchema, clauses: tuple[Clause, ...], **more: Any) -> Draft:
        """Return the draft of clauses, with what the options and the executor say."""
        most = max(self.options.live_bytes // _BUCKETS_IN_BUDGET, _LEAST_BUCKET_BYTES)
        return Draft(
            schema,
            together(clauses),
            workers=self.workers,
            bucket_bytes=min(self.options.hash_bucket_bytes, most),
            live_bytes=self.options.live_bytes,
            gathered_bytes=self.gathered_bytes,
            **more,
        )

    def _one_symbol(
        self,
        view: SymbolView,
        clauses: tuple[Clause, ...],
        high_cardinality: tuple[str, ...] | None = None,
    ) -> Plan:
        index = view.index()
        draft = self._draft(
            view.schema,
            clauses,
            index=index,
            bytes=int(index.bytes.sum()),
            high_cardinality=high_cardinality or (),
        )
        schema = draft.schemas()[-1]
        draft, changes = self._rewritten(draft)
        assert draft.index is not None
        hint = None
        if high_cardinality is None and draft.has("partial_aggregation", "partial_distinct"):
            from tessel.pipeline.planner.group_cardinality import cardinality_hint

            high, hint = cardinality_hint(
                draft,
                index,
                lambda sample: self._one_symbol(view, sample, ()),
                lambda keys: self._one_symbol(view, clauses, keys),
            )
            if high:
                return self._one_symbol(view, clauses, high)
        stages = fused_stages(draft.clauses, draft.index.schema)
        structured = first_units(stages[0], draft.index)
        absorbed = tuple(clause for clause in draft.pruning if isinstance(clause, Positional))
        source = SourcePlan(view, SourceUnits(structured.index, structured.units, absorbed))
        return Plan((source,), stages, schema, changes, hint)

    def _combined(self, query: SubQuery, at: int) -> Plan:
        """Plan the last clause over several symbols; what stands before it is its first input."""
        from tessel.clauses.joining.hashed import HashJoin
        from tessel.pipeline.planner.plan_join import PlannedJoin
        from tessel.pipeline.planner.text_codes import codes_taken, with_key_codes

        clause, inputs = self._inputs(query, at)
        parts = [each.query for each in inputs]
        draft = self._draft(
            clause.combined_schema([each.schema for each in inputs]),
            query.clauses[at + 1 :],
            combining=clause,
            inputs=inputs,
            bytes=sum(int(self.view(p.symbol, p.as_of).index().bytes.sum()) for p in parts),
        )
        schema, whole = draft.schemas()[-1], draft
        draft, changes = self._rewritten(draft)
        limits = PlanLimits(
            self.workers,
            self.options.live_bytes,
            draft.bucket_bytes,
            codes_taken(draft.clauses, draft.schema),
            self.gathered_bytes is None,
        )

        def found(plans: Sequence[Plan]) -> list[CombinedInput]:
            return [
                CombinedInput(
                    part.symbol,
                    plan.schema,
                    plan.bytes,
                    MOST_UNITS * (1 + sum(type(each) is HashJoin for each in plan.clauses)),
                    tuple(source.index for source in plan.sources),
                )
                for part, plan in zip(parts, plans, strict=True)
            ]

        def over(plans: Sequence[Plan], question: Question | None = None) -> Plan:
            """Return the plan on inputs that are planned."""
            own = list(plans)
            lowered = clause.lowered(found(own), draft.schema, limits)
            for number, first in enumerate(lowered.before):
                own[number] = continued(own[number], first)
            for number, names in enumerate(lowered.coded):
                own[number] = with_key_codes(own[number], names)
            stages = cut_stages((*lowered.steps, *draft.clauses), draft.schema)
            return Plan(
                tuple(reversed(own) if lowered.turned else own), stages, schema, changes, question
            )

        def narrowed(number: int, keys: Filter | None) -> Plan:
            """Return the plan with a filter behind one of the inputs."""
            if keys is None:
                return over(plans)
            other = self.plan(draft.inputs[number].then(keys).query)
            return over([*plans[:number], other, *plans[number + 1 :]])

        def replaced(clauses: Sequence[Clause]) -> Plan:
            """Return the plan of clauses on the first input in place of the combining one."""
            first = written.inputs[0].query
            clauses = (*first.clauses, *clauses, *written.clauses)
            return self.plan(dataclasses.replace(first, clauses=clauses))

        # What the passes made of the query before they lowered it and left columns out.
        pushed = (each.after for each in changes if each.name == push_into_inputs.__name__)
        written = next(pushed, whole)
        plans = [self.plan(each.query) for each in draft.inputs]
        join = PlannedJoin(
            clause,
            [each.schema for each in written.inputs],
            draft.inputs,
            plans,
            found(plans),
            limits,
            self.plan,
            narrowed,
            replaced,
        )
        return over(plans, join.question())

    def _inputs(self, query: SubQuery, at: int) -> tuple[Combining, tuple[Input, ...]]:
        """Return a clause over several symbols, joined to those before it, and its inputs.

        Clauses stay two where that changes a type: of int16 and uint16, then float32, the common
        type is float64, of all three it is float32.
        """
        clause = query.clauses[at]
        assert isinstance(clause, Combining)
        joined, start = clause, at
        while start and (longer := joined.joined_to(query.clauses[start - 1])) is not None:
            joined, start = longer, start - 1
        if start < at:
            whole = dataclasses.replace(query, clauses=query.clauses[: at + 1])
            schema, inputs = (
                query_schema(self, whole, self.known),
                self._parts(query, start, joined),
            )
            if joined.combined_schema([each.schema for each in inputs]) == schema:
                return joined, inputs
        return clause, self._parts(query, at, clause)

    def _parts(self, query: SubQuery, at: int, clause: Combining) -> tuple[Input, ...]:
        """Return what stands before a clause over several symbols, and its other inputs."""
        first = dataclasses.replace(query, clauses=query.clauses[:at])
        parts = (first, *clause.others)
        return tuple(Input(part, query_schema(self, part, self.known)) for part in parts)

    def _rewritten(self, draft: Draft) -> tuple[Draft, tuple[Change, ...]]:
        """Run the passes, and note what each was given and gave."""
        changes: list[Change] = []
        for run_pass in self.passes:
            before, draft = draft, run_pass(draft)
            changes.append(Change(run_pass.__name__, before, draft))
        return draft, tuple(changes)


def _combines(clause: Clause) -> bool:
    return isinstance(clause, Combining) and clause.structure.input is Structure.MULTI_SYMBOL

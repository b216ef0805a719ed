"""The pipeline on threads: units in, stages and barriers, units out in plan order.

Between stages units are entities of a component manager: what a stage leaves is pushed, the next
clause groups it by its facts, and each new unit gathers what it was given. Where a clause takes a
stream (``consume``), or only needs row slices one by one, nothing is held back.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import concat_tables
from tessel.clauses.base import Clause, Structure
from tessel.clauses.capabilities import Broadcasts, Expands, Interleaves, has_capability
from tessel.clauses.positional import Positional
from tessel.clauses.spill.local_pool import LocalPool, Task
from tessel.clauses.spill.workspace import Workspace
from tessel.ecs import ComponentManager, ProcessingUnit
from tessel.errors.root import naming
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import Options, current
from tessel.pipeline.plan import Intake, Plan, SourcePlan, Stage, answered, plugins_of
from tessel.pipeline.scan import scan_units
from tessel.pipeline.source_loader import SourceLoader
from tessel.pipeline.stage import (
    bound_stage,
    consume_parts,
    consume_units,
    interleave_units,
    renumbered_units,
    run_stage,
    stages_of_parts,
)

_Counted = tuple[ProcessingUnit, list[tuple[Stage, int]]]
"""A unit, and what makes its output part by part, with the bytes of each."""


class Executor(Protocol):
    """Something that runs plans: the local pool, or Spark.

    One that brings partial results to one place, whatever the memory there, says with an attribute
    ``gathered_bytes`` how many bytes that may be. One whose ``run`` brings the result to this
    process at once has a ``stream``, which gives the same and brings little at a time.
    """

    name: str

    @property
    def slots(self) -> int:
        """Tasks that run at a time; the planner packs work for them."""

    def run(self, plan: Plan) -> Iterator[pa.Table]:
        """Run a plan; give the parts of the result in order, each of the plan's schema."""


class LocalExecutor:
    """Runs plans in this process on a thread pool.

    Parameters
    ----------
    options
        Workers and byte budgets; by default those in force when the query starts.
    """

    name = "local"

    def __init__(self, options: Options | None = None) -> None:
        self._options = options

    @property
    def slots(self) -> int:
        """Workers of the pool."""
        return (self._options or current()).workers

    def run(self, plan: Plan) -> Iterator[pa.Table]:
        """Run a plan; give the parts of the result in order.

        Closing the iterator stops the query and leaves nothing behind.
        """
        options = self._options or current()
        asked, plan = plan, answered(plan, self.run)
        telemetry.emit("query.run", plan=plan)
        with (
            _running(options, plan.clauses, joins_units=not plugins_of(plan)) as run,
            naming(symbol=lambda: symbols_of(asked)),
        ):
            run.last = plan.stages[-1] if asked.is_collected else None
            for unit in run.units(plan):
                table = unit.table
                if table.num_rows:
                    yield table


def result_table(parts: Iterator[pa.Table], schema: TableSchema) -> pa.Table:
    """Return the parts of a result as one table, also where there are none."""
    tables = list(parts)
    return concat_tables(tables) if tables else schema.empty()


def table_as_read(units: Sequence[ProcessingUnit], schema: TableSchema) -> pa.Table:
    """Return units as one table: text is codes where it was read so in one of them."""
    tables = [unit.table_as_read for unit in units]
    if len({table.schema for table in tables}) < 2:
        return concat_tables(tables) if tables else schema.empty()
    columns: list[pa.ChunkedArray] = []
    for name, kind in zip(schema.names, schema.arrow.types, strict=True):
        chunks = [chunk for table in tables for chunk in table.column(name).chunks]
        if any(chunk.type != kind for chunk in chunks):
            chunks = [c.dictionary_encode() if c.type == kind else c for c in chunks]
        columns.append(pa.chunked_array(chunks, chunks[0].type if chunks else kind))
    return pa.table(columns, names=schema.names)


def symbols_of(plan: Plan) -> str:
    """Name what a plan reads, for errors of stages that see several symbols as one."""
    names = (f"{each.view.name!r} (version {each.view.version})" for each in plan.sources)
    return ", ".join(dict.fromkeys(names))


def run_stages(
    stages: Sequence[Stage], units: Iterator[ProcessingUnit]
) -> Iterator[ProcessingUnit]:
    """Run stages on units that are here already; the last steps of another executor's query."""
    clauses = (clause for stage in stages for clause in stage.clauses)
    with _running(current(), clauses, joins_units=False) as run:
        yield from run.stages(stages, units)


def run_units(plan: Plan) -> Iterator[ProcessingUnit]:
    """Run a plan here whose units another executor wants; errors lack the symbols of its query."""
    with _running(current(), plan.clauses, joins_units=False) as run:
        yield from run.units(plan)


def units_to_read(source: SourcePlan, stage: Stage) -> SourcePlan:
    """Return a source with the units in which the first stage reads it."""
    if stage.input is Structure.ALL and stage.clauses[0].structure.whole:
        # It may be given everything in parts: then not all of it is read at once either.
        return SourcePlan(source.view, source.read.by_row_slice)
    return source


_numbers = itertools.count()


def _told(
    name: str, units: Iterator[ProcessingUnit], total: int, source: SourcePlan | None = None
) -> Iterator[ProcessingUnit]:
    """Give units, and tell how many of those of a step there were; those of a source by rows.

    A unit may stand for others behind it, until the next one comes.
    """
    if not telemetry.is_watched():
        yield from units
        return
    of = next(_numbers)
    rows = size = np.zeros(total + 1, np.int64)
    if source is not None:
        rows, size = (
            np.append(0, np.cumsum(each)) for each in (source.read.rows, source.read.nbytes)
        )

    def tell(done: int) -> None:
        facts = {"rows": int(rows[done]), "bytes": int(size[done])}
        telemetry.emit(name, of=of, done=done, total=total, **facts)

    tell(0)
    for unit in units:
        tell(min(unit.ordinal + 1, total))
        yield unit
    tell(total)


@contextlib.contextmanager
def _running(options: Options, clauses: Iterable[Clause], *, joins_units: bool) -> Iterator[_Run]:
    # Threads end before the files close that they may be reading.
    with (
        ComponentManager() as manager,
        Workspace(options) as workspace,
        LocalPool(options, workspace.account) as pool,
    ):
        workspace.pool = pool
        yield _Run(
            manager,
            pool,
            workspace,
            options.inline_bytes,
            joins_units,
            stops_early=any(isinstance(clause, Positional) for clause in clauses),
        )


@dataclass
class _Run:
    """One execution of a plan.

    Attributes
    ----------
    inline_bytes
        Less than this is not worth a task of its own.
    joins_units
        Whether small units may be one: no answer of our own clauses depends on how many there are,
        but a clause of somebody else's may look.
    stops_early
        Whether a clause may have its rows before all units are read.
    last
        The stage of which what it holds is the result.
    """

    manager: ComponentManager
    pool: LocalPool
    workspace: Workspace
    inline_bytes: int
    joins_units: bool
    stops_early: bool
    last: Stage | None = None

    def units(self, plan: Plan, symbol: int = 0) -> Iterator[ProcessingUnit]:
        first, *rest = plan.stages
        if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            units = self._scan(plan.inputs[0], first, symbol)
        elif has_capability(first.clauses[0], Broadcasts):
            return self._broadcast(plan)
        elif has_capability(first.clauses[0], Interleaves):
            units = interleave_units(first, self._inputs(plan))
        else:
            units = self._next_stage(first, renumbered_units(self._inputs(plan)))
        return self.stages(rest, units)

    def stages(
        self, stages: Sequence[Stage], units: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        """Run stages, one after another, on the units of the stage before."""
        for stage in stages:
            units = self._next_stage(stage, units)
        return units

    def _broadcast(self, plan: Plan) -> Iterator[ProcessingUnit]:
        """Read all symbols but the first whole, then let the stages take units of the first."""
        units, *others = self._inputs(plan)
        tables = [
            table_as_read(list(each), part.schema)
            for each, part in zip(others, plan.inputs[1:], strict=True)
        ]
        held = sum(table.nbytes for table in tables)
        self.workspace.account.add(held)
        try:
            first, *rest = (bound_stage(stage, tables) for stage in plan.stages)
            scanned = self._scanned_by(first, plan.inputs[0])
            yield from self.stages(rest, scanned or self._one_by_one(first, units))
        finally:
            self.workspace.account.add(-held)

    def _scanned_by(self, stage: Stage, part: SourcePlan | Plan) -> Iterator[ProcessingUnit] | None:
        """Let a step that holds the other symbols probe in the scan of the first, or return None.

        So units come to it before they are read, and of rows without a match its keys alone are.
        Not from a store that is far, where that is one more round trip a unit.
        """
        assert isinstance(part, Plan)
        (source, *others), (scan, *more) = part.inputs, part.stages
        join, *following = stage.clauses
        if others or more or not isinstance(source, SourcePlan) or has_capability(join, Expands):
            return None
        if scan.is_read_apart or scan.output is not Structure.ROW_SLICE:
            return None
        if source.segments().is_far:
            return None
        probing = Stage((*scan.clauses, join), (*scan.schemas, stage.schemas[1]))
        units = self._scan(source, probing, 0)
        return self._one_by_one(stage.after(1), units) if following else units

    def _inputs(self, plan: Plan) -> list[Iterator[ProcessingUnit]]:
        """Return the units of each symbol; nothing runs before the first is asked for."""
        inputs = []
        for symbol, part in enumerate(plan.inputs):
            assert isinstance(part, Plan)  # a symbol alone is planned as a Plan with one source
            inputs.append(self.units(part, symbol))
        return inputs

    # --- the first stage: from segments -----------------------------------------------------------

    def _scan(self, source: SourcePlan, stage: Stage, symbol: int) -> Iterator[ProcessingUnit]:
        source = units_to_read(source, stage)
        loader = SourceLoader(self.manager, source, symbol)
        telemetry.emit("stage.start", units=len(source.units), symbol=source.view.name)
        first = Stage((), stage.schemas[:1]) if stage.is_read_apart else stage
        units = scan_units(
            loader,
            first,
            self.pool.far() if loader.is_far and not self.stops_early else self.pool,
            self.workspace.account.limit,
            joins_units=self.joins_units,
            wants_all=self.last is not None and not self.stops_early,
        )
        units = _told("scan.unit", units, len(source.units), source)
        yield from units if first is stage else self._next_stage(stage, units)

    # --- later stages: from units -----------------------------------------------------------------

    def _next_stage(
        self, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        match stage.intake:
            case Intake.CARRIED:
                from tessel.pipeline.carrying import carried_units

                return carried_units(stage, before, self.pool, self.workspace)
            case Intake.ONE_BY_ONE:
                return self._one_by_one(stage, before)
            case Intake.STREAM:
                return self._consumed(stage, before)
            case Intake.GROUPED:
                return self._regrouped(stage.clauses[0], stage, before)

    def _one_by_one(
        self, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        if stage.clauses and has_capability(stage.clauses[0], Expands):
            return self._in_parts(stage, before)

        def task(unit: ProcessingUnit) -> Task[ProcessingUnit]:
            return Task(lambda: run_stage(stage, unit), unit.nbytes)

        return self.pool.map(task(unit) for unit in before)

    def _in_parts(self, stage: Stage, before: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
        """Let a clause that may make many rows of few give them some at a time, each a unit."""

        def counted(unit: ProcessingUnit) -> Task[_Counted]:
            return Task(lambda: (unit, stages_of_parts(stage, unit)), unit.nbytes)

        ordinals = itertools.count()
        return self.pool.map(
            _part(next(ordinals), of, unit, size)
            for unit, parts in self.pool.map(counted(unit) for unit in before)
            for of, size in parts
        )

    def _buckets_in_parts(
        self, counted: Iterator[_Counted | ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        """Give the output of buckets, each done already or to be made some rows at a time."""
        ordinals = itertools.count()
        for found in counted:
            if isinstance(found, ProcessingUnit):
                yield ProcessingUnit(next(ordinals), found.schema, found.pieces)
                continue
            unit, parts = found
            self.workspace.account.add(unit.nbytes)
            try:
                yield from self.pool.map(
                    _part(next(ordinals), of, unit, size) for of, size in parts
                )
            finally:
                self.workspace.account.add(-unit.nbytes)

    def _consumed(self, stage: Stage, before: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
        try:
            stream = self.workspace.stream(before, is_result=stage is self.last)
            yield from consume_units(stage, stream)
        finally:
            getattr(before, "close", lambda: None)()

    def _regrouped(
        self, clause: Clause, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        from tessel.pipeline.barrier import Barrier

        schema = stage.schemas[0]
        with Barrier(self.manager, self.workspace, joins_pieces=self.joins_units) as barrier:
            for unit in before:
                barrier.push(unit)
            barrier.complete()
            groups = clause.restructure(barrier.facts, schema)
            if not groups and stage.input is Structure.ALL:
                groups = [[]]  # a clause over everything also answers for nothing
            may_be_one = self.joins_units and stage.joins_buckets
            if may_be_one and barrier.nbytes < self.inline_bytes:
                groups = [list(range(len(barrier.facts)))] if groups else []
            barrier.expect(groups)
            telemetry.emit("barrier", units=len(groups), pieces=len(barrier.facts))

            def task(ordinal: int, group: Sequence[int]) -> Task[ProcessingUnit]:
                def run() -> ProcessingUnit:
                    unit = ProcessingUnit(ordinal, schema, barrier.gather(group))
                    return run_stage(stage, unit)

                def run_in_parts() -> ProcessingUnit:
                    parts = self.workspace.stream(barrier.parts(group, ordinal, schema))
                    return consume_parts(stage, ordinal, barrier.facts[group[0]].bucket, parts)

                if clause.structure.whole and barrier.is_too_much(group):
                    return Task(run_in_parts, 0, is_large=True)
                return Task(run, barrier.hand_over(group))

            def counted(ordinal: int, group: Sequence[int]) -> Task[_Counted | ProcessingUnit]:
                def run() -> _Counted | ProcessingUnit:
                    unit = ProcessingUnit(ordinal, schema, barrier.gather(group))
                    parts = stages_of_parts(stage, unit)
                    if len(parts) == 1 and parts[0][1] <= unit.nbytes:
                        return run_stage(parts[0][0], unit)  # it makes no more than it got
                    return unit, parts

                return Task(run, barrier.hand_over(group))

            numbered = enumerate(groups)
            if has_capability(clause, Expands):
                tasks = itertools.starmap(counted, numbered)
                yield from self._buckets_in_parts(self.pool.map(tasks))
            else:
                made = self.pool.map(itertools.starmap(task, numbered))
                yield from _told("stage.unit", made, len(groups))


def _part(ordinal: int, of: Stage, unit: ProcessingUnit, size: int) -> Task[ProcessingUnit]:
    """Return the task that makes one part of the output of a unit."""
    renumbered = ProcessingUnit(ordinal, unit.schema, unit.pieces)
    return Task(lambda: run_stage(of, renumbered), size)

"""Runs plans as Spark jobs: the same stage functions, other barriers.

| before a stage that needs | what Spark does |
|---|---|
| row slices, or several symbols | nothing: the stage joins the tasks before it |
| hash buckets | an exact shuffle by bucket |
| time buckets, or a grouping of its own | the facts of all parts are collected, the clause groups them here, each part is sent to the units that want it |
| everything, reduced already | the parts are collected and the stage runs here |
| a range of positions | rows are counted, then only what is kept is computed; a limit from the front takes units in growing rounds and stops |
| everything | one task gets all parts, in order |
| what is carried from unit to unit | a job summarises the units, what lies around each is combined here and sent along with it |
| several symbols, some behind barriers | units are numbered anew, in tasks, and their rows put together; those that are here are sent out, where they are few |
| everything, of which rows pass and others are added | a job notes what each unit has used; rows pass in tasks, what is added is sent out to them |
| several symbols in turn | as with a grouping of its own, where it has one; otherwise the stage runs here, on units that are computed some at a time |

Errors are those that the local pool raises: of the earliest stage that failed, and of its earliest
unit; none of units that a limit would not have asked for.
"""  # noqa: E501  # a table

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel import display, telemetry
from tessel.clauses import (
    Appends,
    Between,
    Broadcasts,
    Clause,
    HashAsof,
    HashJoin,
    Interleaves,
    Limits,
    Partition,
    Plan,
    SourcePlan,
    Stage,
    Structure,
    answered,
    bound_stage,
    carries_between,
    interleave_units,
    result_table,
    run_stages,
    run_units,
    symbols_of,
    units_of_tables,
)
from tessel.ecs import ProcessingUnit
from tessel.errors import InvalidInputError, StoreNotVisibleError, TesselError
from tessel.spark_exec.chains import Given, given_tables
from tessel.spark_exec.errors_wire import ERROR_ROWS, raise_error_rows
from tessel.spark_exec.flows import (
    DriverFlow,
    Flow,
    FrameFlow,
    NarrowFlow,
    TaskFlow,
    UnionFlow,
    UnitTask,
    barriers_of,
)
from tessel.spark_exec.jobs import Jobs, slots_of_session
from tessel.spark_exec.parts import place_of_unit, rows_by_unit, sent_parts, unit_of_rows
from tessel.spark_exec.placement import MOST_ROWS_IN_ROUNDS, is_read_here, placement_table
from tessel.spark_exec.plugins import packed_plugins, plugins_of
from tessel.spark_exec.runtime import spark_session
from tessel.spark_exec.tasks import (
    count_task,
    facts_task,
    later_errors_task,
    marker_task,
    reduce_task,
    route_task,
    rows_task,
    source_task,
)
from tessel.spark_exec.unions import placed_one_after_another, rows_of_units
from tessel.spark_exec.wire import MAX_BLOB_BYTES, WireRow, sequence
from tessel.store import address_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkExecutor"]

_TASKS_PER_SLOT = 3
_TASK_BYTES = 4 * 1024 * 1024
"""A slot gets one task of less than this: a task has a price."""
_ROUND_GROWTH = 4
_PARTITION_BYTES = 64 * 1024 * 1024
_MOST_SENT_BYTES = 16 * 1024 * 1024
"""Units that are in the driver are sent to tasks where they are no more."""


class SparkExecutor:
    """Runs queries as Spark jobs: ``store.read(symbol, query=q, executor=SparkExecutor())``.

    It may run several queries at once, from several threads.

    Parameters
    ----------
    session
        A session of yours, used as it is. By default the one that exists, else one of our own.
    master
        For a session of our own: ``local[2]``, ``spark://host:port``, ``sc://host:port``.
    max_blob_bytes
        Aimed-for bound of what travels in one row between tasks.
    """

    name = "spark"
    gathered_bytes = _PARTITION_BYTES
    """States of groups that hold all values are brought to the driver up to so many bytes; more of
    them go through a shuffle."""

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        max_blob_bytes: int = MAX_BLOB_BYTES,
    ) -> None:
        if max_blob_bytes < 1:
            raise InvalidInputError(f"max_blob_bytes is at least 1, not {max_blob_bytes}")
        self._session = session if session is not None else spark_session(master)
        self._blob_bytes = max_blob_bytes

    @property
    def slots(self) -> int:
        """Tasks that run at a time, as far as Spark tells."""
        return slots_of_session(self._session)

    def explained(self, plan: Plan) -> display.Table:
        """Return where the stages of a plan would run: in tasks, or here."""
        return placement_table(plan)

    def run(self, plan: Plan) -> Iterator[pa.Table]:
        """Run a plan as Spark jobs; give the parts of the result in order.

        Raises
        ------
        StoreNotVisibleError
            For a store that workers cannot open; for one in memory before any job starts.
        StoreAccessError
            Before any job starts, for a store that was opened with ``credentials=``: they are not
            sent to workers, which use what their own environment offers.
        TesselError
            What the local pool would raise; SparkError for failures of Spark itself.
        """
        plan = answered(plan, self.run, hints=False)  # a job costs more than it tells
        address = _visible_address(plan)
        plugins = packed_plugins(plugins_of(plan))
        with Jobs(self._session) as jobs:
            run = _Run(jobs, address, self.slots, plugins, self._blob_bytes)
            try:
                for unit in run.units(run.flow(plan)):
                    if unit.num_rows:
                        yield unit.table
            except TesselError as error:
                error.with_context(symbol=symbols_of(plan))
                raise


class _Run:
    """One execution of a plan."""

    def __init__(
        self, jobs: Jobs, address: str, slots: int, plugins: bytes, blob_bytes: int
    ) -> None:
        self._jobs = jobs
        self._address = address
        self._slots = slots
        self._plugins = plugins
        self._blob_bytes = blob_bytes

    # --- stages -----------------------------------------------------------------------------------

    def flow(self, plan: Plan) -> Flow:
        """Return where the result of a plan is, after all of its stages."""
        first, *rest = plan.stages
        flow: Flow
        if first.clauses and isinstance(first.clauses[0], Broadcasts):
            return self._broadcast(plan)
        if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            source = plan.inputs[0]
            if first.input is Structure.ALL or first.carries is not None:
                flow = self._after(self._unprocessed(source, first), first, None)
            else:
                flow = NarrowFlow.from_source(source, first, self._address)
        elif isinstance(first.clauses[0], Interleaves):
            flow = self._interleaved(plan, first)
        else:
            flow = self._after(self._side_by_side(plan), first, None)
        before = first
        for stage in rest:
            flow = self._after(flow, stage, before)
            before = stage
        return flow

    def _interleaved(self, plan: Plan, first: Stage) -> Flow:
        """Run a clause that takes several inputs in turn: as tasks, where it can group their parts.

        Otherwise it runs here, on units that are computed some at a time.
        """
        clause = first.clauses[0]
        flows = [self._deferred(part) for part in plan.inputs if isinstance(part, Plan)]
        if type(clause).restructure is not Clause.restructure:
            narrow = [flow for flow in flows if isinstance(flow, NarrowFlow) and flow.units]
            if len(narrow) == len(flows):
                return self._routed(NarrowFlow.side_by_side(narrow), clause, first)
            if all(not isinstance(flow, NarrowFlow) or flow.units for flow in flows):
                side_by_side = self._placed(flows)
                if side_by_side is not None:
                    return self._routed(side_by_side, clause, first)
        return DriverFlow(interleave_units(first, [self._few_at_a_time(flow) for flow in flows]))

    def _broadcast(self, plan: Plan) -> Flow:
        """Compute all inputs but the first, and send their results to what takes the first."""
        left, *others = (part for part in plan.inputs if isinstance(part, Plan))
        tables = [
            result_table((unit.table for unit in self._whole(part)), part.schema) for part in others
        ]
        bound = [bound_stage(stage, tables) for stage in plan.stages]  # refused here, if anywhere
        given = given_tables(tables)
        flow: Flow = self.flow(left)
        before: Stage | None = None
        for stage, here in zip(plan.stages, bound, strict=True):
            takes = any(isinstance(clause, Broadcasts) for clause in stage.clauses)
            flow = self._after(flow, stage, before, here, given if takes else None)
            before = stage
        return flow

    def _whole(self, part: Plan) -> Iterator[ProcessingUnit]:
        """Give the units of an input that is wanted here; one of few bytes is also run here."""
        return run_units(part) if is_read_here(part) else self.units(self.flow(part))

    def _unprocessed(self, source: SourcePlan, first: Stage) -> NarrowFlow:
        """Return the units of a symbol for a clause that groups them before anything runs.

        The planned units are cut into row slices, which tasks read side by side, unless all go
        into one unit as they are.
        """
        if len(source.units) > 1 or type(first.clauses[0]).restructure is not Clause.restructure:
            slices = source.index.slice_number
            units: dict[tuple[int, int], list[int]] = {}
            for number, unit in enumerate(source.units):
                for position in unit:
                    units.setdefault((number, int(slices[position])), []).append(position)
            source = dataclasses.replace(source, units=list(units.values()))
        return NarrowFlow.from_source(source, None, self._address)

    def _side_by_side(self, plan: Plan) -> Flow:
        """Return the units of several inputs, one input after another."""
        flows = [self._deferred(part) for part in plan.inputs if isinstance(part, Plan)]
        narrow = [flow for flow in flows if isinstance(flow, NarrowFlow)]
        if len(narrow) == len(flows):
            return NarrowFlow.side_by_side(narrow)
        return self._placed(flows) or DriverFlow(self._chained(flows))

    def _placed(self, flows: list[Flow]) -> UnionFlow | None:
        """Return flows one after another, those that are here sent out; None if all stay here.

        They do where one holds too much to be sent, or fails: that is raised when its turn has
        come, which a limit may not let it have. What was computed of flows then stands in their
        places.
        """
        if all(isinstance(flow, DriverFlow) for flow in flows):
            return None  # they are small, or were not asked for yet
        sent: dict[int, list[ProcessingUnit]] = {}
        for at, flow in enumerate(flows):
            if isinstance(flow, DriverFlow):
                sent[at], rest = _first_units(flow.units)
                flows[at] = DriverFlow(itertools.chain(sent[at], rest or ()))
                if rest is not None:
                    return None
        try:
            return placed_one_after_another(
                [
                    self._counted(flow)
                    if not isinstance(flow, DriverFlow)
                    else self._sent(iter(sent[at]))
                    for at, flow in enumerate(flows)
                ]
            )
        except TesselError:
            return None

    def _counted(self, flow: TaskFlow) -> tuple[TaskFlow, list[int]]:
        """Return a flow without errors before its last barrier, and the ``seq`` of its units."""
        if isinstance(flow, NarrowFlow):
            return flow, [unit.seq for unit in flow.units]
        flow = self._kept(flow)
        return flow, [seq for seq, _ in self._counts(flow, None)]

    def _sent(self, units: Iterator[ProcessingUnit]) -> tuple[TaskFlow, list[int]]:
        """Send units of this process to where tasks go on with them."""
        rows = rows_of_units(units, self._blob_bytes)
        frame = self._jobs.numbers(1, rows_task(rows))
        places = dict.fromkeys(place_of_unit(row.seq) for row in rows)
        return FrameFlow(frame, barriers=0), list(places)

    def _kept(self, flow: TaskFlow) -> TaskFlow:
        """Return a flow that is run twice; what lies before its last barriers is run once."""
        if isinstance(flow, FrameFlow):
            return dataclasses.replace(flow, frame=self._jobs.kept(flow.frame))
        if isinstance(flow, UnionFlow):
            parts = [self._kept(part) for part in flow.parts]
            return UnionFlow(tuple(part for part in parts if not isinstance(part, UnionFlow)))
        return flow

    def _deferred(self, plan: Plan) -> Flow:
        """Return the flow of one of several inputs; its error is raised when its turn has come."""
        try:
            return self.flow(plan)
        except TesselError as error:
            return DriverFlow(_raising(error))

    def _chained(self, flows: Sequence[Flow]) -> Iterator[ProcessingUnit]:
        ordinal = 0
        for symbol, flow in enumerate(flows):
            for unit in self.units(flow):
                pieces = [dataclasses.replace(piece, symbol=symbol) for piece in unit.pieces]
                yield ProcessingUnit(ordinal, unit.schema, pieces)
                ordinal += 1

    def _few_at_a_time(self, flow: Flow) -> Iterator[ProcessingUnit]:
        """Give the units of one input of several, computing no more than fit into some bytes."""
        if not isinstance(flow, NarrowFlow):
            yield from self.units(flow)
            return
        waiting: list[UnitTask] = []
        size = 0
        for unit in flow.units:
            waiting.append(unit)
            size += unit.bytes
            if size >= _PARTITION_BYTES:
                yield from self.units(flow.only(waiting))
                waiting, size = [], 0
        if waiting:
            yield from self.units(flow.only(waiting))

    def _after(
        self,
        flow: Flow,
        stage: Stage,
        before: Stage | None,
        here: Stage | None = None,
        given: Given | None = None,
    ) -> Flow:
        """Return the flow after one more stage.

        Parameters
        ----------
        flow, stage, before
            What there is, what is to run on it, and the stage that ran last.
        here, given
            For a stage that other symbols are given to: the stage as it runs in this process, and
            what workers get.
        """
        here = here or stage
        if isinstance(flow, DriverFlow):
            return DriverFlow(run_stages([here], flow.units))
        if stage.carries is not None and not (isinstance(flow, NarrowFlow) and not flow.units):
            return self._carried(flow, stage)
        if stage.clauses and isinstance(here.clauses[0], Appends):
            return self._appended(flow, stage, here.clauses[0])
        if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
            return flow.then(stage, given)
        if isinstance(flow, NarrowFlow) and not flow.units:
            return DriverFlow(run_stages([here], iter(())))
        clause = stage.clauses[0]
        if clause.structure.reduced:
            return DriverFlow(run_stages([here], self.units(flow)))
        if isinstance(clause, Limits):
            return self._limited(flow, clause, stage)
        if type(clause).restructure is not Clause.restructure:
            return self._routed(flow, clause, stage)
        if stage.input is Structure.HASH_BUCKETED:
            return self._by_bucket(flow, stage, before)
        if stage.input is Structure.ALL:
            return self._all_in_one(flow, stage, given)
        return self._routed(flow, clause, stage)

    def _appended(self, flow: TaskFlow, stage: Stage, clause: Appends) -> Flow:
        """Let the rows of all units pass, and put behind them what their notes say is missing."""
        flow = self._kept(flow)
        notes: list[pa.Table] = []
        seqs: list[int] = []
        if not isinstance(flow, NarrowFlow) or flow.units:
            noted = self._ordered(self._frame(flow.summarised(stage)), barriers_of(flow))
            for seq, rows in noted:
                notes.append(unit_of_rows(seq, rows).table)
                seqs.append(seq)
        rest, index = stage.clauses[1:], stage.schemas[1].index
        added = units_of_tables(clause.appended(notes), index)
        stages = [Stage(rest, stage.schemas[1:])] if rest else []
        passed = flow.then(Stage((clause.passing(), *rest), stage.schemas))
        try:
            tail = self._sent(run_stages(stages, added))
        except TesselError as error:  # raised when its turn has come
            return DriverFlow(itertools.chain(self.units(passed), _raising(error)))
        if not seqs:
            return tail[0]
        return placed_one_after_another([(passed, seqs), tail])

    def _carried(self, flow: TaskFlow, stage: Stage) -> Flow:
        """Summarise all units, then let each be processed with what lies around it."""
        flow = self._kept(flow)
        summaries = self._ordered(self._frame(flow.summarised(stage)), barriers_of(flow))
        tables = ((place, unit_of_rows(place, rows).table) for place, rows in summaries)
        betweens: dict[int, Between] = {}
        try:
            betweens.update(carries_between(stage, tables))
        except TesselError as error:
            # Units that went on before it, on threads, may have an error that comes first.
            before = self.units(flow.carried(stage, betweens))
            return DriverFlow(itertools.chain(before, _raising(error)))
        return flow.carried(stage, betweens)

    def _by_bucket(self, flow: TaskFlow, stage: Stage, before: Stage | None) -> FrameFlow:
        last = before.clauses[-1] if before is not None and before.clauses else stage.clauses[0]
        # The planner made as many buckets as keep each in its bytes: each gets a task.
        partitions = (
            last.buckets if isinstance(last, Partition | HashJoin | HashAsof) else self._slots
        )
        frame = self._jobs.grouped(self._frame(flow), partitions)
        return FrameFlow(frame, barriers=barriers_of(flow) + 1).then(stage)

    def _all_in_one(self, flow: TaskFlow, stage: Stage, given: Given | None) -> Flow:
        if isinstance(flow, NarrowFlow) and [unit.places[-1] for unit in flow.units] == [(0, 0)]:
            return flow.then(stage, given)  # it is one unit already
        frame = self._jobs.grouped(self._with_markers(self._frame(flow), [0]), 1)
        everything = FrameFlow(frame, everything=True, barriers=barriers_of(flow) + 1)
        return everything.then(stage, given)

    def _with_markers(self, frame: DataFrame, buckets: Sequence[int]) -> DataFrame:
        return frame.unionAll(self._jobs.numbers(1, marker_task(buckets)))

    def _routed(self, flow: TaskFlow, clause: Clause, stage: Stage) -> FrameFlow:
        """Let the clause group the parts by their facts, then send each where it is wanted."""
        frame = self._jobs.kept(self._frame(flow))
        rows = self._ordered(self._jobs.mapped(frame, facts_task()), barriers_of(flow))
        parts = sent_parts(row for _, unit in rows for row in unit)
        groups = clause.restructure([part.facts for part in parts], stage.schemas[0])
        if not groups and stage.input is Structure.ALL:
            groups = [[]]  # a clause over everything also answers for nothing
        wanted = [0] * len(parts)
        targets: dict[int, list[tuple[int, int]]] = {}
        for number, group in enumerate(groups):
            for at, position in enumerate(group):
                wanted[position] += 1
                for piece, seq in enumerate(parts[position].seqs):
                    targets.setdefault(seq, []).append((number, sequence(0, at) + piece))
        planned = {
            (number, sequence(0, at)): wanted[position]
            for number, group in enumerate(groups)
            for at, position in enumerate(group)
            if wanted[position] > 1
        }
        telemetry.emit("barrier", units=len(groups), pieces=len(parts))
        routed = self._jobs.mapped(frame, route_task(targets))
        empty = [number for number, group in enumerate(groups) if not group]
        if empty:
            routed = self._with_markers(routed, empty)
        by_bytes = sum(part.bytes for part in parts) // _PARTITION_BYTES
        partitions = max(1, min(len(groups), max(self._slots, by_bytes)))
        grouped = self._jobs.grouped(routed, partitions)
        return FrameFlow(grouped, planned=planned, barriers=barriers_of(flow) + 1).then(stage)

    # --- limits -----------------------------------------------------------------------------------

    def _limited(self, flow: TaskFlow, clause: Limits, stage: Stage) -> Flow:
        demand = clause.demand()
        if not isinstance(flow, NarrowFlow):
            flow = self._kept(flow)
        elif demand is not None and demand <= MOST_ROWS_IN_ROUNDS:
            return DriverFlow(run_stages([stage], self._in_rounds(flow, demand)))
        counted = self._counts(flow, demand)
        start, stop = clause.ranges(sum(rows for _, rows in counted))
        cuts: dict[int, tuple[int, int]] = {}
        at = 0
        for seq, rows in counted:
            low, high = max(start - at, 0), min(stop - at, rows)
            if low < high:
                cuts[seq] = (low, high)
            at += rows
        return flow.cut(cuts).then(Stage(stage.clauses[1:], stage.schemas[1:]))

    def _counts(self, flow: TaskFlow, demand: int | None) -> list[tuple[int, int]]:
        """Return the rows of the units, in order, up to the demand, without moving data."""
        counted: list[tuple[int, int]] = []
        total = 0
        if demand == 0:
            return counted
        frame = self._jobs.mapped(self._frame(flow), count_task())
        for seq, unit in self._ordered(frame, barriers_of(flow)):
            counted.append((seq, sum(row.rows for row in unit)))
            total += counted[-1][1]
            if demand is not None and total >= demand:
                break
        return counted

    def _in_rounds(self, flow: NarrowFlow, demand: int) -> Iterator[ProcessingUnit]:
        """Give units in order, computing more of them each round until the demand is met."""
        at, size, given = 0, self._slots, 0
        while at < len(flow.units) and given < demand:
            chosen: Sequence[UnitTask] = flow.units[at : at + size]
            at, size = at + size, size * _ROUND_GROWTH
            # No unit can contribute more rows than are still wanted.
            wanted = flow.only(chosen).cut({unit.seq: (0, demand - given) for unit in chosen})
            for unit in self.units(wanted):
                given += unit.num_rows
                yield unit

    # --- running ----------------------------------------------------------------------------------

    def _frame(self, flow: TaskFlow) -> DataFrame:
        """Return the wire rows of a flow's units."""
        if isinstance(flow, UnionFlow):
            frames = []
            for part in flow.parts:
                frames.append(self._frame(part))
                less = flow.barriers - barriers_of(part)
                if less:
                    frames[-1] = self._jobs.mapped(frames[-1], later_errors_task(less))
            return functools.reduce(lambda one, other: one.unionAll(other), frames)
        if isinstance(flow, FrameFlow):
            task = reduce_task(
                flow.steps,
                flow.planned,
                flow.everything,
                flow.barriers,
                self._plugins,
                self._blob_bytes,
                flow.given,
            )
            return self._jobs.mapped(flow.frame, task)
        tasks = max(
            self._slots, min(self._slots * _TASKS_PER_SLOT, flow.total_bytes // _TASK_BYTES)
        )
        partitions = flow.packed(tasks)
        described = [flow.described(units) for units in partitions]
        task = source_task(flow.head(), described, self._plugins, self._blob_bytes, flow.given)
        return self._jobs.numbers(len(partitions), task)

    def units(self, flow: Flow) -> Iterator[ProcessingUnit]:
        """Run what is left to run and give the units of a flow in order."""
        if isinstance(flow, DriverFlow):
            yield from flow.units
        elif not isinstance(flow, NarrowFlow) or flow.units:
            for place, rows in self._ordered(self._frame(flow), barriers_of(flow)):
                yield unit_of_rows(place, rows)

    def _ordered(self, frame: DataFrame, barriers: int) -> Iterator[tuple[int, list[WireRow]]]:
        """Run a frame and give the rows of its units in plan order.

        An error from before the last barrier is raised before any unit is given, one from after it
        in the place of its unit.
        """
        rows = self._jobs.rows(frame)
        errors = [row for row in rows if row.rows == ERROR_ROWS and row.bucket < barriers]
        raise_error_rows(row for row in errors if row.bucket == min(e.bucket for e in errors))
        for place, unit in rows_by_unit(rows):
            yield place, raise_error_rows(unit)


def _first_units(
    units: Iterator[ProcessingUnit],
) -> tuple[list[ProcessingUnit], Iterator[ProcessingUnit] | None]:
    """Return units that are few enough to be sent, and those behind them; None where none are.

    An error stands behind those before it.
    """
    held: list[ProcessingUnit] = []
    size = 0
    try:
        for unit in units:
            held.append(unit)
            size += unit.nbytes
            if size > _MOST_SENT_BYTES:
                return held, units
    except TesselError as error:
        return held, _raising(error)
    return held, None


def _raising(error: TesselError) -> Iterator[ProcessingUnit]:
    """Return units of which the first, when it is asked for, raises."""

    def fail(_: None) -> ProcessingUnit:
        raise error

    return map(fail, [None])


def _visible_address(plan: Plan) -> str:
    """Return where the store is, as JSON, if processes of their own can open it."""
    first = plan.inputs[0]
    if isinstance(first, Plan):
        return _visible_address(first)
    objects = first.view.source().objects
    if objects.uri.startswith("memory:"):
        raise StoreNotVisibleError(
            f"Spark's workers cannot open {objects.uri!r}, which lives in this process alone",
            hint="open a store in a directory that the workers see, or run the query locally",
            uri=objects.uri,
        )
    return json.dumps(address_of(objects))

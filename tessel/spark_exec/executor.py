"""Runs plans as Spark jobs: the same stage functions, other barriers.

A plan is walked from its inputs to its result; what lies between two stages is in
`tessel.spark_exec.barriers`, how jobs are run in `tessel.spark_exec.running_flows`.

Errors are those that the local pool raises: of the earliest stage that failed, and of its earliest
unit; none of units that a limit would not have asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from tessel import telemetry
from tessel.clauses.capabilities import Broadcasts
from tessel.display.documents import Table
from tessel.ecs import ProcessingUnit
from tessel.errors import InvalidInputError, StoreNotVisibleError, TesselError
from tessel.errors.root import naming
from tessel.lazy import dataclass
from tessel.pipeline.executor import result_table, run_units, symbols_of
from tessel.pipeline.plan import Plan, SourcePlan, Stage, answered, plugins_of
from tessel.pipeline.stage import bound_stage, interleave_units, renumbered_units
from tessel.pipeline.staging import Staging
from tessel.spark_exec.barriers import Barriers, placed_one_after_another
from tessel.spark_exec.chains import Given, given_tables
from tessel.spark_exec.flows import DriverFlow, Flow, NarrowFlow, TaskFlow, UnionFlow
from tessel.spark_exec.jobs import Jobs, slots_of_session
from tessel.spark_exec.placement import (
    Data,
    Inputs,
    Walk,
    data_of,
    in_turn,
    is_read_here,
    placement_table,
    side_by_side,
    step_of,
)
from tessel.spark_exec.plugins import kinds_of, packed_plugins
from tessel.spark_exec.running_flows import PARTITION_BYTES, FlowRunner, first_units
from tessel.spark_exec.runtime import spark_session
from tessel.spark_exec.tasks import stage_task
from tessel.spark_exec.units import raising_units
from tessel.spark_exec.wire import MAX_BLOB_BYTES
from tessel.store.objects.open import address_of
from tessel.store.operations.staged import StagedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tessel.store.objects.base import ObjectStore

_WORTH_A_JOB = 64 * 1024 * 1024
"""Bytes that an answer must save: a job that asks for one takes a fifth of a second."""


class SparkExecutor:
    """Runs queries as Spark jobs: ``store.read(symbol, query=q, executor=SparkExecutor())``.

    It may run several queries at once, from several threads.

    Parameters
    ----------
    session
        A session of yours, used as it is. By default the one that exists, else one of our own,
        started when a query needs it: by a job in the background.
    master
        For a session of our own: ``local[2]``, ``spark://host:port``, ``sc://host:port``.
    max_blob_bytes
        Aimed-for bound of what travels in one row between tasks.
    """

    name = "spark"
    gathered_bytes = PARTITION_BYTES
    """States of groups, and summaries of units, are brought to the driver up to so many bytes; more
    of them go through a shuffle."""

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        max_blob_bytes: int = MAX_BLOB_BYTES,
    ) -> None:
        if max_blob_bytes < 1:
            raise InvalidInputError(f"max_blob_bytes is at least 1, not {max_blob_bytes}")
        self._given = session
        self._master = master
        self._blob_bytes = max_blob_bytes

    @property
    def _session(self) -> SparkSession:
        return spark_session(self._master) if self._given is None else self._given

    @property
    def slots(self) -> int:
        """Tasks that run at a time, as far as Spark tells."""
        return slots_of_session(self._session)

    def explained(self, plan: Plan) -> Table:
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
        return self._tables(plan, few=False)

    def stream(self, plan: Plan) -> Iterator[pa.Table]:
        """Run a plan as :meth:`run`, with few parts of the result in this process at a time."""
        return self._tables(plan, few=True)

    def _tables(self, plan: Plan, *, few: bool) -> Iterator[pa.Table]:
        with Jobs(self._session) as jobs, naming(symbol=lambda: symbols_of(plan)):
            runner, flow = self._walked(plan, jobs, few=few)
            for unit in runner.few_at_a_time(flow) if few else runner.units(flow):
                if unit.num_rows:
                    yield unit.table

    def frame(self, plan: Plan) -> DataFrame:
        """Return the result of a plan as a DataFrame: its last stage runs when that is asked for.

        What the last stage needs to be known first is found out here, and a result that is reduced
        in the driver is made here.

        Raises
        ------
        UnsupportedTypeError
            For a column of a type that Spark does not have.
        TesselError
            As :meth:`run`.
        """
        from tessel.spark_exec.source.rows import frame_of
        from tessel.spark_exec.source.types import spark_schema

        declared = spark_schema(plan.schema.arrow)
        with naming(symbol=lambda: symbols_of(plan)), contextlib.ExitStack() as stack:
            jobs = stack.enter_context(Jobs(self._session))
            runner, flow = self._walked(plan, jobs)
            if _in_tasks(flow):
                made = runner.typed_frame(flow, declared)
            else:
                units = runner.units(flow)
                table = result_table((unit.table for unit in units if unit.num_rows), plan.schema)
                made = frame_of(self._session, table)
            # What it keeps is only a cache: frames derived from this one may outlive it.
            weakref.finalize(made, stack.pop_all().close).atexit = False
        return made

    def staged(self, plan: Plan, staging: Staging) -> list[StagedRows]:
        """Run a plan whose tasks stage its result; return what they staged, in order.

        What is reduced in the driver is staged here. Errors are those of :meth:`run`, of the store
        that is written too.
        """
        _checked_address(staging.store.objects)
        with Jobs(self._session) as jobs, naming(symbol=lambda: symbols_of(plan)):
            runner, flow = self._walked(plan, jobs, few=True)
            if _in_tasks(flow):
                task = stage_task(staging, flow.barriers)
                told = [row for _, unit in runner.ordered(flow, task) for row in unit]
                found = [StagedRows.from_json(json.loads(row.blob)) for row in told]
                return found or [staging.staged((), 0)]
            units = runner.units(flow)
            return [staging.staged((unit.table for unit in units if unit.num_rows), 0)]

    def _walked(self, plan: Plan, jobs: Jobs, *, few: bool = False) -> tuple[FlowRunner, Flow]:
        """Answer the questions of a plan, and return where its result is.

        What comes here on the way to that comes a little at a time where ``few``.
        """
        plan = answered(plan, self.run, least=_WORTH_A_JOB)
        telemetry.emit("query.run", plan=plan)
        address = json.dumps(_checked_address(plan.sources[0].view.source().objects))
        classes = plugins_of(plan)
        kinds, plugins = kinds_of(classes), packed_plugins(classes)
        runner = FlowRunner(jobs, self.slots, plugins, self._blob_bytes, kinds)
        barriers = Barriers(runner, self.gathered_bytes, few)
        return runner, _Walk(address, runner, barriers).flow(plan)


@dataclass(frozen=True)
class _Given:
    """Results that clauses of a plan are given: its stages with them, and what workers get."""

    bound: Sequence[Stage]
    tables: Given


@dataclass
class _Walk(Walk[Flow]):
    """Walks a plan that runs."""

    address: str
    runner: FlowRunner
    barriers: Barriers

    def after(
        self, flow: Flow, plan: Plan, number: int, inputs: Inputs, given: _Given | None
    ) -> Flow:
        stage, before = plan.stages[number], plan.stages[number - 1] if number else None
        here, known = stage, None
        if given is not None:
            here = given.bound[number]
            known = given.tables if any(isinstance(c, Broadcasts) for c in stage.clauses) else None
        step = step_of(data_of(flow), stage, is_last=not inputs and stage is plan.stages[-1])
        return self.barriers.after(flow, step, stage, before, here, known)

    def source(self, source: SourcePlan, first: Stage, inputs: Inputs) -> NarrowFlow:
        """Return the units of a symbol; a clause that groups them is first given none that ran.

        The planned units are then cut into row slices, which tasks read side by side, unless all go
        into one unit as they are.
        """
        is_cut = first.is_read_apart and (len(source.units) > 1 or first.clauses[0].restructures)
        return NarrowFlow.from_source(
            SourcePlan(source.view, source.read.cut_by_row_slice) if is_cut else source,
            None if first.is_read_apart else first,
            self.address,
            joins_units=not self.runner.plugins,
        )

    def in_turn(self, flows: list[Flow], first: Stage, inputs: Inputs) -> Flow:
        """Run a clause that takes several inputs in turn: as tasks, where it can group their parts.

        Otherwise it runs here, on units that are computed some at a time.
        """
        clause = first.clauses[0]
        if in_turn([data_of(flow) for flow in flows], clause) is not Data.HERE:
            beside = self._beside(flows)
            if beside is not None:
                return self.barriers.routed(beside, first)
        units = [self.runner.few_at_a_time(flow) for flow in flows]
        return DriverFlow(interleave_units(first, units))

    def given(self, plan: Plan, others: Sequence[tuple[Plan, Inputs]]) -> _Given:
        """Compute all inputs but the first, whose results are sent to what takes the first."""
        tables = [
            result_table((unit.table for unit in self._whole(*other)), other[0].schema)
            for other in others
        ]
        bound = [bound_stage(stage, tables) for stage in plan.stages]  # refused here, if anywhere
        return _Given(bound, given_tables(tables))

    def _whole(self, part: Plan, inputs: Inputs) -> Iterator[ProcessingUnit]:
        """Give the units of an input that is wanted here; one of few bytes is also run here."""
        if is_read_here(part):
            return run_units(part)
        return self.runner.units(self.flow(part, inputs))

    def side(self, plan: Plan, inputs: Inputs) -> Flow:
        """Return the flow of one of several inputs; its error is raised when its turn has come."""
        try:
            return self.flow(plan, inputs)
        except TesselError as error:
            return DriverFlow(raising_units(error))

    def side_by_side(self, flows: list[Flow]) -> Flow:
        """Return the units of several inputs, one input after another."""
        return self._beside(flows) or DriverFlow(renumbered_units(map(self.runner.units, flows)))

    def _beside(self, flows: list[Flow]) -> TaskFlow | None:
        """Return the same where tasks make some of them, and the others can be sent out."""
        data = side_by_side([data_of(flow) for flow in flows])
        if data is Data.HERE:
            return None  # they are small, or were not asked for yet
        if data is Data.FRAME:
            return self._placed(flows)
        return NarrowFlow.side_by_side([flow for flow in flows if isinstance(flow, NarrowFlow)])

    def _placed(self, flows: list[Flow]) -> UnionFlow | None:
        """Return flows one after another, those that are here sent out; None if all stay here.

        They do where one holds too much to be sent, or fails: that is raised when its turn has
        come, which a limit may not let it have. What was computed of flows then stands in their
        places.
        """
        sent: dict[int, list[ProcessingUnit]] = {}
        for at, flow in enumerate(flows):
            if isinstance(flow, DriverFlow):
                sent[at], rest = first_units(flow.units)
                flows[at] = DriverFlow(itertools.chain(sent[at], rest or ()))
                if rest is not None:
                    return None
        try:
            return placed_one_after_another(
                [
                    self.runner.counted(flow)
                    if not isinstance(flow, DriverFlow)
                    else self.runner.sent(iter(sent[at]))
                    for at, flow in enumerate(flows)
                ]
            )
        except TesselError:
            return None


def _in_tasks(flow: Flow) -> TypeGuard[TaskFlow]:
    """Whether tasks are needed for what is left of a flow."""
    if isinstance(flow, NarrowFlow):
        return bool(flow.count)
    return not isinstance(flow, DriverFlow)


def _checked_address(objects: ObjectStore) -> dict[str, Any]:
    """Return where a store is, if processes of their own can open it."""
    if objects.uri.startswith("memory:"):
        raise StoreNotVisibleError.in_memory(objects.uri)
    return address_of(objects)

"""What lies between two stages of a plan that runs on Spark.

| before a stage that needs | what Spark does |
|---|---|
| row slices, or several symbols | nothing: the stage joins the tasks before it |
| hash buckets | an exact shuffle by bucket |
| time buckets, or a grouping of its own | the facts of all parts go to one task, in which the clause groups them; each part is sent to the units that want it |
| everything, reduced already | a task combines its parts, they are collected and the stage runs here; where those of the first tasks tell of many groups, the others go through a shuffle by key first, or come a little at a time |
| a range of positions | rows are counted, then only what is kept is computed; a limit from the front takes units in growing rounds and stops; a result, and few rows of few bytes, are brought here by that |
| all rows by keys | a job samples the keys, then each task gets a range of them; few bytes as below |
| everything | one task gets all parts, in order |
| what is carried from unit to unit | a job summarises the units, what lies around each is combined here and sent along with it |
| several symbols, some behind barriers | units are numbered anew, in tasks, and their rows put together; those that are here are sent out, where they are few |
| what is carried to the end | a job summarises the units; rows pass in tasks, those that come last are sent out to them |
| several symbols in turn | as with a grouping of its own, where it has one; otherwise the stage runs here, on units that are computed some at a time |
"""  # noqa: E501  # a table

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tessel import telemetry
from tessel.arrays import concat_tables, numpy_array
from tessel.clauses.capabilities import Combines, Limits
from tessel.clauses.joining.asof_steps import HashAsof
from tessel.clauses.joining.hashed import HashJoin
from tessel.clauses.merge import MergeRange
from tessel.clauses.partition import Partition
from tessel.clauses.select import Select
from tessel.clauses.sort import MergeSorted
from tessel.clauses.spill.sorting import KeyRanges
from tessel.ecs import ProcessingUnit
from tessel.errors import CancelledError, TesselError
from tessel.lazy import dataclass
from tessel.pipeline.executor import run_stages
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import combine_carries, finish_units, nothing_carried
from tessel.spark_exec.carries import CarryScan, few_task, scan_task, split_task
from tessel.spark_exec.chains import Given, Places, chain_text
from tessel.spark_exec.errors_wire import error_of, error_row, raise_error_rows
from tessel.spark_exec.flows import (
    Carries,
    DriverFlow,
    Flow,
    FrameFlow,
    NarrowFlow,
    TaskFlow,
    UnionFlow,
)
from tessel.spark_exec.parts import rows_by_unit, unit_of_rows, unpacked
from tessel.spark_exec.placement import Step
from tessel.spark_exec.routing import facts_task, group_task, route_task, sample_task
from tessel.spark_exec.running_flows import (
    MOST_SENT_BYTES,
    PARTITION_BYTES,
    FlowRunner,
    first_units,
)
from tessel.spark_exec.units import raising_units
from tessel.spark_exec.wire import (
    CARRY_ROWS,
    ERROR_ROWS,
    MARKER_ROWS,
    WITHHELD_ROWS,
    WireRow,
    read_parts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LEAST_BYTES_IN_ROUNDS = 256 * 1024 * 1024
"""Less is not read in two jobs to find out what the second should do."""

_SAMPLED_ROWS = 1_000
"""For each range of keys: ranges then differ by a tenth or so in their rows."""

_MOST_RANGES, _MOST_SAMPLED = 1 << 14, 1 << 22
"""Each unit can have a part for each range, and samples come to the driver."""


@dataclass
class Barriers:
    """Brings the units of a flow to where the next stage of the plan wants them.

    Attributes
    ----------
    runner
        Runs what has to be known before units can be grouped.
    gathered_bytes
        Partial states and summaries are brought to the driver up to so many bytes.
    few
        Whether what is about the size of the result comes to the driver a little at a time.
    """

    runner: FlowRunner
    gathered_bytes: int
    few: bool

    def after(
        self,
        flow: Flow,
        step: Step,
        stage: Stage,
        before: Stage | None,
        here: Stage,
        given: Given | None,
    ) -> Flow:
        """Return the flow after one more stage.

        Parameters
        ----------
        flow, step, stage, before
            What there is, what is done with it, what is to run on it, and the stage that ran last.
        here, given
            The stage as it runs in this process, and what its clauses are given in workers.
        """
        if step in (Step.HERE, Step.NO_UNITS) or isinstance(flow, DriverFlow):
            return DriverFlow(
                run_stages([here], flow.units if isinstance(flow, DriverFlow) else iter(()))
            )
        match step:
            case Step.GO_ON:
                return flow.then(stage, given)
            case Step.CARRY:
                return self._carried(flow, stage)
            case Step.CARRY_TO_END:
                return self._finished(flow, stage, here)
            case Step.REDUCE:
                return DriverFlow(run_stages([here], self._partials(flow, here)))
            case Step.FIRST_ROWS | Step.FEW_FIRST_ROWS | Step.COUNT:
                return self._limited(flow, step, stage)
            case Step.BY_BUCKET:
                return self._by_bucket(flow, stage, before)
            case Step.BY_RANGE:
                return self._by_range(flow, stage, given)
            case Step.ALL_IN_ONE:
                return self._all_in_one(flow, stage, given)
        return self.routed(flow, stage)

    def _partials(self, flow: TaskFlow, stage: Stage) -> Iterator[ProcessingUnit]:
        """Give partial states: one of each task, or one of each bucket of keys where that is less.

        In a job that takes its time, what the first tasks make tells how much the others will.
        Partial states of many groups that stay in their order come a little at a time.
        """
        merged = flow.for_merging(stage)
        clause = stage.clauses[0]
        if (
            isinstance(flow, NarrowFlow)
            and isinstance(clause, Combines)
            and flow.total_bytes > _LEAST_BYTES_IN_ROUNDS
            and len(runs := flow.runs(self.runner.tasks(flow))) > self.runner.slots
        ):
            others = len(runs) - self.runner.slots
            stop = runs[self.runner.slots][0]
            size = 0
            for unit in self.runner.units(flow.between(0, stop).for_merging(stage)):
                size += unit.nbytes
                yield unit
            flow = flow.between(stop, flow.count)
            size = size * others // self.runner.slots
            buckets = max(self.runner.slots, size // PARTITION_BYTES)
            parted = clause.parted(buckets) if size > self.gathered_bytes else None
            if parted is not None:
                frame = self.runner.frame(flow.for_merging(stage, parted))
                grouped = FrameFlow(self.runner.jobs.grouped(frame, buckets), partitions=buckets)
                yield from self.runner.units(grouped.combined(stage))
                return
            merged = flow.for_merging(stage)
            if size > self.gathered_bytes:
                yield from self.runner.few_at_a_time(merged)
                return
        # Where tasks combine their own units, there is little; what they do not is the result.
        is_much = not isinstance(flow, NarrowFlow) if isinstance(clause, Combines) else self.few
        yield from (self.runner.few_at_a_time if is_much else self.runner.units)(merged)

    def _carried(self, flow: TaskFlow, stage: Stage) -> Flow:
        """Summarise all units, then let each be processed with what lies around it.

        Summaries of few bytes are combined here, others in tasks, by key.
        """
        if not isinstance(flow, NarrowFlow):
            flow = self.runner.by_unit(flow)
        tasks = self.runner.tasks(flow)
        summaries = self.runner.jobs.kept(self.runner.frame(flow.summarised(stage)))
        few = self.runner.jobs.mapped(summaries, few_task(self.gathered_bytes // tasks))
        found = self.runner.rows(few, flow.barriers)
        failed = min(
            (row for row in found if row.rows == ERROR_ROWS), key=lambda row: row.seq, default=None
        )
        carries: Carries
        if any(row.rows == WITHHELD_ROWS for row in found):
            carries, failed = self._carries_by_key(summaries, stage, failed, tasks)
        else:
            carries, failed = self._carries_here(found, stage, failed)
        if failed is None:
            return self.runner.carried(flow, stage, carries)
        # Units that went on before it, on threads, may have an error that comes first.
        before = self.runner.carried(self.runner.before(flow, failed.seq), stage, carries)
        return DriverFlow(
            itertools.chain(self.runner.units(before), raising_units(error_of(failed)))
        )

    def _carries_here(
        self, found: Sequence[WireRow], stage: Stage, failed: WireRow | None
    ) -> tuple[Carries, WireRow | None]:
        """Return what lies around units, and the error at the first of which that is unknown."""
        kinds = self.runner.kinds
        known = (row for row in found if failed is None or row.seq < failed.seq)
        tables = ((at, unit_of_rows(at, rows, kinds).table) for at, rows in rows_by_unit(known))
        scan = CarryScan(stage, tables, failed)
        rows: list[WireRow] = []
        try:
            rows.extend(scan.rows())
        except TesselError as error:
            failed = error_row(error, seq=scan.next)
        return rows, failed

    def _carries_by_key(
        self, summaries: DataFrame, stage: Stage, failed: WireRow | None, buckets: int
    ) -> tuple[Carries, WireRow | None]:
        """Return the same, for summaries that are combined in tasks."""
        keys = stage.clauses[0].structure.carry_keys
        buckets = buckets if keys else 1
        if failed is not None:
            summaries = self.runner.jobs.between(summaries, 0, failed.seq)
        split = split_task(keys, buckets, self.runner.blob_bytes)
        parts = self.runner.jobs.grouped(self.runner.jobs.mapped(summaries, split), buckets)
        scan = scan_task(chain_text(stage), self.runner.plugins, failed)
        carries = self.runner.jobs.kept(self.runner.jobs.mapped(parts, scan))
        errors = self.runner.jobs.rows(self.runner.jobs.of_kind(carries, ERROR_ROWS))
        failed = min(errors, key=lambda row: row.seq, default=failed)
        return self.runner.jobs.of_kind(carries, CARRY_ROWS), failed

    def _finished(self, flow: TaskFlow, stage: Stage, here: Stage) -> Flow:
        """Let the rows of all units pass, and put behind them those that their carry makes."""
        flow = self.runner.kept(flow)
        summaries = dict(self.runner.ordered(flow.summarised(stage)))
        passed = flow.then(stage)
        try:
            carry = nothing_carried(stage)
            for place, rows in summaries.items():
                summary = unit_of_rows(place, rows, self.runner.kinds).table
                carry = combine_carries(stage, carry, summary)
            tail = self.runner.sent(finish_units(here, carry))
        except TesselError as error:  # raised when its turn has come
            return DriverFlow(itertools.chain(self.runner.units(passed), raising_units(error)))
        return placed_one_after_another([(passed, list(summaries)), tail])

    def _by_bucket(self, flow: TaskFlow, stage: Stage, before: Stage | None) -> FrameFlow:
        last = before.clauses[-1] if before is not None and before.clauses else stage.clauses[0]
        # The planner made as many buckets as keep each in its bytes: each gets a task.
        made_by = Partition, HashJoin, HashAsof, MergeRange
        partitions = last.buckets if isinstance(last, made_by) else self.runner.slots
        frame = self.runner.jobs.grouped(self.runner.frame(flow), partitions)
        made = FrameFlow(frame, partitions=partitions, barriers=flow.barriers + 1)
        return made.then(stage)

    def _by_range(self, flow: TaskFlow, stage: Stage, given: Given | None) -> Flow:
        """Let each task order a range of the keys, as a sample tells them; one task what is few."""
        assert isinstance(stage.clauses[0], MergeSorted)
        ordering = stage.clauses[0].ordering
        ranges = self.runner.tasks(flow)
        if isinstance(flow, NarrowFlow):
            size = flow.total_bytes
            ranges = min(max(self.runner.slots, size // PARTITION_BYTES), _MOST_RANGES)
            ranges = 1 if size <= self.gathered_bytes else ranges
        if ranges == 1:
            return self._all_in_one(flow, stage, given)
        flow = self.runner.kept(flow)
        schema = stage.schemas[0]
        only_keys = Stage((Select(ordering.by),), (schema, schema.select(ordering.by)))
        wanted = min(ranges * _SAMPLED_ROWS, _MOST_SAMPLED)
        most = max(1, wanted // self.runner.tasks(flow))
        try:
            taken = self.runner.ordered(flow.then(only_keys), sample_task(most))
            sampled = [part.table for _, rows in taken for part in read_parts(rows)]
        except CancelledError:
            raise
        except TesselError:  # in columns that are no keys there may be one that comes first
            sampled = []
        if not sampled:
            return self._all_in_one(flow, stage, given)
        sample = concat_tables(sampled)
        places, weights = map(numpy_array, sample.columns[-2:])
        keys = sample.select(ordering.by)
        found = KeyRanges.of_sample(ordering, keys, weights, places, ranges)
        telemetry.emit("barrier", units=len(found), pieces=sample.num_rows)
        frame = self.runner.jobs.grouped(self.runner.frame(flow, split=found.split), len(found))
        made = FrameFlow(frame, partitions=len(found), barriers=flow.barriers + 1)
        return made.then(stage, given)

    def _all_in_one(self, flow: TaskFlow, stage: Stage, given: Given | None) -> Flow:
        if isinstance(flow, NarrowFlow) and flow.seqs.tolist() == [0]:
            return flow.then(stage, given)  # it is one unit already
        frame = self.runner.jobs.grouped(self._with_markers(self.runner.frame(flow), [0]), 1)
        everything = FrameFlow(frame, everything=True, barriers=flow.barriers + 1)
        return everything.then(stage, given)

    def _with_markers(self, frame: DataFrame, buckets: Sequence[int]) -> DataFrame:
        """Add a row to each bucket of which a unit is made also where no part arrives."""
        rows = [WireRow(bucket, 0, MARKER_ROWS, b"") for bucket in buckets]
        return frame.unionAll(self.runner.jobs.sent_rows(rows))

    def routed(self, flow: TaskFlow, stage: Stage) -> FrameFlow:
        """Let the clause group the parts by their facts, then send each where it is wanted.

        A task groups them: facts of many parts take much memory, what comes here of them little.
        Units are read and computed twice, which takes no longer than to keep their rows.
        """
        frame = self.runner.frame(self.runner.kept(flow))
        facts = self.runner.jobs.grouped(self.runner.jobs.mapped(frame, facts_task()), 1)
        task = group_task(chain_text(stage), self.runner.plugins, flow.barriers)
        rows = self.runner.rows(self.runner.jobs.mapped(facts, task), flow.barriers)
        rows = raise_error_rows(sorted(rows, key=lambda row: row.seq))
        told, routes = (row.blob for row in rows)
        (units, parts, size), empty = (each.tolist() for each in unpacked(told))
        telemetry.emit("barrier", units=units, pieces=parts)
        routed = self.runner.jobs.mapped(frame, route_task(routes))
        if empty:
            routed = self._with_markers(routed, empty)
        partitions = max(1, min(units, max(self.runner.slots, size // PARTITION_BYTES)))
        grouped = self.runner.jobs.grouped(routed, partitions)
        made = FrameFlow(grouped, partitions=partitions, barriers=flow.barriers + 1)
        return made.then(stage)

    def _limited(self, flow: TaskFlow, step: Step, stage: Stage) -> Flow:
        clause = stage.clauses[0]
        assert isinstance(clause, Limits)
        demand = clause.demand()
        if not isinstance(flow, NarrowFlow):
            flow = self.runner.kept(flow)
        elif step is not Step.COUNT:
            rounds = self.runner.few_at_a_time(flow, demand)
            if step is Step.FIRST_ROWS:
                return DriverFlow(run_stages([stage], rounds))
            held, rest = first_units(rounds)
            if sum(unit.nbytes for unit in held) <= MOST_SENT_BYTES:
                return DriverFlow(run_stages([stage], itertools.chain(held, rest or ())))
        counted = self.runner.counts(flow, demand)
        start, stop = clause.ranges(sum(rows for _, rows in counted))
        cuts: dict[int, tuple[int, int]] = {}
        at = 0
        for seq, rows in counted:
            low, high = max(start - at, 0), min(stop - at, rows)
            if low < high:
                cuts[seq] = (low, high)
            at += rows
        return flow.cut(cuts).then(stage.after(1))


def placed_one_after_another(flows: Sequence[tuple[TaskFlow, Sequence[int]]]) -> UnionFlow:
    """Return the units of several flows as one, numbered anew.

    Parameters
    ----------
    flows
        Each input with the ``seq`` of its units, in order.
    """
    parts: list[NarrowFlow | FrameFlow] = []
    number = 0
    for symbol, (flow, seqs) in enumerate(flows):
        placed = flow.placed(Places(np.asarray(seqs, np.int64), symbol, number))
        number += len(seqs)
        parts += placed.parts if isinstance(placed, UnionFlow) else [placed]
    return UnionFlow(tuple(parts))

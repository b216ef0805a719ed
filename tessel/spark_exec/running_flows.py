"""Runs flows: what is left to run of one becomes Spark jobs, their rows become units again.

A flow says where the units of a stage are and what has yet to be run on them
(`tessel.spark_exec.flows`). Nothing of it is run before its units, or their numbers of rows, are
asked for here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
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
from tessel.spark_exec.jobs import Jobs
from tessel.spark_exec.parts import place_of_unit, rows_by_unit, unit_of_rows
from tessel.spark_exec.tasks import (
    count_task,
    later_errors_task,
    reduce_task,
    rows_task,
    source_task,
)
from tessel.spark_exec.unions import rows_of_units
from tessel.spark_exec.wire import WireRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["PARTITION_BYTES", "FlowRunner", "raising_units"]

PARTITION_BYTES = 64 * 1024 * 1024
"""What is computed at a time, or sent to one task, where nothing else says how much."""
_TASKS_PER_SLOT = 3
_TASK_BYTES = 4 * 1024 * 1024
"""A slot gets one task of less than this: a task has a price."""
_ROUND_GROWTH = 4


class FlowRunner:
    """Runs the flows of one plan as jobs.

    Parameters
    ----------
    jobs
        Where jobs are run.
    slots
        Tasks that run at a time.
    plugins
        Clauses that workers import first, packed.
    blob_bytes
        Aimed-for bound of what travels in one row between tasks.
    kinds
        The classes of components by name.
    """

    def __init__(
        self,
        jobs: Jobs,
        slots: int,
        plugins: bytes,
        blob_bytes: int,
        kinds: Mapping[str, type],
    ) -> None:
        self._jobs = jobs
        self._slots = slots
        self._plugins = plugins
        self._blob_bytes = blob_bytes
        self.kinds = kinds

    def frame(self, flow: TaskFlow) -> DataFrame:
        """Return the wire rows of a flow's units."""
        if isinstance(flow, UnionFlow):
            frames = []
            for part in flow.parts:
                frames.append(self.frame(part))
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
        described = self._described(flow)
        task = source_task(flow.head(), described, self._plugins, self._blob_bytes, flow.given)
        return self._jobs.numbers(len(described), task)

    def typed_frame(self, flow: TaskFlow, declared: StructType) -> DataFrame:
        """Return the rows of a flow's units as columns of Spark's types."""
        from tessel.spark_exec.source.rows import parts_task, units_task

        if not isinstance(flow, NarrowFlow):
            return self._jobs.mapped(self.frame(flow), parts_task(declared), declared)
        described = self._described(flow)
        task = units_task(flow.head(), described, self._plugins, flow.given, declared)
        return self._jobs.numbers(len(described), task, declared)

    def _described(self, flow: NarrowFlow) -> list[bytes]:
        """Return what each task is told of its units."""
        tasks = max(
            self._slots, min(self._slots * _TASKS_PER_SLOT, flow.total_bytes // _TASK_BYTES)
        )
        return [flow.described(units) for units in flow.packed(tasks)]

    def units(self, flow: Flow) -> Iterator[ProcessingUnit]:
        """Run what is left to run and give the units of a flow in order."""
        if isinstance(flow, DriverFlow):
            yield from flow.units
        elif not isinstance(flow, NarrowFlow) or flow.units:
            for place, rows in self.ordered(self.frame(flow), barriers_of(flow)):
                yield unit_of_rows(place, rows, self.kinds)

    def ordered(self, frame: DataFrame, barriers: int) -> Iterator[tuple[int, list[WireRow]]]:
        """Run a frame and give the rows of its units in plan order.

        An error from before the last barrier is raised before any unit is given, one from after it
        in the place of its unit.
        """
        rows = self._jobs.rows(frame)
        errors = [row for row in rows if row.rows == ERROR_ROWS and row.bucket < barriers]
        raise_error_rows(row for row in errors if row.bucket == min(e.bucket for e in errors))
        for place, unit in rows_by_unit(rows):
            yield place, raise_error_rows(unit)

    def counts(self, flow: TaskFlow, demand: int | None) -> list[tuple[int, int]]:
        """Return the rows of the units, in order, up to the demand, without moving data."""
        counted: list[tuple[int, int]] = []
        total = 0
        if demand == 0:
            return counted
        frame = self._jobs.mapped(self.frame(flow), count_task())
        for seq, unit in self.ordered(frame, barriers_of(flow)):
            counted.append((seq, sum(row.rows for row in unit)))
            total += counted[-1][1]
            if demand is not None and total >= demand:
                break
        return counted

    def in_rounds(self, flow: NarrowFlow, demand: int) -> Iterator[ProcessingUnit]:
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

    def few_at_a_time(self, flow: Flow) -> Iterator[ProcessingUnit]:
        """Give the units of one input of several, computing no more than fit into some bytes."""
        if not isinstance(flow, NarrowFlow):
            yield from self.units(flow)
            return
        waiting: list[UnitTask] = []
        size = 0
        for unit in flow.units:
            waiting.append(unit)
            size += unit.bytes
            if size >= PARTITION_BYTES:
                yield from self.units(flow.only(waiting))
                waiting, size = [], 0
        if waiting:
            yield from self.units(flow.only(waiting))

    def counted(self, flow: TaskFlow) -> tuple[TaskFlow, list[int]]:
        """Return a flow without errors before its last barrier, and the ``seq`` of its units."""
        if isinstance(flow, NarrowFlow):
            return flow, [unit.seq for unit in flow.units]
        flow = self.kept(flow)
        return flow, [seq for seq, _ in self.counts(flow, None)]

    def kept(self, flow: TaskFlow) -> TaskFlow:
        """Return a flow that is run twice; what lies before its last barriers is run once."""
        if isinstance(flow, FrameFlow):
            return dataclasses.replace(flow, frame=self._jobs.kept(flow.frame))
        if isinstance(flow, UnionFlow):
            parts = [self.kept(part) for part in flow.parts]
            return UnionFlow(tuple(part for part in parts if not isinstance(part, UnionFlow)))
        return flow

    def sent(self, units: Iterator[ProcessingUnit]) -> tuple[TaskFlow, list[int]]:
        """Send units of this process to where tasks go on with them."""
        rows = rows_of_units(units, self._blob_bytes)
        frame = self._jobs.numbers(1, rows_task(rows))
        places = dict.fromkeys(place_of_unit(row.seq) for row in rows)
        return FrameFlow(frame, barriers=0), list(places)


def raising_units(error: TesselError) -> Iterator[ProcessingUnit]:
    """Return units of which the first, when it is asked for, raises."""

    def fail(_: None) -> ProcessingUnit:
        raise error

    return map(fail, [None])

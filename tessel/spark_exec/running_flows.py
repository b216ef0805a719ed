"""Runs flows: what is left to run of one becomes Spark jobs, their rows become units again.

A flow says where the units of a stage are and what has yet to be run on them
(`tessel.spark_exec.flows`). Nothing of it is run before its units, or their numbers of rows, are
asked for here.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.lazy import dataclass
from tessel.pipeline.plan import Stage
from tessel.spark_exec.carries import few_task
from tessel.spark_exec.errors_wire import raise_error_rows
from tessel.spark_exec.flows import (
    Carries,
    DriverFlow,
    Flow,
    FrameFlow,
    NarrowFlow,
    TaskFlow,
    UnionFlow,
)
from tessel.spark_exec.jobs import Jobs
from tessel.spark_exec.parts import place_of_unit, rows_by_unit, unit_of_rows, unit_rows
from tessel.spark_exec.tasks import (
    TaskFunction,
    UnitSplit,
    count_task,
    later_errors_task,
    reduce_task,
    source_task,
)
from tessel.spark_exec.unit_columns import tasks_of
from tessel.spark_exec.units import in_turn, raising_units
from tessel.spark_exec.wire import (
    ERROR_ROWS,
    LAST_SEQ,
    WITHHELD_ROWS,
    WireRow,
    sequence,
    wire_batch,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PARTITION_BYTES = 64 * 1024 * 1024
"""What is computed at a time, or sent to one task, where nothing else says how much."""
MOST_SENT_BYTES = 16 * 1024 * 1024
"""Units of this process are sent to tasks where they are no more. Rows of more bytes are
partitioned by an exchange: Spark cuts them by bytes, from 48 MiB on."""
_FIRST_ROWS = 1_000_000
"""So many rows at most come of the first units of which some rows are wanted."""
_ROUND_GROWTH = 4
_MOST_EXPANSION = 8
"""From bytes that are stored to those of a result, for units of which none was computed yet."""


@dataclass
class FlowRunner:
    """Runs the flows of one plan as jobs.

    Attributes
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

    jobs: Jobs
    slots: int
    plugins: bytes
    blob_bytes: int
    kinds: Mapping[str, type]

    def frame(
        self, flow: TaskFlow, then: TaskFunction | None = None, split: UnitSplit | None = None
    ) -> DataFrame:
        """Return the wire rows of units; in the same tasks ``split`` and ``then`` change them."""
        if isinstance(flow, UnionFlow):
            frames = []
            for part in flow.parts:
                frames.append(self.frame(part, then, split))
                less = flow.barriers - part.barriers
                if less:
                    frames[-1] = self.jobs.mapped(frames[-1], later_errors_task(less))
            return functools.reduce(lambda one, other: one.unionAll(other), frames)
        if isinstance(flow, FrameFlow):
            task = reduce_task(
                flow.steps,
                flow.everything,
                flow.barriers,
                self.plugins,
                self.blob_bytes,
                flow.given,
                split,
            )
            return self.jobs.mapped(flow.frame, in_turn(task, then))
        return self.jobs.mapped(self._told(flow), in_turn(self._source(flow, split), then))

    def _source(self, flow: NarrowFlow, split: UnitSplit | None = None) -> TaskFunction:
        return source_task(
            flow.head(), self.plugins, self.blob_bytes, flow.given, flow.combined, split
        )

    def by_unit(self, flow: TaskFlow) -> FrameFlow:
        """Return the units of a flow as wire rows in buckets of their own."""
        frame = self.jobs.by_unit(self.frame(self.kept(flow)))
        return FrameFlow(frame, partitions=self.tasks(flow), barriers=flow.barriers)

    def carried(
        self, flow: NarrowFlow | FrameFlow, stage: Stage, carries: Carries
    ) -> NarrowFlow | FrameFlow:
        """Return a flow, of units in buckets of their own, with a stage that carries.

        Wire rows bring to units what lies around them.
        """
        if isinstance(flow, NarrowFlow):
            return flow.carried(stage, carries)
        sent = self.jobs.sent_rows(carries) if isinstance(carries, list) else carries
        both = flow.frame.unionAll(self.jobs.by_unit(sent))
        frame = self.jobs.grouped(both, flow.partitions)
        return dataclasses.replace(flow, frame=frame, barriers=flow.barriers + 1).carried(stage)

    def before(self, flow: NarrowFlow | FrameFlow, place: int) -> NarrowFlow | FrameFlow:
        """Return the units of a flow, in buckets of their own, that lie before a place."""
        if isinstance(flow, NarrowFlow):
            return flow.between(0, int(np.searchsorted(flow.seqs, place)))
        return dataclasses.replace(flow, frame=self.jobs.between(flow.frame, 0, place))

    def typed_frame(self, flow: TaskFlow, declared: StructType) -> DataFrame:
        """Return the rows of a flow's units as columns of Spark's types."""
        from tessel.spark_exec.source.rows import parts_task, units_task

        if not isinstance(flow, NarrowFlow):
            return self.jobs.mapped(self.frame(flow), parts_task(declared), declared)
        task = units_task(flow.head(), self.plugins, flow.given, declared)
        return self.jobs.mapped(self._told(flow), task, declared)

    def tasks(self, flow: TaskFlow) -> int:
        """Return how many tasks at most make the units of a flow."""
        if isinstance(flow, UnionFlow):
            return sum(map(self.tasks, flow.parts))
        if isinstance(flow, FrameFlow):
            return flow.partitions
        return tasks_of(flow.total_bytes, self.slots, has_plugins=bool(self.plugins))

    def _rows_told(self, flow: NarrowFlow) -> tuple[list[list[WireRow]], list[DataFrame]]:
        """Return the rows that each task gets: the plan of its units, and the carries into them.

        What is carried in tasks is in frames.
        """
        runs = flow.runs(self.tasks(flow))
        told = [[WireRow(task, 0, 0, each)] for task, each in enumerate(flow.described(runs))]
        stops = [stop for _, stop in runs]
        frames: list[DataFrame] = []
        for chain, carries in flow.carries.items():
            units, seqs = flow.carried_units(chain)
            if isinstance(carries, list):
                tasks = np.searchsorted(stops, units, "right")
                to = dict(zip(seqs.tolist(), tasks.tolist(), strict=True))
                for row in carries:
                    if row.seq in to:
                        task = to[row.seq]
                        told[task].append(WireRow(task, row.seq + chain, row.rows, row.blob))
            elif len(units):
                frames.append(self.jobs.sent_on(carries, stops, units, seqs, chain))
        return told, frames

    def _told(self, flow: NarrowFlow) -> DataFrame:
        """Return a frame of a partition a task, whose rows tell it of its units."""
        told, frames = self._rows_told(flow)
        table = pa.Table.from_batches([wire_batch(itertools.chain.from_iterable(told))])
        tasks = len(told)
        told.clear()  # of a million segments they are 20 MB
        frame = self.jobs.sent(table)
        for more in frames:
            frame = frame.unionAll(more)
        # Spark puts rows that are sent into no more partitions than it has slots, and many bytes of
        # them into fewer.
        apart = tasks <= self.slots and table.nbytes <= MOST_SENT_BYTES
        return frame if apart and not flow.carries else self.jobs.grouped(frame, tasks)

    def units(self, flow: Flow) -> Iterator[ProcessingUnit]:
        """Run what is left to run and give the units of a flow in order."""
        if isinstance(flow, DriverFlow):
            yield from flow.units
        elif not isinstance(flow, NarrowFlow) or flow.count:
            yield from self._units_of(self.made(flow))

    def _units_of(self, rows: Iterable[WireRow]) -> Iterator[ProcessingUnit]:
        for place, own in rows_by_unit(rows):
            yield unit_of_rows(place, raise_error_rows(own), self.kinds)

    def ordered(
        self, flow: TaskFlow, then: TaskFunction | None = None
    ) -> Iterator[tuple[int, list[WireRow]]]:
        """Run a flow as :meth:`made` and give the rows of its units in plan order.

        An error from before the last barrier is raised before any unit is given, one from after it
        in the place of its unit.
        """
        for place, unit in rows_by_unit(self.made(flow, then)):
            yield place, raise_error_rows(unit)

    def made(self, flow: TaskFlow, then: TaskFunction | None = None) -> list[WireRow]:
        """Run a flow and return its rows, which ``then`` changes in the same tasks."""
        if isinstance(flow, NarrowFlow) and self.jobs.takes_rows:
            told, frames = self._rows_told(flow)
            if told and not frames:
                return self.jobs.rows_of(told, in_turn(self._source(flow), then))
        return self.rows(self.frame(flow, then), flow.barriers)

    def rows(self, frame: DataFrame, barriers: int) -> list[WireRow]:
        """Run a frame and return its rows; raise an error from before the last barrier."""
        rows = self.jobs.rows(frame)
        errors = [row for row in rows if row.rows == ERROR_ROWS and row.bucket < barriers]
        raise_error_rows(row for row in errors if row.bucket == min(e.bucket for e in errors))
        return rows

    def counts(self, flow: TaskFlow, demand: int | None) -> list[tuple[int, int]]:
        """Return the rows of the units, in order, up to the demand, without moving data."""
        counted: list[tuple[int, int]] = []
        total = 0
        rounds: Iterable[TaskFlow] = [flow]
        if demand is not None and isinstance(flow, NarrowFlow):
            rounds = self._rounds(flow)
        for part in rounds:
            if demand is not None and total >= demand:
                break
            for seq, unit in self.ordered(part, count_task()):
                counted.append((seq, sum(row.rows for row in unit)))
                total += counted[-1][1]
                if demand is not None and total >= demand:
                    break
        return counted

    def _rounds(self, flow: NarrowFlow) -> Iterator[NarrowFlow]:
        """Give the units in order, more of them each time."""
        at, size = 0, self.slots
        while at < flow.count:
            yield flow.between(at, at + size)
            at, size = at + size, size * _ROUND_GROWTH

    def few_at_a_time(self, flow: Flow, demand: int | None = None) -> Iterator[ProcessingUnit]:
        """Give the units of a flow, with no more of them in this process than fit into some bytes.

        Units that nothing was run for are also computed no earlier: so many at a time as those
        before them let expect, until there are as many rows as ``demand``. Those behind a shuffle
        are computed at once, and stay with the executors until they are asked for, where they are
        more bytes.
        """
        if isinstance(flow, NarrowFlow):
            first_bytes = PARTITION_BYTES // _MOST_EXPANSION
            size = flow.count * first_bytes // max(1, flow.total_bytes)
            if demand is not None:
                size = max(size, min(self.slots, _FIRST_ROWS // max(1, demand)))
            at, largest, given = 0, 1, 0
            while at < flow.count and (demand is None or given < demand):
                size, made = max(1, size), 0
                part = flow.between(at, at + size)
                if demand is not None:  # no unit can contribute more rows than are still wanted
                    part = part.cut(dict.fromkeys(part.seqs.tolist(), (0, demand - given)))
                for unit in self.units(part):
                    given, made = given + unit.num_rows, made + unit.nbytes
                    largest = max(largest, unit.nbytes if flow.combined is None else made // size)
                    yield unit
                at, size = at + size, min(size * _ROUND_GROWTH, PARTITION_BYTES // largest)
        elif isinstance(flow, DriverFlow):
            yield from flow.units
        else:
            frame, barriers = self.jobs.kept(self.frame(flow)), flow.barriers
            few = few_task(PARTITION_BYTES // self.tasks(flow), sizes=True)
            told = self.rows(self.jobs.mapped(frame, few), barriers)
            if not any(row.rows == WITHHELD_ROWS for row in told):
                yield from self._units_of(told)
                return
            for first, stop in _rounds(told):
                yield from self._units_of(
                    self.rows(self.jobs.between(frame, first, stop), barriers)
                )

    def counted(self, flow: TaskFlow) -> tuple[TaskFlow, list[int]]:
        """Return a flow without errors before its last barrier, and the ``seq`` of its units."""
        if isinstance(flow, NarrowFlow):
            return flow, flow.seqs.tolist()
        flow = self.kept(flow)
        return flow, [seq for seq, _ in self.counts(flow, None)]

    def kept(self, flow: TaskFlow) -> TaskFlow:
        """Return a flow that is run twice; what lies before its last barriers is run once."""
        if isinstance(flow, FrameFlow):
            return dataclasses.replace(flow, frame=self.jobs.exchanged(flow.frame))
        if isinstance(flow, UnionFlow):
            parts = [self.kept(part) for part in flow.parts]
            return UnionFlow(tuple(part for part in parts if not isinstance(part, UnionFlow)))
        return flow

    def sent(self, units: Iterator[ProcessingUnit]) -> tuple[TaskFlow, list[int]]:
        """Send units of this process to where tasks go on with them."""
        rows = [
            dataclasses.replace(row, bucket=number)
            for number, unit in enumerate(units)
            for row in unit_rows(unit, sequence(0, number), self.blob_bytes)
        ]
        frame = self.jobs.sent_rows(rows).coalesce(1)
        places = dict.fromkeys(place_of_unit(row.seq) for row in rows)
        return FrameFlow(frame, barriers=0), list(places)


def first_units(
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
            if size > MOST_SENT_BYTES:
                return held, units
    except TesselError as error:
        return held, raising_units(error)
    return held, None


def _rounds(told: Iterable[WireRow]) -> Iterator[tuple[int, int]]:
    """Cut units, or their sizes, into runs of some bytes: from which ``seq`` to which."""
    first, size = 0, 0
    for place, rows in rows_by_unit(told):
        more = sum(
            int(row.blob) if row.rows == WITHHELD_ROWS else len(row.blob)
            for row in rows
            if row.rows != ERROR_ROWS
        )
        if size and size + more > PARTITION_BYTES:
            yield first, place
            first, size = place, 0
        size += more
    yield first, LAST_SEQ

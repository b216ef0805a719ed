"""Runs plans as Spark jobs: the same stage functions, other barriers.

| before a stage that needs | what Spark does |
|---|---|
| row slices, or several symbols | nothing: the stage joins the tasks before it |
| hash buckets | an exact shuffle by bucket |
| time buckets, or a grouping of its own | the facts of all parts are collected, the clause groups them here, each part is sent to the units that want it |
| everything, reduced already | the parts are collected and the stage runs here |
| a range of positions | rows are counted, then only what is kept is computed; a limit from the front takes units in growing rounds and stops |
| everything | one task gets all parts, in order |
"""  # noqa: E501  # a table

from __future__ import annotations

import contextlib
import dataclasses
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel import telemetry
from tessel.clauses import (
    Clause,
    Limits,
    Plan,
    SourcePlan,
    Stage,
    Structure,
    UnitFacts,
    run_stages,
)
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.components import ColRange
from tessel.errors import StoreNotVisibleError, TesselError
from tessel.expression.schema import TableSchema
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.errors_wire import from_driver_exception, raise_error_rows
from tessel.spark_exec.flows import (
    DriverFlow,
    FrameFlow,
    NarrowFlow,
    UnitTask,
    chain_text,
    plugins_of,
)
from tessel.spark_exec.runtime import ignore_pandas_notice, spark_session
from tessel.spark_exec.tasks import (
    TaskFunction,
    facts_task,
    map_task,
    marker_task,
    reduce_task,
    route_task,
    source_task,
)
from tessel.spark_exec.wire import WIRE_DDL, WireRow, read_parts, received

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkExecutor"]

_TASKS_PER_SLOT = 3
_ROUND_GROWTH = 4
_MOST_ROWS_IN_ROUNDS = 1_000_000


class SparkExecutor:
    """Runs queries as Spark jobs: ``store.read(symbol, query=q, executor=SparkExecutor())``.

    Parameters
    ----------
    session
        A session of yours, used as it is. By default the one that exists, else one of our own.
    master
        For a session of our own: ``local[2]``, ``spark://host:port``, ``sc://host:port``.
    """

    name = "spark"

    def __init__(self, session: SparkSession | None = None, *, master: str | None = None) -> None:
        self._session = session if session is not None else spark_session(master)
        ignore_pandas_notice()

    @property
    def slots(self) -> int:
        """Tasks that run at a time, as far as Spark tells."""
        told = self._session.conf.get("spark.sql.shuffle.partitions", None)
        with contextlib.suppress(Exception):  # Connect has no context to ask
            return max(1, int(self._session.sparkContext.defaultParallelism))
        return max(1, int(told or 2))

    def run(self, plan: Plan) -> Iterator[pa.Table]:
        """Run a plan as Spark jobs; give the parts of the result in order.

        Raises
        ------
        StoreNotVisibleError
            For a store that workers cannot open, before any job starts.
        TesselError
            What the local pool would raise; SparkError for failures of Spark itself.
        """
        uri = _visible_uri(plan)
        stages = list(_all_stages(plan))
        with contextlib.ExitStack() as cleanup, _cancellable(self._session):
            run = _Run(self._session, uri, self.slots, plugins_of(stages), cleanup)
            for unit in run.units(run.flow(plan), plan.schema):
                if unit.num_rows:
                    yield unit.table


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        session: SparkSession,
        uri: str,
        slots: int,
        plugins: Sequence[type[Clause]],
        cleanup: contextlib.ExitStack,
    ) -> None:
        self._session = session
        self._uri = uri
        self._slots = slots
        self._plugins = plugins
        self._cleanup = cleanup

    # --- stages -----------------------------------------------------------------------------------

    def flow(self, plan: Plan) -> NarrowFlow | FrameFlow | DriverFlow:
        """Return where the result of a plan is, after all of its stages."""
        first, *rest = plan.stages
        flow: NarrowFlow | FrameFlow | DriverFlow
        if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            source = NarrowFlow.from_source(plan.inputs[0], self._uri)
            starts_with_all = first.clauses and first.input is Structure.ALL
            flow = self._after(source, first) if starts_with_all else source.then(first)
        else:
            flow = self._after(self._side_by_side(plan), first)
        for stage in rest:
            flow = self._after(flow, stage)
        return flow

    def _side_by_side(self, plan: Plan) -> NarrowFlow | FrameFlow | DriverFlow:
        """Return the units of several inputs, one input after another."""
        parts = [part for part in plan.inputs if isinstance(part, Plan)]
        flows = [self.flow(part) for part in parts]
        narrow = [flow for flow in flows if isinstance(flow, NarrowFlow)]
        if len(narrow) == len(flows):
            return NarrowFlow.side_by_side(narrow)
        return DriverFlow(self._chained(flows, [part.schema for part in parts]))

    def _chained(
        self, flows: Sequence[NarrowFlow | FrameFlow | DriverFlow], schemas: Sequence[TableSchema]
    ) -> Iterator[ProcessingUnit]:
        ordinal = 0
        for symbol, (flow, schema) in enumerate(zip(flows, schemas, strict=True)):
            for unit in self.units(flow, schema):
                pieces = [_of_symbol(piece, symbol) for piece in unit.pieces]
                yield ProcessingUnit(ordinal, unit.schema, pieces)
                ordinal += 1

    def _after(
        self, flow: NarrowFlow | FrameFlow | DriverFlow, stage: Stage
    ) -> NarrowFlow | FrameFlow | DriverFlow:
        """Return the flow after one more stage."""
        if isinstance(flow, DriverFlow):
            return DriverFlow(run_stages([stage], flow.units))
        clause = stage.clauses[0]
        if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
            return self._mapped(flow, stage)
        if clause.structure.reduced:
            return DriverFlow(run_stages([stage], self.units(flow, stage.schemas[0])))
        if isinstance(clause, Limits):
            return self._limited(flow, clause, stage)
        if type(clause).restructure is not Clause.restructure:
            return self._routed(flow, clause, stage)
        if stage.input is Structure.HASH_BUCKETED:
            return self._by_bucket(flow, stage)
        if stage.input is Structure.ALL:
            return self._all_in_one(flow, stage)
        return self._routed(flow, clause, stage)

    def _mapped(self, flow: NarrowFlow | FrameFlow, stage: Stage) -> NarrowFlow | FrameFlow:
        if isinstance(flow, NarrowFlow):
            return flow.then(stage)
        return FrameFlow(
            self._map(flow.frame, map_task(chain_text(stage.clauses, stage), self._plugins))
        )

    def _by_bucket(self, flow: NarrowFlow | FrameFlow, stage: Stage) -> FrameFlow:
        text = chain_text(stage.clauses, stage)
        return self._reduced(self._frame(flow), reduce_task(text, {}, False, self._plugins))

    def _all_in_one(self, flow: NarrowFlow | FrameFlow, stage: Stage) -> FrameFlow:
        from pyspark.sql import functions

        marker = self._map(self._session.range(0, 1, 1, 1), marker_task())
        frame = self._frame(flow).unionAll(marker).repartitionById(1, functions.lit(0))
        text = chain_text(stage.clauses, stage)
        return FrameFlow(self._map(frame, reduce_task(text, {}, True, self._plugins)))

    def _routed(self, flow: NarrowFlow | FrameFlow, clause: Clause, stage: Stage) -> FrameFlow:
        """Let the clause group the parts by their facts, then send each where it is wanted."""
        frame = self._frame(flow).persist()
        self._cleanup.callback(frame.unpersist)
        rows = self._collected(self._map(frame, facts_task()))
        rows.sort(key=lambda row: (row.seq, row.bucket))
        facts = _joined_facts(rows)
        groups = clause.restructure([fact for _, fact in facts], stage.schemas[0])
        if not groups and stage.input is Structure.ALL:
            groups = [[]]
        targets: dict[tuple[int, int], list[int]] = {}
        planned: dict[int, int] = {}
        for number, group in enumerate(groups):
            for position in group:
                (seq, bucket), _ = facts[position]
                targets.setdefault((seq, bucket), []).append(number)
                planned[seq] = planned.get(seq, 0) + 1
        telemetry.emit("barrier", units=len(groups), pieces=len(facts))
        routed = self._map(frame, route_task(targets))
        if [] in groups:  # a unit without pieces: only a clause over everything has one
            return self._all_in_one(FrameFlow(routed), stage)
        text = chain_text(stage.clauses, stage)
        return self._reduced(routed, reduce_task(text, planned, False, self._plugins))

    def _reduced(self, frame: DataFrame, task: TaskFunction) -> FrameFlow:
        from pyspark.sql import functions

        partitions = self._slots
        bucket = functions.col("bucket") % functions.lit(partitions)
        return FrameFlow(self._map(frame.repartitionById(partitions, bucket), task))

    # --- limits -----------------------------------------------------------------------------------

    def _limited(
        self, flow: NarrowFlow | FrameFlow, clause: Limits, stage: Stage
    ) -> NarrowFlow | FrameFlow | DriverFlow:
        demand = clause.demand()
        rest = Stage(stage.clauses[1:], stage.schemas[1:])
        if isinstance(flow, FrameFlow):
            units = self.units(flow, stage.schemas[0])
            return DriverFlow(run_stages([stage], units))
        if demand is not None and demand <= _MOST_ROWS_IN_ROUNDS:
            rounds = self._in_rounds(flow, demand, stage.schemas[0])
            return DriverFlow(run_stages([stage], rounds))
        counted = self._counts(flow)
        start, stop = clause.ranges(sum(rows for _, rows in counted))
        cuts: dict[int, tuple[int, int]] = {}
        at = 0
        for seq, rows in counted:
            low, high = max(start - at, 0), min(stop - at, rows)
            if low < high:
                cuts[seq] = (low, high)
            at += rows
        return flow.cut(cuts).then(rest)

    def _counts(self, flow: NarrowFlow) -> list[tuple[int, int]]:
        """Return the rows of every unit, in order, without moving data."""
        rows = self._collected(self._map(self._frame(flow), facts_task()))
        counts = dict.fromkeys((unit.seq for unit in flow.units), 0)
        for row in rows:
            counts[row.seq & ~0xFFFF] += row.rows
        return sorted(counts.items())

    def _in_rounds(
        self, flow: NarrowFlow, demand: int, schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give units in order, computing more of them each round until the demand is met."""
        at, size, given = 0, self._slots, 0
        while at < len(flow.units) and given < demand:
            chosen: Sequence[UnitTask] = flow.units[at : at + size]
            at, size = at + size, size * _ROUND_GROWTH
            # No unit can contribute more rows than are still wanted.
            wanted = flow.only(chosen).cut({unit.seq: (0, demand - given) for unit in chosen})
            for unit in self.units(wanted, schema):
                given += unit.num_rows
                yield unit

    # --- Spark ------------------------------------------------------------------------------------

    def _frame(self, flow: NarrowFlow | FrameFlow) -> DataFrame:
        if isinstance(flow, FrameFlow):
            return flow.frame
        partitions = flow.packed(self._slots * _TASKS_PER_SLOT)
        numbers = self._session.range(0, len(partitions), 1, max(1, len(partitions)))
        return self._map(numbers, source_task(flow.specification(partitions), self._plugins))

    @staticmethod
    def _map(frame: DataFrame, task: TaskFunction) -> DataFrame:
        return frame.mapInArrow(task, WIRE_DDL)

    def _collected(self, frame: DataFrame) -> list[WireRow]:
        with telemetry.span("spark.job"):
            try:
                batches = frame.toArrow().to_batches()
            except TesselError:
                raise
            except Exception as error:
                raise from_driver_exception(error) from error
        return raise_error_rows(received(batches))

    def units(
        self, flow: NarrowFlow | FrameFlow | DriverFlow, schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Run what is left to run and give the units of a flow in order."""
        if isinstance(flow, DriverFlow):
            yield from flow.units
            return
        if isinstance(flow, NarrowFlow) and not flow.units:
            return
        rows = self._collected(self._frame(flow))
        by_seq = sorted(read_parts(rows), key=lambda part: (part.seq, part.bucket))
        for ordinal, part in enumerate(by_seq):
            kept = TableSchema(part.table.schema.remove_metadata(), part.facts.index)
            piece = Piece(
                part.table,
                part.facts.row_range,
                ColRange(0, part.table.num_columns),
                part.facts.time_range,
                0 if part.facts.symbol is None else part.facts.symbol.ordinal,
                part.bucket,
                part.facts.fetches,
            )
            yield ProcessingUnit(ordinal, kept, [piece])


def _joined_facts(rows: Iterable[WireRow]) -> list[tuple[tuple[int, int], UnitFacts]]:
    """Return the facts of each part, its pieces counted together."""
    found: dict[tuple[int, int], UnitFacts] = {}
    for row in rows:
        key = (row.seq & ~0xFFFF, row.bucket)
        facts = PartFacts.from_json(json.loads(row.blob))
        before = found[key].rows if key in found else 0
        found[key] = UnitFacts(
            key[0] >> 16,
            before + row.rows,
            facts.row_range,
            ColRange(0, 0),
            facts.time_range,
            0 if facts.symbol is None else facts.symbol.ordinal,
            row.bucket,
        )
    return list(found.items())


def _of_symbol(piece: Piece, symbol: int) -> Piece:
    return dataclasses.replace(piece, symbol=symbol)


def _all_stages(plan: Plan) -> Iterator[Stage]:
    for part in plan.inputs:
        if isinstance(part, Plan):
            yield from _all_stages(part)
    yield from plan.stages


def _visible_uri(plan: Plan) -> str:
    """Return where the store is, if processes of their own can open it."""
    first = plan.inputs[0]
    if isinstance(first, Plan):
        return _visible_uri(first)
    uri = str(first.view.source().objects.uri)
    if uri.startswith("memory:"):
        raise StoreNotVisibleError(
            f"Spark's workers cannot open {uri!r}, which lives in this process alone",
            hint="open a store in a directory that the workers see, or run the query locally",
            uri=uri,
        )
    return uri


@contextlib.contextmanager
def _cancellable(session: SparkSession) -> Iterator[None]:
    """Cancel the jobs of the block when it is left by an error, Ctrl-C or a closed iterator."""
    tag = f"tessel-{uuid.uuid4().hex}"
    session.addTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the session may be what failed
            session.interruptTag(tag)
        raise
    finally:
        with contextlib.suppress(Exception):
            session.removeTag(tag)

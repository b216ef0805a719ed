"""The pipeline on threads: units in, stages and barriers, units out in plan order.

Between stages units are entities of a component manager: what a stage leaves is pushed, the next
clause groups it by its facts, and each new unit gathers what it was given. Where a clause takes a
stream (``consume``), or only needs row slices one by one, nothing is held back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel import telemetry
from tessel.clauses.base import Clause, Structure
from tessel.clauses.plan import Plan, SourcePlan, Stage, answered
from tessel.clauses.powers import Broadcasts, Consumes, Expands, Interleaves, ReducesPieces
from tessel.clauses.running.barrier import Barrier
from tessel.clauses.running.carrying import carried_units
from tessel.clauses.running.late_reading import read_pieces, reduce_stored
from tessel.clauses.running.local_pool import LocalPool, Task
from tessel.clauses.running.packing import joins_slices, packs_of
from tessel.clauses.running.stage import (
    begun_stage,
    bound_stage,
    consume_units,
    interleave_units,
    piece_of,
    reduce_pieces,
    run_clauses,
    run_stage,
    stages_of_parts,
)
from tessel.clauses.spill import Workspace
from tessel.clauses.structures import structure_by_row_slice
from tessel.ecs import (
    ColRange,
    Columns,
    ComponentManager,
    FactColumn,
    FetchCount,
    Piece,
    ProcessingUnit,
    RowRange,
    SegmentKey,
    Statistics,
    Symbol,
    TimeRange,
)
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.kernels import compiled_kernels
from tessel.options import Options, current
from tessel.store import PieceSource

__all__ = ["Executor", "LocalExecutor", "result_table", "run_stages", "run_units", "symbols_of"]


_Counted = tuple[ProcessingUnit, list[tuple[Stage, int]]]
"""A unit, and what makes its output part by part, with the bytes of each."""


class Executor(Protocol):
    """Something that runs plans: the local pool, or Spark.

    One that brings partial results to one place, whatever the memory there, says with an attribute
    ``gathered_bytes`` how many bytes that may be.
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
        plan = answered(plan, self.run)
        with _running(options) as run:
            try:
                for unit in run.units(plan):
                    if unit.num_rows:
                        yield unit.table
            except TesselError as error:
                error.with_context(symbol=symbols_of(plan))
                raise


def result_table(parts: Iterator[pa.Table], schema: TableSchema) -> pa.Table:
    """Return the parts of a result as one table, also where there are none."""
    tables = list(parts)
    return pa.concat_tables(tables) if tables else schema.empty()


def table_as_read(units: Sequence[ProcessingUnit], schema: TableSchema) -> pa.Table:
    """Return units as one table: with text as it was read, where that is alike in all of them."""
    tables = [unit.table_as_read for unit in units]
    if len({table.schema for table in tables}) > 1:
        tables = [unit.table for unit in units]
    return pa.concat_tables(tables) if tables else schema.empty()


def symbols_of(plan: Plan) -> str:
    """Name what a plan reads, for errors of stages that see several symbols as one."""
    return ", ".join(dict.fromkeys(_shown_symbols(plan)))


def _shown_symbols(plan: Plan) -> Iterator[str]:
    for part in plan.inputs:
        if isinstance(part, Plan):
            yield from _shown_symbols(part)
        else:
            yield f"{part.view.name!r} (version {part.view.version})"


def run_stages(
    stages: Sequence[Stage], units: Iterator[ProcessingUnit], options: Options | None = None
) -> Iterator[ProcessingUnit]:
    """Run stages on units that are here already; the last steps of another executor's query."""
    with _running(options or current()) as run:
        yield from run.stages(stages, units)


def run_units(plan: Plan, options: Options | None = None) -> Iterator[ProcessingUnit]:
    """Run a plan here whose units another executor wants; errors lack the symbols of its query."""
    with _running(options or current()) as run:
        yield from run.units(plan)


@contextlib.contextmanager
def _running(options: Options) -> Iterator[_Run]:
    # Threads end before the files close that they may be reading.
    with (
        ComponentManager() as manager,
        Workspace(options) as workspace,
        LocalPool(options, workspace.account) as pool,
    ):
        yield _Run(manager, pool, workspace)


class _Run:
    """One execution of a plan."""

    def __init__(self, manager: ComponentManager, pool: LocalPool, workspace: Workspace) -> None:
        self._manager = manager
        self._pool = pool
        self._workspace = workspace

    def units(self, plan: Plan, symbol: int = 0) -> Iterator[ProcessingUnit]:
        first, *rest = plan.stages
        if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            units = self._first_stage(plan.inputs[0], first, symbol)
        elif isinstance(first.clauses[0], Broadcasts):
            return self._broadcast(plan)
        elif isinstance(first.clauses[0], Interleaves):
            units = interleave_units(first, self._inputs(plan))
        else:
            units = self._next_stage(first, self._renumbered(plan))
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
        self._workspace.account.add(held)
        try:
            first, *rest = (bound_stage(stage, tables) for stage in plan.stages)
            yield from self.stages(rest, self._one_by_one(first, units))
        finally:
            self._workspace.account.add(-held)

    def _inputs(self, plan: Plan) -> list[Iterator[ProcessingUnit]]:
        """Return the units of each symbol; nothing runs before the first is asked for."""
        inputs = []
        for symbol, part in enumerate(plan.inputs):
            assert isinstance(part, Plan)  # a symbol alone is planned as a Plan with one source
            inputs.append(self.units(part, symbol))
        return inputs

    def _renumbered(self, plan: Plan) -> Iterator[ProcessingUnit]:
        """Give the units of several symbols as one sequence, each piece with its ordinal."""
        ordinals = itertools.count()
        for symbol, units in enumerate(self._inputs(plan)):
            for unit in units:
                pieces = [dataclasses.replace(piece, symbol=symbol) for piece in unit.pieces]
                yield ProcessingUnit(next(ordinals), unit.schema, pieces)

    # --- the first stage: from segments -----------------------------------------------------------

    def _first_stage(
        self, source: SourcePlan, stage: Stage, symbol: int
    ) -> Iterator[ProcessingUnit]:
        if stage.input is Structure.ALL and isinstance(stage.clauses[0], ReducesPieces):
            # It may be given everything in parts: then not all of it is read at once either.
            slices = structure_by_row_slice(source.index)
            source = dataclasses.replace(source, units=slices.units)
        stage = begun_stage(stage)
        loader = _Loader(self._manager, source, symbol)
        count = len(source.units)
        telemetry.emit("stage.start", units=count, symbol=source.view.name)
        schema = stage.schemas[0]
        if stage.input is Structure.ALL or stage.carries is not None:
            reading = Stage((), (schema,))
            yield from self._next_stage(stage, self._load_units(loader, source, reading))
            return
        yield from self._load_units(loader, source, stage)

    def _load_units(
        self, loader: _Loader, source: SourcePlan, stage: Stage
    ) -> Iterator[ProcessingUnit]:
        def read(ordinal: int) -> Task[ProcessingUnit]:
            positions = source.units[ordinal]

            def run() -> ProcessingUnit:
                with _named(source):
                    pieces, done = loader.gather(positions, stage.clauses, ordinal)
                    unit = ProcessingUnit(ordinal, stage.schemas[done], pieces)
                    return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

            return Task(run, loader.bytes(positions))

        def reduced(pack: range) -> Task[ProcessingUnit | None]:
            if len(pack) == 1:
                alone = read(pack.start)
                return Task(alone.run, alone.bytes)
            positions = [position for unit in pack for position in source.units[unit]]

            def run() -> ProcessingUnit | None:
                with _named(source):
                    found = loader.reduced(positions, stage.clauses, pack.start)
                    if found is None:
                        return None
                    piece, done = found
                    unit = ProcessingUnit(pack.start, stage.schemas[done], [piece])
                    return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

            return Task(run, loader.bytes(positions))

        ordinals = range(len(source.units))
        if not joins_slices(stage.clauses):
            yield from self._pool.map(map(read, ordinals))
            return
        packs = packs_of(*loader.sizes(), self._pool.workers, self._workspace.account.limit)
        # Those that need values say so at once: they run together, in their places.
        left: list[int] = []
        for pack, unit in zip(packs, self._pool.map(map(reduced, packs)), strict=True):
            if unit is None:
                left += pack
                continue
            if left:
                yield from self._pool.map(map(read, left))
                left = []
            yield unit
        yield from self._pool.map(map(read, left))

    # --- later stages: from units -----------------------------------------------------------------

    def _next_stage(
        self, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        clause = stage.clauses[0]
        if stage.carries is not None:
            return carried_units(stage, before, self._pool, self._workspace)
        if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
            return self._one_by_one(stage, before)
        if isinstance(clause, Consumes):
            return self._consumed(stage, before)
        return self._regrouped(clause, stage, before)

    def _one_by_one(
        self, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        if stage.clauses and isinstance(stage.clauses[0], Expands):
            return self._in_parts(stage, before)

        def task(unit: ProcessingUnit) -> Task[ProcessingUnit]:
            return Task(lambda: run_stage(stage, unit), unit.nbytes)

        return self._pool.map(task(unit) for unit in before)

    def _in_parts(self, stage: Stage, before: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
        """Let a clause that may make many rows of few give them some at a time, each a unit."""

        def counted(unit: ProcessingUnit) -> Task[_Counted]:
            return Task(lambda: (unit, stages_of_parts(stage, unit)), unit.nbytes)

        ordinals = itertools.count()
        return self._pool.map(
            _part(next(ordinals), of, unit, size)
            for unit, parts in self._pool.map(counted(unit) for unit in before)
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
            self._workspace.account.add(unit.nbytes)
            try:
                yield from self._pool.map(
                    _part(next(ordinals), of, unit, size) for of, size in parts
                )
            finally:
                self._workspace.account.add(-unit.nbytes)

    def _consumed(self, stage: Stage, before: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
        try:
            yield from consume_units(stage, self._workspace.stream(before))
        finally:
            close = getattr(before, "close", None)
            if close is not None:
                close()

    def _regrouped(
        self, clause: Clause, stage: Stage, before: Iterator[ProcessingUnit]
    ) -> Iterator[ProcessingUnit]:
        schema = stage.schemas[0]
        with Barrier(self._manager, self._workspace) as barrier:
            for unit in before:
                barrier.push(unit)
            groups = clause.restructure(barrier.facts, schema)
            if not groups and stage.input is Structure.ALL:
                groups = [[]]  # a clause over everything also answers for nothing
            barrier.expect(groups)
            telemetry.emit("barrier", units=len(groups), pieces=len(barrier.facts))

            def task(ordinal: int, group: Sequence[int]) -> Task[ProcessingUnit]:
                def run() -> ProcessingUnit:
                    unit = ProcessingUnit(ordinal, schema, barrier.gather(group))
                    return run_stage(stage, unit)

                def run_in_parts() -> ProcessingUnit:
                    parts = self._workspace.stream(barrier.parts(group, ordinal, schema))
                    return reduce_pieces(stage, ordinal, barrier.facts[group[0]].bucket, parts)

                if isinstance(clause, ReducesPieces) and barrier.is_too_much(group):
                    return Task(run_in_parts, 0)  # it accounts for what it holds
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
            if isinstance(clause, Expands):
                tasks = itertools.starmap(counted, numbered)
                yield from self._buckets_in_parts(self._pool.map(tasks))
            else:
                yield from self._pool.map(itertools.starmap(task, numbered))


@contextlib.contextmanager
def _named(source: SourcePlan) -> Iterator[None]:
    """Let errors name the symbol that is read."""
    try:
        yield
    except TesselError as error:
        view = source.view
        error.with_context(symbol=f"{view.name!r} (version {view.version})")
        raise


def _part(ordinal: int, of: Stage, unit: ProcessingUnit, size: int) -> Task[ProcessingUnit]:
    """Return the task that makes one part of the output of a unit."""
    renumbered = ProcessingUnit(ordinal, unit.schema, unit.pieces)
    return Task(lambda: run_stage(of, renumbered), size)


class _Loader:
    """The entities of one source: segments that are read when the first unit wants them."""

    def __init__(self, manager: ComponentManager, source: SourcePlan, symbol: int) -> None:
        self._manager = manager
        self._source = source
        self._segments = source.view.source()
        self._symbol = symbol
        self._rows = 0
        planned: dict[int, int] = {}
        for unit in source.units:
            for position in unit:
                planned[position] = planned.get(position, 0) + 1
        positions = sorted(planned)
        self._bytes = source.index.bytes
        entities = manager.add(len(positions), self._components(planned, positions))
        self._entities = dict(zip(positions, entities, strict=True))
        # Only an entity that several units want can be asked for by two threads at once.
        self._locks = {p: threading.Lock() for p, count in planned.items() if count > 1}

    def _components(
        self, planned: Mapping[int, int], positions: Sequence[int]
    ) -> dict[type, Sequence[object]]:
        index = self._source.index
        pieces = [index.source(position) for position in positions]
        symbol = Symbol(self._symbol, self._source.view.name)
        slices = index.slice_number[list(positions)]
        columns: dict[type, Sequence[object]] = {
            RowRange: [piece.row_range for piece in pieces],
            ColRange: [piece.col_range for piece in pieces],
            SegmentKey: [piece.key for piece in pieces],
            Symbol: [symbol] * len(pieces),
            Statistics: FactColumn(
                Statistics, view=[index.statistics] * len(pieces), row_slice=slices
            ),
            PieceSource: pieces,
            FetchCount: [FetchCount(planned[p], planned[p]) for p in positions],
        }
        times = [piece.time_range for piece in pieces if piece.time_range is not None]
        return columns | ({TimeRange: times} if len(times) == len(pieces) else {})

    def bytes(self, positions: Sequence[int]) -> int:
        """Return the estimated bytes of a unit."""
        return int(self._bytes[list(positions)].sum())

    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows and the stored bytes of each unit, int64, shape ``(units,)``."""
        index, units = self._source.index, self._source.units
        first = [unit[0] for unit in units]
        bytes_of = np.fromiter((self._bytes[unit].sum() for unit in units), np.int64, len(units))
        return index.row_end[first] - index.row_start[first], bytes_of

    def reduced(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[Piece, int] | None:
        """Return what the first clauses make of units as they are stored; None to read them."""
        entities = [self._entities[position] for position in positions]
        sources, counts = self._manager.get(entities, PieceSource, FetchCount)
        if any(count.planned != 1 for count in counts):
            return None
        found = reduce_stored(
            sources,
            self._segments,
            self._source.index.schema,
            clauses,
            symbol=self._symbol,
            unit=unit,
        )
        if found is not None:
            self._manager.gather(entities)
        return found

    def gather(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[list[Piece], int]:
        """Return the pieces of a unit, and how many of the clauses have chosen what was read."""
        if self._locks.keys().isdisjoint(positions):
            return self._read(positions, clauses, unit)
        pieces = []
        for position in positions:
            with self._locks.get(position, _NO_LOCK):
                pieces += self._gather(position)
        return pieces, 0

    def _gather(self, position: int) -> list[Piece]:
        """Return a piece that other threads may be asking for, read now or before."""
        entity = self._entities[position]
        ((source,), (count,)) = self._manager.get([entity], PieceSource, FetchCount)
        if count.live == count.planned:
            return self._read([position], (), 0)[0]
        ((columns,),) = self._manager.gather([entity], Columns)
        return [piece_of(source, columns.table, self._symbol, count.planned)]

    def _read(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[list[Piece], int]:
        """Read pieces whose entities no other thread can be asking for now."""
        entities = [self._entities[position] for position in positions]
        sources, counts = self._manager.get(entities, PieceSource, FetchCount)
        if clauses:
            # Many rows gain by compiled kernels, also where each unit has few.
            self._rows += sources[0].row_stop - sources[0].row_start
            compiled_kernels(self._rows, "limb_lines")
        pieces, done = read_pieces(
            sources,
            [count.planned for count in counts],
            self._segments,
            self._source.index.schema,
            clauses,
            symbol=self._symbol,
            unit=unit,
        )
        if len(pieces) == len(entities):  # what was reduced is no longer the data of its segments
            self._manager.attach(entities, {Columns: [Columns(piece.table) for piece in pieces]})
        self._manager.gather(entities)
        return pieces, done


_NO_LOCK = contextlib.nullcontext()

"""Reads a query on a symbol as partitions of a DataFrame.

Spark plans a read in processes of its own: one makes the data source and asks for the schema, which
is when the version is pinned (:func:`pinned`); one for each action makes a reader, which plans the
query on that version. Tasks then read units, by the stage functions of the executor.

Where a query groups rows of several units anew, a data source has no exchange to do it with: one
task then runs all of it, on the local executor, within its byte budget. ``LazyTable.to_spark``
exchanges.

The reader has no ``pushFilters``: what Spark pushes stays with the relation, and a DataFrame that
is used twice would lose rows. There is no call by which it tells which columns it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tessel.clauses.capabilities import Broadcasts, Interleaves
from tessel.clauses.combining import SubQuery
from tessel.errors import SchemaMismatchError
from tessel.lazy import dataclass
from tessel.options import options as process_options
from tessel.pipeline.executor import LocalExecutor
from tessel.pipeline.plan import Plan, SourcePlan, Stage, plugins_of
from tessel.pipeline.planner.planner import plan_query, query_schema
from tessel.spark_exec.flows import NarrowFlow
from tessel.spark_exec.placement import Data, Step, step_of
from tessel.spark_exec.source.options import ReadOptions
from tessel.spark_exec.source.rows import row_batches
from tessel.spark_exec.source.types import spark_schema, wire_schema
from tessel.spark_exec.submission import check_same_package, package_build
from tessel.spark_exec.unit_columns import tasks_of
from tessel.spark_exec.units import source_units
from tessel.store.objects.open import address_of
from tessel.store.repository import Repository
from tessel.store.view import PinnedViews


@dataclass(frozen=True)
class Pin:
    """The snapshot that a DataFrame reads, however often it is run.

    Attributes
    ----------
    store
        The id of the store.
    version
        Its version.
    build
        The package that chose it.
    """

    store: str
    version: int
    build: str = field(default_factory=package_build)


def pinned(asked: ReadOptions) -> tuple[Pin, StructType]:
    """Return the snapshot that options mean now, and the schema of what they read.

    Raises
    ------
    TesselError
        For a store, symbol, version, query or type that cannot be read.
    """
    repository = asked.place.opened(read_only=True)
    catalog = _catalog(repository, asked, None)
    schema = query_schema(catalog, _query(asked))
    return Pin(repository.id, catalog.version), spark_schema(schema.arrow)


def made_reader(asked: ReadOptions, pin: Pin, declared: StructType, slots: int) -> DataSourceReader:
    """Plan what is read at a snapshot, by tasks of which so many run at a time.

    Raises
    ------
    SchemaMismatchError
        Where the declared schema is not that of the result.
    """
    repository = _reopened(asked, pin)
    plan = plan_query(_catalog(repository, asked, pin), _query(asked))
    made = spark_schema(plan.schema.arrow)
    if [(f.name, f.dataType) for f in made] != [(f.name, f.dataType) for f in declared]:
        raise SchemaMismatchError(
            f"the schema that was declared is not that of symbol {asked.place.symbol!r}",
            detail=f"declared: {declared.simpleString()}\nread:     {made.simpleString()}",
            hint='leave schema() out; the options "columns" and "query" choose and cast columns',
            symbol=asked.place.symbol,
        )
    address = json.dumps(address_of(repository.objects))
    has_plugins = bool(plugins_of(plan))
    flow = narrow_flow(plan, address, joins_units=not has_plugins)
    if flow is None:
        return SymbolReader(asked, pin, wire_schema(declared))
    runs = flow.runs(tasks_of(flow.total_bytes, slots, has_plugins=has_plugins))
    return SymbolReader(asked, pin, wire_schema(declared), flow.head(), flow.described(runs))


def narrow_flow(plan: Plan, address: str, *, joins_units: bool) -> NarrowFlow | None:
    """Return the units of a plan that each task makes by itself; None where rows are exchanged.

    Small units may be one where ``joins_units``.
    """
    first, *rest = plan.stages
    if plan.question is not None or any(isinstance(c, Broadcasts) for c in first.clauses):
        return None
    flow: NarrowFlow | None
    if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
        if first.is_read_apart:
            return None
        flow = NarrowFlow.from_source(plan.inputs[0], first, address, joins_units=joins_units)
    else:
        inputs = [part for part in plan.inputs if isinstance(part, Plan)]
        flows = [narrow_flow(part, address, joins_units=joins_units) for part in inputs]
        found = [flow for flow in flows if flow is not None]
        if len(found) < len(flows) or not needs_no_exchange(first):
            return None
        flow = NarrowFlow.side_by_side(found).then(first)
    for stage in rest:
        if not needs_no_exchange(stage):
            return None
        flow = flow.then(stage)
    return flow


@dataclass(eq=False)
class SymbolReader(DataSourceReader):
    """Reads units side by side, those of a partition one after another; it is sent to each task.

    Attributes
    ----------
    asked, pin, schema
        What is read, of which snapshot, in which types.
    head
        What each task is told of all units; None where one task runs all of the query.
    told
        What each task is told of its own; the reader goes to all of them without it.
    """

    asked: ReadOptions
    pin: Pin
    schema: pa.Schema
    head: str | None = None
    told: Sequence[bytes | None] = (None,)

    def partitions(self) -> list[InputPartition]:
        """Return what each task is told."""
        told, self.told = self.told, ()
        return [InputPartition(each) for each in told]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a partition."""
        repository = _reopened(self.asked, self.pin)
        with repository.reading(self.pin.version):
            for table in self._tables(repository, partition.value):
                yield from row_batches(table, self.schema)

    def _tables(self, repository: Repository, told: bytes | None) -> Iterator[pa.Table]:
        if self.head is None:
            with process_options(workers=1):  # a task has one slot
                plan = plan_query(_catalog(repository, self.asked, self.pin), _query(self.asked))
                yield from LocalExecutor().run(plan)
        elif told is not None:  # which Spark makes where there are no partitions
            for _, run in source_units(self.head, told, b""):
                yield run().table


def needs_no_exchange(stage: Stage) -> bool:
    """Whether a stage treats each unit by itself."""
    if stage.clauses and isinstance(stage.clauses[0], Broadcasts | Interleaves):
        return False
    return step_of(Data.NARROW, stage, is_last=False) is Step.GO_ON


def _query(asked: ReadOptions) -> SubQuery:
    return SubQuery(asked.place.symbol, None, asked.query.clauses)


def _catalog(repository: Repository, asked: ReadOptions, pin: Pin | None) -> PinnedViews:
    as_of = asked.as_of if pin is None else pin.version
    return PinnedViews(repository, repository.view(asked.place.symbol, as_of))


def _reopened(asked: ReadOptions, pin: Pin) -> Repository:
    check_same_package(pin.build)
    return asked.place.reopened(pin.store, read_only=True)

"""Units of a plan as a task reads them, from what it is told of its partition.

Tasks of the executor and readers of the data source enter here, so that both run the same stage
functions. A worker opens the store itself and keeps its readers between tasks.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.clauses.units.bound_unit import bound_unit
from tessel.clauses.units.pieces import load_piece
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.errors.root import naming
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Stage
from tessel.pipeline.source_loader import run_joined
from tessel.pipeline.stage import renumbered, run_bound, without_segments
from tessel.spark_exec.chains import (
    CUT,
    NOTHING_GIVEN,
    Given,
    chain_from_text,
    ready_chain,
    run_chain,
)
from tessel.spark_exec.unit_columns import ToldUnit, read_told
from tessel.spark_exec.wire import CARRY_ROWS, sequence
from tessel.store.history.documents import open_store, reopened
from tessel.store.manifest.bindings import Bindings
from tessel.store.manifest.piece import SegmentSource
from tessel.store.objects.open import open_address

if TYPE_CHECKING:
    from tessel.spark_exec.tasks import TaskFunction

UnitRun = Callable[[], ProcessingUnit]
"""Reads a unit and runs its chains."""


Carried = Mapping[int, Sequence[bytes]]
"""What wire rows bring to units: by the ``seq`` of the unit with the number of the chain."""


def told_units(
    head: str, batches: Iterable[pa.RecordBatch], plugins: bytes, given: Given = NOTHING_GIVEN
) -> Iterator[tuple[int, UnitRun]]:
    """Give the units of a task, whose wire rows tell of them and bring what is carried to them.

    Parameters and results are as of :func:`source_units`.
    """
    told: list[pa.Buffer] = []
    carried: dict[int, list[bytes]] = {}
    for batch in batches:
        for seq, rows, blob in zip(*map(batch.column, ("seq", "rows", "blob")), strict=True):
            if rows.as_py() == CARRY_ROWS:
                carried.setdefault(seq.as_py(), []).append(blob.as_py())
            else:
                told.append(blob.as_buffer())
    for each in told:
        yield from source_units(head, each, plugins, given, carried)


def source_units(
    head: str,
    described: pa.Buffer | bytes,
    plugins: bytes,
    given: Given = NOTHING_GIVEN,
    carried: Carried | None = None,
) -> Iterator[tuple[int, UnitRun]]:
    """Give the units of a partition as ``seq`` and what reads the unit and runs its chains.

    Parameters
    ----------
    head, described
        What :class:`~tessel.spark_exec.flows.NarrowFlow` tells every task, and one of them.
    plugins
        Clause classes that are not part of the package.
    given
        Tables that clauses of the chains are given.
    carried
        What is carried to units.
    """
    told = json.loads(head)
    chains = [ready_chain(text, plugins, given) for text in told["chains"]]
    for unit in read_told(described):
        track = told["tracks"][unit.track]
        yield unit.seq, functools.partial(_run, track, chains, unit, plugins, carried or {})


def _run(
    track: Mapping[str, Any],
    chains: Sequence[Stage],
    described: ToldUnit,
    plugins: bytes,
    carried: Carried,
) -> ProcessingUnit:
    unit = _read(track, described, plugins)
    cuts, places = iter(described.cuts), iter(described.places)
    place = next(places)
    for how, *chain in track["steps"]:
        if chain:
            (number,) = chain
            blobs = carried.get(sequence(*place) + number, ())
            unit = run_chain(how, chains[number], unit, blobs)
        elif how == CUT:
            start, stop = next(cuts)
            unit = without_segments(unit.slice(start, stop - start))
        else:
            place = next(places)
            unit = renumbered(unit, *place)
    return unit


@functools.lru_cache(maxsize=64)
def _segments(address: str, store: str, schema: str, column_ids: str) -> SegmentSource:
    """Return the reader of a symbol; it survives tasks, and with it what was verified."""
    objects = open_address(json.loads(address))
    reopened(objects.uri, store, lambda: open_store(objects, create=False, read_only=True))
    return SegmentSource(objects, _schema(schema), json.loads(column_ids))


@functools.lru_cache(maxsize=64)
def _schema(text: str) -> TableSchema:
    return TableSchema.from_json(json.loads(text))


def _read(track: Mapping[str, Any], described: ToldUnit, plugins: bytes) -> ProcessingUnit:
    """Read a unit and run the first stage of its symbol, which its errors name."""
    symbol, ordinal = described.places[0]
    with naming(symbol=track["shown"]):
        segments = _segments(*map(track.__getitem__, ("address", "store", "schema", "column_ids")))
        schema = _schema(track["read_schema"])
        stage = Stage((), (schema,))
        if track["chain"] is not None:
            stage = chain_from_text(track["chain"], plugins)
        sources, planned = described.pieces, described.planned
        if described.joined > 1:
            groups = itertools.groupby(sources, key=lambda each: each.row_start)
            units = [list(group) for _, group in groups]
            return run_joined(stage, units, segments, ordinal, symbol)
        if sources and all(count == 1 for count in planned):
            unit: ProcessingUnit = bound_unit(sources, segments, Bindings(schema), ordinal, symbol)
        else:
            pieces = [
                load_piece(source, segments.load, symbol, count)
                for source, count in zip(sources, planned, strict=True)
            ]
            unit = ProcessingUnit(ordinal, schema, pieces)
        return run_bound(stage, unit)


def in_turn(first: TaskFunction, then: TaskFunction | None) -> TaskFunction:
    """Return the task that does one thing and then, where there is another, that."""
    return first if then is None else lambda batches: then(first(batches))


def raising_units(error: TesselError) -> Iterator[ProcessingUnit]:
    """Return an iterator of units that raises the error when its first unit is asked for."""

    def fail(_: None) -> ProcessingUnit:
        raise error

    return map(fail, [None])

"""What runs in Spark's workers: units of a plan in, wire rows out.

The functions here are handed to ``mapInArrow`` with a specification of plain data. They load
clauses, schemas and pieces from it, run the same stage functions as the local pool, and turn every
failure into an error row. A worker opens the store itself and keeps its readers between tasks.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tessel.clauses import Clause, clauses_from_json, load_piece, register, run_clauses
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.components import ColRange, Symbol
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.spark_exec.blobs import PartFacts, decode
from tessel.spark_exec.errors_wire import ERROR_ROWS, error_row
from tessel.spark_exec.wire import (
    ReceivedPart,
    WireRow,
    read_parts,
    received,
    sequence,
    wire_batch,
    wire_rows,
)
from tessel.store import PieceSource, SegmentSource, open_objects

__all__ = [
    "MARKER_ROWS",
    "Chain",
    "TaskFunction",
    "chain_to_json",
    "facts_task",
    "map_task",
    "marker_task",
    "reduce_task",
    "route_task",
    "source_task",
]

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes."""

MARKER_ROWS = -2
"""Value of ``rows`` of a wire row that only makes a task run where there may be no data."""

_PIECE_MASK = (1 << 16) - 1


@dataclass(frozen=True)
class Chain:
    """Clauses that run one after another on a unit, and the schema before and after each."""

    clauses: tuple[Clause, ...]
    schemas: tuple[TableSchema, ...]


def chain_to_json(chain: Chain) -> dict[str, Any]:
    """Return a chain as plain data."""
    return {
        "clauses": [clause.to_json() for clause in chain.clauses],
        "schemas": [schema.to_json() for schema in chain.schemas],
    }


@functools.lru_cache(maxsize=256)
def _chain(text: str) -> Chain:
    data = json.loads(text)
    schemas = tuple(TableSchema.from_json(item) for item in data["schemas"])
    return Chain(clauses_from_json(data["clauses"]), schemas)


@functools.lru_cache(maxsize=64)
def _segments(uri: str, schema: str, column_ids: str) -> SegmentSource:
    """Return the reader of a symbol; it survives tasks, and with it what was verified."""
    objects = open_objects(uri)
    return SegmentSource(objects, TableSchema.from_json(json.loads(schema)), json.loads(column_ids))


# --- units from segments --------------------------------------------------------------------------


def source_task(specification: str, plugins: Sequence[type[Clause]]) -> TaskFunction:
    """Return the task that reads units and runs their chains.

    Parameters
    ----------
    specification
        JSON: ``sources`` (uri, schema, column ids, name), ``chains``, and ``partitions``: for each
        partition its units, each with ``seq``, ``symbol``, ``source``, ``pieces``, ``planned`` and
        ``steps`` (numbers of chains, or ``[start, stop]`` cuts).
    plugins
        Clause classes that are not part of the package; they travel with the function.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _register(plugins)
        data = _specification(specification)
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                for unit in data["partitions"][partition]:
                    yield wire_batch(_guarded(lambda: _run_unit(data, unit), unit["seq"]))  # noqa: B023  # called at once

    return run


@functools.lru_cache(maxsize=8)
def _specification(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    return data


def _run_unit(data: Mapping[str, Any], described: Mapping[str, Any]) -> list[WireRow]:
    source = data["sources"][described["source"]]
    segments = _segments(source["uri"], source["schema"], source["column_ids"])
    symbol = described["symbol"]
    try:
        pieces = [
            load_piece(PieceSource.from_json(piece), segments, symbol, planned)
            for piece, planned in zip(described["pieces"], described["planned"], strict=True)
        ]
        schema = TableSchema.from_json(json.loads(source["read_schema"]))
        unit = ProcessingUnit(described["ordinal"], schema, pieces)
        for step in described["steps"]:
            if isinstance(step, int):
                unit = _run_chain(_chain(data["chains"][step]), unit)
            else:
                start, stop = step
                unit = unit.slice(start, stop - start)
    except TesselError as error:
        error.with_context(symbol=source["shown"])
        raise
    return _sent(unit, described["seq"], source["name"])


# --- units from wire rows -------------------------------------------------------------------------


def map_task(chain: str, plugins: Sequence[type[Clause]]) -> TaskFunction:
    """Return the task that runs a chain on each part that arrives; ``seq`` and bucket stay."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _register(plugins)
        loaded = _chain(chain)
        rows, special = _split(received(batches))
        yield from _passed_on(special)
        for part in read_parts(rows):

            def work(part: ReceivedPart = part) -> list[WireRow]:
                unit = _unit(part.seq >> 16, loaded.schemas[0], [part])
                return _sent(_run_chain(loaded, unit), part.seq, _name(part), part.bucket)

            yield wire_batch(_guarded(work, part.seq, part.bucket))

    return run


def reduce_task(
    chain: str, planned: Mapping[int, int], everything: bool, plugins: Sequence[type[Clause]]
) -> TaskFunction:
    """Return the task that gathers the parts of each bucket into one unit and runs a chain on it.

    Parameters
    ----------
    chain
        JSON of the chain.
    planned
        For parts that several units fetch: ``seq`` to how many.
    everything
        Whether there is one unit of everything, which is run also where nothing arrives.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _register(plugins)
        loaded = _chain(chain)
        rows, special = _split(received(batches))
        yield from _passed_on(special)
        if any(row.rows == ERROR_ROWS for row in special):
            return  # the answer is that error; a unit with holes must not be computed
        buckets: dict[int, list[WireRow]] = {}
        for row in rows:
            buckets.setdefault(0 if everything else row.bucket, []).append(row)
        if everything and special:
            buckets.setdefault(0, [])
        for bucket in sorted(buckets):
            seq = sequence(0, bucket)

            def work(bucket: int = bucket, seq: int = seq) -> list[WireRow]:
                parts = sorted(read_parts(buckets.pop(bucket)), key=lambda p: (p.seq, p.bucket))
                unit = _unit(bucket, loaded.schemas[0], parts, planned)
                return _sent(_run_chain(loaded, unit), seq, None)

            yield wire_batch(_guarded(work, seq))

    return run


def facts_task() -> TaskFunction:
    """Return the task that sends what is known of each part instead of its data."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in received(batches):
            if row.rows in (ERROR_ROWS, MARKER_ROWS):
                yield wire_batch([row])
                continue
            part = decode(row.blob)
            blob = json.dumps(part.facts.to_json()).encode()
            yield wire_batch([WireRow(row.bucket, row.seq, row.rows, blob)])

    return run


def route_task(targets: Mapping[tuple[int, int], Sequence[int]]) -> TaskFunction:
    """Return the task that sends each part to the units that want it.

    Parameters
    ----------
    targets
        ``(seq, bucket)`` of a part to the numbers of its units.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in received(batches):
            if row.rows in (ERROR_ROWS, MARKER_ROWS):
                yield wire_batch([row])
                continue
            units = targets.get((row.seq & ~_PIECE_MASK, row.bucket), ())
            copies = [WireRow(unit, row.seq, row.rows, row.blob) for unit in units]
            if copies:
                yield wire_batch(copies)

    return run


def marker_task() -> TaskFunction:
    """Return the task that sends one marker row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield wire_batch([WireRow(0, 0, MARKER_ROWS, b"")])

    return run


# --- inside ---------------------------------------------------------------------------------------


def _register(plugins: Sequence[type[Clause]]) -> None:
    for plugin in plugins:
        register(plugin)


def _run_chain(chain: Chain, unit: ProcessingUnit) -> ProcessingUnit:
    return run_clauses(chain.clauses, chain.schemas, unit)


def _guarded(work: Callable[[], list[WireRow]], seq: int, bucket: int = 0) -> list[WireRow]:
    try:
        return work()
    except Exception as error:
        return [error_row(error, seq=seq, bucket=bucket)]


def _split(rows: Iterable[WireRow]) -> tuple[list[WireRow], list[WireRow]]:
    data: list[WireRow] = []
    special: list[WireRow] = []
    for row in rows:
        (special if row.rows in (ERROR_ROWS, MARKER_ROWS) else data).append(row)
    return data, special


def _passed_on(special: Sequence[WireRow]) -> Iterator[pa.RecordBatch]:
    errors = [row for row in special if row.rows == ERROR_ROWS]
    if errors:
        yield wire_batch(errors)


def _name(part: ReceivedPart) -> str | None:
    return None if part.facts.symbol is None else part.facts.symbol.name


def _unit(
    ordinal: int,
    schema: TableSchema,
    parts: Sequence[ReceivedPart],
    planned: Mapping[int, int] | None = None,
) -> ProcessingUnit:
    pieces = [
        Piece(
            part.table,
            part.facts.row_range,
            ColRange(0, part.table.num_columns),
            part.facts.time_range,
            0 if part.facts.symbol is None else part.facts.symbol.ordinal,
            part.bucket,
            (planned or {}).get(part.seq, part.facts.fetches),
        )
        for part in parts
    ]
    return ProcessingUnit(ordinal, schema, pieces)


def _sent(
    unit: ProcessingUnit, seq: int, name: str | None, bucket: int | None = None
) -> list[WireRow]:
    """Return a unit as wire rows: one part a bucket, column slices and row groups joined."""
    buckets = dict.fromkeys(piece.bucket for piece in unit.pieces)
    rows: list[WireRow] = []
    for number in buckets:
        pieces = [piece for piece in unit.pieces if piece.bucket == number]
        whole = unit.with_pieces(pieces, unit.schema)
        joined = whole.replace(whole.table, index=unit.schema.index).pieces[0]
        facts = PartFacts(
            joined.row_range,
            joined.time_range,
            Symbol(joined.symbol, name or ""),
            joined.planned_fetches,
            unit.schema.index,
        )
        target = bucket if bucket is not None else number or 0
        rows += wire_rows(joined.table, facts, seq=seq, bucket=target)
    return rows

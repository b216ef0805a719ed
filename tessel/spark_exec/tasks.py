"""What runs in Spark's workers: units of a plan in, wire rows out.

The functions here are handed to ``mapInArrow`` with a specification of plain data. They load
clauses, schemas and pieces from it, run the same stage functions as the local pool, and turn every
failure into an error row. A worker opens the store itself and keeps its readers between tasks.

An error row's ``bucket`` says how many barriers lay before the stage that failed: among several
errors the one of the earliest stage counts, since those after it may come of data that it lacks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tessel.clauses import Clause, Stage, bound_stage, find_clause, read_pieces, run_clauses
from tessel.ecs import ProcessingUnit
from tessel.ecs.components import RowRange
from tessel.errors import StoreNotVisibleError, TesselError
from tessel.expression.schema import TableSchema
from tessel.spark_exec.blobs import PartFacts, decode, encode
from tessel.spark_exec.errors_wire import ERROR_ROWS, WorkerError, error_row
from tessel.spark_exec.parts import known_of, piece_of_part, unit_rows
from tessel.spark_exec.plugins import load_plugins
from tessel.spark_exec.wire import WireRow, read_parts, received, sequence, wire_batch
from tessel.store import PieceSource, SegmentSource, open_objects

__all__ = [
    "CUT",
    "MARKER_ROWS",
    "NOTHING_GIVEN",
    "RENUMBER",
    "Chain",
    "Given",
    "ReduceStep",
    "Step",
    "TaskFunction",
    "chain_to_json",
    "count_task",
    "facts_task",
    "given_tables",
    "marker_task",
    "reduce_task",
    "route_task",
    "source_task",
]

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes."""

MARKER_ROWS = -2
"""Value of ``rows`` of a wire row that makes a unit be run where no data may arrive."""

_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 64

CUT: Literal["cut"] = "cut"
RENUMBER: Literal["renumber"] = "renumber"
Step = int | Literal["cut", "renumber"]
"""The number of a chain, a cut of the unit's rows, or a new place in plan order."""
ReduceStep = str | Mapping[int, tuple[int, int]]
"""A chain as JSON, or the cuts ``[start, stop)`` of the units by ``seq``; others are left out."""


@dataclass(frozen=True)
class Chain:
    """Clauses that run one after another on a unit, and the schema before and after each."""

    clauses: tuple[Clause, ...]
    schemas: tuple[TableSchema, ...]

    def after(self, done: int) -> Chain:
        """Return what is left of the chain after the first clauses."""
        return Chain(self.clauses[done:], self.schemas[done:])

    def run(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Run the clauses on a unit."""
        return run_clauses(self.clauses, self.schemas, unit)


def chain_to_json(chain: Chain, given: Given | None = None) -> dict[str, Any]:
    """Return a chain as plain data; of what its clauses are given, the digests."""
    plain: dict[str, Any] = {
        "clauses": [clause.to_json() for clause in chain.clauses],
        "schemas": [schema.to_json() for schema in chain.schemas],
    }
    return plain if given is None else plain | {"given": [digest for digest, _ in given.blobs]}


@dataclass(frozen=True)
class Given:
    """Tables that clauses of a chain are given whole, sent to each worker with its function.

    Attributes
    ----------
    blobs
        SHA-256 of each blob, in hexadecimal digits, with the blob: a part in the form of
        :mod:`tessel.spark_exec.blobs`.
    """

    blobs: tuple[tuple[str, bytes], ...] = ()

    def __hash__(self) -> int:
        return hash(tuple(digest for digest, _ in self.blobs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and self._digests() == other._digests()

    def __or__(self, other: Given) -> Given:
        return Given(tuple((dict(self.blobs) | dict(other.blobs)).items()))

    def _digests(self) -> list[str]:
        return [digest for digest, _ in self.blobs]

    def tables(self, digests: Sequence[str]) -> list[pa.Table]:
        """Return the tables of some digests."""
        held = dict(self.blobs)
        return [decode(held[digest]).table for digest in digests]


NOTHING_GIVEN = Given()


def given_tables(tables: Sequence[pa.Table]) -> Given:
    """Return tables in the form in which workers get them."""
    blobs = [encode(table, PartFacts(RowRange(0, table.num_rows))) for table in tables]
    return Given(tuple((hashlib.sha256(blob).hexdigest(), blob) for blob in blobs))


def _ready_chain(text: str, plugins: bytes, given: Given) -> Chain:
    """Return a chain; its clauses over several symbols have what they were given."""
    return _given_chain(text, plugins, given) if given.blobs else _chain(text, plugins)


# Each may hold a table, and what was built of it: few are kept.
@functools.lru_cache(maxsize=4)
def _given_chain(text: str, plugins: bytes, given: Given) -> Chain:
    chain = _chain(text, plugins)
    digests = json.loads(text).get("given", [])
    if not digests:
        return chain
    stage = bound_stage(Stage(chain.clauses, chain.schemas), given.tables(digests))
    return Chain(stage.clauses, stage.schemas)


@functools.lru_cache(maxsize=256)
def _chain(text: str, plugins: bytes) -> Chain:
    # The plug-ins are part of the key: a class that was changed in a notebook has the same name.
    known = load_plugins(plugins)
    data = json.loads(text)
    schemas = tuple(TableSchema.from_json(item) for item in data["schemas"])
    found = [known.get(item["clause"]) or find_clause(item["clause"]) for item in data["clauses"]]
    clauses = [cls.from_json(item) for cls, item in zip(found, data["clauses"], strict=True)]
    return Chain(tuple(clauses), schemas)


@functools.lru_cache(maxsize=64)
def _segments(uri: str, schema: str, column_ids: str) -> SegmentSource:
    """Return the reader of a symbol; it survives tasks, and with it what was verified."""
    objects = open_objects(uri)
    if next(iter(objects.list(limit=1)), None) is None:
        raise StoreNotVisibleError(
            f"a Spark worker on {socket.gethostname()!r} finds no store at {uri!r}",
            hint="put the store where every worker sees it under this path, or run the query "
            'locally: executor="local"',
            uri=uri,
        )
    return SegmentSource(objects, _schema(schema), json.loads(column_ids))


@functools.lru_cache(maxsize=64)
def _schema(text: str) -> TableSchema:
    return TableSchema.from_json(json.loads(text))


def _typed(run: TaskFunction) -> TaskFunction:
    """Let errors that are of no unit, such as a damaged row, reach the driver as what they are."""

    @functools.wraps(run)
    def typed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from run(batches)
        except TesselError as error:
            raise WorkerError(error) from error

    return typed


# --- units from segments --------------------------------------------------------------------------


def source_task(
    head: str,
    partitions: Sequence[bytes],
    plugins: bytes,
    blob_bytes: int,
    given: Given = NOTHING_GIVEN,
) -> TaskFunction:
    """Return the task that reads units and runs their chains.

    Parameters
    ----------
    head
        JSON: ``tracks`` (uri, schemas, column ids, name, ``chain``, ``steps``) and ``chains``.
    partitions
        For each partition its units, as compressed JSON: each with ``track``, ``pieces``,
        ``planned``, ``places`` and ``cuts``.
    plugins
        Clause classes that are not part of the package.
    blob_bytes
        Aimed-for bound of what travels in one row.
    given
        Tables that clauses of the chains are given.
    """

    def units(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        told = json.loads(head)
        chains = [_ready_chain(text, plugins, given) for text in told["chains"]]
        numbers = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        for number in numbers:
            for described in json.loads(zlib.decompress(partitions[number])):
                track = told["tracks"][described["track"]]
                seq = sequence(*described["places"][-1])

                def work(
                    described: Any = described, track: Any = track, seq: int = seq
                ) -> list[WireRow]:
                    unit = _read(track, described, plugins)
                    unit = _run_steps(track["steps"], chains, described, unit)
                    return unit_rows(unit, seq, track["name"], blob_bytes)

                yield _guarded(work, seq, 0)

    return _typed(lambda batches: _packed(units(batches)))


def _read(track: Mapping[str, Any], described: Mapping[str, Any], plugins: bytes) -> ProcessingUnit:
    """Read a unit and run the first stage of its symbol, which its errors name."""
    symbol, ordinal = described["places"][0]
    try:
        segments = _segments(track["uri"], track["schema"], track["column_ids"])
        schema = _schema(track["read_schema"])
        chain = Chain((), (schema,)) if track["chain"] is None else _chain(track["chain"], plugins)
        sources = [PieceSource.from_json(piece) for piece in described["pieces"]]
        pieces, done = read_pieces(
            sources,
            described["planned"],
            segments,
            schema,
            chain.clauses,
            symbol=symbol,
            unit=ordinal,
        )
        return chain.after(done).run(ProcessingUnit(ordinal, schema, pieces))
    except TesselError as error:
        error.with_context(symbol=track["shown"])
        raise


def _run_steps(
    steps: Sequence[Step],
    chains: Sequence[Chain],
    described: Mapping[str, Any],
    unit: ProcessingUnit,
) -> ProcessingUnit:
    cuts, places = iter(described["cuts"]), iter(described["places"][1:])
    for step in steps:
        if isinstance(step, int):
            unit = chains[step].run(unit)
        elif step == CUT:
            start, stop = next(cuts)
            unit = unit.slice(start, stop - start)
        else:
            unit = _renumbered(unit, *next(places))
    return unit


def _renumbered(unit: ProcessingUnit, symbol: int, ordinal: int) -> ProcessingUnit:
    pieces = [dataclasses.replace(piece, symbol=symbol) for piece in unit.pieces]
    return ProcessingUnit(ordinal, unit.schema, pieces)


# --- units from wire rows -------------------------------------------------------------------------


def reduce_task(
    steps: Sequence[ReduceStep],
    planned: Mapping[tuple[int, int], int],
    everything: bool,
    barriers: int,
    plugins: bytes,
    blob_bytes: int,
    given: Given = NOTHING_GIVEN,
) -> TaskFunction:
    """Return the task that gathers the parts of each bucket into one unit and runs steps on it.

    Parameters
    ----------
    steps
        What runs; the first is a chain.
    planned
        For parts that several units fetch: ``(bucket, seq)`` to how many they are.
    everything
        Whether all that arrives is one unit, whatever its bucket.
    barriers
        How many shuffles lie before, which is noted with errors.
    plugins, blob_bytes, given
        As for :func:`source_task`.
    """

    def units(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        first = _chain(_text(steps[0]), plugins)  # of which the schema alone is wanted
        buckets: dict[int, list[WireRow]] = {}
        errors: list[WireRow] = []
        for row in received(batches):
            if row.rows == ERROR_ROWS:
                errors.append(row)
                continue
            held = buckets.setdefault(0 if everything else row.bucket, [])
            if row.rows != MARKER_ROWS:
                held.append(row)
        if errors:
            # The answer is that error: a unit with holes must not be computed.
            yield errors
            return
        for bucket in sorted(buckets):
            seq = sequence(0, bucket)
            if any(seq not in step for step in steps if not isinstance(step, str)):
                continue

            def work(bucket: int = bucket, seq: int = seq) -> list[WireRow]:
                parts = sorted(read_parts(buckets.pop(bucket)), key=lambda p: p.seq)
                pieces = [piece_of_part(p, planned.get((bucket, p.seq), 1)) for p in parts]
                unit = ProcessingUnit(bucket, first.schemas[0], pieces)
                for step in steps:
                    unit = _reduced(step, plugins, given, seq, unit)
                return unit_rows(unit, seq, "", blob_bytes)

            yield _guarded(work, seq, barriers)

    return _typed(lambda batches: _packed(units(batches)))


def _reduced(
    step: ReduceStep, plugins: bytes, given: Given, seq: int, unit: ProcessingUnit
) -> ProcessingUnit:
    if isinstance(step, str):
        return _ready_chain(step, plugins, given).run(unit)
    start, stop = step[seq]
    return unit.slice(start, stop - start)


def _text(step: ReduceStep) -> str:
    assert isinstance(step, str)  # a cut comes after the stage whose rows were counted
    return step


def facts_task() -> TaskFunction:
    """Return the task that sends what is known of each part instead of its data."""
    return _each_row(lambda row: [known_of(row)])


def count_task() -> TaskFunction:
    """Return the task that sends the number of rows of each part instead of its data."""
    return _each_row(lambda row: [WireRow(row.bucket, row.seq, row.rows, b"")])


def route_task(targets: Mapping[int, Sequence[tuple[int, int]]]) -> TaskFunction:
    """Return the task that sends each wire row to the units that want it.

    Parameters
    ----------
    targets
        ``seq`` of a row to the units that want it, each with the row's ``seq`` there.
    """
    return _each_row(
        lambda row: [WireRow(u, seq, row.rows, row.blob) for u, seq in targets.get(row.seq, ())]
    )


def _each_row(change: Callable[[WireRow], Iterable[WireRow]]) -> TaskFunction:
    def changed(row: WireRow) -> list[WireRow]:
        return [row] if row.rows in (ERROR_ROWS, MARKER_ROWS) else list(change(row))

    return _typed(lambda batches: _packed(map(changed, received(batches))))


def marker_task(buckets: Sequence[int]) -> TaskFunction:
    """Return the task that sends one marker row to each of some buckets."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield wire_batch([WireRow(bucket, 0, MARKER_ROWS, b"") for bucket in buckets])

    return run


# --- inside ---------------------------------------------------------------------------------------


def _guarded(work: Callable[[], list[WireRow]], seq: int, barriers: int) -> list[WireRow]:
    try:
        return work()
    except Exception as error:
        return [error_row(error, seq=seq, bucket=barriers)]


def _packed(units: Iterable[Sequence[WireRow]]) -> Iterator[pa.RecordBatch]:
    """Put the rows of units into batches of a few megabytes: each batch has a price of its own."""
    held: list[WireRow] = []
    size = 0
    for rows in units:
        held += rows
        size += sum(len(row.blob) for row in rows)
        if size >= _BATCH_BYTES or len(held) >= _BATCH_ROWS:
            yield wire_batch(held)
            held, size = [], 0
    if held:
        yield wire_batch(held)

"""What runs in Spark's workers: units of a plan in, wire rows out.

The functions here are handed to ``mapInArrow`` with a specification of plain data. They load
clauses and schemas from it, run the same stage functions as the local pool on units that
:mod:`tessel.spark_exec.units` reads, and turn every failure into an error row.

An error row's ``bucket`` says how many barriers lay before the stage that failed: among several
errors the one of the earliest stage counts, since those after it may come of data that it lacks.

Tasks that write stage units that follow one another as one piece; the driver gets a row for each,
with what was staged as plain data, and the place of its first unit, by which it orders them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from tessel.clauses.capabilities import Combines
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import renumbered, run_stage, without_segments
from tessel.pipeline.staging import Staging
from tessel.spark_exec.chains import (
    NOTHING_GIVEN,
    RUN,
    Given,
    Places,
    ReduceStep,
    chain_from_text,
    ready_chain,
    run_chain,
)
from tessel.spark_exec.errors_wire import WorkerError, error_row
from tessel.spark_exec.parts import piece_of_part, place_of_unit, schema_of_part, unit_rows
from tessel.spark_exec.plugins import kinds_of, load_plugins
from tessel.spark_exec.units import UnitRun, told_units
from tessel.spark_exec.wire import (
    CARRY_ROWS,
    ERROR_ROWS,
    MARKER_ROWS,
    NEXT_UNIT,
    WireRow,
    read_parts,
    received,
    sequence,
    wire_batch,
)

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What ``mapInArrow`` takes."""

UnitSplit = Callable[[ProcessingUnit, int], ProcessingUnit]
"""What puts the rows of a unit into buckets; it is told the ``seq``, too."""

_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 64
NO_DATA = ERROR_ROWS, MARKER_ROWS
"""Values of ``rows`` of rows that go on as they are."""


def typed_errors(run: TaskFunction) -> TaskFunction:
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
    plugins: bytes,
    blob_bytes: int,
    given: Given = NOTHING_GIVEN,
    combined: str | None = None,
    split: UnitSplit | None = None,
) -> TaskFunction:
    """Return the task that reads units and runs their chains.

    Its rows tell it of its units (:func:`tessel.spark_exec.unit_columns.told`).

    Parameters
    ----------
    head
        JSON: ``tracks`` (address, schemas, column ids, ``chain``, ``steps``) and ``chains``.
    plugins
        Clause classes that are not part of the package.
    blob_bytes
        Aimed-for bound of what travels in one row.
    given
        Tables that clauses of the chains are given.
    combined
        The chain, as JSON, of a clause that combines units that follow one another, and of what
        runs on these then.
    split
        What puts the rows of each unit into buckets at the end.
    """

    def units(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        runs = told_units(head, batches, plugins, given)
        if combined is not None:
            yield from _combined(runs, chain_from_text(combined, plugins), blob_bytes)
        else:
            for seq, run in runs:

                def work(seq: int = seq, run: UnitRun = run) -> list[WireRow]:
                    unit = run()
                    return unit_rows(unit if split is None else split(unit, seq), seq, blob_bytes)

                yield guarded(work, seq, 0)

    return typed_errors(lambda batches: packed_rows(units(batches)))


def _combined(
    runs: Iterable[tuple[int, UnitRun]], chain: Stage, blob_bytes: int
) -> Iterator[list[WireRow]]:
    """Combine units while they become fewer bytes by it; the first error is all that is sent."""
    clause, then = chain.clauses[0], chain.after(1)
    assert isinstance(clause, Combines)
    held: list[ProcessingUnit] = []
    first = size = 0

    def sent() -> list[WireRow]:
        return unit_rows(run_stage(then, clause.combined(held)), first, blob_bytes) if held else []

    for seq, run in runs:
        try:
            held.append(run())
            first = seq if len(held) == 1 else first
            size += held[-1].nbytes
            if size > blob_bytes:
                held = [clause.combined(held)]
                size = held[0].nbytes
        except Exception as error:
            yield [error_row(error, seq=seq, bucket=0)]
            return  # nothing is made of units with holes, and this is the earliest error here
        if size * 2 > blob_bytes and len(held) == 1:
            yield guarded(sent, first, 0)
            held, size = [], 0
    yield guarded(sent, first, 0)


# --- units from wire rows -------------------------------------------------------------------------


def reduce_task(
    steps: Sequence[ReduceStep],
    everything: bool,
    barriers: int,
    plugins: bytes,
    blob_bytes: int,
    given: Given = NOTHING_GIVEN,
    split: UnitSplit | None = None,
) -> TaskFunction:
    """Return the task that gathers the parts of each bucket into one unit and runs steps on it.

    Parameters
    ----------
    steps
        What runs.
    everything
        Whether all that arrives is one unit, whatever its bucket.
    barriers
        How many shuffles lie before, which is noted with errors.
    plugins, blob_bytes, given, split
        As for :func:`source_task`.
    """

    def units(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        # Of a chain that comes first the schema alone is wanted; otherwise parts tell theirs.
        schema = None
        if steps and isinstance(steps[0], tuple) and steps[0][0] == RUN:
            schema = chain_from_text(steps[0][1], plugins).schemas[0]
        buckets: dict[int, list[WireRow]] = {}
        carried: dict[int, list[bytes]] = {}
        errors: list[WireRow] = []
        for row in received(batches):
            if row.rows == ERROR_ROWS:
                errors.append(row)
                continue
            if row.rows == CARRY_ROWS:
                carried.setdefault(row.bucket, []).append(row.blob)
                continue
            held = buckets.setdefault(0 if everything else row.bucket, [])
            if row.rows != MARKER_ROWS:
                held.append(row)
        yield errors
        if any(error.bucket < barriers for error in errors):
            return  # the answer is that error: a unit with holes must not be computed
        for bucket in sorted(buckets):
            seqs = _seqs(steps, sequence(0, bucket))
            if seqs is None:
                continue

            def work(bucket: int = bucket, seqs: Sequence[int] = seqs) -> list[WireRow]:
                parts = sorted(read_parts(buckets.pop(bucket)), key=lambda p: p.seq)
                kinds = kinds_of(load_plugins(plugins).values())
                pieces = [piece_of_part(part, kinds) for part in parts]
                unit = ProcessingUnit(bucket, schema or schema_of_part(parts[0]), pieces)
                for seq, step in zip(seqs, steps, strict=False):
                    unit = _reduced(step, plugins, given, seq, unit, carried.get(bucket, ()))
                unit = unit if split is None else split(unit, seqs[-1])
                return unit_rows(unit, seqs[-1], blob_bytes)

            yield guarded(work, seqs[-1], barriers)

    return typed_errors(lambda batches: packed_rows(units(batches)))


def _seqs(steps: Sequence[ReduceStep], seq: int) -> list[int] | None:
    """Return the ``seq`` of a unit before each step and after the last; None if one leaves it out.

    Only where it is placed anew it changes.
    """
    seqs = [seq]
    for step in steps:
        if isinstance(step, Mapping) and seqs[-1] not in step:
            return None
        if isinstance(step, Places):
            place = step.find(seqs[-1])
            if place is None:
                return None
            seqs.append(sequence(*place))
        else:
            seqs.append(seqs[-1])
    return seqs


def _reduced(
    step: ReduceStep,
    plugins: bytes,
    given: Given,
    seq: int,
    unit: ProcessingUnit,
    carried: Sequence[bytes],
) -> ProcessingUnit:
    if isinstance(step, tuple):
        how, chain = step
        return run_chain(how, ready_chain(chain, plugins, given), unit, carried)
    if isinstance(step, Places):
        place = step.find(seq)
        assert place is not None  # those that are left out have gone
        return renumbered(unit, *place)
    start, stop = step[seq]
    return without_segments(unit.slice(start, stop - start))


def count_task() -> TaskFunction:
    """Return the task that sends the number of rows of each part instead of its data."""
    return each_row(lambda row: [WireRow(row.bucket, row.seq, row.rows, b"")])


def each_row(change: Callable[[WireRow], list[WireRow]]) -> TaskFunction:
    """Return the task that sends others in place of each row with data."""

    def changed(row: WireRow) -> list[WireRow]:
        return [row] if row.rows in NO_DATA else change(row)

    return typed_errors(lambda batches: packed_rows(map(changed, received(batches))))


def later_errors_task(barriers: int) -> TaskFunction:
    """Return the task that sends rows as they are, and errors as those of so many barriers more."""

    def later(row: WireRow) -> list[WireRow]:
        more = barriers if row.rows == ERROR_ROWS else 0
        return [dataclasses.replace(row, bucket=row.bucket + more)]

    return typed_errors(lambda batches: packed_rows(map(later, received(batches))))


# --- inside ---------------------------------------------------------------------------------------


def guarded(work: Callable[[], list[WireRow]], seq: int, barriers: int) -> list[WireRow]:
    """Return the rows that some work makes, or that of its error."""
    try:
        return work()
    except Exception as error:
        return [error_row(error, seq=seq, bucket=barriers)]


def packed_rows(units: Iterable[Sequence[WireRow]]) -> Iterator[pa.RecordBatch]:
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


# --- staging --------------------------------------------------------------------------------------


def stage_task(staging: Staging, barriers: int) -> TaskFunction:
    """Return the task that stages the units that come in, and sends what it staged."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for is_told, rows in itertools.groupby(received(batches), lambda row: row.rows in NO_DATA):
            if is_told:
                yield wire_batch(rows)
                continue
            for neighbours in _neighbours(rows):
                yield wire_batch([_staged(staging, neighbours, barriers)])

    return typed_errors(run)


def _neighbours(rows: Iterator[WireRow]) -> Iterator[Iterator[WireRow]]:
    """Cut rows where one is neither of the unit of the row before it nor of the next unit."""
    number, before = 0, -NEXT_UNIT

    def piece(row: WireRow) -> int:
        nonlocal number, before
        place = place_of_unit(row.seq)
        number += place not in (before, before + NEXT_UNIT)
        before = place
        return number

    for _, found in itertools.groupby(rows, piece):
        yield found


def _staged(staging: Staging, rows: Iterator[WireRow], barriers: int) -> WireRow:
    first = next(rows)
    try:
        staged = staging.staged(_tables(itertools.chain([first], rows)), first.seq)
    except Exception as error:
        return error_row(error, seq=first.seq, bucket=barriers)
    return WireRow(0, first.seq, staged.rows, json.dumps(staged.to_json()).encode())


def _tables(rows: Iterator[WireRow]) -> Iterator[pa.Table]:
    """Yield the tables of units, holding the rows of one unit at a time."""
    for _, unit in itertools.groupby(rows, lambda row: place_of_unit(row.seq)):
        for part in read_parts(unit):
            yield part.table

"""Stages the result of a plan in the tasks that compute it, for one commit by the driver.

Units that follow one another in a task are staged as one piece; the driver gets a row for each,
with what was staged as plain data, and the place of its first unit, by which it puts them in order.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pyarrow as pa

from tessel.pipeline.staging import Staging
from tessel.spark_exec.errors_wire import error_row
from tessel.spark_exec.parts import place_of_unit
from tessel.spark_exec.tasks import TaskFunction, typed_errors
from tessel.spark_exec.wire import (
    ERROR_ROWS,
    MARKER_ROWS,
    WireRow,
    read_parts,
    received,
    sequence,
    wire_batch,
)

_STEP = sequence(0, 1)
"""From the place of a unit to that of the next one."""


def stage_task(staging: Staging, barriers: int) -> TaskFunction:
    """Return the task that stages the units that come in, and sends what it staged."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for is_told, rows in itertools.groupby(received(batches), _is_no_data):
            if is_told:
                yield wire_batch(rows)
                continue
            for neighbours in _neighbours(rows):
                yield wire_batch([_staged(staging, neighbours, barriers)])

    return typed_errors(run)


def _is_no_data(row: WireRow) -> bool:
    return row.rows in (ERROR_ROWS, MARKER_ROWS)


def _neighbours(rows: Iterator[WireRow]) -> Iterator[Iterator[WireRow]]:
    """Cut rows where one is neither of the unit of the row before it nor of the next unit."""
    number, before = 0, -_STEP

    def piece(row: WireRow) -> int:
        nonlocal number, before
        place = place_of_unit(row.seq)
        number += place not in (before, before + _STEP)
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

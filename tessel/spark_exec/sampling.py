"""Samples of the rows that tasks have, to find ranges of keys by."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.ecs.piece import RowRange
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.parts import place_of_unit
from tessel.spark_exec.tasks import NO_DATA, TaskFunction, packed_rows, typed_errors
from tessel.spark_exec.wire import WireRow, read_parts, received, wire_rows

WEIGHT = "__tessel_weight"
"""The last column of a sample: how many rows each row of it stands for."""


def sample_task(most: int) -> TaskFunction:
    """Return the task that sends, of all its rows, at most so many at equal distances; errors too.

    The distance is doubled whenever there are more, and stands beside the rows as their weight.
    """

    def sample(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        held: list[pa.Table] = []
        step, passed, rows_held, seq = 1, 0, 0, 0
        for place, rows in itertools.groupby(received(batches), _place):
            if place is None:
                yield list(rows)
                continue
            seq = seq or place
            # Of one unit, in order, whatever buckets its parts came in.
            for part in read_parts(WireRow(0, row.seq, row.rows, row.blob) for row in rows):
                places = np.arange(-passed % step, part.table.num_rows, step)
                passed += part.table.num_rows
                held.append(part.table.take(arrow_array(places)))
                rows_held += len(places)
                while rows_held > most:
                    whole = concat_tables(held)
                    held = [whole.take(arrow_array(np.arange(0, rows_held, 2)))]
                    step, rows_held = 2 * step, held[0].num_rows
        if rows_held:
            weights = arrow_array(np.full(rows_held, step))
            table = concat_tables(held).append_column(WEIGHT, weights)
            yield wire_rows(table, PartFacts(RowRange(0, rows_held)), seq=seq)

    return typed_errors(lambda batches: packed_rows(sample(batches)))


def _place(row: WireRow) -> int | None:
    return None if row.rows in NO_DATA else place_of_unit(row.seq)

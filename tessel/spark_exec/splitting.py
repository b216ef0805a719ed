"""Rows of units that go to buckets of tasks: split by what they hold, and sampled before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.grouped.hashing import bucket_of
from tessel.ecs.piece import RowRange
from tessel.kernels.group_rows import rows_by_code
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.parts import place_of_unit
from tessel.spark_exec.tasks import NO_DATA, TaskFunction, packed_rows, typed_errors
from tessel.spark_exec.wire import ReceivedPart, WireRow, read_parts, received, wire_rows

WEIGHT = "weight"
"""The last column of a sample: how many rows each row of it stands for."""


def buckets_of_keys(keys: Sequence[str], buckets: int) -> Callable[[pa.Table], NDArray[np.int64]]:
    """Return what tells the hash bucket of each row of a table; 0 where there are no keys."""

    def of_rows(table: pa.Table) -> NDArray[np.int64]:
        if not keys:
            return np.zeros(table.num_rows, np.int64)
        return bucket_of([table.column(name) for name in keys], buckets).astype(np.int64)

    return of_rows


def split_task(
    bucket_of_rows: Callable[[pa.Table], NDArray[np.int64]], buckets: int, blob_bytes: int
) -> TaskFunction:
    """Return the task that splits units by the bucket of each row; their rows stay in order."""

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        for place, rows in itertools.groupby(received(batches), _place):
            if place is None:
                yield list(rows)
                continue
            free: dict[int, int] = {}
            for part in _parts(rows):
                order, bounds = rows_by_code(bucket_of_rows(part.table), buckets)
                ordered = part.table.take(arrow_array(order))
                for bucket in np.flatnonzero(np.diff(bounds)).tolist():
                    start, stop = int(bounds[bucket]), int(bounds[bucket + 1])
                    own = wire_rows(
                        ordered.slice(start, stop - start),
                        part.facts,
                        seq=max(part.seq, free.get(bucket, 0)),
                        bucket=bucket,
                        max_blob_bytes=blob_bytes,
                    )
                    free[bucket] = own[-1].seq + 1
                    yield own

    return typed_errors(lambda batches: packed_rows(split(batches)))


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
            for part in _parts(rows):
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


def _parts(rows: Iterator[WireRow]) -> Iterator[ReceivedPart]:
    """Give the parts of one unit in their order, whatever buckets they came in."""
    return read_parts(WireRow(0, row.seq, row.rows, row.blob) for row in rows)

"""What is carried from unit to unit, as wire rows: combined in the driver, or in tasks by key.

Where summaries are more than the driver takes, they are split into buckets of keys. A task
combines those of a bucket in the order of their units, and makes for each unit a row of what lies
around it, as the driver does otherwise.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.grouped.hashing import bucket_of
from tessel.kernels.group_rows import rows_by_code
from tessel.lazy import dataclass
from tessel.pipeline.carrying import carries_between, of_own_keys
from tessel.pipeline.plan import Stage
from tessel.spark_exec.chains import carry_row, chain_from_text
from tessel.spark_exec.errors_wire import error_row, raise_error_rows
from tessel.spark_exec.tasks import TaskFunction, packed_rows, typed_errors
from tessel.spark_exec.wire import (
    ERROR_ROWS,
    NEXT_UNIT,
    WITHHELD_ROWS,
    WireRow,
    read_parts,
    received,
    wire_rows,
)


@dataclass
class CarryScan:
    """The scan over the summaries of units: what lies around each, as wire rows.

    Attributes
    ----------
    stage
        Its first clause carries.
    summaries
        The place of each unit with its summary, in order.
    failed
        The error row of the unit behind these; it is raised when they have been taken.
    """

    stage: Stage
    summaries: Iterable[tuple[int, pa.Table]]
    failed: WireRow | None = None
    _waiting: deque[int] = dataclasses.field(default_factory=deque)
    _next: int = 0

    @property
    def next(self) -> int:
        """The place of the first unit of which it is not known yet what lies around it."""
        return self._waiting[0] if self._waiting else self._next

    def rows(self) -> Iterator[WireRow]:
        """Give the wire rows of the units around which something lies."""
        for summary, between in carries_between(self.stage, self._taken()):
            self._next = self._waiting.popleft() + NEXT_UNIT
            own = of_own_keys(self.stage, summary, between)
            if own.before.num_rows or own.after.num_rows:
                yield carry_row(self._next - NEXT_UNIT, own)

    def _taken(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        for place, summary in self.summaries:
            self._waiting.append(place)
            yield summary, summary
        if self.failed is not None:
            self._next = self.failed.seq
            raise_error_rows([self.failed])


def few_task(most_bytes: int, *, sizes: bool = False) -> TaskFunction:
    """Return the task that sends rows while they are no more bytes; errors and a sign then.

    With ``sizes`` there is a sign in place of each row that is not sent, which tells its bytes.
    """

    def few(rows: Iterable[WireRow]) -> Iterator[list[WireRow]]:
        size = 0
        for row in rows:
            size += len(row.blob)
            if row.rows == ERROR_ROWS or size <= most_bytes:
                yield [row]
            elif sizes:
                yield [WireRow(row.bucket, row.seq, WITHHELD_ROWS, str(len(row.blob)).encode())]
        if size > most_bytes and not sizes:
            yield [WireRow(0, 0, WITHHELD_ROWS, b"")]

    return typed_errors(lambda batches: packed_rows(few(received(batches))))


def split_task(keys: Sequence[str], buckets: int, blob_bytes: int) -> TaskFunction:
    """Return the task that splits the summaries of units into buckets of their keys."""

    def split(rows: Iterable[WireRow]) -> Iterator[list[WireRow]]:
        for part in read_parts(rows):
            codes = np.zeros(part.table.num_rows, np.int64)
            if keys:
                columns = [part.table.column(name) for name in keys]
                codes = bucket_of(columns, buckets)
            order, bounds = rows_by_code(codes, buckets)
            ordered = part.table.take(arrow_array(order))
            for bucket in np.flatnonzero(np.diff(bounds)).tolist():
                start, stop = int(bounds[bucket]), int(bounds[bucket + 1])
                own = ordered.slice(start, stop - start)
                yield wire_rows(
                    own, part.facts, seq=part.seq, bucket=bucket, max_blob_bytes=blob_bytes
                )

    return typed_errors(lambda batches: packed_rows(split(received(batches))))


def scan_task(chain: str, plugins: bytes, failed: WireRow | None) -> TaskFunction:
    """Return the task that makes what lies around units from the summaries in its buckets.

    An error row has the place of the first unit that stays without.

    Parameters
    ----------
    chain
        A chain, as JSON, whose first clause carries.
    plugins
        Clause classes that are not part of the package.
    failed
        The error row of the unit behind those that have summaries, where one failed.
    """

    def scan(rows: Iterable[WireRow]) -> Iterator[list[WireRow]]:
        stage = chain_from_text(chain, plugins)
        for _, parts in itertools.groupby(read_parts(rows), key=lambda part: part.bucket):
            scanned = CarryScan(stage, ((part.seq, part.table) for part in parts), failed)
            try:
                for row in scanned.rows():
                    yield [row]
            except Exception as error:
                yield [error_row(error, seq=scanned.next)]

    return typed_errors(lambda batches: packed_rows(scan(received(batches))))

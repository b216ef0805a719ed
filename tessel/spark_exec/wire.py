"""What travels between Spark tasks: rows of one schema, whatever the query.

Spark matches the output of Arrow functions by position, unchecked, and refuses unsigned integers,
dictionaries and nanosecond timestamps. So every stage speaks one schema, and tables travel inside
a binary column (:mod:`tessel.spark_exec.blobs`): every Arrow type survives, the JVM moves few and
large rows, and the order is explicit in ``seq``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.values import with_used_entries
from tessel.errors import SparkError
from tessel.lazy import dataclass
from tessel.spark_exec.blobs import Part, PartFacts, damaged_part, decode, encode

WIRE_SCHEMA: pa.Schema = pa.schema(
    [("bucket", pa.int32()), ("seq", pa.int64()), ("rows", pa.int64()), ("blob", pa.binary())]
)
"""Schema of every stage's input and output, for Arrow."""

WIRE_DDL = "bucket int, seq long, rows long, blob binary"
"""The same for Spark."""

MAX_BLOB_BYTES = 32 * 1024 * 1024
"""Aimed-for bound of a blob's size. A single row, or a dictionary, may be larger than it."""

ERROR_ROWS, MARKER_ROWS, CARRY_ROWS, WITHHELD_ROWS, EVENT_ROWS = range(-1, -6, -1)
"""Values of ``rows`` of wire rows that hold no rows: an error, whose ``bucket`` keeps its meaning,
since the shuffle reads it; a unit that is run where no data may arrive; what is carried to a unit;
rows that are too many bytes to be sent; what a task did. All are here, so that no two are one."""
LAST_SEQ = (1 << 63) - 1
"""A place behind those of all units."""

_HARD_BLOB_BYTES = 2**31 - 1 - 1024  # a JVM array's length
_PIECE_BITS, _UNIT_BITS, _SYMBOL_BITS = 16, 31, 16
UNIT_SHIFT, MOST_UNITS = _PIECE_BITS, (1 << _UNIT_BITS) - 1
"""Where in a ``seq`` the number of the unit begins, and the largest one."""
NEXT_UNIT = 1 << UNIT_SHIFT
"""From the place of a unit to that of the next one."""


@dataclass(frozen=True, slots=True)
class WireRow:
    """One row on the wire.

    Attributes
    ----------
    bucket
        Which reducer it goes to; 0 where there is no shuffle.
    seq
        Its place in the order of the result, see :func:`sequence`.
    rows
        Rows in the blob, or -1 where the blob is an error (:mod:`tessel.spark_exec.errors_wire`).
    blob
        The part.
    """

    bucket: int
    seq: int
    rows: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """A whole part as it was sent: its bucket, its place in the order, rows and facts."""

    bucket: int
    seq: int
    table: pa.Table
    facts: PartFacts


def sequence(symbol: int, unit: int) -> int:
    """Return the place of a unit's part in the order of the result: by symbol, then by unit.

    The low 16 bits are left for the pieces of a part that is too large for one blob.
    """
    if not (0 <= symbol < 1 << _SYMBOL_BITS and 0 <= unit < 1 << _UNIT_BITS):
        raise SparkError(
            f"unit {unit} of symbol {symbol} is past what a Spark job can number",
            hint=f"at most {1 << _SYMBOL_BITS} symbols and {1 << _UNIT_BITS} units a query",
        )
    return (symbol << (_UNIT_BITS + _PIECE_BITS)) | (unit << _PIECE_BITS)


def sequences(symbols: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return :func:`sequence` of many units."""
    if len(units):
        sequence(int(symbols.max()), int(units.max()))
    return (symbols << (_UNIT_BITS + _PIECE_BITS)) | (units << _PIECE_BITS)


def wire_rows(
    table: pa.Table,
    facts: PartFacts,
    *,
    seq: int,
    bucket: int = 0,
    max_blob_bytes: int = MAX_BLOB_BYTES,
) -> list[WireRow]:
    """Return a part as wire rows: one, or several with consecutive ``seq`` if it is too large.

    Parameters
    ----------
    table
        The rows; an empty table makes one wire row, so that its schema arrives.
    facts
        Sent with every piece.
    seq
        From :func:`sequence`.
    bucket
        The reducer.
    max_blob_bytes
        Aimed-for bound of each blob.

    Raises
    ------
    SparkError
        If a single row is larger than 2 GiB, or the part needs more than 65,536 pieces.
    """
    compact = with_used_entries(table)
    cuts = _cuts(compact, max_blob_bytes)
    if len(cuts) > 1 << _PIECE_BITS:
        raise SparkError(
            f"one unit's result needs {len(cuts)} blobs; at most {1 << _PIECE_BITS} are possible",
            hint='let tasks write the result: store.write("name", lazy, executor="spark")',
        )
    rows: list[WireRow] = []
    for piece, (start, stop) in enumerate(cuts):
        blob = encode(compact.slice(start, stop - start), facts, piece=piece, pieces=len(cuts))
        if len(blob) > _HARD_BLOB_BYTES:
            raise SparkError(
                f"{stop - start} row(s) take {len(blob)} bytes; Spark moves at most 2 GiB at once",
                rows=stop - start,
                bytes=len(blob),
            )
        rows.append(WireRow(bucket, seq + piece, stop - start, blob))
    return rows


def _cuts(table: pa.Table, limit: int) -> list[tuple[int, int]]:
    # Cut by the bytes before compression, halving where rows are uneven, so that no piece is
    # encoded twice and the cuts depend on the data alone.
    pending, cuts = [(0, table.num_rows)], []
    while pending:
        start, stop = pending.pop()
        size = table.slice(start, stop - start).nbytes
        if size <= limit or stop - start <= 1:
            cuts.append((start, stop))
            continue
        middle = (start + stop) // 2
        halved = table.slice(start, middle - start).nbytes
        if halved > 0.9 * size:
            # A dictionary makes up nearly all of it, and each piece would carry it again.
            cuts.append((start, stop))
            continue
        pending += [(middle, stop), (start, middle)]
    return cuts


def wire_batch(rows: Iterable[WireRow]) -> pa.RecordBatch:
    """Return wire rows as a record batch of :data:`WIRE_SCHEMA`."""
    taken = list(rows)
    columns = [
        arrow_array([getattr(row, field.name) for row in taken], field.type)
        for field in WIRE_SCHEMA
    ]
    return pa.record_batch(columns, schema=WIRE_SCHEMA)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[WireRow]:
    """Yield the wire rows of record batches that Spark delivers; types are checked by name."""
    for batch in batches:
        try:
            columns = [batch.column(each.name).cast(each.type) for each in WIRE_SCHEMA]
        except (KeyError, pa.ArrowException) as error:
            raise damaged_part(f"its row is not {WIRE_DDL!r} ({error})") from error
        for bucket, seq, rows, blob in zip(*columns, strict=True):
            values = bucket.as_py(), seq.as_py(), rows.as_py(), blob.as_py()
            if any(value is None for value in values):
                raise damaged_part("its row has missing values")
            yield WireRow(*values)


def read_parts(rows: Iterable[WireRow]) -> Iterator[ReceivedPart]:
    """Yield the parts in wire rows by bucket, then by ``seq``, the pieces of each joined.

    Blobs are decoded one part at a time: only they, compressed, are all held at once.

    Raises
    ------
    CorruptStoreError
        If a blob is damaged, or a piece is missing or there twice.
    """
    waiting = deque(sorted(rows, key=lambda row: (row.bucket, row.seq)))
    while waiting:
        first = waiting.popleft()
        part = _decoded(first)
        if part.piece != 0:
            raise damaged_part(f"piece 0 of {part.pieces} is missing")
        tables = [part.table]
        for piece in range(1, part.pieces):
            row = waiting.popleft() if waiting else None
            if row is None or (row.bucket, row.seq) != (first.bucket, first.seq + piece):
                raise damaged_part(f"piece {piece} of {part.pieces} is missing")
            following = _decoded(row)
            if (following.piece, following.pieces) != (piece, part.pieces):
                raise damaged_part(f"piece {piece} of {part.pieces} belongs to another part")
            tables.append(following.table)
        if waiting and (waiting[0].bucket, waiting[0].seq) == (first.bucket, first.seq):
            raise damaged_part(f"part {first.seq} of bucket {first.bucket} is there twice")
        table = tables[0] if len(tables) == 1 else concat_tables(tables)
        yield ReceivedPart(first.bucket, first.seq, table, part.facts)


def _decoded(row: WireRow) -> Part:
    part = decode(row.blob)
    if part.table.num_rows != row.rows:
        raise damaged_part(f"it has {part.table.num_rows} rows and its row says {row.rows}")
    return part

"""Units as wire rows and back: what every stage does at both of its ends.

A unit is sent as one part for each of its row groups, column slices joined; its facts travel with
each part. The wire rows of a unit are numbered from the ``seq`` of the unit on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange
from tessel.errors import SparkError
from tessel.expression.schema import TableSchema
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.plugins import received_components, sent_components
from tessel.spark_exec.wire import (
    MAX_BLOB_BYTES,
    MOST_UNITS,
    UNIT_SHIFT,
    ReceivedPart,
    WireRow,
    read_parts,
    wire_rows,
)

_PIECES = (1 << UNIT_SHIFT) - 1
_MOST_ROW_GROUPS = 4096


def place_of_unit(seq: int) -> int:
    """Return the ``seq`` of the unit that a wire row is of: that of its first row."""
    return seq & ~_PIECES


def unit_number(seq: int) -> int:
    """Return the ordinal of the unit in a ``seq``."""
    return (seq >> UNIT_SHIFT) & MOST_UNITS


def unit_rows(
    unit: ProcessingUnit, seq: int, max_blob_bytes: int = MAX_BLOB_BYTES
) -> list[WireRow]:
    """Return a unit as wire rows.

    Parameters
    ----------
    unit
        Without pieces it makes no row.
    seq
        Its place, from :func:`tessel.spark_exec.wire.sequence`.
    max_blob_bytes
        Aimed-for bound of what travels in one row.
    """
    rows: list[WireRow] = []
    for group in _groups(unit):
        whole = unit.with_pieces(group, unit.schema)
        joined = whole.replace(whole.table, index=unit.schema.index).pieces[0]
        bucket = group[0].bucket
        facts = PartFacts(
            joined.row_range,
            joined.time_range,
            joined.symbol,
            index=unit.schema.index,
            bucket=bucket,
            segments=joined.segments,
            components=sent_components(joined.components),
        )
        rows += wire_rows(
            joined.table,
            facts,
            seq=seq + len(rows),
            bucket=bucket or 0,
            max_blob_bytes=max_blob_bytes,
        )
    if len(rows) > _PIECES + 1:
        raise SparkError(
            f"one unit's result needs {len(rows)} blobs; at most {_PIECES + 1} are possible",
            hint="write the result to the store instead of collecting it",
        )
    return rows


def _groups(unit: ProcessingUnit) -> list[Sequence[Piece]]:
    """Return the pieces that travel as one part: row groups, or all of a bucket if too many."""
    if len(unit.row_groups) <= _MOST_ROW_GROUPS:
        return list(unit.row_groups)
    by_bucket: dict[int | None, list[Piece]] = {}
    for piece in unit.pieces:
        by_bucket.setdefault(piece.bucket, []).append(piece)
    return list(by_bucket.values())


def rows_by_unit(rows: Iterable[WireRow]) -> Iterator[tuple[int, list[WireRow]]]:
    """Yield the place of each unit with its wire rows, all in order."""
    ordered = sorted(rows, key=lambda row: row.seq)
    for place, found in itertools.groupby(ordered, key=lambda row: place_of_unit(row.seq)):
        yield place, list(found)


def piece_of_part(part: ReceivedPart, kinds: Mapping[str, type]) -> Piece:
    """Return a part as a piece; ``kinds`` are the classes of components by name."""
    facts = part.facts
    return Piece(
        part.table,
        facts.row_range,
        ColRange(0, part.table.num_columns),
        facts.time_range,
        facts.symbol,
        facts.bucket,
        facts.fetches,
        facts.segments,
        received_components(facts.components, kinds),
    )


def unit_of_rows(place: int, rows: Iterable[WireRow], kinds: Mapping[str, type]) -> ProcessingUnit:
    """Return the unit that was sent as these wire rows."""
    parts = sorted(read_parts(rows), key=lambda part: part.seq)
    pieces = [piece_of_part(part, kinds) for part in parts]
    return ProcessingUnit(unit_number(place), schema_of_part(parts[0]), pieces)


def schema_of_part(part: ReceivedPart) -> TableSchema:
    """Return the schema of the unit that a part is of."""
    return TableSchema(part.table.schema.remove_metadata(), part.facts.index)


def packed(arrays: Iterable[NDArray[np.int64]]) -> bytes:
    """Return integers as bytes: few, where they rise by the same steps over and over."""
    steps = [pa.array([np.diff(each, prepend=0)], pa.list_(pa.int64())) for each in arrays]
    batch = pa.record_batch(steps, list(map(str, range(len(steps)))))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked(told: bytes) -> list[NDArray[np.int64]]:
    """Return the integers in what :func:`packed` made."""
    batch = pa.ipc.open_stream(told).read_next_batch()
    return [np.cumsum(numpy_array(column.flatten())) for column in batch.columns]

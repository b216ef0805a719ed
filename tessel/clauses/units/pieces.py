"""Pieces of units, read from segments: whole, or the rows of them that are left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.ecs import Piece, RowRange, TimeRange
from tessel.errors import TesselError
from tessel.store.manifest.lazy_columns import forms_of
from tessel.store.manifest.piece import PieceSource


def is_of_storage(error: TesselError) -> bool:
    """Return whether an error tells of an object of the store, which is then named as segment.

    No other order of the rows changes it.
    """
    found = error.attributes.get("object")
    error.with_context(segment=found if isinstance(found, str) else None)
    return found is not None


def load_piece(
    source: PieceSource,
    read: Callable[[PieceSource], pa.Table],
    symbol: int = 0,
    planned: int = 1,
) -> Piece:
    """Read one piece of a segment, which ``planned`` units fetch."""
    check_cancelled()
    with telemetry.span("segment.read", object=source.key.object) as facts:
        try:
            table = read(source)
        except TesselError as error:
            error.with_context(segment=source.key.object)
            raise
        if telemetry.is_followed():
            schema, few = table.schema, table.get_total_buffer_size() <= 1024
            # Counting the bytes takes 4 % of a short query: few are counted if asked for.
            bytes_ = (lambda: table.nbytes) if few else table.nbytes
            facts.update(rows=table.num_rows, bytes=bytes_, columns=lambda: forms_of(schema))
    return piece_of(source, table, symbol, planned)


def piece_of(source: PieceSource, table: pa.Table, symbol: int = 0, planned: int = 1) -> Piece:
    """Return the piece that was read from a source, with the source's facts."""
    return Piece(
        table,
        RowRange(source.row_start, source.row_stop),
        source.col_range,
        source.time_range,
        symbol,
        None,
        planned,
        (source.key.object,),
    )


def place_of(first: PieceSource, last: PieceSource, symbol: int) -> Piece:
    """Return one piece over all rows from one source to another, without its table."""
    times = None
    if first.time_range is not None and last.time_range is not None:
        times = TimeRange(first.time_range.first, last.time_range.last)
    rows = RowRange(first.row_start, last.row_stop)
    return dataclasses.replace(
        piece_of(first, pa.table({}), symbol),
        row_range=rows,
        time_range=times,
        segments=(first.key.object,) if rows == first.row_range else (),
    )

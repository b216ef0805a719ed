"""Pieces of units, read from segments: whole, or the rows of them that are left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set

import pyarrow as pa

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.ecs import Piece, RowRange, TimeRange
from tessel.errors import TesselError
from tessel.store.manifest.lazy_columns import forms_of
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.selected_rows import SelectedRows

__all__ = ["is_of_storage", "load_piece", "piece_of", "place_of", "read_piece"]


def is_of_storage(error: TesselError) -> bool:
    """Return whether an error tells of an object of the store, which is then named as segment.

    No other order of the rows changes it.
    """
    found = error.attributes.get("object")
    error.with_context(segment=found if isinstance(found, str) else None)
    return found is not None


def load_piece(
    source: PieceSource, rows: SegmentSource | SelectedRows, symbol: int = 0, planned: int = 1
) -> Piece:
    """Read one piece of a segment whole; ``planned`` units fetch it."""
    return _read_piece(source, lambda: rows.load(source), symbol, planned)


def read_piece(
    rows: SelectedRows, source: PieceSource, symbol: int = 0, coded: Set[str] = frozenset()
) -> Piece:
    """Read the rows that are left of one piece; text of ``coded`` may be dictionaries."""
    return _read_piece(source, lambda: rows.read(source, coded), symbol, 1)


def _read_piece(
    source: PieceSource, read: Callable[[], pa.Table], symbol: int, planned: int
) -> Piece:
    check_cancelled()
    with telemetry.span("segment.read", object=source.key.object) as facts:
        try:
            table = read()
        except TesselError as error:
            error.with_context(segment=source.key.object)
            raise
        if telemetry.is_followed():
            forms = forms_of(dict(zip(table.column_names, table.columns, strict=True)))
            facts.update(rows=table.num_rows, bytes=table.nbytes, columns=forms)
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

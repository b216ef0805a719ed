"""Units as wire rows and back: what every stage does at both of its ends.

A unit is sent as one part for each hash bucket that its pieces are in, their column slices and row
groups joined; its facts travel with each part. The parts of a unit share their ``seq``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.components import ColRange, Symbol
from tessel.expression.schema import TableSchema
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.wire import MAX_BLOB_BYTES, ReceivedPart, WireRow, read_parts, wire_rows

__all__ = [
    "parts_of_unit",
    "piece_of_part",
    "place_of_unit",
    "rows_by_unit",
    "unit_number",
    "unit_of_rows",
    "unit_rows",
]

_PIECE_BITS = 16
_PIECES = (1 << _PIECE_BITS) - 1
_UNITS = (1 << 31) - 1


def place_of_unit(seq: int) -> int:
    """Return the ``seq`` of the unit that a wire row is of: that of its first row."""
    return seq & ~_PIECES


def unit_number(seq: int) -> int:
    """Return the ordinal of the unit in a ``seq``."""
    return (seq >> _PIECE_BITS) & _UNITS


def unit_rows(
    unit: ProcessingUnit, seq: int, name: str = "", max_blob_bytes: int = MAX_BLOB_BYTES
) -> list[WireRow]:
    """Return a unit as wire rows.

    Parameters
    ----------
    unit
        Without pieces it makes no row.
    seq
        Its place, from :func:`tessel.spark_exec.wire.sequence`.
    name
        Name of the symbol that it comes from, where there is one.
    max_blob_bytes
        Aimed-for bound of what travels in one row.
    """
    rows: list[WireRow] = []
    for bucket in dict.fromkeys(piece.bucket for piece in unit.pieces):
        pieces = [piece for piece in unit.pieces if piece.bucket == bucket]
        whole = unit.with_pieces(pieces, unit.schema)
        joined = whole.replace(whole.table, index=unit.schema.index).pieces[0]
        facts = PartFacts(
            joined.row_range,
            joined.time_range,
            Symbol(joined.symbol, name),
            joined.planned_fetches,
            unit.schema.index,
            bucket,
        )
        rows += wire_rows(
            joined.table, facts, seq=seq, bucket=bucket or 0, max_blob_bytes=max_blob_bytes
        )
    return rows


def rows_by_unit(rows: Iterable[WireRow]) -> Iterator[tuple[int, list[WireRow]]]:
    """Yield the place of each unit with its wire rows, in plan order; rows keep their order."""
    ordered = sorted(rows, key=lambda row: place_of_unit(row.seq))
    for place, found in itertools.groupby(ordered, key=lambda row: place_of_unit(row.seq)):
        yield place, list(found)


def parts_of_unit(rows: Iterable[WireRow]) -> Iterator[ReceivedPart]:
    """Yield the parts in the wire rows of one unit, in the order in which they were sent."""
    by_bucket: dict[int, list[WireRow]] = {}
    for row in rows:
        by_bucket.setdefault(row.bucket, []).append(row)
    for held in by_bucket.values():
        yield from read_parts(held)


def piece_of_part(part: ReceivedPart, planned: int | None = None) -> Piece:
    """Return a part as a piece; ``planned`` replaces its planned fetch count."""
    facts = part.facts
    return Piece(
        part.table,
        facts.row_range,
        ColRange(0, part.table.num_columns),
        facts.time_range,
        0 if facts.symbol is None else facts.symbol.ordinal,
        facts.bucket,
        facts.fetches if planned is None else planned,
    )


def unit_of_rows(place: int, rows: Iterable[WireRow]) -> ProcessingUnit:
    """Return the unit that was sent as these wire rows."""
    parts = list(parts_of_unit(rows))
    first = parts[0]
    schema = TableSchema(first.table.schema.remove_metadata(), first.facts.index)
    return ProcessingUnit(unit_number(place), schema, map(piece_of_part, parts))

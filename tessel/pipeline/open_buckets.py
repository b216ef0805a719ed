"""Pieces of hash buckets on their way to a barrier: those of one bucket are laid down together.

A unit leaves a piece in each bucket. With a hundred buckets such a piece has a few hundred rows;
what is known of it, and the objects around its columns, would take as much memory as the rows, and
a block of a file for each would be read back one by one. So pieces of one bucket are joined, in
plan order, until they are laid down: when no more may be held, or when the last has come.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.clauses.structures import UnitFacts
from tessel.ecs import Piece, ProcessingUnit, RowRange, TimeRange

__all__ = ["OpenBuckets"]

_PIECES_COMBINED = 16
"""So many small pieces of a bucket become one: each has objects of its own for every column."""

_SMALL_BYTES = 1 << 17


class OpenBuckets:
    """Pieces that are not laid down yet.

    Parameters
    ----------
    most_bytes
        Of a table that is laid down; a bucket that has more becomes several.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = max(1, most_bytes)
        self._schemas: dict[int, pa.Schema] = {}
        self._buckets: dict[tuple[int, int], _OpenBucket] = {}
        self._latest = 0
        self.nbytes = 0
        """Of the pieces that are open."""

    def takes(self, unit: ProcessingUnit) -> bool:
        """Return whether all pieces of a unit are in buckets and look like those before.

        Those of a symbol come together, so that none may follow one of a later symbol.
        """
        symbols = [self._latest, *(piece.symbol for piece in unit.pieces)]
        return len(symbols) > 1 and all(
            before <= piece.symbol
            and piece.bucket is not None
            and piece.table.num_columns > 0
            and self._schemas.setdefault(piece.symbol, piece.table.schema) == piece.table.schema
            for before, piece in zip(symbols, unit.pieces, strict=False)
        )

    def add(self, unit: ProcessingUnit) -> None:
        """Put the pieces of a unit in, which is one that it takes."""
        for piece in unit.pieces:
            assert piece.bucket is not None
            self._latest = piece.symbol
            key = (piece.bucket, piece.symbol)
            bucket = self._buckets.get(key)
            if bucket is None:
                self._buckets[key] = bucket = _OpenBucket(unit.ordinal, piece)
            bucket.add(piece)
        self.nbytes += unit.nbytes

    def laid_down(self) -> Iterator[tuple[UnitFacts, pa.Table]]:
        """Give what is open, bucket by bucket, and hold it no more."""
        buckets, self._buckets, self._latest, self.nbytes = self._buckets, {}, 0, 0
        for key in sorted(buckets):
            yield from buckets.pop(key).tables(self._most)


class _OpenBucket:
    """The pieces of one bucket of one symbol, in plan order."""

    def __init__(self, unit: int, first: Piece) -> None:
        self._unit = unit
        self._first = first.with_table(empty_table(first.table.schema))
        self._rows = first.row_range
        self._times = first.time_range
        self._tables: list[pa.Table] = []
        self._small: list[pa.Table] = []

    def add(self, piece: Piece) -> None:
        rows, times = piece.row_range, piece.time_range
        self._rows = RowRange(min(self._rows.start, rows.start), max(self._rows.end, rows.end))
        if self._times is None or times is None:
            self._times = None
        else:
            self._times = TimeRange(
                min(self._times.first, times.first), max(self._times.last, times.last)
            )
        self._small.append(piece.table)
        if piece.table.nbytes > _SMALL_BYTES or len(self._small) == _PIECES_COMBINED:
            self._combine()

    def tables(self, most: int) -> Iterator[tuple[UnitFacts, pa.Table]]:
        self._combine()
        whole = pa.concat_tables(self._tables)
        rows = max(1, whole.num_rows * most // max(1, whole.nbytes))
        facts = self._first
        for start in range(0, max(1, whole.num_rows), rows):
            table = whole.slice(start, rows)
            yield (
                UnitFacts(
                    self._unit,
                    table.num_rows,
                    self._rows,
                    facts.col_range,
                    self._times,
                    facts.symbol,
                    facts.bucket,
                ),
                table,
            )

    def _combine(self) -> None:
        if self._small:
            self._tables.append(_combined(self._small))
            self._small = []


def _combined(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    # Chunks of codes may have different dictionaries, which not all can be made one.
    if any(_has_codes(field.type) for field in table.schema):
        return table
    return table.combine_chunks()


def _has_codes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_codes(kind.field(at).type) for at in range(kind.num_fields))

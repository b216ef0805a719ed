"""Columns of a row range, read for the stretches of rows that are still wanted.

:class:`~tessel.store.manifest.candidate_rows.CandidateRows` enters here once it knows which rows
these are. Of few rows single values are gathered; of others pages are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import arrow_array
from tessel.expression.schema import TableSchema
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.stretch import Stretch
from tessel.store.segment.late_rows import LateRows
from tessel.store.segment.stored_columns import StoredColumns

__all__ = ["FEW", "HeldColumns", "forms_of", "plain_text"]

FEW = 8
"""Where at most one row in so many is left, their values are fewer than the integers of all."""

_GATHERED = 2
"""Where at most one row in so many is left, rows are gathered instead of decoding pages."""


class HeldColumns:
    """The columns of the pieces of one row range; used by one thread.

    Parameters
    ----------
    source
        What reads the pieces.
    pieces
        Column slices of one row range, at least one.
    schema
        The columns of all of them together.

    Attributes
    ----------
    holders
        The piece that holds each column, and the id of the column.
    """

    def __init__(
        self, source: SegmentSource, pieces: Sequence[PieceSource], schema: TableSchema
    ) -> None:
        self.schema = schema
        self._source = source
        self.holders = {
            name: (piece, column_id)
            for piece in reversed(pieces)
            for name, column_id in zip(piece.columns, piece.column_ids, strict=True)
        }
        self._late: dict[int, LateRows] = {}
        self._forms: dict[str, str] = {}

    def told_forms(self) -> dict[str, str]:
        """Return in which form columns were read since this was asked; for telemetry."""
        told = dict(self._forms)
        self._forms.clear()
        return told

    def gathered(
        self, piece: PieceSource, stretches: Sequence[Stretch]
    ) -> dict[int, list[pa.Array | None]]:
        """Return, by stretch, the columns of the few rows left in it that one pass finds."""
        found: dict[int, list[pa.Array | None]] = {}
        for place, stretch in enumerate(stretches):
            if stretch.is_whole or stretch.rows * _GATHERED > stretch.high - stretch.low:
                continue
            rows = stretch.places()
            found[place] = self.late(piece).gather(piece.column_ids, rows)
        return found

    def late(self, piece: PieceSource) -> LateRows:
        """Return the rows of a piece, of which nothing but page tables is read yet."""
        late = self._late.get(id(piece))
        if late is None:
            late = self._late[id(piece)] = self._source.late(piece)
        return late

    def table(self, stretch: Stretch, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows of a stretch that are left; text may be dictionaries."""
        for name in names:
            if name not in stretch.held:
                stretch.held[name] = self._values(stretch, name)
        columns = [stretch.held[name] for name in names]
        if telemetry.is_followed():
            self._forms |= forms_of(dict(zip(names, columns, strict=True)))
        if not columns:
            return pa.table({"": pa.nulls(stretch.rows)}).select([])
        return pa.table(columns, names=list(names))

    def _values(self, stretch: Stretch, name: str) -> pa.Array:
        type_ = self.schema.type_of(name)
        found = self.holders.get(name)
        if found is None:
            return pa.nulls(stretch.rows, type_)
        piece, column_id = found
        late = self.late(piece)
        if not stretch.is_whole and stretch.rows * FEW <= stretch.high - stretch.low:
            (gathered,) = late.gather([column_id], stretch.places())
            if gathered is not None:
                return self._source.declared(gathered, name, piece)
        column = late.column(column_id, stretch.low, stretch.high, stretch.keep)
        if column.type == type_ and pa.types.is_string(type_):
            dictionary = column.dictionary()
            if dictionary is not None:
                codes = column.codes()
                if not stretch.is_whole:
                    codes = codes.filter(arrow_array(stretch.keep))
                return pa.DictionaryArray.from_arrays(codes, dictionary, safe=False)
        values = column.decode() if stretch.is_whole else column.filter(stretch.keep)
        if values.type == type_:
            return values
        return self._source.declared(values, name, piece)

    def stored(self, names: Sequence[str], low: int, high: int) -> StoredColumns | None:
        """Return rows ``[low, high)`` of columns as stored; None where one is not, or cut apart.

        Columns that no piece has were added after these rows.
        """
        holders = [self.holders.get(name) for name in names]
        if not holders:
            return None
        own: dict[int, list[int]] = {}
        for place, holder in enumerate(holders):
            if holder is not None:
                own.setdefault(id(holder[0]), []).append(place)
        found: StoredColumns | None = StoredColumns.nothing(low, high)
        if own:
            found = self._beside(holders, list(own.values()), low, high)
        if found is not None and None in holders:
            pairs = zip(names, holders, strict=True)
            added = {
                place: self.schema.type_of(name)
                for place, (name, holder) in enumerate(pairs)
                if holder is None
            }
            found = found.with_absent(added)
        if found is None or any(
            column.type != self.schema.type_of(name)
            for name, column in zip(names, found.columns, strict=True)
        ):
            return None
        if telemetry.is_followed():
            self._forms |= {n: c.form for n, c in zip(names, found.columns, strict=True)}
        return found

    def _beside(
        self,
        holders: Sequence[tuple[PieceSource, int] | None],
        pieces: Sequence[Sequence[int]],
        low: int,
        high: int,
    ) -> StoredColumns | None:
        """Return the columns that are stored, in their order, given their places by piece."""
        parts: list[StoredColumns] = []
        for places in pieces:
            held = [holder for place in places if (holder := holders[place]) is not None]
            part = self.late(held[0][0]).stored([own for _, own in held], low, high)
            if part is None:
                return None
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        found = StoredColumns.beside(parts)
        order = np.argsort([place for places in pieces for place in places])
        return None if found is None else found.in_order(order.tolist())

    def dictionary(
        self, piece: PieceSource, column_id: int, stretches: Sequence[Stretch]
    ) -> pa.ChunkedArray | None:
        """Return a text column as one dictionary array; None where it is stored otherwise.

        None also where entries are more than rows: then text is less to take on than these.
        """
        late = self.late(piece)
        rows = sum(stretch.rows for stretch in stretches)
        if not pa.types.is_string(late.type(column_id)):
            return None
        codes: list[pa.Array] = []
        entries: pa.Array | None = None
        for stretch in stretches:
            column = late.column(column_id, stretch.low, stretch.high, stretch.keep)
            entries = column.dictionary()
            if entries is None or len(entries) > rows:
                return None
            held = column.codes()
            codes.append(held if stretch.is_whole else held.filter(arrow_array(stretch.keep)))
        if entries is None:
            return None
        indices = codes[0] if len(codes) == 1 else pa.concat_arrays(codes)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, entries, safe=False)])

    def column(
        self,
        piece: PieceSource,
        name: str,
        column_id: int,
        stretches: Sequence[Stretch],
        gathered: Mapping[int, list[pa.Array | None]],
    ) -> pa.ChunkedArray:
        """Return a column of stretches of rows; of some of them it was gathered already."""
        late = self.late(piece)
        type_ = late.type(column_id)
        number = piece.column_ids.index(column_id)
        chunks: list[pa.Array] = []
        for place, stretch in enumerate(stretches):
            if place in gathered and gathered[place][number] is not None:
                chunks.append(gathered[place][number])
                continue
            held = stretch.held.get(name)
            if held is not None:
                coded = isinstance(held, pa.DictionaryArray) and not pa.types.is_dictionary(type_)
                chunks.append(held.dictionary.take(held.indices) if coded else held)
                type_ = chunks[-1].type
                continue
            column = late.column(column_id, stretch.low, stretch.high, stretch.keep)
            if stretch.is_whole:
                chunks += column.chunks().chunks
            else:
                chunks.append(column.filter(stretch.keep))
        if len({chunk.type for chunk in chunks}) > 1:
            chunks = [self._source.declared(chunk, name, piece) for chunk in chunks]
        return pa.chunked_array(chunks, type=chunks[0].type if chunks else type_)


def forms_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the form of columns that were read as arrays; for telemetry."""
    return {
        name: "dictionary" if pa.types.is_dictionary(column.type) else "values"
        for name, column in columns.items()
    }


def plain_text(values: pa.Array) -> pa.Array:
    """Return text as text; only some stretches have a dictionary."""
    if isinstance(values, pa.DictionaryArray):
        return values.dictionary.take(values.indices)
    return values

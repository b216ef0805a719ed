"""Single rows of a symbol by their position: which segments hold them, and their columns.

Views of symbols enter here. What is known of a state of a symbol (its index, the pieces that were
asked for) is kept, so that random access does not plan the symbol anew each time. Columns that are
plain in all segments touched are gathered in one pass; the others are taken segment by segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.lru_cache import LruCache
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import PieceSource, SegmentSource

_MOST_CHOICES: Final = 8
"""Choices of columns whose index is kept."""

_MOST_PIECES: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """Rows grouped by row slice.

    Attributes
    ----------
    rows
        Positions in the symbol, those of one slice together.
    stops
        Where the rows of each slice end.
    places
        The place in the answer of each; None for the order they are in.
    """

    slices: list[int]
    rows: Integers
    stops: list[int]
    places: Integers | None


class SingleRows:
    """Random access to one state of a symbol; safe to use from several threads."""

    def __init__(self, index: SegmentIndex, source: SegmentSource) -> None:
        self._index = index
        self._source = source
        self._choices: LruCache[tuple[str, ...], _Choice] = LruCache(_MOST_CHOICES)

    def take(self, rows: Integers, columns: Sequence[str] | None) -> pa.Table:
        """Return rows, each a position that there is, in any order, repeats allowed.

        Raises ColumnNotFoundError for a name that is no column; CorruptSegmentError when a segment
        that holds one of the rows is damaged.
        """
        names = tuple(self._index.schema.names) if columns is None else tuple(columns)
        choice = self._choices.get_or_make(names, lambda: _Choice(self._index, names))
        schema = choice.index.schema
        if not schema.names:
            return pa.table({"": pa.nulls(len(rows))}).select([])
        if not len(rows):
            return schema.empty()
        wanted = self._grouped(rows)
        found = self._gathered(choice, wanted)
        rest = [name for name in schema.names if name not in found]
        if rest:
            left = self._choices.get_or_make(tuple(rest), lambda: _Choice(self._index, rest))
            taken = self._taken(left, wanted)
            found |= zip(taken.column_names, taken.columns, strict=True)
        return pa.table([found[name] for name in schema.names], schema=schema.arrow)

    def _grouped(self, rows: Integers) -> _Wanted:
        slice_of = np.searchsorted(self._index.slice_row_start, rows, "right") - 1
        places = None
        if np.count_nonzero(slice_of[1:] < slice_of[:-1]):
            places = np.argsort(slice_of, kind="stable")
            rows, slice_of = rows[places], slice_of[places]
        begins = np.flatnonzero(np.concatenate(([True], slice_of[1:] != slice_of[:-1])))
        stops = [*begins[1:].tolist(), len(rows)]
        return _Wanted(slice_of[begins].tolist(), rows, stops, places)

    def _gathered(self, choice: _Choice, wanted: _Wanted) -> dict[str, pa.Array]:
        """Return the columns that one pass finds in all segments touched."""
        strips: dict[tuple[int, ...], list[PieceSource]] = {}
        for number in wanted.slices:
            for piece in choice.pieces(number):
                strips.setdefault(piece.column_ids, []).append(piece)
        found: dict[str, pa.Array] = {}
        for ids, pieces in strips.items():
            if ids and len(pieces) == len(wanted.slices):
                moves = [piece.segment_row_start - piece.row_start for piece in pieces]
                counts = [stop - start for start, stop in pairwise([0, *wanted.stops])]
                inside = wanted.rows + np.repeat(moves, counts)
                arrays = self._source.gather(pieces, inside, wanted.stops, wanted.places)
                names = pieces[0].columns
                found |= {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        return found

    def _taken(self, choice: _Choice, wanted: _Wanted) -> pa.Table:
        """Return columns taken segment by segment."""
        parts = []
        schema = choice.index.schema
        start = 0
        for number, stop in zip(wanted.slices, wanted.stops, strict=True):
            rows = wanted.rows[start:stop]
            strips = [self._source.take(piece, rows) for piece in choice.pieces(number)]
            held = {name: strip.column(name) for strip in strips for name in strip.column_names}
            parts.append(pa.table([held[name] for name in schema.names], schema=schema.arrow))
            start = stop
        joined = concat_tables(parts)
        if wanted.places is None:
            return joined
        back = np.empty(len(wanted.places), np.int64)
        back[wanted.places] = np.arange(len(back))
        return joined.take(arrow_array(back))


class _Choice:
    """The index over some columns, and the pieces of its row slices."""

    def __init__(self, index: SegmentIndex, names: Sequence[str]) -> None:
        self.index = index.keep_columns(names, clause="take", reason="not asked for")
        numbers = np.arange(self.index.slices + 1)
        self._first = np.searchsorted(self.index.slice_number, numbers)
        self._pieces: LruCache[int, tuple[PieceSource, ...]] = LruCache(_MOST_PIECES)

    def pieces(self, number: int) -> tuple[PieceSource, ...]:
        """Return the pieces that together hold a row slice."""
        return self._pieces.get_or_make(number, lambda: self._made(number))

    def _made(self, number: int) -> tuple[PieceSource, ...]:
        low, high = int(self._first[number]), int(self._first[number + 1])
        return tuple(self.index.source(at) for at in range(low, high))

"""One symbol at one version: what is known of it, and the way to its rows.

Of single rows, what is known of a state of a symbol (its index, the pieces that were asked for) is
kept, so that random access does not plan the symbol anew each time. Columns that are plain in all
segments touched are gathered in one pass; the others are taken segment by segment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.history.symbol import SymbolState
from tessel.store.lru_cache import LruCache
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import PieceSource, SegmentSource

if TYPE_CHECKING:
    from tessel.store.pandas_shape import PandasShape
    from tessel.store.repository import Repository
    from tessel.store.timeline import Timeline


_MOST_SYMBOLS = 16
"""States of symbols of a repository of which the index, and random access, are kept ready."""

_MOST_SEGMENTS = 1 << 16
"""An index of more segments is kept by its users alone: it takes about a hundred bytes a
segment."""

_indexes: WeakKeyDictionary[Timeline, LruCache[SymbolState, SegmentIndex]] = WeakKeyDictionary()
_single_rows: WeakKeyDictionary[Timeline, LruCache[SymbolState, SingleRows]] = WeakKeyDictionary()


@checks_arguments
class SymbolView:
    """One symbol at one version; it never changes, whatever is written meanwhile.

    Attributes
    ----------
    name
        The symbol.
    version
        The version of the store that was asked for.
    changed
        The version that changed the symbol last, at or before ``version``.
    schema
        Columns in the user's order, and the index.
    row_count
        How many rows it has.
    column_ids
        The id of each column.
    """

    def __init__(self, repository: Timeline, name: str, version: int, state: SymbolState) -> None:
        self.name = name
        self.version = version
        self.changed = state.changed
        self.schema: TableSchema = state.schema
        self.row_count = state.rows
        self.column_ids: Mapping[str, int] = dict(state.column_ids)
        self._repository = repository
        self._state = state
        self._large: ref[SegmentIndex] | None = None

    def __repr__(self) -> str:
        return f"<SymbolView {self.name!r} version {self.version}: {self.row_count} rows>"

    @cached
    def metadata(self) -> dict[str, Any]:
        """What the writer attached to it."""
        found: dict[str, Any] = json.loads(json.dumps(dict(self._state.metadata)))
        return found

    @cached
    def pandas(self) -> PandasShape | None:
        """What pandas showed of it, by column, where it was written from there."""
        shape = self._state.pandas
        if shape is None:
            return None
        return shape.keyed({number: name for name, number in self.column_ids.items()})

    @property
    def segment_count(self) -> int:
        """How many segments hold the symbol, those of dropped columns included.

        No manifest is opened unless rows were cut out of one.
        """
        if any(entry.cut for entry in self._state.manifests):
            return len(self.index())
        return sum(entry.segments for entry in self._state.manifests)

    def index(self) -> SegmentIndex:
        """Return all segments, from the manifests; no segment is read."""
        if sum([entry.segments for entry in self._state.manifests]) > _MOST_SEGMENTS:
            index = None if self._large is None else self._large()
            if index is None:
                index = self._index()
                self._large = ref(index)
            return index
        cache = _indexes.setdefault(self._repository, LruCache(_MOST_SYMBOLS))
        return cache.get_or_make(self._state, self._index)

    def _index(self) -> SegmentIndex:
        return self._state.index(self._repository.manifest)

    @property
    def store_id(self) -> str:
        """The id of the store that the symbol is in."""
        return self._repository.id

    def source(self, schema: TableSchema | None = None) -> SegmentSource:
        """Return what loads pieces of the symbol, with columns of the types that it declares.

        Parameters
        ----------
        schema
            By default the schema of the symbol.
        """
        return SegmentSource(self._repository.objects, schema or self.schema, self.column_ids)

    def take(
        self, rows: Sequence[int] | Integers, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return single rows by their position; only what holds them is read.

        Parameters
        ----------
        rows
            Positions from 0, in any order, repeats allowed.
        columns
            Names; all by default. They come in the order of the schema.

        Raises
        ------
        InvalidInputError
            For a position that is none.
        ColumnNotFoundError
            For a name that is no column.
        """
        try:
            wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError.for_argument("take", "rows", "row numbers", rows) from error
        outside = wanted[(wanted < 0) | (wanted >= self.row_count)]
        if len(outside):
            raise InvalidInputError(
                f"symbol {self.name!r} has {self.row_count} rows and no row {int(outside[0])}",
                hint=f"rows count from 0 to {self.row_count - 1}",
                symbol=self.name,
            )
        return self._single_rows().take(wanted, columns)

    def _single_rows(self) -> SingleRows:
        """Return what finds single rows; kept by the repository for each state of a symbol."""
        cache = _single_rows.setdefault(self._repository, LruCache(_MOST_SYMBOLS))
        return cache.get_or_make(self._state, lambda: SingleRows(self.index(), self.source()))


class PinnedViews:
    """Gives symbols at the version of one of them, so that a query sees one snapshot."""

    def __init__(self, repository: Repository, first: SymbolView) -> None:
        self._repository = repository
        self._first = first
        self.version = first.version

    def view(self, symbol: str, as_of: int | str | None) -> SymbolView:
        """Return a symbol; of the pinned version where ``as_of`` is None."""
        if symbol == self._first.name and as_of in (None, self.version):
            return self._first  # known already: another look-up would list the log again
        return self._repository.view(symbol, as_of=self.version if as_of is None else as_of)


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

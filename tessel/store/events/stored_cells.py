"""Cells at rest: those of a saved recording, read when a query asks for them.

A chunk holds them where others hold Arrow arrays: for each event the row of the symbol that has its
cell. Queries read the pages in which those rows lie, and keep them within the budget of the cache.
Who goes through everything (to dump it, to save it again) keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import InvalidInputError
from tessel.store.encodings.values import Integers
from tessel.store.lru_cache import ByteLruCache
from tessel.store.manifest.piece import PieceSource
from tessel.store.view import SymbolView

_FEW = 8
"""Of a page that cannot be kept single rows are taken where at most one in so many is wanted."""


CellKey = tuple[int, int]
"""Number of a column, counted in its recording; first row of the page in the symbol."""


class CellCache(ByteLruCache[CellKey, pa.Array]):
    """An LRU cache of so many bytes of cells: pages, the units in which the store reads.

    A reader has a reference to the page that it got, so evictions need not wait for readers.

    Raises InvalidInputError for a budget that is no number of bytes.

    Parameters
    ----------
    budget_bytes
        Of all pages together, as Arrow arrays.
    """

    def __init__(self, budget_bytes: int) -> None:
        if isinstance(budget_bytes, bool) or not isinstance(budget_bytes, int) or budget_bytes < 0:
            raise InvalidInputError(
                f"a budget of {budget_bytes!r} bytes for cells",
                hint="give a whole number from 0 on; with 0 nothing is kept",
            )
        super().__init__(budget_bytes, lambda page: int(page.nbytes))


class _Page(NamedTuple):
    """Rows ``[start, stop)`` of a symbol that are one page of a column, in a row slice."""

    row_slice: int
    start: int
    stop: int


class StoredColumn:
    """The cells of one component of a symbol; safe to use from several threads.

    Parameters
    ----------
    is_list
        Whether cells are kept as lists, and not as the one value that each has.
    empty
        The rows, ascending, whose cell in a column of values has none.
    is_missing
        Whether a value may be missing in a column of values.
    number
        Tells the column apart from the others in the cache.
    """

    def __init__(
        self,
        view: SymbolView,
        name: str,
        kind: pa.DataType,
        *,
        is_list: bool,
        empty: Integers,
        is_missing: bool,
        cache: CellCache,
        number: int,
        reading: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self.name = name
        self.is_list = is_list
        self.blanks = bool(len(empty)), is_missing
        self._empty = empty
        self._stored: pa.DataType = pa.large_list(kind) if is_list else kind
        self.type: pa.DataType = pa.large_list(kind) if is_list or any(self.blanks) else kind
        self._symbol = view.name
        self._id = view.column_ids[name]
        self._source = view.source()
        self._index = view.index().keep_columns([name], clause="events", reason="not asked for")
        self._starts = self._index.slice_row_start
        self._edges: dict[int, Integers] = {}
        self._too_large: set[int] = set()
        self._cache = cache
        self._number = number
        self._reading = reading

    def __repr__(self) -> str:
        return f"<StoredColumn {self.name!r} of {self._symbol!r}: {self.type}>"

    @property
    def row_bytes(self) -> float:
        """Bytes of a cell, roughly: as they are stored, or as the type says if that is more."""
        try:
            width: float = self.type.bit_width / 8
        except ValueError:  # one that each value has for itself
            width = 8
        return max(width, float(self._index.bytes.sum()) / max(1, self._index.row_count))

    def read(self, rows: Integers, *, keep: bool = True) -> pa.Array:
        """Return the cells of some rows of the symbol: any order, repeats allowed.

        Raises InvalidInputError for a row that has no cell: the symbol was changed by others than
        :meth:`LiveStore.save`; SnapshotExpiredError or CorruptStoreError where the bytes are gone,
        or damaged.

        Parameters
        ----------
        rows
            int64.
        keep
            Whether the pages are kept for the next query.
        """
        order = None
        if len(rows) > 1 and bool((rows[1:] < rows[:-1]).any()):
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
        parts = []
        at = 0
        while at < len(rows):
            page = self._page_of(int(rows[at]))
            end = int(rows.searchsorted(page.stop))
            parts.append(self._of_page(page, rows[at:end] - page.start, keep=keep))
            at = end
        if len(parts) != 1:
            parts = [pa.concat_arrays(parts) if parts else arrow_array([], self._stored)]
        found, absent = parts[0], np.isin(rows, self._empty)
        if found.null_count and (self.is_list or not self.blanks[1]):
            self._check_nulls(found, absent)
        if self.type != self._stored:
            offsets = np.cumsum(np.concatenate([[0], ~absent]))
            values = found.filter(arrow_array(~absent)) if absent.any() else found
            found = pa.LargeListArray.from_arrays(arrow_array(offsets, pa.int64()), values)
        if order is not None:
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            found = found.take(arrow_array(back))
        return found

    def _check_nulls(self, found: pa.Array, absent: np.ndarray) -> None:
        """Refuse cells that are null though their events have a value."""
        if found.null_count > np.count_nonzero(absent):
            raise InvalidInputError(
                f"symbol {self._symbol!r} was changed after the recording was saved: an event "
                f"lacks the {self.name!r} that its column 'tessel.presence' says it has",
                hint="save the recording anew, or drop that column from the symbol",
                symbol=self._symbol,
                column=self.name,
            )

    def present(self) -> np.ndarray:
        """Return which rows have a cell; pages are read where page tables do not say it."""
        found = np.zeros(self._index.row_count, np.bool_)
        for row_slice in range(self._index.slices):
            piece = self._piece(row_slice)
            if not piece.columns:
                continue
            with self._reading():
                lazy = self._source.lazy_rows(piece)
                edges = lazy.page_edges(self._id) + piece.row_start
                nulls = lazy.page_nulls(self._id)
            inside = np.clip(edges, piece.row_start, piece.row_stop)
            for start, stop, rows, missing in zip(
                inside[:-1].tolist(), inside[1:].tolist(), np.diff(edges), nulls, strict=True
            ):
                if not missing:
                    found[start:stop] = True
                elif missing < rows and start < stop:
                    cells = self._loaded(_Page(row_slice, start, stop), None)
                    found[start:stop] = numpy_array(cells.is_valid())
        found[self._empty] = True
        return found

    # --- pages ------------------------------------------------------------------------------------

    def _page_of(self, row: int) -> _Page:
        row_slice = int(self._starts.searchsorted(row, "right")) - 1
        edges = self._edges.get(row_slice)
        if edges is None:
            edges = self._edges[row_slice] = self._edges_of(row_slice)
        at = int(edges.searchsorted(row, "right"))
        return _Page(row_slice, int(edges[at - 1]), int(edges[at]))

    def _edges_of(self, row_slice: int) -> Integers:
        """Return where pages begin and the last ends, as far as a row slice goes."""
        piece = self._piece(row_slice)
        ends = np.array([piece.row_start, piece.row_stop])
        if not piece.columns:
            return ends
        with self._reading():
            edges = self._source.lazy_rows(piece).page_edges(self._id) + piece.row_start
        inside: Integers = edges[(edges > ends[0]) & (edges < ends[1])]
        return np.concatenate([ends[:1], inside, ends[1:]])

    def _piece(self, row_slice: int) -> PieceSource:
        return self._index.source(int(self._index.slice_number.searchsorted(row_slice)))

    def _of_page(self, page: _Page, rows: Integers, *, keep: bool) -> pa.Array:
        """Return rows of a page, counted in it and ascending."""
        key = self._number, page.start
        held = self._cache.get(key)
        if held is None:
            few = len(rows) * _FEW <= page.stop - page.start
            if few and (not keep or page.start in self._too_large):
                return self._loaded(page, rows)
            held = self._loaded(page, None)
            if keep and not self._cache.put(key, held):
                self._too_large.add(page.start)
        if len(rows) == len(held) and bool((np.diff(rows) == 1).all()):
            return held
        return held.take(arrow_array(rows))  # a copy: who has it does not hold the page

    def _loaded(self, page: _Page, rows: Integers | None) -> pa.Array:
        """Read a page, or some rows of it; null where there is no cell."""
        piece = self._piece(page.row_slice)
        if not piece.columns:
            count = page.stop - page.start if rows is None else len(rows)
            return pa.nulls(count, self._stored)
        low, high = page.start - piece.row_start, page.stop - piece.row_start
        with self._reading():
            column = self._source.lazy_rows(piece).column(self._id, low, high)
            found = column.decode() if rows is None else column.take(rows)
            found = self._source.declared(found, self.name, piece)
        return _as_cells(found, self._stored)


class StoredCells:
    """The cells of one component of some events; it stands where an Arrow array would.

    Attributes
    ----------
    rows
        The row of the symbol of each event: int64, or a range.
    """

    __slots__ = ("column", "rows")

    def __init__(self, column: StoredColumn, rows: Integers | range) -> None:
        self.column = column
        self.rows = rows

    @property
    def type(self) -> pa.DataType:
        """The type that an array of them has."""
        return self.column.type

    @property
    def nbytes(self) -> int:
        """Bytes in memory, which are those of the rows."""
        return 0 if isinstance(self.rows, range) else int(self.rows.nbytes)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, rows: Integers | None = None, *, keep: bool = True) -> pa.Array:
        """Return the cells of some events, or of all, as an array; see ``StoredColumn.read``."""
        return self.column.read(self.places(rows), keep=keep)

    def places(self, rows: Integers | None = None) -> Integers:
        """Return the rows of the symbol that hold the cells of some events, or of all."""
        if not isinstance(self.rows, range):
            return self.rows if rows is None else self.rows[rows]
        places = np.arange(len(self.rows)) if rows is None else rows
        return places + self.rows.start


def _as_cells(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what a segment holds in the type that was logged."""
    if not pa.types.is_large_list(kind):
        return _declared(found, kind)
    offsets = found.offsets.cast(pa.int64())
    mask = found.is_null() if found.null_count else None
    values = _declared(found.values, kind.value_type)
    return pa.LargeListArray.from_arrays(offsets, values, mask=mask)


def _declared(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_declared(values, kind.storage_type))
    return values.cast(kind)

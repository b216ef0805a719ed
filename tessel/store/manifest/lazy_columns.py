"""Columns of a row range, each read when it is touched, for the selected rows alone.

:class:`~tessel.store.manifest.selected_rows.SelectedRows` enters here with its ranges. Single
values are gathered where the selection is sparse; elsewhere pages are decoded.

Kernels of reductions are called with a batch whose stored columns are at hand, which
:meth:`Batch.open <tessel.store.manifest.batch.Batch.open>` makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import arrow_array, different, unified
from tessel.cached import cached
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.blocks import Gap, StoredBlocks, floats_of
from tessel.kernels.load_rows import load_rows
from tessel.kernels.program import Program
from tessel.lazy import dataclass
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.segment.page_tables import PageFact
from tessel.store.segment.stored_columns import StoredColumn

if TYPE_CHECKING:
    from tessel.store.manifest.selected_range import SelectedRange
    from tessel.store.segment.encoded_column import SegmentColumn
    from tessel.store.segment.lazy_rows import LazyRows
    from tessel.store.segment.stored_columns import StoredColumns


SPARSE = 8
"""A selection is sparse with at most one row in so many: its values are then cheaper to gather than
the integers of all rows are to look at."""

GATHERED = 2
"""Rows of which all columns are wanted as values are gathered where at most one in so many is
selected; else pages are decoded."""


class LazyColumns:
    """The columns of the pieces of one row range; used by one thread.

    Parameters
    ----------
    pieces
        Column slices of one row range, at least one.

    Attributes
    ----------
    is_far
        Whether bytes are fetched before they are touched.
    holders
        The piece that holds each column, and the id of the column.
    """

    def __init__(
        self, source: SegmentSource, pieces: Sequence[PieceSource], schema: TableSchema
    ) -> None:
        self.schema = schema
        self.is_far = source.is_far
        self._source = source
        self.holders = {
            name: (piece, column_id)
            for piece in reversed(pieces)
            for name, column_id in zip(piece.columns, piece.column_ids, strict=True)
        }
        self._lazy_rows: dict[int, LazyRows] = {}
        self._forms: dict[str, str] = {}

    def take_forms(self) -> dict[str, str]:
        """Return in which form columns were read since the last call; for telemetry."""
        told, self._forms = self._forms, {}
        return told

    def lazy_rows(self, piece: PieceSource) -> LazyRows:
        """Return the rows of a piece, each column of which is read when it is touched."""
        lazy = self._lazy_rows.get(id(piece))
        if lazy is None:
            lazy = self._lazy_rows[id(piece)] = self._source.lazy_rows(piece)
        return lazy

    # --- values -----------------------------------------------------------------------------------

    def fetch(self, names: Iterable[str], ranges: Sequence[SelectedRange]) -> None:
        """Fetch columns of selected rows in one round trip; bytes are far."""
        rows = [range(one.low, one.high) if one.is_whole else one.places() for one in ranges]
        wanted = [
            self.lazy_rows(piece).wanted(own.values(), rows) for piece, own in self._by_piece(names)
        ]
        self._source.fetch(wanted)

    def gather(self, names: Iterable[str], ranges: Sequence[SelectedRange], one_in: int) -> None:
        """Read columns of ranges of which at most one row in so many is selected, in one pass."""
        for selected in ranges:
            if selected.is_whole or selected.rows * one_in > selected.high - selected.low:
                continue
            left = [name for name in names if name not in selected.columns]
            for piece, own in self._by_piece(left):
                found = self.lazy_rows(piece).gather(list(own.values()), selected.places())
                for name, values in zip(own, found, strict=True):
                    if values is not None:
                        selected.columns[name] = self._source.declared(values, name, piece)

    def _by_piece(self, names: Iterable[str]) -> list[tuple[PieceSource, dict[str, int]]]:
        """Return the pieces that hold columns, each with these columns and their ids."""
        own: dict[int, tuple[PieceSource, dict[str, int]]] = {}
        for name in names:
            if name in self.holders:
                piece, column_id = self.holders[name]
                own.setdefault(id(piece), (piece, {}))[1][name] = column_id
        return list(own.values())

    def table(self, selected: SelectedRange, names: Sequence[str]) -> pa.Table:
        """Return columns of the selected rows of a range; text may be dictionaries."""
        numbers = [name for name in names if not pa.types.is_string(self.schema.type_of(name))]
        self.gather(numbers, [selected], GATHERED)
        self.gather(names, [selected], SPARSE)  # of more rows, text is read as codes
        for name in names:
            if name not in selected.columns:
                selected.columns[name] = self._values(selected, name)
        columns = [selected.columns[name] for name in names]
        if not columns:
            return pa.table({"": pa.nulls(selected.rows)}).select([])
        table = pa.table(columns, names=list(names))
        if telemetry.is_followed():
            self._forms |= forms_of(table.schema)
        return table

    def _values(self, selected: SelectedRange, name: str) -> pa.Array:
        type_ = self.schema.type_of(name)
        found = self.holders.get(name)
        if found is None:
            return pa.nulls(selected.rows, type_)
        column = self._column(found, selected)
        if column.type == type_ and pa.types.is_string(type_):
            coded = column.coded(selected.row_mask)
            if coded is not None:
                return coded
        values = column.decode() if selected.is_whole else _selected(column, selected)
        return self._source.declared(values, name, found[0])

    def column(self, name: str, ranges: Sequence[SelectedRange]) -> pa.ChunkedArray:
        """Return a column of ranges of rows, in the type in which it is stored where all is so."""
        piece, column_id = holder = self.holders[name]
        chunks: list[pa.Array] = []
        for selected in ranges:
            if name in selected.columns:
                held = selected.columns[name]
                chunks.append(held if held.type == self.schema.type_of(name) else plain_text(held))
            elif selected.is_whole:
                chunks += self._column(holder, selected).chunks().chunks
            else:
                chunks.append(_selected(self._column(holder, selected), selected))
        if len({chunk.type for chunk in chunks}) > 1:
            chunks = [self._source.declared(chunk, name, piece) for chunk in chunks]
        type_ = chunks[0].type if chunks else self.lazy_rows(piece).type(column_id)
        return unified(pa.chunked_array(chunks, type=type_))

    def dictionary(self, name: str, ranges: Sequence[SelectedRange]) -> pa.ChunkedArray | None:
        """Return a text column as one dictionary array; None where it is stored otherwise.

        None also where entries are more than rows: then text is less to take on than these.
        """
        piece, column_id = holder = self.holders[name]
        rows = sum(selected.rows for selected in ranges)
        if not pa.types.is_string(self.lazy_rows(piece).type(column_id)):
            return None
        found: list[pa.DictionaryArray] = []
        for selected in ranges:
            if selected.rows:
                column = self._column(holder, selected)
                coded = column.coded(selected.row_mask, most_entries=rows)
                if coded is None:
                    return None
                found.append(coded)
        if not found:
            return None
        codes = pa.concat_arrays([each.indices for each in found])
        entries = found[0].dictionary
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, entries, safe=False)])

    def _column(self, holder: tuple[PieceSource, int], selected: SelectedRange) -> SegmentColumn:
        """Return what decodes the rows of a range that are selected."""
        rows = selected.places() if self.is_far and not selected.is_whole else None
        return self.lazy_rows(holder[0]).column(holder[1], selected.low, selected.high, rows)

    # --- stored integers --------------------------------------------------------------------------

    def stored(self, names: Sequence[str], low: int, high: int) -> StoredColumns | None:
        """Return rows ``[low, high)`` of columns as stored; None where one is not, or cut apart.

        Columns that no piece has were added after these rows.
        """
        from tessel.store.segment.stored_columns import StoredColumns

        holders = [self.holders.get(name) for name in names]
        if not holders:
            return None
        held = [holder for holder in holders if holder is not None]
        found = self._beside(held, low, high) if held else StoredColumns.nothing(low, high)
        if found is not None and None in holders:
            pairs = zip(names, holders, strict=True)
            added = {
                place: self.schema.type_of(name)
                for place, (name, holder) in enumerate(pairs)
                if holder is None
            }
            found = found.with_absent(added)
        if found is None:
            return None
        found = found.read_as([self.schema.type_of(name) for name in names])
        if found is None:
            return None
        if telemetry.is_followed():
            self._forms |= {n: c.form for n, c in zip(names, found.columns, strict=True)}
        return found

    def _beside(
        self, holders: Sequence[tuple[PieceSource, int]], low: int, high: int
    ) -> StoredColumns | None:
        """Return columns as stored; of whole row ranges they are a memo of the first segment."""
        from tessel.store.segment.stored_columns import StoredColumns

        def found() -> tuple[tuple[StoredColumn, ...], StoredBlocks] | tuple[()]:
            pieces: dict[int, list[int]] = {}
            for place, (piece, _) in enumerate(holders):
                pieces.setdefault(id(piece), []).append(place)
            parts: list[StoredColumns] = []
            for places in pieces.values():
                rows = self.lazy_rows(holders[places[0]][0])
                part = rows.stored([holders[place][1] for place in places], low, high)
                if part is None:
                    return ()
                parts.append(part)
            whole: StoredColumns | None = parts[0]
            if len(parts) > 1:
                order = np.argsort([place for places in pieces.values() for place in places])
                whole = StoredColumns.beside(parts)
                whole = whole and whole.in_order(order.tolist())
            return (whole.columns, whole.blocks) if whole else ()

        piece = holders[0][0]
        first = self.lazy_rows(piece)
        if first.is_mapped and high - low == piece.row_stop - piece.row_start:
            key = "stored", *[(own.key, own.segment_row_start, column) for own, column in holders]
            made = first.memo(key, found)
        else:
            made = found()
        return StoredColumns(*made, first.memos) if made else None


def _selected(column: SegmentColumn, selected: SelectedRange) -> pa.Array:
    """Return the selected rows of a column, which are not all of them."""
    few = selected.rows * SPARSE <= selected.high - selected.low
    if few and selected.mask is None:  # which a long range would be cleared and searched for
        return column.take(selected.places() - selected.low)
    return column.filter(selected.row_mask)


def forms_of(schema: pa.Schema) -> dict[str, str]:
    """Return the form of columns that were read as arrays; for telemetry."""
    return {
        field.name: "dictionary" if pa.types.is_dictionary(field.type) else "values"
        for field in schema
    }


def plain_text(values: pa.Array) -> pa.Array:
    """Return text as text; only some ranges have a dictionary."""
    if isinstance(values, pa.DictionaryArray):
        return values.dictionary.take(values.indices)
    return values


Plan = TypeVar("Plan")


@dataclass(frozen=True, eq=False)
class OpenedBatch(Generic[Plan]):
    """A batch whose stored columns are at hand.

    Attributes
    ----------
    plan
        What is done to its rows; other batches may share it.
    spans
        Stretches of rows in order, all of one segment.
    """

    plan: Plan
    spans: tuple[StoredBlocks, ...]
    columns: tuple[StoredColumn, ...]

    def bound(self, program: UnboundProgram) -> Program:
        """Return a program of the plan for the columns of this batch."""
        return program.bind(self.columns, self.spans[0].facts.shape[2])

    @property
    def rows(self) -> int:
        """How many rows are looked at."""
        return sum(len(span) for span in self.spans)

    @cached
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.array([span.start for span in self.spans], np.int64)

    def values_at(self, place: int, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Return single values of a column: int64, float64, or those of its dictionary.

        Rows count in the segment, and have a value. Integers are what is stored: of decimals,
        without their scale.
        """
        column = self.columns[place]
        integers, bits = np.zeros((2, len(rows)), np.int64)
        which = np.searchsorted(self._starts, rows, side="right") - 1
        for at in different(which[which >= 0]).tolist():
            span = self.spans[at]
            own = np.flatnonzero((which == at) & (rows < span.stop))
            if len(own):
                integers[own], bits[own] = _values_at(span, place, rows[own])
        if column.entries is not None:
            return column.entries.values.take(arrow_array(integers))
        return arrow_array(integers if column.exponents is None else bits.view(np.float64))


def _values_at(
    blocks: StoredBlocks, column: int, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the integers of rows of a column, and the bits of the floats that they stand for."""
    facts = np.ascontiguousarray(blocks.facts[:, column : column + 1])
    facts.flags.writeable = False
    words, _ = load_rows(blocks.data, facts, blocks.shift, rows)
    integers = words[0].view(np.int64)
    exponents = facts[PageFact.EXPONENT, 0, rows >> blocks.shift]
    bits = np.empty(len(rows), np.int64)
    for exponent in different(exponents).tolist():
        own = exponents == exponent
        bits[own] = floats_of(integers[own], exponent).view(np.int64)
    if blocks.gaps is not None and blocks.gaps[Gap.EXCEPTIONS, column].any():
        pages, inside = rows >> blocks.shift, rows & ((1 << blocks.shift) - 1)
        for page in different(pages).tolist():
            places, held = blocks.exceptions(column, page, 0, 1 << blocks.shift)
            own = np.flatnonzero(pages == page)
            at = np.searchsorted(places, inside[own])
            found = np.flatnonzero(at < len(places))
            found = found[places[at[found]] == inside[own[found]]]
            bits[own[found]] = held[at[found]]
    return integers, bits

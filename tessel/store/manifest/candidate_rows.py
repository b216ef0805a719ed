"""Rows that a query may want, narrowed by what little of them tells before the rest is read.

The first clauses of a query enter here with a unit that is not read yet. A bound on the index is
settled by page tables and binary search in one page; a predicate by page tables, then by its own
columns, in the form in which they are stored where that is cheaper. The other columns are read for
the rows that are left.
"""

from __future__ import annotations

import copy
import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.expression.context import ExpressionContext
from tessel.expression.encoded import BlockProgram
from tessel.expression.node import Expression
from tessel.expression.plain_conditions import plain_conditions
from tessel.expression.schema import TableSchema
from tessel.expression.statistics import FALSE, TRUE, evaluate_statistics
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.program import Program
from tessel.kernels.select_rows import select_places, select_rows
from tessel.store.manifest.held_columns import FEW, HeldColumns, plain_text
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.stretch import RowPart, Stretch
from tessel.store.segment.page_statistics import ColumnZones
from tessel.store.segment.plain_verdicts import plain_verdicts
from tessel.store.segment.stored_columns import StoredColumn

__all__ = ["KEPT", "CandidateRows"]

KEPT = "\0kept"
"""The column that says which rows are left, where single ones were dropped."""


class CandidateRows:
    """The rows of one row range that are still wanted, over all pieces that hold its columns.

    Used by one thread. A method that raises leaves the rows
    as they were.

    Parameters
    ----------
    source
        What reads the pieces.
    pieces
        Column slices of one row range, at least one.
    schema
        The columns of all of them together.
    """

    def __init__(
        self, source: SegmentSource, pieces: Sequence[PieceSource], schema: TableSchema
    ) -> None:
        self.schema = schema
        self._source = source
        self.pieces = tuple(pieces)
        """As given."""
        self._rows = pieces[0].row_stop - pieces[0].row_start
        self._stretches = [Stretch(0, self._rows)] if self._rows else []
        self._held = HeldColumns(source, self.pieces, schema)

    def __len__(self) -> int:
        """Return how many rows are left."""
        return sum(stretch.rows for stretch in self._stretches)

    @property
    def is_whole(self) -> bool:
        """Whether all rows are left, and none of their values has been looked at."""
        return len(self) == self._rows and not any(each.held for each in self._stretches)

    @property
    def first_row(self) -> int:
        """The place in the symbol of the row that places are counted from."""
        return self.pieces[0].row_start

    # --- looking ----------------------------------------------------------------------------------

    @property
    def first_place(self) -> int:
        """The place of the first stretch of rows that is left; there must be one."""
        return self._stretches[0].low

    def places(self) -> npt.NDArray[np.int64]:
        """Return the places of the rows that are left, from the first of the row range; int64."""
        found = [stretch.places() for stretch in self._stretches]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def values(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows that are left; text may be dictionaries."""
        tables = [self._held.table(stretch, names) for stretch in self._stretches]
        if not tables:
            return self.schema.select(names).empty()
        columns = []
        for name in names:
            chunks = [chunk for table in tables for chunk in table.column(name).chunks]
            if len({chunk.type for chunk in chunks}) > 1:
                chunks = [plain_text(chunk) for chunk in chunks]
            columns.append(pa.chunked_array(chunks, type=chunks[0].type if chunks else None))
        return pa.table(columns, names=list(names))

    def parts(self, name: str) -> list[RowPart]:
        """Return the rows that are left page by page of a column, with what page tables say of it.

        Where they say nothing, because values are of another type than declared, nested or not
        there, stretches are not cut.
        """
        zone = self._zone(name)
        if zone is None:
            return [RowPart(stretch, self._reader(name)) for stretch in self._stretches]
        read, edges = self._reader(name), zone.edges.tolist()
        return [
            RowPart(part, read, zone.zones, page) for page, part in _cuts(self._stretches, edges)
        ]

    def within(self, parts: Sequence[RowPart]) -> CandidateRows:
        """Return the rows of some parts alone, in the order of the rows; these stay as they are."""
        found = copy.copy(self)
        stretches = [part.stretch for part in parts]
        found._stretches = sorted(stretches, key=lambda stretch: stretch.low)
        return found

    def copied(self) -> CandidateRows:
        """Return the same rows, to be narrowed and read apart: nothing is kept here for that."""
        found = copy.copy(self)
        found._stretches = [
            dataclasses.replace(stretch, held=dict(stretch.held)) for stretch in self._stretches
        ]
        return found

    # --- narrowing --------------------------------------------------------------------------------

    def keep(self, places: npt.NDArray[np.int64]) -> None:
        """Keep the rows at these places, ascending, of those that are left."""
        left: list[Stretch] = []
        for stretch in self._stretches:
            begin, end = np.searchsorted(places, [stretch.low, stretch.high]).tolist()
            if begin == end:
                continue
            inside = places[begin:end] - stretch.low
            if stretch.is_whole and not stretch.held:
                kept = stretch.at(inside)
            else:
                mask = np.zeros(stretch.high - stretch.low, np.bool_)
                mask[inside] = True
                kept = stretch.where(mask)
            if kept is not None:
                left.append(kept)
        self._stretches = left

    def keep_where(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep the rows where a mask is true, which has a value for each that is left."""
        left: list[Stretch] = []
        at = 0
        for stretch in self._stretches:
            flags = mask[at : at + stretch.rows]
            at += stretch.rows
            if stretch.keep is not None:
                flags = stretch.keep.copy()
                flags[stretch.keep] = mask[at - stretch.rows : at]
            count = int(np.count_nonzero(flags))
            if count:
                left.append(Stretch(stretch.low, stretch.high, flags, count=count))
        self._stretches = left

    def cut_index(self, low: int | None, high: int | None) -> None:
        """Keep the rows whose index lies in ``[low, high)``; None is no bound.

        Bounds count in the unit of the index, which never goes back and is never missing.
        """
        assert self.schema.index is not None  # who has bounds has an index
        piece, column_id = self._held.holders[self.schema.index]
        late = self._held.late(piece)
        first = 0 if low is None else late.first_at_or_after(column_id, low)
        last = self._rows if high is None else late.first_at_or_after(column_id, high)
        self._stretches = self._between(first, last)

    def filter(self, predicate: Expression, *, start: int = 0, stop: int | None = None) -> None:
        """Keep the rows where a predicate is true.

        Parameters
        ----------
        predicate
            Asked of the rows at places ``[start, stop)``; all others stay.

        Raises
        ------
        TesselError
            What evaluating it on the rows that are left raises.
        """
        first, last = max(0, start), self._rows if stop is None else min(stop, self._rows)
        asked = self._between(first, last)
        if not asked:
            return
        names = sorted(predicate.columns())
        context = ExpressionContext.of(predicate)
        left = self._between(0, first)
        for stretch, verdict in self._settled(asked, context, names):
            kept = stretch if verdict == TRUE else self._narrowed(stretch, predicate, names)
            if kept is not None:
                left.append(kept)
        self._stretches = left + self._between(last, self._rows)

    def rule_out(self, predicate: Expression) -> bool:
        """Drop the pages in which, by their zone maps, a predicate is nowhere true.

        Returns
        -------
        bool
            Whether, by zone maps, it is true of all rows that are left.
        """
        context = ExpressionContext.of(predicate)
        settled = list(self._settled(self._stretches, context, sorted(predicate.columns())))
        self._stretches = [stretch for stretch, _ in settled]
        return all(verdict == TRUE for _, verdict in settled)

    def stored(
        self, names: Sequence[str]
    ) -> tuple[dict[str, StoredColumn], tuple[StoredBlocks, ...]] | None:
        """Return columns of the rows that are left as the integers that are stored.

        Where single rows were dropped, a column :data:`KEPT` more says which are left; where these
        are few, their values are fewer than the integers of all. None then, where a column is kept
        otherwise or cut apart from others, and where no row is left. Each stretch of rows has bytes
        of its own.
        """
        whole = all(stretch.is_whole for stretch in self._stretches)
        spans: list[list[Stretch]] = []
        for stretch in self._stretches:
            if spans and spans[-1][-1].high == stretch.low:
                spans[-1].append(stretch)
            else:
                spans.append([stretch])
        if not whole and len(self) * FEW < sum(own[-1].high - own[0].low for own in spans):
            return None
        blocks: list[StoredBlocks] = []
        columns: tuple[StoredColumn, ...] = ()
        for own in spans:
            found = self._held.stored(names, own[0].low, own[-1].high)
            if found is not None and not whole:
                found = found.with_mask(np.concatenate([stretch.flags() for stretch in own]))
            if found is None:
                return None
            columns = columns or found.columns
            blocks.append(found.blocks)
        kept = [] if whole else [KEPT]
        return (dict(zip([*names, *kept], columns, strict=True)), tuple(blocks)) if blocks else None

    def told_forms(self) -> dict[str, str]:
        """Return in which form columns were read since this was asked; for telemetry."""
        return self._held.told_forms()

    def pages_left(self, predicate: Expression) -> tuple[int, int]:
        """Keep the rows that page tables do not rule out; no page is read.

        Returns
        -------
        before, after
            In how many pages wanted rows lay, and lie now, where pages of all columns of the
            predicate are cut by one another.
        """
        edges, verdicts = self._verdicts(
            ExpressionContext.of(predicate), sorted(predicate.columns())
        )
        parts = list(_cuts(self._stretches, edges.tolist()))
        left = [(page, part) for page, part in parts if verdicts[page] != FALSE]
        self._stretches = [part for _, part in left]
        return len({page for page, _ in parts}), len({page for page, _ in left})

    def load(self, piece: PieceSource) -> pa.Table:
        """Return all rows of one of the pieces, those that are not left as well."""
        return self._source.load(piece)

    def read(self, piece: PieceSource, coded: Set[str] = frozenset()) -> pa.Table:
        """Return what is left of one of the pieces, as ``SegmentSource.load`` gives the whole.

        Parameters
        ----------
        piece
            One of them.
        coded
            Text columns that may be dictionaries of text, where they are stored as codes.
        """
        if self.is_whole and not coded:
            return self.load(piece)

        def stored() -> pa.Table:
            names = [str(column_id) for column_id in piece.column_ids]
            held, stretches = self._held, self._stretches
            gathered = held.gathered(piece, stretches)
            columns = [
                held.column(piece, name, column_id, stretches, gathered)
                if name not in coded
                or (codes := held.dictionary(piece, column_id, stretches)) is None
                else codes
                for name, column_id in zip(piece.columns, piece.column_ids, strict=True)
            ]
            return pa.table(columns, names=names)

        return self._source.table_of(piece, len(self), stored)

    # --- inside -----------------------------------------------------------------------------------

    def _narrowed(
        self, stretch: Stretch, predicate: Expression, names: Sequence[str]
    ) -> Stretch | None:
        """Return what a predicate leaves of a stretch; None where that is nothing."""
        found = self._encoded(stretch, predicate, names)
        if found is None:
            from tessel.expression.evaluate import evaluate

            mask = evaluate(ExpressionContext.of(predicate), self._held.table(stretch, names))
            return None if pa.types.is_null(mask.type) else stretch.only(mask)
        if stretch.is_whole and not stretch.held:
            places = select_places(*found)
            if places is not None:
                return stretch.at(places)
        return stretch.where(select_rows(*found))

    def _encoded(
        self, stretch: Stretch, predicate: Expression, names: Sequence[str]
    ) -> tuple[StoredBlocks, Program, int] | None:
        """Return a predicate on all rows of a stretch as they are stored; None where it has none.

        Where few rows are left, their values are fewer than the integers of all.
        """
        if not stretch.is_whole and stretch.rows * FEW < stretch.high - stretch.low:
            return None
        found = self._held.stored(names, stretch.low, stretch.high)
        if found is None:
            return None
        pages = found.blocks.facts.shape[2]

        def compiled() -> tuple[Program, int | None]:
            columns = dict(zip(names, found.columns, strict=True))
            program = BlockProgram(columns, self.schema, pages)
            truth = program.truth(predicate)
            return program.program(), truth

        # The columns are those of the segment, of the declared types, and the predicate names them.
        key = "truth", predicate.digest, found.columns, pages
        program, truth = found.notes.made(key, compiled)
        return None if truth is None else (found.blocks, program, truth)

    def _between(self, first: int, last: int) -> list[Stretch]:
        """Return what of the stretches lies at places ``[first, last)``."""
        cut = [stretch.cut(first, last) for stretch in self._stretches]
        return [stretch for stretch in cut if stretch is not None]

    def _settled(
        self, stretches: Sequence[Stretch], context: ExpressionContext, names: Sequence[str]
    ) -> Iterable[tuple[Stretch, int]]:
        """Give the stretches in which page tables do not rule out the predicate.

        Pages in a row with the same verdict stay one stretch.
        """
        edges, verdicts = self._verdicts(context, names)
        change = np.flatnonzero(np.diff(verdicts)) + 1
        begins = np.concatenate([[0], change, [len(verdicts)]])
        alike = verdicts[begins[:-1]].tolist() if len(verdicts) else []
        for run, part in _cuts(stretches, edges[begins].tolist()):
            if alike[run] != FALSE:
                yield part, alike[run]

    def _verdicts(
        self, context: ExpressionContext, names: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
        """Return where pages of some columns begin and end, and what they say of a predicate."""
        holders = [self._held.holders.get(name) for name in names]
        first = holders[0] if holders else None
        if first is None or any(each is None or each[0] is not first[0] for each in holders):
            return self._asked(context, names)
        held = [each[1] for each in holders if each]
        key = "verdicts", context.root, *held, *map(self.schema.type_of, names)
        return self._held.late(first[0]).kept(key, lambda: self._asked(context, names))

    def _asked(
        self, context: ExpressionContext, names: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
        from tessel.store.segment.page_statistics import PageStatistics

        zones = self._zones(names)
        conditions = plain_conditions(context, self.schema)
        found = plain_verdicts(conditions, zones, self._rows) if conditions else None
        if found is not None:
            return found
        types = {name: self.schema.type_of(name) for name in names}
        statistics = PageStatistics(self._rows, zones, types)
        return statistics.edges, evaluate_statistics(context, statistics, self.schema)

    def _zones(self, names: Iterable[str]) -> dict[str, ColumnZones]:
        found = {name: self._zone(name) for name in names}
        return {name: zone for name, zone in found.items() if zone is not None}

    def _zone(self, name: str) -> ColumnZones | None:
        """Return what page tables say of a column that is stored as it is declared."""
        found = self._held.holders.get(name)
        if found is None:
            return None
        zone = self._held.late(found[0]).zones(found[1])
        return zone if zone is not None and zone.type == self.schema.type_of(name) else None

    def _reader(self, name: str) -> Callable[[Stretch], pa.Array]:
        def read(stretch: Stretch) -> pa.Array:
            return self._held.table(stretch, [name]).column(name).chunk(0)

        return read


def _cuts(stretches: Iterable[Stretch], edges: Sequence[int]) -> Iterator[tuple[int, Stretch]]:
    """Give what of ascending stretches lies between each two edges, and the first one's number."""
    for stretch in stretches:
        for at in range(max(0, bisect_right(edges, stretch.low) - 1), len(edges) - 1):
            if edges[at] >= stretch.high:
                break
            part = stretch.cut(edges[at], edges[at + 1])
            if part is not None:
                yield at, part

"""The selection of one row range, narrowed before the other columns are read.

Batches that are not read yet own one, and this is where late materialization happens. A bound on
the index is found by zone maps and by binary search in one page. A predicate prunes pages by zone
maps and is then evaluated on its own columns, on the stored integers where that is cheaper. The
other columns are read for the selected rows alone.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, unified
from tessel.cached import copied
from tessel.expression.schema import TableSchema
from tessel.store.manifest.lazy_columns import GATHERED, SPARSE, LazyColumns, plain_text
from tessel.store.manifest.piece import PieceSource, SegmentSource
from tessel.store.manifest.selected_range import ReadColumns, SelectedPages, SelectedRange

if TYPE_CHECKING:
    from tessel.expression.block_steps import UnboundProgram
    from tessel.expression.context import ExpressionContext
    from tessel.expression.node import Expression
    from tessel.kernels.blocks import StoredBlocks
    from tessel.kernels.program import Program
    from tessel.store.segment.statistics import ColumnZones
    from tessel.store.segment.stored_columns import StoredColumn

SELECTED = "\0selected"
"""The truth column that stored blocks have beside their own: the selection mask of their rows."""


class SelectedRows:
    """The selected rows of one row range, over all pieces that have columns of it.

    Used by one thread. A method that raises leaves the selection as it was.

    Parameters
    ----------
    pieces
        Column slices of one row range, at least one.
    """

    def __init__(
        self, source: SegmentSource, pieces: Sequence[PieceSource], schema: TableSchema
    ) -> None:
        self.schema = schema
        self._source = source
        self.pieces = tuple(pieces)
        """As given."""
        self._rows = pieces[0].row_stop - pieces[0].row_start
        self._ranges = [SelectedRange(0, self._rows)] if self._rows else []
        self._lazy = LazyColumns(source, self.pieces, schema)

    def __len__(self) -> int:
        """Return how many rows are selected."""
        return sum(selected.rows for selected in self._ranges)

    @property
    def is_whole(self) -> bool:
        """Whether all rows are selected and no column was read."""
        held = self._ranges
        if len(held) != 1:
            return not self._rows
        only = held[0]
        whole = only.mask is None and only.offsets is None and not only.columns
        return whole and only.high - only.low == self._rows

    @property
    def first_row(self) -> int:
        """The place in the symbol of the row that places are counted from."""
        return self.pieces[0].row_start

    # --- looking ----------------------------------------------------------------------------------

    @property
    def first_place(self) -> int:
        """The first row of the first selected range; there must be one."""
        return self._ranges[0].low

    def places(self) -> npt.NDArray[np.int64]:
        """Return the selected rows, counted from the first of the row range; int64."""
        found = [selected.places() for selected in self._ranges]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def places_of(self, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the places of some selected rows, which are numbers among these; int64."""
        if len(self._ranges) == 1 and self._ranges[0].is_whole:
            return chosen + self._ranges[0].low
        return self.places()[chosen]

    def values(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the selected rows; text may be dictionaries."""
        if self._lazy.is_far:
            self._lazy.fetch(names, self._ranges)
        tables = [self._lazy.table(selected, names) for selected in self._ranges]
        if not tables:
            return self.schema.select(names).empty()
        columns = []
        for name in names:
            chunks = [chunk for table in tables for chunk in table.column(name).chunks]
            if len({chunk.type for chunk in chunks}) > 1:
                chunks = [plain_text(chunk) for chunk in chunks]
            columns.append(unified(pa.chunked_array(chunks, chunks[0].type if chunks else None)))
        return pa.table(columns, names=list(names))

    def pages(self, name: str) -> SelectedPages:
        """Return the selected rows page by page of a column, with its zone maps.

        Ranges are not cut where the column has no zone maps: its values are nested, of another
        type than declared, or not there.
        """
        return SelectedPages.of(self._ranges, self._zone(name))

    def within(self, pages: SelectedPages) -> SelectedRows:
        """Return the selection of some of its pages alone, in the order of rows; this one stays."""
        found = copied(self)
        pages = pages.take(np.argsort(pages.low))
        of, low, high = pages.ranges, pages.low, pages.high
        edges = np.flatnonzero((low[1:] != high[:-1]) | (of[1:] != of[:-1])) + 1
        starts, stops = np.append(0, edges), np.append(edges, len(pages))
        runs = zip(of[starts], low[starts].tolist(), high[stops - 1].tolist(), strict=True)
        cuts = [self._ranges[at].cut(begin, end) for at, begin, end in runs]
        found._ranges = [selected for selected in cuts if selected is not None]
        return found

    def copied(self) -> SelectedRows:
        """Return a copy of the selection, which is narrowed and read without touching this one."""
        found = copied(self)
        found._ranges = [
            dataclasses.replace(selected, columns=ReadColumns(selected.columns))
            for selected in self._ranges
        ]
        return found

    # --- narrowing --------------------------------------------------------------------------------

    def keep(self, places: npt.NDArray[np.int64]) -> None:
        """Keep those selected rows that ``places`` lists, ascending."""
        left: list[SelectedRange] = []
        for selected in self._ranges:
            begin, end = np.searchsorted(places, [selected.low, selected.high]).tolist()
            if begin == end:
                continue
            inside = places[begin:end] - selected.low
            if selected.is_whole and not selected.columns:
                kept = selected.at(inside)
            else:
                mask = np.zeros(selected.high - selected.low, np.bool_)
                mask[inside] = True
                kept = selected.where(mask)
            if kept is not None:
                left.append(kept)
        self._ranges = left

    def keep_where(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep the rows where a mask is true, which has a value for each selected row."""
        found: list[SelectedRange | None] = []
        at = 0
        for selected in self._ranges:
            found.append(selected.only(arrow_array(mask[at : at + selected.rows])))
            at += selected.rows
        self._ranges = [selected for selected in found if selected is not None]

    def cut_index(self, low: int | None, high: int | None) -> None:
        """Keep the rows whose index lies in ``[low, high)``; None is no bound.

        Bounds count in the unit of the index, which never goes back and is never missing.
        """
        assert self.schema.index is not None  # who has bounds has an index
        piece, column_id = self._lazy.holders[self.schema.index]
        lazy = self._lazy.lazy_rows(piece)
        first = 0 if low is None else lazy.first_at_or_after(column_id, low)
        last = self._rows if high is None else lazy.first_at_or_after(column_id, high)
        self._ranges = self._between(first, last)

    def filter(self, predicate: Expression, *, start: int = 0, stop: int | None = None) -> None:
        """Keep the rows where a predicate is true.

        Parameters
        ----------
        predicate
            Evaluated on the rows ``[start, stop)`` of the row range; all others stay.
        """
        from tessel.expression.context import ExpressionContext
        from tessel.expression.intervals import TRUE

        first, last = max(0, start), self._rows if stop is None else min(stop, self._rows)
        asked = self._between(first, last)
        if not asked:
            return
        names = sorted(predicate.columns())
        context = ExpressionContext.of(predicate)
        left = self._between(0, first)
        unpruned = list(self._unpruned(asked, context, names))
        if self._lazy.is_far:
            self._lazy.fetch(names, [selected for selected, proof in unpruned if proof != TRUE])
        for selected, proof in unpruned:
            kept = selected if proof == TRUE else self._narrowed(selected, predicate, names)
            if kept is not None:
                left.append(kept)
        self._ranges = left + self._between(last, self._rows)

    def prune_pages(self, predicate: Expression) -> bool:
        """Drop the pages whose zone maps prove that a predicate is true of no row.

        Returns
        -------
        bool
            Whether zone maps prove that it is true of all rows that are still selected.
        """
        from tessel.expression.context import ExpressionContext
        from tessel.expression.intervals import TRUE

        context = ExpressionContext.of(predicate)
        unpruned = list(self._unpruned(self._ranges, context, sorted(predicate.columns())))
        self._ranges = [selected for selected, _ in unpruned]
        return all(proof == TRUE for _, proof in unpruned)

    def stored(
        self, names: Sequence[str]
    ) -> tuple[tuple[StoredColumn, ...], tuple[StoredBlocks, ...]] | None:
        """Return columns of the selected ranges as stored integers, a set of blocks for each.

        Where single rows were dropped, a column :data:`SELECTED` comes last. None where the
        selection is sparse, so that decoding its values is cheaper than looking at all integers;
        where a column is not stored as integers, or has other page edges than the others; and where
        no row is selected.
        """
        whole = all(selected.is_whole for selected in self._ranges)
        spans: list[list[SelectedRange]] = []
        for selected in self._ranges:
            if spans and spans[-1][-1].high == selected.low:
                spans[-1].append(selected)
            else:
                spans.append([selected])
        if not whole and len(self) * SPARSE < sum(own[-1].high - own[0].low for own in spans):
            return None
        if self._lazy.is_far:
            self._lazy.fetch(names, [SelectedRange(own[0].low, own[-1].high) for own in spans])
        blocks: list[StoredBlocks] = []
        columns: tuple[StoredColumn, ...] = ()
        for own in spans:
            found = self._lazy.stored(names, own[0].low, own[-1].high)
            if found is not None and not whole:
                found = found.with_mask(np.concatenate([selected.flags() for selected in own]))
            if found is None:
                return None
            columns = columns or found.columns
            blocks.append(found.blocks)
        return (columns, tuple(blocks)) if blocks else None

    def take_forms(self) -> dict[str, str]:
        """Return in which form columns were read since the last call; for telemetry."""
        return self._lazy.take_forms()

    @property
    def row_ranges(self) -> list[tuple[int, int]]:
        """The ranges of rows in which rows are selected, those that touch as one."""
        found: list[tuple[int, int]] = []
        for each in self._ranges:
            if found and found[-1][1] == each.low:
                found[-1] = found[-1][0], each.high
            else:
                found.append((each.low, each.high))
        return found

    def pages_left(self, predicate: Expression) -> tuple[int, int]:
        """Keep the pages that zone maps do not prune for a predicate; no page is read.

        Returns
        -------
        before, after
            How many pages had selected rows, and have them now. Pages of the columns of the
            predicate are cut at the edges of all of them.
        """
        from tessel.expression.context import ExpressionContext
        from tessel.expression.intervals import FALSE

        edges, proofs = self._page_proofs(
            ExpressionContext.of(predicate), sorted(predicate.columns())
        )
        parts = list(_cuts(self._ranges, edges.tolist()))
        left = [(page, part) for page, part in parts if proofs[page] != FALSE]
        self._ranges = [part for _, part in left]
        return len({page for page, _ in parts}), len({page for page, _ in left})

    def load(self, piece: PieceSource) -> pa.Table:
        """Return all rows of one of the pieces, also those that are not selected."""
        return self._source.load(piece)

    def read(self, piece: PieceSource, coded: Set[str] = frozenset()) -> pa.Table:
        """Return the selected rows of one of the pieces, as ``SegmentSource.load`` gives all.

        Parameters
        ----------
        coded
            Text columns that may be dictionaries of text, where they are stored as codes.
        """
        if self.is_whole and not coded:
            return self._source.load(piece)

        def stored() -> list[Any]:
            lazy, ranges = self._lazy, self._ranges
            if lazy.is_far:
                lazy.fetch([name for each in self.pieces for name in each.columns], ranges)
            found = {n: lazy.dictionary(n, ranges) for n in piece.columns if n in coded}
            left = [name for name in piece.columns if found.get(name) is None]
            lazy.gather(left, ranges, GATHERED)
            found |= {name: lazy.column(name, ranges) for name in left}
            return [found[name] for name in piece.columns]

        return self._source.table_of(piece, len(self), stored)

    # --- inside -----------------------------------------------------------------------------------

    def _narrowed(
        self, selected: SelectedRange, predicate: Expression, names: Sequence[str]
    ) -> SelectedRange | None:
        """Evaluate a predicate on a range; return the rows that pass, None where none does."""
        from tessel.expression.context import ExpressionContext
        from tessel.kernels.select_rows import select_places, select_rows

        found = self._encoded(selected, predicate, names)
        if found is None:
            from tessel.expression.evaluate import evaluate

            mask = evaluate(ExpressionContext.of(predicate), self._lazy.table(selected, names))
            return None if pa.types.is_null(mask.type) else selected.only(mask)
        if selected.is_whole and not selected.columns:
            places = select_places(*found)
            if places is not None:
                return selected.at(places)
        return selected.where(select_rows(*found))

    def _encoded(
        self, selected: SelectedRange, predicate: Expression, names: Sequence[str]
    ) -> tuple[StoredBlocks, Program, int] | None:
        """Compile a predicate for the stored integers of a range; None where that is impossible.

        None also where the selection is sparse: decoding its values is cheaper then.
        """
        from tessel.expression.encoded import BlockProgram

        if not selected.is_whole and selected.rows * SPARSE < selected.high - selected.low:
            return None
        found = self._lazy.stored(names, selected.low, selected.high)
        if found is None:
            return None
        columns, forms = found.columns, [each.program_form for each in found.columns]

        def compiled() -> tuple[UnboundProgram, int | None]:
            program = BlockProgram(dict(zip(names, forms, strict=True)), self.schema)
            truth = program.truth(predicate)
            return program.program(), truth

        # The columns are those of the segment, of the declared types, and the predicate names them.
        key = "truth", predicate.digest, columns
        program, truth = found.memos.get_or_make(key, compiled)
        if truth is None:
            return None
        return found.blocks, program.bind(columns, found.blocks.facts.shape[2]), truth

    def _between(self, first: int, last: int) -> list[SelectedRange]:
        """Return the ranges cut to rows ``[first, last)``."""
        cut = [selected.cut(first, last) for selected in self._ranges]
        return [selected for selected in cut if selected is not None]

    def _unpruned(
        self, ranges: Sequence[SelectedRange], context: ExpressionContext, names: Sequence[str]
    ) -> Iterable[tuple[SelectedRange, int]]:
        """Give the ranges that zone maps do not prune, each with what they prove of it.

        Neighbouring pages of which the same is proved stay one range.
        """
        from tessel.expression.intervals import FALSE

        edges, proofs = self._proved_runs(context, names)
        for run, part in _cuts(ranges, edges):
            if proofs[run] != FALSE:
                yield part, proofs[run]

    def _proved_runs(
        self, context: ExpressionContext, names: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """Return the edges of runs of pages, and TRUE, FALSE or UNKNOWN of each; see above."""
        from tessel.expression.checking import cannot_raise
        from tessel.expression.intervals import UNKNOWN

        def proved() -> tuple[list[int], list[int]]:
            if not cannot_raise(context.expression(), self.schema):
                return [0, self._rows], [UNKNOWN]  # a row that fails has to be met
            edges, proofs = self._page_proofs(context, names)
            change = np.flatnonzero(np.diff(proofs)) + 1
            begins = np.concatenate([[0], change, [len(proofs)]])
            return edges[begins].tolist(), proofs[begins[:-1]].tolist() if len(proofs) else []

        holders = [self._lazy.holders.get(name) for name in names]
        first = next((each[0] for each in holders if each is not None), None)
        if first is None:
            return proved()
        # A memo of the segment of the first column: the others may lie in other column slices.
        held = [each and (each[0].key, each[0].segment_row_start, each[1]) for each in holders]
        key = "proofs", context.root, *held, *map(self.schema.type_of, names)
        return self._lazy.lazy_rows(first).memo(key, proved)

    def _page_proofs(
        self, context: ExpressionContext, names: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
        """Return page edges, and for each page TRUE, FALSE or UNKNOWN: what zone maps prove."""
        from tessel.expression.intervals import evaluate_statistics
        from tessel.store.segment.statistics import PageStatistics

        zones = {name: zone for name in names if (zone := self._zone(name)) is not None}
        types = {name: self.schema.type_of(name) for name in names}
        statistics = PageStatistics(self._rows, zones, types)
        return statistics.edges, evaluate_statistics(context, statistics, self.schema)

    def _zone(self, name: str) -> ColumnZones | None:
        """Return the zone maps of a column; None where it is not stored as it is declared."""
        found = self._lazy.holders.get(name)
        if found is None:
            return None
        zone = self._lazy.lazy_rows(found[0]).zones(found[1])
        return zone if zone is not None and zone.type == self.schema.type_of(name) else None


def _cuts(
    ranges: Iterable[SelectedRange], edges: Sequence[int]
) -> Iterator[tuple[int, SelectedRange]]:
    """Give the parts of ascending ranges between each two edges, with the number of the first."""
    for selected in ranges:
        for at in range(max(0, bisect_right(edges, selected.low) - 1), len(edges) - 1):
            if edges[at] >= selected.high:
                break
            part = selected.cut(edges[at], edges[at + 1])
            if part is not None:
                yield at, part

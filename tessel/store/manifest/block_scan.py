"""Rows that clauses compute on block by block, as they are stored, without making values of them.

The first clauses of a query enter here with a unit that is not read yet: those that drop rows or
compute columns say so, and one that reduces rows runs them all in one pass. Nothing is read before
that; where anything cannot be done on what is stored, the answer is None, and the unit is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.expression.encoded import BlockProgram
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.kernels.blocks import Gap, StoredBlocks, floats_of
from tessel.kernels.load_rows import load_rows
from tessel.store.manifest.candidate_rows import CandidateRows
from tessel.store.manifest.stretch import RowPart
from tessel.store.segment.stored_columns import StoredColumn

__all__ = ["BlockScan", "OpenedScan"]


@dataclass(frozen=True, eq=False)
class OpenedScan:
    """A scan whose columns are at hand.

    Attributes
    ----------
    program
        Filters and computed columns are in it already; what reduces the rows adds its own.
    select
        The truth register of the rows that are left; None for all.
    spans
        Stretches of rows in order, all of one segment.
    columns
        The columns of the spans, by number.
    """

    program: BlockProgram
    select: int | None
    spans: tuple[StoredBlocks, ...]
    columns: tuple[StoredColumn, ...]

    @property
    def rows(self) -> int:
        """How many rows are looked at."""
        return sum(len(span) for span in self.spans)

    def values_at(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array | None:
        """Return single values of a stored column: int64, float64, or those of its dictionary.

        None for a column that is computed. Rows count in the segment, and have a value. Integers
        are what is stored: of decimals, without their scale.
        """
        place = self.program.place(name)
        if place is None:
            return None
        column = self.columns[place]
        integers, bits = np.zeros((2, len(rows)), np.int64)
        for span in self.spans:
            own = np.flatnonzero((rows >= span.start) & (rows < span.stop))
            if len(own):
                integers[own], bits[own] = _values_at(span, place, rows[own])
        if column.dictionary is not None:
            return column.dictionary.take(arrow_array(integers))
        return (
            arrow_array(integers)
            if column.exponents is None
            else arrow_array(bits.view(np.float64))
        )


def _values_at(
    blocks: StoredBlocks, column: int, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the integers of rows of a column, and the bits of the floats that they stand for."""
    facts = np.ascontiguousarray(blocks.facts[:, column : column + 1])
    facts.flags.writeable = False
    words, exponents = load_rows(blocks.data, facts, blocks.shift, rows)
    integers = words[0].view(np.int64)
    bits = np.empty(len(rows), np.int64)
    for exponent in np.unique(exponents[0], return_counts=True)[0].tolist():
        own = exponents[0] == exponent
        bits[own] = floats_of(integers[own], exponent).view(np.int64)
    if blocks.gaps is not None and blocks.gaps[Gap.EXCEPTIONS, column].any():
        pages, inside = rows >> blocks.shift, rows & ((1 << blocks.shift) - 1)
        for page in np.unique(pages).tolist():
            places, held = blocks.exceptions(column, page, 0, 1 << blocks.shift)
            own = np.flatnonzero(pages == page)
            at = np.searchsorted(places, inside[own])
            found = np.flatnonzero(at < len(places))
            found = found[places[at[found]] == inside[own[found]]]
            bits[own[found]] = held[at[found]]
    return integers, bits


class BlockScan:
    """What the clauses before a reduction do to the rows of one row range.

    Parameters
    ----------
    rows
        Those rows, not narrowed yet.
    """

    def __init__(self, rows: CandidateRows) -> None:
        self._rows = rows
        self._steps: list[tuple[str | None, Expression]] = []
        self._schema = rows.schema

    @property
    def schema(self) -> TableSchema:
        """The columns that the next clause sees; a projection does not take any away."""
        return self._schema

    @property
    def is_empty(self) -> bool:
        """Whether no row is left, by bounds of the index and by page tables."""
        return not len(self._rows)

    @property
    def first_row(self) -> int:
        """The place in the symbol of the row that places are counted from."""
        return self._rows.first_row

    @property
    def first_place(self) -> int:
        """The place of the first row that is left; there must be one."""
        return self._rows.first_place

    def parts(self, name: str) -> list[RowPart] | None:
        """Return the rows that are left page by page of a column; None for one that is computed."""
        if any(defined == name for defined, _ in self._steps):
            return None
        return self._rows.parts(name)

    def within(self, parts: Sequence[RowPart]) -> BlockScan:
        """Return the scan of some parts of the rows alone; this one stays as it is."""
        found = BlockScan(self._rows.within(parts))
        found._steps, found._schema = list(self._steps), self._schema
        return found

    def cut_index(self, low: int | None, high: int | None) -> None:
        """Keep the rows whose index lies in ``[low, high)``; see `CandidateRows.cut_index`."""
        self._rows.cut_index(low, high)

    def filter(self, predicate: Expression) -> None:
        """Keep the rows where a predicate is true."""
        defined = {name for name, _ in self._steps if name is not None}
        if defined.isdisjoint(predicate.columns()):
            self._rows.rule_out(predicate)
        self._steps.append((None, predicate))

    def define(self, name: str, expression: Expression) -> None:
        """Add a column, or replace one."""
        self._schema = self._schema.with_column(name, expression.result_type(self._schema))
        self._steps.append((name, expression))

    def open(self, names: Iterable[str]) -> OpenedScan | None:
        """Return the scan with these columns at hand; None where it needs values.

        Raises
        ------
        CorruptSegmentError
            When a page that is looked at is damaged.
        """
        needed = set(names)
        used: list[tuple[str | None, Expression]] = []
        for name, expression in reversed(self._steps):
            if name is not None and name not in needed:
                continue
            needed.discard(name or "")
            needed |= expression.columns()
            used.append((name, expression))
        found = self._rows.stored(sorted(needed))
        if found is None:
            return None
        columns, spans = found
        pages = spans[0].facts.shape[2]
        program = BlockProgram(columns, self._rows.schema, pages)
        select: int | None = None
        for name, expression in reversed(used):
            if name is not None:
                if not program.define(name, expression):
                    return None
                continue
            truth = program.truth(expression)
            if truth is None:
                return None
            select = program.both(select, truth)
        return OpenedScan(program, select, spans, tuple(columns.values()))

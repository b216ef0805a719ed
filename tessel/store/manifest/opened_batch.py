"""A batch whose stored columns are at hand: what kernels of reductions are called with.

:meth:`Batch.open <tessel.store.manifest.batch.Batch.open>` makes it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, different
from tessel.cached import cached
from tessel.expression.block_steps import UnboundProgram
from tessel.kernels.blocks import Gap, StoredBlocks, floats_of
from tessel.kernels.load_rows import load_rows
from tessel.kernels.program import Program
from tessel.lazy import dataclass
from tessel.store.segment.page_tables import PageFact
from tessel.store.segment.stored_columns import StoredColumn

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
    columns
        The columns of the spans, by number.
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

"""sample: rows chosen at random, the same ones whatever runs the query.

Whether a row is chosen follows from the seed and from the row's number in the input, counted from
0, and from nothing else: not from how the input is cut into units, nor from the threads. The random
numbers are those of a counter-based generator::

    random(seed, i) = hash of the key columns (seed, i), both int64

with the hash of rows that is written down in :mod:`tessel.clauses.grouped.hashing`; 64 bits,
unsigned.

=========================== =======================================================================
``fraction``                rows with ``random(seed, row) < floor(fraction * 2**64)``
``n``                       the ``n`` rows with the least ``random(seed, row)``, then least ``row``
``n``, with replacement     ``floor(random(seed, j) * rows / 2**64)`` for ``j`` from 0 to ``n - 1``
``fraction``, replacement   the same with ``n = floor(fraction * rows)``
=========================== =======================================================================

Rows come out in their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.base import ClauseInfo, StreamClause, Structure
from tessel.clauses.grouped.hashing import hash_rows
from tessel.clauses.positional import check_count
from tessel.clauses.registry import register
from tessel.clauses.spill.spill_buffer import BufferedTable, SpillBuffer
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.units.reduced import unit_of_table
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

Numbers = NDArray[np.uint64]


@register
@dataclass(frozen=True)
class Sample(StreamClause):
    """Choose rows at random.

    Attributes
    ----------
    n
        How many rows; without replacement no more than there are. None where ``fraction`` says it.
    fraction
        Without replacement the chance of each row, on its own, so that how many are chosen varies;
        from 0 to 1. With replacement how many, as a part of the rows; not negative.
    seed
        Another seed gives another sample; the same seed the same one, always.
    replacement
        Whether a row may be chosen more than once.
    """

    name: ClassVar[str] = "sample"
    n: int | None = None
    fraction: float | None = None
    seed: int = 0
    replacement: bool = False

    def __post_init__(self) -> None:
        if (self.n is None) == (self.fraction is None):
            raise PlanError(
                "sample takes a number of rows, or a fraction of them",
                hint="sample(100) or sample(fraction=0.01)",
                clause=self.name,
            )
        if self.n is not None:
            check_count(self.name, self.n)
            if self.n < 0:
                raise PlanError(f"sample of {self.n} rows", hint="take 0 rows or more")
        if self.fraction is not None:
            _check_fraction(self.fraction, self.replacement)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise PlanError(f"sample: the seed is a whole number, not {self.seed!r}")
        if not -(2**63) <= self.seed < 2**63:
            raise PlanError("sample: the seed has more than 64 bits", seed=self.seed)
        if not isinstance(self.replacement, bool):
            raise PlanError(f"sample: replacement is true or false, not {self.replacement!r}")

    structure = ClauseInfo(Structure.ALL, columns=frozenset(), positional=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema."""
        return input_schema

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Choose as units come; what has to know how many rows there are puts units aside."""
        if self.replacement:
            yield from self._with_replacement(units, schema)
        elif self.fraction is not None:
            row = 0
            for unit in units:
                yield unit.take(self._by_chance(row, unit.num_rows))
                row += unit.num_rows
        else:
            yield from self._least_of(units, schema)

    def _by_chance(self, row: int, count: int) -> NDArray[np.int64]:
        assert self.fraction is not None
        chance = int(math.ldexp(self.fraction, 64))
        if chance >= 2**64:
            return np.arange(count, dtype=np.int64)
        return np.flatnonzero(_random(self.seed, row, count) < np.uint64(chance))

    def _least_of(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Put aside the rows that may have the least numbers; choose among them when all are known.

        Numbers are counted by their first bits: a row whose bits are above those with which enough
        rows were counted is passed over. In the end only the rows with the last bits that matter
        are compared, and numbers are made again from those of the rows.
        """
        counts = np.zeros(1 << _COUNTED_BITS, np.int64)
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            aside: list[tuple[BufferedTable, int, int, int]] = []
            row = 0
            for unit in units:
                bits = self._first_bits(row, unit.num_rows)
                counts += np.bincount(bits, minlength=len(counts))
                most = self._last_bits(counts)
                candidates = np.flatnonzero(bits <= most)
                if len(candidates):
                    table = unit.take(candidates).table
                    aside.append((buffer.put(table), row, unit.num_rows, most))
                row += unit.num_rows
            yield from self._chosen(aside, buffer, counts, schema)

    def _chosen(
        self,
        aside: list[tuple[BufferedTable, int, int, int]],
        buffer: SpillBuffer,
        counts: NDArray[np.int64],
        schema: TableSchema,
    ) -> Iterator[ProcessingUnit]:
        last = self._last_bits(counts)
        wanted = max(0, (self.n or 0) - int(counts[:last].sum()))
        last_rows = [
            row + np.flatnonzero(self._first_bits(row, n) == last) for _, row, n, _ in aside
        ]
        among = np.concatenate([np.zeros(0, np.int64), *last_rows])
        chosen_last = np.sort(among[_least(_numbers_of(self.seed, among), wanted)])
        given = 0
        for ordinal, (buffered, row, count, most) in enumerate(aside):
            bits = self._first_bits(row, count)
            candidates = np.flatnonzero(bits <= most)
            kept = bits[candidates] < last
            low, high = np.searchsorted(chosen_last, [row, row + count])
            kept[np.searchsorted(candidates, chosen_last[low:high] - row)] = True
            if kept.any():
                table = buffer.read(buffered).take(arrow_array(np.flatnonzero(kept)))
                yield unit_of_table(ordinal, given, table, schema.index)
                given += int(kept.sum())
            buffer.drop(buffered)

    def _first_bits(self, row: int, count: int) -> NDArray[np.int64]:
        """Return the first bits of the random numbers of some rows."""
        shift = np.uint64(64 - _COUNTED_BITS)
        return (_random(self.seed, row, count) >> shift).astype(np.int64)

    def _last_bits(self, counts: NDArray[np.int64]) -> int:
        """Return the greatest first bits of a chosen row, as far as rows were counted."""
        enough = int(np.searchsorted(np.cumsum(counts), self.n or 0))
        return min(enough, len(counts) - 1) if self.n else -1

    def _with_replacement(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            buffered = [buffer.put(unit.table) for unit in units]
            draws = self._draws(sum(each.rows for each in buffered))
            start = given = 0
            for ordinal, each in enumerate(buffered):
                low, high = np.searchsorted(draws, [start, start + each.rows]).tolist()
                if low < high:
                    table = buffer.read(each).take(arrow_array(draws[low:high] - start))
                    yield unit_of_table(ordinal, given, table, schema.index)
                buffer.drop(each)
                start, given = start + each.rows, given + high - low

    def _draws(self, total: int) -> NDArray[np.int64]:
        """Return the rows that are drawn, ascending, each as often as it was drawn."""
        count = self.n if self.n is not None else int((self.fraction or 0) * total)
        if not total:
            return np.zeros(0, np.int64)
        return np.sort(_scaled(_random(self.seed, 0, count), total))


_COUNTED_BITS = 16


def _check_fraction(fraction: Any, replacement: bool) -> None:
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise PlanError(f"sample: the fraction is a number, not {fraction!r}")
    if not 0 <= fraction < math.inf or (fraction > 1 and not replacement):
        raise PlanError(
            f"sample: the fraction is {fraction}",
            hint="it is from 0 to 1; with replacement it may be more",
        )


def _random(seed: int, start: int, count: int) -> Numbers:
    """Return the random numbers of rows ``start`` to ``start + count``."""
    return _numbers_of(seed, np.arange(start, start + count, dtype=np.int64))


def _numbers_of(seed: int, rows: NDArray[np.int64]) -> Numbers:
    """Return the random numbers of rows."""
    return hash_rows([arrow_array(np.full(len(rows), seed, np.int64)), arrow_array(rows)])


def _least(numbers: Numbers, count: int) -> NDArray[np.int64]:
    """Return the positions of the least numbers, of equal ones the first."""
    if count < len(numbers) and count:
        last = np.partition(numbers, count - 1)[count - 1]
        candidates = np.flatnonzero(numbers <= last)
        chosen: NDArray[np.int64] = candidates[np.argsort(numbers[candidates], kind="stable")]
        return chosen[:count]
    return np.arange(min(count, len(numbers)), dtype=np.int64)


def _scaled(numbers: Numbers, total: int) -> NDArray[np.int64]:
    """Return ``numbers * total >> 64``, exactly."""
    low_bits = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    high, low = numbers >> shift, numbers & low_bits
    much, little = np.uint64(total >> 32), np.uint64(total & 0xFFFFFFFF)
    carried = (low * little >> shift) + (high * little & low_bits) + (low * much & low_bits)
    whole = high * much + (high * little >> shift) + (low * much >> shift) + (carried >> shift)
    scaled: NDArray[np.int64] = whole.astype(np.int64)
    return scaled

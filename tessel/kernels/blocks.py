"""Blocks of rows of stored columns, and the numpy twin of what runs a program on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.errors import CorruptSegmentError
from tessel.kernels.program import RESIDUAL_SHIFT, Op, Program

__all__ = [
    "ALL_MISSING",
    "ALL_PRESENT",
    "SINGLE_BITS",
    "SINGLE_SCALED",
    "Gap",
    "Registers",
    "StoredBlocks",
    "floats_of",
    "run_blocks",
]

_BLOCK_ROWS = 1 << 16
"""Rows that numpy handles at once: a page, whose registers stay in the cache of the core."""

_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = range(6)
_INFINITY_BITS = 0x7FF << 52

SINGLE_BITS, SINGLE_SCALED = -2, 32
"""In place of an exponent, of singles: bits of 32; and what is added to that of scaled ones.

A scaled single is the double that the division gives, rounded once more.
"""
_SIGNLESS_SINGLE, _INFINITE_SINGLE = (1 << 31) - 1, 0xFF << 23

ALL_PRESENT, ALL_MISSING = -1, -2
"""In place of where a validity bitmap lies: no row, or every row, is null."""


class Gap:
    """What a line of :attr:`StoredBlocks.gaps` says of each page."""

    VALIDITY = 0
    """Where the Arrow bitmap of the rows that are not null lies in the data, or one of
    :data:`ALL_PRESENT` and :data:`ALL_MISSING`."""
    EXCEPTIONS = 1
    """How many values no integer stands for."""
    PLACES = 2
    """Where the rows of exceptions lie, ascending, unsigned."""
    PLACE_WIDTH = 3
    """Bits of one of them."""
    VALUES = 4
    """Where the exceptions lie, eight bytes each, or four of singles: the bits of floats."""
    NANS = 5
    """1 where a value may be NaN."""
    COUNT = 6


_POWERS = np.array([float(10**exponent) for exponent in range(23)])
_SPLITTER = 2.0**27 + 1
_HIGH_HALF = ~((1 << 26) - 1)
"""The bits of a float less the lower half of its fraction."""

_FLOAT_OPS = {Op.ADD: np.add, Op.SUBTRACT: np.subtract, Op.MULTIPLY: np.multiply}
_INTEGER_OPS = {
    Op.INTEGER_ADD: np.add,
    Op.INTEGER_SUBTRACT: np.subtract,
    Op.INTEGER_MULTIPLY: np.multiply,
}
_COMPARISONS = {Op.LESS: np.less, Op.LESS_EQUAL: np.less_equal, Op.EQUAL: np.equal}
_TRUTH_OPS = {Op.AND: np.logical_and, Op.OR: np.logical_or, Op.XOR: np.logical_xor}


@dataclass(frozen=True, eq=False)
class StoredBlocks:
    """Rows ``[start, stop)`` of columns of one segment that are all arithmetic and cut alike.

    The integer in row ``i`` of a page is ``base + step * i + (bits & mask)`` modulo 2**64.

    Attributes
    ----------
    data
        All bytes of the segment, uint8, read-only.
    facts
        int64, shape ``(6, columns, pages)``: by page where the first integer lies in ``data``, bits
        of an integer, mask, base, step, and the decimal exponent (negative: none, the bits are
        those of the value; of singles see :data:`SINGLE_BITS`).
    shift
        Row ``r`` is in page ``r >> shift``.
    start, stop
        Counted from the first row of the segment.
    gaps
        int64, shape ``(Gap.COUNT, columns, pages)``; None where no value is missing and an integer
        stands for each.
    """

    data: NDArray[np.uint8]
    facts: NDArray[np.int64]
    shift: int
    start: int
    stop: int
    gaps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def cut(self, start: int, stop: int) -> StoredBlocks:
        """Return other rows of the same columns, counted from the first of the segment."""
        return StoredBlocks(self.data, self.facts, self.shift, start, stop, self.gaps)

    @property
    def words(self) -> NDArray[np.uint64]:
        """The eight bytes from each place of the segment on; they overlap."""
        return np.ndarray((len(self.data) - 7,), "<u8", self.data, 0, (1,))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What compiled kernels take."""
        gaps = _NO_GAPS if self.gaps is None else self.gaps
        return self.data, self.words, self.facts, gaps, self.shift, self.start, self.stop

    def integers(self, column: int, page: int, first: int, rows: int) -> NDArray[np.int64]:
        """Return integers ``[first, first + rows)`` of a page of a column, as a fresh array."""
        start, width, mask, base, step, _ = self.facts[:, column, page].tolist()
        found = np.empty(rows, np.int64)
        if width == 0:
            found[:] = base
        elif width in (8, 16, 32, 64):
            item = width // 8
            begin = start + first * item
            found[:] = self.data[begin : begin + rows * item].view(f"<u{item}").view(_int(width))
        elif width % 8 == 0:
            item = width // 8
            words: NDArray[np.uint64] = np.ndarray(
                (rows,), "<u8", self.data, start + first * item, (item,)
            )
            np.bitwise_and(words, np.uint64(mask), out=found.view(np.uint64))
        else:
            bits = np.arange(first, first + rows, dtype=np.int64) * width
            loaded = self.words[start + (bits >> 3)] >> (bits & 7).view(np.uint64)
            np.bitwise_and(loaded, np.uint64(mask), out=found.view(np.uint64))
        if base and width:
            found += base
        if step:
            found += np.arange(first, first + rows, dtype=np.int64) * step
        return found

    def exceptions(
        self, column: int, page: int, first: int, rows: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which of rows ``[first, first + rows)`` of a page no integer stands for.

        Returns
        -------
        numpy.ndarray, numpy.ndarray
            int64: the rows, counted from ``first``, and the bits of the floats, as doubles.
        """
        if self.gaps is None or not self.gaps[Gap.EXCEPTIONS, column, page]:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, count, start, width, values, _ = self.gaps[:, column, page].tolist()
        held = self.data[start : start + count * width // 8].view(f"<u{width // 8}")
        low, high = np.searchsorted(held.astype(np.int64), [first, first + rows]).tolist()
        if self.facts[_EXPONENT, column, page] >= SINGLE_SCALED:
            singles = self.data[values + 4 * low : values + 4 * high].view("<f4")
            bits = singles.astype(np.float64).view(np.int64)
        else:
            bits = self.data[values + 8 * low : values + 8 * high].view(np.int64)
        return held[low:high].astype(np.int64) - first, bits

    def present(self, column: int, page: int, first: int, rows: int) -> NDArray[np.bool_]:
        """Return in which of rows ``[first, first + rows)`` of a page a column has a value."""
        if self.gaps is None:
            return np.ones(rows, np.bool_)
        start = int(self.gaps[Gap.VALIDITY, column, page])
        if start < 0:
            found = np.full(rows, start == ALL_PRESENT)
        else:
            skip = first & 7
            octets = self.data[start + (first >> 3) : start + ((first + rows + 7) >> 3)]
            bits = np.unpackbits(octets, bitorder="little")
            found = bits[skip : skip + rows].view(np.bool_)
        if not self.gaps[Gap.NANS, column, page]:
            return found
        exponent = self.facts[_EXPONENT, column, page]
        if exponent < 0:
            held = self.integers(column, page, first, rows)
            is_single = exponent == SINGLE_BITS
            found &= (held & _SIGNLESS_SINGLE) <= _INFINITE_SINGLE if is_single else ~_is_nan(held)
        places, held = self.exceptions(column, page, first, rows)
        found[places[_is_nan(held)]] = False
        return found


_NO_GAPS = np.zeros((Gap.COUNT, 0, 0), np.int64)
_NO_GAPS.flags.writeable = False


def _is_nan(bits: NDArray[np.int64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (bits & ((1 << 63) - 1)) > _INFINITY_BITS
    return found


def floats_of(integers: NDArray[np.int64], exponent: int) -> NDArray[np.float64]:
    """Return what integers of a page of floats stand for, by its exponent; maybe a view."""
    if exponent >= SINGLE_SCALED:
        found: NDArray[np.float64] = integers / _POWERS[exponent - SINGLE_SCALED]
        return found.astype(np.float32).astype(np.float64)
    if exponent >= 0:
        divided: NDArray[np.float64] = integers / _POWERS[exponent]
        return divided
    if exponent == SINGLE_BITS:
        return integers.astype(np.uint32).view(np.float32).astype(np.float64)
    return integers.view(np.float64)


def _residuals(
    quotients: NDArray[np.float64], whole: NDArray[np.float64], power: np.float64, scale: float
) -> NDArray[np.int64]:
    """Return what quotients times a power of ten are off from whole numbers, times ``scale``.

    A quotient is cut into two halves whose products with the power are exact (Dekker 1971); what
    is left is a float itself, so nothing below is rounded.
    """
    highs = (quotients.view(np.int64) & _HIGH_HALF).view(np.float64)
    left = highs * power
    left -= whole
    lows = quotients - highs
    lows *= power
    left += lows
    left *= scale
    return left.astype(np.int64)


def are_places(numbers: NDArray[np.int64], count: int) -> bool:
    """Return whether numbers are places in ``count``, as the bounds in page tables say."""
    return not len(numbers) or bool(0 <= numbers.min() <= numbers.max() < count)


def _looked_up(entries: NDArray[Any], at: int, codes: NDArray[np.int64]) -> NDArray[Any]:
    """Return entries by code; for codes that are forged, and places of nothing, the last."""
    return entries[np.minimum((codes + at).view(np.uint64), np.uint64(len(entries) - 1))]


def outside_of_bounds() -> CorruptSegmentError:
    """Return the error of a value that lies outside of what the page table says."""
    return CorruptSegmentError(
        "a value lies outside of the bounds that its page table says",
        hint="check the store (`tessel fsck`), and restore the segment from a copy",
    )


def _upper_half(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return floats rounded to the upper half of their fraction (Veltkamp)."""
    scaled = values * _SPLITTER
    difference = scaled - values
    upper: NDArray[np.float64] = scaled - difference
    return upper


def _product_errors(
    left: NDArray[np.float64], right: NDArray[np.float64], products: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what rounding took from products (Dekker 1971), which is a float itself."""
    high, other = _upper_half(left), _upper_half(right)
    low, rest = left - high, right - other
    error = high * other
    error -= products
    # Halves have 26 bits and a sign: each product below is exact, and so is each sum in this order.
    error += high * rest
    error += low * other
    error += low * rest
    return error


def _int(width: int) -> str:
    return "<i8" if width == 64 else f"<u{width // 8}"


class Registers:
    """The registers of one block."""

    def __init__(self, program: Program) -> None:
        self.integers: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * program.integers
        self.floats: list[NDArray[np.float64]] = [np.empty(0, np.float64)] * program.floats
        self.truths: list[NDArray[np.bool_]] = [np.empty(0, np.bool_)] * program.truths


def run_blocks(blocks: StoredBlocks, program: Program) -> Iterator[tuple[int, int, Registers]]:
    """Run a program on one block of rows after the other; none lies in two pages.

    Yields
    ------
    int, int, Registers
        The first row of the block and the row after its last, counted in the segment, and the
        registers, which the next block uses again.
    """
    registers = Registers(program)
    page_rows = 1 << blocks.shift
    row = blocks.start
    while row < blocks.stop:
        page, first = row >> blocks.shift, row & (page_rows - 1)
        rows = min(_BLOCK_ROWS, page_rows - first, blocks.stop - row)
        # Where values are missing, what stands in their place may be anything.
        with np.errstate(all=None if blocks.gaps is None else "ignore"):
            for step in program.steps.tolist():
                _run(step, blocks, program, registers, page, first, rows)
        yield row, row + rows, registers
        row += rows


def _run(
    step: list[int],
    blocks: StoredBlocks,
    program: Program,
    registers: Registers,
    page: int,
    first: int,
    rows: int,
) -> None:
    """Run one step on rows ``[first, first + rows)`` of a page."""
    op, target, a, b, c = step
    integers, floats, truths = registers.integers, registers.floats, registers.truths
    if op == Op.LOAD:
        integers[target] = blocks.integers(a, page, first, rows)
    elif op == Op.DECIMAL:
        floats[target] = floats_of(integers[a], int(blocks.facts[_EXPONENT, b, page]))
        places, held = blocks.exceptions(b, page, first, rows)
        if len(places):
            floats[target] = floats[target].copy()
            floats[target].view(np.int64)[places] = held
    elif op == Op.RESIDUAL:
        power = _POWERS[int(blocks.facts[_EXPONENT, b, page])]
        whole = integers[a].astype(np.float64)
        integers[target] = _residuals(whole / power, whole, power, 2.0**c)
    elif op == Op.FLOAT_RESIDUAL:
        whole, power = integers[b].astype(np.float64), _POWERS[c >> RESIDUAL_SHIFT]
        scale = 2.0 ** (c & ((1 << RESIDUAL_SHIFT) - 1))
        integers[target] = _residuals(floats[a], whole, power, scale)
    elif op == Op.PRODUCT_ERROR:
        floats[target] = _product_errors(floats[a], floats[b], floats[c])
    elif op == Op.FLOAT:
        floats[target] = integers[a].astype(np.float64)
    elif op == Op.CONSTANT:
        floats[target] = np.full(rows, program.constants[a])
    elif op == Op.INTEGER:
        integers[target] = np.full(rows, c, np.int64)
    elif op in _FLOAT_OPS:
        floats[target] = _FLOAT_OPS[op](floats[a], floats[b])
    elif op in _INTEGER_OPS:
        integers[target] = _INTEGER_OPS[op](integers[a], integers[b])
    elif op == Op.RANGE:
        low, high = program.ranges[c, page].tolist()
        truths[target] = (integers[a] >= low) & (integers[a] <= high)
    elif op == Op.COLUMN_RANGE:
        low, high = program.ranges[c, page].tolist()
        held = blocks.integers(a, page, first, rows)
        truths[target] = (held >= low) & (held <= high)
    elif op in _COMPARISONS:
        truths[target] = _COMPARISONS[op](floats[a], floats[b])
    elif op == Op.TABLE:
        truths[target] = _looked_up(program.tables.view(np.bool_), c, integers[a])
    elif op in _TRUTH_OPS:
        truths[target] = _TRUTH_OPS[op](truths[a], truths[b])
    elif op == Op.NOT:
        truths[target] = ~truths[a]
    elif op == Op.PRESENT:
        truths[target] = blocks.present(a, page, first, rows)
    elif op == Op.NUMBER:
        integers[target] = truths[a].astype(np.int64)
    elif op == Op.ROW:
        row = (page << blocks.shift) + first
        integers[target] = np.arange(row, row + rows)
    elif op == Op.CHOOSE:
        integers[target] = np.where(truths[b], integers[a], np.int64(c))
    elif op == Op.CHOOSE_FLOAT:
        floats[target] = np.where(truths[b], floats[a], program.constants[c])
    elif op == Op.CHOOSE_OTHER:
        integers[target] = np.where(truths[b], integers[a], integers[c])
    elif op == Op.CHOOSE_OTHER_FLOAT:
        floats[target] = np.where(truths[b], floats[a], floats[c])
    elif op == Op.LOOKUP:
        integers[target] = _looked_up(program.constants.view(np.int64), c, integers[a])
    elif op == Op.LOOKUP_FLOAT:
        floats[target] = _looked_up(program.constants, c, integers[a])
    else:
        integers[target] = integers[a] * c + integers[b]

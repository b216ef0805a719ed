"""Exact sums of doubles by group, as sums of whole numbers times powers of two.

Adding and subtracting ``1.5 * 2**(q + 52)`` rounds a double to a multiple of ``2**q`` without error
in the remainder (Dekker 1971; the "extraction" of Rump, Ogita, Oishi, Accurate Floating-Point
Summation I, SIAM J. Sci. Comput. 31, 2008). With ``q`` chosen so that ``2**c`` rows a group of
``53 - c`` significant bits cannot pass 53 bits, floating-point addition of the parts is exact. Most
columns need two parts, and a third for few rows; parts are made until nothing remains, so any range
of exponents works.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.limbs import LIMB_BITS, LIMB_MASK

__all__ = ["LEAST_EXPONENT", "PartSums", "largest_size", "part_sums"]

LEAST_EXPONENT = -1074
"""Exponent of the lowest bit of any double."""

_MANTISSA_BITS = 53
# Rows a chunk, after which part sums are brought to integers.
_CHUNK_BITS = 16
# Rows a block: what is split at a time stays in the cache.
_BLOCK_ROWS = 1 << 15
# A part of more bits would leave the number that splits no room for its own.
_PART_BITS_LIMIT = 50
# Part sums stay below 2**53, so this many of them fit in an int64.
_CHUNKS_A_BATCH = 512
# Above this, the number that splits would overflow: such rows are scaled down, without loss.
_LARGE = 2.0**900
_LARGE_SHIFT = 200
# Rows with something left are picked out once they are fewer than one in this many.
_SPARSE = 2

Codes = NDArray[np.int64]

PartSums = dict[int, NDArray[np.int64]]
"""By bit position above the lowest bit of doubles, int64 sums of that weight, shape (groups,)."""


def part_sums(values: NDArray[np.float64], codes: Codes, groups: int) -> PartSums:
    """Add doubles by group.

    Parameters
    ----------
    values
        float64, shape ``(rows,)``; finite.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    groups
        How many groups there are.
    """
    sums: PartSums = {}
    largest = largest_size(values)
    if largest >= _LARGE:
        large = np.abs(values) >= _LARGE
        scaled = np.ldexp(values[large], -_LARGE_SHIFT)
        ceiling = int(np.frexp(largest)[1]) - _LARGE_SHIFT
        _add_values(sums, scaled, codes[large], groups, ceiling, _LARGE_SHIFT)
        values, codes = values[~large], codes[~large]
        largest = largest_size(values)
    _add_values(sums, values, codes, groups, int(np.frexp(largest)[1]), 0)
    return sums


def largest_size(values: NDArray[np.float64]) -> float:
    """Return the largest magnitude, 0.0 of none; without a temporary as ``abs`` would make."""
    return max(float(values.max()), -float(values.min())) if len(values) else 0.0


def _add_values(
    sums: PartSums,
    values: NDArray[np.float64],
    codes: Codes,
    groups: int,
    ceiling: int,
    shift: int,
) -> None:
    """Add doubles into ``sums``.

    Parameters
    ----------
    sums
        Changed in place.
    values, codes, groups
        As for :func:`part_sums`, and smaller than ``2**ceiling``.
    shift
        What is added is ``values * 2**shift``.
    """
    chunk_bits, chunk_rows = _CHUNK_BITS, 1 << _CHUNK_BITS
    if 2 * groups > chunk_rows and len(values):
        # Where bringing the sums of all groups to integers costs more than adding a chunk, a
        # chunk is as long as the largest group allows.
        largest_group = int(np.bincount(codes, minlength=groups).max())
        chunk_bits = max(largest_group.bit_length(), _MANTISSA_BITS - _PART_BITS_LIMIT)
        chunk_rows = len(values)
    part_bits = _MANTISSA_BITS - chunk_bits
    # A batch ends before the integers could pass 64 bits.
    batch_rows = chunk_rows * _CHUNKS_A_BATCH
    for start in range(0, len(values), batch_rows):
        rows = slice(start, start + batch_rows)
        batch = _batch_sums(values[rows], codes[rows], groups, ceiling, part_bits, chunk_rows)
        for position, numbers in batch.items():
            # Nor may batches share an int64: halves of 32 bits leave room for 2**31 of them.
            for half, offset in ((numbers & LIMB_MASK, 0), (numbers >> LIMB_BITS, LIMB_BITS)):
                place = position + shift + offset
                sums[place] = sums[place] + half if place in sums else half


def _batch_sums(
    values: NDArray[np.float64],
    codes: Codes,
    groups: int,
    ceiling: int,
    part_bits: int,
    chunk_rows: int,
) -> PartSums:
    """Add the parts of doubles; no group of a chunk has more than ``2**(53 - part_bits)`` rows."""
    sums: PartSums = {}
    for start in range(0, len(values), chunk_rows):
        stop = min(start + chunk_rows, len(values))
        exact: dict[int, NDArray[np.float64]] = {}
        for block in range(start, stop, _BLOCK_ROWS):
            rows = slice(block, min(block + _BLOCK_ROWS, stop))
            _split_block(exact, values[rows], codes[rows], groups, ceiling, part_bits)
        for unit, total in exact.items():
            numbers = np.ldexp(total, -unit).astype(np.int64)
            position = unit - LEAST_EXPONENT
            sums[position] = sums[position] + numbers if position in sums else numbers
    return sums


def _split_block(
    exact: dict[int, NDArray[np.float64]],
    values: NDArray[np.float64],
    codes: Codes,
    groups: int,
    ceiling: int,
    part_bits: int,
) -> None:
    """Split the doubles of one block and add the parts by group, each under its exponent."""
    rest = values.copy()
    part = np.empty_like(rest)
    bound = ceiling
    while True:
        # Every |rest| is at most 2**bound; parts are multiples of 2**unit.
        unit = max(bound - part_bits, LEAST_EXPONENT)
        splitter = np.ldexp(1.5, unit + _MANTISSA_BITS - 1)
        np.add(rest, splitter, out=part)
        np.subtract(part, splitter, out=part)
        if unit not in exact:
            exact[unit] = np.zeros(groups)
        np.add.at(exact[unit], codes, part)
        np.subtract(rest, part, out=rest)
        some = rest != 0
        left = np.count_nonzero(some)
        if not left:
            return
        if left * _SPARSE < len(rest):
            rest, codes = rest[some], codes[some]
            part = np.empty_like(rest)
        # Past empty parts, on the grid of exponents that all blocks share.
        largest = int(np.frexp(largest_size(rest))[1])
        bound = ceiling - (ceiling - largest) // part_bits * part_bits

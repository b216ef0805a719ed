"""The record of a page as a numpy structured type, and every code that stands in one.

Encodings fill such records and read them; :mod:`tessel.store.segment.records` adds those of the
file around the pages. The meaning of every field is written down in ``docs/format.md``: the two
change together. All numbers are little endian; a place is a count of bytes from the first byte of
the *segment*, which may lie anywhere in an object.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

ALIGNMENT: Final = 64
"""Pages, and the buffers inside an uncompressed page, begin at multiples of this."""

BLOCK_BYTES: Final = 64 * 1024
"""Bytes that a block codec compresses as one unit."""

SLOTS: Final = 5
"""Places for buffers in a page: the validity bitmap is number 0, the encoding has 1 to 4."""

PACKED_WIDTHS: Final = frozenset({*range(58), 64})
"""Legal widths in bits of packed integers: what one 8-byte load and one shift can reach."""


class ValueKind(IntEnum):
    """What the values of a physical column are; with a width in bytes it is their whole type."""

    NONE = 0
    """No values: the node is a struct, a list of fixed size, or of null type."""
    BOOLEAN = 1
    SIGNED = 2
    """Two's complement integers of 1, 2, 4 or 8 bytes: also dates, times, instants, durations."""
    UNSIGNED = 3
    FLOAT = 4
    """IEEE 754 of 4 or 8 bytes."""
    DECIMAL = 5
    """Unscaled 128-bit two's complement integers; width 16."""
    FIXED = 6
    """Opaque bytes, ``width`` of them a value."""
    TEXT = 7
    """UTF-8 of any length; width 0."""
    BINARY = 8
    """Bytes of any length; width 0."""
    OFFSETS = 9
    """Where the items of each list begin: one more than rows, from 0 in each page; width 4."""


VARIABLE_KINDS: Final = frozenset({ValueKind.TEXT, ValueKind.BINARY})
"""Kinds with values of any length."""

BYTE_KINDS: Final = VARIABLE_KINDS | {ValueKind.FIXED}
NUMBER_KINDS: Final = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})


class Role(IntEnum):
    """What a physical column is to its node of the field tree. Each node has exactly one."""

    VALUES = 0
    """The values of a leaf (or their places in the column's dictionary), and its validity."""
    LIST = 1
    """Offsets and validity of a list; its items are the next node."""
    FIXED_LIST = 2
    """Validity of a list of fixed size; its items are the next node."""
    STRUCT = 3
    """Validity of a struct; its children follow."""


class EncodingCode(IntEnum):
    """How the values of a page are stored; a code is never used again for another layout."""

    NOTHING = 0
    """No values at all: kind NONE."""
    ALL_MISSING = 1
    """Every row is null; no bytes, not even a validity bitmap."""
    CONSTANT = 2
    """One value for all rows that are not null."""
    FLAT = 3
    """The values as Arrow lays them out."""
    LINEAR = 4
    """``base + step * i + residual[i]`` modulo 2**64, residuals of ``bit_width`` bits."""
    DELTA = 5
    """``base + step * i`` + the running sum of the residuals, modulo 2**64."""
    SCALED = 6
    """Floats as integers divided by a power of ten, with exceptions."""
    DICTIONARY = 7
    """Places in the dictionary of the column."""
    RUN_END = 8
    """Runs of equal values: where each ends, and its value."""
    VARIABLE = 9
    """Text or bytes: linear offsets, then the bytes of all values."""


class Codec(IntEnum):
    """What the bytes of a page went through after encoding."""

    NONE = 0
    LZ4 = 1
    """LZ4 block format, in blocks of 64 KiB."""
    ZSTD = 2
    """Zstandard frames, in blocks of 64 KiB."""
    ZSTD_PLANES_2 = 3
    """Zstandard frames, one a byte plane: the first bytes of all 2-byte elements, then the others.

    Numbers whose high bytes vary little get smaller so than packed to the bit.
    """
    ZSTD_PLANES_4 = 4
    ZSTD_PLANES_8 = 5


class PageFlag(IntFlag):
    """What is known of a page besides its numbers."""

    VALIDITY = 1
    """Slot 0 holds an Arrow validity bitmap; absent where no row or every row is null."""
    BOUNDS = 2
    """``minimum`` and ``maximum`` are set."""
    MIN_CUT = 4
    """``minimum`` is less than or equal to the least value, not that value itself."""
    MAX_CUT = 8
    """``maximum`` is greater than or equal to the greatest value, not that value itself."""
    MIN_OPEN = 16
    """There is no lower bound, whatever ``minimum`` holds."""
    MAX_OPEN = 32
    """There is no upper bound, whatever ``maximum`` holds."""
    SORTED = 64
    """The values never decrease, and none is null or NaN."""
    CONSTANT = 128
    """All values are the same bits, and none is null."""


PAGE_RECORD: Final = np.dtype(
    [
        ("first_row", "<u8"),
        ("offset", "<u8"),
        ("length", "<u4"),
        ("payload_length", "<u4"),
        ("base", "<u8"),
        ("step", "<u8"),
        ("minimum", "<u8"),
        ("maximum", "<u8"),
        ("item_start", "<u8"),
        ("row_count", "<u4"),
        ("checksum", "<u4"),
        ("null_count", "<u4"),
        ("nan_count", "<u4"),
        ("starts", "<u4", (SLOTS - 1,)),
        ("count", "<u4"),
        ("exceptions", "<u4"),
        ("encoding", "u1"),
        ("inner", "u1"),
        ("bit_width", "u1"),
        ("inner_width", "u1"),
        ("codec", "u1"),
        ("exponent", "i1"),
        ("flags", "<u2"),
    ]
)
"""One page, 112 bytes."""


def aligned(place: int) -> int:
    """Return the first multiple of 64 that is not before ``place``."""
    return -(-place // ALIGNMENT) * ALIGNMENT

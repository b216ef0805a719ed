"""Stored columns as the numbers and texts that they stand for, written where they will stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Op, Program

__all__ = [
    "TextTable",
    "decode_numbers",
    "decode_numbers_numpy",
    "decode_texts",
    "decode_texts_numpy",
]

_WORD = 8
_LARGEST_OFFSET = (1 << 31) - 1

_INTEGERS, _FLOATS = (
    Program(
        np.array(steps, np.int64),
        np.empty((0, 0, 2), np.int64),
        np.empty(0, np.float64),
        np.empty(0, np.uint8),
        integers=1,
        floats=1,
        truths=0,
    )
    for steps in ([[Op.LOAD, 0, 0, 0, 0]], [[Op.LOAD, 0, 0, 0, 0], [Op.DECIMAL, 0, 0, 0, 0]])
)
"""What is computed of a block of the one column: its integers, and decimals of them."""


@dataclass(frozen=True, eq=False)
class TextTable:
    """Texts by number, in words of eight bytes, so that they are copied by words.

    Attributes
    ----------
    entries
        The bytes of the texts, filled up with zeros; uint64, shape ``(texts, words)``.
    lengths
        Bytes of each, int64.
    length
        That of all; -1 where they differ.
    """

    entries: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    length: int

    @classmethod
    def of(cls, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> TextTable:
        """Make the table of texts that lie one behind the other; there is one at least."""
        lengths = np.diff(offsets).astype(np.int64)
        longest = max(1, int(lengths.max()))
        size = -(-longest // _WORD) * _WORD
        padded = np.zeros((len(lengths), size), np.uint8)
        inside = np.arange(size) < lengths[:, None]
        padded[inside] = data[int(offsets[0]) : int(offsets[-1])]
        length = int(lengths[0])
        same = bool((lengths == length).all())
        return cls(padded.view(np.uint64), lengths, length if same else -1)


def decode_numbers(blocks: StoredBlocks, out: NDArray[Any]) -> None:
    """Write the values of a column of numbers.

    Parameters
    ----------
    blocks
        Rows of one column.
    out
        As many numbers: float64, or integers of any width, of which the low bits are written.
    """
    kernels = compiled_kernels(len(blocks), "decode_rows")
    if kernels is None:
        decode_numbers_numpy(blocks, out)
        return
    program = _program(out)
    kernels.decode_numbers(
        *blocks.arguments, *program.arguments[:-1], out.dtype.kind == "f", out.itemsize,
        out.view(np.uint8),
    )  # fmt: skip


def decode_numbers_numpy(blocks: StoredBlocks, out: NDArray[Any]) -> None:
    """Write what :func:`decode_numbers` does; the numpy twin."""
    for first, last, registers in run_blocks(blocks, _program(out)):
        here = slice(first - blocks.start, last - blocks.start)
        if out.dtype.kind == "f":
            out[here] = registers.floats[0]
        else:
            out.view(f"u{out.itemsize}")[here] = registers.integers[0].view(np.uint64)


def decode_texts(
    blocks: StoredBlocks,
    table: TextTable,
    allocate: Callable[[int, Any], NDArray[Any]],
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return the texts that the integers of a column are the numbers of.

    Parameters
    ----------
    blocks
        Rows of one column; all integers are places in the table.
    allocate
        Returns an array of so many numbers of a dtype.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        Where each text begins and the last ends, and their bytes. None where they are more than
        31 bits count.
    """
    kernels = compiled_kernels(len(blocks), "decode_rows")
    if kernels is None:
        return decode_texts_numpy(blocks, table, allocate)
    arguments = (
        *blocks.arguments, *_INTEGERS.arguments[:-1],
        table.entries.reshape(-1), table.lengths, table.length,
    )  # fmt: skip
    size = table.length * len(blocks)
    if table.length < 0:
        # Words that overlap, as those are that will be written: for other ones it would be
        # compiled once more.
        nothing = np.empty(0, np.int32), _words(np.empty(2 * _WORD, np.uint8))
        size = kernels.decode_texts(*arguments, True, *nothing)
    if size > _LARGEST_OFFSET:
        return None
    offsets = allocate(len(blocks) + 1, np.int32)
    offsets[0] = 0
    data = allocate(size + _WORD, np.uint8)
    kernels.decode_texts(*arguments, False, offsets, _words(data))
    return offsets, data[:size]


def decode_texts_numpy(
    blocks: StoredBlocks,
    table: TextTable,
    allocate: Callable[[int, Any], NDArray[Any]],
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return what :func:`decode_texts` does; the numpy twin."""
    codes = np.empty(len(blocks), np.int64)
    decode_numbers_numpy(blocks, codes)
    lengths = table.lengths[codes]
    size = int(lengths.sum())
    if size > _LARGEST_OFFSET:
        return None
    offsets = allocate(len(blocks) + 1, np.int32)
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    data = allocate(size, np.uint8)
    texts = table.entries.view(np.uint8)
    for first in range(0, len(codes), 1 << 16):
        here = slice(first, first + (1 << 16))
        wanted = np.arange(texts.shape[1]) < lengths[here, None]
        begin, end = offsets[first], offsets[min(first + (1 << 16), len(codes))]
        data[begin:end] = texts[codes[here]][wanted]
    return offsets, data


def _program(out: NDArray[Any]) -> Program:
    return _FLOATS if out.dtype.kind == "f" else _INTEGERS


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the eight bytes from each place on; they overlap."""
    words: NDArray[np.uint64] = np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
    return words

"""Stored columns as the numbers and texts that they stand for, written where they will stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, run_steps
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.kernels.program import BLOCK_ROWS, Op, Program

_WORD = 8
_LARGEST_OFFSET = (1 << 31) - 1
_ZEROS = np.zeros(_WORD, np.uint8)

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


def decode_numbers(blocks: StoredBlocks, out: NDArray[Any]) -> None:
    """Write the values of a column of numbers.

    Parameters
    ----------
    blocks
        Rows of one column.
    out
        As many numbers, one behind the other: float64, or integers of any width, of which the low
        bits are written.
    """
    is_float = out.dtype.kind == "f"
    program = _FLOATS if is_float else _INTEGERS
    write_numbers(
        *blocks.arguments,
        *program.arguments,
        *program.registers(spare=0),
        is_float,
        out.itemsize,
        out.view(np.uint8),
    )


def texts_of_codes(
    codes: NDArray[np.int64],
    starts: NDArray[np.int32],
    data: NDArray[np.uint8],
    allocate: Callable[[int, Any], NDArray[Any]],
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return the texts that codes are the numbers of.

    Parameters
    ----------
    codes
        int64; one that is no number of a text stands for the last.
    starts, data
        Where each text begins and the last ends, at least one, and their bytes.
    allocate
        Returns an array of so many numbers of a dtype.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        Where each text begins and the last ends, and their bytes. None where they are more than
        31 bits count.
    """
    lengths = np.diff(starts)
    longest = int(lengths.max())
    size = longest * len(codes)
    if int(lengths.min()) < longest:
        size = int(measure_coded(codes, starts))
    if size > _LARGEST_OFFSET:
        return None
    offsets, found = allocate(len(codes) + 1, np.int32), allocate(size + _WORD, np.uint8)
    offsets[0] = 0
    if longest <= _WORD:
        write_words(codes, starts, np.append(data[: starts[-1]], _ZEROS), offsets, found)
    else:
        write_coded(codes, starts, data, offsets, found)
    return offsets, found[:size]


@kernel("codes: i64[rows], starts: i32[ends] -> i64")
def measure_coded(codes: Any, starts: Any) -> Any:
    """Return how many bytes the texts of codes have."""
    last, total = np.uint64(len(starts) - 2), np.int64(0)
    for row in range(len(codes)):
        code = min(np.uint64(codes[row]), last)
        total += starts[code + np.uint64(1)] - starts[code]
    return total


@kernel(
    "codes: i64[rows], starts: i32[ends], data: u8[bytes], offsets: mut i32[out_ends], "
    "out: mut u8[octets]"
)
def write_words(codes: Any, starts: Any, data: Any, offsets: Any, out: Any) -> None:
    """Write texts of at most a word, of which the next overwrites what is over."""
    last, total = np.uint64(len(starts) - 2), np.int32(0)
    words, written = words_of(data), words_of(out)
    for row in range(len(codes)):
        code = min(np.uint64(codes[row]), last)
        at = starts[code]
        written[np.uint64(total)] = words[np.uint64(at)]
        total += starts[code + np.uint64(1)] - at
        offsets[row + 1] = total


@kernel(
    "codes: i64[rows], starts: i32[ends], data: u8[bytes], offsets: mut i32[out_ends], "
    "out: mut u8[octets]"
)
def write_coded(codes: Any, starts: Any, data: Any, offsets: Any, out: Any) -> None:
    """Write texts by words, of which the next overwrites what is over."""
    last, whole, total = np.uint64(len(starts) - 2), np.uint64(len(data)), np.int64(0)
    words, written = words_of(data), words_of(out)
    for row in range(len(codes)):
        code = min(np.uint64(codes[row]), last)
        at, end = np.uint64(starts[code]), np.uint64(starts[code + np.uint64(1)])
        place = np.uint64(total)
        count = (end - at + np.uint64(7)) >> np.uint64(3)
        if at + np.uint64(8) * count <= whole:
            for word in range(count):
                written[place + np.uint64(8) * word] = words[at + np.uint64(8) * word]
        else:  # its last word would reach behind all texts
            for octet in range(end - at):
                out[place + octet] = data[at + octet]
        total += np.int64(end - at)
        offsets[row + 1] = np.int32(total)


@kernel(f"{BLOCKS}, {PROGRAM}, {REGISTERS}, is_float: bool, width: i64, out: mut u8[octets]")
def write_numbers(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    is_float: Any,
    width: Any,
    out: Any,
) -> None:  # fmt: skip
    """Write what a program leaves in the first register of a kind to ``out``, by its bytes.

    Registers are cut out of ``out`` itself where its numbers are as wide as they are.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        at = row - start
        here = out[at * width : (at + rows) * width]
        registers = (
            reinterpret(here, np.int64) if width == _WORD and not is_float else integers,
            reinterpret(here, np.float64) if is_float else floats,
            truths,
        )
        run_steps(stored, program, (page, first, rows), registers)
        if width < _WORD:
            _narrow(integers, width, np.uint64(rows), here)
        row += rows


@inner
def _narrow(source: Any, width: int, rows: Any, out: Any) -> None:
    """Write the low bits of integers."""
    if width == 4:
        wholes = reinterpret(out, np.uint32)
        for row in range(rows):
            wholes[row] = np.uint32(source[row])
    elif width == 2:
        halves = reinterpret(out, np.uint16)
        for row in range(rows):
            halves[row] = np.uint16(source[row])
    else:
        for row in range(rows):
            out[row] = np.uint8(source[row])

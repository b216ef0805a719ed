"""Rows that lie as structs: which are kept, and what is computed of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.kernels.row_program import RowProgram, RowStatus
from tessel.kernels.row_steps import run_steps

__all__ = ["FilteredRows", "StructRows", "filter_rows"]

_WORD_BYTES = 8
_BLOCK_ROWS = 2048
"""Rows whose registers stay in the caches of the core."""

_DONE = RowStatus.DONE


@dataclass(frozen=True, eq=False)
class StructRows:
    """Rows in memory.

    Attributes
    ----------
    data
        Their bytes, ``row_size`` each, uint8.
    row_size
        Bytes of a row.
    heap
        The bytes of texts, uint8. A text is an offset and a length, two uint32 in the row.
    starts
        What the offsets of each row count from, int64; no rows for the start of the heap.
    """

    data: NDArray[np.uint8]
    row_size: int
    heap: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.data) // self.row_size


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """What a program found.

    Attributes
    ----------
    status
        Of :class:`RowStatus`; where it is not ``DONE`` there is nothing else.
    rows
        The rows that are kept, int64, ascending.
    bits
        Of each output the integers, the bits of the floats, or 0 and 1. int64, shape
        ``(outputs, rows)``.
    valid
        1 where an output has a value. uint8, of the same shape.
    """

    status: int
    rows: NDArray[np.int64]
    bits: NDArray[np.int64]
    valid: NDArray[np.uint8]


def filter_rows(rows: StructRows, program: RowProgram) -> FilteredRows:
    """Run a program on rows."""
    count, outputs = len(rows), len(program.outputs)
    data = rows.data
    if rows.row_size < _WORD_BYTES:  # there are eight bytes from the last row on
        data = np.concatenate([data, np.zeros(_WORD_BYTES, np.uint8)])
    block = min(_BLOCK_ROWS, count)
    integers, floats, truths = program.registers.tolist()
    chosen = np.empty(count, np.int64)
    bits = np.empty((outputs, count), np.int64)
    valid = np.empty((outputs, count), np.uint8)
    kept = keep_rows(
        np.ascontiguousarray(data),
        rows.row_size,
        np.ascontiguousarray(rows.heap),
        np.ascontiguousarray(rows.starts),
        *program.arguments,
        np.empty((2 + integers, block), np.int64),
        np.empty((floats, block), np.float64),
        np.empty((integers + floats + truths, block), np.uint8),
        chosen,
        bits,
        valid,
    )
    status, kept = (RowStatus.DONE, kept) if kept >= 0 else (-kept, 0)
    return FilteredRows(status, chosen[:kept], bits[:, :kept], valid[:, :kept])


@inner
def _compact(held: Any, places: Any, kept: int) -> None:
    """Move what was computed of the rows that are kept to the front."""
    for register in range(len(held)):
        for at in range(kept):
            held[register, at] = held[register, np.uint64(places[at])]


@kernel(
    "data: u8[bytes], row_size: i64, heap: u8[heap], starts: i64[starts], steps: i64[steps, 6], "
    "conditions: i64, truth: i64, constants: f64[constants], texts: u8[texts], "
    "text_starts: i64[edges], outputs: i64[outputs, 2], numbers: mut i64[numbers, block], "
    "floats: mut f64[floats, block], flags: mut u8[flags, block], chosen: mut i64[rows], "
    "bits: mut i64[outputs, rows], valid: mut u8[outputs, rows] -> i64"
)
def keep_rows(
    data: Any,
    row_size: int,
    heap: Any,
    starts: Any,
    steps: Any,
    conditions: int,
    truth: int,
    constants: Any,
    texts: Any,
    text_starts: Any,
    outputs: Any,
    numbers: Any,
    floats: Any,
    flags: Any,
    chosen: Any,
    bits: Any,
    valid: Any,
) -> int:
    """Write the rows that are kept and the outputs, a block after the other.

    Registers of integers lie in ``numbers``, behind two lines for rows and places; ``flags`` says
    which integers and floats have a value, and holds registers of truths then.

    Return how many rows are kept, or, where the program did not come to its end, its status with
    the sign turned round.
    """
    words, rows, block = words_of(data), len(chosen), numbers.shape[1]
    index, places, integers = numbers[0], numbers[1], numbers[2:]
    valid_integers, others = flags[: len(integers)], flags[len(integers) :]
    valid_floats, truths = others[: len(floats)], others[len(floats) :]
    kept = 0
    first = 0
    while first < rows:
        count = min(block, rows - first)
        for at in range(count):
            index[at] = first + at
        # One call for both parts: the compiler copies what is called into each place that calls it.
        for part in range(2):
            begin, end = (0, conditions) if part == 0 else (conditions, len(steps))
            status = run_steps(
                data, words, row_size, index, count, heap, starts, steps[begin:end], constants,
                texts, text_starts, integers, floats, truths, valid_integers, valid_floats,
            )  # fmt: skip
            if status != _DONE:
                return -status
            if part == 0 and truth >= 0:
                here = 0
                for at in range(count):
                    places[np.uint64(here)] = at
                    here += truths[truth, at] == 1
                if len(outputs) > 0 and here < count:
                    _compact(integers, places, here)
                    _compact(floats, places, here)
                    _compact(truths, places, here)
                    _compact(valid_integers, places, here)
                    _compact(valid_floats, places, here)
                for at in range(here):
                    index[at] = first + places[at]
                count = here
        for at in range(count):
            chosen[np.uint64(kept + at)] = index[at]
        for number in range(len(outputs)):
            kind, register = outputs[number, 0], outputs[number, 1]
            if kind == 0:
                for at in range(count):
                    bits[number, np.uint64(kept + at)] = integers[register, at]
                    valid[number, np.uint64(kept + at)] = valid_integers[register, at]
            elif kind == 1:
                floats_as_bits = reinterpret(floats[register], np.int64)
                for at in range(count):
                    bits[number, np.uint64(kept + at)] = floats_as_bits[at]
                    valid[number, np.uint64(kept + at)] = valid_floats[register, at]
            else:
                for at in range(count):
                    bits[number, np.uint64(kept + at)] = truths[register, at] == 1
                    valid[number, np.uint64(kept + at)] = truths[register, at] != 2
        kept += count
        first += block
    return kept

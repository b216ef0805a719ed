"""Compiled twin of :mod:`tessel.kernels.filter_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["filter_rows"]

BLOCK_ROWS = 2048
"""Rows whose registers stay in the caches of the core."""

# Compiled code knows constants of its own module only; these are those of ``RowOp``.
_SIGNED, _UNSIGNED, _ORDERED, _DOUBLE, _SINGLE, _TRUTH, _PRESENT, _TEXT_EQUAL = range(8)
_INTEGER, _FLOAT, _FIXED_TRUTH, _TO_FLOAT = 8, 9, 10, 11
_ADD, _SUBTRACT, _MULTIPLY = 12, 13, 14
_FLOAT_ADD, _FLOAT_SUBTRACT, _FLOAT_MULTIPLY, _FLOAT_DIVIDE = 15, 16, 17, 18
_LESS, _LESS_EQUAL, _EQUAL, _FLOAT_LESS, _FLOAT_LESS_EQUAL, _FLOAT_EQUAL = 19, 20, 21, 22, 23, 24
_RANGE, _AND, _OR, _XOR, _NOT = 25, 26, 27, 28, 29
_INTEGER_MISSING, _FLOAT_MISSING, _TRUTH_MISSING = 30, 31, 32
_DONE, _OVERFLOW, _OUTSIDE = 0, 1, 2
_MOST_PRODUCT = 9.0e18


@kernel
def _present(data: Any, index: Any, row_size: int, place: int, out: Any, count: int) -> None:
    if place < 0:
        for at in range(count):
            out[at] = 1
        return
    byte, mask = place >> 3, np.uint8(1 << (place & 7))
    for at in range(count):
        out[at] = (data[index[at] * row_size + byte] & mask) == 0


@kernel
def _load_integers(
    words: Any, index: Any, row_size: int, op: int, a: int, b: int, c: int, out: Any, count: int
) -> None:
    bits = out.view(np.uint64)
    left, right, top = np.uint64(b), np.uint64(c), np.uint64(1) << np.uint64(63)
    if op == _SIGNED:
        for at in range(count):
            bits[at] = words[index[at] * row_size + a] << left
        for at in range(count):
            out[at] = out[at] >> c
    elif op == _UNSIGNED:
        for at in range(count):
            bits[at] = (words[index[at] * row_size + a] << left) >> right
    else:
        for at in range(count):
            bits[at] = words[index[at] * row_size + a] ^ top


@kernel
def _load_floats(
    words: Any, index: Any, row_size: int, op: int, a: int, b: int, c: int, out: Any, count: int
) -> None:
    if op == _DOUBLE:
        bits = out.view(np.uint64)
        for at in range(count):
            bits[at] = words[index[at] * row_size + a]
    else:
        left, right = np.uint64(b), np.uint64(c)
        for at in range(count):
            single = np.uint32((words[index[at] * row_size + a] << left) >> right)
            out[at] = np.float64(single.view(np.float32))


@kernel
def _load_truths(
    data: Any, index: Any, row_size: int, op: int, a: int, d: int, out: Any, count: int
) -> None:
    _present(data, index, row_size, d, out, count)
    if op == _TRUTH:
        for at in range(count):
            held = data[index[at] * row_size + a] != 0
            out[at] = held if out[at] else 2


@kernel
def _text_equal(
    data: Any,
    words: Any,
    index: Any,
    row_size: int,
    heap: Any,
    starts: Any,
    text: Any,
    a: int,
    d: int,
    out: Any,
    count: int,
) -> int:
    _present(data, index, row_size, d, out, count)
    length, end = len(text), len(heap)
    outside = False
    for at in range(count):
        if out[at] == 0:
            out[at] = 2
            continue
        row = index[at]
        pair = words[row * row_size + a]
        offset = np.int64(pair & np.uint64(0xFFFFFFFF))
        size = np.int64(pair >> np.uint64(32))
        if len(starts) > 0:
            offset += starts[row]
        if offset + size > end:
            outside = True
            continue
        equal = size == length
        if equal:
            for place in range(length):
                if heap[offset + place] != text[place]:
                    equal = False
                    break
        out[at] = equal
    return _OUTSIDE if outside else _DONE


@kernel
def _integer_step(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, valid: Any, count: int
) -> int:
    passed = False
    for at in range(count):
        valid[at] = valid_one[at] & valid_two[at]
    if op == _ADD:
        for at in range(count):
            found = one[at] + two[at]
            out[at] = found
            passed |= (((one[at] ^ found) & (two[at] ^ found)) < 0) & (valid[at] != 0)
    elif op == _SUBTRACT:
        for at in range(count):
            found = one[at] - two[at]
            out[at] = found
            passed |= (((one[at] ^ two[at]) & (one[at] ^ found)) < 0) & (valid[at] != 0)
    else:
        for at in range(count):
            out[at] = one[at] * two[at]
            size = abs(np.float64(one[at]) * np.float64(two[at]))
            passed |= (size > _MOST_PRODUCT) & (valid[at] != 0)
    return _OVERFLOW if passed else _DONE


@kernel
def _float_step(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, valid: Any, count: int
) -> None:
    for at in range(count):
        valid[at] = valid_one[at] & valid_two[at]
    if op == _FLOAT_ADD:
        for at in range(count):
            out[at] = one[at] + two[at]
    elif op == _FLOAT_SUBTRACT:
        for at in range(count):
            out[at] = one[at] - two[at]
    elif op == _FLOAT_MULTIPLY:
        for at in range(count):
            out[at] = one[at] * two[at]
    else:
        for at in range(count):
            out[at] = one[at] / two[at]


@kernel
def _compare_integers(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, count: int
) -> None:
    if op == _LESS:
        for at in range(count):
            out[at] = one[at] < two[at]
    elif op == _LESS_EQUAL:
        for at in range(count):
            out[at] = one[at] <= two[at]
    else:
        for at in range(count):
            out[at] = one[at] == two[at]
    for at in range(count):
        out[at] = out[at] if valid_one[at] & valid_two[at] else 2


@kernel
def _compare_floats(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, count: int
) -> None:
    if op == _FLOAT_LESS:
        for at in range(count):
            out[at] = one[at] < two[at]
    elif op == _FLOAT_LESS_EQUAL:
        for at in range(count):
            out[at] = one[at] <= two[at]
    else:
        for at in range(count):
            out[at] = one[at] == two[at]
    for at in range(count):
        known = (one[at] == one[at]) & (two[at] == two[at])
        out[at] = out[at] if known & ((valid_one[at] & valid_two[at]) != 0) else 2


@kernel
def _range(source: Any, known: Any, low: int, high: int, out: Any, count: int) -> None:
    for at in range(count):
        value = source[at]
        inside = (value >= low) & (value <= high)
        out[at] = inside if known[at] else 2


@kernel
def _connective(op: int, one: Any, two: Any, out: Any, count: int) -> None:
    if op == _AND:
        for at in range(count):
            a, b = one[at], two[at]
            out[at] = 0 if (a == 0) | (b == 0) else 2 if (a == 2) | (b == 2) else 1
    elif op == _OR:
        for at in range(count):
            a, b = one[at], two[at]
            out[at] = 1 if (a == 1) | (b == 1) else 2 if (a == 2) | (b == 2) else 0
    elif op == _XOR:
        for at in range(count):
            a, b = one[at], two[at]
            out[at] = 2 if (a == 2) | (b == 2) else a ^ b
    else:
        for at in range(count):
            a = one[at]
            out[at] = 2 if a == 2 else 1 - a


@kernel
def _run(
    data: Any,
    words: Any,
    row_size: int,
    index: Any,
    count: int,
    heap: Any,
    starts: Any,
    steps: Any,
    constants: Any,
    texts: Any,
    text_starts: Any,
    integers: Any,
    floats: Any,
    truths: Any,
    valid_integers: Any,
    valid_floats: Any,
) -> int:
    """Run steps on the rows of an index, at most ``BLOCK_ROWS``; return the status."""
    status = _DONE
    for place in range(len(steps)):
        op, target = steps[place, 0], steps[place, 1]
        a, b, c, d = steps[place, 2], steps[place, 3], steps[place, 4], steps[place, 5]
        if op <= _ORDERED:
            _load_integers(words, index, row_size, op, a, b, c, integers[target], count)
            _present(data, index, row_size, d, valid_integers[target], count)
        elif op <= _SINGLE:
            _load_floats(words, index, row_size, op, a, b, c, floats[target], count)
            _present(data, index, row_size, d, valid_floats[target], count)
        elif op <= _PRESENT:
            _load_truths(data, index, row_size, op, a, d, truths[target], count)
        elif op == _TEXT_EQUAL:
            text = texts[text_starts[c] : text_starts[c + 1]]
            status |= _text_equal(
                data, words, index, row_size, heap, starts, text, a, d, truths[target], count
            )
        elif op == _INTEGER:
            for at in range(count):
                integers[target, at] = a
                valid_integers[target, at] = 1
        elif op == _FLOAT:
            for at in range(count):
                floats[target, at] = constants[a]
                valid_floats[target, at] = 1
        elif op == _FIXED_TRUTH:
            for at in range(count):
                truths[target, at] = a
        elif op == _TO_FLOAT:
            for at in range(count):
                floats[target, at] = np.float64(integers[a, at])
                valid_floats[target, at] = valid_integers[a, at]
        elif op <= _MULTIPLY:
            status |= _integer_step(
                op, integers[a], integers[b], valid_integers[a], valid_integers[b],
                integers[target], valid_integers[target], count,
            )  # fmt: skip
        elif op <= _FLOAT_DIVIDE:
            _float_step(
                op, floats[a], floats[b], valid_floats[a], valid_floats[b],
                floats[target], valid_floats[target], count,
            )  # fmt: skip
        elif op <= _EQUAL:
            _compare_integers(
                op, integers[a], integers[b], valid_integers[a], valid_integers[b],
                truths[target], count,
            )  # fmt: skip
        elif op <= _FLOAT_EQUAL:
            _compare_floats(
                op, floats[a], floats[b], valid_floats[a], valid_floats[b], truths[target], count
            )
        elif op == _RANGE:
            _range(integers[a], valid_integers[a], b, c, truths[target], count)
        elif op <= _NOT:
            _connective(op, truths[a], truths[b], truths[target], count)
        elif op == _INTEGER_MISSING:
            for at in range(count):
                truths[target, at] = 1 - valid_integers[a, at]
        elif op == _FLOAT_MISSING:
            for at in range(count):
                there = (valid_floats[a, at] != 0) & (floats[a, at] == floats[a, at])
                truths[target, at] = not there
        elif op == _TRUTH_MISSING:
            for at in range(count):
                truths[target, at] = truths[a, at] == 2
        else:
            for at in range(count):
                truths[target, at] = 1 if truths[a, at] == 1 else 2
        if status != _DONE:
            return status
    return status


@kernel
def _compact(held: Any, places: Any, kept: int) -> None:
    """Move what was computed of the rows that are kept to the front."""
    for register in range(len(held)):
        for at in range(kept):
            held[register, at] = held[register, places[at]]


@kernel
def filter_rows(
    data: Any,
    words: Any,
    row_size: int,
    rows: int,
    heap: Any,
    starts: Any,
    steps: Any,
    conditions: int,
    truth: int,
    constants: Any,
    texts: Any,
    text_starts: Any,
    outputs: Any,
    registers: Any,
    chosen: Any,
    bits: Any,
    valid: Any,
) -> Any:
    """Write the rows that are kept and the outputs; return how many, and the status."""
    integers = np.empty((registers[0], BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    valid_integers = np.empty((registers[0], BLOCK_ROWS), np.uint8)
    valid_floats = np.empty((registers[1], BLOCK_ROWS), np.uint8)
    index = np.empty(BLOCK_ROWS, np.int64)
    places = np.empty(BLOCK_ROWS, np.int64)
    kept = 0
    for first in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - first)
        for at in range(count):
            index[at] = first + at
        # One call for both parts: the compiler copies what is called into each place that calls it.
        for part in range(2):
            begin, end = (0, conditions) if part == 0 else (conditions, len(steps))
            status = _run(
                data, words, row_size, index, count, heap, starts, steps[begin:end], constants,
                texts, text_starts, integers, floats, truths, valid_integers, valid_floats,
            )  # fmt: skip
            if status != _DONE:
                return 0, status
            if part == 0 and truth >= 0:
                here = 0
                for at in range(count):
                    places[here] = at
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
            chosen[kept + at] = index[at]
        for number in range(len(outputs)):
            kind, register = outputs[number, 0], outputs[number, 1]
            if kind == 0:
                for at in range(count):
                    bits[number, kept + at] = integers[register, at]
                    valid[number, kept + at] = valid_integers[register, at]
            elif kind == 1:
                floats_as_bits = floats[register].view(np.int64)
                for at in range(count):
                    bits[number, kept + at] = floats_as_bits[at]
                    valid[number, kept + at] = valid_floats[register, at]
            else:
                for at in range(count):
                    bits[number, kept + at] = truths[register, at] == 1
                    valid[number, kept + at] = truths[register, at] != 2
        kept += count
    return kept, _DONE

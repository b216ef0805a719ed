"""The steps of a row program, on the registers of a block of rows: what a kernel runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.declare import inner
from tessel.kernels.intrinsics import reinterpret
from tessel.kernels.row_program import RowOp, RowStatus

__all__ = ["run_steps"]

# Machine code knows no classes.
_SIGNED, _UNSIGNED, _ORDERED = RowOp.SIGNED, RowOp.UNSIGNED, RowOp.ORDERED
_DOUBLE, _SINGLE = RowOp.DOUBLE, RowOp.SINGLE
_TRUTH, _PRESENT, _TEXT_EQUAL = RowOp.TRUTH, RowOp.PRESENT, RowOp.TEXT_EQUAL
_INTEGER, _FLOAT, _FIXED_TRUTH = RowOp.INTEGER, RowOp.FLOAT, RowOp.FIXED_TRUTH
_TO_FLOAT = RowOp.TO_FLOAT
_ADD, _SUBTRACT, _MULTIPLY = RowOp.ADD, RowOp.SUBTRACT, RowOp.MULTIPLY
_FLOAT_ADD, _FLOAT_SUBTRACT = RowOp.FLOAT_ADD, RowOp.FLOAT_SUBTRACT
_FLOAT_MULTIPLY, _FLOAT_DIVIDE = RowOp.FLOAT_MULTIPLY, RowOp.FLOAT_DIVIDE
_LESS, _LESS_EQUAL, _EQUAL = RowOp.LESS, RowOp.LESS_EQUAL, RowOp.EQUAL
_FLOAT_LESS, _FLOAT_LESS_EQUAL = RowOp.FLOAT_LESS, RowOp.FLOAT_LESS_EQUAL
_FLOAT_EQUAL, _RANGE = RowOp.FLOAT_EQUAL, RowOp.RANGE
_AND, _OR, _XOR, _NOT = RowOp.AND, RowOp.OR, RowOp.XOR, RowOp.NOT
_INTEGER_MISSING, _FLOAT_MISSING = RowOp.INTEGER_MISSING, RowOp.FLOAT_MISSING
_TRUTH_MISSING = RowOp.TRUTH_MISSING
_DONE, _OVERFLOW, _OUTSIDE = RowStatus.DONE, RowStatus.OVERFLOW, RowStatus.OUTSIDE

_MOST_PRODUCT = 9.0e18
"""Products of integers that are larger as floats may have passed 64 bits."""


@inner
def _present(data: Any, index: Any, row_size: int, place: int, out: Any, count: int) -> None:
    if place < 0:
        for at in range(count):
            out[at] = 1
        return
    byte, mask = place >> 3, np.uint8(1 << (place & 7))
    for at in range(count):
        out[at] = (data[np.uint64(index[at] * row_size + byte)] & mask) == 0


@inner
def _load_integers(
    words: Any, index: Any, row_size: int, op: int, a: int, b: int, c: int, out: Any, count: int
) -> None:
    bits = reinterpret(out, np.uint64)
    left, right, top = np.uint64(b), np.uint64(c), np.uint64(1) << np.uint64(63)
    if op == _SIGNED:
        for at in range(count):
            bits[at] = words[np.uint64(index[at] * row_size + a)] << left
        for at in range(count):
            out[at] = out[at] >> c
    elif op == _UNSIGNED:
        for at in range(count):
            bits[at] = (words[np.uint64(index[at] * row_size + a)] << left) >> right
    else:
        for at in range(count):
            bits[at] = words[np.uint64(index[at] * row_size + a)] ^ top


@inner
def _load_floats(
    words: Any, index: Any, row_size: int, op: int, a: int, b: int, c: int, out: Any, count: int
) -> None:
    if op == _DOUBLE:
        bits = reinterpret(out, np.uint64)
        for at in range(count):
            bits[at] = words[np.uint64(index[at] * row_size + a)]
    else:
        left, right = np.uint64(b), np.uint64(c)
        for at in range(count):
            single = np.uint32((words[np.uint64(index[at] * row_size + a)] << left) >> right)
            out[at] = np.float64(single.view(np.float32))


@inner
def _load_truths(
    data: Any, index: Any, row_size: int, op: int, a: int, d: int, out: Any, count: int
) -> None:
    _present(data, index, row_size, d, out, count)
    if op == _TRUTH:
        for at in range(count):
            held = data[np.uint64(index[at] * row_size + a)] != 0
            out[at] = held if out[at] else 2


@inner
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
        pair = words[np.uint64(row * row_size + a)]
        offset = np.int64(pair & np.uint64(0xFFFFFFFF))
        size = np.int64(pair >> np.uint64(32))
        if len(starts) > 0:
            offset += starts[row]
        if offset < 0 or offset + size > end:
            outside = True
            continue
        equal = size == length
        if equal:
            for place in range(length):
                if heap[np.uint64(offset + place)] != text[place]:
                    equal = False
                    break
        out[at] = equal
    return _OUTSIDE if outside else _DONE


@inner
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


@inner
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


@inner
def _compare(less: bool, less_equal: bool, one: Any, two: Any, out: Any, count: int) -> None:
    """Write whether numbers are less than others, or not greater, or else equal to them."""
    if less:
        for at in range(count):
            out[at] = one[at] < two[at]
    elif less_equal:
        for at in range(count):
            out[at] = one[at] <= two[at]
    else:
        for at in range(count):
            out[at] = one[at] == two[at]


@inner
def _compare_integers(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, count: int
) -> None:
    _compare(op == _LESS, op == _LESS_EQUAL, one, two, out, count)
    for at in range(count):
        out[at] = out[at] if valid_one[at] & valid_two[at] else 2


@inner
def _compare_floats(
    op: int, one: Any, two: Any, valid_one: Any, valid_two: Any, out: Any, count: int
) -> None:
    _compare(op == _FLOAT_LESS, op == _FLOAT_LESS_EQUAL, one, two, out, count)
    # Flags are 0 or 1: arithmetic of bytes takes many rows at once, where a choice takes one.
    for at in range(count):
        known = np.uint8(one[at] == one[at]) & np.uint8(two[at] == two[at])
        known &= valid_one[at] & valid_two[at]
        out[at] = (out[at] & known) | ((known ^ np.uint8(1)) << np.uint8(1))


@inner
def _range(source: Any, known: Any, low: int, high: int, out: Any, count: int) -> None:
    for at in range(count):
        value = source[at]
        inside = (value >= low) & (value <= high)
        out[at] = inside if known[at] else 2


@inner
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


@inner
def run_steps(
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
    """Run steps on the rows of an index; return the status."""
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
            value = constants[a]
            for at in range(count):
                floats[target, at] = value
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

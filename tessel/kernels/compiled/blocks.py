"""Runs a program on one block of rows; the twin is :mod:`tessel.kernels.blocks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.fused import fused_multiply_add
from tessel.kernels.jit import kernel

__all__ = ["BLOCK_ROWS", "run_steps"]

BLOCK_ROWS = 2048
"""Rows whose registers, a handful of 8 KiB each, stay in the first cache of the core."""

# Compiled code knows constants of its own module only; these are those of ``Op``.
_LOAD, _DECIMAL, _FLOAT, _CONSTANT, _INTEGER = 0, 1, 2, 3, 4
_ADD, _SUBTRACT, _MULTIPLY = 5, 6, 7
_INTEGER_ADD, _INTEGER_SUBTRACT, _INTEGER_MULTIPLY = 8, 9, 10
_RANGE, _LESS, _LESS_EQUAL, _EQUAL, _TABLE = 11, 12, 13, 14, 15
_AND, _OR, _XOR, _NOT = 16, 17, 18, 19
_COLUMN_RANGE, _RESIDUAL, _PRODUCT_ERROR = 21, 22, 23
_WIDEST_NARROW = 24

_POWERS = np.array([float(10**exponent) for exponent in range(23)])
_MOST_RECIPROCAL = 15
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))
_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = 0, 1, 2, 3, 4, 5


@kernel
def _load(
    data: Any, words: Any, facts: Any, column: int, page: int, first: int, rows: int, out: Any
) -> None:
    start, width = facts[_START, column, page], facts[_WIDTH, column, page]
    base, step = facts[_BASE, column, page], facts[_STEP, column, page]
    if width == 0:
        for row in range(rows):
            out[row] = base
    elif width == 8:
        octets = data[start + first : start + first + rows]
        for row in range(rows):
            out[row] = base + np.int64(octets[row])
    elif width == 16:
        begin = start + 2 * first
        halves = data[begin : begin + 2 * rows].view(np.uint16)
        for row in range(rows):
            out[row] = base + np.int64(halves[row])
    elif width == 32:
        begin = start + 4 * first
        wholes = data[begin : begin + 4 * rows].view(np.uint32)
        for row in range(rows):
            out[row] = base + np.int64(wholes[row])
    elif width == 64:
        begin = start + 8 * first
        longs = data[begin : begin + 8 * rows].view(np.int64)
        for row in range(rows):
            out[row] = base + longs[row]
    elif width == 24:  # as what follows, but the machine's arithmetic of addresses does it
        # A slice tells the compiler that no index is negative, which Python would count back.
        loaded = words[start + 3 * first :]
        for row in range(rows):
            out[row] = base + np.int64(loaded[3 * row] & np.uint64(0xFFFFFF))
    elif width % 8 == 0:
        item = width >> 3
        mask = np.uint64(facts[_MASK, column, page])
        loaded = words[start + first * item :]
        for row in range(rows):
            out[row] = base + np.int64(loaded[row * item] & mask)
    else:
        mask = np.uint64(facts[_MASK, column, page])
        for row in range(rows):
            bits = (first + row) * width
            word = words[start + (bits >> 3)] >> np.uint64(bits & 7)
            out[row] = base + np.int64(word & mask)
    if step != 0:
        for row in range(rows):
            out[row] += step * (first + row)


@kernel
def _narrow_range(
    data: Any,
    words: Any,
    start: int,
    width: int,
    first: int,
    rows: int,
    low: Any,
    high: Any,
    out: Any,
) -> None:
    """Compare integers of 8, 16 or 24 bits where they are: many at a time of the machine."""
    least, most = np.int32(low), np.int32(high)
    if width == 8:
        octets = data[start + first : start + first + rows]
        for row in range(rows):
            value = np.int32(octets[row])
            out[row] = (value >= least) & (value <= most)
    elif width == 16:
        begin = start + 2 * first
        halves = data[begin : begin + 2 * rows].view(np.uint16)
        for row in range(rows):
            value = np.int32(halves[row])
            out[row] = (value >= least) & (value <= most)
    else:
        loaded = words[start + 3 * first :]
        for row in range(rows):
            value = np.int32(loaded[3 * row] & np.uint64(0xFFFFFF))
            out[row] = (value >= least) & (value <= most)


@kernel
def _column_range(
    data: Any,
    words: Any,
    facts: Any,
    column: int,
    page: int,
    first: int,
    rows: int,
    low: int,
    high: int,
    scratch: Any,
    out: Any,
) -> None:
    width, base = facts[_WIDTH, column, page], facts[_BASE, column, page]
    narrow = width % 8 == 0 and 0 < width <= _WIDEST_NARROW and facts[_STEP, column, page] == 0
    # Bases near the ends of 64 bits would wrap: there integers are made first.
    if narrow and -(1 << 61) < base < (1 << 61):
        most = np.int64(1) << width
        least = min(max(low, base - 1), base + most) - base
        greatest = max(min(high, base + most), base - 1) - base
        _narrow_range(
            data, words, facts[_START, column, page], width, first, rows,
            least, greatest, out,
        )  # fmt: skip
        return
    _load(data, words, facts, column, page, first, rows, scratch)
    for row in range(rows):
        value = scratch[row]
        out[row] = (value >= low) & (value <= high)


@kernel
def _float_step(op: int, left: Any, right: Any, out: Any, rows: int) -> None:
    if op == _ADD:
        for row in range(rows):
            out[row] = left[row] + right[row]
    elif op == _SUBTRACT:
        for row in range(rows):
            out[row] = left[row] - right[row]
    else:
        for row in range(rows):
            out[row] = left[row] * right[row]


@kernel
def _integer_step(op: int, left: Any, right: Any, factor: int, out: Any, rows: int) -> None:
    if op == _INTEGER_ADD:
        for row in range(rows):
            out[row] = left[row] + right[row]
    elif op == _INTEGER_SUBTRACT:
        for row in range(rows):
            out[row] = left[row] - right[row]
    elif op == _INTEGER_MULTIPLY:
        for row in range(rows):
            out[row] = left[row] * right[row]
    else:
        for row in range(rows):
            out[row] = left[row] * factor + right[row]


@kernel
def _comparison_step(op: int, left: Any, right: Any, out: Any, rows: int) -> None:
    if op == _LESS:
        for row in range(rows):
            out[row] = left[row] < right[row]
    elif op == _LESS_EQUAL:
        for row in range(rows):
            out[row] = left[row] <= right[row]
    else:
        for row in range(rows):
            out[row] = left[row] == right[row]


@kernel
def _truth_step(op: int, left: Any, right: Any, out: Any, rows: int) -> None:
    if op == _AND:
        for row in range(rows):
            out[row] = left[row] & right[row]
    elif op == _OR:
        for row in range(rows):
            out[row] = left[row] | right[row]
    else:
        for row in range(rows):
            out[row] = left[row] ^ right[row]


@kernel
def _quotient(whole: float, power: float, reciprocal: float) -> float:
    """Return ``whole / power``, correctly rounded, without the division, which is slow.

    The first guess is at most two units off, and its remainder ``r`` exact (Markstein, Computation
    of elementary functions on the IBM RISC System/6000, 1990), so that ``guess + r * reciprocal``
    is off by less than ``2**-51`` units before it is rounded. A quotient of whole numbers below
    ``2**53`` that is no float is further than ``1 / (2 * power)`` units from where rounding turns:
    powers below ``2**50`` are safe.
    """
    guess = whole * reciprocal
    return fused_multiply_add(fused_multiply_add(-guess, power, whole), reciprocal, guess)


@kernel
def _residuals(source: Any, exponent: int, bits: int, out: Any, rows: int) -> None:
    """Write what the division of decimals rounds off, times the power of ten and ``2**bits``."""
    power = _POWERS[exponent]
    reciprocal = 1.0 / power
    scale = np.float64(np.int64(1) << bits)
    for row in range(rows):
        whole = np.float64(source[row])
        quotient = _quotient(whole, power, reciprocal)
        left = fused_multiply_add(quotient, power, -whole) * scale
        # Adding this leaves a small whole number in the low bits of the float.
        out[row] = np.float64(left + _ROUNDER).view(np.int64) - _ROUNDER_BITS


@kernel
def _product_errors(left: Any, right: Any, products: Any, out: Any, rows: int) -> None:
    for row in range(rows):
        out[row] = fused_multiply_add(left[row], right[row], -products[row])


@kernel
def _unary_float(op: int, source: Any, exponent: int, out: Any, rows: int) -> None:
    """Make floats of integers: decimals, bits, or the integers themselves."""
    if op == _FLOAT:
        for row in range(rows):
            out[row] = np.float64(source[row])
    elif exponent > _MOST_RECIPROCAL:
        power = _POWERS[exponent]
        for row in range(rows):
            out[row] = np.float64(source[row]) / power
    elif exponent >= 0:
        power = _POWERS[exponent]
        reciprocal = 1.0 / power
        for row in range(rows):
            out[row] = _quotient(np.float64(source[row]), power, reciprocal)
    else:
        bits = source.view(np.float64)
        for row in range(rows):
            out[row] = bits[row]


@kernel
def run_steps(
    data: Any,
    words: Any,
    facts: Any,
    steps: Any,
    ranges: Any,
    constants: Any,
    tables: Any,
    page: int,
    first: int,
    rows: int,
    integers: Any,
    floats: Any,
    truths: Any,
) -> None:
    """Run all steps on rows ``[first, first + rows)`` of a page; at most ``BLOCK_ROWS``.

    The last integer register is for what is between.
    """
    scratch = integers[len(integers) - 1]
    for place in range(len(steps)):
        op, target = steps[place, 0], steps[place, 1]
        a, b, c = steps[place, 2], steps[place, 3], steps[place, 4]
        if op == _LOAD:
            _load(data, words, facts, a, page, first, rows, integers[target])
        elif op == _DECIMAL:
            _unary_float(op, integers[a], facts[_EXPONENT, b, page], floats[target], rows)
        elif op == _FLOAT:
            _unary_float(op, integers[a], 0, floats[target], rows)
        elif op == _CONSTANT:
            for row in range(rows):
                floats[target, row] = constants[a]
        elif op == _INTEGER:
            for row in range(rows):
                integers[target, row] = c
        elif op <= _MULTIPLY:
            _float_step(op, floats[a], floats[b], floats[target], rows)
        elif op <= _INTEGER_MULTIPLY:
            _integer_step(op, integers[a], integers[b], 0, integers[target], rows)
        elif op == _RANGE:
            low, high = ranges[c, page, 0], ranges[c, page, 1]
            for row in range(rows):
                value = integers[a, row]
                truths[target, row] = (value >= low) & (value <= high)
        elif op == _COLUMN_RANGE:
            _column_range(
                data, words, facts, a, page, first, rows, ranges[c, page, 0], ranges[c, page, 1],
                scratch, truths[target],
            )  # fmt: skip
        elif op <= _EQUAL:
            _comparison_step(op, floats[a], floats[b], truths[target], rows)
        elif op == _TABLE:
            for row in range(rows):
                truths[target, row] = tables[c + integers[a, row]]
        elif op <= _XOR:
            _truth_step(op, truths[a], truths[b], truths[target], rows)
        elif op == _NOT:
            for row in range(rows):
                truths[target, row] = 1 - truths[a, row]
        elif op == _RESIDUAL:
            _residuals(integers[a], facts[_EXPONENT, b, page], c, integers[target], rows)
        elif op == _PRODUCT_ERROR:
            _product_errors(floats[a], floats[b], floats[c], floats[target], rows)
        else:
            _integer_step(op, integers[a], integers[b], c, integers[target], rows)

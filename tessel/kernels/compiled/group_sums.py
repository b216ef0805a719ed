"""Compiled twin of :mod:`tessel.kernels.group_sums`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.jit import kernel

__all__ = ["add_groups", "fill_limbs", "slot_registers"]

_INTEGER, _WIDE, _FLOAT = 0, 1, 2
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))


@kernel
def _split(source: Any, scale: float, scale_below: float, high: Any, low: Any, rows: int) -> Any:
    """Write the two limbs of floats; return whether something was left over."""
    lost = False
    for row in range(rows):
        scaled = source[row] * scale
        whole = scaled + _ROUNDER
        below = (scaled - (whole - _ROUNDER)) * scale_below
        whole_below = below + _ROUNDER
        lost |= (whole_below - _ROUNDER) != below
        high[row] = np.float64(whole).view(np.int64) - _ROUNDER_BITS
        low[row] = np.float64(whole_below).view(np.int64) - _ROUNDER_BITS
    return lost


@kernel
def slot_registers(kinds: Any, sources: Any, registers: int) -> Any:
    """Return the integer register of each slot; limbs get registers of their own, from there on."""
    slots = np.empty(2 * len(kinds), np.int64)
    count, own = 0, registers
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER:
            slots[count] = sources[field]
            count += 1
        elif kinds[field] <= _FLOAT:
            slots[count], slots[count + 1] = own, own + 1
            count, own = count + 2, own + 2
    return slots[:count]


@kernel
def fill_limbs(
    kinds: Any, sources: Any, scales: Any, integers: Any, floats: Any, slots: Any, rows: int
) -> Any:
    """Write the limbs of what is not added as it is; return whether bits were lost."""
    lost = False
    slot = 0
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER:
            slot += 1
            continue
        if kinds[field] > _FLOAT:
            continue
        low, high = integers[slots[slot]], integers[slots[slot + 1]]
        if kinds[field] == _WIDE:
            source = integers[sources[field]]
            for row in range(rows):
                low[row] = source[row] & _HALF_MASK
                high[row] = source[row] >> _HALF
        else:
            held = floats[sources[field]]
            scale, below = scales[field, 0], scales[field, 1]
            lost |= _split(held, scale, below, low, high, rows)
        slot += 2
    return lost


@kernel
def _count(numbers: Any, sums: Any, rows: int) -> None:
    for row in range(rows):
        # Unsigned: the compiler need not ask whether it counts from the end.
        sums[np.uint64(numbers[row]), 0] += 1


@kernel
def _add_one(numbers: Any, a: Any, sums: Any, at: int, rows: int) -> None:
    for row in range(rows):
        sums[np.uint64(numbers[row]), at] += a[row]


@kernel
def _add_two(numbers: Any, a: Any, b: Any, sums: Any, at: int, rows: int) -> None:
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, at] += a[row]
        sums[number, at + 1] += b[row]


@kernel
def _count_and_add_three(numbers: Any, a: Any, b: Any, c: Any, sums: Any, rows: int) -> None:
    """Add a common number of slots in one pass: they share a line of the cache."""
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, 0] += 1
        sums[number, 1] += a[row]
        sums[number, 2] += b[row]
        sums[number, 3] += c[row]


@kernel
def _count_and_add_two(numbers: Any, a: Any, b: Any, sums: Any, rows: int) -> None:
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, 0] += 1
        sums[number, 1] += a[row]
        sums[number, 2] += b[row]


@kernel
def _add(numbers: Any, integers: Any, slots: Any, sums: Any, rows: int) -> None:
    """Add rows to their groups, and count them."""
    count = len(slots)
    at = 0
    if count >= 3:
        one, two, three = integers[slots[0]], integers[slots[1]], integers[slots[2]]
        _count_and_add_three(numbers, one, two, three, sums, rows)
        at = 3
    elif count == 2:
        _count_and_add_two(numbers, integers[slots[0]], integers[slots[1]], sums, rows)
        at = 2
    else:
        _count(numbers, sums, rows)
    while at + 1 < count:
        _add_two(numbers, integers[slots[at]], integers[slots[at + 1]], sums, at + 1, rows)
        at += 2
    if at < count:
        _add_one(numbers, integers[slots[at]], sums, at + 1, rows)


@kernel
def _choose(truths: Any, chosen: Any, rows: int) -> int:
    """Write the rows that count; return how many."""
    count = 0
    for row in range(rows):
        chosen[count] = row
        count += truths[row]
    return count


@kernel
def _pack(values: Any, chosen: Any, out: Any, count: int) -> None:
    for place in range(count):
        out[place] = values[np.uint64(chosen[place])]


@kernel
def _pack_registers(
    kinds: Any, sources: Any, integers: Any, floats: Any, packed: Any, chosen: Any, count: int
) -> None:
    """Move the rows that count to the front of the registers of the fields, in place."""
    for field in range(len(kinds)):
        source, again = sources[field], False
        for before in range(field):  # a register that two fields share is moved once
            same = (kinds[before] > _WIDE) == (kinds[field] > _WIDE)
            again |= same and sources[before] == source
        if again:
            continue
        if kinds[field] > _WIDE:
            _pack(floats[source], chosen, packed, count)
            floats[source, :count] = packed[:count]
        else:
            _pack(integers[source], chosen, packed.view(np.int64), count)
            integers[source, :count] = packed.view(np.int64)[:count]


@kernel
def add_groups(
    data: Any,
    words: Any,
    facts: Any,
    shift: int,
    start: int,
    stop: int,
    steps: Any,
    ranges: Any,
    constants: Any,
    tables: Any,
    registers: Any,
    select: int,
    group: int,
    kinds: Any,
    sources: Any,
    scales: Any,
    first_row: Any,
    sums: Any,
) -> Any:
    """Add rows ``[start, stop)`` to ``sums``; return whether bits of a float were lost.

    ``sums`` has a line a group: how many rows, then the limbs of each field.
    """
    slots = slot_registers(kinds, sources, registers[0])
    integers = np.empty((registers[0] + 2 * len(kinds) + 2, BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    packed = np.empty(BLOCK_ROWS, np.float64)
    chosen = np.arange(BLOCK_ROWS)
    # The last register but one holds the groups of the rows that count, or the one group of all.
    packed_group = len(integers) - 2
    integers[packed_group] = 0
    numbers = integers[packed_group]
    unseen = 0
    for place in range(len(first_row)):
        unseen += first_row[place] < 0
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, steps, ranges, constants, tables, page, first, rows,
            integers, floats, truths,
        )  # fmt: skip
        count = rows
        if select >= 0:
            count = _choose(truths[select], chosen, rows)
            if group >= 0:  # before the fields: one may be the same register
                _pack(integers[group], chosen, integers[packed_group], count)
            _pack_registers(kinds, sources, integers, floats, packed, chosen, count)
        elif group >= 0:
            numbers = integers[group]
        if fill_limbs(kinds, sources, scales, integers, floats, slots, count):
            return True
        if unseen:
            for place in range(count):
                number = numbers[place]
                if first_row[number] < 0:
                    first_row[number] = row + chosen[place] if select >= 0 else row + place
                    unseen -= 1
        _add(numbers, integers, slots, sums, count)
        row += rows
    return False

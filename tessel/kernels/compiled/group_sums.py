"""Compiled twin of :mod:`tessel.kernels.group_sums`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.compiled.limbs import fill_limbs
from tessel.kernels.jit import kernel

__all__ = ["add_groups"]

_WIDE, _FLOAT, _LEAST, _GREATEST, _LEAST_FLOAT = 1, 2, 3, 4, 5
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_WORD = 64
# Columns of the table of parts, and of that of slots.
_SLOT, _WIDTH = 0, 1
_FIRST, _SECOND, _UP, _CONSTANT = 0, 1, 2, 3


# --- rows that count ------------------------------------------------------------------------------


@kernel
def _how_many(truths: Any, rows: int) -> Any:
    count = np.int64(0)
    for row in range(rows):
        count += np.int64(truths[row])
    return count


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
def _is_float(kind: int) -> bool:
    return kind == _FLOAT or kind >= _LEAST_FLOAT


@kernel
def _pack_registers(
    kinds: Any, sources: Any, integers: Any, floats: Any, packed: Any, chosen: Any, count: int
) -> None:
    """Move the rows that count to the front of the registers of the fields, in place."""
    for field in range(len(kinds)):
        source, again = sources[field], False
        for before in range(field):  # a register that two fields share is moved once
            same = _is_float(kinds[before]) == _is_float(kinds[field])
            again |= same and sources[before] == source
        if again:
            continue
        if _is_float(kinds[field]):
            _pack(floats[source], chosen, packed, count)
            floats[source, :count] = packed[:count]
        else:
            _pack(integers[source], chosen, packed.view(np.int64), count)
            integers[source, :count] = packed.view(np.int64)[:count]


@kernel
def _aside(truths: Any, numbers: Any, aside: int, out: Any, rows: int) -> None:
    """Give rows that do not count to a group of their own."""
    for row in range(rows):
        out[row] = numbers[row] if truths[row] else aside


# --- adding ---------------------------------------------------------------------------------------


# A slot takes a register and a constant, or two registers, the second one shifted, and a constant:
# what shares a word is joined on its way, since a register between costs as much as an addition.
# Groups are unsigned: the compiler need not ask whether they count from the end.


@kernel
def _add_one(numbers: Any, a: Any, constant: int, sums: Any, at: int, rows: int) -> None:
    for row in range(rows):
        sums[np.uint64(numbers[row]), at] += a[row] + constant


@kernel
def _add_joined(
    numbers: Any, a: Any, b: Any, up: int, constant: int, sums: Any, at: int, rows: int
) -> None:
    for row in range(rows):
        sums[np.uint64(numbers[row]), at] += a[row] + (b[row] << up) + constant


@kernel
def _add_two(
    numbers: Any, a: Any, b: Any, a_constant: int, b_constant: int, sums: Any, at: int, rows: int
) -> None:
    """Add two slots in one pass: they share a line of the cache."""
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, at] += a[row] + a_constant
        sums[number, at + 1] += b[row] + b_constant


@kernel
def _add_one_and_joined(
    numbers: Any,
    a: Any,
    b: Any,
    c: Any,
    up: int,
    a_constant: int,
    b_constant: int,
    sums: Any,
    at: int,
    rows: int,
) -> None:
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, at] += a[row] + a_constant
        sums[number, at + 1] += b[row] + (c[row] << up) + b_constant


@kernel
def _add_three(
    numbers: Any, a: Any, b: Any, c: Any, constant: int, sums: Any, at: int, rows: int
) -> None:
    for row in range(rows):
        number = np.uint64(numbers[row])
        sums[number, at] += a[row] + constant
        sums[number, at + 1] += b[row]
        sums[number, at + 2] += c[row]


@kernel
def _add(numbers: Any, integers: Any, slots: Any, sums: Any, rows: int) -> None:
    """Add rows to their groups. Slots without a second register come first."""
    count = len(slots)
    single = 0
    while single < count and slots[single, _SECOND] < 0:
        single += 1
    at = 0
    while at < count:
        one, two = slots[at], slots[min(at + 1, count - 1)]
        a, b = integers[one[_FIRST]], integers[two[_FIRST]]
        if at + 2 < single and two[_CONSTANT] == 0 and slots[at + 2, _CONSTANT] == 0:
            c = integers[slots[at + 2, _FIRST]]
            _add_three(numbers, a, b, c, one[_CONSTANT], sums, at, rows)
            at += 3
        elif at + 1 < single:
            _add_two(numbers, a, b, one[_CONSTANT], two[_CONSTANT], sums, at, rows)
            at += 2
        elif at + 1 == single and at + 1 < count:
            c = integers[two[_SECOND]]
            _add_one_and_joined(
                numbers, a, b, c, two[_UP], one[_CONSTANT], two[_CONSTANT], sums, at, rows
            )
            at += 2
        elif at < single:
            _add_one(numbers, a, one[_CONSTANT], sums, at, rows)
            at += 1
        else:
            b = integers[one[_SECOND]]
            _add_joined(numbers, a, b, one[_UP], one[_CONSTANT], sums, at, rows)
            at += 1


@kernel
def _add_all(integers: Any, slots: Any, sums: Any, rows: int) -> None:
    """Add rows to the one group there is: a run, in which nothing waits for a store."""
    for at in range(len(slots)):
        first, second = slots[at, _FIRST], slots[at, _SECOND]
        total = slots[at, _CONSTANT] * rows
        values = integers[first]
        for row in range(rows):
            total += values[row]
        if second >= 0:
            above = np.int64(0)
            values = integers[second]
            for row in range(rows):
                above += values[row]
            total += above << slots[at, _UP]
        sums[0, at] += total


@kernel
def _drain(parts: Any, sums: Any, low: Any, high: Any) -> None:
    """Take the slots apart, add the halves of what is in them to the totals, and clear them."""
    for group in range(len(low)):
        for part in range(len(parts)):
            slot, width = parts[part, _SLOT], parts[part, _WIDTH]
            held = sums[group, slot]
            if held == 0:
                continue
            value = held
            if part + 1 < len(parts) and parts[part + 1, _SLOT] == slot:
                # A lower part may be negative and have borrowed from those above.
                value = (held << (_WORD - width)) >> (_WORD - width)
                sums[group, slot] = (held - value) >> width
            else:
                sums[group, slot] = 0
            low[group, part] += value & _HALF_MASK
            high[group, part] += value >> _HALF


@kernel
def _extreme(numbers: Any, values: Any, greatest: bool, best: Any, rows: int) -> None:
    if greatest:
        for row in range(rows):
            number = np.uint64(numbers[row])
            best[number] = max(best[number], values[row])
    else:
        for row in range(rows):
            number = np.uint64(numbers[row])
            best[number] = min(best[number], values[row])


@kernel
def _extreme_float(numbers: Any, values: Any, greatest: bool, best: Any, rows: int) -> None:
    for row in range(rows):
        number, value = np.uint64(numbers[row]), values[row]
        if (value > best[number]) if greatest else (value < best[number]):
            best[number] = value


@kernel
def _note_last(numbers: Any, chosen: Any, packed: bool, row: int, rows: int, last_row: Any) -> None:
    if packed:
        for place in range(rows):
            last_row[np.uint64(numbers[place])] = row + chosen[place]
    else:
        for place in range(rows):
            last_row[np.uint64(numbers[place])] = row + place


@kernel
def _note_first(
    numbers: Any, chosen: Any, packed: bool, row: int, rows: int, first_row: Any
) -> None:
    for place in range(rows):
        number = numbers[place]
        if number < len(first_row) and first_row[number] < 0:
            first_row[number] = row + chosen[place] if packed else row + place


@kernel
def _still_unseen(unseen: Any, count: int, sums: Any, slot: int) -> int:
    """Keep the groups of which no row has come yet; return how many."""
    left = 0
    for place in range(count):
        number = unseen[place]
        unseen[left] = number
        left += sums[number, slot] == 0
    return left


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
    limbs: Any,
    parts: Any,
    slots: Any,
    count_slot: int,
    chunk_rows: int,
    first_row: Any,
    last_row: Any,
    low: Any,
    high: Any,
    best: Any,
    best_floats: Any,
) -> Any:
    """Add rows ``[start, stop)`` to the totals; return whether bits of a float were lost.

    ``low`` and ``high`` have a line a group, and in it the halves of each part. Until a chunk of
    rows is full, parts add up in the words of ``slots``, several in one. ``last_row`` is empty
    where nobody asks for it. ``best`` and ``best_floats`` have a line a field, for extremes. These
    three have one group more, for rows that do not count.
    """
    groups = len(first_row)
    integers = np.zeros((registers[0] + 2 * len(kinds) + 3, BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    packed = np.empty(BLOCK_ROWS, np.float64)
    chosen = np.arange(BLOCK_ROWS)
    # The last but one holds the groups of the rows that count, or the one group of all; the one
    # before stays zero.
    own = len(integers) - 2
    lines = len(slots) if len(slots) < 3 else (len(slots) + 3) & ~3
    sums = np.zeros((groups + 1, lines), np.int64)
    unseen = np.flatnonzero(first_row < 0)
    left = len(unseen)
    added = 0
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, steps, ranges, constants, tables, page, first, rows,
            integers, floats, truths,
        )  # fmt: skip
        numbers = integers[group] if group >= 0 else integers[own]
        count, is_packed = rows, False
        if select >= 0:
            count = _how_many(truths[select], rows)
            if count == 0:
                row += rows
                continue
            if count == rows:
                pass
            elif group >= 0 and 2 * count > rows:
                _aside(truths[select], numbers, groups, integers[own], rows)
                numbers, count = integers[own], rows
            else:
                is_packed = True
                _choose(truths[select], chosen, rows)
                if group >= 0:  # before the fields: one may be the same register
                    _pack(numbers, chosen, integers[own], count)
                _pack_registers(kinds, sources, integers, floats, packed, chosen, count)
                numbers = integers[own]
        if fill_limbs(kinds, sources, scales, limbs, integers, floats, count):
            return True
        if group < 0:
            _add_all(integers, slots, sums, count)
        else:
            _add(numbers, integers, slots, sums, count)
        for field in range(len(kinds)):
            kind, source = kinds[field], sources[field]
            if kind >= _LEAST_FLOAT:
                greatest = kind > _LEAST_FLOAT
                _extreme_float(numbers, floats[source], greatest, best_floats[field], count)
            elif kind >= _LEAST:
                _extreme(numbers, integers[source], kind == _GREATEST, best[field], count)
        if len(last_row):
            _note_last(numbers, chosen, is_packed, row, count, last_row)
        if left > count:
            _note_first(numbers, chosen, is_packed, row, count, first_row)
            left = _still_unseen(unseen, left, sums, count_slot)
        elif left:
            before = left
            left = _still_unseen(unseen, left, sums, count_slot)
            if left < before:
                _note_first(numbers, chosen, is_packed, row, count, first_row)
        row += rows
        added += rows
        if added + BLOCK_ROWS > chunk_rows:
            _drain(parts, sums, low, high)
            added = 0
    _drain(parts, sums, low, high)
    return False

"""The loop that adds rows to their groups; :mod:`tessel.kernels.group_sums` calls it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_loop import (
    BLOCKS,
    PROGRAM,
    REGISTERS,
    SELECTED,
    are_places,
    place_of,
    run_selected,
)
from tessel.kernels.declare import inner, kernel
from tessel.kernels.fields import FIELDS
from tessel.kernels.fixed_point import split_fixed_point
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS

ZERO_REGISTER = -3
"""The register of integers, counted from the end, that nothing writes to: it stays 0."""

_LINES_REGISTER = -2

_WIDE, _FLOAT, _LEAST, _GREATEST, _LEAST_FLOAT = 1, 2, 3, 4, 5
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_WORD = 64
# Columns of the table of parts, and of that of slots.
_SLOT, _WIDTH = 0, 1
_FIRST, _SECOND, _UP, _CONSTANT = 0, 1, 2, 3


@inner
def _spread(integers: Any, numbers: Any, lane_bits: int, out: Any, rows: Any) -> None:
    """Write the line of each row: that of its group in one of several lanes, in turn."""
    lanes = (np.uint64(1) << np.uint64(lane_bits)) - np.uint64(1)
    for row in range(rows):
        integers[out + row] = (integers[numbers + row] << lane_bits) + np.int64(row & lanes)


@inner
def _aside(
    truths: Any, select: Any, integers: Any, numbers: Any, aside: int, out: Any, rows: Any
) -> None:
    """Give rows that do not count to a line of their own."""
    for row in range(rows):
        integers[out + row] = integers[numbers + row] if truths[select + row] else aside


# --- adding ---------------------------------------------------------------------------------------


# A slot takes a register and a constant, or two registers, the second one shifted, and a constant:
# what shares a word is joined on its way, since a register between costs as much as an addition.


@inner
def _add_one(
    integers: Any, numbers: Any, a: Any, constant: int, sums: Any, at: Any, rows: Any
) -> None:
    for row in range(rows):
        sums[np.uint64(integers[numbers + row]), at] += integers[a + row] + constant


@inner
def _add_joined(
    integers: Any,
    numbers: Any,
    a: Any,
    b: Any,
    up: int,
    constant: int,
    sums: Any,
    at: Any,
    rows: Any,
) -> None:
    for row in range(rows):
        joined = integers[a + row] + (integers[b + row] << up) + constant
        sums[np.uint64(integers[numbers + row]), at] += joined


@inner
def _add_two(
    integers: Any,
    numbers: Any,
    a: Any,
    b: Any,
    a_constant: int,
    b_constant: int,
    sums: Any,
    at: Any,
    rows: Any,
) -> None:
    """Add two slots in one pass: they share a line of the cache."""
    after = at + np.uint64(1)
    for row in range(rows):
        number = np.uint64(integers[numbers + row])
        sums[number, at] += integers[a + row] + a_constant
        sums[number, after] += integers[b + row] + b_constant


@inner
def _add_one_and_joined(
    integers: Any,
    numbers: Any,
    a: Any,
    b: Any,
    c: Any,
    up: int,
    a_constant: int,
    b_constant: int,
    sums: Any,
    at: Any,
    rows: Any,
) -> None:
    after = at + np.uint64(1)
    for row in range(rows):
        number = np.uint64(integers[numbers + row])
        sums[number, at] += integers[a + row] + a_constant
        sums[number, after] += integers[b + row] + (integers[c + row] << up) + b_constant


@inner
def _add_three(
    integers: Any,
    numbers: Any,
    a: Any,
    b: Any,
    c: Any,
    constant: int,
    sums: Any,
    at: Any,
    rows: Any,
) -> None:
    second, third = at + np.uint64(1), at + np.uint64(2)
    for row in range(rows):
        number = np.uint64(integers[numbers + row])
        sums[number, at] += integers[a + row] + constant
        sums[number, second] += integers[b + row]
        sums[number, third] += integers[c + row]


@inner
def _add(integers: Any, numbers: Any, slots: Any, sums: Any, rows: Any) -> None:
    """Add rows to their groups. Slots without a second register come first."""
    count = len(slots)
    single = 0
    while single < count and slots[single, _SECOND] < 0:
        single += 1
    at = 0
    while at < count:
        after, place = min(at + 1, count - 1), np.uint64(at)
        a, b = place_of(slots[at, _FIRST]), place_of(slots[after, _FIRST])
        one, two = slots[at, _CONSTANT], slots[after, _CONSTANT]
        if at + 2 < single and two == 0 and slots[at + 2, _CONSTANT] == 0:
            c = place_of(slots[at + 2, _FIRST])
            _add_three(integers, numbers, a, b, c, one, sums, place, rows)
            at += 3
        elif at + 1 < single:
            _add_two(integers, numbers, a, b, one, two, sums, place, rows)
            at += 2
        elif at + 1 == single and at + 1 < count:
            c, up = place_of(slots[after, _SECOND]), slots[after, _UP]
            _add_one_and_joined(integers, numbers, a, b, c, up, one, two, sums, place, rows)
            at += 2
        elif at < single:
            _add_one(integers, numbers, a, one, sums, place, rows)
            at += 1
        else:
            b = place_of(slots[at, _SECOND])
            _add_joined(integers, numbers, a, b, slots[at, _UP], one, sums, place, rows)
            at += 1


@inner
def _add_all(integers: Any, zero: int, slots: Any, sums: Any, rows: Any) -> None:
    """Add rows to the one group there is: a run, in which nothing waits for a store."""
    for at in range(len(slots)):
        first, second = slots[at, _FIRST], slots[at, _SECOND]
        total = slots[at, _CONSTANT] * np.int64(rows)
        if first != zero:
            source = place_of(first)
            for row in range(rows):
                total += integers[source + row]
        if second >= 0:
            above = np.int64(0)
            source = place_of(second)
            for row in range(rows):
                above += integers[source + row]
            total += above << slots[at, _UP]
        sums[0, at] += total


@inner
def _drain(parts: Any, sums: Any, lane_bits: int, low: Any, high: Any) -> None:
    """Take the slots apart, add the halves of what is in them to the totals, and clear them."""
    for line in range(len(low) << lane_bits):
        group = line >> lane_bits
        for part in range(len(parts)):
            slot, width = parts[part, _SLOT], parts[part, _WIDTH]
            held = sums[line, slot]
            if held == 0:
                continue
            value = held
            if part + 1 < len(parts) and parts[part + 1, _SLOT] == slot:
                # A lower part may be negative and have borrowed from those above.
                value = (held << (_WORD - width)) >> (_WORD - width)
                sums[line, slot] = (held - value) >> width
            else:
                sums[line, slot] = 0
            low[group, part] += value & _HALF_MASK
            high[group, part] += value >> _HALF


# An extreme is written only where it changes, which is soon seldom: no row then waits for a store.


@inner
def _extreme(
    integers: Any, numbers: Any, values: Any, greatest: bool, best: Any, field: Any, rows: Any
) -> None:
    for row in range(rows):
        number, value = np.uint64(integers[numbers + row]), integers[values + row]
        if (value > best[field, number]) if greatest else (value < best[field, number]):
            best[field, number] = value


@inner
def _extreme_float(
    integers: Any,
    numbers: Any,
    floats: Any,
    values: Any,
    greatest: bool,
    best: Any,
    field: Any,
    rows: Any,
) -> None:
    for row in range(rows):
        number, value = np.uint64(integers[numbers + row]), floats[values + row]
        if (value > best[field, number]) if greatest else (value < best[field, number]):
            best[field, number] = value


@inner
def _note_last(
    integers: Any,
    numbers: Any,
    lane_bits: int,
    chosen: Any,
    packed: bool,
    row: int,
    rows: Any,
    last_row: Any,
) -> None:
    for place in range(rows):
        number = np.uint64(integers[numbers + place] >> lane_bits)
        last_row[number] = row + (chosen[place] if packed else np.int64(place))


@inner
def _note_first(
    integers: Any,
    numbers: Any,
    lane_bits: int,
    chosen: Any,
    packed: bool,
    row: int,
    rows: Any,
    first_row: Any,
) -> None:
    for place in range(rows):
        number = integers[numbers + place] >> lane_bits
        if number < len(first_row) and first_row[number] < 0:
            first_row[number] = row + (chosen[place] if packed else np.int64(place))


@inner
def _still_unseen(unseen: Any, count: int, sums: Any, lane_bits: int, slot: int) -> int:
    """Keep the groups of which no row has come yet; return how many."""
    left = 0
    for place in range(count):
        number = unseen[place]
        seen = False
        for line in range(number << lane_bits, (number + 1) << lane_bits):
            seen |= sums[line, slot] != 0
        unseen[left] = number
        left += not seen
    return left


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, group: i64, {FIELDS}, parts: i64[parts, 2], "
    "slots: i64[slots, 4], count_slot: i64, chunk_rows: i64, lane_bits: i64, "
    "sums: mut i64[lines, words], unseen: mut i64[unseen], first_row: mut i64[groups], "
    "last_row: mut i64[last_groups], low: mut i64[groups, parts], high: mut i64[groups, parts], "
    "best: mut i64[fields, lines], best_floats: mut f64[fields, lines] -> bool"
)
def add_groups(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    group: Any,
    kinds: Any, sources: Any, scales: Any, limbs: Any,
    parts: Any,
    slots: Any,
    count_slot: Any,
    chunk_rows: Any,
    lane_bits: Any,
    sums: Any,
    unseen: Any,
    first_row: Any,
    last_row: Any,
    low: Any,
    high: Any,
    best: Any,
    best_floats: Any,
) -> Any:  # fmt: skip
    """Add rows ``[start, stop)`` to the totals; return whether that failed.

    It does where bits of a float would be lost, and where a number is no group.

    ``low`` and ``high`` have a line a group, and in it the halves of each part. Until a chunk of
    rows is full, parts add up in ``sums``, several in one word; it has ``1 << lane_bits`` lines a
    group, in which rows add up in turn so that one need not wait for the other, and one line more
    for rows that do not count, each of at least as many words as there are ``slots``, all 0.
    ``best`` and ``best_floats`` have a line a field, for extremes, and in it as many places.
    ``unseen`` are the groups that have no first row. ``last_row`` has one group more, for rows that
    do not count, and is empty where nobody asks for it.
    """
    groups = len(first_row)
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    used = len(integers) // BLOCK_ROWS
    own, zero, selected = place_of(used + _LINES_REGISTER), used + ZERO_REGISTER, max(select, 0)
    # Where rows are not grouped, the number of the one group is 0.
    by = place_of(group if group >= 0 else zero)
    left = len(unseen)
    # What is only counted is never packed. Where rows are grouped, those that do not count may have
    # a line aside instead, which costs less where they are few.
    is_counted = len(kinds) + left + len(last_row) == 0
    added = 0
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        most = rows
        if group >= 0:
            most = rows >> 1
        elif is_counted:
            most = 0
        count, counting = run_selected(
            stored, program, (page, first, rows), registers, select, chosen, most
        )
        if count == 0:
            row += rows
            continue
        numbers, is_packed = by, count < rows
        if group >= 0 and not are_places(integers, by, np.uint64(count), groups):
            return True
        if lane_bits:
            _spread(integers, numbers, lane_bits, own, np.uint64(count))
            numbers = own
        if group < 0:
            count = counting
        elif counting < count:
            aside = groups << lane_bits
            _aside(truths, place_of(selected), integers, numbers, aside, own, np.uint64(rows))
            numbers = own
        if split_fixed_point(kinds, sources, scales, limbs, integers, floats, count):
            return True
        counted = np.uint64(count)
        if group < 0:
            _add_all(integers, zero, slots, sums, counted)
        else:
            _add(integers, numbers, slots, sums, counted)
        for field in range(len(kinds)):
            kind, source, line = kinds[field], place_of(sources[field]), np.uint64(field)
            if kind >= _LEAST_FLOAT:
                greatest = kind > _LEAST_FLOAT
                _extreme_float(
                    integers, numbers, floats, source, greatest, best_floats, line, counted
                )
            elif kind >= _LEAST:
                _extreme(integers, numbers, source, kind == _GREATEST, best, line, counted)
        if len(last_row):
            _note_last(integers, numbers, lane_bits, chosen, is_packed, row, counted, last_row)
        if left > count:
            _note_first(integers, numbers, lane_bits, chosen, is_packed, row, counted, first_row)
            left = _still_unseen(unseen, left, sums, lane_bits, count_slot)
        elif left:
            before = left
            left = _still_unseen(unseen, left, sums, lane_bits, count_slot)
            if left < before:
                _note_first(
                    integers, numbers, lane_bits, chosen, is_packed, row, counted, first_row
                )
        row += rows
        added += counting
        if added + BLOCK_ROWS > chunk_rows:
            _drain(parts, sums, lane_bits, low, high)
            added = 0
    _drain(parts, sums, lane_bits, low, high)
    return False

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
from tessel.kernels.slots import add_rows, add_run

ZERO_REGISTER = -3
"""The register of integers, counted from the end, that nothing writes to: it stays 0."""

_LINES_REGISTER = -2

_WIDE, _FLOAT, _LEAST, _GREATEST, _LEAST_FLOAT = 1, 2, 3, 4, 5
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_WORD = 64
# Columns of the table of parts.
_SLOT, _WIDTH = 0, 1


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
        # No branch, which would be taken at random.
        counts = np.int64(0) - np.int64(truths[select + row])
        integers[out + row] = aside + ((integers[numbers + row] - aside) & counts)


@inner
def _extreme_of_all(held: Any, start: Any, stop: Any, best: Any, greatest: bool) -> Any:
    """Return the least or the greatest of ``best`` and of the values in ``[start, stop)``."""
    if greatest:
        for place in range(start, stop):
            value = held[place]
            best = value if value > best else best
    else:
        for place in range(start, stop):
            value = held[place]
            best = value if value < best else best
    return best


@inner
def _end_of_run(end: int, chosen: Any, packed: bool, at: int, count: int) -> int:
    """Return the place behind the last of some rows, from ``at`` on, that is before row ``end``."""
    if not packed:
        return min(count, end)
    while at < count and chosen[at] < end:
        at += 1
    return at


@inner
def _shift_numbers(integers: Any, numbers: Any, by: int, out: Any, start: Any, stop: Any) -> None:
    """Write the numbers of groups inside of a run as those among the groups of all runs."""
    for place in range(start, stop):
        integers[out + place] = integers[numbers + place] + by


@inner
def _drain(
    parts: Any, sums: Any, lane_bits: int, begin: Any, end: Any, low: Any, high: Any
) -> None:
    """Take slots of some groups apart, add the halves in them to the totals, and clear them."""
    for line in range(begin << lane_bits, end << lane_bits):
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
            low[part, group] += value & _HALF_MASK
            high[part, group] += value >> _HALF


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
) -> int:
    """Write the first row of groups that have none; return how many these were."""
    seen = 0
    for place in range(rows):
        number = integers[numbers + place] >> lane_bits
        if number < len(first_row) and first_row[number] < 0:
            first_row[number] = row + (chosen[place] if packed else np.int64(place))
            seen += 1
    return seen


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


@inner
def _without_first(unseen: Any, first_row: Any) -> int:
    """Keep the groups that have no first row; return how many."""
    left = 0
    for place in range(len(unseen)):
        number = unseen[place]
        unseen[left] = number
        left += first_row[number] < 0
    return left


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, group: i64, codes: i64[codes], "
    f"ends: i64[runs], run: i64, {FIELDS}, parts: i64[parts, 2], slots: i64[slots, 4], "
    "count_slot: i64, chunk_rows: i64, lane_bits: i64, sums: mut i64[lines, words], "
    "unseen: mut i64[unseen], first_row: mut i64[groups], last_row: mut i64[last_groups], "
    "low: mut i64[parts, groups], high: mut i64[parts, groups], best: mut i64[fields, bests], "
    "best_floats: mut f64[fields, floats] -> i64"
)
def add_groups(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    group: Any,
    codes: Any,
    ends: Any,
    run: Any,
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
    """Add rows ``[start, stop)`` to the totals; return how many counted, −1 where that failed.

    It does where bits of a float would be lost, and where a number is no group.

    The number of a row's group is in the register ``group``, or, of the rows that count, in
    ``codes``; without either there is one group. Runs of rows, of which ``run`` is the first, have
    groups of their own, so many each, and ``ends`` says where each run ends.

    ``low`` and ``high`` have a line a part, and in it a half of each group. Until a chunk of
    rows is full, parts add up in ``sums``, several in one word; it has ``1 << lane_bits`` lines a
    group, in which rows add up in turn so that one need not wait for the other, and one line more
    for rows that do not count, each of at least as many words as there are ``slots``, all 0.
    ``best`` and ``best_floats`` have a line a field, for extremes, and in it as many places.
    ``unseen`` are the groups that have no first row; of runs and codes it only says that first rows
    are asked for. ``last_row`` has one group more, for rows that do not count, and is empty where
    nobody asks for it.
    """
    groups, runs, is_coded = len(first_row), len(ends), len(codes) > 0
    is_keyed, width = group >= 0 or is_coded, groups // max(runs, 1)
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    used = len(integers) // BLOCK_ROWS
    own, zero, selected = place_of(used + _LINES_REGISTER), used + ZERO_REGISTER, max(select, 0)
    left = len(unseen)
    looks, asks = left > 0 and is_keyed and runs == 0 and not is_coded, left > 0
    # What is only counted is never packed. Where rows are grouped, those that do not count may have
    # a line aside instead, which costs less where they are few.
    is_counted = len(kinds) + left + len(last_row) + runs == 0
    added, counted_rows, undrained = 0, 0, run
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        most = rows
        if group >= 0:
            most = rows >> 1
        elif is_counted and not is_coded:
            most = 0
        count, counting = run_selected(
            stored, program, (page, first, rows), registers, select, chosen, most
        )
        if count == 0:
            row += rows
            continue
        is_packed, numbers = count < rows, place_of(max(group, 0))
        if is_coded:
            numbers = own
            for place in range(count):
                integers[own + np.uint64(place)] = codes[np.uint64(counted_rows + place)]
        if is_keyed and not are_places(integers, numbers, np.uint64(count), width):
            return -1
        if not is_keyed:
            count = counting
        counted = np.uint64(count)
        if split_fixed_point(kinds, sources, scales, limbs, integers, floats, count):
            return -1
        at = 0
        while at < count and (runs > 0 or not is_keyed):
            until = count
            if runs > 0:
                place = chosen[at] if is_packed else at
                while run + 1 < runs and ends[run] <= row + place:
                    run += 1
                until = _end_of_run(ends[run] - row, chosen, is_packed, at, count)
            begin, end, line = np.uint64(at), np.uint64(until), np.uint64(run)
            at = until
            if is_keyed:
                _shift_numbers(integers, numbers, run * width, own, begin, end)
                continue
            if asks and first_row[line] < 0:
                first_row[line] = row + (chosen[begin] if is_packed else np.int64(begin))
            if len(last_row):
                last_row[line] = row + (chosen[until - 1] if is_packed else np.int64(until - 1))
            add_run(integers, zero, slots, sums, line, begin, end)
            for field in range(len(kinds)):
                kind, source, which = kinds[field], place_of(sources[field, 0]), np.uint64(field)
                if kind >= _LEAST_FLOAT:
                    best_floats[which, line] = _extreme_of_all(
                        floats, source + begin, source + end, best_floats[which, line],
                        kind > _LEAST_FLOAT,
                    )  # fmt: skip
                elif kind >= _LEAST:
                    best[which, line] = _extreme_of_all(
                        integers, source + begin, source + end, best[which, line], kind == _GREATEST
                    )
        if is_keyed:
            if runs > 0:
                numbers = own
            if lane_bits:
                _spread(integers, numbers, lane_bits, own, counted)
                numbers = own
            if counting < count:
                aside = groups << lane_bits
                _aside(truths, place_of(selected), integers, numbers, aside, own, np.uint64(rows))
                numbers = own
            add_rows(integers, numbers, slots, sums, counted)
            for field in range(len(kinds)):
                kind, source, line = kinds[field], place_of(sources[field, 0]), np.uint64(field)
                if kind >= _LEAST_FLOAT:
                    greatest = kind > _LEAST_FLOAT
                    _extreme_float(
                        integers, numbers, floats, source, greatest, best_floats, line, counted
                    )
                elif kind >= _LEAST:
                    _extreme(integers, numbers, source, kind == _GREATEST, best, line, counted)
            if len(last_row):
                _note_last(integers, numbers, lane_bits, chosen, is_packed, row, counted, last_row)
            # Of few groups that nobody has seen, it is asked whether a row has come: of all of them
            # once a block, where a block has more rows, and before that of each row.
            is_few, before = looks and left <= count, left
            if is_few:
                left = _still_unseen(unseen, left, sums, lane_bits, count_slot)
            if asks and (left < before or not is_few):
                seen = _note_first(
                    integers, numbers, lane_bits, chosen, is_packed, row, counted, first_row
                )
                if looks and not is_few:
                    left -= seen
                    if left <= count:
                        left = _without_first(unseen, first_row)
        row += rows
        added += counting
        counted_rows += counting
        if added + BLOCK_ROWS > chunk_rows:
            _drain(parts, sums, lane_bits, undrained * width, (run + 1) * width, low, high)
            added, undrained = 0, run
    _drain(parts, sums, lane_bits, undrained * width, (run + 1) * width, low, high)
    return counted_rows

"""Rows added to lines of sums, slot by slot: words of a line that hold one sum each, or several.

A slot takes a register and a constant, or two registers, the second one shifted, and a constant:
what shares a word is joined on its way, since a register between costs as much as an addition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_loop import place_of
from tessel.kernels.declare import inner

# Columns of the table of slots.
_FIRST, _SECOND, _UP, _CONSTANT = 0, 1, 2, 3


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
    a_constant: int,
    b_constant: int,
    c_constant: int,
    sums: Any,
    at: Any,
    rows: Any,
) -> None:
    second, third = at + np.uint64(1), at + np.uint64(2)
    for row in range(rows):
        number = np.uint64(integers[numbers + row])
        sums[number, at] += integers[a + row] + a_constant
        sums[number, second] += integers[b + row] + b_constant
        sums[number, third] += integers[c + row] + c_constant


@inner
def add_rows(integers: Any, numbers: Any, slots: Any, sums: Any, rows: Any) -> None:
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
        if at + 2 < single:
            c, three = place_of(slots[at + 2, _FIRST]), slots[at + 2, _CONSTANT]
            _add_three(integers, numbers, a, b, c, one, two, three, sums, place, rows)
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
def add_run(
    integers: Any, zero: int, slots: Any, sums: Any, line: Any, start: Any, stop: Any
) -> None:
    """Add rows that follow one another to one group: nothing waits for a store."""
    for at in range(len(slots)):
        first, second = slots[at, _FIRST], slots[at, _SECOND]
        total = slots[at, _CONSTANT] * np.int64(stop - start)
        if first != zero:
            source = place_of(first)
            for row in range(start, stop):
                total += integers[source + row]
        if second >= 0:
            above = np.int64(0)
            source = place_of(second)
            for row in range(start, stop):
                above += integers[source + row]
            total += above << slots[at, _UP]
        sums[line, at] += total

"""Runs a program on one block of rows of stored columns: what kernels on blocks are made of.

All registers of a kind are one flat array, and a register is where it begins in it: taking a slice
of an array costs some forty nanoseconds, as much as a step on a hundred rows. Places are unsigned,
so that the compiler need not ask whether they count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_floats import (
    float_residuals,
    float_step,
    product_errors,
    residuals,
    unary_float,
)
from tessel.kernels.block_gaps import equal_texts, patch_exceptions, present_rows
from tessel.kernels.block_integers import column_range, gather_integers, load_integers
from tessel.kernels.declare import inner
from tessel.kernels.intrinsics import reinterpret
from tessel.kernels.program import BLOCK_ROWS, FLOAT, STEP_KINDS, TRUTH
from tessel.kernels.word_numbers import are_words, numbers_of_words

COLUMNS = (
    "data: u8[bytes], facts: i64[6, columns, pages], gaps: i64[6, gapped, gap_pages], shift: i64"
)
"""Declares what kernels take of a segment: ``StoredBlocks.columns``."""

BLOCKS = f"{COLUMNS}, start: i64, stop: i64"
"""Declares what kernels take of rows: ``StoredBlocks.arguments``."""

PROGRAM = (
    "steps: i64[steps, 5], ranges: i64[ranges, range_pages, 2], constants: f64[constants], "
    "tables: u8[tables]"
)
"""Declares what kernels take of a program: ``Program.arguments``."""

REGISTERS = (
    "integers: mut i64[integer_places], floats: mut f64[float_places], truths: mut u8[truth_places]"
)
"""Declares the registers of a block: ``Program.registers``."""

SELECTED = "select: i64, chosen: mut i64[chosen]"
"""Declares the register of the rows that count, and scratch for them: ``Program.selected``."""

# Compiled code knows constants of its own module only; these are those of ``Op``.
_LOAD, _DECIMAL, _FLOAT, _CONSTANT, _INTEGER = 0, 1, 2, 3, 4
_MULTIPLY = 7
_INTEGER_ADD, _INTEGER_SUBTRACT, _INTEGER_MULTIPLY = 8, 9, 10
_RANGE, _LESS, _LESS_EQUAL, _EQUAL, _TABLE = 11, 12, 13, 14, 15
_AND, _OR, _XOR, _NOT, _COMBINE = 16, 17, 18, 19, 20
_COLUMN_RANGE, _RESIDUAL, _PRODUCT_ERROR = 21, 22, 23
_PRESENT, _NUMBER, _ROW, _CHOOSE, _CHOOSE_FLOAT, _CHOOSE_OTHER = 24, 25, 26, 27, 28, 29
_CHOOSE_OTHER_FLOAT = 30
_FLOAT_RESIDUAL, _LOOKUP, _LOOKUP_FLOAT, _MEMBER, _DIVIDE = 31, 32, 33, 34, 35
_INTEGER_LESS, _TEXT_EQUAL, _NUMBER_OF, _SHIFT = 36, 39, 40, 41

_EXPONENT, _EXCEPTIONS, _SINGLE_SCALED = 5, 1, 32
_STEPS_OF_RANGE, _SPARSE = 2, 32


@inner
def place_of(register: int) -> Any:
    """Return where a register begins."""
    return np.uint64(register) * np.uint64(BLOCK_ROWS)


@inner
def are_places(integers: Any, at: Any, rows: Any, count: int) -> bool:
    """Return whether integers are places in ``count``.

    Page tables say so already; but whoever wrote the file wrote those, too.
    """
    least, most = np.int64(0), np.int64(0)
    for row in range(rows):
        least = min(least, integers[at + row])
        most = max(most, integers[at + row])
    return bool(least >= 0 and most < count)


@inner
def _integer_step(
    op: int, integers: Any, left: Any, right: Any, factor: int, out: Any, rows: Any
) -> None:
    if op == _INTEGER_ADD:
        for row in range(rows):
            integers[out + row] = integers[left + row] + integers[right + row]
    elif op == _INTEGER_SUBTRACT:
        for row in range(rows):
            integers[out + row] = integers[left + row] - integers[right + row]
    elif op == _INTEGER_MULTIPLY:
        for row in range(rows):
            integers[out + row] = integers[left + row] * integers[right + row]
    else:
        for row in range(rows):
            integers[out + row] = integers[left + row] * factor + integers[right + row]


@inner
def _comparison_step(
    op: int, held: Any, left: Any, right: Any, truths: Any, out: Any, rows: Any
) -> None:
    if op == _LESS:
        for row in range(rows):
            truths[out + row] = held[left + row] < held[right + row]
    elif op == _LESS_EQUAL:
        for row in range(rows):
            truths[out + row] = held[left + row] <= held[right + row]
    else:
        for row in range(rows):
            truths[out + row] = held[left + row] == held[right + row]


@inner
def _truth_step(op: int, truths: Any, left: Any, right: Any, out: Any, rows: Any) -> None:
    if op == _AND:
        for row in range(rows):
            truths[out + row] = truths[left + row] & truths[right + row]
    elif op == _OR:
        for row in range(rows):
            truths[out + row] = truths[left + row] | truths[right + row]
    elif op == _XOR:
        for row in range(rows):
            truths[out + row] = truths[left + row] ^ truths[right + row]
    else:
        for row in range(rows):
            truths[out + row] = 1 - truths[left + row]


@inner
def _choose(truths: Any, chosen: Any, held: Any, one: Any, other: Any, out: Any, rows: Any) -> None:
    """Write one value where a truth is true, else the other."""
    for row in range(rows):
        held[out + row] = held[one + row] if truths[chosen + row] else held[other + row]


@inner
def _choose_fixed(
    truths: Any, chosen: Any, held: Any, one: Any, other: Any, out: Any, rows: Any
) -> None:
    """Write a value where a truth is true, else always the same."""
    for row in range(rows):
        held[out + row] = held[one + row] if truths[chosen + row] else other


# What functions here take: ``stored`` is (data, its words, facts, gaps, shift), ``program`` (steps,
# ranges, constants, tables), ``block`` (page, first row in it, rows: at most BLOCK_ROWS) and
# ``registers`` (integers, floats, truths), of which the last of integers is for what is between.


@inner
def run_steps(stored: Any, program: Any, block: Any, registers: Any) -> None:
    """Run all steps on the rows of a block."""
    everything = registers[0], False, block[2]  # nothing is packed: the list is not looked at
    _run(stored, program, 0, len(program[0]), block, everything, registers)


@inner
def run_selected(
    stored: Any, program: Any, block: Any, registers: Any, select: int, chosen: Any, most: int
) -> Any:
    """Run all steps on the rows of a block that count; return how many these are.

    What says which rows count is computed first, of several conjuncts the one that was written
    first. Where a conjunct leaves few rows, these are *packed*: the steps behind it run on them
    alone, registers hold them one behind the other, and ``chosen`` says where in the block each
    was. Few are at most ``most``. Otherwise registers hold all rows, and the register ``select``
    says which of them count; all do where it is negative.

    Returns
    -------
    held : int
        How many rows registers hold: fewer than the block has where they are packed.
    left : int
        How many of them count.
    """
    steps, count, truths = program[0], block[2], registers[2]
    scratch = np.uint64(len(registers[0]) - BLOCK_ROWS)
    begin, held, left, packed, end = 0, count, count, False, 0
    stop = len(steps)
    if select >= 0:
        end = _end_of_truth(steps, select)
        stop = _end_of_first(steps, end)
    while True:
        _run(stored, program, begin, stop, block, (chosen, packed, held), registers)
        if select < 0 or stop > end:
            return held, left
        at = place_of(steps[stop - 1, 1])
        left = _how_many(truths, at, np.uint64(held))
        if left == 0:
            return left, left
        if left < held and left <= most:
            _choose_rows(truths, at, np.uint64(held), registers[0], scratch, left)
            _pack_steps(steps, stop, scratch, np.uint64(left), registers)
            _note_chosen(registers[0], scratch, np.uint64(left), packed, chosen)
            held, packed = left, True
        if stop == len(steps):
            return held, left
        begin, stop = stop, end if stop < end else len(steps)


@inner
def _end_of_truth(steps: Any, truth: int) -> Any:
    """Return how many steps there are up to the one that writes a truth register."""
    for number in range(len(steps)):
        if steps[number, 1] == truth and STEP_KINDS[steps[number, 0]] == TRUTH:
            return number + 1
    return len(steps)


@inner
def _end_of_first(steps: Any, end: int) -> Any:
    """Return how many steps there are up to the first conjunct: all before cheap comparisons."""
    if steps[end - 1, 0] != _AND:
        return end
    first = _end_of_truth(steps, steps[end - 1, 2])
    is_stored = steps[first, 0] == _TABLE or steps[first, 0] == _COLUMN_RANGE
    return first if is_stored or end - first > _STEPS_OF_RANGE else end


@inner
def _how_many(truths: Any, at: Any, rows: Any) -> Any:
    count = np.int64(0)
    for row in range(rows):
        count += np.int64(truths[at + row])
    return count


@inner
def _choose_rows(truths: Any, at: Any, rows: Any, integers: Any, out: Any, left: int) -> None:
    """Write where a truth is true, as it is in ``left`` rows: of few, eight are mostly none."""
    count, start, eights, first = out, rows, reinterpret(truths, np.uint64), at >> np.uint64(3)
    if left * _SPARSE < rows:
        for eight in range(rows >> np.uint64(3)):
            if eights[first + eight] != 0:
                for row in range(eight << np.uint64(3), (eight + np.uint64(1)) << np.uint64(3)):
                    integers[count] = row
                    count += np.uint64(truths[at + row])
        start = rows & np.uint64(7)
    for row in range(rows - start, rows):
        integers[count] = row
        count += np.uint64(truths[at + row])


@inner
def _note_chosen(integers: Any, at: Any, count: Any, packed: Any, chosen: Any) -> None:
    """Write which rows of the block are left, from where they were among those left before."""
    for place in range(count):
        row = integers[at + place]
        chosen[place] = chosen[np.uint64(row)] if packed else row


@inner
def _pack(held: Any, at: Any, integers: Any, places: Any, count: Any) -> None:
    """Move rows to the front; they ascend, so that none is written over before it has moved."""
    for place in range(count):
        held[at + place] = held[at + np.uint64(integers[places + place])]


@inner
def _pack_steps(steps: Any, end: int, places: Any, count: Any, registers: Any) -> None:
    """Move the rows that count to the front of all registers that steps have written."""
    integers, floats, truths = registers
    for number in range(end):
        kind, at = STEP_KINDS[steps[number, 0]], place_of(steps[number, 1])
        if kind == TRUTH:
            _pack(truths, at, integers, places, count)
        elif kind == FLOAT:
            _pack(floats, at, integers, places, count)
        else:
            _pack(integers, at, integers, places, count)


@inner
def _run(
    stored: Any, program: Any, begin: int, end: int, block: Any, some: Any, registers: Any
) -> None:
    """Run steps ``[begin, end)`` on the rows of a block, or on some of them.

    ``some`` is (chosen, packed, held): where rows are packed, registers hold so many of them, and
    ``chosen`` says which.
    """
    data, words, facts, gaps, shift = stored
    steps, ranges, constants, tables = program
    page, first, count = block
    chosen, packed, held = some
    integers, floats, truths = registers
    rows, whole = np.uint64(held), np.uint64(count)
    scratch = np.uint64(max(len(integers) - BLOCK_ROWS, 0))
    for number in range(begin, end):
        op, out = steps[number, 0], place_of(steps[number, 1])
        a, b, c = steps[number, 2], steps[number, 3], steps[number, 4]
        # Not all of them are registers: then these are places that nobody looks at.
        one, two = place_of(a), place_of(b)
        if op == _LOAD and packed:
            gather_integers(data, words, facts, a, page, first, chosen, integers, out, rows)
        elif op == _LOAD:
            load_integers(data, words, facts, a, page, first, integers, out, rows)
        elif op == _DECIMAL:
            exponent = facts[_EXPONENT, b, page]
            unary_float(op, integers, one, exponent, floats, out, rows)
            if gaps.shape[1] > 0 and gaps[_EXCEPTIONS, b, page] > 0:
                single = exponent >= _SINGLE_SCALED
                patch_exceptions(
                    words, gaps, b, page, first, single, chosen, packed, floats, out, rows
                )
        elif op == _FLOAT:
            unary_float(op, integers, one, 0, floats, out, rows)
        elif op == _CONSTANT:
            constant = constants[a]
            for row in range(rows):
                floats[out + row] = constant
        elif op == _INTEGER:
            for row in range(rows):
                integers[out + row] = c
        elif op <= _MULTIPLY or op == _DIVIDE:
            float_step(op, floats, one, two, out, rows)
        elif op <= _INTEGER_MULTIPLY or op == _COMBINE:
            _integer_step(op, integers, one, two, c, out, rows)
        elif op == _RANGE or (op == _COLUMN_RANGE and packed):
            if op == _COLUMN_RANGE:
                gather_integers(data, words, facts, a, page, first, chosen, integers, scratch, rows)
                one = scratch
            low, high = ranges[c, page, 0], ranges[c, page, 1]
            for row in range(rows):
                value = integers[one + row]
                truths[out + row] = (value >= low) & (value <= high)
        elif op == _COLUMN_RANGE:
            column_range(
                data, words, facts, a, page, first, ranges[c, page, 0], ranges[c, page, 1],
                integers, scratch, truths, out, whole,
            )  # fmt: skip
        elif op <= _EQUAL:
            _comparison_step(op, floats, one, two, truths, out, rows)
        elif op == _TABLE:
            last = np.uint64(8 * len(tables) - 1)
            for row in range(rows):
                bit = min(np.uint64(c + integers[one + row]), last)
                octet = np.uint64(tables[bit >> np.uint64(3)])
                truths[out + row] = (octet >> (bit & np.uint64(7))) & np.uint64(1)
        elif op <= _NOT:
            _truth_step(op, truths, one, two, out, rows)
        elif op == _RESIDUAL:
            residuals(integers, one, facts[_EXPONENT, b, page], c, out, rows)
        elif op == _PRODUCT_ERROR:
            product_errors(floats, one, two, place_of(c), out, rows)
        elif op == _PRESENT:
            present_rows(
                data, words, facts, gaps, a, page, first, b == 1,
                integers, scratch, truths, out, whole,
            )  # fmt: skip
            if packed:
                _pack(truths, out, chosen, np.uint64(0), rows)
        elif op == _TEXT_EQUAL:
            equal_texts(data, words, facts, gaps, a, page, first, tables, c, b, truths, out, whole)
            if packed:
                _pack(truths, out, chosen, np.uint64(0), rows)
        elif op == _NUMBER:
            for row in range(rows):
                integers[out + row] = np.int64(truths[one + row])
        elif op == _ROW:
            start = (page << shift) + first
            for row in range(rows):
                integers[out + row] = start + (chosen[row] if packed else np.int64(row))
        elif op == _CHOOSE:
            _choose_fixed(truths, two, integers, one, c, out, rows)
        elif op == _CHOOSE_FLOAT:
            _choose_fixed(truths, two, floats, one, constants[c], out, rows)
        elif op == _CHOOSE_OTHER:
            _choose(truths, two, integers, one, place_of(c), out, rows)
        elif op == _CHOOSE_OTHER_FLOAT:
            _choose(truths, two, floats, one, place_of(c), out, rows)
        elif op == _LOOKUP:
            numbers = reinterpret(constants, np.int64)
            last = np.uint64(len(numbers) - 1)  # forged codes are places of nothing
            for row in range(rows):
                integers[out + row] = numbers[min(np.uint64(c + integers[one + row]), last)]
        elif op == _LOOKUP_FLOAT:
            last = np.uint64(len(constants) - 1)
            for row in range(rows):
                floats[out + row] = constants[min(np.uint64(c + integers[one + row]), last)]
        elif op == _MEMBER:
            are_words(reinterpret(constants, np.int64), c, b, integers, one, truths, out, rows)
        elif op == _NUMBER_OF:
            cells = reinterpret(constants, np.int64)
            numbers_of_words(cells, c, b, integers, one, integers, out, rows)
        elif op == _SHIFT:
            for row in range(rows):
                integers[out + row] = ((integers[one + row] >> (c - 1)) + 1) >> 1
        elif op == _FLOAT_RESIDUAL:
            float_residuals(floats, one, integers, two, c, out, rows)
        else:
            compared = op - _INTEGER_LESS + _LESS
            _comparison_step(compared, integers, one, two, truths, out, rows)

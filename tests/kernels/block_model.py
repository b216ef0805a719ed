"""What a program computes of stored rows: in numpy and fractions, all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import ALL_PRESENT, Gap, StoredBlocks, floats_of
from tessel.kernels.program import RESIDUAL_SHIFT, Op, Program

__all__ = ["Registers", "run_blocks", "stored_integers"]

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

_SINGLE_SCALED = 32
_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = range(6)


@dataclass
class Registers:
    """The registers of all rows, by number."""

    integers: dict[int, Integers]
    floats: dict[int, Doubles]
    truths: dict[int, NDArray[np.bool_]]


def run_blocks(blocks: StoredBlocks, program: Program) -> Registers:
    """Run a program on all rows."""
    held = Registers({}, {}, {})
    # Where values are missing, what stands in their place may be anything.
    with np.errstate(all="ignore"):
        for op, target, a, b, c in program.steps.tolist():
            kind, run = _STEPS[op]
            getattr(held, kind)[target] = run(blocks, program, held, a, b, c)
    return held


def stored_integers(blocks: StoredBlocks, column: int) -> Integers:
    """Return the integers of a column."""
    _, inside, start, width, mask, base, step, _ = _facts(blocks, column)
    if (width > 64).all():
        return _struct_fields(blocks, column)
    data = np.concatenate([blocks.data, np.zeros(8, np.uint8)])
    bits = inside * width
    words = data[(start + (bits >> 3))[:, None] + np.arange(8)].view("<u8")[:, 0]
    words = (words >> (bits & 7).astype(np.uint64)) & mask.view(np.uint64)
    found: Integers = np.where(width, words, np.uint64(0)).view(np.int64) + base + step * inside
    return found


def _struct_fields(blocks: StoredBlocks, column: int) -> Integers:
    """Return a field of structs: what its mask leaves of a word, with or without a sign."""
    start, width, mask, base, _, _ = blocks.facts[:, column, 0].tolist()
    mask &= (1 << 64) - 1
    found = []
    for row in range(blocks.start, blocks.stop):
        at = start + row * (width >> 3)
        word = int.from_bytes(blocks.data[at : at + 8].tobytes(), "little") & mask
        number = word // (mask & -mask) if mask else 0
        found.append(number - (1 << 64) * (number >> 63) if base == 0 else (number ^ -base) + base)
    return np.array(found, np.int64)


def _facts(blocks: StoredBlocks, column: int) -> list[Integers]:
    """Return for each row its page, its place in it, and what is known of the page."""
    rows = np.arange(blocks.start, blocks.stop)
    pages = rows >> blocks.shift
    return [pages, rows & ((1 << blocks.shift) - 1), *blocks.facts[:, column, pages]]


def _decimals(blocks: StoredBlocks, integers: Integers, column: int) -> Doubles:
    """Return what the integers of a column stand for, or the exceptions where there are some."""
    exponents, found = _facts(blocks, column)[-1], np.empty(len(blocks))
    for exponent in np.unique(exponents).tolist():
        found[exponents == exponent] = floats_of(integers, exponent)[exponents == exponent]
    for page in range(0 if blocks.gaps is None else blocks.gaps.shape[2]):
        assert blocks.gaps is not None
        _, count, start, width, values, _ = blocks.gaps[:, column, page].tolist()
        if not count:
            continue
        rows = blocks.data[start : start + count * width // 8].view(f"<u{width // 8}")
        places = rows.astype(np.int64) + (page << blocks.shift) - blocks.start
        size = 4 if blocks.facts[_EXPONENT, column, page] >= _SINGLE_SCALED else 8
        held = blocks.data[values : values + size * count].view(f"<f{size}")
        inside = (places >= 0) & (places < len(found))
        found[places[inside]] = held[inside]
    return found


def _present(blocks: StoredBlocks, column: int, nans: bool) -> NDArray[np.bool_]:
    """Return in which rows a column has a value: neither null nor, maybe, NaN."""
    if blocks.gaps is None:
        return np.ones(len(blocks), np.bool_)
    pages, inside, *_ = _facts(blocks, column)
    start = blocks.gaps[Gap.VALIDITY, column, pages]
    if (width := blocks.facts[_WIDTH, column, pages]).max() > 64:
        found = blocks.data[(start >> 3) + inside * (width >> 3)] >> (start & 7) & 1 == 0
    else:
        bits = blocks.data[np.maximum(start, 0) + (inside >> 3)] >> (inside & 7) & 1
        found = np.where(start < 0, start == ALL_PRESENT, bits == 1)
    if nans:
        return found
    values = _decimals(blocks, stored_integers(blocks, column), column)
    return found & ~(np.isnan(values) & (blocks.gaps[Gap.NANS, column, pages] == 1))


def _text_equal(blocks: StoredBlocks, column: int, text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return in which structs a text is this one; those outside of their heap are none."""
    assert blocks.gaps is not None
    begin, end = blocks.gaps[[Gap.VALUES, Gap.PLACES], column, 0].tolist()
    heap, found = blocks.data[begin:end].tobytes(), []
    for pair in stored_integers(blocks, column).view(np.uint64).tolist():
        start, size = pair & 0xFFFFFFFF, pair >> 32
        inside = size == 0 or start + size <= len(heap)
        found.append(inside and size == len(text) and heap[start : start + size] == text.tobytes())
    return np.array(found, np.bool_)


def _looked_up(entries: NDArray[Any], at: int, codes: Integers) -> NDArray[Any]:
    """Return entries by code; for codes that are forged, and places of nothing, the last."""
    places = codes + at
    return entries[np.where((places < 0) | (places >= len(entries)), len(entries) - 1, places)]


def _bits(tables: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.unpackbits(tables, bitorder="little").astype(np.bool_)


def _numbers(program: Program, integers: Integers, bits: int, at: int) -> Integers:
    """Return the numbers of integers in a table of words and numbers; −1 where they are not."""
    slots = program.constants.view(np.int64)[at : at + (2 << bits)].reshape(-1, 2)
    held = {int(word): int(number) for word, number in slots if number >= 0}
    return np.array([held.get(each, -1) for each in integers.tolist()], np.int64)


def _in_range(
    blocks: StoredBlocks, program: Program, integers: Integers, number: int
) -> NDArray[np.bool_]:
    low, high = program.ranges[number, np.arange(blocks.start, blocks.stop) >> blocks.shift].T
    return (integers >= low) & (integers <= high)


def _residuals(quotients: Doubles, places: Integers, whole: Integers, up: int) -> Integers:
    """Return what quotients times a power of ten are off from whole numbers, times ``2**up``."""
    rows = zip(quotients.tolist(), places.tolist(), whole.tolist(), strict=True)
    exact = [round((Fraction(q) * 10**p - w) * 2**up) for q, p, w in rows]
    return np.array(exact, np.int64)


def _residual(
    blocks: StoredBlocks, _: Program, held: Registers, a: int, b: int, c: int
) -> Integers:
    places = _facts(blocks, b)[-1]
    quotients = held.integers[a] / np.array([float(10**each) for each in places.tolist()])
    return _residuals(quotients, places, held.integers[a], c)


def _float_residual(
    _: StoredBlocks, __: Program, held: Registers, a: int, b: int, c: int
) -> Integers:
    places = np.full(len(held.floats[a]), c >> RESIDUAL_SHIFT)
    return _residuals(held.floats[a], places, held.integers[b], c & ((1 << RESIDUAL_SHIFT) - 1))


def _product_error(
    _: StoredBlocks, __: Program, held: Registers, a: int, b: int, c: int
) -> Doubles:
    rows = zip(*(held.floats[each].tolist() for each in (a, b, c)), strict=True)
    return np.array([float(Fraction(x) * Fraction(y) - Fraction(z)) for x, y, z in rows])


def _of_two(kind: str, function: Callable[[Any, Any], Any], target: str = "") -> Any:
    def run(_: StoredBlocks, __: Program, held: Registers, a: int, b: int, c: int) -> Any:
        registers = getattr(held, kind)
        return function(registers[a], registers[b])

    return target or kind, run


_STEPS: dict[int, tuple[str, Callable[..., Any]]] = {
    Op.LOAD: ("integers", lambda s, p, r, a, b, c: stored_integers(s, a)),
    Op.DECIMAL: ("floats", lambda s, p, r, a, b, c: _decimals(s, r.integers[a], b)),
    Op.FLOAT: ("floats", lambda s, p, r, a, b, c: r.integers[a].astype(np.float64)),
    Op.CONSTANT: ("floats", lambda s, p, r, a, b, c: np.full(len(s), p.constants[a])),
    Op.INTEGER: ("integers", lambda s, p, r, a, b, c: np.full(len(s), c)),
    Op.ADD: _of_two("floats", np.add),
    Op.SUBTRACT: _of_two("floats", np.subtract),
    Op.MULTIPLY: _of_two("floats", np.multiply),
    Op.DIVIDE: _of_two("floats", np.divide),
    Op.INTEGER_ADD: _of_two("integers", np.add),
    Op.INTEGER_SUBTRACT: _of_two("integers", np.subtract),
    Op.INTEGER_MULTIPLY: _of_two("integers", np.multiply),
    Op.RANGE: ("truths", lambda s, p, r, a, b, c: _in_range(s, p, r.integers[a], c)),
    Op.LESS: _of_two("floats", np.less, "truths"),
    Op.LESS_EQUAL: _of_two("floats", np.less_equal, "truths"),
    Op.EQUAL: _of_two("floats", np.equal, "truths"),
    Op.INTEGER_LESS: _of_two("integers", np.less, "truths"),
    Op.INTEGER_LESS_EQUAL: _of_two("integers", np.less_equal, "truths"),
    Op.INTEGER_EQUAL: _of_two("integers", np.equal, "truths"),
    Op.TEXT_EQUAL: ("truths", lambda s, p, r, a, b, c: _text_equal(s, a, p.tables[c : c + b])),
    Op.TABLE: (
        "truths",
        lambda s, p, r, a, b, c: _looked_up(_bits(p.tables), c, r.integers[a]),
    ),
    Op.AND: _of_two("truths", np.logical_and),
    Op.OR: _of_two("truths", np.logical_or),
    Op.XOR: _of_two("truths", np.logical_xor),
    Op.NOT: ("truths", lambda s, p, r, a, b, c: ~r.truths[a]),
    Op.COMBINE: ("integers", lambda s, p, r, a, b, c: r.integers[a] * c + r.integers[b]),
    Op.COLUMN_RANGE: (
        "truths",
        lambda s, p, r, a, b, c: _in_range(s, p, stored_integers(s, a), c),
    ),
    Op.RESIDUAL: ("integers", _residual),
    Op.SHIFT: (
        "integers",
        lambda s, p, r, a, b, c: (r.integers[a] >> c) + (r.integers[a] >> c - 1 & 1),
    ),
    Op.PRODUCT_ERROR: ("floats", _product_error),
    Op.PRESENT: ("truths", lambda s, p, r, a, b, c: _present(s, a, b == 1)),
    Op.NUMBER: ("integers", lambda s, p, r, a, b, c: r.truths[a].astype(np.int64)),
    Op.ROW: ("integers", lambda s, p, r, a, b, c: np.arange(s.start, s.stop)),
    Op.CHOOSE: ("integers", lambda s, p, r, a, b, c: np.where(r.truths[b], r.integers[a], c)),
    Op.CHOOSE_FLOAT: (
        "floats",
        lambda s, p, r, a, b, c: np.where(r.truths[b], r.floats[a], p.constants[c]),
    ),
    Op.CHOOSE_OTHER: (
        "integers",
        lambda s, p, r, a, b, c: np.where(r.truths[b], r.integers[a], r.integers[c]),
    ),
    Op.CHOOSE_OTHER_FLOAT: (
        "floats",
        lambda s, p, r, a, b, c: np.where(r.truths[b], r.floats[a], r.floats[c]),
    ),
    Op.FLOAT_RESIDUAL: ("integers", _float_residual),
    Op.LOOKUP: (
        "integers",
        lambda s, p, r, a, b, c: _looked_up(p.constants.view(np.int64), c, r.integers[a]),
    ),
    Op.LOOKUP_FLOAT: (
        "floats",
        lambda s, p, r, a, b, c: _looked_up(p.constants, c, r.integers[a]),
    ),
    Op.MEMBER: ("truths", lambda s, p, r, a, b, c: _numbers(p, r.integers[a], b, c) >= 0),
    Op.NUMBER_OF: ("integers", lambda s, p, r, a, b, c: _numbers(p, r.integers[a], b, c)),
}
"""By step, the kind of register that it writes, and what: of stored rows, a program, registers."""

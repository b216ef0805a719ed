"""The kernels on stored rows, in every form: against numpy, and against exact arithmetic."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tessel.kernels.group_sums as group_sums_module
from tessel.errors import CorruptSegmentError
from tessel.kernels.best_rows import first_of_groups
from tessel.kernels.blocks import (
    ALL_MISSING,
    ALL_PRESENT,
    SINGLE_BITS,
    SINGLE_SCALED,
    Gap,
    StoredBlocks,
)
from tessel.kernels.count_values import count_values
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.fields import FieldKind, SumField
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.program import Op, Program
from tessel.kernels.register_rows import register_rows
from tessel.kernels.search_rows import search_rows
from tessel.kernels.select_rows import select_places, select_rows
from tessel.kernels.word_numbers import are_words, word_slots
from tests.kernels.block_model import run_blocks
from tests.kernels.forced import FORMS, in_form

_SHIFT = 5
_EXPONENTS = (0, 2, 5)
_WIDTHS = st.sampled_from([0, 1, 3, 8, 13, 16, 24, 32, 40, 57, 64])


@st.composite
def _blocks(draw: Any, widths: st.SearchStrategy[int] | None = None) -> tuple[StoredBlocks, Any]:
    """Draw columns of pages of 32 rows, and their integers, shape (columns, rows)."""
    columns, pages = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    seed = draw(st.integers(0, 1 << 32))
    random = np.random.default_rng(seed)
    facts = np.zeros((6, columns, pages), np.int64)
    pieces: list[np.ndarray[Any, Any]] = []
    place = 0
    integers = np.zeros((columns, pages << _SHIFT), np.int64)
    for column in range(columns):
        for page in range(pages):
            width = draw(_WIDTHS if widths is None else widths)
            bits = random.integers(0, 1 << min(width, 62), 1 << _SHIFT).astype(np.uint64)
            base = int(random.integers(-(1 << 40), 1 << 40))
            step = draw(st.sampled_from([0, 0, 7, -3]))
            stream = np.zeros((width << _SHIFT) // 8 + 8, np.uint8)
            for row in range(1 << _SHIFT):
                held = int(bits[row]) << (row * width % 8)
                at = row * width // 8
                word = int.from_bytes(stream[at : at + 9].tobytes(), "little") | held
                stream[at : at + 9] = np.frombuffer(
                    word.to_bytes(9, "little")[: len(stream) - at], np.uint8
                )
            mask = (1 << width) - 1
            exponent = draw(st.sampled_from(_EXPONENTS))
            signed_mask = mask - (1 << 64) if mask >> 63 else mask
            facts[:, column, page] = place, width, signed_mask, base, step, exponent
            pieces.append(stream)
            place += len(stream)
            rows = np.arange(1 << _SHIFT)
            with np.errstate(over="ignore"):
                values = bits.view(np.int64) + base + step * rows
            integers[column, page << _SHIFT : (page + 1) << _SHIFT] = values
    data = np.concatenate([*pieces, np.zeros(16, np.uint8)])
    data.flags.writeable = False
    start = draw(st.integers(0, (pages << _SHIFT) - 1))
    stop = draw(st.integers(start + 1, pages << _SHIFT))
    return StoredBlocks(data, facts, _SHIFT, start, stop), integers


def _program(
    steps: Sequence[tuple[int, ...]], pages: int, ranges: Any = (), **more: Any
) -> Program:
    held = np.zeros((len(ranges), pages, 2), np.int64)
    for place, pair in enumerate(ranges):
        held[place] = pair
    return Program(
        np.array(steps, np.int64).reshape(-1, 5),
        held,
        np.array(more.get("constants", []), np.float64),
        np.array(more.get("tables", []), np.uint8),
        integers=8,
        floats=8,
        truths=8,
    )


_ENDS = st.one_of(
    st.integers(-(1 << 41), 1 << 41), st.sampled_from([-(1 << 63), (1 << 63) - 1, 0, 1])
)


@given(drawn=_blocks(), low=_ENDS, high=_ENDS, near=st.one_of(st.none(), st.integers(-3, 3)))
def test_rows_in_a_range(drawn: Any, low: int, high: int, near: int | None) -> None:
    blocks, integers = drawn
    if near is not None and abs(held := int(integers[0, blocks.start])) < 1 << 62:
        low, high = held - abs(near), held + near
    pages = blocks.facts.shape[2]
    program = _program([(Op.LOAD, 0, 0, 0, 0), (Op.RANGE, 0, 0, 0, 0)], pages, [(low, high)])
    direct = _program([(Op.COLUMN_RANGE, 0, 0, 0, 0)], pages, [(low, high)])
    wanted = integers[0, blocks.start : blocks.stop]
    wanted = (wanted >= low) & (wanted <= high)
    for form in FORMS:
        with in_form(form):
            assert select_rows(blocks, program, 0).tolist() == wanted.tolist()
            assert select_rows(blocks, direct, 0).tolist() == wanted.tolist()


_COMPARISONS = [
    *(Op.LESS, Op.LESS_EQUAL, Op.EQUAL),
    *(Op.INTEGER_LESS, Op.INTEGER_LESS_EQUAL, Op.INTEGER_EQUAL),
]


def _every_step(data: st.DataObject, columns: int) -> list[tuple[int, ...]]:
    """Draw a program of nearly all steps, whose last registers are integer 7, float 6, truth 6."""
    column, up = st.integers(0, columns - 1), st.integers(0, 30)
    draw = data.draw
    return [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.LOAD, 1, draw(column), 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.FLOAT, 1, 1, 0, 0),
        (Op.CONSTANT, 2, 0, 0, 0),
        (Op.INTEGER, 2, 0, 0, draw(st.integers(-5, 5))),
        (draw(st.sampled_from([Op.ADD, Op.SUBTRACT])), 3, 0, 1, 0),
        (draw(st.sampled_from([Op.INTEGER_ADD, Op.INTEGER_SUBTRACT])), 3, 0, 1, 0),
        (Op.INTEGER_MULTIPLY, 4, 1, 2, 0),
        (Op.COMBINE, 5, 0, 1, 3),
        (Op.RANGE, 0, draw(st.integers(0, 5)), 0, 0),
        (draw(st.sampled_from(_COMPARISONS)), 1, 3, 2, 0),
        (draw(st.sampled_from([Op.AND, Op.OR, Op.XOR])), 2, 0, 1, 0),
        (Op.NOT, 3, 2, 0, 0),
        (Op.RESIDUAL, 6, 0, 0, draw(up)),
        (Op.SHIFT, 2, 4, 0, draw(st.integers(1, 40))),
        (Op.ROW, 7, 0, 0, 0),
        (Op.COLUMN_RANGE, 4, draw(column), 0, 0),
        (Op.TABLE, 5, 0, 0, draw(st.integers(0, 3))),
        (Op.PRESENT, 6, draw(column), 0, 0),
        (Op.MULTIPLY, 4, 0, 1, 0),
        (Op.PRODUCT_ERROR, 5, 0, 1, 4),
        (Op.CHOOSE_OTHER, 3, 3, 4, 5),
        (Op.CHOOSE_OTHER_FLOAT, 3, 3, 5, 2),
        (Op.DIVIDE, 6, 0, 1, 0),
    ]


@given(
    drawn=_blocks(st.sampled_from([0, 3, 8, 16])),
    data=st.data(),
    select=st.sampled_from([None, *range(7)]),
)
def test_registers_of_every_step(drawn: Any, data: st.DataObject, select: int | None) -> None:
    """Programs of all steps, on registers that are there: to the bit what the model computes."""
    blocks, _ = drawn
    columns, pages = blocks.facts.shape[1:]
    low = data.draw(st.integers(-(1 << 41), 1 << 41))
    constants = [data.draw(st.floats(-1e6, 1e6))]
    program = _program(
        _every_step(data, columns), pages, [(low, low + (1 << 40))], constants=constants,
        tables=[1, 0, 0, 1, 0],
    )  # fmt: skip
    model = run_blocks(blocks, program)
    chosen = np.ones(len(blocks), np.bool_) if select is None else model.truths[select]
    registers = [*range(8), *(~number for number in range(7))]
    cut = data.draw(st.integers(blocks.start, blocks.stop))
    spans = [blocks.cut(blocks.start, cut), blocks.cut(cut, blocks.stop)]
    for form in FORMS:
        with in_form(form), np.errstate(all="ignore"):
            found = register_rows(spans, program, select=select, registers=registers)
            truths = [select_rows(blocks, program, truth) for truth in range(7)]
        for number, held in zip(registers, found, strict=True):
            wanted = model.floats[~number].view(np.int64) if number < 0 else model.integers[number]
            assert held.tolist() == wanted[chosen].tolist(), number
        for number, truth in enumerate(truths):
            assert truth.tolist() == model.truths[number].tolist(), number


_WIDE_SHIFT = 12


@pytest.mark.parametrize("form", FORMS)
def test_pages_of_several_blocks(form: str) -> None:
    """Rows past the first block of a page: places, truths, registers, codes and first rows."""
    random = np.random.default_rng(5)
    rows = (1 << _WIDE_SHIFT) + 2500
    numbers = random.integers(0, 50, rows).astype(np.uint8)
    numbers[4999] = 77
    data = np.concatenate([numbers, np.zeros(1 << _WIDE_SHIFT, np.uint8)])
    facts = np.zeros((6, 1, 2), np.int64)
    facts[:, 0, 0] = 0, 8, 255, 0, 0, 0
    facts[:, 0, 1] = 1 << _WIDE_SHIFT, 8, 255, 0, 0, 0
    blocks = StoredBlocks(data, facts, _WIDE_SHIFT, 3, rows)
    program = _program(
        [(Op.LOAD, 0, 0, 0, 0), (Op.COLUMN_RANGE, 0, 0, 0, 0), (Op.FLOAT, 0, 0, 0, 0)],
        2,
        [(3, 5)],
    )
    own = numbers[3:].astype(np.int64)
    inside = (own >= 3) & (own <= 5)
    with in_form(form):
        assert select_rows(blocks, program, 0).tolist() == inside.tolist()
        places = select_places(blocks, program, 0)
        found = register_rows([blocks], program, select=0, registers=[0, ~0])
        firsts = first_of_groups([blocks], program, select=None, group=0, groups=78)
        counts = count_values(
            [blocks], program, select=None, group=None, groups=1, value=0, low=0, span=78
        )
    assert places is not None
    assert places.tolist() == np.flatnonzero(inside).tolist()
    assert found[0].tolist() == own[inside].tolist()
    assert found[1].view(np.float64).tolist() == own[inside].tolist()
    assert firsts[77] == 4999
    assert firsts[:50].tolist() == [3 + own.tolist().index(number) for number in range(50)]
    assert counts.tolist() == [np.bincount(own).tolist()]


@given(drawn=_blocks(), data=st.data())
def test_places_in_ranges(drawn: Any, data: st.DataObject) -> None:
    blocks, integers = drawn
    columns, pages = blocks.facts.shape[1:]
    asked = data.draw(st.lists(st.integers(0, columns - 1), min_size=1, max_size=3))
    steps: list[tuple[int, ...]] = []
    pairs, expected = [], np.ones(len(blocks), np.bool_)
    for number, column in enumerate(asked):
        held = integers[column, blocks.start : blocks.stop]
        low, high = sorted(data.draw(st.sampled_from(held.tolist())) for _ in range(2))
        steps.append((Op.COLUMN_RANGE, number, column, 0, number))
        pairs.append((low, high))
        expected &= (held >= low) & (held <= high)
    truth = 0
    for number in range(1, len(asked)):
        steps.append((Op.AND, len(asked) + number, truth, number, 0))
        truth = len(asked) + number
    program = _program(steps, pages, pairs)
    for form in FORMS:
        with in_form(form):
            found = select_places(blocks, program, truth)
        assert found is not None, "there is room for a block of rows whatever is left"
        assert found.tolist() == np.flatnonzero(expected).tolist()


def test_many_places_are_not_listed() -> None:
    blocks = _of_integers([list(range(10_000)), [5] * 10_000])
    pages = blocks.facts.shape[2]
    every = [(Op.COLUMN_RANGE, 0, 0, 0, 0), (Op.COLUMN_RANGE, 1, 1, 0, 1), (Op.AND, 2, 0, 1, 0)]
    for last, is_few in ((9_999, False), (6_000, False), (500, True), (-1, True)):
        program = _program(every, pages, [(0, last), (0, 5)])
        for form in FORMS:
            with in_form(form):
                found = select_places(blocks, program, 2)
            assert (found is not None) == is_few
            assert found is None or found.tolist() == list(range(last + 1))


def test_places_of_any_steps() -> None:
    blocks = _of_integers([[at % 97 for at in range(9_000)], [at % 5 for at in range(9_000)]])
    one = (Op.COLUMN_RANGE, 0, 0, 0, 0)
    loaded = (Op.LOAD, 0, 0, 0, 0)
    others: list[list[tuple[int, ...]]] = [
        [one, (Op.COLUMN_RANGE, 2, 1, 0, 1), (Op.OR, 1, 0, 2, 0), (Op.AND, 3, 1, 0, 0)],
        [loaded, (Op.RANGE, 1, 0, 0, 0)],
        [loaded, (Op.RANGE, 0, 0, 0, 0), (Op.TABLE, 2, 0, 0, 0), (Op.AND, 1, 0, 2, 0)],
        [one, loaded, (Op.LOAD, 1, 1, 0, 0), (Op.INTEGER_LESS, 2, 1, 0, 0), (Op.AND, 1, 0, 2, 0)],
    ]
    for steps in others:
        truth = steps[-1][1]
        program = _program(steps, blocks.facts.shape[2], [(1, 2), (2, 2)], tables=[0b00100000])
        for form in FORMS:
            with in_form(form):
                found = select_places(blocks, program, truth)
                rows = select_rows(blocks, program, truth)
            assert found is not None
            assert found.tolist() == np.flatnonzero(rows).tolist()


@given(
    codes=st.lists(st.integers(0, 4), min_size=1, max_size=70),
    table=st.lists(st.booleans(), min_size=5),
)
def test_truths_by_code(codes: list[int], table: list[bool]) -> None:
    blocks = _of_integers([codes])
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.TABLE, 0, 0, 0, 2)]
    bits = np.packbits([False, False, *table], bitorder="little")
    program = _program(steps, blocks.facts.shape[2], tables=bits.tolist())
    for form in FORMS:
        with in_form(form):
            assert select_rows(blocks, program, 0).tolist() == [table[code] for code in codes]


_WORD = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    members=st.sets(st.one_of(_WORD, st.integers(-3, 40), st.just(-(1 << 63))), max_size=60),
    others=st.lists(_WORD, max_size=8),
    level=st.sampled_from(FORMS),
)
def test_members_of_a_hash_set(members: set[int], others: list[int], level: str) -> None:
    slots, bits = word_slots(np.array(sorted(members), np.int64))
    assert len(slots) == 1 << bits >= 2 * len(members)  # a search ends at a free slot
    near = {value + by for value in members for by in (-1, 0, 1)} | {-(1 << 63), -1, *others}
    rows = [value for value in near if -(1 << 63) <= value < 1 << 63]
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.MEMBER, 0, 0, bits, 1)]
    blocks = _of_integers([rows])
    constants = np.append(np.zeros(1), slots.reshape(-1).view(np.float64))
    program = _program(steps, blocks.facts.shape[2], constants=constants)
    wanted = [value in members for value in rows]
    assert run_blocks(blocks, program).truths[0][: len(rows)].tolist() == wanted
    with in_form(level):
        assert select_rows(blocks, program, 0)[: len(rows)].tolist() == wanted
        numbered = _program(
            [*steps[:1], (Op.NUMBER_OF, 1, 0, bits, 1)], blocks.facts.shape[2], constants=constants
        )
        found = register_rows([blocks], numbered, select=None, registers=[1])
    number_of = {value: at for at, value in enumerate(sorted(members))}
    assert found[0][: len(rows)].tolist() == [number_of.get(value, -1) for value in rows]


def test_members_that_meet_in_one_slot_are_all_found() -> None:
    """The multiplication by the factor is turned around: 200 hashes are 0 to 199."""
    factor = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    hashed = [each * factor % (1 << 64) for each in range(200)]
    members = np.array([each ^ each >> 32 for each in hashed], np.uint64).view(np.int64)
    for held in (members, np.arange(-(1 << 63), -(1 << 63) + 200)):
        slots, bits = word_slots(held)
        assert len(slots) == 1 << bits >= 2 * len(held)
        taken = slots[slots[:, 1] >= 0]
        assert sorted(taken[:, 0].tolist()) == sorted(held.tolist())
        rows = np.append(held, held ^ 1 << 40)
        truths = np.zeros(len(rows), np.bool_)
        with np.errstate(over="ignore"):  # the multiplication is meant to wrap
            are_words(slots.reshape(-1), 0, bits, rows, 0, truths, 0, len(rows))
        assert truths.tolist() == np.isin(rows, held).tolist()


def _of_integers(columns: list[list[int]]) -> StoredBlocks:
    """Return columns of 64-bit words."""
    rows = len(columns[0])
    pages = -(-rows >> _SHIFT) if rows & 31 == 0 else (rows >> _SHIFT) + 1
    facts = np.zeros((6, len(columns), pages), np.int64)
    words = np.zeros((len(columns), (pages << _SHIFT) + 1), np.int64)
    for column, values in enumerate(columns):
        words[column, :rows] = values
        for page in range(pages):
            place = (column * words.shape[1] + (page << _SHIFT)) * 8
            facts[:, column, page] = place, 64, -1, 0, 0, -1
    data = words.reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return StoredBlocks(data, facts, _SHIFT, 0, rows)


def _sums(
    blocks: StoredBlocks, program: Program, fields: list[SumField], **more: Any
) -> GroupSums | None:
    """Return what the highest level finds; all forms find the same, in lanes or without."""
    cut = blocks.start + len(blocks) // 3
    spans = [blocks.cut(blocks.start, cut), blocks.cut(cut, blocks.stop)]
    found = []
    for form in FORMS:
        for spread in (0, 1 << 8):
            with in_form(form), mock.patch.object(group_sums_module, "_MOST_SPREAD", spread):
                found.append(group_sums(spans, program, fields=fields, **more))
    wanted = found[-1]
    for each in found[:-1]:
        if each is None or wanted is None:
            assert each is wanted
            continue
        assert each.counts.tolist() == wanted.counts.tolist()
        assert each.first_row.tolist() == wanted.first_row.tolist()
        assert [_listed(fact) for fact in each.results] == [
            _listed(fact) for fact in wanted.results
        ]
    return wanted


def _listed(fact: Any) -> Any:
    """Return what a fact says of each group; how it is cut into parts is nobody's matter."""
    if isinstance(fact, dict):
        parts = [[Fraction(2) ** place * n for n in fact[place].tolist()] for place in fact]
        return [sum(own) for own in zip(*parts, strict=True)]
    return fact.tolist()


_doubles = st.one_of(
    st.floats(-1e9, 1e9),
    st.integers(-(10**9), 10**9).map(lambda number: number / 100),
    st.sampled_from([0.0, -0.0, 0.1, 1 / 3, 2.0**-40, 1e9]),
    st.tuples(st.floats(-1, 1), st.integers(-90, 90)).map(lambda pair: math.ldexp(*pair)),
    st.sampled_from([5e-324, -1e-300, 2.0**400]),
)


def _past_limbs(exact: list[Fraction], largest: float) -> bool:
    """Whether a number has bits below those that four limbs of 45 hold beside the largest."""
    unit = Fraction(2) ** (max(0, math.frexp(largest)[1]) + 1 - 180)
    return any(number % unit for number in exact)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), _doubles, st.booleans()), min_size=1, max_size=90)
)
def test_sums_of_floats_are_exact(rows: list[tuple[int, float, bool]]) -> None:
    codes, values, kept = ([row[place] for row in rows] for place in range(3))
    held = np.array(values).view(np.int64).tolist()
    blocks = _of_integers([codes, held, [int(each) for each in kept]])  # type: ignore[list-item]
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.LOAD, 1, 1, 0, 0),
        (Op.DECIMAL, 0, 1, 1, 0),
        (Op.LOAD, 2, 2, 0, 0),
        (Op.RANGE, 0, 2, 0, 0),
    ]
    program = _program(steps, blocks.facts.shape[2], [(1, 1)])
    field = SumField.of_floats(0, max(abs(value) for value in values))
    found = _sums(blocks, program, [field], select=0, group=0, groups=4)
    chosen = [(code, value) for code, value, keep in rows if keep]
    exact = [sum((Fraction(v) for c, v in chosen if c == group), Fraction(0)) for group in range(4)]
    if found is None:  # tiny beside large
        assert _past_limbs(list(map(Fraction, values)), max(map(abs, values)))
        return
    assert found.counts.tolist() == [sum(c == group for c, _ in chosen) for group in range(4)]
    firsts = [[i for i, row in enumerate(rows) if row[2] and row[0] == g] for g in range(4)]
    assert found.first_row.tolist() == [where[0] if where else -1 for where in firsts]
    parts: Any = found.results[0]
    sums = ExactSums.of_parts(parts, 4)
    assert sums.rounded().tolist() == [float(each) for each in exact]
    wanted = ExactSums.of_doubles(
        np.array([value for _, value in chosen], np.float64),
        np.array([code for code, _ in chosen], np.int64),
        4,
    )
    assert sums.numbers() == wanted.numbers()


@given(rows=st.lists(st.tuples(st.integers(0, 3), _doubles, _doubles), min_size=1, max_size=90))
def test_sums_of_products_are_exact(rows: list[tuple[int, float, float]]) -> None:
    codes, ones, others = (list(column) for column in zip(*rows, strict=True))
    held = [np.array(each).view(np.int64).tolist() for each in (ones, others)]
    blocks = _of_integers([codes, *held])  # type: ignore[list-item]
    steps = [
        *((Op.LOAD, at, at, 0, 0) for at in range(3)),
        (Op.DECIMAL, 0, 1, 1, 0),
        (Op.DECIMAL, 1, 2, 2, 0),
        (Op.MULTIPLY, 2, 0, 1, 0),
        (Op.PRODUCT_ERROR, 3, 0, 1, 2),
    ]
    program = _program(steps, blocks.facts.shape[2])
    sizes = [max(map(abs, each)) for each in (ones, others)]
    largest = sizes[0] * sizes[1]
    assume(math.isfinite(largest))
    factors = [SumField.of_floats(at, size) for at, size in enumerate(sizes)]
    fields = [SumField.of_products(2, 3, largest), *factors]
    found = _sums(blocks, program, fields, select=None, group=0, groups=4)
    exact = [Fraction(one) * Fraction(other) for _, one, other in rows]
    if found is None:
        past = [
            _past_limbs(list(map(Fraction, each)), size)
            for each, size in zip((ones, others), sizes, strict=True)
        ]
        assert any(past) or _past_limbs(exact, largest)
        return
    parts: Any = found.results[0]
    sums = ExactSums.of_parts(parts, 4)
    wanted = [
        sum((e for e, c in zip(exact, codes, strict=True) if c == g), Fraction(0)) for g in range(4)
    ]
    assert [Fraction(sums.rounded().tolist()[g]) for g in range(4)] == [
        Fraction(float(each)) for each in wanted
    ]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(-(1 << 63), (1 << 63) - 1)),
        min_size=1,
        max_size=90,
    ),
    shift=st.integers(0, 40),
)
def test_sums_of_integers_are_exact(rows: list[tuple[int, int]], shift: int) -> None:
    rows = [(code, value >> shift) for code, value in rows]
    blocks = _of_integers([[code for code, _ in rows], [value for _, value in rows]])
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.LOAD, 1, 1, 0, 0)]
    program = _program(steps, blocks.facts.shape[2])
    field = SumField.of_integers(1, max(abs(value) for _, value in rows))
    found = _sums(blocks, program, [field, field], select=None, group=0, groups=4)
    assert found is not None
    parts: Any
    for parts in found.results:
        sums = ExactSums.of_parts(parts, 4)
        exact = [sum(v for c, v in rows if c == group) for group in range(4)]
        assert [sums.number(group) for group in range(4)] == exact


@given(
    rows=st.lists(st.tuples(st.integers(-(1 << 50), 1 << 50), _doubles), min_size=1, max_size=120),
    data=st.data(),
)
def test_runs(rows: list[tuple[int, float]], data: st.DataObject) -> None:
    integers, floats = [row[0] for row in rows], [row[1] for row in rows]
    blocks = _of_integers([integers, np.array(floats).view(np.int64).tolist()])
    inner = data.draw(st.sets(st.integers(1, len(rows))))
    starts = np.array([0, *sorted(inner - {len(rows)})], np.int64)
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.LOAD, 1, 1, 0, 0), (Op.DECIMAL, 0, 1, 1, 0)]
    program = _program(steps, blocks.facts.shape[2])
    largest = max(abs(value) for value in floats)
    fields = [
        SumField(FieldKind.LEAST, 0),
        SumField.of_floats(0, largest),
        SumField(FieldKind.GREATEST, 0),
        SumField.of_integers(0, 1 << 50),
        SumField(FieldKind.LEAST_FLOAT, 0),
        SumField(FieldKind.GREATEST_FLOAT, 0),
    ]
    runs = list(zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True))
    for form in FORMS:
        with in_form(form):
            reduced = group_sums(
                [blocks], program, select=None, group=None, groups=1, fields=fields,
                ends=np.append(starts[1:], len(rows)), last=True,
            )  # fmt: skip
        if reduced is None:
            assert _past_limbs(list(map(Fraction, floats)), largest)
            return
        found: Any = reduced.results
        assert reduced.counts.tolist() == [b - a for a, b in runs]
        assert reduced.first_row.tolist() == [a for a, _ in runs]
        assert reduced.last_row is not None
        assert reduced.last_row.tolist() == [b - 1 for _, b in runs]
        assert found[0].tolist() == [min(integers[a:b]) for a, b in runs]
        assert found[2].tolist() == [max(integers[a:b]) for a, b in runs]
        assert found[4].tolist() == [min(floats[a:b]) for a, b in runs]
        assert found[5].tolist() == [max(floats[a:b]) for a, b in runs]
        sums = ExactSums.of_parts(found[1], len(runs)).rounded()
        exact = [float(sum(map(Fraction, floats[a:b]), Fraction(0))) for a, b in runs]
        assert sums.tolist() == exact
        totals = ExactSums.of_parts(found[3], len(runs))
        assert [totals.number(k) for k in range(len(runs))] == [sum(integers[a:b]) for a, b in runs]


@pytest.mark.parametrize("by", ["one group", "a register", "codes"])
@given(rows=st.integers(1, 300), data=st.data())
def test_groups_of_runs_of_chosen_rows(by: str, rows: int, data: st.DataObject) -> None:
    """Runs have groups of their own, of the rows that count, however many these are."""
    draw, random = data.draw, np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    keys, values = random.integers(0, 3, rows), random.integers(-9, 9, rows)
    counts = random.random(rows) < draw(st.sampled_from([0.02, 0.4, 0.9, 1.0]))
    inner = draw(st.sets(st.integers(1, rows), max_size=9)) if by != "codes" else set()
    ends = np.array([*sorted(inner - {rows}), rows], np.int64)
    blocks = _of_integers([keys.tolist(), values.tolist(), counts.astype(int).tolist()])
    steps = [*((Op.LOAD, at, at, 0, 0) for at in range(3)), (Op.RANGE, 0, 2, 0, 0)]
    program = _program(steps, blocks.facts.shape[2], [(1, 1)])
    groups = 1 if by == "one group" else 3
    fields = [
        SumField.of_integers(1, 9), SumField(FieldKind.LEAST, 1), SumField(FieldKind.GREATEST, 1),
    ]  # fmt: skip
    if groups == 1:
        keys = np.zeros(rows, np.int64)
    line = np.searchsorted(ends, np.arange(rows), side="right") * groups + keys
    wanted = [np.flatnonzero(counts & (line == at)) for at in range(len(ends) * groups)]
    for form in FORMS:
        with in_form(form):
            found = group_sums(
                [blocks], program, select=0, group=0 if by == "a register" else None, groups=groups,
                fields=fields, codes=keys[counts] if by == "codes" else None,
                ends=None if by == "codes" else ends, last=True,
            )  # fmt: skip
        assert found is not None
        assert found.last_row is not None
        assert found.counts.tolist() == [len(own) for own in wanted]
        assert found.first_row.tolist() == [own[0] if len(own) else -1 for own in wanted]
        assert found.last_row.tolist() == [own[-1] if len(own) else -1 for own in wanted]
        assert _listed(found.results[0]) == [values[own].sum() for own in wanted]
        for at, best in ((1, min), (2, max)):
            extremes: Any = found.results[at]
            told = [n for n, own in zip(extremes.tolist(), wanted, strict=True) if len(own)]
            assert told == [best(values[own].tolist()) for own in wanted if len(own)]


@given(
    values=st.lists(st.integers(-50, 50), min_size=1, max_size=80),
    bounds=st.lists(st.one_of(st.integers(-60, 60), st.sampled_from([-(1 << 63), (1 << 63) - 1]))),
    after=st.booleans(),
)
def test_places_of_bounds(values: list[int], bounds: list[int], after: bool) -> None:
    values, bounds = sorted(values), sorted(bounds)
    blocks = _of_integers([[0] * len(values), values])
    place = bisect.bisect_right if after else bisect.bisect_left
    for form in FORMS:
        with in_form(form):
            found = search_rows(blocks, 1, np.array(bounds, np.int64), after=after)
        assert found.tolist() == [place(values, bound) for bound in bounds]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    blocks = _of_integers([[0, 0], np.array([1.0, value]).view(np.int64).tolist()])
    steps = [(Op.LOAD, 0, 1, 0, 0), (Op.DECIMAL, 0, 0, 1, 0)]
    program = _program(steps, 1)
    field = SumField.of_floats(0, 1.0)
    for form in FORMS:
        with in_form(form), np.errstate(invalid="ignore"):
            assert (
                group_sums([blocks], program, select=None, group=None, groups=1, fields=[field])
                is None
            )


@given(data=st.data(), size=st.integers(9, 40), rows=st.integers(1, 70))
def test_fields_of_structs(data: st.DataObject, size: int, rows: int) -> None:
    """Wherever a field lies, of whatever width, with a sign or without, with a bit of null."""
    draw, random = data.draw, np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    heap = random.integers(0, 3, 12).astype(np.uint8)
    structs = random.integers(0, 256, rows * size).astype(np.uint8)
    offset = draw(st.integers(0, size - 8))
    pairs = structs.reshape(rows, size)[:, offset : offset + 8]
    pairs[:] = random.integers(0, 9, (rows, 2)).astype("<u4").view(np.uint8)
    pairs[random.random(rows) < 0.1] = 255  # forged: text that lies nowhere
    at = draw(st.integers(0, 5))
    held = np.concatenate([np.zeros(at, np.uint8), structs, heap])
    facts, gaps = np.zeros((6, 2, 1), np.int64), np.zeros((Gap.COUNT, 2, 1), np.int64)
    width = draw(st.sampled_from([1, 2, 4, 8]))
    place = draw(st.integers(0, size - width))
    start = min(place, size - 8)
    mask = np.array([((1 << 8 * width) - 1) << 8 * (place - start)], np.uint64).view(np.int64)[0]
    signed = width < 8 and draw(st.booleans())
    base = -(1 << 8 * width - 1) if signed else 0
    facts[:, 0, 0] = at + start, 8 * size, mask, base, 0, -1
    facts[:, 1, 0] = at + offset, 8 * size, -1, 0, 0, -1
    gaps[Gap.VALIDITY] = 8 * at + draw(st.integers(0, 8 * size - 1))
    gaps[Gap.VALUES], gaps[Gap.PLACES] = at + rows * size, len(held)
    gaps[Gap.NANS, 0] = draw(st.booleans())
    first = draw(st.integers(0, rows - 1))
    blocks = StoredBlocks(held, facts, 40, first, draw(st.integers(first + 1, rows)), gaps)
    text = draw(st.lists(st.integers(0, 2), max_size=3))
    steps = [
        (Op.COLUMN_RANGE, 0, 0, 0, 0),
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.PRESENT, 1, 0, 0, 0),
        (Op.PRESENT, 2, 0, 1, 0),
        (Op.TEXT_EQUAL, 3, 1, len(text), 2),
        *((Op.NUMBER, number, number, 0, 0) for number in (1, 2, 3)),
    ]
    ends = sorted(random.integers(-(2**15), 2**15, 2).tolist())
    program = _program(steps, 1, [ends], tables=[9, 9, *text, 9])
    model = run_blocks(blocks, program)
    numbers = model.integers
    fields = structs.reshape(rows, size)[:, place : place + width]
    kind = ("<i" if signed or width == 8 else "<u") + str(width)
    own = np.ascontiguousarray(fields).view(kind)[:, 0].astype(np.int64)
    assert numbers[0].tolist() == own[first : blocks.stop].tolist()
    for form in FORMS:
        with in_form(form):
            for select in (None, 0, 3):
                chosen = slice(None) if select is None else model.truths[select]
                found = register_rows([blocks], program, select=select, registers=[0, 1, 2, 3, ~0])
                for line, number in zip(found, range(4), strict=False):
                    assert line.tolist() == numbers[number][chosen].tolist(), number
                assert found[4].tolist() == model.floats[0].view(np.int64)[chosen].tolist()


@given(data=st.data(), nulls=st.floats(0, 1), nans=st.floats(0, 0.5))
def test_rows_without_a_value(data: st.DataObject, nulls: float, nans: float) -> None:
    """Bitmaps, NaNs and exceptions of pages, from any row on: what numpy says of the values."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    pages = data.draw(st.integers(1, 3))
    rows = pages << _SHIFT
    present = random.random(rows) >= nulls
    integers = random.integers(-500, 500, rows)
    values = integers / 100
    is_exception = random.random(rows) < nans
    odd = random.choice([np.nan, -np.nan, np.inf, -0.0, 1 / 3], rows)
    values = np.where(is_exception, odd, values)
    held_as = np.float32 if data.draw(st.booleans()) else np.float64
    values = values.astype(held_as)
    facts, gaps = np.zeros((6, 1, pages), np.int64), np.zeros((Gap.COUNT, 1, pages), np.int64)
    pieces: list[np.ndarray[Any, Any]] = []
    place = 0
    for page in range(pages):
        own = slice(page << _SHIFT, (page + 1) << _SHIFT)
        bitmap = np.packbits(present[own], bitorder="little")
        form = data.draw(st.sampled_from(["scaled", "bits", "missing", "whole"]))
        bits = values[own].view(np.uint32 if held_as == np.float32 else np.int64)
        words = integers[own] if form != "bits" else bits.astype(np.int64)
        if form == "missing":
            present[own] = False
        elif form == "whole":
            present[own] = True
            values[own] = (integers[own] / 100).astype(held_as)
        places = np.flatnonzero(is_exception[own]) if form == "scaled" else np.zeros(0, np.int64)
        width = data.draw(st.sampled_from([8, 16, 32]))
        parts = [words.view(np.uint8), bitmap, places.astype(f"<u{width // 8}").view(np.uint8)]
        parts.append(values[own][places].view(np.uint8))
        starts = place + np.cumsum([0, *(len(part) for part in parts)])
        exponents = (SINGLE_BITS, SINGLE_SCALED + 2) if held_as == np.float32 else (-1, 2)
        facts[:, 0, page] = place, 64, -1, 0, 0, exponents[form != "bits"]
        validity = {"missing": ALL_MISSING, "whole": ALL_PRESENT}.get(form, int(starts[1]))
        gaps[:, 0, page] = validity, len(places), starts[2], width, starts[3], form != "whole"
        pieces += parts
        place = int(starts[-1])
    held = np.concatenate([*pieces, np.zeros(16, np.uint8)])
    held.flags.writeable = False
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    blocks = StoredBlocks(held, facts, _SHIFT, start, stop, gaps)
    steps = [
        (Op.LOAD, 5, 0, 0, 0),
        (Op.RANGE, 1, 5, 0, 0),
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.PRESENT, 0, 0, 0, 0),
        (Op.CHOOSE_FLOAT, 1, 0, 0, 0),
        (Op.CHOOSE, 1, 0, 0, 9),
        (Op.ROW, 2, 0, 0, 0),
        (Op.CHOOSE_OTHER, 3, 2, 0, 1),
        (Op.CHOOSE_OTHER_FLOAT, 2, 1, 0, 0),
        (Op.NUMBER, 4, 0, 0, 0),
    ]
    page_words = [words.view(np.int64) for words in pieces[::4]]
    loaded = np.concatenate(page_words)
    ends = data.draw(st.tuples(*[st.sampled_from(loaded.tolist())] * 2))
    program = _program(steps, pages, [(min(ends), max(ends))], constants=[7.25])
    selected = ((loaded >= min(ends)) & (loaded <= max(ends)))[start:stop]
    values = values.astype(np.float64)
    known = present & ~np.isnan(values)
    own = slice(start, stop)
    wanted_floats = np.where(known, values, 7.25)[own]
    wanted = [
        np.where(known, loaded, 9)[own],
        np.where(known, np.arange(rows), np.where(known, loaded, 9))[own],
        known[own].astype(np.int64),
        wanted_floats.view(np.int64),
    ]
    for form in FORMS:
        with in_form(form):
            assert select_rows(blocks, program, 0).tolist() == known[own].tolist()
            found = register_rows([blocks], program, select=None, registers=[1, 3, 4, ~1, ~2])
            some = register_rows([blocks], program, select=1, registers=[1, 3, 4, ~1, ~2])
        assert found[:4].tolist() == [each.tolist() for each in wanted]
        assert some[:4].tolist() == found[:4, selected].tolist()
        chosen = found[4].view(np.float64)[known[own]]
        assert chosen.tolist() == values[own][known[own]].tolist()
        chosen = some[4].view(np.float64)[known[own][selected]]
        assert chosen.tolist() == values[own][known[own] & selected].tolist()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("occur", [40, 2_500, 9_000])
def test_first_rows_of_many_groups(occur: int, form: str) -> None:
    """Whether few or most groups have rows, and when these come, also behind full chunks."""
    random, rows = np.random.default_rng(occur), 6_000 if form == "python" else 300_000
    keys = random.choice(10_000, occur, replace=False)[random.integers(0, occur, rows)]
    keys[rows // 2 :] = np.where(random.random(rows - rows // 2) < 0.001, 10_000, keys[rows // 2 :])
    blocks = _of_integers([keys.tolist()])
    program = _program([(Op.LOAD, 0, 0, 0, 0)], blocks.facts.shape[2])
    with in_form(form):
        found = group_sums([blocks], program, select=None, group=0, groups=10_001, fields=[])
    assert found is not None
    there, first = np.unique(keys, return_index=True)
    wanted = np.full(10_001, -1)
    wanted[there] = first
    assert np.array_equal(found.first_row, wanted)
    assert np.array_equal(found.counts, np.bincount(keys, minlength=10_001))


@pytest.mark.parametrize("number", [8, 1 << 40, -1, -(1 << 62)])
@pytest.mark.parametrize("form", FORMS)
def test_numbers_outside_of_their_bounds_are_refused(number: int, form: str) -> None:
    """Page tables may be forged: nothing is written where no group is."""
    blocks = _of_integers([[0, 1, 2, 3] * 700 + [number]])
    program = _program([(Op.LOAD, 0, 0, 0, 0)], blocks.facts.shape[2])
    with in_form(form):
        found = group_sums([blocks], program, select=None, group=0, groups=5, fields=[])
        assert found is None
        with pytest.raises(CorruptSegmentError, match="outside"):
            first_of_groups([blocks], program, select=None, group=0, groups=5)
        with pytest.raises(CorruptSegmentError, match="outside"):
            count_values(
                [blocks], program, select=None, group=None, groups=1, value=0, low=0, span=5
            )


@pytest.mark.parametrize("number", [8, 1 << 40, -1, -(1 << 62)])
def test_codes_of_no_entry_read_nothing_behind_the_table(number: int) -> None:
    """They find the last entry."""
    blocks = _of_integers([[0, 1, 2, 3] * 700 + [number]])
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.LOOKUP, 1, 0, 0, 0),
        (Op.LOOKUP_FLOAT, 0, 0, 0, 0),
        (Op.TABLE, 0, 0, 0, 0),
    ]
    entries = np.arange(10.0, 18.0)
    pages = blocks.facts.shape[2]
    program = _program(steps, pages, constants=entries.tolist(), tables=[0b1000_0001])
    codes = np.array([0, 1, 2, 3] * 700 + [7])
    for form in FORMS:
        with in_form(form):
            found = register_rows([blocks], program, select=None, registers=[1, ~0])
            assert select_rows(blocks, program, 0).tolist() == np.isin(codes, [0, 7]).tolist()
        assert found[0].view(np.float64).tolist() == entries[codes].tolist()
        assert found[1].view(np.float64).tolist() == entries[codes].tolist()

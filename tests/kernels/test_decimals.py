"""Decimals kept as doubles: quotients without division, and sums without limbs, to the last bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.decimal_sums import DecimalBounds, DecimalSum
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.group_sums import group_sums
from tessel.kernels.program import RESIDUAL_SHIFT, Op
from tessel.kernels.register_rows import register_rows
from tessel.kernels.select_rows import select_rows
from tests.kernels.forced import FORMS, LEVELS, in_form
from tests.kernels.test_kernels import _of_integers, _program

_whole = st.one_of(
    st.integers(-(1 << 53) + 1, (1 << 53) - 1),
    st.integers(-(10**6), 10**6),
    st.builds(lambda near, off: near + off, st.integers(0, 52).map(lambda b: 1 << b), st.just(-1)),
)


def _with_places(blocks: StoredBlocks, column: int, places: int) -> StoredBlocks:
    facts = blocks.facts.copy()
    facts[5, column] = places
    return StoredBlocks(blocks.data, facts, blocks.shift, blocks.start, blocks.stop)


@given(whole=st.lists(_whole, min_size=1, max_size=60), places=st.integers(0, 22))
@example(whole=[(1 << 53) - 1, 9007199254740989], places=15)
def test_quotients_are_correctly_rounded(whole: list[int], places: int) -> None:
    """Against exact fractions: each quotient equals the constant that it is compared with."""
    exact = [float(Fraction(each, 10**places)) for each in whole]
    held = np.array(exact).view(np.int64).tolist()
    blocks = _with_places(_of_integers([whole, held]), 0, places)
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.LOAD, 1, 1, 0, 0),
        (Op.DECIMAL, 1, 1, 1, 0),  # no exponent: the bits of the value
        (Op.EQUAL, 0, 0, 1, 0),
    ]
    program = _program(steps, blocks.facts.shape[2])
    for form in FORMS:
        with in_form(form):
            assert select_rows(blocks, program, 0).all()


@pytest.mark.parametrize("places", range(16))
def test_quotients_of_many_integers(places: int) -> None:
    random = np.random.default_rng(places)
    whole = random.integers(-(1 << 53) + 1, 1 << 53, 20_000)
    whole = np.sign(whole) * (np.abs(whole) >> random.integers(0, 50, len(whole)))
    held = whole / float(10**places)
    blocks = _with_places(_of_integers([whole.tolist(), held.view(np.int64).tolist()]), 0, places)
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.LOAD, 1, 1, 0, 0),
        (Op.DECIMAL, 1, 1, 1, 0),
        (Op.EQUAL, 0, 0, 1, 0),
    ]
    program = _program(steps, blocks.facts.shape[2])
    for form in LEVELS:
        with in_form(form):
            assert select_rows(blocks, program, 0).all()


@st.composite
def _decimals(draw: Any) -> tuple[int, list[tuple[int, int, bool]]]:
    places = draw(st.integers(0, 11))
    least = draw(st.sampled_from([-(10**9), 0, 1, 20_00, 10**8]))
    most = least + draw(st.sampled_from([0, 5, 10**4, 10**9, 1 << 41]))
    row = st.tuples(st.integers(0, 3), st.integers(least, most), st.booleans())
    return places, draw(st.lists(row, min_size=1, max_size=90))


def _sum_of(places: int, low: float, high: float) -> DecimalSum | None:
    bounds = DecimalBounds.of_decimals(places, low, high)
    return None if bounds is None else DecimalSum.of(bounds)


@given(drawn=_decimals(), grouped=st.booleans(), filtered=st.booleans())
def test_sums_of_decimals_are_those_of_the_doubles(
    drawn: tuple[int, list[tuple[int, int, bool]]], grouped: bool, filtered: bool
) -> None:
    places, rows = drawn
    codes, whole, kept = ([row[column] for row in rows] for column in range(3))
    values = np.array(whole) / float(10**places)
    decimal = _sum_of(places, float(values.min()), float(values.max()))
    assume(decimal is not None)
    assert decimal is not None
    blocks = _with_places(_of_integers([codes, whole, [int(each) for each in kept]]), 1, places)
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.LOAD, 1, 1, 0, 0),
        (Op.RESIDUAL, 2, 1, 1, decimal.up),
        (Op.LOAD, 3, 2, 0, 0),
        (Op.RANGE, 0, 3, 0, 0),
    ]
    program = _program(steps, blocks.facts.shape[2], [(1, 1)])
    fields = decimal.fields(1, 2 if places else None)
    counted = np.array(kept) if filtered else np.ones(len(rows), np.bool_)
    numbers = np.array(codes if grouped else [0] * len(rows))
    groups = 4 if grouped else 1
    wanted = ExactSums.of_doubles(values[counted], numbers[counted], groups)
    for form in FORMS:
        with in_form(form):
            found: Any = group_sums(
                [blocks], program, select=0 if filtered else None, group=0 if grouped else None,
                groups=groups, fields=fields,
            )  # fmt: skip
        assert found is not None
        assert found.counts.tolist() == np.bincount(numbers[counted], minlength=groups).tolist()
        sums = ExactSums.of_parts(decimal.sums(list(found.results)), groups)
        assert sums.numbers() == wanted.numbers()


@pytest.mark.parametrize(
    ("places", "low", "high"),
    [(12, 1.0, 2.0), (2, 0.0, 1e12), (2, -np.inf, 1.0), (9, 1e-9, 1e3), (-1, 1.0, 2.0)],
)
def test_decimals_that_words_do_not_hold(places: int, low: float, high: float) -> None:
    assert _sum_of(places, low, high) is None


def test_words_are_shared_by_narrow_sums_only() -> None:
    """Sums at the ends of what their bits allow, beside each other: none runs into another."""
    random = np.random.default_rng(3)
    columns, fields = [random.integers(0, 3, 5000).tolist()], []
    from tessel.kernels.fields import SumField

    for place, bits in enumerate((1, 3, 13, 24, 30, 42)):
        values = np.where(random.random(5000) < 0.5, -(1 << bits) + 1, (1 << bits) - 1)
        columns.append(values.tolist())
        fields.append(SumField.of_integers(place + 1, (1 << bits) - 1))
    blocks = _of_integers(columns)
    steps = [(Op.LOAD, place, place, 0, 0) for place in range(len(columns))]
    program = _program(steps, blocks.facts.shape[2])
    codes = np.array(columns[0])
    for chosen in (fields, fields[::-1], fields[:1], fields[:2], fields[1:4], []):
        for form in FORMS:
            with in_form(form):
                found = group_sums([blocks], program, select=None, group=0, groups=3, fields=chosen)
            assert found is not None
            assert found.counts.tolist() == np.bincount(codes).tolist()
            for field, parts in zip(chosen, found.results, strict=True):
                sums: Any = sum(held << place for place, held in parts.items())
                values = np.array(columns[field.register])
                exact = [int(values[codes == group].sum()) for group in range(3)]
                assert np.asarray(sums).tolist() == exact


@given(
    whole=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=60),
    places=st.integers(0, 11),
    up=st.integers(0, 10),
    off=st.integers(-3, 3),
)
def test_what_computed_floats_are_off(whole: list[int], places: int, up: int, off: int) -> None:
    """Against exact fractions: floats some units beside the decimals that they stand for."""
    floats = np.array(whole) / float(10**places)
    for _ in range(abs(off)):
        floats = np.nextafter(floats, np.inf if off > 0 else -np.inf)
    blocks = _of_integers([floats.view(np.int64).tolist(), whole])
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.LOAD, 0, 1, 0, 0),
        (Op.FLOAT_RESIDUAL, 1, 0, 0, places << RESIDUAL_SHIFT | up),
    ]
    program = _program(steps, blocks.facts.shape[2])
    exact = [
        round((Fraction(each) * 10**places - meant) * 2**up)
        for each, meant in zip(floats.tolist(), whole, strict=True)
    ]
    for form in FORMS:
        with in_form(form):
            found = register_rows([blocks], program, select=None, registers=[1])
        assert found.tolist() == [exact]


_factors = st.one_of(
    st.floats(-(2.0**40), 2.0**40, allow_subnormal=False).filter(
        lambda value: value == 0 or abs(value) > 2.0**-200
    ),
    st.integers(-(1 << 53), 1 << 53).map(float),
)


@given(pairs=st.lists(st.tuples(_factors, _factors), min_size=1, max_size=60))
def test_what_rounding_takes_from_products(pairs: list[tuple[float, float]]) -> None:
    """Against exact fractions: each error equals the constant that it is compared with."""
    exact = [float(Fraction(a) * Fraction(b) - Fraction(a * b)) for a, b in pairs]
    columns = [[a for a, _ in pairs], [b for _, b in pairs], exact]
    blocks = _of_integers([np.array(column).view(np.int64).tolist() for column in columns])
    steps = [(Op.LOAD, place, place, 0, 0) for place in range(3)]
    steps += [(Op.DECIMAL, place, place, place, 0) for place in range(3)]
    steps += [(Op.MULTIPLY, 3, 0, 1, 0), (Op.PRODUCT_ERROR, 4, 0, 1, 3), (Op.EQUAL, 0, 4, 2, 0)]
    program = _program(steps, blocks.facts.shape[2])
    for form in FORMS:
        with in_form(form):
            assert select_rows(blocks, program, 0).all()

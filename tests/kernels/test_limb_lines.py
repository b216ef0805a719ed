"""Exact sums of many groups: kernels in each form, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tessel.kernels.limb_lines import (
    add_by_group,
    round_sums,
    sums_of_doubles,
    sums_of_parts,
    sums_of_sums,
)
from tests.kernels.forced import FORMS, in_form

GROUPS = 4
HOSTILE = [
    *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**-1022),
    *(-1.7976931348623157e308, 2.0**52 + 1, 0.1, -0.1, 1e16, 1.0, 2.0**-54),
]
DOUBLES = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-(10**8), 10**8).map(lambda cents: cents / 100),
    st.sampled_from(HOSTILE),
    st.sampled_from([math.inf, -math.inf]),
    st.floats(allow_nan=False),
)
NEAR_TIES = st.builds(
    lambda high, low, exponent: [math.ldexp(high, exponent), math.ldexp(low, exponent - 1)],
    st.integers(-(1 << 53), 1 << 53),
    st.sampled_from([-1, 1, 3]),
    st.integers(-1074, 900),
)


def parts(sums: FloatSums) -> list[Any]:
    flags = (sums.positive_infinity, sums.negative_infinity)
    return [each.tolist() for each in (sums.first_limb, sums.ends, sums.limbs, *flags)]


def answers(values: np.ndarray, codes: np.ndarray, divisors: np.ndarray, cut: int) -> list[Any]:
    """What there is to know of sums: the state, the merged state, and both roundings' bits."""
    whole = FloatSums.of_values(values, codes, GROUPS)
    pieces = [
        FloatSums.of_values(values[rows], codes[rows], GROUPS)
        for rows in (slice(0, cut), slice(cut, None))
    ]
    targets = np.tile(np.arange(GROUPS), 2)
    merged = FloatSums.stacked(pieces).merged(targets, GROUPS)
    states = [
        pa.chunked_array(chunks) for chunks in zip(*(p.to_arrays() for p in pieces), strict=True)
    ]
    chunked = FloatSums.merged_arrays(states, targets, GROUPS)
    assert parts(chunked) == parts(merged)
    rounded = [whole.rounded(), whole.rounded(divisors)]
    return [parts(whole), parts(merged), *(each.view(np.int64).tolist() for each in rounded)]


def canonical(totals: list[Fraction]) -> list[Any]:
    """Return first limbs, ends and limbs of sums, each a multiple of ``2**-1074``."""
    first_limb, ends, limbs = [], [0], []
    for total in totals:
        number = total * (1 << 1074)
        assert number.denominator == 1
        size, sign = abs(number.numerator), -1 if number < 0 else 1
        digits = [size >> 32 * place & 0xFFFFFFFF for place in range(-(-size.bit_length() // 32))]
        low = next((place for place, digit in enumerate(digits) if digit), 0)
        first_limb.append(low)
        limbs += [sign * digit for digit in digits[low:]]
        ends.append(len(limbs))
    return [first_limb, ends, limbs]


@pytest.mark.parametrize("form", FORMS)
@given(
    rows=st.lists(st.tuples(DOUBLES, st.integers(0, GROUPS - 1)), max_size=30),
    pairs=st.lists(NEAR_TIES, max_size=3),
    divisors=st.lists(st.integers(0, (1 << 31) - 1), min_size=GROUPS, max_size=GROUPS),
    cut=st.integers(0, 30),
)
def test_sums_of_doubles(
    form: str,
    rows: list[tuple[float, int]],
    pairs: list[list[float]],
    divisors: list[int],
    cut: int,
) -> None:
    rows = rows + [(value, group) for group, pair in enumerate(pairs) for value in pair]
    values = np.array([value for value, _ in rows], np.float64)
    codes = np.array([code for _, code in rows], np.int64)
    with in_form(form):
        found = answers(values, codes, np.array(divisors), cut)
    assert found[0] == found[1]  # the state does not know how rows were cut
    totals = [
        sum((Fraction(v) for v, code in rows if code == group and math.isfinite(v)), Fraction(0))
        for group in range(GROUPS)
    ]
    assert found[0][:3] == canonical(totals)
    for group in range(GROUPS):
        own = [value for value, code in rows if code == group]
        if all(map(math.isfinite, own)):
            assert bits(found[2][group]) == _rounded(totals[group])
            assert bits(found[3][group]) == _rounded(totals[group] / max(divisors[group], 1))


NARROW = st.builds(
    lambda mantissa, exponent: math.ldexp(mantissa, exponent),
    st.integers(-(1 << 53), 1 << 53),
    st.integers(-300, 280),
)
TINY = st.builds(lambda number: math.ldexp(number, -1074), st.integers(-(1 << 53), 1 << 53))


@pytest.mark.parametrize("form", FORMS)
@given(
    values=st.lists(NARROW) | st.lists(TINY),
    codes=st.lists(st.integers(0, 1 << 20)),
    groups=st.integers(1, 5),
    cut=st.integers(0, 20),
)
def test_values_that_are_no_wider_than_lines(
    form: str, values: list[float], codes: list[int], groups: int, cut: int
) -> None:
    owners = np.array([(codes or [0])[row % max(len(codes), 1)] for row in range(len(values))])
    owners = owners.astype(np.int64) % groups
    numbers = np.array(values, np.float64)
    totals = [sum(map(Fraction, numbers[owners == group]), Fraction(0)) for group in range(groups)]
    with in_form(form):
        whole = sums_of_doubles(numbers, owners, groups)
        pieces = [
            sums_of_doubles(numbers[rows], owners[rows], groups)
            for rows in (slice(cut, None), slice(0, cut))
        ]
        assert whole is not None
        merged = sums_of_sums(
            [piece for piece in pieces if piece is not None], np.tile(np.arange(groups), 2), groups
        )
        rounded = round_sums(*whole, None)
    assert merged is not None
    for found in (whole, merged):
        assert [part.tolist() for part in found] == canonical(totals)
    assert rounded.tolist() == [_rounded(total) for total in totals]


@pytest.mark.parametrize("form", FORMS)
def test_values_that_lines_do_not_take(form: str) -> None:
    code = np.zeros(2, np.int64)
    with in_form(form):
        for value in (math.inf, -math.inf, 1e300):
            assert sums_of_doubles(np.array([value, 1e-300]), code, 1) is None
        assert sums_of_doubles(np.zeros(0), code[:0], 1 << 17) is not None
        assert sums_of_doubles(np.ones(2), code, 1 << 17) is None  # too many lines for two rows


def bits(pattern: int) -> float:
    return float(np.int64(pattern).view(np.float64))


def _rounded(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


WHOLE = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([-(1 << 63), (1 << 63) - 1]),
    st.integers(-5, 5),
)


@pytest.mark.parametrize("form", FORMS)
@given(rows=st.lists(st.tuples(WHOLE, st.integers(0, GROUPS - 1)), max_size=30), cut=st.integers(0))
def test_sums_of_integers(form: str, rows: list[tuple[int, int]], cut: int) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    codes = np.array([code for _, code in rows], np.int64)
    wanted = [sum(value for value, code in rows if code == group) for group in range(GROUPS)]
    cut %= len(rows) + 1
    with in_form(form):
        whole = IntegerSums.of_integers(values, codes, GROUPS)
        pieces = [
            IntegerSums.of_integers(values[rows], codes[rows], GROUPS).to_arrays()
            for rows in (slice(0, cut), slice(cut, None))
        ]
        states = [pa.chunked_array(chunks) for chunks in zip(*pieces, strict=True)]
        merged = IntegerSums.merged(states, np.tile(np.arange(GROUPS), 2), GROUPS)
    assert [whole.number(group) for group in range(GROUPS)] == wanted
    assert whole.limbs.tolist() == merged.limbs.tolist()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_integers_of_any_type_by_group(form: str, dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    number = st.integers(max(int(limits.min), -(1 << 56)), min(int(limits.max), 1 << 56))
    rows = data.draw(st.lists(st.tuples(number, st.integers(0, GROUPS - 1))))
    sums = np.array([5, -7, 0, 1 << 60])
    wanted = [int(sums[group]) + sum(n for n, g in rows if g == group) for group in range(GROUPS)]
    codes = np.array([code for _, code in rows], np.int64)
    with in_form(form):
        add_by_group(sums, codes, np.array([number for number, _ in rows], dtype))
    assert sums.tolist() == wanted


@pytest.mark.parametrize("form", FORMS)
@given(
    parts_by_place=st.dictionaries(
        st.integers(0, 2000),
        st.lists(WHOLE.map(lambda number: number >> 2), min_size=GROUPS, max_size=GROUPS),
        min_size=1,
        max_size=4,
    )
)
def test_sums_of_parts(form: str, parts_by_place: dict[int, list[int]]) -> None:
    held = {place: np.array(numbers, np.int64) for place, numbers in parts_by_place.items()}
    totals = [
        Fraction(sum(numbers[group] << place for place, numbers in parts_by_place.items()))
        / (1 << 1074)
        for group in range(GROUPS)
    ]
    with in_form(form):
        found = parts(FloatSums.of_parts(held, GROUPS))
        narrow = sums_of_parts(held, GROUPS)
    assert found[:3] == canonical(totals)
    width = max(held) // 32 - min(held) // 32 + 4
    assert (narrow is None) == (width > 24)
    if narrow is not None:
        assert [part.tolist() for part in narrow] == found[:3]

"""Exact sums of many groups: compiled, in numpy, and as fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tests.kernels.forced import compiled_or_not

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


@given(
    rows=st.lists(st.tuples(DOUBLES, st.integers(0, GROUPS - 1)), max_size=30),
    pairs=st.lists(NEAR_TIES, max_size=3),
    divisors=st.lists(st.integers(0, (1 << 31) - 1), min_size=GROUPS, max_size=GROUPS),
    cut=st.integers(0, 30),
)
def test_sums_of_doubles(
    rows: list[tuple[float, int]], pairs: list[list[float]], divisors: list[int], cut: int
) -> None:
    rows = rows + [(value, group) for group, pair in enumerate(pairs) for value in pair]
    values = np.array([value for value, _ in rows], np.float64)
    codes = np.array([code for _, code in rows], np.int64)
    found = []
    for is_compiled in (True, False):
        with compiled_or_not(is_compiled):
            found.append(answers(values, codes, np.array(divisors), cut))
    assert found[0] == found[1]
    assert found[0][0] == found[0][1]  # the state does not know how rows were cut
    for group in range(GROUPS):
        own = [value for value, code in rows if code == group]
        if all(map(math.isfinite, own)):
            total = sum(map(Fraction, own), Fraction(0))
            assert bits(found[0][2][group]) == _rounded(total)
            assert bits(found[0][3][group]) == _rounded(total / max(divisors[group], 1))


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


@given(rows=st.lists(st.tuples(WHOLE, st.integers(0, GROUPS - 1)), max_size=30), cut=st.integers(0))
def test_sums_of_integers(rows: list[tuple[int, int]], cut: int) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    codes = np.array([code for _, code in rows], np.int64)
    wanted = [sum(value for value, code in rows if code == group) for group in range(GROUPS)]
    cut %= len(rows) + 1
    for is_compiled in (True, False):
        with compiled_or_not(is_compiled):
            whole = IntegerSums.of_integers(values, codes, GROUPS)
            pieces = [
                IntegerSums.of_integers(values[rows], codes[rows], GROUPS).to_arrays()
                for rows in (slice(0, cut), slice(cut, None))
            ]
            states = [pa.chunked_array(chunks) for chunks in zip(*pieces, strict=True)]
            merged = IntegerSums.merged(states, np.tile(np.arange(GROUPS), 2), GROUPS)
        assert [whole.number(group) for group in range(GROUPS)] == wanted
        assert whole.limbs.tolist() == merged.limbs.tolist()


@given(
    parts_by_place=st.dictionaries(
        st.integers(0, 2000),
        st.lists(WHOLE.map(lambda number: number >> 2), min_size=GROUPS, max_size=GROUPS),
        min_size=1,
        max_size=4,
    )
)
def test_sums_of_parts(parts_by_place: dict[int, list[int]]) -> None:
    held = {place: np.array(numbers, np.int64) for place, numbers in parts_by_place.items()}
    found = []
    for is_compiled in (True, False):
        with compiled_or_not(is_compiled):
            found.append(FloatSums.of_parts(held, GROUPS))
    assert parts(found[0]) == parts(found[1])
    for group in range(GROUPS):
        total = sum(numbers[group] << place for place, numbers in parts_by_place.items())
        own = range(int(found[0].ends[group]), int(found[0].ends[group + 1]))
        first = int(found[0].first_limb[group]) - own.start
        assert sum(int(found[0].limbs[j]) << 32 * (first + j) for j in own) == total

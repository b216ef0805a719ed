"""Exact sums by group against ``math.fsum`` and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.aggregates.kernels import exact_sum, integer_sum, part_sums
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums

MAX = math.ldexp(2 - 2**-52, 1023)
TINY = 5e-324
NORMAL = 2.2250738585072014e-308
HOSTILE = [
    0.0, -0.0, 1.0, -1.0, 2**-53, 2**-54, 1 + 2**-52, 1e16, -1e16, 1e308, -1e308, MAX, -MAX,
    TINY, -TINY, NORMAL, -NORMAL, NORMAL - TINY, 2.0**900, -(2.0**899), 2.0**970, 0.1, 1e-300,
]  # fmt: skip
doubles = st.one_of(st.sampled_from(HOSTILE), st.floats(allow_nan=False, allow_infinity=False))


def rounded(value: Fraction) -> float:
    """The nearest double: Python divides integers with correct rounding."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def expected(values: list[float], codes: list[int], groups: int) -> tuple[list[float], list[float]]:
    sums = [Fraction(0)] * groups
    counts = [0] * groups
    for value, code in zip(values, codes, strict=True):
        sums[code] += Fraction(value)
        counts[code] += 1
    means = [rounded(total / max(1, count)) for total, count in zip(sums, counts, strict=True)]
    return [rounded(total) for total in sums], means


def bits(values: np.ndarray | list[float]) -> list[int]:
    return np.asarray(values, np.float64).view(np.int64).tolist()


def check(values: np.ndarray, codes: np.ndarray, groups: int) -> None:
    sums = FloatSums.of_values(values, codes, groups)
    wanted_sums, wanted_means = expected(values.tolist(), codes.tolist(), groups)
    assert bits(sums.rounded()) == bits(wanted_sums)
    counts = np.bincount(codes, minlength=groups)
    assert bits(sums.rounded(counts)) == bits(wanted_means)


@given(st.lists(st.tuples(doubles, st.integers(0, 3)), max_size=40))
def test_sums_and_means_are_correctly_rounded(rows: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in rows], np.float64)
    check(values, np.array([code for _, code in rows], np.int64), 5)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_any_bit_pattern_is_summed(patterns: list[int]) -> None:
    values = np.array(patterns, np.uint64).view(np.float64)
    values = values[np.isfinite(values)]
    check(values, np.arange(len(values)) % 2, 2)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e308, 1e308, -1e308], 1e308),
        ([MAX, MAX, -MAX, -MAX, TINY], TINY),
        ([MAX, 2.0**969], MAX),
        ([MAX, 2.0**970], math.inf),
        ([-MAX, -MAX], -math.inf),
        ([1.0, 2**-53], 1.0),
        ([1.0, 2**-53, 2**-1074], 1 + 2**-52),
        ([1 + 2**-52, 2**-53], 1 + 2**-51),
        ([1e16, 1.0, -1e16], 1.0),
        ([0.1] * 10, 1.0),
        ([-0.0, -0.0], 0.0),
        ([], 0.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, MAX, MAX], -math.inf),
    ],
)
def test_one_group(values: list[float], total: float) -> None:
    sums = FloatSums.of_values(np.array(values, np.float64), np.zeros(len(values), np.int64), 1)
    assert bits(sums.rounded()) == bits([total])


def test_infinities_of_both_signs_are_not_a_number() -> None:
    values = np.array([np.inf, -np.inf, 1.0, np.inf])
    sums = FloatSums.of_values(values, np.array([0, 0, 1, 1]), 2).rounded()
    assert np.isnan(sums[0])
    assert sums[1] == np.inf


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([MAX, MAX], MAX),
        ([TINY, 0.0], 0.0),
        ([TINY, TINY, TINY, 0.0], TINY),
        ([3 * TINY, 0.0], 2 * TINY),
        ([-TINY, -TINY, -TINY, 0.0], -TINY),
        ([NORMAL, NORMAL - TINY], NORMAL),
        ([1.0, 1 + 2**-52], 1.0),
        ([1.0, 0.0, 0.0], 1 / 3),
    ],
)
def test_means_are_rounded_once(values: list[float], mean: float) -> None:
    codes = np.zeros(len(values), np.int64)
    sums = FloatSums.of_values(np.array(values), codes, 1)
    assert sums.rounded(np.array([len(values)])).tolist() == [mean]


def test_a_million_rows_with_cancellation() -> None:
    generator = np.random.default_rng(7)
    half = generator.normal(size=500_000) * 10.0 ** generator.integers(-200, 200, 500_000)
    values = np.concatenate([half, -half, generator.random(1_000)])
    generator.shuffle(values)
    codes = generator.integers(0, 3, len(values))
    found = FloatSums.of_values(values, codes, 3).rounded()
    assert bits(found) == bits([math.fsum(values[codes == group]) for group in range(3)])


@pytest.mark.parametrize("groups", [1, 40_000])
def test_many_rows_of_ordinary_numbers(groups: int) -> None:
    generator = np.random.default_rng(11)
    values = np.round(generator.random(200_000) * 100, 2)
    codes = generator.integers(0, groups, len(values))
    codes[:100_000] = 0
    found = FloatSums.of_values(values, codes, groups).rounded()
    order = np.argsort(codes, kind="stable")
    parts = np.split(values[order], np.searchsorted(codes[order], np.arange(1, groups)))
    assert bits(found) == bits([math.fsum(part) for part in parts])


def test_batches_end_before_the_integers_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_sums, "_CHUNK_BITS", 4)
    monkeypatch.setattr(part_sums, "_CHUNKS_A_BATCH", 2)
    monkeypatch.setattr(part_sums, "_BLOCK_ROWS", 8)
    monkeypatch.setattr(exact_sum, "_BLOCK_CELLS", 8)
    values = np.array(HOSTILE * 20)
    check(values, np.arange(len(values)) % 3, 3)
    check(np.full(200, 1 - 2.0**-53), np.zeros(200, np.int64), 1)


def test_huge_counts_divide_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([1.0, -3.0, TINY, 7e300])
    sums = FloatSums.of_values(values, np.arange(4), 4)
    counts = np.array([3 << 32, 5 << 33, 2, 3])
    wanted = [rounded(Fraction(v) / int(n)) for v, n in zip(values, counts, strict=True)]
    assert bits(sums.rounded(counts)) == bits(wanted)
    monkeypatch.setattr(exact_sum, "_DIVISOR_LIMIT", 1)
    assert bits(sums.rounded(np.array([3, 5, 2, 3]))) == bits([1 / 3, -3 / 5, 0.0, 7e300 / 3])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.one_of(doubles, st.just(math.inf)), st.integers(0, 3)), max_size=30),
    st.data(),
)
def test_any_cut_and_merge_tree_gives_the_same_state(
    rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    values = np.array([value for value, _ in rows], np.float64)
    codes = np.array([code for _, code in rows], np.int64)
    whole = FloatSums.of_values(values, codes, 4)
    owner = np.array([data.draw(st.integers(0, 4)) for _ in rows], np.int64)
    parts = [
        FloatSums.of_values(values[owner == part], codes[owner == part], 4) for part in range(5)
    ]
    while len(parts) > 1:
        first = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        second = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        columns = [
            [*a.to_pylist(), *b.to_pylist()]
            for a, b in zip(first.to_arrays(), second.to_arrays(), strict=True)
        ]
        arrays = [
            pa.array(column, like.type)
            for column, like in zip(columns, first.to_arrays(), strict=True)
        ]
        parts.append(FloatSums.from_arrays(arrays).merged(np.tile(np.arange(4), 2), 4))
    for one, other in zip(parts[0].to_arrays(), whole.to_arrays(), strict=True):
        assert one.equals(other)


# --- integers -------------------------------------------------------------------------------------

signed = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(signed, st.integers(0, 2)), max_size=40))
def test_integer_sums_means_and_overflow(rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for _, code in rows], np.int64)
    sums = IntegerSums.of_integers(np.array([v for v, _ in rows], np.int64), codes, 4)
    counts = np.bincount(codes, minlength=4)
    found, overflow = sums.to_integers(signed=True)
    floats, nearest = sums.mean_floats(counts), sums.mean_integers(counts)
    for group in range(4):
        total = sum(value for value, code in rows if code == group)
        count = max(1, int(counts[group]))
        assert sums.number(group) == total
        assert bool(overflow[group]) is not (-(2**63) <= total < 2**63)
        if not overflow[group]:
            assert int(found[group]) == total
        assert floats[group] == total / count
        assert int(nearest[group]) == round(Fraction(total, count))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=10))
def test_unsigned_sums(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    sums = IntegerSums.of_integers(array, np.zeros(len(values), np.int64), 1)
    found, overflow = sums.to_integers(signed=False)
    assert sums.number(0) == sum(values)
    assert bool(overflow[0]) is (sum(values) >= 2**64)
    if not overflow[0]:
        assert int(found[0]) == sum(values)
    assert sums.mean_floats(np.array([len(values)]))[0] == sum(values) / len(values)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=12), st.integers(-2, 38))
def test_decimal_sums_and_means(values: list[int], scale: int) -> None:
    words = np.array(
        [[_word(value), value >> 64] for value in values], np.int64
    ).reshape(-1, 2)  # fmt: skip
    sums = IntegerSums.of_decimals(words, np.zeros(len(values), np.int64), 1)
    assert sums.number(0) == sum(values)
    found = [int(word) for word in sums.to_words()[0]]
    assert sum((word % 2**64) << 64 * place for place, word in enumerate(found)) == sum(values) % (
        1 << 192
    )
    mean = Fraction(sum(values), max(1, len(values))) / Fraction(10) ** scale
    assert sums.mean_floats(np.array([len(values)]), scale)[0] == rounded(mean)


def _word(value: int) -> int:
    low = value % 2**64
    return low - 2**64 if low >= 2**63 else low


def test_integer_chunks_and_huge_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_sum, "_CHUNK_ROWS", 3)
    values = np.array([2**62, -(2**61), 2**63 - 1, -(2**63), 5] * 7, np.int64)
    sums = IntegerSums.of_integers(values, np.arange(35) % 2, 2)
    wanted = [sum(values[group::2].tolist()) for group in range(2)]
    assert [sums.number(group) for group in range(2)] == wanted
    counts = np.array([3 << 31, 7])
    floats = [total / int(n) for total, n in zip(wanted, counts, strict=True)]
    assert sums.mean_floats(counts).tolist() == floats
    nearest = [round(Fraction(total, int(n))) for total, n in zip(wanted, counts, strict=True)]
    assert sums.mean_integers(counts).tolist() == nearest

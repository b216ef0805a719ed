"""Exact sums against fractions and Python's integers, in every form of their kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import _float_sqrt_of_frac  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.kernels import accumulators
from tessel.kernels.exact_adding import add_by_group
from tessel.kernels.exact_spreads import exact_spreads
from tessel.kernels.exact_sums import ExactSums
from tests.kernels.forced import FORMS, in_form

GROUPS = 4
MAX = math.ldexp(2 - 2**-52, 1023)
TINY = 5e-324
NORMAL = 2.2250738585072014e-308
HOSTILE = [
    0.0, -0.0, 1.0, -1.0, 2**-53, 2**-54, 1 + 2**-52, 1e16, -1e16, 1e308, -1e308, MAX, -MAX,
    TINY, -TINY, NORMAL, -NORMAL, NORMAL - TINY, 2.0**900, -(2.0**899), 2.0**970, 0.1, 1e-300,
    2.0**31, -(2.0**31), 2.0**32, -(2.0**32), 2.0**63, -(2.0**63), 2.0**52 + 1,
]  # fmt: skip
NEAR = st.integers(-(10**8), 10**8).map(lambda cents: cents / 100)
DOUBLES = st.one_of(
    NEAR,
    st.sampled_from(HOSTILE),
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(math.ldexp, st.integers(-(1 << 53), 1 << 53).map(float), st.integers(-1074, 900)),
)
WHOLE = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 32, -(1 << 32)]),
    st.integers(-5, 5),
)
COUNTS = st.one_of(
    st.integers(0, 9), st.sampled_from([(1 << 31) - 1, 1 << 32, 3 << 33, 10**17, (1 << 63) - 1])
)
GROUP = st.integers(0, GROUPS - 1)
ROWS = st.lists(st.tuples(DOUBLES, GROUP), max_size=24)
CELLS = st.sampled_from([0, accumulators._CELLS])
"""With no cells for lines of one length, each line is as long as its own rows are wide."""


def columns(rows: Sequence[tuple[Any, int]], dtype: Any = np.float64) -> tuple[Any, Any]:
    """Values and groups as arrays."""
    return np.array([v for v, _ in rows], dtype), np.array([code for _, code in rows], np.int64)


def totals(values: Sequence[Any], codes: Sequence[int], groups: int = GROUPS) -> list[Fraction]:
    sums = [Fraction(0)] * groups
    for value, code in zip(values, codes, strict=True):
        sums[code] += Fraction(value)
    return sums


def exactly(sums: ExactSums) -> list[Fraction]:
    numbers = zip(*sums.numbers(), strict=True)
    return [Fraction(number) * Fraction(2) ** exponent for number, exponent in numbers]


def state(sums: ExactSums) -> list[Any]:
    fields = (*sums.limbs, sums.infinities)
    return [(each.dtype, each.tolist()) for each in fields]


def nearest(value: Fraction) -> float:
    """The nearest double: Python divides integers with correct rounding."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def bits(values: np.ndarray | Sequence[float]) -> list[int]:
    return np.asarray(values, np.float64).view(np.int64).tolist()


def check_canonical(sums: ExactSums) -> None:
    """No number is longer than it has to be."""
    firsts, ends, limbs = sums.limbs
    limbs = limbs.astype(np.int64)
    for first, start, stop in zip(firsts, ends[:-1], ends[1:], strict=True):
        own = limbs[start:stop]
        assert len(own) or first == 0
        assert not len(own) or own[0] != 0
        assert len(own) < 2 or own[-1] != own[-2] >> 31


# --- doubles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@given(
    rows=ROWS, counts=st.lists(COUNTS, min_size=GROUPS, max_size=GROUPS), scale=st.integers(0, 38),
    cut=st.integers(0, 24), cells=CELLS,
)  # fmt: skip
def test_doubles(
    form: str,
    rows: list[tuple[float, int]],
    counts: list[int],
    scale: int,
    cut: int,
    cells: int,
) -> None:
    values, codes = columns(rows)
    wanted = totals(values, codes)
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulators, "_CELLS", cells)
        whole = ExactSums.of_doubles(values, codes, GROUPS)
        parts = [
            ExactSums.of_doubles(values[rows], codes[rows], GROUPS)
            for rows in (slice(0, cut), slice(cut, None))
        ]
        merged = ExactSums.total(parts, np.tile(np.arange(GROUPS), 2), GROUPS)
        stacked = ExactSums.total([ExactSums.stacked(parts)], np.tile(np.arange(GROUPS), 2), GROUPS)
        sums, means = whole.rounded(), whole.rounded(np.array(counts))
        scaled = whole.rounded(np.array(counts), scale=scale)
    assert exactly(whole) == wanted
    check_canonical(whole)
    assert state(whole) == state(merged) == state(stacked)  # it does not know how rows were cut
    assert bits(sums) == bits([nearest(total) for total in wanted])
    quotients = [total / max(1, n) for total, n in zip(wanted, counts, strict=True)]
    assert bits(means) == bits([nearest(each) for each in quotients])
    assert bits(scaled) == bits([nearest(each / 10**scale) for each in quotients])


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_any_bit_pattern_is_summed(patterns: list[int]) -> None:
    values = np.array(patterns, np.uint64).view(np.float64)
    values = values[np.isfinite(values)]
    codes = np.arange(len(values)) % 2
    assert exactly(ExactSums.of_doubles(values, codes, 2)) == totals(values, codes, 2)


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
        ([0.1] * 10, 1.0),
        ([-0.0, -0.0], 0.0),
        ([], 0.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, MAX, MAX], -math.inf),
        ([-math.inf, 1.0, math.inf], math.nan),
    ],
)
def test_one_group(values: list[float], total: float) -> None:
    sums = ExactSums.of_doubles(np.array(values, np.float64), np.zeros(len(values), np.int64), 1)
    np.testing.assert_array_equal(sums.rounded(), [total])
    assert not np.signbit(sums.rounded()[0]) or total < 0


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
    sums = ExactSums.of_doubles(np.array(values), np.zeros(len(values), np.int64), 1)
    assert sums.rounded(np.array([len(values)])).tolist() == [mean]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(DOUBLES | st.sampled_from([math.inf, -math.inf]), GROUP), max_size=30),
    st.data(),
)
def test_any_cut_and_merge_tree_gives_the_same_state(
    rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    values, codes = columns(rows)
    owner = np.array([data.draw(st.integers(0, 4)) for _ in rows], np.int64)
    parts = [
        ExactSums.of_doubles(values[owner == part], codes[owner == part], GROUPS)
        for part in range(5)
    ]
    while len(parts) > 1:
        pair = [parts.pop(data.draw(st.integers(0, len(parts) - 1))) for _ in range(2)]
        parts.append(ExactSums.total(pair, np.tile(np.arange(GROUPS), 2), GROUPS))
    assert state(parts[0]) == state(ExactSums.of_doubles(values, codes, GROUPS))


def test_a_million_rows_with_cancellation() -> None:
    generator = np.random.default_rng(7)
    half = generator.normal(size=500_000) * 10.0 ** generator.integers(-200, 200, 500_000)
    values = np.concatenate([half, -half, generator.random(1_000)])
    generator.shuffle(values)
    codes = generator.integers(0, 3, len(values))
    found = ExactSums.of_doubles(values, codes, 3).rounded()
    assert bits(found) == bits([math.fsum(values[codes == group]) for group in range(3)])


def test_many_groups_of_any_width() -> None:
    """Accumulators of one length would take 17 GB here."""
    generator = np.random.default_rng(11)
    values = generator.normal(size=60_000) * 10.0 ** generator.integers(-300, 300, 60_000)
    codes = generator.integers(0, 3_000_000, len(values))
    sums = ExactSums.of_doubles(values, codes, 3_000_000)
    assert len(sums.limbs.limbs) < 70 * len(values)
    found = sums.rounded()
    order = np.argsort(codes, kind="stable")
    there, starts = np.unique(codes[order], return_index=True)
    parts = np.split(values[order], starts[1:])
    assert bits(found[there]) == bits([math.fsum(part) for part in parts])
    assert np.count_nonzero(found) <= len(there)


def test_billions_of_rows_by_merging() -> None:
    """Each round adds 2,048 times what there is: 2**55 rows of the largest numbers."""
    codes, zeros = np.zeros(2048, np.int64), np.zeros(1, np.int64)
    values: list[tuple[ExactSums, Fraction]] = [
        (ExactSums.of_doubles(np.array([-MAX]), zeros, 1), -Fraction(MAX)),
        (ExactSums.of_integers(np.array([-(2**63)]), zeros, 1), Fraction(-(2**63))),
        (ExactSums.of_integers(np.array([2**64 - 1], np.uint64), zeros, 1), Fraction(2**64 - 1)),
    ]
    for sums, value in values:
        for _ in range(5):
            sums = ExactSums.total([sums] * 2048, codes, 1)
        check_canonical(sums)
        assert exactly(sums) == [value * 2**55]
        assert sums.rounded(np.array([2**55])).tolist() == [nearest(value)]


def test_cells_are_carried_before_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulators, "_MOST_ROWS", 8)
    values = np.array(HOSTILE * 20)
    codes = np.arange(len(values)) % 3
    sums = ExactSums.of_doubles(values, codes, 3)
    assert exactly(sums) == totals(values, codes, 3)
    assert state(ExactSums.total([sums] * 9, np.tile(np.arange(3), 9), 3)) == state(
        ExactSums.of_doubles(np.tile(values, 9), np.tile(codes, 9), 3)
    )


@pytest.mark.parametrize("form", FORMS)
@given(rows=st.lists(st.tuples(st.tuples(DOUBLES, DOUBLES), GROUP), max_size=20), cells=CELLS)
def test_products(form: str, rows: list[tuple[tuple[float, float], int]], cells: int) -> None:
    pairs, codes = columns(rows)
    left, right = pairs.reshape(-1, 2).T
    products = [Fraction(one) * Fraction(other) for (one, other), _ in rows]
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulators, "_CELLS", cells)
        sums = ExactSums.of_products([left], [right], codes, GROUPS)
        halves = ExactSums.of_products([left, right], [right], codes, GROUPS)
    assert exactly(sums) == totals(products, codes)
    squares = [
        product + Fraction(other) ** 2 for product, other in zip(products, right, strict=True)
    ]
    assert exactly(halves) == totals(squares, codes)
    check_canonical(sums)


def test_products_of_infinite_factors() -> None:
    endless, high = np.array([np.inf, np.inf, -np.inf, 1.0]), np.array([2.0, 0.0, 3.0, 4.0])
    sums = ExactSums.of_products([endless], [-high, high / 2], np.arange(4), 4)
    np.testing.assert_array_equal(sums.rounded(), [-np.inf, np.nan, np.inf, -2.0])


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@given(rows=st.lists(st.tuples(WHOLE, GROUP), max_size=30), counts=COUNTS, cells=CELLS)
def test_integers(form: str, rows: list[tuple[int, int]], counts: int, cells: int) -> None:
    values, codes = columns(rows, np.int64)
    divisors = np.maximum(np.bincount(codes, minlength=GROUPS), counts)
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulators, "_CELLS", cells)
        sums = ExactSums.of_integers(values, codes, GROUPS)
        found, overflow = sums.integers(signed=True)
        means = sums.rounded_integers(divisors)
        floats = sums.rounded(divisors)
    check_canonical(sums)
    for group in range(GROUPS):
        total = sum(value for value, code in rows if code == group)
        count = max(1, int(divisors[group]))
        assert sums.number(group) == total
        assert bool(overflow[group]) is not (-(2**63) <= total < 2**63)
        assert overflow[group] or int(found[group]) == total
        assert int(means[group]) == round(Fraction(total, count))
        assert floats[group] == total / count


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=10))
def test_unsigned_integers(form: str, values: list[int]) -> None:
    with in_form(form):
        sums = ExactSums.of_integers(
            np.array(values, np.uint64), np.zeros(len(values), np.int64), 1
        )
        found, overflow = sums.integers(signed=False)
    assert sums.number(0) == sum(values)
    assert bool(overflow[0]) is (sum(values) >= 2**64)
    assert overflow[0] or int(found[0]) == sum(values)


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.integers(-(2**127), 2**127 - 1), max_size=12), st.integers(-4, 38))
def test_decimals(form: str, values: list[int], scale: int) -> None:
    words = np.frombuffer(b"".join(v.to_bytes(16, "little", signed=True) for v in values), np.int64)
    count = np.array([len(values)])
    with in_form(form):
        sums = ExactSums.of_decimals(words.reshape(-1, 2), np.zeros(len(values), np.int64), 1)
        found, fits = sums.words(2)
        mean = sums.rounded(count, scale=scale)
    total = sum(values)
    assert sums.number(0) == total
    assert bool(fits[0]) is (-(2**127) <= total < 2**127)
    assert not fits[0] or int.from_bytes(found.tobytes(), "little", signed=True) == total
    assert mean[0] == nearest(Fraction(total, max(1, len(values))) / Fraction(10) ** scale)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_integers_of_any_type_by_group(form: str, dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    number = st.integers(max(int(limits.min), -(1 << 56)), min(int(limits.max), 1 << 56))
    rows = data.draw(st.lists(st.tuples(number, GROUP)))
    numbers, codes = columns(rows, dtype)
    sums = np.array([5, -7, 0, 1 << 60])
    wanted = [int(sums[group]) + sum(n for n, g in rows if g == group) for group in range(GROUPS)]
    with in_form(form):
        add_by_group(sums, codes, numbers)
        exact = ExactSums.of_integers(numbers, codes, GROUPS)
    assert sums.tolist() == wanted
    assert exactly(exact) == totals(numbers.tolist(), codes)


@pytest.mark.parametrize("form", FORMS)
@given(
    parts=st.dictionaries(
        st.integers(-1200, 900),
        st.lists(WHOLE.map(lambda number: number >> 1), min_size=GROUPS, max_size=GROUPS),
        max_size=4,
    ),
    exponent=st.integers(-1300, 800),
)
def test_parts_and_words(form: str, parts: dict[int, list[int]], exponent: int) -> None:
    with in_form(form):
        sums = ExactSums.of_parts({place: np.array(n) for place, n in parts.items()}, GROUPS)
        words, fits = sums.words(3, exponent)
    wanted = [
        sum((Fraction(n[group]) * Fraction(2) ** place for place, n in parts.items()), Fraction(0))
        for group in range(GROUPS)
    ]
    assert exactly(sums) == wanted
    check_canonical(sums)
    low, high = sums.bit_range
    for total, word, fit in zip(wanted, words, fits, strict=True):
        number = math.floor(total / Fraction(2) ** exponent)
        assert bool(fit) is (-(2**191) <= number < 2**191)
        assert not fit or int.from_bytes(word.tobytes(), "little", signed=True) == number
        assert (total / Fraction(2) ** low).denominator == 1
        assert abs(total) <= Fraction(2) ** high


# --- windows and variances ------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@given(
    rows=st.lists(DOUBLES | st.sampled_from([math.inf, -math.inf]), max_size=20),
    data=st.data(),
    sliding=st.booleans(),
)
def test_windows(form: str, rows: list[float], data: st.DataObject, sliding: bool) -> None:
    place = st.integers(0, len(rows))
    bounds = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=8))
    starts, stops = ([pair[side] for pair in bounds] for side in (0, 1))
    if sliding:
        starts, stops = sorted(starts), sorted(stops)
    order = data.draw(st.permutations(range(len(rows))))
    values = np.array(rows, np.float64)
    chosen = [[rows[row] for row in order[a:b]] for a, b in zip(starts, stops, strict=True)]
    codes = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
    with in_form(form):
        each = ExactSums.of_doubles(values, np.arange(len(rows)), len(rows))
        found = each.windows(*(np.array(ends, np.int64) for ends in (starts, stops, order)))
        flat = np.array([value for part in chosen for value in part], np.float64)
        wanted = ExactSums.of_doubles(flat, codes, len(chosen))
    assert state(found) == state(wanted)


def root_to_integer(value: Fraction) -> int:
    """Return the integer nearest to a root, half to even."""
    twice = math.isqrt(4 * value.numerator // value.denominator)
    whole, odd = divmod(twice, 2)
    exact = twice * twice * value.denominator == 4 * value.numerator
    return whole + (whole & 1 if odd and exact else odd)


@pytest.mark.parametrize("form", FORMS)
@given(
    values=st.lists(DOUBLES, max_size=8) | st.lists(WHOLE.map(float), max_size=8),
    rows=st.sampled_from([1, 3, 1 << 16, 1 << 33]),
    ddof=st.integers(0, 3),
    of_mean=st.booleans(),
    factors=st.sampled_from([[], [86_400, 86_400], [10**9, 10**9, 7]]),
    divisors=st.sampled_from([[], [10**9] * 8, [100]]),
)
def test_spreads(
    form: str,
    values: list[float],
    rows: int,
    ddof: int,
    of_mean: bool,
    factors: list[int],
    divisors: list[int],
) -> None:
    doubles, codes = np.array(values, np.float64), np.zeros(len(values), np.int64)
    count = len(values) * rows
    options: dict[str, Any] = {
        "ddof": ddof,
        "of_mean": of_mean,
        "factors": np.array(factors, np.int64),
        "divisors": np.array(divisors, np.int64),
    }
    with in_form(form):
        sums = ExactSums.of_parts({}, 1)
        squares = ExactSums.of_parts({}, 1)
        if values:
            single = ExactSums.of_doubles(doubles, codes, 1)
            square = ExactSums.of_products([doubles], [doubles], codes, 1)
            sums, squares = _times(single, rows), _times(square, rows)
        counts = np.array([count])
        var, _ = exact_spreads(sums, squares, counts, root=False, whole=False, **options)
        std, _ = exact_spreads(sums, squares, counts, root=True, whole=False, **options)
        whole, fits = exact_spreads(sums, squares, counts, root=True, whole=True, **options)
    if count <= ddof:
        assert (var[0], std[0], whole[0]) == (0, 0, 0)
        return
    total = sum(map(Fraction, values), Fraction(0)) * rows
    exact = count * sum((Fraction(value) ** 2 for value in values), Fraction(0)) * rows - total**2
    exact *= Fraction(math.prod(factors), math.prod(divisors) * count * (count - ddof))
    exact /= count if of_mean else 1
    assert var[0] == nearest(exact)
    try:
        assert std[0] == (_float_sqrt_of_frac(exact.numerator, exact.denominator) if exact else 0)
    except OverflowError:
        assert std[0] == math.inf
    root = root_to_integer(exact)
    assert bool(fits[0]) is (root < 1 << 63)
    assert not fits[0] or int(whole[0]) == root


def _times(sums: ExactSums, rows: int) -> ExactSums:
    """Add a sum to itself so many times, by halves."""
    found, power = ExactSums.of_parts({}, 1), sums
    while rows:
        pair = np.zeros(2, np.int64)
        if rows & 1:
            found = ExactSums.total([found, power], pair, 1)
        power, rows = ExactSums.total([power, power], pair, 1), rows >> 1
    return found


@pytest.mark.parametrize("form", FORMS)
@given(st.integers(1, (1 << 62) - 1), st.integers(-3, 3))
def test_roots_at_their_edges(form: str, root: int, more: int) -> None:
    """Two values a sum of which is 0 have the variance of their squares: a square, or near one."""
    number = max(root * root + more, 0)
    squares = ExactSums.of_parts({0: np.array([number & 0xFFFFFFFF]),
                                  32: np.array([number >> 32 & 0xFFFFFFFF]),
                                  64: np.array([number >> 64])}, 1)  # fmt: skip
    none = np.zeros(0, np.int64)
    with in_form(form):
        found, fits = exact_spreads(
            ExactSums.of_parts({}, 1), squares, np.array([1]), ddof=0, of_mean=False, root=True,
            whole=True, factors=none, divisors=none,
        )  # fmt: skip
    assert fits[0]
    assert int(found[0]) == root_to_integer(Fraction(number))


@given(
    states=st.lists(
        st.dictionaries(
            st.sampled_from([-33, 0, 0, 32]),
            st.lists(
                st.one_of(st.integers(-9, 9), st.integers(-(1 << 60), 1 << 60)),
                min_size=GROUPS,
                max_size=GROUPS,
            ),
            max_size=2,
        ),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
    room=st.booleans(),
    counts=st.one_of(st.none(), st.lists(COUNTS, min_size=GROUPS, max_size=GROUPS)),
    scale=st.integers(0, 20),
)
def test_parts_and_limbs_are_one_sum(
    states: list[dict[int, list[int]]],
    data: st.DataObject,
    room: bool,
    counts: list[int] | None,
    scale: int,
) -> None:
    """Whether sums are added and rounded in parts, or as limbs, is seen nowhere."""
    parts: list[ExactSums] = []
    for state in states:
        held = {place: np.array(numbers) for place, numbers in state.items()}
        most = max((abs(n) for numbers in state.values() for n in numbers), default=0)
        parts.append(
            ExactSums.of_parts(held, GROUPS, most) if room else ExactSums.of_parts(held, GROUPS)
        )
    as_limbs = [ExactSums(GROUPS, each.limbs) for each in parts]
    codes = np.array(data.draw(st.lists(GROUP, min_size=GROUPS, max_size=GROUPS)) * len(parts))
    found, wanted = (ExactSums.total(each, codes, GROUPS) for each in (parts, as_limbs))
    taken = np.array(data.draw(st.lists(GROUP, max_size=3)), np.int64)
    divisors = None if counts is None else np.array(counts)
    few = None if divisors is None else divisors[taken]
    for one, other, by in (
        (found, wanted, divisors),
        (parts[0], as_limbs[0], divisors),
        (found.take(taken), wanted.take(taken), few),
    ):
        assert one.rounded(by, scale=scale).tobytes() == other.rounded(by, scale=scale).tobytes()
        for signed in (True, False):
            numbers, past = one.integers(signed=signed)
            numbers_wanted, past_wanted = other.integers(signed=signed)
            assert past.tolist() == past_wanted.tolist()
            assert numbers[~past].tolist() == numbers_wanted[~past].tolist()
        for left, right in zip(one.limbs, other.limbs, strict=True):
            assert left.tobytes() == right.tobytes()

"""Aggregates of windows against those of groups, extremes of windows against Python's own."""

from __future__ import annotations

import math
import statistics
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.aggregates import Mean, Sem, Std, Sum, Var
from tessel.clauses.along_rows import window_aggregates
from tessel.clauses.along_rows.window_aggregates import Windows, window_aggregate
from tessel.kernels.exact_sums import ExactSums
from tessel.kernels.window_rows import (
    KeyRuns,
    row_windows,
    rows_until,
    short_window_sums,
    window_best,
    window_lengths,
    without_short,
)
from tessel.kernels.window_spreads import window_spreads
from tests.kernels.forced import FORMS, in_form
from tests.strategies.tables import bits

wild = st.floats(allow_nan=False) | st.sampled_from(
    [5e-324, -5e-324, 1.7e308, 2.0**-1022, 0.1, -0.0]
)
NUMBERS = {
    pa.float64(): wild,
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.decimal128(38, 2): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal(n).scaleb(-2, Context(prec=50))
    ),
}


@st.composite
def _windows(draw: st.DrawFn, rows: int) -> tuple[np.ndarray, np.ndarray]:
    bounds = st.lists(st.integers(0, rows), min_size=2, max_size=2).map(sorted)
    drawn = draw(st.lists(bounds, max_size=12))
    return tuple(np.array([pair[side] for pair in drawn], np.int64) for side in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_sums_of_windows_are_those_of_groups(kind: pa.DataType, data: st.DataObject) -> None:
    values = pa.array(data.draw(st.lists(NUMBERS[kind], max_size=20)), kind)
    starts, stops = data.draw(_windows(len(values)))
    chosen = [values.slice(a, b - a) for a, b in zip(starts, stops, strict=True)]
    codes = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
    flat = pa.concat_arrays([values.slice(0, 0), *chosen])
    for aggregate in (Sum(), Mean()):
        found = _answer(
            window_aggregate, aggregate, pa.chunked_array([values]), Windows(starts, stops), 0, "v"
        )
        assert found == _answer(aggregate.compute, flat, codes, len(chosen), "v")


def _answer(compute: Any, *arguments: Any) -> list[Any]:
    try:
        found = compute(*arguments)
    except OverflowError as error:
        return [str(error)]
    return [found.type, *map(repr, found.to_pylist())]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60)
@given(data=st.data(), numbers=st.lists(st.integers(-9, 9), max_size=40), sliding=st.booleans())
def test_extremes_of_windows(
    form: str, data: st.DataObject, numbers: list[int], sliding: bool
) -> None:
    starts, stops = data.draw(_windows(len(numbers)))
    if sliding:
        starts, stops = np.sort(starts), np.sort(stops)
    pairs: list[tuple[bool, Any]] = [(False, min), (True, max)]
    for greatest, best in pairs:
        with in_form(form):
            found = window_best(np.array(numbers, np.int64), starts, stops, greatest=greatest)
        for a, b, value in zip(starts, stops, found, strict=True):
            assert a == b or value == best(numbers[a:b])


NEAR = (
    st.integers(-(2**53), 2**53).map(lambda n: n * 2.0**-40)
    | st.sampled_from([0.0, -0.0, 0.1, 0.3, 1 / 3, 2.0**-20, 1e3, -1e3])
    | st.floats(-1e4, 1e4)
).filter(lambda v: v == 0 or abs(v) > 1e-6)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60)
@given(data=st.data(), sliding=st.booleans())
def test_short_sums_and_means_are_rounded_once(
    form: str, data: st.DataObject, sliding: bool
) -> None:
    values = data.draw(st.lists(NEAR, max_size=30))
    starts, stops = data.draw(_windows(len(values)))
    if sliding:
        starts, stops = np.sort(starts), np.sort(stops)
    doubles = np.array(values, np.float64)
    with in_form(form):
        sums = short_window_sums(doubles, starts, stops)
        means = short_window_sums(doubles, starts, stops, mean=True)
    assert sums is not None
    assert means is not None
    for a, b, total, mean in zip(starts, stops, sums, means, strict=True):
        exact = sum(map(Fraction, values[a:b]), Fraction(0))
        assert total == float(exact)
        assert math.copysign(1, total) == (-1 if exact < 0 else 1)
        assert mean == float(exact / max(1, b - a))


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.integers(0, 60),
    length=st.integers(1, 400),
    halves=st.booleans(),
)
def test_short_means_agree_with_limbs_wherever_they_fit(
    seed: int, spread: int, length: int, halves: bool
) -> None:
    random = np.random.default_rng(seed)
    whole = random.integers(-(2**53), 2**53, 600)
    # Few bits give sums and means that lie between two doubles, or all but.
    whole = whole >> 50 if halves else whole
    values = np.ldexp(whole.astype(np.float64), -random.integers(0, spread + 1, 600))
    stops = np.arange(1, 601)
    starts = np.maximum(stops - length, 0)
    exact = ExactSums.of_doubles(values, np.arange(600), 600).windows(starts, stops)
    for mean, wanted in ((False, exact.rounded()), (True, exact.rounded(stops - starts))):
        found = short_window_sums(values, starts, stops, mean=mean)
        if found is not None:
            np.testing.assert_array_equal(found, wanted)
    assert spread > 20 or found is not None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_integers_up_to_what_a_double_holds(form: str, length: int) -> None:
    most = (2**53 - 1) // length
    numbers = [most, -most, most - 1, 1, -1, most, most, 1 - most, 2, 0, -3, -most, -most] * 50
    stops = np.arange(1, len(numbers) + 1)
    starts = np.maximum(stops - length, 0)
    own = [numbers[a:b] for a, b in zip(starts, stops, strict=True)]
    column = pa.chunked_array([pa.array(numbers)])
    with in_form(form):
        sums = window_aggregate(Sum(), column, Windows(starts, stops), None, "v")
        means = window_aggregate(Mean(), column, Windows(starts, stops), None, "v")
    assert sums.to_pylist() == list(map(sum, own))
    assert means.to_pylist() == [float(Fraction(sum(each), len(each))) for each in own]


@pytest.mark.parametrize("form", FORMS)
@given(
    times=st.lists(st.integers(-5, 5)).map(sorted),
    bounds=st.lists(st.integers(-6, 6)).map(sorted),
    included=st.booleans(),
)
def test_rows_until(form: str, times: list[int], bounds: list[int], included: bool) -> None:
    with in_form(form):
        found = rows_until(np.array(times, int), np.array(bounds, int), included=included)
    wanted = [sum(t < b or (included and t == b) for t in times) for b in bounds]
    assert found.tolist() == wanted


@st.composite
def _key_runs(draw: st.DrawFn) -> KeyRuns:
    runs = draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=5))
    bounds = np.cumsum([0, *(sum(run) for run in runs)])
    firsts = bounds[:-1] + np.array([run[0] for run in runs], int)
    return KeyRuns(bounds, firsts, firsts + np.array([run[1] for run in runs], int))


def _asked(runs: KeyRuns) -> list[tuple[int, range]]:
    """Return each row that is asked about, with the rows of its key."""
    keys = zip(runs.bounds, runs.bounds[1:], runs.firsts, runs.lasts, strict=False)
    return [(row, range(a, b)) for a, b, first, last in keys for row in range(first, last)]


@pytest.mark.parametrize("form", FORMS)
@given(
    runs=_key_runs(),
    first=st.integers(-6, 6) | st.just(-(2**62)),
    length=st.integers(0, 6) | st.just(2**62),
    least=st.integers(0, 4),
)
def test_windows_of_rows_by_key(
    form: str, runs: KeyRuns, first: int, length: int, least: int
) -> None:
    with in_form(form):
        starts, stops = row_windows(runs, first, first + length)
        shortest, longest = window_lengths(starts, stops)
        long = without_short(starts, stops, least)
    held = [
        [other for other in key if first <= other - row < first + length]
        for row, key in _asked(runs)
    ]
    assert [[*range(a, b)] for a, b in zip(starts, stops, strict=True)] == held
    assert shortest == min(map(len, held), default=1)
    assert longest == max(map(len, held), default=1)
    assert (stops - long).tolist() == [len(h) if len(h) >= least else 0 for h in held]


@pytest.mark.parametrize("form", FORMS)
@given(runs=_key_runs(), data=st.data(), included=st.booleans())
def test_rows_until_by_key(form: str, runs: KeyRuns, data: st.DataObject, included: bool) -> None:
    times = np.array(data.draw(st.lists(st.integers(-5, 5), **_size(runs.bounds[-1]))), int)
    bounds = np.array(data.draw(st.lists(st.integers(-6, 6), **_size(len(runs)))), int)
    owners = [key for _, key in _asked(runs)]
    for start, stop in zip(runs.bounds, runs.bounds[1:], strict=False):
        times[start:stop].sort()
        bounds[[at for at, key in enumerate(owners) if key == range(start, stop)]] = np.sort(
            bounds[[at for at, key in enumerate(owners) if key == range(start, stop)]]
        )
    with in_form(form):
        found = rows_until(times, bounds, included=included, runs=runs)
    assert found.tolist() == [
        key.start + sum(times[at] < bound or (included and times[at] == bound) for at in key)
        for key, bound in zip(owners, bounds, strict=True)
    ]


def _size(count: int) -> dict[str, int]:
    return {"min_size": int(count), "max_size": int(count)}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(
    data=st.data(),
    values=st.lists(NEAR, max_size=30)
    | st.lists(wild, max_size=12)
    | st.lists(st.integers(-3, 3), max_size=30),
    sliding=st.booleans(),
)
def test_spreads_of_windows_are_those_of_limbs(
    form: str, data: st.DataObject, values: list[Any], sliding: bool
) -> None:
    column = pa.array(values) if values else pa.array([], pa.float64())
    starts, stops = data.draw(_windows(len(values)))
    if sliding:
        starts, stops = np.sort(starts), np.sort(stops)
    chunked, wanted = pa.chunked_array([column]), Windows(starts, stops)
    for aggregate in (Var(), Std(0), Sem(2)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(window_aggregates, "window_spreads", lambda *_, **__: None)
            of_limbs = window_aggregate(aggregate, chunked, wanted, None, "v").cast(pa.float64())
        with in_form(form):
            found = window_aggregate(aggregate, chunked, wanted, None, "v").cast(pa.float64())
        assert bits(found) == bits(of_limbs)


@pytest.mark.parametrize("form", FORMS)
def test_spreads_that_are_not_certain_are_said_to_be(form: str) -> None:
    # The middle between two doubles, and values cut to three digits that do not tell.
    halves = np.array([0.0, 2.0**27 + 1, 2.0**27 + 1, 0.0])
    far = np.array([1e-25, 3e-25, 1.0, -1.0])
    for values, sure in ((halves, None), (far, [False, True])):
        starts, stops = np.array([0, 2]), np.array([2, 4])
        with in_form(form):
            found = window_spreads(values, starts, stops, ddof=1, root=False, of_mean=False)
        assert found is not None
        wanted = [statistics.variance(map(Fraction, values[a:b])) for a, b in ((0, 2), (2, 4))]
        for value, certain, exact in zip(*found, wanted, strict=True):
            assert not certain or value == float(exact)
        assert sure is None or found[1].tolist() == sure


def test_what_does_not_fit_is_left_to_limbs() -> None:
    starts, stops = np.array([0]), np.array([2])
    for values in ([1e300, 1.0], [1.0, 1e-30], [float("inf"), 1.0], [5e-324, 5e-324]):
        assert short_window_sums(np.array(values), starts, stops) is None

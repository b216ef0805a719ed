"""Variances of windows and their roots: the kernel in each form against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.kernels.window_spreads import window_spreads
from tests.kernels.forced import FORMS, in_form

_NUMBERS = (
    st.integers(-9, 9).map(float)
    | st.integers(-(10**8), 10**8).map(lambda cents: cents / 100)
    | st.floats(-1e4, 1e4).filter(lambda value: value == 0 or abs(value) > 1e-6)
)


def _root(exact: Fraction) -> float:
    """Return the correctly rounded square root."""
    if not exact:
        return 0.0
    # The root of a number scaled so that its floor has 70 bits or more, and whether there is more.
    shift = max(0, 140 - exact.numerator.bit_length() + exact.denominator.bit_length())
    shift += shift % 2
    scaled = (exact.numerator << shift) // exact.denominator
    floor = math.isqrt(scaled)
    is_whole = floor * floor * exact.denominator == exact.numerator << shift
    return float(Fraction(2 * floor + (not is_whole), 2 << shift // 2))


def _spread(values: list[float], ddof: int, *, root: bool, of_mean: bool) -> float:
    count = len(values)
    if count <= ddof:
        return 0.0
    held = [Fraction(value) for value in values]
    mean = sum(held, Fraction(0)) / count
    exact = sum(((value - mean) ** 2 for value in held), Fraction(0)) / (count - ddof)
    exact = exact / count if of_mean else exact
    return _root(exact) if root else float(exact)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60)
@given(
    values=st.lists(_NUMBERS, max_size=25),
    data=st.data(),
    ddof=st.integers(0, 3),
    root=st.booleans(),
    of_mean=st.booleans(),
    sliding=st.booleans(),
)
def test_what_is_certain_is_rounded_once(
    form: str,
    values: list[float],
    data: st.DataObject,
    ddof: int,
    root: bool,
    of_mean: bool,
    sliding: bool,
) -> None:
    bound = st.integers(0, len(values))
    pairs = data.draw(st.lists(st.tuples(bound, bound).map(sorted), max_size=12))
    starts, stops = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    if sliding:
        starts, stops = np.sort(starts), np.sort(stops)
    with in_form(form):
        made = window_spreads(
            np.array(values, np.float64), starts, stops, ddof=ddof, root=root, of_mean=of_mean
        )
    assert made is not None
    for start, stop, found, certain in zip(starts, stops, *made, strict=True):
        own = values[start:stop]
        if len(own) <= ddof or len(set(own)) == 1:
            assert certain
            assert found == 0.0
        elif certain:
            assert found == _spread(own, ddof, root=root, of_mean=of_mean)


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_nearly_all_is_certain(form: str, root: bool) -> None:
    random = np.random.default_rng(8)
    values = random.normal(size=600)
    stops = np.arange(1, 601)
    starts = np.maximum(stops - 50, 0)
    with in_form(form):
        made = window_spreads(values, starts, stops, ddof=1, root=root, of_mean=False)
    assert made is not None
    found, certain = made
    assert certain.sum() >= 595
    for row in range(0, 600, 13):
        own = values[starts[row] : stops[row]].tolist()
        assert not certain[row] or found[row] == _spread(own, 1, root=root, of_mean=False)


@pytest.mark.parametrize("form", FORMS)
def test_what_the_kernel_does_not_take(form: str) -> None:
    start, stop = np.array([0]), np.array([2])
    more = {"ddof": 1, "root": False, "of_mean": False}
    with in_form(form):
        for value in (np.nan, np.inf, 5e-324, 1e100, 1e-100):
            assert window_spreads(np.array([1.0, value]), start, stop, **more) is None  # type: ignore[arg-type]
        ones = np.ones((1 << 14) + 1)
        assert window_spreads(ones, start, np.array([len(ones)]), **more) is None  # type: ignore[arg-type]
        made = window_spreads(ones[:0], start[:0], stop[:0], **more)  # type: ignore[arg-type]
    assert made is not None
    assert len(made[0]) == len(made[1]) == 0

"""What is known of doubles that stand for decimals, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.decimal_sums import DecimalBounds

_Held = tuple[list[float], list[int], DecimalBounds]
"""Doubles, the integers that are meant, and what is known of both."""


@st.composite
def _columns(draw: Any) -> _Held:
    places = draw(st.integers(0, 6))
    least = draw(st.sampled_from([-(10**7), -3, 0, 1, 29, 10**4, 10**9]))
    most = least + draw(st.sampled_from([0, 1, 100, 10**6, 10**10]))
    whole = draw(st.lists(st.integers(least, most), min_size=4, max_size=4))
    values = [float(Fraction(each, 10**places)) for each in whole]
    bounds = DecimalBounds.of_decimals(places, min(values), max(values))
    assert bounds is not None
    return values, whole, bounds


def _holds(held: _Held) -> None:
    values, whole, bounds = held
    for value, integer in zip(values, whole, strict=True):
        assert bounds.low <= integer <= bounds.high
        assert abs(Fraction(value) * 10**bounds.places - integer) <= Fraction(bounds.error)
        assert (Fraction(value) / Fraction(2) ** bounds.unit).denominator == 1


@st.composite
def _computed(draw: Any) -> _Held:
    values, whole, bounds = draw(_columns())
    for _ in range(draw(st.integers(1, 3))):
        others, meant, known = draw(_columns())
        op = draw(st.sampled_from(["times", "plus", "minus"]))
        made = getattr(bounds, op)(known)
        if made is None:
            assert known.places != bounds.places
            continue
        one, two = np.array(values), np.array(others)
        values = {"times": one * two, "plus": one + two, "minus": one - two}[op].tolist()
        pairs = list(zip(whole, meant, strict=True))
        whole = {
            "times": [a * b for a, b in pairs],
            "plus": [a + b for a, b in pairs],
            "minus": [a - b for a, b in pairs],
        }[op]
        bounds = made
    return values, whole, bounds


@given(_columns())
def test_columns(held: _Held) -> None:
    _holds(held)


@given(_computed())
def test_what_is_computed(held: _Held) -> None:
    _holds(held)


def test_endless_bounds_say_nothing() -> None:
    assert DecimalBounds.of_decimals(2, -np.inf, 1.0) is None

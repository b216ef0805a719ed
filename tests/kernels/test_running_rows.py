"""What there is as far as each row: kernels in each form against Python, in pieces."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.kernels.running_rows import (
    exponent_range,
    run_best,
    run_counts,
    run_doubles,
    run_integers,
)
from tests.kernels.forced import FORMS, in_form

_GROUPS = 3
rows = st.lists(
    st.tuples(
        st.integers(-(1 << 20), 1 << 20) | st.just(0),
        st.integers(0, 30),
        st.booleans(),
        st.integers(0, _GROUPS - 1),
    ),
    max_size=40,
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(
    held=rows,
    keyed=st.booleans(),
    gaps=st.booleans(),
    cut=st.floats(0, 1),
    greatest=st.booleans(),
    whole=st.booleans(),
)
def test_as_far_as_each_row(
    form: str,
    held: list[tuple[Any, ...]],
    keyed: bool,
    gaps: bool,
    cut: float,
    greatest: bool,
    whole: bool,
) -> None:
    numbers = np.array([number for number, *_ in held], np.int64)
    # Doubles of 20 bits at 30 places: their sums are wider than any double.
    doubles = np.array([number * 2.0**place for number, place, *_ in held], np.float64)
    present = np.array([there for *_, there, _ in held], np.bool_) if gaps else None
    codes = np.array([code for *_, code in held], np.int64) if keyed else None
    totals, counts, high, rest = np.zeros((4, _GROUPS), np.int64)
    ranked = numbers if whole else doubles
    best, known = np.zeros(_GROUPS, ranked.dtype), np.zeros(_GROUPS, np.bool_)
    found: list[list[Any]] = [[], [], [], []]
    middle = round(cut * len(held))
    for part in (slice(0, middle), slice(middle, None)):
        there = None if present is None else present[part]
        groups = None if codes is None else codes[part]
        with in_form(form):
            added = run_integers(numbers[part], there, groups, totals)
            assert added is not None
            found[0] += added.tolist()
            found[1] += run_doubles(doubles[part], there, groups, -52, high, rest).tolist()
            found[2] += run_best(
                ranked[part], there, groups, best, known, greatest=greatest
            ).tolist()
            found[3] += run_counts(len(numbers[part]), there, groups, counts).tolist()
    past: dict[int, list[int]] = {}
    for row, (*_, there, code) in enumerate(held):
        so_far = past.setdefault(code if keyed else 0, [])
        if there or not gaps:
            so_far.append(row)
        assert found[0][row] == sum(held[each][0] for each in so_far)
        exact = [Fraction(held[each][0]) * 2 ** held[each][1] for each in so_far]
        assert found[1][row] == float(sum(exact))
        assert found[3][row] == len(so_far)
        if so_far:
            assert found[2][row] == (max if greatest else min)(ranked[so_far])
    with in_form(form):
        ends = exponent_range(doubles, present)
    sizes = np.frexp(doubles if present is None else doubles[present])[1][
        (doubles if present is None else doubles[present]) != 0
    ]
    assert ends == ((int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0))


@pytest.mark.parametrize("form", FORMS)
def test_what_does_not_fit(form: str) -> None:
    most = (1 << 63) - 1
    with in_form(form):
        for values, carried, fits in (
            ([1], most - 1, True),
            ([1], most, False),
            ([-2], -most, False),
        ):
            totals = np.array([carried], np.int64)
            found = run_integers(np.array(values, np.int64), None, None, totals)
            assert (found is not None) == fits
        for value in (np.inf, np.nan, 5e-324):
            assert exponent_range(np.array([1.0, value]), None) is None
            assert exponent_range(np.array([1.0, value]), np.array([True, False])) == (1, 1)

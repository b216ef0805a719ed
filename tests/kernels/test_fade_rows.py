"""Fading moments: the kernel in each form against a loop in Python, to the bit, in any pieces."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tessel.kernels.fade_rows import Fading, fade_rows, new_states
from tests.kernels.forced import FORMS, in_form

_GROUPS = 3
_GREATEST = (1 << 63) - 1

fadings = st.builds(
    Fading,
    alpha=st.floats(0.001, 1.0) | st.just(1),
    adjust=st.booleans(),
    ignore_missing=st.booleans(),
    spreads=st.booleans(),
) | st.builds(
    Fading,
    alpha=st.just(0.5),
    adjust=st.booleans(),
    ignore_missing=st.just(False),
    spreads=st.booleans(),
    half=st.floats(1e-3, 1e12),
)
numbers = st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), 0.0, -0.0, 1.0, 1.0]) | st.floats()
rows_of_groups = st.lists(
    st.lists(
        st.tuples(numbers, st.integers(-(10**12), 10**12) | st.integers(-_GREATEST - 1, _GREATEST)),
        max_size=30,
    ),
    min_size=_GROUPS,
    max_size=_GROUPS,
)


def _moments(fading: Fading, rows: list[tuple[float, int]]) -> tuple[list[Any], list[float]]:
    """Return the moments after each row of a group, as the definition says, and its state."""
    mean, square, weights, weight_squares, old, count = new_states(1)[0].tolist()
    found: list[Any] = []
    before = 0
    for value, time in rows:
        missing = value != value
        factor = 1.0 - fading.alpha
        if fading.half is not None:
            factor, before = 0.5 ** ((time - before) / fading.half) if found else 1.0, time
        if count and not (missing and fading.ignore_missing):
            if fading.spreads:
                weights, weight_squares = weights * factor, weight_squares * (factor * factor)
            old *= factor
        if missing:
            found.append((np.nan,) * 5)
            continue
        if count:
            new = 1.0 if fading.adjust else fading.alpha
            if fading.half is not None and not fading.adjust:
                new = 1.0 - old
            last = mean
            if last != value:
                mean = (old * last + new * value) / (old + new)
            if fading.spreads:
                moved, apart = last - mean, value - mean
                square = (old * (square + moved * moved) + new * (apart * apart)) / (old + new)
                weights, weight_squares = weights + new, weight_squares + new * new
            old += new
            if not fading.adjust:
                if fading.spreads:
                    weights, weight_squares = weights / old, weight_squares / (old * old)
                old = 1.0
        else:
            mean = value
        count += 1.0
        found.append((mean, count, square, weights, weight_squares))
    return found, [mean, square, weights, weight_squares, old, count]


def _wanted(rows: list[list[tuple[float, int]]], fading: Fading) -> list[Any]:
    """Return what :func:`_faded` shall."""
    lines = 5 if fading.spreads else 2
    found = [_moments(fading, own) for own in rows]
    moments = [
        _bits(np.array(each, np.float64).reshape(-1, 5)[:, :lines]) if each else []
        for each, _ in found
    ]
    states = _bits(np.array([state for _, state in found]))
    timed = fading.half is not None
    return [moments, states, [own[-1][1] if own and timed else 0 for own in rows]]


def _bits(found: np.ndarray) -> Any:
    """Return the bits of numbers; what is no number is one, whatever its sign."""
    if found.dtype != np.float64:
        return found.tolist()
    return np.where(np.isnan(found), np.nan, found).view(np.int64).tolist()


def _faded(
    rows: list[list[tuple[float, int]]], cuts: list[float], fading: Fading, *, results: bool
) -> list[Any]:
    """Fade the rows of all groups, cut in pieces; return the moments by group, and the states."""
    states, seen = new_states(_GROUPS), np.zeros(_GROUPS, np.int64)
    moments: list[list[Any]] = [[] for _ in rows]
    edges = [0.0, *sorted(cuts), 1.0]
    for first, last in itertools.pairwise(edges):
        parts = [own[round(first * len(own)) : round(last * len(own))] for own in rows]
        owners = [group for group in reversed(range(_GROUPS)) if parts[group]]
        together = [row for group in owners for row in parts[group]]
        starts = np.cumsum([0, *(len(parts[group]) for group in owners)])
        times = None
        if fading.half is not None:
            times = np.array([time for _, time in together], np.int64)
        found = fade_rows(
            fading,
            np.array([value for value, _ in together], np.float64),
            starts,
            np.array(owners, np.int64),
            states,
            times,
            None if times is None else seen,
            results=results,
        )
        assert found.shape == ((5 if fading.spreads else 2) if results else 0, len(together))
        for run, group in enumerate(owners):
            moments[group] += _bits(found[:, starts[run] : starts[run + 1]].T)
    return [moments, _bits(states), seen.tolist()]


@pytest.mark.parametrize("form", FORMS)
@given(rows=rows_of_groups, cuts=st.lists(st.floats(0, 1), max_size=4), fading=fadings)
@example(
    rows=[[(1.5, -_GREATEST - 1), (2.5, _GREATEST)], [(3.0, 0)], []],
    cuts=[],
    fading=Fading(0.5, True, False, True, 1e19),
)
def test_moments_are_those_of_the_loop_to_the_bit(
    form: str, rows: list[list[tuple[float, int]]], cuts: list[float], fading: Fading
) -> None:
    rows = [list(zip([v for v, _ in own], sorted(t for _, t in own), strict=True)) for own in rows]
    with np.errstate(all="ignore"):
        wanted = _wanted([[(np.float64(v), t) for v, t in own] for own in rows], fading)
        with in_form(form):
            assert _faded(rows, cuts, fading, results=True) == wanted
            _, *states = _faded(rows, cuts, fading, results=False)
            assert states == wanted[1:]


@pytest.mark.parametrize("half", [None, 3.7, 2.0e9])
@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_many_rows_have_the_bits_of_the_loop(form: str, half: float | None, adjust: bool) -> None:
    random = np.random.default_rng(5)
    rows = 20_000
    values = np.where(random.random(rows) < 0.1, np.nan, random.normal(size=rows))
    steps = random.integers(0, 20 if half == 3.7 else 10**10, rows)
    times = np.cumsum(steps)
    fading = Fading(0.0371, adjust, False, True, half)
    held = list(zip(values.tolist(), times.tolist(), strict=True))
    with in_form(form):
        found = _faded([held[:7000], held[7000:], []], [0.3], fading, results=True)
    assert found == _wanted([held[:7000], held[7000:], []], fading)

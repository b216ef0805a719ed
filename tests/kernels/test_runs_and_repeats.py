"""Runs that are sorted, and repeats that are counted, against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.count_repeats import count_repeats
from tessel.kernels.sort_runs import sort_runs
from tests.kernels.forced import FORMS, in_form

_NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))


@pytest.mark.parametrize("form", FORMS)
@given(numbers=st.lists(_NUMBERS, max_size=40))
def test_repeats(form: str, numbers: list[int]) -> None:
    held = np.sort(np.array(numbers, np.int64))
    held.flags.writeable = False
    with in_form(form):
        found, times = count_repeats(held)
    wanted, counts = np.unique(held, return_counts=True)
    assert found.tolist() == wanted.tolist()
    assert times.tolist() == counts.tolist()


@pytest.mark.parametrize("form", FORMS)
@given(runs=st.lists(st.lists(_NUMBERS, max_size=40), max_size=6))
def test_runs(form: str, runs: list[list[int]]) -> None:
    numbers = np.array(list(itertools.chain(*runs)), np.int64)
    starts = np.cumsum([0, *map(len, runs)])
    with in_form(form):
        sort_runs(numbers, starts)
    found = [numbers[a:b].tolist() for a, b in itertools.pairwise(starts)]
    assert found == [sorted(each) for each in runs]

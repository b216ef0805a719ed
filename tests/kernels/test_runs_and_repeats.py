"""Runs that are placed, sorted and selected from, and repeats that are counted, against numpy."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.aggregates.kernels.value_runs import ValueRuns
from tessel.kernels.count_values import count_close, rank_close
from tessel.kernels.group_rows import place_numbers
from tessel.kernels.order_words import count_different, count_repeats, select_places, sort_runs
from tests.kernels.forced import FORMS, in_form

_NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))


_RUNS = st.lists(st.lists(_NUMBERS, max_size=40), max_size=6)


def _starts(runs: list[list[int]]) -> np.ndarray:
    return np.cumsum([0, *map(len, runs)])


@pytest.mark.parametrize("form", FORMS)
@given(runs=_RUNS)
def test_repeats(form: str, runs: list[list[int]]) -> None:
    held = np.array(list(itertools.chain(*map(sorted, runs))), np.int64)
    held.flags.writeable = False
    with in_form(form):
        counts = count_different(held, _starts(runs))
        found, times = count_repeats(held, _starts(runs), counts)
    wanted = [np.unique(np.array(run, np.int64), return_counts=True) for run in runs]
    assert counts.tolist() == [len(numbers) for numbers, _ in wanted]
    assert found.tolist() == [each for numbers, _ in wanted for each in numbers.tolist()]
    assert times.tolist() == [each for _, often in wanted for each in often.tolist()]


@pytest.mark.parametrize("form", FORMS)
@given(runs=_RUNS | st.lists(st.lists(st.integers(-(2**63), 2**63 - 1).map(lambda n: n >> 50))))
def test_different_numbers_in_any_order(form: str, runs: list[list[int]]) -> None:
    held = np.array(list(itertools.chain(*runs)), np.int64)
    wanted = [len(set(run)) for run in runs]
    with in_form(form):
        close = count_close(held, _starts(runs)).tolist()
        found = ValueRuns(held, None, _starts(runs)).different.tolist()
    is_close = [not run or (max(run) - min(run)) // 64 < len(run) for run in runs]
    assert close == [n if near else -1 for n, near in zip(wanted, is_close, strict=True)]
    assert found == wanted


@pytest.mark.parametrize("form", FORMS)
@given(numbers=st.lists(st.integers(0, 40)), least=st.sampled_from([-(2**63), -7, 2**63 - 41]))
def test_ranks_of_close_numbers(form: str, numbers: list[int], least: int) -> None:
    held = np.array([least + number for number in numbers], np.int64)
    with in_form(form):
        ranks, rows = rank_close(held, least, 41)
    ordered = sorted(set(numbers))
    assert ranks.tolist() == [ordered.index(number) for number in numbers]
    assert [numbers[row] for row in rows] == ordered


@pytest.mark.parametrize("form", FORMS)
@given(runs=_RUNS, data=st.data())
def test_places(form: str, runs: list[list[int]], data: st.DataObject) -> None:
    places = [(run, place) for run, each in enumerate(runs) for place in range(len(each))]
    asked = data.draw(st.lists(st.sampled_from(places), max_size=20)) if places else []
    asked = sorted(asked) if data.draw(st.booleans()) else asked
    owners, at = (np.array([each[side] for each in asked], np.int64) for side in range(2))
    numbers = np.array(list(itertools.chain(*runs)), np.int64)
    with in_form(form):
        found = select_places(numbers, _starts(runs), owners, at)
    assert found.tolist() == [sorted(runs[run])[place] for run, place in asked]
    left = [numbers[a:b].tolist() for a, b in itertools.pairwise(_starts(runs))]
    assert list(map(sorted, left)) == list(map(sorted, runs))


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(200_000),
        np.arange(200_000)[::-1],
        np.concatenate([np.arange(100_000), np.arange(100_000)[::-1]]),
        np.arange(200_000) % 3,
        np.zeros(200_000),
    ],
    ids=["up", "down", "up and down", "few", "one"],
)
def test_orders_that_are_bad_for_some_selections(numbers: np.ndarray) -> None:
    """In time that is linear: quadratic, each would take many seconds."""
    held, places = numbers.astype(np.int64), np.array([0, 99_999, 100_000, 199_999])
    starts, owners = np.array([0, len(held)]), np.zeros(len(places), np.int64)
    since = time.process_time()
    found = select_places(held, starts, owners, places)
    assert time.process_time() - since < 1
    assert found.tolist() == np.sort(numbers)[places].tolist()


@pytest.mark.parametrize("form", FORMS)
@given(rows=st.lists(st.tuples(_NUMBERS, st.integers(-2, 6)), max_size=40))
def test_numbers_are_placed_inside_whatever_their_groups(
    form: str, rows: list[tuple[int, int]]
) -> None:
    numbers, codes = (np.array([row[side] for row in rows], np.int64) for side in range(2))
    found, around = np.full((2, len(rows) + 8), 7)
    with in_form(form):
        place_numbers(numbers, codes, np.zeros(3, np.int64), found[4 : 4 + len(rows)])
    assert found[:4].tolist() == around[:4].tolist()
    assert found[4 + len(rows) :].tolist() == around[:4].tolist()


@pytest.mark.parametrize("form", FORMS)
@given(runs=_RUNS)
def test_runs(form: str, runs: list[list[int]]) -> None:
    numbers = np.array(list(itertools.chain(*runs)), np.int64)
    starts = _starts(runs)
    with in_form(form):
        sort_runs(numbers, starts)
    found = [numbers[a:b].tolist() for a, b in itertools.pairwise(starts)]
    assert found == [sorted(each) for each in runs]

"""The kernels of the joins in each form, and a search row by row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels import word_numbers as word_numbers_module
from tessel.kernels.group_rows import order_of_codes, rows_by_code, rows_of_runs
from tessel.kernels.match_rows import Looks, NearestRows, match_ends, match_rows
from tessel.kernels.word_numbers import WordNumbers
from tests.kernels.forced import FORMS, in_form

_LEAST, _MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("form", FORMS)
@given(codes=st.lists(st.integers(-1, 6), max_size=60))
def test_rows_of_each_number(form: str, codes: list[int]) -> None:
    held = np.array(codes, np.int64)
    with in_form(form):
        rows, starts = rows_by_code(held, 7)
        order = order_of_codes(held[held >= 0], 7)
    expected = [[at for at, code in enumerate(codes) if code == number] for number in range(7)]
    assert [rows[a:b].tolist() for a, b in itertools.pairwise(starts)] == expected
    assert len(rows) == starts[-1]
    assert (order == np.argsort(held[held >= 0], kind="stable")).all()


@pytest.mark.parametrize("form", FORMS)
@given(
    order=st.integers(0, 6).flatmap(lambda rows: st.permutations(range(rows))),
    start=st.integers(0, 5),
    data=st.data(),
)
def test_rows_of_runs(form: str, order: list[int], start: int, data: st.DataObject) -> None:
    ends = (0, start, start + len(order), start + len(order) + 4)
    parts = [(a, b) for a, b in itertools.pairwise(ends) if a < b]
    runs = [
        sorted(data.draw(st.tuples(st.integers(a, b), st.integers(a, b))))
        for a, b in data.draw(st.lists(st.sampled_from(parts), max_size=8))
    ]
    firsts, lasts = np.array(runs, np.int64).reshape(-1, 2).T
    with in_form(form):
        found = rows_of_runs(firsts, lasts, np.array(order, np.int64), start)
        plain = rows_of_runs(firsts, lasts)
    numbers = [number for first, last in runs for number in range(first, last)]
    rows = dict(enumerate((start + row for row in order), start))
    assert plain.tolist() == numbers
    assert found.tolist() == [rows.get(number, number) for number in numbers]


numbers = st.one_of(
    st.integers(-5, 5), st.integers(0, 40), st.sampled_from([_LEAST, _LEAST + 1, _MOST - 1, _MOST])
)


def _expected(
    groups: list[list[int]], number: int, group: int, looks: Looks, exact: bool, most: int | None
) -> int:
    """Return the place that is right, of all that there are."""
    if group < 0:
        return -1
    first = sum(map(len, groups[:group]))
    ranked = [
        (abs(held - number), held > number, -at)
        for at, held in enumerate(groups[group], first)
        if (exact or held != number)
        and (looks is not Looks.BACKWARD or held <= number)
        and (looks is not Looks.FORWARD or held >= number)
        and (most is None or abs(held - number) <= most)
    ]
    return -min(ranked)[2] if ranked else -1


@pytest.mark.parametrize("form", FORMS)
@given(
    groups=st.lists(st.lists(numbers, max_size=30).map(sorted), min_size=1, max_size=3),
    data=st.data(),
    looks=st.sampled_from(Looks),
    exact=st.booleans(),
    most=st.none() | st.integers(0, 6) | st.sampled_from([2**63, 2**64 - 1, 2**64]),
    in_order=st.booleans(),
)
def test_the_nearest_row(
    form: str,
    groups: list[list[int]],
    data: st.DataObject,
    looks: Looks,
    exact: bool,
    most: int | None,
    in_order: bool,
) -> None:
    asked: list[Any] = data.draw(st.lists(numbers, max_size=40))
    asked = sorted(asked) if in_order else asked
    codes = data.draw(st.none()) if len(groups) == 1 and data.draw(st.booleans()) else [0]
    if codes is not None:
        code = st.integers(-1, len(groups) - 1)
        codes = data.draw(st.lists(code, min_size=len(asked), max_size=len(asked)))
    held = np.array([number for group in groups for number in group], np.int64)
    starts = np.cumsum([0, *map(len, groups)], dtype=np.int64)
    with in_form(form):
        rows = NearestRows(held, starts, looks=looks, exact=exact, most_apart=most)
        found = rows.find(
            np.array(asked, np.int64), None if codes is None else np.array(codes, np.int64)
        )
    expected = [
        _expected(groups, number, 0 if codes is None else codes[at], looks, exact, most)
        for at, number in enumerate(asked)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("looks", Looks)
def test_many_rows_far_apart(form: str, looks: Looks) -> None:
    """Long runs of one number, and steps over many rows at once."""
    random = np.random.default_rng(int(looks))
    held = np.sort(random.choice(np.append(np.arange(2_000), np.repeat(997, 40)), 6_000))
    asked = np.sort(random.integers(-50, 2_050, 300))
    codes = random.integers(-1, 3, 300)
    starts = np.array([0, 1_500, 1_500, 6_000])
    with in_form(form):
        found = NearestRows(held, starts, looks=looks, exact=True, most_apart=9).find(asked, codes)
        alone = NearestRows(held, starts[[0, 3]], looks=looks, exact=False).find(asked)
    groups = [held[a:b].tolist() for a, b in itertools.pairwise(starts)]
    for at, (number, code) in enumerate(zip(asked.tolist(), codes.tolist(), strict=True)):
        assert found[at] == _expected(groups, number, code, looks, True, 9)
        if at % 10 == 0:
            assert alone[at] == _expected([held.tolist()], number, 0, looks, False, None)


words = st.one_of(
    st.integers(-3, 9),
    st.integers(0, 1 << 40),
    st.sampled_from([_LEAST, _LEAST + 1, _MOST - 1, _MOST, 1 << 32, 1 << 33, -(1 << 32)]),
)
narrow = st.lists(st.none() | st.integers(7, 20), max_size=40)
wide = st.lists(st.none() | words, max_size=40)


def _with_absent(values: list[int | None]) -> tuple[Any, Any]:
    """Return words, anything where there is none, and which have none; None where all have."""
    held = np.array([9 if value is None else value for value in values], np.int64)
    absent = np.array([value is None for value in values], np.bool_)
    return held, absent if absent.any() else None


@pytest.mark.parametrize("form", FORMS)
@given(built=narrow | wide, asked=wide, cells=st.sampled_from([0, 1 << 16]))
def test_numbers_of_words(
    form: str, built: list[int | None], asked: list[int | None], cells: int
) -> None:
    """Whether in a range or in slots; built and asked in one form or the other."""
    appeared = list(dict.fromkeys(word for word in built if word is not None))
    expected = {word: number for number, word in enumerate(appeared)} | {None: -1}
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_numbers_module, "_CELLS", cells)
        patch.setattr(word_numbers_module, "_CELLS_A_WORD", min(cells, 4))
        patch.setattr(word_numbers_module, "_LEAST_BITS", 1)
        numbers = WordNumbers(*_with_absent(built))
    assert numbers.codes.tolist() == [expected[word] for word in built]
    assert len(numbers) == len(appeared)
    for other in FORMS:
        with in_form(other):
            found = numbers.find(*_with_absent(asked))
        assert found.tolist() == [expected.get(word, -1) for word in asked]


@pytest.mark.parametrize("form", FORMS)
def test_words_of_any_layout(form: str) -> None:
    """Every other word, of which none may be written."""
    held = np.array([7, 0, -3, 0, 7, 0, _MOST, 0])
    held.flags.writeable = False
    absent = np.array([False, True, False, True, True, True, False, True])
    with in_form(form):
        numbers = WordNumbers(held[::2], absent[::2])
        found = numbers.find(held[6::-2], absent[::2])
    assert numbers.codes.tolist() == [0, 1, -1, 2]
    assert found.tolist() == [2, 0, -1, 0]


@pytest.mark.parametrize("form", FORMS)
@given(
    codes=st.lists(st.integers(-1, 4), max_size=12),
    sizes=st.none() | st.lists(st.integers(0, 3), min_size=5, max_size=5),
    keep=st.booleans(),
    data=st.data(),
)
def test_pairs_of_rows(
    form: str, codes: list[int], sizes: list[int] | None, keep: bool, data: st.DataObject
) -> None:
    """Any stretch of the output is that of the whole; without sizes each key has one row."""
    held = np.array(codes, np.int64)
    starts = np.cumsum([0, *(sizes or [1] * 5)])
    rows = np.arange(starts[-1]) if sizes is None else np.arange(starts[-1])[::-1] + 7
    expected = []
    for at, code in enumerate(codes):
        theirs = rows[starts[code] : starts[code + 1]].tolist() if code >= 0 else []
        expected += [(at, row) for row in theirs or ([-1] if keep else [])]
    given_starts, given_rows = (starts[:0], rows[:0]) if sizes is None else (starts, rows)
    with in_form(form):
        ends = match_ends(held, given_starts, keep_unmatched=keep)
        assert (ends[-1] if len(ends) else 0) == len(expected)
        start = data.draw(st.integers(0, len(expected)))
        stop = data.draw(st.integers(start, len(expected)))
        left, right = match_rows(held, given_starts, given_rows, ends, start, stop)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected[start:stop]

"""The order of words, in each form of its kernels, against numpy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.order_words import order_of_integers
from tests.kernels.forced import FORMS, in_form

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_RANDOM = np.random.default_rng(3)
_ROWS = 300

CASES: dict[str, Any] = {
    "one row": [5],
    "one number": [7] * _ROWS,
    "few": _RANDOM.integers(-2, 3, _ROWS),
    "any": _RANDOM.integers(_LEAST, _MOST, _ROWS),
    "each number once": _RANDOM.permutation(_ROWS) - 40,
    "each number once, from the least on": _RANDOM.permutation(_ROWS) + _LEAST,
    "as wide as each once": [0, _ROWS - 1, *_RANDOM.integers(0, _ROWS, _ROWS - 2)],
    "both ends": _RANDOM.choice([_LEAST, -1, 0, _MOST], _ROWS),
    "one digit of several that differs": _RANDOM.integers(0, 9, _ROWS) << 24 | 5,
    "equal leading bits, in pairs": _RANDOM.integers(0, _ROWS // 2, _ROWS) << 50
    | _RANDOM.integers(0, 9, _ROWS),
    "equal leading bits of nearly all": [_MOST, *_RANDOM.permutation(_ROWS), _LEAST],
    "equal leading bits of nearly all, repeated": [_MOST, *_RANDOM.integers(0, 9, _ROWS), _LEAST],
    "equal leading bits, in order": [_LEAST, *range(_ROWS), _MOST],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", CASES.values(), ids=CASES.keys())
def test_it_is_that_of_numpy(form: str, numbers: Any) -> None:
    values = np.array(numbers, np.int64)
    with in_form(form):
        found = order_of_integers(values)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.argsort(values, kind="stable"))


@given(numbers=st.lists(st.integers(_LEAST, _MOST) | st.integers(-3, 3), min_size=1))
def test_of_any_numbers(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert np.array_equal(order_of_integers(values), np.argsort(values, kind="stable"))

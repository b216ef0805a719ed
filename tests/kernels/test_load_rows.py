"""Single rows of stored columns, against integers of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.load_rows import load_rows
from tests.kernels.forced import FORMS, in_form

_SHIFT = 5
_ROWS = 1 << _SHIFT
_MODULUS = 1 << 64
_WIDTHS = st.sampled_from([0, 1, 3, 7, 8, 13, 16, 24, 32, 40, 57, 64])
_ENDS = [0, 1, -1, 7, 1 << 40, (1 << 63) - 1, -(1 << 63)]


def _signed(number: int) -> int:
    return (number + (1 << 63)) % _MODULUS - (1 << 63)


@st.composite
def _columns(draw: Any) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Draw the bytes of columns of pages, what is known of these, and the integer of each row."""
    columns, pages = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    facts = np.zeros((6, columns, pages), np.int64)
    data = b""
    integers: list[list[int]] = []
    for column in range(columns):
        integers.append([])
        for page in range(pages):
            width, exponent = draw(_WIDTHS), draw(st.sampled_from([-2, 0, 5, 40]))
            base, step = draw(st.sampled_from(_ENDS)), draw(st.sampled_from(_ENDS))
            packed = int.from_bytes(random.bytes(width * _ROWS // 8), "little")
            mask = (1 << width) - 1
            facts[:, column, page] = len(data), width, _signed(mask), base, step, exponent
            data += packed.to_bytes(width * _ROWS // 8, "little")
            integers[-1] += [
                (base + step * row + (packed >> row * width & mask)) % _MODULUS
                for row in range(_ROWS)
            ]
    return np.frombuffer(data + bytes(8), np.uint8), facts, integers


@pytest.mark.parametrize("form", FORMS)
@given(drawn=_columns(), data=st.data())
def test_single_rows(form: str, drawn: Any, data: st.DataObject) -> None:
    held, facts, integers = drawn
    row = st.integers(0, len(integers[0]) - 1)
    rows = np.array(data.draw(st.lists(row, max_size=40)), np.int64)
    with in_form(form):
        found, pages = load_rows(held, facts, _SHIFT, rows)
    assert found.dtype == np.uint64
    assert found.tolist() == [[line[row] for row in rows] for line in integers]
    assert pages.tolist() == sorted({row >> _SHIFT for row in rows.tolist()})


@pytest.mark.parametrize("form", FORMS)
def test_every_other_row_of_a_column_of_several(form: str) -> None:
    """Rows and facts are parts of other arrays."""
    held = np.arange(4 * _ROWS + 8, dtype=np.uint8)
    facts = np.zeros((6, 3, 4), np.int64)
    facts[:3] = np.array([0, 8, 255])[:, None, None]
    facts[0] += _ROWS * np.arange(4)
    with in_form(form):
        found, _ = load_rows(held, facts[:, 1:2], _SHIFT, np.arange(4 * _ROWS)[::2])
    assert found.tolist() == [list(range(0, 4 * _ROWS, 2))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [-(1 << 63), -1, 9, 1 << 40, (1 << 63) - 1])
def test_places_outside_of_the_bytes_read_the_last_ones(form: str, start: int) -> None:
    held = np.arange(16, dtype=np.uint8)
    facts = np.array([start, 0, 255, 0, 0, 0], np.int64).reshape(6, 1, 1)
    with in_form(form):
        found, _ = load_rows(held, facts, _SHIFT, np.zeros(2, np.int64))
    assert found.tolist() == [[8, 8]]

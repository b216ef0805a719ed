"""The rows of the least keys: in every form, and as a sort of all rows finds them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.best_rows import NO_LIMIT, best_rows, best_texts, ordered_doubles
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.group_rows import Texts
from tessel.kernels.program import Op, Program
from tests.kernels.forced import FORMS, in_form

_SHIFT = 4


def _of_integers(numbers: list[int], keep: list[bool]) -> StoredBlocks:
    """Return two columns: numbers of 64 bits, and bits of 8."""
    pages = -(-len(numbers) // (1 << _SHIFT))
    padded = np.zeros(pages << _SHIFT, np.int64)
    padded[: len(numbers)] = numbers
    flags = np.zeros(pages << _SHIFT, np.uint8)
    flags[: len(keep)] = keep
    data = np.concatenate([padded.view(np.uint8), flags, np.zeros(8, np.uint8)])
    data.flags.writeable = False
    facts = np.zeros((6, 2, pages), np.int64)
    for page in range(pages):
        facts[:, 0, page] = page << _SHIFT + 3, 64, -1, 0, 0, -1
        facts[:, 1, page] = len(padded) * 8 + (page << _SHIFT), 8, 255, 0, 0, -1
    return StoredBlocks(data, facts, _SHIFT, 0, len(numbers))


def _program(pages: int) -> Program:
    """Load the numbers as integers and as doubles, and whether rows count."""
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.DECIMAL, 0, 0, 0, 0),
        (Op.COLUMN_RANGE, 0, 1, 0, 0),
    ]
    ranges = np.ones((1, pages, 2), np.int64)
    return Program(np.array(steps, np.int64), ranges, np.zeros(0), np.zeros(0, np.uint8), 1, 1, 1)


@st.composite
def _rows(draw: Any, number: st.SearchStrategy[int]) -> tuple[list[int], list[bool]]:
    numbers = draw(st.lists(number, min_size=1, max_size=70))
    keep = draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    return numbers, keep


def _stretches(keys: list[int], data: st.DataObject) -> list[tuple[int, int, int]]:
    """Cut the rows anywhere, in any order, with bounds that are true."""
    cuts = data.draw(st.sets(st.integers(1, max(1, len(keys) - 1)), max_size=5))
    edges = sorted({0, *(cut for cut in cuts if cut < len(keys)), len(keys)})
    found = [
        (low, high, min(keys[low:high]) - data.draw(st.integers(0, 2)))
        for low, high in itertools.pairwise(edges)
    ]
    return data.draw(st.permutations(found))


def _check(
    numbers: list[int], keep: list[bool], keys: list[int], data: st.DataObject, **asked: Any
) -> None:
    blocks = _of_integers(numbers, keep)
    program = _program(blocks.facts.shape[2])
    count = data.draw(st.integers(1, 9))
    limit = data.draw(
        st.one_of(st.just(NO_LIMIT), st.tuples(st.sampled_from(keys), st.integers(-70, 70)))
    )
    select = data.draw(st.sampled_from([None, 0]))
    stretches = _stretches(keys, data)
    later = data.draw(st.booleans())
    sign = -1 if later else 1
    wanted = sorted(
        (key, sign * row)
        for row, key in enumerate(keys)
        if (key, sign * row) < limit and (select is None or keep[row])
    )[:count]
    for form in FORMS:
        with in_form(form):
            found = best_rows(
                blocks, program, np.array(stretches, np.int64), select=select, count=count,
                limit=limit, later=later, **asked,
            )  # fmt: skip
        assert found.rows.tolist() == sorted(abs(row) for _, row in wanted)
        assert found.last == (wanted[-1] if len(wanted) == count else None)


@given(rows=_rows(st.integers(-5, 5) | st.integers(-(1 << 62), 1 << 62)), data=st.data())
def test_integers(rows: tuple[list[int], list[bool]], data: st.DataObject) -> None:
    _check(*rows, rows[0], data, key=0, downwards=False)


_DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, 5e-324]) | st.floats(
    allow_nan=False, min_value=-1e300, max_value=1e300
)


@given(
    values=st.lists(st.tuples(_DOUBLES, st.booleans()), min_size=1, max_size=70),
    downwards=st.booleans(),
    data=st.data(),
)
def test_doubles(values: list[tuple[float, bool]], downwards: bool, data: st.DataObject) -> None:
    doubles = np.array([value for value, _ in values])
    keep = [kept for _, kept in values]
    keys = ordered_doubles(doubles, downwards=downwards)
    order = np.argsort(-doubles if downwards else doubles, kind="stable")
    assert (keys[order][1:] >= keys[order][:-1]).all()
    assert len(np.unique(keys)) == len(np.unique(doubles))
    numbers = doubles.view(np.int64).tolist()
    _check(numbers, keep, keys.tolist(), data, key=~0, downwards=downwards)


_TEXTS = st.lists(
    st.tuples(st.text("a\0é", max_size=12).map(str.encode), st.integers(0, 3)), max_size=60
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [np.int32, np.int64])
@given(rows=_TEXTS, greatest=st.booleans())
def test_the_best_text_of_each_group(
    form: str, width: type, rows: list[tuple[bytes, int]], greatest: bool
) -> None:
    held = [text for text, _ in rows]
    data = np.frombuffer(b"".join(held), np.uint8)
    offsets: np.ndarray = np.cumsum([0, *map(len, held)]).astype(width)
    codes = np.array([code for _, code in rows], np.int64)
    with in_form(form):
        found = best_texts(Texts(data, offsets), codes, 4, greatest=greatest)
    best = max if greatest else min
    for group, row in enumerate(found.tolist()):
        own = [text for text, code in rows if code == group]
        assert (row < 0) == (not own)
        if own:
            first = next(at for at, each in enumerate(rows) if each == (best(own), group))
            assert row == first

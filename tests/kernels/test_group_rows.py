"""Rows numbered by numbers and by texts: compiled, against a dictionary of Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.hashing import byte_offsets
from tessel.kernels import Texts, group_range, group_texts, group_words
from tests.kernels.forced import compiled_or_not


def numbered(values: list[Any]) -> tuple[list[int], list[int]]:
    """The number of each value in order of first appearance, and where each appears first."""
    numbers: dict[Any, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return codes, [codes.index(code) for code in range(len(numbers))]


@given(st.lists(st.integers(0, 40), max_size=80))
def test_small_numbers(values: list[int]) -> None:
    with compiled_or_not(True):
        codes, first_row = group_range(np.array(values, np.int64), 41)
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


WORDS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-3, 3))


@given(st.lists(WORDS, max_size=80))
def test_any_numbers(values: list[int]) -> None:
    with compiled_or_not(True):
        codes, first_row = group_words(np.array(values, np.int64))
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


def test_tables_grow() -> None:
    values = np.random.default_rng(3).permutation(np.repeat(np.arange(3000) * 7919**3, 2))
    words = pa.array(values)
    texts = pa.array([f"{value:x}" for value in values.tolist()])
    wanted = numbered(values.tolist())
    with compiled_or_not(True):
        codes, first_row = group_words(values)
        by_text = group_codes([texts], drop_missing=True)
    assert (codes.tolist(), first_row.tolist()) == wanted
    assert (by_text.codes.tolist(), by_text.first_row.tolist()) == wanted
    assert by_text.keys[0].equals(texts.take(pa.array(first_row)))
    assert words.take(pa.array(first_row)).to_pylist() == list(dict.fromkeys(values.tolist()))


BYTES = st.one_of(
    st.binary(max_size=40),
    st.text("ab", max_size=20).map(str.encode),
    st.sampled_from([b"", b"\0", b"\0\0", b"12345678", b"12345678\0", b"123456789"]),
)


@given(values=st.lists(BYTES, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_texts_of_several_buffers(values: list[bytes], cuts: list[int]) -> None:
    edges = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    arrays = [pa.array(values[a:b], pa.binary()) for a, b in itertools.pairwise(edges)]
    chunks = []
    for array in arrays:
        offsets, data = byte_offsets(array)
        held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        chunks.append(Texts(held, offsets))
    with compiled_or_not(True):
        codes, groups = group_texts(chunks)
    wanted, first = numbered(values)
    assert codes.tolist() == wanted
    assert groups == len(first)


@pytest.mark.parametrize("values", [np.zeros(0, np.int64), np.zeros(3, np.int64)], ids=len)
def test_without_compiled_kernels_there_is_no_answer(values: np.ndarray) -> None:
    with compiled_or_not(False):
        assert group_range(values, 1) is None
        assert group_words(values) is None
        assert group_texts([]) is None

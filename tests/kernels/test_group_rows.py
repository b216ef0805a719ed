"""Rows numbered by numbers and by texts, against a dictionary of Python."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.grouped.grouping import group_codes
from tessel.expression.text_bytes import byte_offsets
from tessel.kernels.group_rows import Texts, group_range, group_texts, group_words
from tessel.kernels.word_numbers import hash_texts
from tests.kernels.forced import FORMS, LEVELS, in_form

rows_module = importlib.import_module("tessel.kernels.group_rows")


def numbered(values: list[Any]) -> tuple[list[int], list[int]]:
    """The number of each value in order of first appearance, and where each appears first."""
    numbers: dict[Any, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return codes, [codes.index(code) for code in range(len(numbers))]


@pytest.mark.parametrize("form", FORMS)
@given(values=st.lists(st.integers(0, 40), max_size=80), most=st.sampled_from([0, 1 << 31]))
def test_small_numbers(form: str, values: list[int], most: int) -> None:
    """In tables of 64 bits and of 32; the numbers are every other one of an array."""
    numbers = np.repeat(np.array(values, np.int64), 2)[::2]
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_MOST_IN_32_BITS", most)
        codes, first_row = group_range(numbers, 41)
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


WORDS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-3, 3))


@pytest.mark.parametrize("form", FORMS)
@given(values=st.lists(WORDS, max_size=80), cached=st.sampled_from([4, 1 << 16]))
def test_any_numbers(form: str, values: list[int], cached: int) -> None:
    """In one table, and in tables of parts of the words, which have to grow."""
    with in_form(form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_CACHED_WORDS", cached)
        patch.setattr(rows_module, "_WORDS_OF_PART", 4)
        patch.setattr(rows_module, "SAMPLED_WORDS", 4)
        codes, first_row = group_words(np.repeat(np.array(values, np.int64), 2)[::2])
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


def test_many_words_of_one_part() -> None:
    """All of them have the same bits of their hash where parts are told by them.

    They are looked for one after another, so few are many here.
    """
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    hashes = np.arange(1 << 13).astype(np.uint64) << np.uint64(30)
    mixed = hashes * np.uint64(inverse)
    values = (mixed ^ (mixed >> np.uint64(32))).view(np.int64)
    words = np.concatenate([values, values[::-1]])
    for level in LEVELS:
        with in_form(level), pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows_module, "_CACHED_WORDS", 1 << 12)
            patch.setattr(rows_module, "_WORDS_OF_PART", 1 << 9)
            codes, first_row = group_words(words)
        rows = np.arange(1 << 13)
        assert np.array_equal(codes, np.concatenate([rows, rows[::-1]]))
        assert np.array_equal(first_row, rows)


@pytest.mark.parametrize("form", FORMS)
def test_tables_grow(form: str) -> None:
    values = np.random.default_rng(3).permutation(np.repeat(np.arange(3000) * 7919**3, 2))
    words = pa.array(values)
    texts = pa.array([f"{value:x}" for value in values.tolist()])
    wanted = numbered(values.tolist())
    with in_form(form):
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


def chunks_of(values: list[bytes], cuts: list[int], kind: pa.DataType) -> list[Texts]:
    """Return texts in several arrays, each a slice of another: its first offset is not 0."""
    edges = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    chunks = []
    for low, high in itertools.pairwise(edges):
        array = pa.array([b"before", *values[low:high], b"behind"], kind).slice(1, high - low)
        offsets, data = byte_offsets(array)
        assert data is not None
        chunks.append(Texts(np.frombuffer(data, np.uint8), offsets))
    return chunks


@pytest.mark.parametrize("form", FORMS)
@given(
    values=st.lists(BYTES, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    kind=st.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_texts_of_several_buffers(
    form: str, values: list[bytes], cuts: list[int], kind: pa.DataType
) -> None:
    with in_form(form):
        codes, first_row = group_texts(chunks_of(values, cuts, kind))
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


@pytest.mark.parametrize("form", FORMS)
def test_different_texts_of_one_hash(form: str) -> None:
    """The hash adds up what each word and its place are mixed to: words can change places."""
    step = 0x9E3779B97F4A7C15
    first, second = 0x6161616161616161, 0x6262626262626262
    swapped = ((second + step) % (1 << 64), (first - step) % (1 << 64))
    values = [
        b"x",
        *(
            b"".join(word.to_bytes(8, "little") for word in words)
            for words in ((first, second), swapped)
        ),
    ] * 2
    chunk = chunks_of(values, [], pa.binary())
    hashes = np.empty(6, np.uint64)
    with in_form(form):
        hash_texts(chunk[0].data, chunk[0].offsets, hashes)
        codes, first_row = group_texts(chunk)
    assert hashes[1] == hashes[2]
    assert (codes.tolist(), first_row.tolist()) == numbered(values)


@pytest.mark.parametrize("form", FORMS)
def test_texts_without_bytes(form: str) -> None:
    """Some lie at the very end of their buffer, or have none."""
    nothing = np.zeros(0, np.uint8)
    with in_form(form):
        codes, first = group_texts(
            [Texts(nothing, np.zeros(3, np.int32)), Texts(nothing, np.zeros(1, np.int64))]
        )
        at_ends, both = group_texts(
            [Texts(np.full(9, 97, np.uint8), np.array([0, 9, 9, 9], np.int32))]
        )
        none = group_texts([])
    assert (codes.tolist(), first.tolist()) == ([0, 0], [0])
    assert (at_ends.tolist(), both.tolist()) == ([0, 1, 1], [0, 1])
    assert [each.tolist() for each in none] == [[], []]

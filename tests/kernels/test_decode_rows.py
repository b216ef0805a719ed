"""Columns decoded into numbers of every width, and into texts: in every form, and row by row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tessel.expression.text_bytes import decoded_text
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.decode_rows import decode_numbers, texts_of_codes
from tessel.kernels.program import Op
from tests.kernels.block_model import run_blocks, stored_integers
from tests.kernels.forced import FORMS, LEVELS, in_form
from tests.kernels.test_kernels import _blocks, _of_integers, _program

_DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
_MANY = 5_000


def _one_page(codes: NDArray[np.uint8]) -> StoredBlocks:
    """Return a column of bytes in one page of several blocks."""
    facts = np.array([0, 8, 255, 0, 0, 1], np.int64).reshape(6, 1, 1)
    return StoredBlocks(np.concatenate([codes, np.zeros(8, np.uint8)]), facts, 13, 0, len(codes))


def _decoded(codes: NDArray[np.int64], texts: list[bytes]) -> list[bytes]:
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    found = texts_of_codes(codes, starts, np.frombuffer(b"".join(texts), np.uint8), np.empty)
    assert found is not None
    offsets, data = found
    assert len(offsets) == len(codes) + 1
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    return [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]


@given(drawn=_blocks())
def test_numbers_of_every_width(drawn: Any) -> None:
    blocks, integers = drawn
    own = StoredBlocks(blocks.data, blocks.facts[:, :1], blocks.shift, blocks.start, blocks.stop)
    wanted = integers[0, blocks.start : blocks.stop]
    assert stored_integers(own, 0).tolist() == wanted.tolist()
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.DECIMAL, 0, 0, 0, 0)]
    floats = run_blocks(own, _program(steps, own.facts.shape[2])).floats[0]
    for form in FORMS:
        with in_form(form):
            for dtype in _DTYPES:
                out = np.empty(len(own), dtype)
                decode_numbers(own, out)
                assert out.tolist() == wanted.astype(dtype).tolist()
            out = np.empty(len(own), np.float64)
            decode_numbers(own, out)
        assert out.view(np.int64).tolist() == floats.view(np.int64).tolist()


@pytest.mark.parametrize("form", FORMS)
def test_no_rows(form: str) -> None:
    blocks = _of_integers([[1, 2, 3]]).cut(2, 2)
    with in_form(form):
        for dtype in (*_DTYPES, "f8"):
            decode_numbers(blocks, np.empty(0, dtype))
        for texts in ([b"one", b"other"], [b"same", b"long"]):
            assert _decoded(np.empty(0, np.int64), texts) == []


@pytest.mark.parametrize("form", FORMS)
def test_pages_of_several_blocks(form: str) -> None:
    codes = np.random.default_rng(1).integers(0, 3, _MANY).astype(np.uint8)
    blocks = _one_page(codes)
    with in_form(form):
        for dtype in _DTYPES:
            out = np.empty(_MANY, dtype)
            decode_numbers(blocks, out)
            assert (out == codes).all()
        floats = np.empty(_MANY)
        decode_numbers(blocks, floats)
        assert (floats == codes / 10).all()
        for texts in ([b"", b"a", b"more than eight"], [b"ABC", b"DEF", b"GHI"]):
            found = _decoded(codes.astype(np.int64), texts)
            assert found == [texts[code] for code in codes]


_TEXTS = st.lists(st.binary(max_size=20), min_size=1, max_size=6)
_ALIKE = st.integers(0, 20).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=6)
)


@given(
    texts=_TEXTS | _ALIKE,
    codes=st.lists(
        st.integers(-2, 8) | st.sampled_from([-(1 << 63), (1 << 63) - 1]), min_size=1, max_size=90
    ),
)
def test_texts_by_code(texts: list[bytes], codes: list[int]) -> None:
    """Of any lengths, or all alike; a code of no text, which is forged, is that of the last one."""
    wanted = [texts[code] if 0 <= code < len(texts) else texts[-1] for code in codes]
    for form in FORMS:
        with in_form(form):
            assert _decoded(np.array(codes), texts) == wanted


@pytest.mark.parametrize("form", LEVELS)
def test_texts_of_more_than_31_bits_are_left_alone(form: str) -> None:
    codes, starts = np.zeros(_MANY, np.int64), np.array([0, 1 << 20], np.int32)
    with in_form(form):
        assert texts_of_codes(codes, starts, np.zeros(1 << 20, np.uint8), np.empty) is None


@pytest.mark.parametrize("form", FORMS)
@given(
    entries=st.lists(st.binary(max_size=20), min_size=1, max_size=6),
    data=st.data(),
    kind=st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]),
)
def test_texts_of_codes(form: str, entries: list[bytes], data: st.DataObject, kind: Any) -> None:
    places = data.draw(st.lists(st.integers(0, len(entries) - 1) | st.none(), max_size=30))
    held = pa.array([b"before", *entries, b"after"]).slice(1, len(entries))
    column = pa.DictionaryArray.from_arrays(pa.array([0, *places], kind), held).slice(1)
    with in_form(form):
        found = decoded_text(pa.chunked_array([column, column]), pa.binary())
    found.validate(full=True)
    assert found.to_pylist() == 2 * [None if at is None else entries[at] for at in places]

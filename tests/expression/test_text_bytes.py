"""The order of texts by their bytes, beside Python's."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.values import different_values, ranks
from tessel.expression.text_bytes import ordered_texts
from tests.kernels.forced import FORMS, in_form

_ENDS = st.binary(max_size=20) | st.text("\0ab", max_size=20).map(str.encode)
_TEXTS = st.builds(
    lambda begin, end: begin + end, st.sampled_from([b"", b"abcdefgh", b"\0" * 9, b"x" * 70]), _ENDS
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@given(texts=st.lists(_TEXTS, max_size=60), cut=st.integers(0, 3))
def test_texts_are_ordered_by_bytes(
    kind: pa.DataType, form: str, texts: list[bytes], cut: int
) -> None:
    array = pa.array(texts, kind)[cut:]
    texts = texts[cut:]
    with in_form(form):
        order, repeats = ordered_texts(array)
    assert order.tolist() == sorted(range(len(texts)), key=texts.__getitem__)
    ascending = sorted(texts)
    alike = [a == b for a, b in itertools.pairwise(ascending)]
    assert repeats.tolist() == [False, *alike][: len(texts)]
    codes, distinct = ranks(array)
    assert distinct.to_pylist() == sorted(set(texts))
    assert distinct.take(pa.array(codes)).equals(array)
    codes, entries = different_values(array)
    assert len(set(entries.to_pylist())) == len(entries)
    assert entries.take(pa.array(codes)).equals(array)


@pytest.mark.parametrize("different", [300, 50_000])
def test_many_texts_are_ordered_by_bytes(different: int) -> None:
    """Past what one table of groups has room for, with beginnings of several kinds."""
    numbers = np.random.default_rng(0).permutation(60_000)
    texts = [f"{'https://example.com/' * (number % 3)}{number % different}" for number in numbers]
    for array in (pa.array(texts), pa.array(texts, pa.large_string())):
        order, _ = ordered_texts(array)
        assert order.tolist() == sorted(range(len(texts)), key=texts.__getitem__)
        codes, distinct = ranks(array)
        assert distinct.to_pylist() == sorted(set(texts))
        assert distinct.take(pa.array(codes)).equals(array)
        codes, entries = different_values(array)
        assert len(entries) == len(set(texts))
        assert entries.take(pa.array(codes)).equals(array)

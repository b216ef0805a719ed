"""Searches in texts, against Python's own, in each form and across the edges of blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel.kernels.search_rows as module
from tessel.expression import col
from tessel.expression.evaluate import evaluate
from tessel.expression.text_bytes import texts_of
from tessel.kernels.search_rows import search_texts
from tests.kernels.forced import FORMS, LEVELS, in_form

_text = st.text(st.sampled_from("aabcé "), max_size=12)


@given(
    texts=st.lists(st.one_of(st.none(), _text), max_size=30),
    part=_text.filter(len),
    start=st.integers(0, 4),
    block=st.sampled_from([8, 16, 4096]),
    form=st.sampled_from(FORMS),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
)
def test_it_finds_what_python_finds(
    texts: list[str | None], part: str, start: int, block: int, form: str, kind: pa.DataType
) -> None:
    with pytest.MonkeyPatch.context() as patch, in_form(form):
        patch.setattr(module, "_BLOCK", block)
        found = search_texts(texts_of(pa.array(texts, kind).slice(start)), part.encode())
    assert found.tolist() == [part in (text or "") for text in texts[start:]]


@pytest.mark.parametrize("form", LEVELS)
def test_no_part_is_found_over_the_edge_of_two_texts(form: str) -> None:
    texts = pa.array(["xa", "bx", "ab", "a", "b", "", "aab"] * 3_000)
    with in_form(form):
        found = search_texts(texts_of(texts), b"ab")
    assert found.tolist() == [False, False, True, False, False, False, True] * 3_000


@pytest.mark.parametrize("form", FORMS)
def test_forged_offsets_are_no_places(form: str) -> None:
    data = np.frombuffer(b"abababab", np.uint8)
    for offsets in ([-5, 3, 99], [7, 2, 8], [0, 1 << 30, 8], [9, 9, 9], [3, 3, -1]):
        with in_form(form):
            found = search_texts(module.Texts(data, np.array(offsets, np.int32)), b"ab")
        assert len(found) == 2


@given(texts=st.lists(st.one_of(st.none(), _text), min_size=1, max_size=9), part=_text)
def test_expressions_search_as_arrow_does(texts: list[str | None], part: str) -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({"s": pa.array(texts).cast(kind)})
        expected = pc.match_substring(table["s"].cast(pa.string()), part).to_pylist()
        assert evaluate(col("s").contains(part), table).to_pylist() == expected
        for pattern in (f"%{part}%", f"%{part}", f"%_{part}%", "%", "%%", f"%\\%{part}%"):
            liked = pc.match_like(table["s"].cast(pa.string()), pattern).to_pylist()
            assert evaluate(col("s").like(pattern), table).to_pylist() == liked

"""Numbers of texts: against a dictionary, with texts whose hashes are one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.group_rows import Texts
from tessel.kernels.text_numbers import TextNumbers
from tests.kernels.forced import FORMS, LEVELS, in_form

_FACTOR, _ALL = 0x9E3779B97F4A7C15, 2**64 - 1


def _mixed(mixed: int, word: int) -> int:
    mixed = ((mixed ^ word) * _FACTOR) & _ALL
    return mixed ^ (mixed >> 32)


def _of_one_hash(count: int) -> list[bytes]:
    """Return different texts of two words: what the first ones make different, the second undo."""
    first = [number * 0x0101010101010101 for number in range(1, count + 1)]
    second = [_mixed(16, first[0]) ^ _mixed(16, word) ^ 0x6161616161616161 for word in first]
    assert len({_mixed(16, one) ^ two for one, two in zip(first, second, strict=True)}) == 1
    return [
        one.to_bytes(8, "little") + two.to_bytes(8, "little")
        for one, two in zip(first, second, strict=True)
    ]


_SAME = _of_one_hash(6)
_texts = st.one_of(
    st.none(),
    st.sampled_from(_SAME),
    st.binary(max_size=3),
    st.sampled_from([b"", b"\0", b"\0" * 8, b"a" * 7, b"a" * 8, b"a" * 9, b"a" * 16, b"a" * 17]),
)


def _arrow(rows: Sequence[bytes | None], width: Any, before: int) -> Texts:
    """Return rows as they lie in an array, of which those before are sliced off."""
    held = [b"zz"] * before + [row or b"" for row in rows]
    offsets: np.ndarray = np.cumsum([0, *map(len, held)]).astype(width)[before:]
    return Texts(np.frombuffer(b"".join(held) + b"rest", np.uint8), offsets)


def _absent(rows: Sequence[bytes | None]) -> np.ndarray | None:
    absent = np.array([row is None for row in rows], np.bool_)
    return absent if absent.any() else None


@pytest.mark.parametrize("form", FORMS)
@given(
    rows=st.lists(_texts, max_size=30),
    asked=st.lists(_texts, max_size=30),
    width=st.sampled_from([np.int32, np.int64]),
    before=st.integers(0, 3),
)
def test_numbers_of_texts(
    form: str, rows: list[bytes | None], asked: list[bytes | None], width: Any, before: int
) -> None:
    known: dict[bytes | None, int] = {None: -1}
    for row in rows:
        known.setdefault(row, len(known) - 1)
    with in_form(form):
        numbers = TextNumbers(_arrow(rows, width, before), _absent(rows))
        found = numbers.find(_arrow(asked, width, 3 - before), _absent(asked))
    assert numbers.codes.tolist() == [known[row] for row in rows]
    assert len(numbers) == len(known) - 1
    assert found.tolist() == [known.get(row, -1) for row in asked]


@pytest.mark.parametrize(("form", "kept"), [("python", 600), *((level, 9_000) for level in LEVELS)])
def test_many_texts(form: str, kept: int) -> None:
    """More than are looked at together."""
    words = [f"text {number % 7_000}".encode() * (number % 3 + 1) for number in range(9_000)]
    words = words[:kept]
    with in_form(form):
        numbers = TextNumbers(_arrow(words, np.int32, 0))
        found = numbers.find(_arrow(words[::-1], np.int32, 1))
    assert (found == numbers.codes[::-1]).all()
    by_number = dict(zip(numbers.codes.tolist(), words, strict=True))
    assert all(
        by_number[at] == word for at, word in zip(numbers.codes.tolist(), words, strict=True)
    )
    assert len(numbers) == len(set(words))


@pytest.mark.parametrize("form", FORMS)
def test_no_texts_and_none_that_is_there(form: str) -> None:
    nothing = _arrow([], np.int64, 0)
    with in_form(form):
        none = TextNumbers(nothing)
        absent = TextNumbers(_arrow([None, None], np.int64, 0), _absent([None, None]))
        found = [each.find(_arrow([b"", b"a"], np.int32, 0)).tolist() for each in (none, absent)]
        assert len(none.find(nothing)) == 0
    assert found == [[-1, -1]] * 2
    assert (len(none), none.codes.tolist()) == (0, [])
    assert (len(absent), absent.codes.tolist()) == (0, [-1, -1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pair", list(itertools.combinations(_SAME, 2)))
def test_texts_of_one_hash_are_told_apart(form: str, pair: tuple[bytes, bytes]) -> None:
    with in_form(form):
        numbers = TextNumbers(_arrow(pair[:1], np.int32, 0))
        assert numbers.find(_arrow(pair, np.int32, 0)).tolist() == [0, -1]

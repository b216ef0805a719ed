"""Columns decoded in one pass, by kernels of every level, are those that were written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.kernels import decode_rows
from tessel.store.segment import decode as module
from tessel.store.segment.decode import decode_column, decode_plain
from tests.kernels.forced import LEVELS, in_form
from tests.store.reference.segments import segment_sizes, segment_tables
from tests.store.segment.helpers import with_ids, write_options
from tests.store.segment.test_decode import opened, same

_WORDS = ["", "a", "EURUSD", "a venue", "eight ch", "more than eight", "π" * 20, "z" * 64]


@contextlib.contextmanager
def _at_once(level: str) -> Iterator[None]:
    """Decode any number of rows in one pass, by the kernels of a level."""
    with pytest.MonkeyPatch.context() as patch, in_form(level):
        patch.setattr(module, "_LEAST_ROWS", 1)
        yield


@settings(max_examples=25)
@given(st.data())
def test_any_range_of_any_table(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    segment = opened(table, data.draw(write_options(table)))
    start, stop = sorted(data.draw(st.integers(0, table.num_rows)) for _ in range(2))
    for level in LEVELS:
        with _at_once(level):
            for node in segment.tops:
                expected = table.column(node.top).slice(start, stop - start)
                assert same(decode_column(segment, node, start, stop), expected)


def _columns(rows: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    signed = random.integers(-100, 100, rows)
    words = np.array(_WORDS, dtype=object)
    return {
        "decimal": np.round(random.normal(0, 1e4, rows), 2),
        "float": random.normal(0, 1, rows),
        "single": random.normal(0, 1, rows).astype(np.float32),
        "constant": np.full(rows, -7),
        "regular": np.arange(rows) * 1000 + 5,
        "nearly": pa.array(np.arange(rows) * 1000 + signed, pa.timestamp("ns", "UTC")),
        "small": signed.astype(np.int8),
        "half": (signed * 100).astype(np.int16),
        "date": pa.array(signed.astype(np.int32), pa.date32()),
        "huge": random.integers(0, 1 << 63, rows, dtype=np.uint64) * np.uint64(2),
        "extreme": np.where(signed < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max),
        "symbol": pa.array([f"SYM{number:02d}" for number in signed % 50]),
        "words": pa.array(words[signed % len(words)].tolist()),
        "long": pa.array([f"{number:064d}" for number in signed % 9]),
        "nothing": pa.array([""] * rows),
    }


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=10)
@given(rows=st.integers(1, 1_500), seed=st.integers(0, 99), data=st.data())
def test_every_kind_of_plain_column(level: str, rows: int, seed: int, data: Any) -> None:
    table = with_ids(pa.table(_columns(rows, seed)))
    segment = opened(table, data.draw(write_options(table)))
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    with _at_once(level):
        for node in segment.tops:
            found = decode_plain(segment, node, start, stop)
            if found is not None:
                assert same(found, table.column(node.top).slice(start, stop - start))


@pytest.mark.parametrize("level", LEVELS)
def test_most_of_these_columns_are_plain(level: str) -> None:
    table = with_ids(pa.table(_columns(5_000, 1)))
    segment = opened(table)
    with _at_once(level):
        found = [decode_plain(segment, node, 10, 4_990) is not None for node in segment.tops]
    names = list(_columns(1, 1))
    left = {name for name, plain in zip(names, found, strict=True) if not plain}
    assert left == {"float", "single", "small", "half", "huge", "extreme"}, "as Arrow has them"


@pytest.mark.parametrize("level", LEVELS)
def test_texts_of_more_than_31_bits_are_left_alone(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = opened(with_ids(pa.table({"text": ["a" * 60, "b" * 60] * 4_000})))
    (node,) = segment.tops
    with in_form(level):
        assert decode_plain(segment, node, 0, 8_000) is not None
        monkeypatch.setattr(decode_rows, "_LARGEST_OFFSET", 1_000)
        assert decode_plain(segment, node, 0, 8_000) is None

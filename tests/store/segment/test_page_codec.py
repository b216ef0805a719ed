"""Codecs of pages: byte planes, and when they are chosen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.block_codec import (
    block_table,
    compress_blocks,
    decompress_blocks,
)
from tessel.store.encodings.codes import Codec
from tessel.store.segment.column_writer import EncodedColumn
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tests.store.reference.decoder import decode_segment
from tests.store.reference.segments import plain_values

PLANES = {Codec.ZSTD_PLANES_2: 2, Codec.ZSTD_PLANES_4: 4, Codec.ZSTD_PLANES_8: 8}


@pytest.mark.parametrize("codec", PLANES)
@given(words=st.lists(st.integers(0, 2**16 - 1), min_size=8, max_size=300))
def test_planes_round_trip(codec: Codec, words: list[int]) -> None:
    raw = np.resize(np.array(words, "<u8"), len(words) // 8 * 8).view(np.uint8)
    stored = compress_blocks(raw, codec)
    assert (decompress_blocks(stored, codec, len(raw), {}) == raw).all()


@pytest.mark.parametrize(("codec", "planes"), PLANES.items())
def test_a_plane_is_a_block(codec: Codec, planes: int) -> None:
    low = np.random.default_rng(1).integers(0, 256, 4096)
    raw = (low + (7 << 8 if planes > 1 else 0)).astype(f"<u{planes}").view(np.uint8)
    places = block_table(stored := compress_blocks(raw, codec), codec, len(raw), {})
    assert len(places) == planes + 1
    kept = stored[places[0] : places[1]]
    assert (kept == low.astype(np.uint8)).all()
    second = stored[places[1] : places[2]].tobytes()
    assert pa.decompress(second, 4096, codec="zstd", asbytes=True) == bytes([7]) * 4096


@pytest.mark.parametrize("codec", PLANES)
def test_a_table_of_planes_that_is_none(codec: Codec) -> None:
    raw = np.arange(1024, dtype="<u8").view(np.uint8)
    stored = compress_blocks(raw, codec)
    for size in (0, 64, len(raw) * 2, len(raw) * 1000):
        with pytest.raises(CorruptSegmentError):
            decompress_blocks(stored, codec, size, {})


def _column(values: pa.Array, options: WriteOptions) -> EncodedColumn:
    table = pa.table({"1": values})
    segment = encode_segment(table, options)
    assert decode_segment(segment.to_buffer().to_pybytes())["1"] == plain_values(values)
    return segment.columns[0]


def test_prices_with_a_skewed_distribution_get_planes() -> None:
    random = np.random.default_rng(2)
    prices = np.round(np.exp(random.normal(3, 1, 20_000)), 2)
    prices[0] = 900.17
    column = _column(pa.array(prices), WriteOptions(profile=COMPACT))
    assert column.records["codec"].tolist() == [Codec.ZSTD_PLANES_4]
    plain = _column(pa.array(prices), WriteOptions(profile=FAST))
    assert plain.records["codec"].tolist() == [Codec.NONE]
    assert int(column.records["length"][0]) < 0.95 * int(plain.records["length"][0])


def test_noise_is_packed_and_not_compressed() -> None:
    noise = np.random.default_rng(3).integers(0, 1 << 13, 20_000)
    column = _column(pa.array(noise), WriteOptions(profile=COMPACT))
    assert column.records["codec"].tolist() == [Codec.NONE]
    assert column.records["bit_width"].tolist() == [13]


def test_words_are_compressed_as_they_are() -> None:
    words = pa.array([f"the number is {n} of many" for n in range(20_000)])
    column = _column(words, WriteOptions(profile=COMPACT))
    assert column.records["codec"].tolist() == [Codec.ZSTD]

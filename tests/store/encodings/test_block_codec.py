"""Blocks of 64 KiB, compressed one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.block_codec import (
    compress_blocks,
    decompress_blocks,
    fewest_stored_bytes,
)
from tessel.store.encodings.codes import BLOCK_BYTES, Codec
from tests.store.encodings.helpers import PLACE, bounded_memory

CODECS = pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
SIZES = (0, 1, 64, 65_535, 65_536, 65_537, 200_000)


def payload(size: int, kind: str = "mixed"):
    random = np.random.default_rng(size)
    noise = random.integers(0, 256, size).astype(np.uint8)
    words = np.resize(np.frombuffer(b"one word after the other ", np.uint8), size)
    made = {"noise": noise, "words": words, "zeros": np.zeros(size, np.uint8)}
    mixed = words.copy()
    mixed[BLOCK_BYTES : 2 * BLOCK_BYTES] = noise[BLOCK_BYTES : 2 * BLOCK_BYTES]
    return (made | {"mixed": mixed})[kind]


@CODECS
@pytest.mark.parametrize("kind", ["noise", "words", "zeros", "mixed"])
@pytest.mark.parametrize("size", SIZES)
def test_round_trip(size: int, kind: str, codec: Codec) -> None:
    raw = payload(size, kind)
    stored = compress_blocks(raw, codec)
    assert len(stored) >= fewest_stored_bytes(size)
    assert (decompress_blocks(stored, codec, size, PLACE) == raw).all()


def test_the_table_is_that_of_the_format() -> None:
    raw = payload(200_000)
    stored = compress_blocks(raw, Codec.ZSTD)
    places = stored[:20].view("<u4").tolist()
    assert places[0] == 20
    assert places[-1] == len(stored)
    for block, (start, stop) in enumerate(itertools.pairwise(places)):
        expected = raw[block * 65_536 : (block + 1) * 65_536].tobytes()
        held = stored[start:stop].tobytes()
        if len(held) != len(expected):
            held = pa.decompress(held, len(expected), codec="zstd", asbytes=True)
        assert held == expected


def refused(stored, codec: Codec, size: int, words: str) -> None:
    with (
        bounded_memory(1 << 20),
        pytest.raises(CorruptSegmentError, match=words) as caught,
    ):
        decompress_blocks(stored, codec, size, PLACE)
    assert PLACE.items() <= caught.value.attributes.items()


@CODECS
def test_wrong_tables_are_refused(codec: Codec) -> None:
    stored = compress_blocks(payload(200_000, "words"), codec)
    refused(stored[:12], codec, 200_000, "cut short")
    refused(stored[:-1], codec, 200_000, "blocks end at")
    refused(np.append(stored, np.uint8(0)), codec, 200_000, "blocks end at")
    for place, value in ((0, 0), (1, 3), (2, 2**32 - 1), (4, 10), (0, 2**32 - 1)):
        forged = stored.copy()
        forged[:20].view("<u4")[place] = value
        refused(forged, codec, 200_000, "does not ascend|blocks end at")


@CODECS
def test_promises_of_gigabytes_are_refused_before_memory_is_taken(codec: Codec) -> None:
    stored = compress_blocks(payload(64, "words"), codec)
    refused(stored, codec, (1 << 32) - 64, "cut short")


def test_a_block_that_gives_too_few_bytes_is_refused() -> None:
    """LZ4 would leave whatever was in memory at the end."""
    for codec in (Codec.LZ4, Codec.ZSTD):
        short = compress_blocks(payload(1000, "zeros"), codec)
        refused(short, codec, 1001, "does not give 1001 bytes|cannot be decompressed")
        refused(short, codec, 999, "cannot be decompressed")


def test_a_bomb_is_refused() -> None:
    bomb = compress_blocks(payload(65_536, "zeros"), Codec.ZSTD)
    refused(bomb, Codec.ZSTD, 128, "cannot be decompressed|does not ascend")
    inside = np.concatenate((np.array([8, 8 + 20], "<u4").view(np.uint8), bomb[8:28]))
    refused(inside, Codec.LZ4, 65_536, "does not ascend")


@CODECS
@given(data=st.data())
def test_hostile_bytes(codec: Codec, data) -> None:
    size = data.draw(st.sampled_from([64, 1000, 70_000]))
    stored = compress_blocks(payload(size, "words"), codec).copy()
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    length = data.draw(st.sampled_from([size, size + 64, 64]))
    with bounded_memory(4 << 20):
        try:
            found = decompress_blocks(stored, codec, length, PLACE)
        except CorruptSegmentError as error:
            assert "damaged page" in str(error)  # noqa: PT017
        else:
            again = decompress_blocks(stored, codec, length, PLACE)
            assert len(found) == length
            assert (found == again).all()

"""The bucket hash: written down to the bit, equal for equal keys, well spread."""

from __future__ import annotations

import decimal
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.grouped.hashing import MISSING_HASH, bucket_of, hash_column, hash_rows
from tessel.errors import InvalidInputError
from tests.clauses.test_grouping import key_columns, rows_of
from tests.kernels.forced import FORMS, in_form

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
BINARY = (pa.binary(), pa.large_binary())


def mix(number: int) -> int:
    """The definition, in Python integers."""
    number = (number + GOLDEN) & MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def hash_bytes(data: bytes) -> int:
    total = len(data)
    for place in range(0, len(data), 8):
        word = int.from_bytes(data[place : place + 8].ljust(8, b"\0"), "little")
        total += mix((word + (place // 8 + 1) * GOLDEN) & MASK)
    return mix(total & MASK)


def hash_value(value: Any) -> int:
    if value is None or value != value:
        return MISSING_HASH
    if isinstance(value, str):
        return hash_bytes(value.encode())
    if isinstance(value, bytes):
        return hash_bytes(value)
    if isinstance(value, float):
        return mix(struct.unpack("<Q", struct.pack("<d", value + 0.0))[0])
    return mix(int(value) & MASK)


def test_splitmix64_is_the_published_one() -> None:
    # First outputs of the reference generator with seed 0.
    assert [mix(0), mix(GOLDEN), mix(2 * GOLDEN & MASK)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


VALUES = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, MASK)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "text": (pa.string(), st.text()),
    "large text": (pa.large_string(), st.text()),
    "binary": (pa.binary(), st.binary(max_size=40)),
    "fixed binary": (pa.binary(9), st.binary(min_size=9, max_size=9)),
}


@pytest.mark.parametrize("name", sorted(VALUES))
@given(data=st.data())
def test_hash_follows_its_definition(name: str, data: st.DataObject) -> None:
    kind, values = VALUES[name]
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    array = pa.array(drawn, kind, from_pandas=False)
    skipped = data.draw(st.integers(0, len(drawn)))
    assert hash_column(array.slice(skipped)).tolist() == [hash_value(v) for v in drawn[skipped:]]


@given(st.lists(st.integers(-(10**20), 10**20), min_size=1))
def test_decimals_hash_both_words(numbers: list[int]) -> None:
    array = pa.array([decimal.Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(38, 2))
    wanted = [mix((mix((n >> 64) & MASK) + (n & MASK)) & MASK) for n in numbers]
    assert hash_column(array).tolist() == wanted


@given(key_columns())
def test_equal_keys_hash_equally_and_rows_combine_in_order(columns: list[Any]) -> None:
    hashes = hash_rows(columns).tolist()
    seen: dict[Any, int] = {}
    for row, value in zip(rows_of(columns), hashes, strict=True):
        assert seen.setdefault(row, value) == value
    wanted = [0] * len(hashes)
    for column in columns:
        parts = hash_column(column).tolist()
        wanted = [mix((a + b) & MASK) for a, b in zip(wanted, parts, strict=True)]
    assert hashes == wanted


def test_representation_does_not_show() -> None:
    texts = ["a", None, "", "a longer text than a word", "a"]
    array = pa.array(texts)
    forms = [
        array.cast(pa.large_string()),
        array.cast(pa.string_view()),
        array.cast(pa.binary()),
        array.dictionary_encode(),
        pa.chunked_array([array[:2], array[2:]]),
        pa.chunked_array([array[:2].dictionary_encode(), array[2:].dictionary_encode()]),
        pa.concat_arrays([array, array])[5:],
    ]
    for form in forms:
        assert hash_column(form).tolist() == hash_column(array).tolist()
    ints = pa.array([1, None, -5])
    assert hash_column(ints.cast(pa.int8())).tolist() == hash_column(ints).tolist()
    zeros = pa.array([0.0, -0.0])
    assert len(set(hash_column(zeros).tolist())) == 1
    gaps = pa.array([None, math.nan], pa.float64(), from_pandas=False)
    assert hash_column(gaps).tolist() == [MISSING_HASH] * 2


@pytest.mark.parametrize("form", FORMS)
@given(texts=st.lists(st.binary(max_size=40), max_size=12), kind=st.sampled_from(BINARY))
def test_texts_are_hashed_by_their_words(form: str, texts: list[bytes], kind: pa.DataType) -> None:
    array = pa.array([b"-", *texts], kind)[1:]
    with in_form(form):
        assert hash_column(array).tolist() == [hash_value(text) for text in texts]


# Golden values: a change of any breaks agreement between workers of different versions.
GOLDEN_ARRAYS = [
    (pa.array([0, 1, -1, 2**40]), "int"),
    (pa.array([0.0, 1.5, math.nan]), "float"),
    (pa.array(["", "AA", "Newark Liberty"]), "text"),
    (pa.array([True, False]), "bool"),
    (pa.array([1_357_016_400_000_000_000], pa.timestamp("ns", "UTC")), "timestamp"),
    (pa.array([decimal.Decimal("12.34")]), "decimal"),
]
GOLDEN_HASHES = {
    "int": ["e220a8397b1dcdaf", "910a2dec89025cc1", "e4d971771b652c20", "1fdd7128f310c389"],
    "float": ["e220a8397b1dcdaf", "d6dab18e1392608a", "6d697373696e6721"],
    "text": ["e220a8397b1dcdaf", "b251ed7b45f7ac3e", "576775f247a36924"],
    "bool": ["910a2dec89025cc1", "e220a8397b1dcdaf"],
    "timestamp": ["91726a6dea882dfb"],
    "decimal": ["69f53ddf6390e41b"],
}


def test_golden_hashes() -> None:
    found = {name: [f"{h:016x}" for h in hash_column(array)] for array, name in GOLDEN_ARRAYS}
    assert found == GOLDEN_HASHES


def test_golden_buckets() -> None:
    rows = [pa.array(["UA", "AA", None, "DL"]), pa.array([1, 2, 3, 4])]
    assert bucket_of(rows, 1000).tolist() == [121, 196, 224, 995]


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(64_000),
        np.arange(64_000) * 1_000_000_000 + 1_357_016_400_000_000_000,
        np.arange(64_000) * 3_600_000_000_000,
        np.arange(64_000) << 32,
        -np.arange(64_000),
    ],
    ids=["sequence", "seconds", "hours", "high half", "negative"],
)
@pytest.mark.parametrize("buckets", [2, 64, 100])
def test_regular_keys_spread_evenly(numbers: np.ndarray, buckets: int) -> None:
    for column in (pa.array(numbers), pa.array(numbers.astype(float)), pa.array(map(str, numbers))):
        sizes = np.bincount(bucket_of([column], buckets), minlength=buckets)
        mean = 64_000 / buckets
        # Six standard deviations of a fair throw.
        assert abs(sizes - mean).max() < 6 * math.sqrt(mean)


def test_buckets_out_of_range_are_refused() -> None:
    for buckets in (0, -1, 2**31):
        with pytest.raises(InvalidInputError, match="buckets"):
            bucket_of([pa.array([1])], buckets)
    with pytest.raises(InvalidInputError, match="no key columns"):
        bucket_of([], 2)
    with pytest.raises(InvalidInputError, match="lengths"):
        bucket_of([pa.array([1]), pa.array([1, 2])], 2)


def test_buckets_are_numbers_below_their_count() -> None:
    found = bucket_of([pa.array(np.arange(1000))], 7)
    assert found.dtype == np.int64
    assert set(found.tolist()) == set(range(7))
    assert set(bucket_of([pa.array(np.arange(10))], 1).tolist()) == {0}

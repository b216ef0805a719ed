"""Zone maps: bounds hold for every value, exact ones are values, nothing wanted is pruned."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.encodings.codes import ValueKind
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tessel.store.segment.zone_maps import ZoneMaps

SHIFT = 2
KINDS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "float64": (pa.float64(), st.floats(width=64)),
    "float32": (pa.float32(), st.floats(width=32)),
    "decimal": (
        pa.decimal128(38, 0),
        st.one_of(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-9, 9)).map(Decimal),
    ),
    "text": (
        pa.string(),
        st.text(alphabet="ab\0\U0010ffff", max_size=12).map(lambda text: "common" + text),
    ),
    "bytes": (pa.binary(), st.binary(max_size=12) | st.just(b"\xff" * 11)),
    "fixed": (pa.binary(10), st.binary(min_size=10, max_size=10)),
    "words": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["", "word", "words", "\0"])),
}


def zone_maps(array: pa.Array) -> ZoneMaps:
    options = WriteOptions(page_shifts={"4": SHIFT})
    segment = encode_segment(pa.table({"4": array}), options)
    data = segment.to_buffer()
    file = SegmentFile.open(
        lambda start, stop: data.slice(start, stop - start),
        object="o",
        offset=0,
        length=data.size,
    )
    return file.zone_maps(0)


def slot(value: object, maps: ZoneMaps) -> float | int | None:
    """What a value is compared as."""
    if isinstance(value, str | bytes):
        return maps.key(value.encode() if isinstance(value, str) else value)
    return float(value) if maps.kind == ValueKind.FLOAT else int(value)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_bounds_are_sound(name: str, data: st.DataObject) -> None:
    type_, values = KINDS[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=13))
    maps = zone_maps(pa.array(rows, type_))
    for page in range(len(maps.rows)):
        held = rows[page << SHIFT : (page + 1) << SHIFT]
        nans = sum(isinstance(v, float) and math.isnan(v) for v in held)
        present = [v for v in held if v is not None and v == v]
        assert maps.rows[page] == len(held)
        assert maps.nulls[page] == held.count(None)
        assert maps.nans[page] == nans
        assert maps.bounded[page] == bool(present)
        if not present:
            continue
        keys = [slot(v, maps) for v in present]
        assert None not in keys
        assert maps.low_open[page] or all(maps.minimum[page] <= key for key in keys)
        assert maps.high_open[page] or all(maps.maximum[page] >= key for key in keys)
        ordered = [v.encode() if isinstance(v, str) else v for v in present]
        if maps.minimum_exact[page]:
            assert slot(min(ordered), maps) == maps.minimum[page]
        if maps.maximum_exact[page]:
            assert slot(max(ordered), maps) == maps.maximum[page]
        for key in keys:
            assert maps.may_hold(key, key)[page]
        if maps.ascending[page]:
            assert ordered == sorted(ordered)
            assert len(ordered) == len(held)


@pytest.mark.parametrize(
    ("rows", "exact"),
    [
        (["x1", "x2"], True),
        (["x12345678", "x22345678"], True),
        (["x123456789", "x223456789"], False),
        (["a\0", "b\0"], False),
    ],
)
def test_a_cut_bound_says_so(rows: list[str], exact: bool) -> None:
    maps = zone_maps(pa.array(rows))
    assert maps.minimum_exact[0] == exact
    assert maps.maximum_exact[0] == exact


def test_a_maximum_of_all_ones_is_open() -> None:
    maps = zone_maps(pa.array([b"", b"\xff" * 9]))
    assert maps.high_open[0]
    assert not maps.low_open[0]
    assert maps.may_hold(maps.key(b"\xff" * 20), None)[0]


def test_decimals_beyond_64_bits_are_open_on_that_side() -> None:
    wide = pa.array([Decimal(10**30), Decimal(-5)], pa.decimal128(38, 0))
    maps = zone_maps(wide)
    assert (maps.high_open[0], maps.low_open[0]) == (True, False)
    assert maps.minimum[0] == -5
    assert maps.minimum_exact[0]
    all_wide = zone_maps(pa.array([Decimal(10**30), Decimal(10**31)], pa.decimal128(38, 0)))
    assert all_wide.minimum[0] == 2**63 - 1
    assert not all_wide.minimum_exact[0]


def test_pages_are_pruned_as_arrays() -> None:
    maps = zone_maps(pa.array(np.arange(64)))
    assert maps.may_hold(17, 21).nonzero()[0].tolist() == [4, 5]
    assert maps.may_hold(None, 3).nonzero()[0].tolist() == [0]
    assert maps.may_hold(60, None).nonzero()[0].tolist() == [15]
    assert maps.ascending.all()


def test_text_that_lacks_the_prefix_has_no_key() -> None:
    maps = zone_maps(pa.array(["SYM0001", "SYM0002"]))
    assert maps.prefix == b"SYM000"
    assert maps.key(b"SYN0001") is None
    assert maps.key(b"SYM0002") == maps.maximum[0]

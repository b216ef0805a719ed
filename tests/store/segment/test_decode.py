"""Any rows of any table, decoded in any way, are those of the table that was written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError
from tessel.store.encodings.codes import EncodingCode
from tessel.store.segment.decode import decode_column
from tessel.store.segment.decode_take import take_column
from tessel.store.segment.encoded_column import SegmentColumn
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tessel.store.segment.pages import SegmentPages
from tests.store.reference.segments import plain_values, segment_sizes, segment_tables
from tests.store.segment.helpers import with_ids, write_options


def opened(table: pa.Table, options: WriteOptions | None = None) -> SegmentPages:
    """Return a table (columns named by id) as an opened segment."""
    data = encode_segment(table, options).to_buffer()
    file = SegmentFile.open(
        lambda start, stop: data.slice(start, stop - start),
        object="seg/x",
        offset=0,
        length=data.size,
    )
    pages = int(file.directory["page_count"].sum()) + int(file.directory["has_dictionary"].sum())
    return SegmentPages(file, np.frombuffer(data, np.uint8), np.zeros(pages, np.bool_))


def same(found: pa.Array | pa.ChunkedArray, expected: pa.ChunkedArray) -> bool:
    """Return whether type and all values agree, floats as bits; checks that the array is valid."""
    found.validate(full=True)
    return found.type == expected.type and plain_values(found) == plain_values(expected)


@given(st.data())
def test_any_range_of_any_table(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    segment = opened(table, data.draw(write_options(table)))
    ends = data.draw(st.lists(st.integers(0, table.num_rows), min_size=2, max_size=2).map(sorted))
    for start, stop in [(0, table.num_rows), tuple(ends)]:
        for node in segment.tops:
            expected = table.column(node.top).slice(start, stop - start)
            assert same(decode_column(segment, node, start, stop), expected)


@given(st.data())
def test_any_single_rows_of_any_table(data: st.DataObject) -> None:
    size = data.draw(segment_sizes())
    table = with_ids(data.draw(segment_tables(size)))
    segment = opened(table, data.draw(write_options(table)))
    rows = st.lists(st.integers(0, table.num_rows - 1), max_size=40) if size else st.just([])
    wanted = np.array(data.draw(rows), np.int64)
    for node in segment.tops:
        expected = table.column(node.top).take(pa.array(wanted))
        assert same(take_column(segment, node, wanted), expected)


@given(st.data())
def test_a_column_at_rest_answers_like_its_values(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    segment = opened(table, data.draw(write_options(table)))
    start, stop = sorted(data.draw(st.integers(0, table.num_rows)) for _ in range(2))
    odds = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    keep = np.random.default_rng(data.draw(st.integers(0, 99))).random(stop - start) < odds
    for node in segment.tops:
        column = SegmentColumn(segment, node, start, stop)
        expected = table.column(node.top).slice(start, stop - start)
        assert len(column) == len(expected)
        assert same(column.decode(), expected)
        assert same(column.filter(keep), expected.filter(pa.array(keep)))
        backwards = np.arange(len(column))[::-2]
        assert same(column.take(backwards), expected.take(pa.array(backwards)))
        _check_codes(column, expected)


def _check_codes(column: SegmentColumn, expected: pa.ChunkedArray) -> None:
    values = plain_values(expected)
    dictionary = column.dictionary()
    if dictionary is not None:
        held = plain_values(dictionary)
        codes = column.codes().to_pylist()
        assert [None if code is None else held[code] for code in codes] == values


# --- named cases ----------------------------------------------------------------------------------


def test_flat_pages_are_views_of_the_segment() -> None:
    table = pa.table({"7": np.arange(64.0), "8": ["ab", "c", "", "defg"] * 16})
    options = WriteOptions(encodings={"7": "flat", "8": "variable"}, page_shifts={"7": 4, "8": 4})
    segment = opened(table, options)
    low = segment.data.ctypes.data
    high = low + len(segment.data)
    for node, buffer in ((segment.tops[0], 1), (segment.tops[1], 2)):
        found = decode_column(segment, node, 8, 60)
        assert [len(chunk) for chunk in found.chunks] == [8, 16, 16, 12]
        assert all(low <= chunk.buffers()[buffer].address < high for chunk in found.chunks)


def test_a_range_over_computed_pages_is_one_chunk() -> None:
    table = pa.table({"7": [n * n % 97 for n in range(256)]})
    segment = opened(table, WriteOptions(encodings={"7": "linear"}, page_shifts={"7": 4}))
    found = decode_column(segment, segment.tops[0], 3, 250)
    assert found.num_chunks == 1
    assert found.to_pylist() == table.column(0).to_pylist()[3:250]


def test_few_survivors_are_gathered_and_many_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of 64 rows: one with 8 survivors, one with 9."""
    table = pa.table({"7": [n % 10 for n in range(128)]})
    segment = opened(table, WriteOptions(encodings={"7": "linear"}, page_shifts={"7": 6}))
    taken: list[int] = []
    module = "tessel.store.segment.encoded_column.take_column"
    monkeypatch.setattr(
        module, lambda s, n, rows: (taken.append(len(rows)), take_column(s, n, rows))[1]
    )
    column = SegmentColumn(segment, segment.tops[0], 0, 128)
    keep = np.zeros(128, np.bool_)
    keep[[*range(0, 64, 8), *range(64, 73)]] = True
    assert column.filter(keep).to_pylist() == [n % 10 for n in np.flatnonzero(keep)]
    assert taken == [8]
    with_nulls = pa.array([None if n % 2 else bool(k) for n, k in enumerate(keep)])
    expected = [n % 10 for n in np.flatnonzero(keep) if n % 2 == 0]
    assert column.filter(with_nulls).to_pylist() == expected


def test_a_dictionary_is_asked_before_codes() -> None:
    table = pa.table({"7": pa.array(["b", None, "a", "b"]), "8": ["x", "y", "z", "w"]})
    segment = opened(table, WriteOptions(encodings={"7": "dictionary", "8": "variable"}))
    coded, plain = (SegmentColumn(segment, node, 0, 4) for node in segment.tops)
    assert coded.encodings == ("dictionary",)
    assert plain.dictionary() is None
    with pytest.raises(InvalidInputError, match="kept as variable has no codes"):
        plain.codes()
    assert coded.slice(1, 3).codes().null_count == 1
    assert "4 rows in dictionary" in repr(coded)


def test_rows_that_are_not_there_are_refused() -> None:
    segment = opened(pa.table({"7": [1, 2, 3]}))
    node = segment.tops[0]
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(InvalidInputError, match="the segment has 3"):
            SegmentColumn(segment, node, start, stop)
    column = SegmentColumn(segment, node, 1, 3)
    for rows in ([-1], [2]):
        with pytest.raises(InvalidInputError, match="none of the 2"):
            column.take(np.array(rows))
    for rows in ([-1], [0, 3]):
        with pytest.raises(InvalidInputError, match="the segment has 3"):
            take_column(segment, node, np.array(rows))
    with pytest.raises(InvalidInputError, match="a mask of 3 rows"):
        column.filter(np.ones(3, np.bool_))


def test_pages_are_verified_once_and_always_on_request() -> None:
    table = pa.table({"7": np.arange(100.0) ** 2})
    encoded = encode_segment(table, WriteOptions(encodings={"7": "flat"}, page_shifts={"7": 5}))
    data = np.array(encoded.to_buffer(), np.uint8)
    buffer = pa.py_buffer(data)
    file = SegmentFile.open(
        lambda start, stop: buffer.slice(start, stop - start),
        object="seg/x",
        offset=0,
        length=len(data),
    )
    sound = np.zeros(4, np.bool_)
    segment = SegmentPages(file, data, sound)
    decode_column(segment, segment.tops[0], 0, 40)
    assert sound.tolist() == [True, True, False, False]
    assert file.pages(0)["encoding"].tolist() == [EncodingCode.FLAT] * 4
    for offset in file.pages(0)["offset"].tolist():
        data[offset] ^= 1
    for again in (segment, SegmentPages(file, data, sound)):
        decode_column(again, again.tops[0], 0, 64)
    for broken, rows in (
        (segment, (64, 65)),
        (SegmentPages(file, data, sound, always_verify=True), (0, 1)),
    ):
        with pytest.raises(Exception, match="checksum") as caught:
            decode_column(broken, broken.tops[0], *rows)
        assert caught.value.attributes == {"object": "seg/x", "column": 7, "page": rows[0] // 32}
        with pytest.raises(Exception, match="checksum"):
            take_column(broken, broken.tops[0], np.array([rows[0]]))
    with pytest.raises(Exception, match="page 0"):
        segment.verify()


@pytest.mark.parametrize(
    "texts", [["ab", "cd", "ef"], ["", "x", "long one"], ["", ""], ["é", "ab"]]
)
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_texts_of_a_dictionary_over_several_pages(texts: list[str], kind: pa.DataType) -> None:
    values = [None if n % 7 == 3 else texts[n * n % len(texts)] for n in range(100)]
    table = pa.table({"7": pa.array(values, pa.string()).cast(kind)})
    segment = opened(table, WriteOptions(encodings={"7": "dictionary"}, page_shifts={"7": 4}))
    found = decode_column(segment, segment.tops[0], 5, 93)
    assert found.num_chunks == 1
    assert same(found, table.column(0)[5:93])

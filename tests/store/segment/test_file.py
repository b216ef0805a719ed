"""Segment files: how they are laid out, how many reads open them, and what is refused."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import (
    ColumnNotFoundError,
    CorruptSegmentError,
    FormatVersionError,
    InvalidInputError,
    NameNotFoundError,
    UnsupportedTypeError,
)
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.file_writer import WriteOptions, encode_segment, profile_by_name
from tessel.store.segment.records import FOOTER_RECORD, TAIL_BYTES
from tests.store.reference.segments import segment_tables


class Object:
    """The bytes of an object, with a segment inside, that counts its reads."""

    def __init__(self, table: pa.Table, options: WriteOptions | None = None, before: int = 0):
        segment = encode_segment(table, options)
        self.metadata_start = segment.metadata_start
        self.length = segment.length
        self.offset = before
        self.data = bytes(before) + segment.to_buffer().to_pybytes() + bytes(64)
        self.reads: list[tuple[int, int]] = []

    def read(self, start: int, stop: int) -> pa.Buffer:
        self.reads.append((start, stop))
        return pa.py_buffer(self.data[start:stop])

    def open(self, **named) -> SegmentFile:
        return SegmentFile.open(
            self.read, object="packs/one", offset=self.offset, length=self.length, **named
        )


def wide(columns: int, rows: int = 64) -> Object:
    values = np.arange(rows)
    table = pa.table({str(at): values + at for at in range(columns)})
    return Object(table, WriteOptions(page_shifts=dict.fromkeys(table.column_names, 1)), 128)


def test_a_small_file_is_opened_by_one_read() -> None:
    made = wide(3)
    file = made.open()
    assert made.reads == [(128, 128 + made.length)]
    assert [len(file.pages(node)) for node in range(3)] == [32] * 3
    assert len(made.reads) == 1
    assert file.metadata_start == made.metadata_start


def test_known_metadata_are_read_and_nothing_else() -> None:
    made = wide(100)
    assert made.length - made.metadata_start > TAIL_BYTES
    made.open(metadata_start=made.metadata_start)
    assert made.reads == [(128 + made.metadata_start, 128 + made.length)]


def test_a_large_file_takes_two_reads_where_nothing_is_known() -> None:
    made = wide(100)
    file = made.open()
    tail = 128 + made.length - TAIL_BYTES
    assert made.reads == [(tail, 128 + made.length), (128 + made.metadata_start, tail)]
    assert file.zone_maps(99).minimum.tolist() == list(range(99, 99 + 64, 2))


@pytest.mark.parametrize("known", [True, False])
def test_a_wide_file_reads_the_page_tables_of_the_wanted_columns(known: bool) -> None:
    made = wide(200)
    start = made.metadata_start if known else None
    file = made.open(columns=[3, 5, 4, 199], metadata_start=start)
    tail, *tables = made.reads
    assert tail[1] - tail[0] == TAIL_BYTES
    table_bytes = 32 * 112
    begin = 128 + made.metadata_start
    assert tables == [(begin + 3 * table_bytes, begin + 6 * table_bytes)]
    assert file.zone_maps(4).maximum[0] == 5
    assert len(made.reads) == 2
    assert file.zone_maps(90).maximum[0] == 91
    assert len(made.reads) == 3
    file.load([90, 3])
    assert len(made.reads) == 3


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ColumnNotFoundError):
        wide(3).open(columns=[7])


def test_pages_lie_row_by_row() -> None:
    """Columns of 4, 16 and 4,096 bytes with 1, 4 and 1,024 pages: the order of a full scan."""
    rows = 4096
    table = pa.table(
        {
            "0": pa.array(np.arange(rows), pa.int32()),
            "1": pa.array([b"0123456789abcdef"] * rows, pa.binary(16)),
            "2": pa.array([bytes(range(256)) * 16] * rows, pa.binary(4096)),
        }
    )
    shifts = {"0": 12, "1": 10, "2": 2}
    segment = encode_segment(table, WriteOptions(page_shifts=shifts, encodings={"1": "flat"}))
    places = [
        (int(record["offset"]), int(record["first_row"]), column.node.number)
        for column in segment.columns
        for record in column.records[: column.page_count]
        if record["length"]
    ]
    assert [c.page_count for c in segment.columns] == [1, 4, 1024]
    order = [(row, column) for _, row, column in sorted(places)]
    assert order == sorted(order)


def test_page_shifts_keep_decoded_pages_small() -> None:
    rows = 1 << 17
    table = pa.table(
        {
            "0": pa.array(np.zeros(rows)),
            "1": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 64)), 64),
            "2": pa.array(["x" * 300] * rows),
            "3": pa.array(["x" * 300 * (at % 5000 == 0) for at in range(rows)]),
        }
    )
    shifts = [column.page_shift for column in encode_segment(table).columns]
    # 64 doubles a row are 512 bytes: 8 MiB are 2**14 rows. 304 bytes a row: 2**14 as well.
    assert shifts == [16, 14, 14, 14, 16]


def test_one_large_row_does_not_make_all_pages_tiny() -> None:
    table = pa.table({"0": pa.array(["x" * (9 << 20), *["word"] * 70_000])})
    shift = encode_segment(table).columns[0].page_shift
    assert shift >= 12


@given(data=st.data())
def test_a_pool_changes_nothing(data: st.DataObject) -> None:
    table = data.draw(segment_tables(data.draw(st.integers(0, 40))))
    table = table.rename_columns([str(at) for at in range(table.num_columns)])
    with ThreadPoolExecutor(2) as pool:
        there = encode_segment(table, None, pool.map).to_buffer()
    assert there.equals(encode_segment(table).to_buffer())


def test_pieces_are_aligned_and_padded_with_zeros() -> None:
    made = wide(5)
    file = made.open()
    records = np.concatenate([file.pages(node) for node in range(5)])
    records = records[np.argsort(records["offset"], kind="stable")]
    assert (records["offset"] % 64 == 0).all()
    ends = records["offset"] + records["length"]
    for end, start in itertools.pairwise(sorted([*ends, *records["offset"], file.metadata_start])):
        if end in ends and start > end and start not in ends:
            assert set(made.data[128 + end : 128 + start]) <= {0}


def test_a_newer_version_is_told_from_damage() -> None:
    made = wide(1)
    place = made.offset + made.length - FOOTER_RECORD.itemsize
    fields = dict(FOOTER_RECORD.fields or {})
    minor = place + fields["version_minor"][1]
    made.data = made.data[:minor] + b"\x02" + made.data[minor + 1 :]
    with pytest.raises(FormatVersionError, match=r"1\.2"):
        made.open()


@pytest.mark.parametrize("length", [0, 50, 95, 96, 300])
def test_other_lengths_are_refused(length: int) -> None:
    made = wide(1)
    with pytest.raises(CorruptSegmentError, match="packs/one"):
        SegmentFile.open(made.read, object="packs/one", offset=128, length=length)


def test_an_object_that_is_cut_short_is_refused() -> None:
    made = wide(1)
    made.data = made.data[: made.offset + made.length - 40]
    with pytest.raises(CorruptSegmentError):
        made.open()


def test_what_cannot_be_written_is_refused() -> None:
    numbers = pa.table({"0": [1.5, 2.5]})
    with pytest.raises(NameNotFoundError, match="linear"):
        encode_segment(numbers, WriteOptions(encodings={"0": "linaer"}))
    with pytest.raises(InvalidInputError, match="cannot be encoded as 'variable'"):
        encode_segment(numbers, WriteOptions(encodings={"0": "variable"}))
    with pytest.raises(InvalidInputError, match="2\\*\\*17"):
        WriteOptions(page_shifts={"0": 17})
    with pytest.raises(NameNotFoundError, match="compact"):
        profile_by_name("compcat")
    with pytest.raises(UnsupportedTypeError):
        encode_segment(pa.table({"0": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))}))


def test_no_columns_and_no_rows() -> None:
    nothing = Object(pa.table({})).open()
    assert (nothing.row_count, nothing.column_ids) == (0, [])
    empty = Object(pa.table({"8": pa.array([], pa.list_(pa.int8()))})).open()
    assert empty.column_ids == [8]
    assert len(empty.pages(0)) == 0
    assert len(empty.pages(1)) == 0

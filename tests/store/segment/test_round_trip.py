"""Whatever is written is read back, bit for bit: by the store and by the reference decoder."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.store.segment.file_writer import WriteOptions
from tests.store.reference.decoder import ReferenceSegment, decode_segment, read_segment
from tests.store.reference.segments import (
    LEAF_TYPES,
    PAGE_EDGE_SIZES,
    segment_columns,
    segment_sizes,
    segment_tables,
)
from tests.store.segment.helpers import (
    ENCODING_NAMES,
    plain,
    possible_encodings,
    scanned,
    with_ids,
    write_options,
    written,
)


def _check_both_oracles(table: pa.Table, options: WriteOptions | None = None) -> None:
    data = written(table, options)
    expected = plain(table)
    assert decode_segment(data) == expected
    found = scanned(data)
    assert found.schema.types == table.schema.types
    assert plain(found) == expected


@given(st.data())
def test_any_table_with_any_options(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    _check_both_oracles(table, data.draw(write_options(table)))


FLAT_TYPES = (
    *LEAF_TYPES,
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int32(), pa.decimal128(20, 3), ordered=True),
)
CHOICES = {
    name: [kind for kind in FLAT_TYPES if name in possible_encodings(kind)]
    for name in ENCODING_NAMES
}


@pytest.mark.parametrize("encoding", [name for name, kinds in CHOICES.items() if kinds])
@given(data=st.data())
def test_every_encoding_wherever_it_fits(encoding: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(CHOICES[encoding]))
    column = data.draw(segment_columns(kind, data.draw(segment_sizes())))
    table = with_ids(pa.table([column], ["c"]))
    shift = {"7": data.draw(st.integers(0, 9))}
    _check_both_oracles(table, WriteOptions(encodings={"7": encoding}, page_shifts=shift))


@pytest.mark.parametrize("rows", PAGE_EDGE_SIZES)
@settings(max_examples=15)
@given(data=st.data())
def test_sizes_at_the_edges_of_pages(rows: int, data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(rows, max_columns=2)))
    _check_both_oracles(table, data.draw(write_options(table, shifts=False)))


# --- what pages say of their values ---------------------------------------------------------------

VALIDITY, BOUNDS, MIN_CUT, MAX_CUT, MIN_OPEN, MAX_OPEN, SORTED, CONSTANT = (
    1 << bit for bit in range(8)
)
SIGNED_KINDS = (2, 5)
FLOAT_KIND = 4
BYTE_KINDS = (6, 7, 8)


def _float(bits: int, width: int) -> float:
    value: float = struct.unpack("<d" if width == 8 else "<f", bits.to_bytes(width, "little"))[0]
    return value


def _slot(word: int, kind: int) -> Any:
    if kind == FLOAT_KIND:
        return struct.unpack("<d", word.to_bytes(8, "little"))[0]
    return word - (1 << 64) if kind in SIGNED_KINDS and word >> 63 else word


def _key(value: Any, kind: int, prefix: bytes) -> Any:
    """What a value is compared with the slots as."""
    if kind in BYTE_KINDS:
        assert value.startswith(prefix)
        return int.from_bytes(value[len(prefix) : len(prefix) + 8].ljust(8, b"\0"), "big")
    return int(value) if isinstance(value, bool) else value


def _check_page(segment: ReferenceSegment, node: int, number: int) -> None:
    column, page = segment.columns[node], segment.page(node, number)
    entry, flags = page.entry, page.entry.flags
    present = [value for value in page.values if value is not None]
    assert entry.null_count == len(page.values) - len(present)
    if column.role != 0 or column.kind == 0:
        assert not flags & (BOUNDS | SORTED)
        return
    if flags & CONSTANT:
        assert len({(type(value), value) for value in page.values}) == 1
        assert len(present) == len(page.values)
    if column.kind == FLOAT_KIND:
        floats = [_float(value, column.width) for value in present]
        present = [value for value in floats if not math.isnan(value)]
        assert entry.nan_count == len(floats) - len(present)
    else:
        assert entry.nan_count == 0
    if flags & SORTED:
        assert len(present) == len(page.values)
        assert present == sorted(present)
    assert bool(flags & BOUNDS) == bool(present)
    if present:
        _check_bounds(segment, node, entry, min(present), max(present))


def _check_bounds(
    segment: ReferenceSegment, node: int, entry: Any, least: Any, greatest: Any
) -> None:
    kind, prefix, flags = segment.columns[node].kind, segment.prefixes[node], entry.flags
    low, high = _slot(entry.minimum, kind), _slot(entry.maximum, kind)
    if not flags & MIN_OPEN:
        assert low <= _key(least, kind, prefix)
    if not flags & MAX_OPEN:
        assert high >= _key(greatest, kind, prefix)
        # A cut bound is above all longer values that begin like it.
        assert not flags & MAX_CUT or kind not in BYTE_KINDS or high > _key(greatest, kind, prefix)
    if not flags & (MIN_CUT | MIN_OPEN):
        assert low == _key(least, kind, prefix)
        assert (
            kind not in BYTE_KINDS or low.to_bytes(8, "big").rstrip(b"\0") == least[len(prefix) :]
        )
    if not flags & (MAX_CUT | MAX_OPEN):
        assert high == _key(greatest, kind, prefix)
        assert kind not in BYTE_KINDS or (
            high.to_bytes(8, "big").rstrip(b"\0") == greatest[len(prefix) :]
        )


@given(st.data())
def test_pages_tell_the_truth_about_their_values(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    segment = read_segment(written(table, data.draw(write_options(table))))
    for node, pages in enumerate(segment.pages):
        for number in range(len(pages)):
            _check_page(segment, node, number)


@given(st.data())
def test_the_layout_is_row_major_and_padded_with_zeros(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    stored = written(table, data.draw(write_options(table)))
    segment = read_segment(stored)
    dictionaries = [entry for entry in segment.dictionaries if entry is not None]
    pages = [
        (number << column.page_shift, node, entry)
        for node, column in enumerate(segment.columns)
        for number, entry in enumerate(segment.pages[node])
    ]
    order = [*dictionaries, *(entry for _, _, entry in sorted(pages, key=lambda page: page[:2]))]
    place = 0
    for entry in order:
        assert entry.offset == place
        end = entry.offset + entry.length
        place = -(-end // 64) * 64
        assert not any(stored[end:place])
    assert segment.footer.metadata_start == place
    assert segment.schema.names == table.column_names
    assert segment.schema.types == [field.type for field in table.schema]

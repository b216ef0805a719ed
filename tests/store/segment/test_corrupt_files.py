"""Damaged and forged segments: an error that names the place, or the right answer; nothing else.

A flipped byte is found by a checksum. A forged segment has right checksums, so validation must find
what is wrong with it; where it is not wrong, the reference decoder says what it holds. Every read
here takes all ways in (scan, take, filter), checks the arrays that come out with pyarrow, and may
allocate only a fixed amount, however large the numbers in the file are.
"""

from __future__ import annotations

import functools
import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import CorruptSegmentError, FormatVersionError, TesselError
from tessel.store.segment.file import SegmentFile
from tests.store.reference.decoder import decode_segment, read_segment
from tests.store.reference.segments import plain_values
from tests.store.segment.forging import COLUMN_FIELDS, FOOTER_FIELDS, PAGE_FIELDS, Forgery
from tests.store.segment.helpers import OBJECT, column_of, opened
from tests.store.segment.samples import SAMPLES, Sample

MOST_BYTES = 16 << 20
"""More than a thousand times a sample; far less than the counts that forgeries ask for."""

Values = dict[str, list[Any]]
sample_segments = st.sampled_from(SAMPLES)
few = settings(max_examples=100)
many = settings(max_examples=4_000)

# Arrays that outlive a test keep its memory, so the pool that counts is made once.
_POOL = pa.proxy_memory_pool(pa.default_memory_pool())


@pytest.fixture(autouse=True)
def _bounded_arrow_memory() -> Iterator[None]:
    """Refuse more than ``MOST_BYTES`` of Arrow's memory at once."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(_POOL)
    try:
        yield
    finally:
        pa.set_memory_pool(before)
    assert (_POOL.max_memory() or 0) < MOST_BYTES


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """Let every read of a test refuse more than ``MOST_BYTES`` of other memory, which is slow."""
    tracemalloc.start(1)
    try:
        yield
    finally:
        tracemalloc.stop()


def _peak(before: int) -> int:
    return tracemalloc.get_traced_memory()[1] - before if tracemalloc.is_tracing() else 0


def _read(data: bytes) -> Values:
    """Read everything in every way; they must agree."""
    segment = opened(data)
    found: Values = {}
    for name in segment.file.schema.names:
        column = column_of(segment, name)
        array = column.decode()
        array.validate(full=True)
        values = plain_values(array)
        rows = np.arange(len(column))[::-1]
        taken = column.take(rows)
        taken.validate(full=True)
        assert plain_values(taken) == values[::-1]
        kept = column.filter(rows % 17 == 3)
        kept.validate(full=True)
        assert plain_values(kept) == [
            value for row, value in zip(rows.tolist(), values, strict=True) if row % 17 == 3
        ]
        found[name] = values
    return found


def _outcome(data: bytes) -> Values | TesselError:
    """Return what is read, or the error; any other exception fails the test."""
    before = 0
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
    found: Values | TesselError
    try:
        found = _read(data)
    except (CorruptSegmentError, FormatVersionError) as error:
        found = error
    assert _peak(before) < MOST_BYTES
    if isinstance(found, dict):
        return found
    assert found.attributes["object"] == OBJECT
    assert OBJECT in str(found)
    return found


@functools.cache
def _original(sample: Sample) -> Values:
    values = decode_segment(sample.data)
    assert _read(sample.data) == values
    return values


def _check_forged(data: bytes) -> Values | TesselError:
    """What is read from a forged segment is what the format page says it holds."""
    found = _outcome(data)
    if not isinstance(found, TesselError):
        assert found == decode_segment(data)
    return found


def test_samples_have_every_encoding_and_codec() -> None:
    encodings, inner, codecs = set(), set(), set()
    for sample in SAMPLES:
        segment = read_segment(sample.data)
        _original(sample)
        for pages in [*segment.pages, segment.dictionaries]:
            for entry in pages:
                if entry is not None:
                    encodings.add(entry.encoding)
                    inner.add(entry.inner)
                    codecs.add(entry.codec)
    assert encodings == set(range(10))
    assert inner == {0, 2, 4, 5, 8}
    assert codecs == set(range(6))


# --- damage ---------------------------------------------------------------------------------------


@functools.cache
def _owners(sample: Sample) -> list[tuple[range, int, int | str]]:
    """Return which bytes are stored bytes of a page, with its column id and number."""
    segment = read_segment(sample.data)
    found: list[tuple[range, int, int | str]] = []
    for node, column in enumerate(segment.columns):
        entries: list[tuple[int | str, Any]] = [*enumerate(segment.pages[node])]
        if segment.dictionaries[node] is not None:
            entries.append(("dictionary", segment.dictionaries[node]))
        for number, entry in entries:
            stored = range(entry.offset, entry.offset + entry.length)
            found.append((stored, column.column_id, number))
    return found


def _owner(sample: Sample, place: int) -> tuple[int, int | str] | None:
    """Return column id and page whose stored bytes hold ``place``; None where none does."""
    for stored, column, page in _owners(sample):
        if place in stored:
            return column, page
    return None


@functools.cache
def _metadata_start(sample: Sample) -> int:
    return read_segment(sample.data).footer.metadata_start


def _check_flip(sample: Sample, place: int, flip: int) -> None:
    data = bytearray(sample.data)
    data[place] ^= flip
    found = _outcome(bytes(data))
    owner = _owner(sample, place)
    if owner is not None:
        assert isinstance(found, CorruptSegmentError)
        assert (found.attributes["column"], found.attributes["page"]) == owner
        assert str(owner[0]) in found.message
        assert str(owner[1]) in found.message
    elif place < _metadata_start(sample):
        assert found == _original(sample)  # padding between pages holds nothing
    else:
        assert isinstance(found, TesselError)


@few
@given(st.data())
def test_any_flipped_byte(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    place = data.draw(st.integers(0, len(sample.data) - 1))
    _check_flip(sample, place, data.draw(st.integers(1, 255)))


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_byte_flipped(sample: Sample) -> None:
    for place in range(len(sample.data)):
        _check_flip(sample, place, 1 << place % 8)


def _check_truncation(sample: Sample, length: int) -> None:
    assert isinstance(_outcome(sample.data[:length]), CorruptSegmentError)


@few
@given(st.data())
def test_any_truncation(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    _check_truncation(sample, data.draw(st.integers(0, len(sample.data) - 1)))


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_truncation(sample: Sample) -> None:
    for length in range(len(sample.data)):
        _check_truncation(sample, length)


@settings(max_examples=50)
@given(st.data())
def test_bytes_after_the_end_or_missing_in_the_middle(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(sample.data))] * 2)))
    added = data.draw(st.binary(min_size=0 if start < end else 1, max_size=100))
    for damaged in (sample.data + b"\0", sample.data[:start] + added + sample.data[end:]):
        found = _outcome(damaged)
        if not isinstance(found, TesselError):  # bytes of padding, or the same bytes again
            assert len(damaged) == len(sample.data)
            assert found == _original(sample)


@settings(max_examples=50)
@given(st.data())
def test_a_stretch_of_the_file_written_over_another(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    stored = bytearray(sample.data)
    size = data.draw(st.integers(1, 512))
    source, target = data.draw(st.tuples(*[st.integers(0, len(stored) - size)] * 2))
    stored[target : target + size] = sample.data[source : source + size]
    found = _outcome(bytes(stored))
    assert isinstance(found, TesselError) or found == _original(sample)


# --- other files ----------------------------------------------------------------------------------


def _arrow_file() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, SAMPLES[0].table.schema) as writer:
        writer.write_table(SAMPLES[0].table)
    return sink.getvalue()


def _parquet_file() -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": list(range(100))}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "made",
    [
        lambda: b"",
        lambda: b"TSLSEG\r\n",
        lambda: bytes(96),
        lambda: bytes(100_000),
        lambda: b"symbol,price\r\nAAPL,101.25\r\n" * 50,
        lambda: SAMPLES[0].data.replace(b"\r\n", b"\n"),
        _arrow_file,
        _parquet_file,
    ],
    ids=["empty", "magic", "zeros", "many zeros", "csv", "text mode", "arrow", "parquet"],
)
def test_files_of_another_kind(made: Any) -> None:
    found = _outcome(made())
    assert isinstance(found, CorruptSegmentError)
    assert "segment" in found.message


@given(st.binary(max_size=400))
def test_bytes_that_end_like_a_segment(data: bytes) -> None:
    assert isinstance(_outcome(data + b"TSLSEG\r\n"), TesselError)


@pytest.mark.parametrize(("major", "minor"), [(0, 2), (1, 1), (2, 0), (0, 0), (65_535, 65_535)])
def test_other_versions_are_named(major: int, minor: int) -> None:
    forgery = Forgery(SAMPLES[0].data)
    forgery.footer("version_major", major)
    forgery.footer("version_minor", minor)
    found = _outcome(forgery.signed())
    assert isinstance(found, FormatVersionError)
    assert f"{major}.{minor}" in found.message
    assert "1.0" in found.message


# --- forgeries ------------------------------------------------------------------------------------

NOT_FORGED = {"checksum", "page_table_checksum", "directory_checksum", "footer_checksum"}


def _other_values(bits: int, value: int) -> st.SearchStrategy[int]:
    near = [value + 1, value - 1, 2 * value, value // 2, value + 64, value - 64, value ^ 1]
    edges = [
        0,
        1,
        2,
        (1 << bits) - 1,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        -64,
        1 << (bits // 2),
    ]
    drawn = st.sampled_from(near + edges) | st.integers(0, (1 << bits) - 1)
    if bits == 8:
        drawn = drawn | st.integers(0, 16)
    return drawn.map(lambda other: other % (1 << bits))


def _change_field(draw: st.DrawFn, forgery: Forgery) -> tuple[str, int]:
    """Change a field; return which kind of record has it, and its node."""
    where = draw(st.sampled_from(["page", "page", "page", "column", "footer"]))
    node = draw(st.integers(0, forgery.columns - 1))
    fields = {"page": PAGE_FIELDS, "column": COLUMN_FIELDS, "footer": FOOTER_FIELDS}[where]
    name = draw(st.sampled_from(sorted(set(fields) - NOT_FORGED)))
    if where == "footer":
        forgery.footer(name, draw(_other_values(fields[name].bits, forgery.footer(name))))
    elif where == "column" or not forgery.records(node):
        name = name if where == "column" else "width"
        value = forgery.column(node, name)
        forgery.column(node, name, draw(_other_values(COLUMN_FIELDS[name].bits, value)))
    else:
        page = draw(st.integers(0, forgery.records(node) - 1))
        value = forgery.page(node, page, name)
        forgery.page(node, page, name, draw(_other_values(fields[name].bits, value)))
    return where, node


def _check_forged_field(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    forgery = Forgery(sample.data)
    where, node = _change_field(data.draw, forgery)
    column = read_segment(sample.data).columns[node].column_id
    found = _check_forged(forgery.signed())
    if isinstance(found, CorruptSegmentError) and where == "page":
        assert found.attributes["column"] == column
        assert "page" in found.attributes


@pytest.mark.parametrize("field", ["bit_width", "inner", "exponent"])
def test_a_field_that_a_page_does_not_use_may_say_anything(field: str) -> None:
    for sample in SAMPLES:
        if sample.name == "nested":
            forgery = Forgery(sample.data)
            for node in range(forgery.columns):
                for page in range(min(2, forgery.records(node))):
                    forgery = Forgery(sample.data)
                    forgery.page(node, page, field, 255)
                    _check_forged(forgery.signed())


@settings(max_examples=60)
@given(data=st.data())
def test_any_forged_field(bounded_memory: None, data: st.DataObject) -> None:
    _check_forged_field(data)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(data=st.data())
def test_any_forged_field_often(bounded_memory: None, data: st.DataObject) -> None:
    _check_forged_field(data)


def _check_forged_fields(data: st.DataObject) -> None:
    forgery = Forgery(data.draw(sample_segments).data)
    for _ in range(data.draw(st.integers(2, 4))):
        _change_field(data.draw, forgery)
    _check_forged(forgery.signed())


@few
@given(st.data())
def test_several_forged_fields(data: st.DataObject) -> None:
    _check_forged_fields(data)


@pytest.mark.slow
@many
@given(st.data())
def test_several_forged_fields_often(data: st.DataObject) -> None:
    _check_forged_fields(data)


def _check_forged_bytes(data: st.DataObject) -> None:
    """Change stored bytes of pages, or of the schema: codes, offsets, residuals, bits, blocks."""
    forgery = Forgery(data.draw(sample_segments).data)
    parts = [
        forgery.payload(node, page)
        for node in range(forgery.columns)
        for page in range(forgery.records(node))
        if forgery.page(node, page, "length")
    ]
    parts.append(forgery.schema())
    part = parts[data.draw(st.integers(0, len(parts) - 1))]
    size = data.draw(st.sampled_from([1, 1, 2, 4, 8]))
    place = data.draw(st.integers(0, max(0, len(part) - size)))
    raw = data.draw(st.sampled_from([b"\xff", b"\0", b"\x80", b"\x7f"]) | st.binary(min_size=8))
    part[place : place + size] = (raw * 8)[: len(part[place : place + size])]
    _check_forged(forgery.signed())


@few
@given(st.data())
def test_forged_contents(data: st.DataObject) -> None:
    _check_forged_bytes(data)


@pytest.mark.slow
@many
@given(st.data())
def test_forged_contents_often(data: st.DataObject) -> None:
    _check_forged_bytes(data)


# --- objects that are not what they were ----------------------------------------------------------


@given(st.data())
def test_objects_cut_short_under_a_known_length(data: st.DataObject) -> None:
    sample = data.draw(sample_segments)
    held = pa.py_buffer(sample.data[: data.draw(st.integers(0, len(sample.data) - 1))])

    def read(start: int, stop: int) -> pa.Buffer:
        return held.slice(min(start, held.size), max(0, min(stop, held.size) - start))

    with pytest.raises(CorruptSegmentError) as caught:
        SegmentFile.open(read, object=OBJECT, offset=0, length=len(sample.data))
    assert caught.value.attributes["object"] == OBJECT


@given(st.data())
def test_any_belief_about_where_metadata_start(data: st.DataObject) -> None:
    """The place is a hint: with a wrong one, a file opens to the same or not at all."""
    sample = data.draw(sample_segments)
    held = pa.py_buffer(sample.data)
    place = data.draw(st.integers(0, len(sample.data)))
    columns = data.draw(st.none() | st.just([7]))

    def read(start: int, stop: int) -> pa.Buffer:
        assert 0 <= start <= stop <= held.size
        return held.slice(start, stop - start)

    file = SegmentFile.open(
        read,
        object=OBJECT,
        offset=0,
        length=len(sample.data),
        metadata_start=place,
        columns=columns,
    )
    assert file.metadata_start == _metadata_start(sample)
    assert [len(file.pages(node)) for node in range(len(file.nodes))] == [
        len(pages) for pages in read_segment(sample.data).pages
    ]

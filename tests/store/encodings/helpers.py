"""Pages for the tests of encodings: values of every kind, a plain layout, and what all must do."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.base import COMPACT, FAST, EncodedPage, PageEncoding, Profile
from tessel.store.encodings.chooser import summarise_values
from tessel.store.encodings.codes import PAGE_RECORD, EncodingCode, PageFlag, ValueKind
from tessel.store.encodings.registry import ENCODINGS, encoding_by_code
from tessel.store.encodings.values import (
    Page,
    PhysicalValues,
    check_validity,
    native_dtype,
    page_from_record,
)
from tessel.store.segment.decode_take import RowsOfPages
from tessel.store.segment.page_tables import PageWords

Array = npt.NDArray[Any]

SIZES = (1, 2, 7, 8, 9, 63, 64, 65)
PAGE_SIZES = (65_535, 65_536, 65_537)
PROFILES = (FAST, COMPACT)
VARIABLE = frozenset({ValueKind.TEXT, ValueKind.BINARY})
FIXED_KINDS = (
    (ValueKind.BOOLEAN, 1),
    *((ValueKind.SIGNED, width) for width in (1, 2, 4, 8)),
    *((ValueKind.UNSIGNED, width) for width in (1, 2, 4, 8)),
    (ValueKind.FLOAT, 4),
    (ValueKind.FLOAT, 8),
    (ValueKind.DECIMAL, 16),
    (ValueKind.FIXED, 1),
    (ValueKind.FIXED, 5),
)
INTEGER_KINDS = tuple(
    (kind, width) for kind, width in FIXED_KINDS if kind in (ValueKind.SIGNED, ValueKind.UNSIGNED)
)
FLOAT_KINDS = ((ValueKind.FLOAT, 4), (ValueKind.FLOAT, 8))
PLACE = {"object": "data/7", "column": 3, "page": 2}

# Not one of these is equal to another as bits: NaNs with payloads, quiet and signalling.
SPECIAL_FLOATS = {
    4: np.array(
        [0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7F800001, 0xFF800123, 0x80000000, 0x00000000,
         0x7F800000, 0xFF800000, 0x00000001, 0x7F7FFFFF], "<u4"
    ).view("<f4"),
    8: np.array(
        [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, (0x7FF0 << 48) + 1, (0xFFF0 << 48) + 99,
         1 << 63, 0, 0x7FF0 << 48, 0xFFF0 << 48, 1, (0x7FF0 << 48) - 1], "<u8"
    ).view("<f8"),
}  # fmt: skip


# --- values ---------------------------------------------------------------------------------------


def fixed(kind: ValueKind, width: int, data: Any) -> PhysicalValues:
    held = np.asarray(data)
    return PhysicalValues(kind, width, len(held), held)


def text(values: Sequence[bytes], kind: ValueKind = ValueKind.BINARY, skip: int = 0):
    """Values of any length, behind ``skip`` bytes that belong to nobody."""
    lengths = [len(value) for value in values]
    offsets = (np.cumsum([0, *lengths]) + skip).astype(np.int32)
    data = np.frombuffer(b"x" * skip + b"".join(values) + b"y", np.uint8)
    return PhysicalValues(kind, 0, len(values), data, offsets)


def from_bits(kind: ValueKind, width: int, raw: Array) -> PhysicalValues:
    """Any bits as values of a kind; ``raw`` is uint64, one a value."""
    if kind == ValueKind.BOOLEAN:
        return fixed(kind, width, (raw & np.uint64(1)).astype(np.bool_))
    if kind == ValueKind.DECIMAL:
        return fixed(kind, width, np.stack((raw, raw * np.uint64(7)), axis=1).view(np.int64))
    if kind == ValueKind.FIXED:
        wide = np.ascontiguousarray(raw).view(np.uint8).reshape(-1, 8)
        return fixed(kind, width, np.ascontiguousarray(wide[:, :width]))
    return fixed(kind, width, raw.astype(f"<u{width}").view(native_dtype(kind, width)))


def shapes(random: np.random.Generator, size: int, bits: int) -> dict[str, Array]:
    """Integers that different encodings are made for, as uint64 that may have wrapped."""
    noise = random.integers(0, 1 << bits, size, dtype=np.uint64) if bits else np.zeros(size, "u8")
    places = np.arange(size, dtype=np.uint64)
    start, step = random.integers(0, 1 << 64, 2, dtype=np.uint64)
    step >>= np.uint64(random.integers(0, 64))
    runs = np.repeat(random.integers(0, 1 << 64, size, dtype=np.uint64), 5)[:size]
    return {
        "sequence": start + places * step,
        "near": start + places * step + noise,
        "level": start + noise,
        "small": noise,
        "walk": np.cumsum(noise) + start,
        "runs": runs,
        "constant": np.full(size, start),
        "sparse": np.where(noise % np.uint64(7) == 0, noise, start),
    }


@st.composite
def any_bits(draw: Any, size: st.SearchStrategy[int] | None = None) -> Array:
    """uint64 of one of the shapes above."""
    length = draw(size or st.one_of(st.sampled_from(SIZES), st.integers(1, 300)))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    made = shapes(random, length, draw(st.integers(0, 63)))
    return made[draw(st.sampled_from(sorted(made)))]


@st.composite
def fixed_values(draw: Any, kinds: Sequence[tuple[ValueKind, int]] = FIXED_KINDS) -> PhysicalValues:
    kind, width = draw(st.sampled_from(kinds))
    return from_bits(kind, width, draw(any_bits()))


@st.composite
def text_values(draw: Any) -> PhysicalValues:
    kind = draw(st.sampled_from(sorted(VARIABLE)))
    one = st.binary(max_size=12) if kind == ValueKind.BINARY else st.text(max_size=9)
    same = st.binary(min_size=3, max_size=3) if kind == ValueKind.BINARY else st.just("añb")
    held = draw(
        st.one_of(
            st.lists(one, min_size=1, max_size=90),
            st.lists(same, min_size=1, max_size=90),
            st.lists(st.sampled_from([draw(one)]), min_size=1, max_size=90),
        )
    )
    encoded = [value.encode() if isinstance(value, str) else value for value in held]
    return text(encoded, kind, skip=draw(st.integers(0, 3)))


# --- pages ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A page as a file holds it: record and payload, with all that decoding needs."""

    record: npt.NDArray[np.void]
    payload: Array
    kind: ValueKind
    width: int
    dictionary: PhysicalValues | None = None

    def page(self, payload: Array | None = None) -> Page:
        held = self.payload if payload is None else payload
        return page_from_record(
            self.record[0], held, self.kind, self.width, dictionary=self.dictionary, place=PLACE
        )

    def with_field(self, field: str, value: int, at: int | None = None) -> Stored:
        record = self.record.copy()
        if at is None:
            record[field] = value
        else:
            record[field][0, at] = value
        return replace(self, record=record)


def store(
    values: PhysicalValues, encoded: EncodedPage, dictionary: PhysicalValues | None = None
) -> Stored:
    """Lay a page out as the format says: slots at multiples of 64, zeros between."""
    pieces, starts, place = [], [], 0
    for buffer in encoded.buffers:
        raw = np.ascontiguousarray(buffer).tobytes()
        padded = raw + bytes(-len(raw) % 64)
        starts.append(place)
        pieces.append(padded)
        place += len(padded)
    record = np.zeros(1, PAGE_RECORD)
    record["row_count"] = values.length
    record["length"] = record["payload_length"] = place
    record["starts"][0] = starts + [place] * (4 - len(starts))
    for field in ("encoding", "inner", "bit_width", "inner_width", "count", "exceptions"):
        record[field] = getattr(encoded, field)
    record["exponent"] = encoded.exponent
    record["base"], record["step"] = encoded.base % (1 << 64), encoded.step % (1 << 64)
    payload = np.frombuffer(b"".join(pieces), np.uint8)
    return Stored(record, payload, values.kind, values.width, dictionary)


def open_page(stored: Stored) -> Page:
    """Do what a reader does before it decodes: check the record, then the contents.

    Raises
    ------
    CorruptSegmentError
        When either is refused.
    """
    record = stored.record
    page = stored.page()
    places = [*record["starts"][0].tolist(), int(record["payload_length"][0])]
    if int(record["payload_length"][0]) != len(stored.payload):
        raise page.damaged("the payload has another length")
    if any(place % 64 for place in places) or places != sorted(places):
        raise page.damaged("slots are out of order")
    if int(record["row_count"][0]) > 1 << 18 or page.encoding not in ENCODINGS:
        raise page.damaged("rows do not add up")
    missing = page.null_count == page.rows
    if missing != (page.encoding == EncodingCode.ALL_MISSING) and page.kind != ValueKind.NONE:
        raise page.damaged("nulls and encoding contradict each other")
    encoding = encoding_by_code(page.encoding)
    if page.kind not in encoding.kinds and not missing:
        raise page.damaged("the encoding is none of the type")
    lengths = np.array([page.length], np.int64)
    needed = encoding.slot_bytes(record, page.kind, page.width, lengths)
    assert needed.shape == (1, 4)
    if needed[0, 0] < 0 or any(needed[0] > np.diff(places)):
        raise page.damaged("slots are too short")
    check_validity(page)
    encoding.check(page)
    return page


# --- comparing ------------------------------------------------------------------------------------


def plain(values: PhysicalValues) -> list[Any]:
    """Values as a list in which floats are their bits."""
    if values.offsets is not None:
        data, offsets = values.data.tobytes(), values.offsets.tolist()
        assert len(offsets) == values.length + 1
        return [data[a:b] for a, b in itertools.pairwise(offsets)]
    data = values.data
    assert len(data) == values.length
    return [row.tobytes() for row in data] if data.ndim == 2 else bits(data).tolist()


def bits(data: Array) -> Array:
    return np.ascontiguousarray(data).view(f"<u{data.dtype.itemsize}")


def same(found: PhysicalValues, values: PhysicalValues) -> bool:
    assert (found.kind, found.width, found.length) == (values.kind, values.width, values.length)
    if values.offsets is None:
        assert found.data.dtype == values.data.dtype
        assert found.data.shape == values.data.shape
        return bool((bits(found.data) == bits(values.data)).all())
    return plain(found) == plain(values)


def part(values: PhysicalValues, start: int, stop: int) -> PhysicalValues:
    data, offsets = values.data, values.offsets
    if offsets is None:
        data = data[start:stop]
    else:
        offsets = offsets[start : stop + 1]
    return PhysicalValues(values.kind, values.width, stop - start, data, offsets)


def picked(values: PhysicalValues, rows: Array) -> PhysicalValues:
    if values.offsets is None:
        return PhysicalValues(values.kind, values.width, len(rows), values.data[rows])
    held = plain(values)
    return text([held[row] for row in rows.tolist()], values.kind)


def row_ranges(length: int) -> Iterator[tuple[int, int]]:
    marks = {0, 1, 7, 8, 9, length // 2, length - 1, length}
    kept = sorted(mark for mark in marks if 0 <= mark <= length)
    for start in kept:
        yield start, start
        for stop in (kept[-1], min(start + 9, length)):
            if stop > start:
                yield start, stop


def some_rows(length: int) -> Array:
    """Rows out of order, with repeats, first and last among them."""
    random = np.random.default_rng(length)
    rows = random.integers(0, length, min(3 * length, 700))
    return np.concatenate((rows, [length - 1, 0, 0, length - 1])).astype(np.int64)


def check_all_ways(stored: Stored, values: PhysicalValues) -> None:
    """Every way to read a page gives the values that went in, bit by bit."""
    page = open_page(stored)
    encoding = encoding_by_code(page.encoding)
    length = values.length
    assert same(encoding.decode(page, 0, length), values)
    for start, stop in row_ranges(length):
        assert same(encoding.decode(page, start, stop), part(values, start, stop))
        if values.kind not in VARIABLE:
            _check_decode_into(encoding, page, values, start, stop)
    rows = some_rows(length)
    for wanted in (rows, rows[:3], rows[:0], np.arange(length)[::-1].copy()):
        assert same(encoding.take(page, wanted), picked(values, wanted))
    _check_rows_of_pages(stored, values)


def _check_decode_into(
    encoding: PageEncoding, page: Page, values: PhysicalValues, start: int, stop: int
) -> None:
    shape = (stop - start + 5, *values.data.shape[1:])
    out = np.full(shape, 1, values.data.dtype)
    encoding.decode_into(page, start, stop, out[3 : stop - start + 3])
    assert (bits(out[3 : stop - start + 3]) == bits(values.data[start:stop])).all()
    around = np.concatenate((out[:3], out[stop - start + 3 :]))
    assert (bits(around) == bits(np.full(around.shape, 1, out.dtype))).all()


class _TwoPages:
    """The same page twice in a segment, at different places, with other bytes around."""

    def __init__(self, stored: Stored, rows: int) -> None:
        gap = 64
        self._stored = stored
        self._edges = np.array([0, rows, 2 * rows])
        self.data = np.concatenate(
            [stored.payload, np.full(gap, 255, np.uint8), stored.payload, np.zeros(96, np.uint8)]
        )
        self._pages = np.concatenate((stored.record, stored.record))
        self._pages["offset"] = 0, len(stored.payload) + gap

    def page_of(self, node: int, rows: Array) -> Array:
        return np.searchsorted(self._edges, rows, "right") - 1

    def first_rows(self, node: int) -> Array:
        return self._edges

    def records(self, node: int) -> Array:
        return self._pages

    def touch(self, node: int, numbers: Array) -> None:
        pass

    def dictionary(self, node: int) -> PhysicalValues | None:
        return self._stored.dictionary

    def page_words(self, node: int) -> PageWords:
        held: Any = SimpleNamespace(kind=self._stored.kind, width=self._stored.width)
        has_dictionary = self._stored.dictionary is not None
        return PageWords.of(self._pages, held, has_dictionary=has_dictionary)

    def page_for_rows(self, node: int, number: int) -> Page:
        return self._stored.page()


def _check_rows_of_pages(stored: Stored, values: PhysicalValues) -> None:
    node: Any = SimpleNamespace(number=0, kind=values.kind, width=values.width)
    segment: Any = _TwoPages(stored, values.length)
    rows = some_rows(values.length)
    for wanted in (rows, rows[:1], rows[:0]):
        places = wanted + np.arange(len(wanted)) % 2 * values.length
        assert same(RowsOfPages(segment, node, places).values(), picked(values, wanted))


def round_trip(
    encoding: PageEncoding, values: PhysicalValues, profile: Profile
) -> EncodedPage | None:
    """Encode and read in every way; return the page, or None where it does not apply."""
    summary = summarise_values(values)
    estimate = encoding.estimate(values, summary, profile)
    assert estimate is None or estimate >= 0
    encoded = encoding.encode(values, profile)
    if encoded is None:
        return None
    assert encoded.encoding == encoding.code
    check_all_ways(store(values, encoded), values)
    return encoded


# --- hostile pages --------------------------------------------------------------------------------

FORGED_FIELDS = (
    "base", "step", "row_count", "count", "exceptions", "encoding", "inner", "bit_width",
    "inner_width", "exponent", "payload_length", "null_count", "flags",
)  # fmt: skip


def survives(stored: Stored) -> bool:
    """Open and read a page as a reader would; True where it was taken for sound.

    Whatever it holds, nothing but ``CorruptSegmentError`` may come out of it, and what is decoded
    has the shape that the record promises.
    """
    with bounded_memory(32 << 20):
        try:
            page = open_page(stored)
        except CorruptSegmentError as error:
            named = error.attributes
        else:
            _read(page)
            return True
    assert PLACE.items() <= named.items()
    return False


def _read(page: Page) -> None:
    encoding = encoding_by_code(page.encoding)
    length = page.length
    whole = encoding.decode(page, 0, length)
    assert whole.length == length
    if length:
        rows = some_rows(length)[:40]
        assert same(encoding.take(page, rows), picked(whole, rows))
        middle = length // 2
        assert same(encoding.decode(page, middle, length), part(whole, middle, length))


def forged(stored: Stored, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Stored:
    """Return the page with one thing wrong: a field, a byte, or its end cut off."""
    kind = draw(st.sampled_from(["field", "start", "bytes", "cut", "noise"]))
    payload = stored.payload.copy()
    if kind == "field":
        field = draw(st.sampled_from(FORGED_FIELDS))
        information = np.iinfo(PAGE_RECORD[field])
        value = draw(
            st.one_of(
                st.integers(int(information.min), int(information.max)),
                st.integers(0, min(80, int(information.max))),
                st.sampled_from([int(information.min), int(information.max)]),
                st.just(int(stored.record[field][0])).map(
                    lambda held: min(held + 1, int(information.max))
                ),
            )
        )
        return stored.with_field(field, value)
    if kind == "start":
        at = draw(st.integers(0, 3))
        return stored.with_field("starts", 64 * draw(st.integers(0, 40)), at)
    if kind == "cut":
        keep = draw(st.integers(0, max(len(payload) - 1, 0)))
        return replace(stored, payload=payload[:keep])
    if len(payload):
        for _ in range(draw(st.integers(1, 4))):
            payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
        if kind == "noise":
            random = np.random.default_rng(draw(st.integers(0, 99)))
            payload[:] = random.integers(0, 256, len(payload))
    return replace(stored, payload=payload)


def refused(stored: Stored, words: str) -> None:
    """A page is refused, with these words, naming object, column and page."""
    with pytest.raises(CorruptSegmentError, match=words) as caught:
        open_page(stored)
    assert PLACE.items() <= caught.value.attributes.items()


@contextlib.contextmanager
def bounded_memory(most_bytes: int) -> Iterator[None]:
    """Fail where numpy and pyarrow take more memory than that at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= most_bytes
    finally:
        tracemalloc.stop()


def with_validity(stored: Stored, present: npt.NDArray[np.bool_]) -> Stored:
    """Put a validity bitmap before the slots."""
    bitmap = np.packbits(present, bitorder="little")
    held = np.concatenate((bitmap, np.zeros(-len(bitmap) % 64, np.uint8)))
    record = stored.record.copy()
    record["starts"] += len(held)
    record["payload_length"] += len(held)
    record["null_count"] = len(present) - int(present.sum())
    record["flags"] |= np.uint16(PageFlag.VALIDITY)
    return replace(stored, record=record, payload=np.concatenate((held, stored.payload)))

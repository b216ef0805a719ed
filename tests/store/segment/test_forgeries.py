"""One forgery of each kind, made by hand: each must be refused, and the place named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import CorruptSegmentError
from tessel.store.segment.file_writer import WriteOptions
from tests.store.segment.forging import Forgery
from tests.store.segment.helpers import OBJECT, scanned, with_ids, written

FLAT, LINEAR = 3, 4
CODES = np.random.default_rng(1).integers(0, 3, 16)


def _column(values: Any, encoding: str | None = None, shift: int = 4) -> Forgery:
    table = with_ids(pa.table({"c": values}))
    encodings = {} if encoding is None else {"7": encoding}
    return Forgery(written(table, WriteOptions(encodings=encodings, page_shifts={"7": shift})))


def _integers() -> Forgery:
    return _column(pa.array(np.arange(64) ** 3, pa.int64()), "flat")


def _packed() -> Forgery:
    return _column(pa.array(CODES * 5 % 7, pa.int16()), "linear")


def _words() -> Forgery:
    return _column(pa.array(["zero", "one", "two"]).take(pa.array(CODES)), "dictionary")


def _categories() -> Forgery:
    return _column(pa.array(["zero", "one", "two"]).take(pa.array(CODES)).dictionary_encode())


def _texts() -> Forgery:
    return _column(pa.array(["abc", "de", "f" * 40, ""]), "variable")


def _prices() -> Forgery:
    return _column(pa.array([101.25, 101.5, 0.1 + 0.2, 99.75, 1e300, 7.5]), "scaled")


def _runs() -> Forgery:
    return _column(pa.array([5] * 7 + [900] * 9), "run-end")


def _lists() -> Forgery:
    return _column(pa.array([[1, 2], [], [3], [4, 5]], pa.list_(pa.int32())), shift=2)


def _some_null() -> Forgery:
    return _column(pa.array([1, None, 3, None, 5, 6, 7, 8, 9, 10], pa.int64()), "flat")


def _field(name: str, value: int, node: int = 0, page: int = 0) -> Callable[[Forgery], None]:
    return lambda forgery: _set(forgery.page(node, page, name, value))


def _set(_: int) -> None:
    """A field was changed."""


def _slot(forgery: Forgery, number: int, node: int = 0, page: int = 0) -> memoryview:
    start = forgery.page(node, page, f"start_{number}")
    return forgery.payload(node, page)[start:]


def _write(number: int, place: int, data: bytes, page: int = 0) -> Callable[[Forgery], None]:
    def change(forgery: Forgery) -> None:
        _slot(forgery, number, page=page)[place : place + len(data)] = data

    return change


def _flat_list_offsets(*offsets: int) -> Callable[[Forgery], None]:
    """Make the offsets of the lists an array of these 32-bit integers."""

    def change(forgery: Forgery) -> None:
        forgery.page(0, 0, "encoding", FLAT)
        forgery.page(0, 0, "bit_width", 0)
        forgery.page(0, 0, "base", 0)
        forgery.page(0, 0, "step", 0)
        raw = struct.pack(f"<{len(offsets)}i", *offsets)
        _slot(forgery, 1)[: len(raw)] = raw

    return change


def _every_field(*changes: Callable[[Forgery], None]) -> Callable[[Forgery], None]:
    def change(forgery: Forgery) -> None:
        for each in changes:
            each(forgery)

    return change


@dataclass(frozen=True)
class Case:
    """A forgery that must be refused: how it is made, and the page that is to blame."""

    id: str
    make: Callable[[], Forgery]
    change: Callable[[Forgery], None]
    page: int | str = 0


_FAR = (1 << 64) - 64
CASES = (
    Case("page past the pages", _integers, _field("offset", 1 << 20)),
    Case("page at the end of all numbers", _integers, _field("offset", _FAR)),
    Case("page where none begins", _integers, _field("offset", 32)),
    Case("page longer than the file", _integers, _field("length", (1 << 32) - 64)),
    Case("payload without bytes", _integers, _field("payload_length", (1 << 32) - 64)),
    Case(
        "compressed page of 4 GiB",
        _integers,
        _every_field(_field("codec", 2), _field("payload_length", (1 << 32) - 64)),
    ),
    Case("more rows than there are", _integers, _field("row_count", 17), 1),  # where it shows
    Case("rows that do not follow", _integers, _field("first_row", 1, page=2), 2),
    Case("more nulls than rows", _integers, _field("null_count", 1 << 31)),
    Case("NaNs of integers", _integers, _field("nan_count", 1)),
    Case("buffers out of order", _prices, _field("start_1", 1 << 16)),
    Case("no such encoding", _integers, _field("encoding", 10)),
    Case("encoding of another type", _integers, _field("encoding", 9)),
    Case("no such codec", _integers, _field("codec", 77)),
    Case("width that is none", _packed, _field("bit_width", 58)),
    Case("width past the buffer", _packed, _field("bit_width", 64)),
    Case("integers that the type has not", _packed, _field("base", 1 << 15)),
    Case("code past the dictionary", _words, _write(1, 0, b"\xff" * 16)),
    Case("category past the dictionary", _categories, _write(1, 0, b"\xff" * 16)),
    Case("codes that begin past the dictionary", _words, _field("base", 3)),
    Case("exponent that is none", _prices, _field("exponent", 23)),
    Case("exceptions past the page", _prices, _write(3, 0, b"\xff" * 64)),
    Case("exceptions without room", _prices, _field("exceptions", 1 << 31)),
    Case("runs that go back", _runs, _write(1, 0, b"\xff\x00")),
    Case("runs that end early", _runs, _write(1, 0, b"\x01\x02")),
    Case("more runs than rows", _runs, _field("count", 1 << 30)),
    Case("text offsets past the bytes", _texts, _write(1, 3, b"\xf0\xff")),
    Case("text offsets that go back", _texts, _write(1, 1, b"\x30\x10")),
    Case("text that is not UTF-8", _texts, _write(2, 0, b"\xff\xfe")),
    Case("text cut inside a character", _texts, _write(2, 2, "é".encode())),
    Case("list offsets that go back", _lists, _flat_list_offsets(0, 4, 3, 5, 5)),
    Case("list offsets past the items", _lists, _flat_list_offsets(0, 2, 3, 4, 6)),
    Case("lists before the items", _lists, _flat_list_offsets(-1, 2, 3, 4, 5)),
    # Each is a step forward modulo 2**32.
    Case(
        "list offsets around the corner",
        _lists,
        _flat_list_offsets(0, (1 << 31) - 1, -(1 << 31), -1, 5),
    ),
    Case("items of another page", _lists, _field("item_start", 1)),
    Case("fewer items than the lists have", _lists, _field("row_count", 4, node=1)),
    Case("another number of nulls", _some_null, _field("null_count", 1)),
    Case("no bitmap", _some_null, _field("flags", 0)),
    Case("bits of other rows", _some_null, lambda f: _set(f.payload(0, 0).__setitem__(0, 0xFF))),
    Case(
        "time past midnight",
        lambda: _column(pa.array([1, 2], pa.time32("s")), "flat"),
        _write(1, 0, struct.pack("<i", 86_400)),
    ),
    Case(
        "half a day",
        lambda: _column(pa.array([0, 86_400_000], pa.date64()), "flat"),
        _write(1, 0, struct.pack("<q", 43_200_000)),
    ),
    Case(
        "decimal of too many digits",
        lambda: _column(pa.array([1, 2], pa.decimal128(4, 0)), "flat"),
        _write(1, 0, struct.pack("<q", 10_000)),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_page_is_named(case: Case) -> None:
    forgery = case.make()
    assert scanned(forgery.signed()).num_rows
    case.change(forgery)
    with pytest.raises(CorruptSegmentError) as caught:
        scanned(forgery.signed())
    found = caught.value.attributes
    assert (found["object"], found["column"], found["page"]) == (OBJECT, 7, case.page)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("column_id", 8),
        ("value_count", 65),
        ("value_count", 1 << 50),
        ("page_table", 0),
        ("page_count", 5),
        ("page_count", (1 << 32) - 1),
        ("node", 1),
        ("parent", 0),
        ("dictionary_count", 9),
        ("width", 4),
        ("prefix_start", 1),
        ("prefix_length", 1),
        ("role", 1),
        ("role", 255),
        ("kind", 3),
        ("kind", 255),
        ("page_shift", 5),
        ("page_shift", 17),
        ("page_shift", 255),
        ("has_dictionary", 1),
        ("has_dictionary", 2),
    ],
)
def test_columns_that_contradict_the_schema_or_their_pages(name: str, value: int) -> None:
    forgery = _integers()
    forgery.column(0, name, value)
    with pytest.raises(CorruptSegmentError):
        scanned(forgery.signed())


@pytest.mark.parametrize("value", [0, 1, 96, 1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 64])
@pytest.mark.parametrize(
    "name",
    [
        "segment_length",
        "row_count",
        "metadata_start",
        "directory_start",
        "prefixes_start",
        "schema_start",
        "page_count",
        "column_count",
        "prefixes_length",
        "schema_length",
    ],
)
def test_footers_that_do_not_add_up(name: str, value: int) -> None:
    forgery = _integers()
    before = forgery.footer(name)
    if forgery.footer(name, value) == before:
        return  # the number that it was (cut to the width of the field)
    with pytest.raises(CorruptSegmentError):
        scanned(forgery.signed())


def test_pages_may_share_bytes() -> None:
    """Two pages at one place are no damage: what they hold is what both say."""
    forgery = _integers()
    forgery.page(0, 1, "offset", forgery.page(0, 0, "offset"))
    values = scanned(forgery.signed()).column(0).to_pylist()
    assert values == [at**3 for at in [*range(16), *range(16), *range(32, 64)]]

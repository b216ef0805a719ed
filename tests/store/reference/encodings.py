"""The pages of the reference decoder: packed integers, page encodings, codecs, checksums.

The half of :mod:`tests.store.reference.decoder` that follows the sections *Payload and slots*,
*Packed integers* and *Encodings* of ``docs/format.md``; nobody else enters. Plain lists of plain
values, one at a time.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import CorruptSegmentError

__all__ = [
    "DICTIONARY",
    "OFFSETS",
    "PAGE_BYTES",
    "PageEntry",
    "Value",
    "check_offsets",
    "check_values",
    "crc32c",
    "page_entry",
    "page_slots",
    "page_values",
    "require",
    "with_nulls",
]

Value: TypeAlias = Any
"""A plain value: None, bool, int, bytes, a list or a tuple of values."""

BLOCK: Final = 65_536
WORD: Final = 1 << 64

NONE, BOOLEAN, SIGNED, UNSIGNED, FLOAT, DECIMAL, FIXED, TEXT, BINARY, OFFSETS = range(10)
NOTHING, ALL_MISSING, CONSTANT, FLAT, LINEAR, DELTA, SCALED, DICTIONARY, RUN_END, VARIABLE = range(
    10
)
VALIDITY: Final = 1
LZ4, ZSTD = 1, 2
DAY_MS: Final = 86_400_000
PLANES: Final = {3: 2, 4: 4, 5: 8}

_PAGE = struct.Struct("<2Q2I5Q10I5BbH")
PAGE_BYTES: Final = _PAGE.size


@dataclass(frozen=True)
class PageEntry:
    """A record of a page table; fields as on the format page."""

    first_row: int
    offset: int
    length: int
    payload_length: int
    base: int
    step: int
    minimum: int
    maximum: int
    item_start: int
    row_count: int
    checksum: int
    null_count: int
    nan_count: int
    starts: tuple[int, ...]
    count: int
    exceptions: int
    encoding: int
    inner: int
    bit_width: int
    inner_width: int
    codec: int
    exponent: int
    flags: int


def page_entry(data: bytes) -> PageEntry:
    """Return the page record that these 112 bytes are."""
    fields = _PAGE.unpack(data)
    named: list[Any] = [*fields[:13], fields[13:17], *fields[17:]]
    return PageEntry(*named)


def require(holds: bool, what: str) -> None:
    """Refuse the file unless a rule of the format page holds."""
    if not holds:
        raise CorruptSegmentError(f"reference decoder: {what}")


def _signed(word: int, bits: int = 64) -> int:
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) else word


def unpack_integers(data: bytes, count: int, bit_width: int) -> list[int]:
    """Return packed unsigned integers; the section *Packed integers* of the format page."""
    if bit_width == 0:
        return [0] * count
    if bit_width in (8, 16, 32, 64):
        width = bit_width // 8
        require(count * width <= len(data), "an array of integers ends too early")
        return [
            int.from_bytes(data[at : at + width], "little") for at in range(0, count * width, width)
        ]
    require(bit_width <= 57, "no such bit width")
    groups = (count + 7) // 8
    require(groups * bit_width + 8 <= len(data), "a stream of bits ends too early")
    mask = (1 << bit_width) - 1
    values = []
    for group in range(groups):  # eight integers are bit_width whole bytes
        bits = int.from_bytes(data[group * bit_width : (group + 1) * bit_width], "little")
        values += [(bits >> (at * bit_width)) & mask for at in range(8)]
    return values[:count]


@dataclass(frozen=True)
class _Stored:
    """A page ready for an encoding: its record, its slots 0 to 4, the shape of its values."""

    entry: PageEntry
    slots: list[bytes]
    kind: int
    width: int
    count: int  # n of the format page
    dictionary: list[Value] | None


def _integers(page: _Stored, encoding: int) -> list[int]:
    """Return the n integers, modulo 2**64, of an integer encoding or of a constant."""
    entry = page.entry
    if encoding == CONSTANT:
        return [entry.base] * page.count
    if encoding == RUN_END:
        return _runs(page)
    require(encoding in (LINEAR, DELTA), f"encoding {encoding} holds no integers")
    residuals = unpack_integers(page.slots[1], page.count, entry.bit_width)
    if encoding == DELTA:
        require(not residuals or residuals[0] == 0, "the first residual of a delta is not 0")
        total = 0
        for at, residual in enumerate(residuals):
            total += residual
            residuals[at] = total
    return [(entry.base + entry.step * i + r) % WORD for i, r in enumerate(residuals)]


def _runs(page: _Stored) -> list[int]:
    entry = page.entry
    require(entry.inner_width in (8, 16, 32), "no such width of the ends of runs")
    lasts = unpack_integers(page.slots[1], entry.count, entry.inner_width)
    residuals = unpack_integers(page.slots[2], entry.count, entry.bit_width)
    values: list[int] = []
    for run, (last, residual) in enumerate(zip(lasts, residuals, strict=True)):
        require(len(values) <= last < page.count, "the ends of runs do not ascend to n - 1")
        value = (entry.base + entry.step * run + residual) % WORD
        values += [value] * (last + 1 - len(values))
    require(len(values) == page.count, "the last run ends too early")
    return values


def _from_bits(bits: int, kind: int, width: int) -> Value:
    """Return the value that has these 64 bits (of which the lowest ``width`` bytes count)."""
    if kind == BOOLEAN:
        require(bits in (0, 1), "a boolean is neither 0 nor 1")
        return bool(bits)
    if kind == DECIMAL:
        return _signed(bits)
    if kind in (SIGNED, OFFSETS):
        return _signed(bits, 8 * width)
    return bits % (1 << 8 * width)


def _from_integer(word: int, kind: int, width: int) -> Value:
    """Return the value of a 64-bit integer, which must be one of the type."""
    value = _from_bits(word, kind, width)
    require(value % WORD == word, "an integer is none of its type")
    return value


def _nothing(page: _Stored) -> list[Value]:
    require(page.kind == NONE, "encoding 'nothing' of a column with values")
    return [None] * page.count


def _all_missing(page: _Stored) -> list[Value]:
    require(page.entry.null_count == page.entry.row_count, "not all rows are missing")
    return [0 if page.kind == OFFSETS else None] * page.count


def _constant(page: _Stored) -> list[Value]:
    if page.kind in (TEXT, BINARY, FIXED):
        require(page.entry.count <= len(page.slots[1]), "a constant ends too early")
        return [page.slots[1][: page.entry.count]] * page.count
    if page.kind == DECIMAL:
        return [_signed(page.entry.step << 64 | page.entry.base, 128)] * page.count
    return [_from_bits(page.entry.base, page.kind, page.width)] * page.count


def _flat(page: _Stored) -> list[Value]:
    data, width = page.slots[1], page.width
    if page.kind == BOOLEAN:
        require((page.count + 7) // 8 <= len(data), "a bitmap ends too early")
        return [bool(data[i // 8] >> (i % 8) & 1) for i in range(page.count)]
    require(page.kind not in (NONE, TEXT, BINARY), "a flat page of no fixed width")
    require(page.count * width <= len(data), "a flat page ends too early")
    items = [data[i * width : (i + 1) * width] for i in range(page.count)]
    if page.kind == FIXED:
        return items
    signed = page.kind in (SIGNED, DECIMAL, OFFSETS)
    return [int.from_bytes(item, "little", signed=signed) for item in items]


def _integral(page: _Stored) -> list[Value]:
    require(page.kind not in (NONE, TEXT, BINARY, FIXED), "integers of a kind that has none")
    words = _integers(page, page.entry.encoding)
    return [_from_integer(word, page.kind, page.width) for word in words]


def _scaled(page: _Stored) -> list[Value]:
    entry = page.entry
    require(page.kind == FLOAT, "a scaled page of no floats")
    require(0 <= entry.exponent <= 22, "no such exponent")
    integers = [_signed(word) for word in _integers(page, entry.inner)]
    require(all(abs(integer) <= 1 << 53 for integer in integers), "an integer is no double")
    values: list[Value] = [
        _float_bits(float(integer) / 10.0**entry.exponent, page.width) for integer in integers
    ]
    if not entry.exceptions:
        return values
    require(entry.inner_width in (8, 16, 32), "no such width of positions")
    positions = unpack_integers(page.slots[3], entry.exceptions, entry.inner_width)
    replaced = unpack_integers(page.slots[4], entry.exceptions, 8 * page.width)
    before = -1
    for position, bits in zip(positions, replaced, strict=True):
        require(before < position < page.count, "positions of exceptions do not ascend")
        values[position] = bits
        before = position
    return values


def _float_bits(value: float, width: int) -> int:
    try:
        return int.from_bytes(struct.pack("<d" if width == 8 else "<f", value), "little")
    except OverflowError:  # past the largest float32: IEEE rounding gives an infinity
        return _float_bits(math.copysign(math.inf, value), width)


def _dictionary(page: _Stored) -> list[Value]:
    require(page.dictionary is not None, "dictionary codes without a dictionary")
    values = page.dictionary or []
    places = _integers(page, page.entry.inner)
    require(all(place < len(values) for place in places), "a code is past the dictionary")
    return [values[place] for place in places]


def _variable(page: _Stored) -> list[Value]:
    require(page.kind in (TEXT, BINARY), "a variable page of a fixed width")
    entry, data = page.entry, page.slots[2]
    residuals = unpack_integers(page.slots[1], page.count + 1, entry.bit_width)
    offsets = [(entry.base + entry.step * i + r) % WORD for i, r in enumerate(residuals)]
    check_offsets(offsets, len(data))
    return [data[a:b] for a, b in itertools.pairwise(offsets)]


def check_offsets(offsets: Sequence[int], most: int) -> None:
    """Refuse offsets that do not begin at 0, go back, or pass ``most``."""
    require(offsets[0] == 0, "the first offset is not 0")
    require(offsets[-1] <= most, "an offset is past the end")
    require(all(a <= b for a, b in itertools.pairwise(offsets)), "offsets go back")


_ENCODINGS: dict[int, Callable[[_Stored], list[Value]]] = {
    NOTHING: _nothing,
    ALL_MISSING: _all_missing,
    CONSTANT: _constant,
    FLAT: _flat,
    LINEAR: _integral,
    DELTA: _integral,
    SCALED: _scaled,
    DICTIONARY: _dictionary,
    RUN_END: _integral,
    VARIABLE: _variable,
}


def _payload(stored: bytes, entry: PageEntry) -> bytes:
    """Undo the codec of a page; the section *Payload and slots* of the format page."""
    if entry.codec == 0:
        require(entry.length == entry.payload_length, "an uncompressed page of two lengths")
        return stored
    require(1 <= entry.codec <= 5, "no such codec")
    planes = {3: 2, 4: 4, 5: 8}.get(entry.codec, 1)
    codec = pa.Codec("lz4_raw" if entry.codec == 1 else "zstd")
    blocks = planes if planes > 1 else (entry.payload_length + BLOCK - 1) // BLOCK
    starts = unpack_integers(stored, blocks + 1, 32)
    require(starts[0] == 4 * (blocks + 1) and starts[-1] == len(stored), "block table is wrong")
    payload = b""
    for at in range(blocks):
        block = stored[starts[at] : starts[at + 1]]
        size = min(BLOCK, entry.payload_length - at * BLOCK)
        if planes > 1:
            size = entry.payload_length // planes
        try:
            raw = block if len(block) == size else codec.decompress(block, size, asbytes=True)
        except (OSError, ValueError) as error:
            raise CorruptSegmentError(f"reference decoder: block {at}: {error}") from error
        require(len(raw) == size, "a block of another size")
        payload += raw
    if planes > 1:
        # Byte b of element e lies at b * elements + e.
        elements = entry.payload_length // planes
        payload = b"".join(payload[e::elements] for e in range(elements))
    return payload


def page_slots(stored: bytes, entry: PageEntry) -> list[bytes]:
    """Return slots 0 to 4 of a page, padding included, from its stored bytes."""
    payload = _payload(stored, entry)
    require(len(payload) % 64 == 0, "a payload of no multiple of 64")
    bounds = [0, *entry.starts, len(payload)]
    require(bounds == sorted(bounds), "slots go back")
    require(all(start % 64 == 0 for start in bounds), "a slot begins at no multiple of 64")
    return [payload[a:b] for a, b in itertools.pairwise(bounds)]


def page_values(
    entry: PageEntry,
    slots: list[bytes],
    kind: int,
    width: int,
    count: int,
    dictionary: list[Value] | None,
) -> list[Value]:
    """Return the ``count`` values of a page, those of null rows too; *Encodings* of the page."""
    require(entry.encoding in _ENCODINGS, "no such encoding")
    return _ENCODINGS[entry.encoding](_Stored(entry, slots, kind, width, count, dictionary))


def with_nulls(values: list[Value], entry: PageEntry, bitmap: bytes) -> list[Value]:
    """Return the values with None where the bitmap of slot 0, or the record, says null."""
    rows = entry.row_count
    if not entry.flags & VALIDITY:
        require(entry.null_count in (0, rows), "some rows are null but there is no bitmap")
        return [None] * rows if entry.null_count else values
    require((rows + 7) // 8 <= len(bitmap), "the validity bitmap ends too early")
    present = [bitmap[row // 8] >> (row % 8) & 1 for row in range(rows)]
    require(rows - sum(present) == entry.null_count, "null_count differs from the bitmap")
    return [value if there else None for value, there in zip(values, present, strict=True)]


def check_values(values: Sequence[Value], kind: pa.DataType) -> None:
    """Refuse values that are none of a leaf's Arrow type, though their bits fit; nulls are left."""
    present = [value for value in values if value is not None]
    if pat.is_string(kind):
        for value in present:
            try:
                value.decode()
            except UnicodeDecodeError as error:
                raise CorruptSegmentError(f"reference decoder: text: {error}") from error
    elif pat.is_decimal(kind):
        limit = 10**kind.precision
        require(all(-limit < value < limit for value in present), "a decimal has too many digits")
    elif pat.is_date64(kind):
        require(all(value % DAY_MS == 0 for value in present), "a date64 within a day")
    elif pat.is_time(kind):
        day = DAY_MS * {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[kind.unit] // 1000
        require(all(0 <= value < day for value in present), "a time that is in no day")


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of bytes; RFC 3720, appendix B.4."""
    table = _CRC_TABLE
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF

"""Values of a page in memory, and a page as it is decoded: what encodings take and give.

Bitmaps have one bit a row, least significant first, 1 = present, as Arrow has them; only this
module knows how bits lie in bytes.

Everyone who touches encoded data enters here, through :mod:`tessel.store.encodings.base`, which
offers these names too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.errors import CorruptSegmentError
from tessel.lazy import dataclass
from tessel.store.encodings.codes import PAGE_RECORD, EncodingCode, PageFlag, ValueKind

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]

_NATIVE: dict[tuple[ValueKind, int], np.dtype[Any]] = {
    (ValueKind.BOOLEAN, 1): np.dtype(np.bool_),
    **{(ValueKind.SIGNED, w): np.dtype(f"<i{w}") for w in (1, 2, 4, 8)},
    **{(ValueKind.UNSIGNED, w): np.dtype(f"<u{w}") for w in (1, 2, 4, 8)},
    **{(ValueKind.FLOAT, w): np.dtype(f"<f{w}") for w in (4, 8)},
}
INTEGER_ENCODINGS: Final = frozenset(
    {EncodingCode.LINEAR, EncodingCode.DELTA, EncodingCode.RUN_END}
)
"""Those in which a column of decimals holds 64-bit integers instead."""


def native_dtype(kind: ValueKind, width: int) -> np.dtype[Any]:
    """Return the dtype of values of a kind as numpy holds them, one element a value.

    Decimals are rows of two 64-bit words, low word first: dtype ``<i8`` and shape ``(n, 2)``.
    Opaque bytes, the bytes of text and the like are ``u1``, of shape ``(n, width)`` or flat.
    """
    if kind == ValueKind.DECIMAL:
        return np.dtype("<i8")
    if kind == ValueKind.OFFSETS:
        return np.dtype("<i4")
    return _NATIVE.get((kind, width), np.dtype(np.uint8))


def stored_kind(kind: ValueKind, width: int, encoding: int) -> tuple[ValueKind, int]:
    """Return kind and width of what an encoding holds for a column of ``kind``.

    Differs in two cases: list offsets are 32-bit integers, and decimals in an integer encoding are
    the 64-bit integers that their unscaled values fit in (:func:`widen` turns them back).
    """
    if kind == ValueKind.OFFSETS:
        return ValueKind.SIGNED, 4
    if kind == ValueKind.DECIMAL and encoding in INTEGER_ENCODINGS:
        return ValueKind.SIGNED, 8
    return kind, width


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalValues:
    """The values of one page (or of part of one) in memory.

    Attributes
    ----------
    kind, width
        The type of the values; see :class:`~tessel.store.encodings.codes.ValueKind`.
    data
        One element a value, of :func:`native_dtype`: bool as one byte each, decimals ``(n, 2)``,
        fixed-size bytes ``(n, width)``. For text and binary, the bytes of all values.
    offsets
        Only of text and binary: ``length + 1`` places in ``data``, int32, never decreasing. The
        first need not be 0.
    codes
        Only where the column has a dictionary: each value's place in it, unsigned.  When encoding
        values that have codes, ``data`` may be empty.
    """

    kind: ValueKind
    width: int
    length: int
    data: npt.NDArray[Any]
    offsets: npt.NDArray[np.int32] | None = None
    codes: npt.NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page to decode: its record as plain numbers, and its uncompressed bytes.

    Attributes
    ----------
    kind, width
        Of the values as the encoding holds them (after :func:`stored_kind`).
    length
        How many values: rows, or one more than rows for list offsets.
    rows
        Top-level or item rows; the length of the validity bitmap.
    payload
        Uncompressed bytes, possibly read-only. Slot 0 begins at 0.
    starts
        Where slots 1 to 4 begin.
    dictionary
        The values of the column's dictionary; None where it has none.
    place
        Object, column, page: for errors.
    """

    kind: ValueKind
    width: int
    length: int
    rows: int
    encoding: int
    inner: int
    bit_width: int
    base: int
    step: int
    inner_width: int
    count: int
    exceptions: int
    exponent: int
    flags: int
    null_count: int
    payload: Bytes
    starts: tuple[int, ...]
    dictionary: PhysicalValues | None = None
    place: dict[str, Any] = field(default_factory=dict)

    def slot(self, number: int, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Return the first ``count`` elements of slot 1 to 4 as a view.

        Raises CorruptSegmentError when the slot is shorter than that.
        """
        kind = np.dtype(dtype)
        start = self.starts[number - 1]
        stop = start + count * kind.itemsize
        if stop > self.slot_end(number):
            raise self.damaged(f"slot {number} has too few bytes for {count} values")
        return self.payload[start:stop].view(kind)

    def slot_end(self, number: int) -> int:
        """Return where slot ``number`` ends, padding included; never past the payload."""
        end = len(self.payload)
        return min(self.starts[number], end) if number < len(self.starts) else end

    def validity(self) -> Bytes | None:
        """Return the Arrow validity bitmap of the page, ``ceil(rows / 8)`` bytes, or None."""
        if not self.flags & PageFlag.VALIDITY:
            return None
        return self.payload[: (self.rows + 7) // 8]

    def damaged(self, what: str) -> CorruptSegmentError:
        """Return the error that says what is wrong with this page."""
        return damaged_page(what, self.place)


_NUMBERS: Final = (
    *("encoding", "inner", "bit_width", "base", "step", "inner_width", "count"),
    *("exceptions", "exponent", "flags", "null_count"),
)
"""Fields of a record that a page has as they are."""


def damaged_page(what: str, place: Mapping[str, Any]) -> CorruptSegmentError:
    """Return the error that says what is wrong with a page at a place."""
    where = ", ".join(f"{name} {value}" for name, value in place.items())
    return CorruptSegmentError(
        f"damaged page: {what}" + (f" ({where})" if where else ""),
        hint="restore the object from a copy of the store",
        **place,
    )


def page_from_record(
    record: np.void,
    payload: Bytes,
    kind: ValueKind,
    width: int,
    *,
    dictionary: PhysicalValues | None = None,
    place: dict[str, Any] | None = None,
) -> Page:
    """Return the page of a record of :data:`~tessel.store.encodings.codes.PAGE_RECORD`.

    Parameters
    ----------
    record
        Validated, as those of an opened file are.
    payload
        Uncompressed bytes of the page.
    """
    stored = dict(zip(PAGE_RECORD.names or (), record.item(), strict=True))
    rows = stored["row_count"]
    held, held_width = stored_kind(kind, width, stored["encoding"])
    return Page(
        kind=held,
        width=held_width,
        length=rows + (kind == ValueKind.OFFSETS and rows > 0),
        rows=rows,
        payload=payload,
        starts=tuple(stored["starts"].tolist()),
        dictionary=dictionary,
        place={} if place is None else place,
        **{name: stored[name] for name in _NUMBERS},
    )


def integer_view(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return integers, booleans or float bits as unsigned 64-bit integers modulo 2**64.

    Narrow signed integers are sign-extended, all others are zero-extended.
    """
    if values.dtype.kind == "f":
        values = values.view(f"<u{values.dtype.itemsize}")
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False).view(np.uint64)
    return values.astype(np.uint64, copy=False)


def widen(integers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 64-bit unscaled decimals as 128-bit ones, of shape ``(n, 2)``."""
    wide = np.empty((len(integers), 2), np.int64)
    wide[:, 0] = integers
    np.right_shift(integers, 63, out=wide[:, 1])
    return wide


def kind_bounds(kind: ValueKind, width: int) -> tuple[int, int] | None:
    """Return the least and the largest integer of a type; None where 64 bits hold no other.

    Floats are meant as the unsigned integers of the same bits.
    """
    if kind == ValueKind.BOOLEAN:
        return 0, 1
    if width >= 8:
        return None
    if kind == ValueKind.SIGNED:
        return -(1 << 8 * width - 1), (1 << 8 * width - 1) - 1
    return 0, (1 << 8 * width) - 1


def check_bounds(page: Page, integers: npt.NDArray[np.int64], lowest: int, highest: int) -> None:
    """Raise ``CorruptSegmentError`` where one of the integers of a page is outside the bounds.

    Without it, a page of 8-bit values could say 300: it would be one number where it is decoded,
    and another where its integers are compared as they are stored.
    """
    if not len(integers):
        return
    least, most = int(integers.min()), int(integers.max())
    if least < lowest or most > highest:
        wrong = least if least < lowest else most
        raise page.damaged(f"it holds {wrong}, which is not in [{lowest}, {highest}]")


def bits_of(bitmap: Bytes, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """Return bits ``[start, stop)`` as one bool each."""
    first = start >> 3
    bits = np.unpackbits(bitmap[first : (stop + 7) >> 3], bitorder="little")
    return bits[start - (first << 3) : stop - (first << 3)].view(np.bool_)


def bits_at(bitmap: Bytes, rows: Integers) -> npt.NDArray[np.bool_]:
    """Return the bits of ``rows`` as one bool each."""
    found: npt.NDArray[Any] = bitmap[rows >> 3]
    return ((found >> (rows & 7).astype(np.uint8)) & np.uint8(1)).view(np.bool_)


def nearest_before(kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return for each place the last one before it, or itself, that is kept; else the first."""
    source = np.where(kept, np.arange(len(kept)), int(np.argmax(kept)))
    return np.maximum.accumulate(source, out=source)


def count_ones(bitmap: Bytes, length: int) -> int:
    """Return how many of the first ``length`` bits are 1."""
    whole, rest = divmod(length, 8)
    ones = int(np.bitwise_count(bitmap[:whole]).sum(dtype=np.int64))
    if rest:
        ones += (int(bitmap[whole]) & ((1 << rest) - 1)).bit_count()
    return ones


def check_validity(page: Page) -> None:
    """Check slot 0 of a page against its record.

    Raises CorruptSegmentError when the bitmap is cut, or does not have ``null_count`` zeros.
    """
    bitmap = page.validity()
    if bitmap is None:
        if page.null_count not in (0, page.rows):
            raise page.damaged(
                f"{page.null_count} of {page.rows} rows are null, but not said which"
            )
        return
    if len(bitmap) < (page.rows + 7) // 8 or page.starts[0] < len(bitmap):
        raise page.damaged(f"its validity has too few bytes for {page.rows} rows")
    nulls = page.rows - count_ones(bitmap, page.rows)
    if nulls != page.null_count:
        raise page.damaged(f"{nulls} rows are null, where the record says {page.null_count}")

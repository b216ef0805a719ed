"""Text and binary: linear offsets, then the bytes of all values; both are read in place.

Values of the same length need no offsets at all, so they are found without the rest of the page;
others in two steps, offsets first. Encodings of dictionaries and of constants enter here too, to
put bytes from many places behind one another, and to check text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError
from tessel.store.encodings.arithmetic import (
    LinearFit,
    fill_linear,
    fit_linear,
    linear_at,
    stored_width,
)
from tessel.store.encodings.base import EncodedPage, Packing, PageEncoding, PageSummary, Profile
from tessel.store.encodings.codes import VARIABLE_KINDS, EncodingCode, ValueKind
from tessel.store.encodings.fields import NodeValues, physical_values, to_arrow
from tessel.store.encodings.packed import packed_size, packed_sizes
from tessel.store.encodings.values import Bytes, Integers, Page, PhysicalValues

_LARGEST = (1 << 31) - 1
_LONG = 64
"""Bytes a value above which copying one by one beats indexing every byte (and needs no index)."""

_FEW = 256
"""Up to here, indexing byte by byte is cheaper than making Arrow arrays (about 20 µs)."""


def gather_spans(
    data: Bytes, starts: Integers, lengths: Integers
) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the bytes ``[start, start + length)`` behind one another, and int32 offsets.

    Raises InvalidInputError when that is more than 32-bit offsets reach.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    total = _fitting(int(ends[-1]) if len(ends) else 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    offsets[1:] = ends
    if total > _LONG * len(lengths):
        joined = np.empty(total, np.uint8)
        for start, length, end in zip(
            starts.tolist(), lengths.tolist(), ends.tolist(), strict=True
        ):
            joined[end - length : end] = data[start : start + length]
        return offsets, joined
    places = np.arange(total, dtype=np.int64)
    places += np.repeat(starts - (ends - lengths), lengths)
    return offsets, data[places]


def take_values(values: PhysicalValues, rows: npt.NDArray[Any]) -> PhysicalValues:
    """Return the values at ``rows`` (any integer dtype, inside): any order, repeats, maybe none.

    Raises InvalidInputError when they are text of more than 2 GiB.
    """
    if values.offsets is None:
        data = values.data[rows]
        return PhysicalValues(values.kind, values.width, len(rows), data)
    starts = values.offsets[rows].astype(np.int64)
    lengths = values.offsets[1:][rows] - starts
    if len(rows) <= _FEW:
        offsets, data = gather_spans(values.data, starts, lengths)
    else:
        _fitting(int(lengths.sum()))
        texts = to_arrow(pa.binary(), NodeValues(values.length, values))
        found = pc.take(texts, arrow_array(rows), boundscheck=False)
        return replace(physical_values(found), kind=values.kind)
    return PhysicalValues(values.kind, values.width, len(rows), data, offsets)


def repeated(value: Bytes, times: int) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return one value ``times`` times, and its offsets.

    Raises
    ------
    InvalidInputError
        When that is more than 32-bit offsets reach.
    """
    _fitting(len(value) * times)
    offsets = np.arange(times + 1, dtype=np.int32) * np.int32(len(value))
    return offsets, np.tile(value, times)


def check_text(page: Page, offsets: npt.NDArray[np.int32], data: Bytes) -> None:
    """Raise ``CorruptSegmentError`` where one of the values is not UTF-8.

    ``offsets`` never decrease and lie inside ``data``.
    """
    length = len(offsets) - 1
    held = PhysicalValues(ValueKind.TEXT, 0, length, data, offsets)
    try:
        to_arrow(pa.string(), NodeValues(length, held)).validate(full=True)
    except pa.ArrowInvalid as error:
        raise page.damaged(f"its text is not UTF-8: {error}") from error


def _fitting(total: int) -> int:
    if total > _LARGEST:
        raise InvalidInputError(
            f"{total} bytes of text were asked for at once; 2 GiB is the most",
            hint="read fewer rows at a time",
        )
    return total


class Variable(PageEncoding):
    """``length + 1`` offsets in slot 1, bytes in slot 2."""

    code: ClassVar[EncodingCode] = EncodingCode.VARIABLE
    name: ClassVar[str] = "variable"
    kinds: ClassVar[frozenset[ValueKind]] = VARIABLE_KINDS

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of the values and of the offsets; None where there are only codes."""
        if values.offsets is None:
            return None
        fit = _fit(values.offsets, profile)
        width = _offset_width(len(values.offsets), fit, profile)
        return summary.total_bytes + packed_size(len(values.offsets), width)

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the offsets, from 0 on, and the bytes they span."""
        if values.offsets is None:
            return None
        offsets = values.offsets
        data = np.ascontiguousarray(values.data[offsets[0] : offsets[-1]])
        fit = _fit(offsets, profile)
        width = _offset_width(len(values.offsets), fit, profile)
        if width == 32:
            # Whole offsets, as Arrow has them, need no arithmetic to be read.
            fit, held = LinearFit(0, 0, 0, None), (offsets - offsets[0]).view("<u4")
            return EncodedPage(self.code, bit_width=width, buffers=(held, data))
        held = fit.packed(width)[0] if width else np.empty(0, np.uint8)
        return EncodedPage(
            self.code, bit_width=width, base=fit.base, step=fit.step, buffers=(held, data)
        )

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the offsets; those of the values are known after these."""
        sizes = np.zeros((len(records), 4), np.int64)
        counts = lengths + (lengths > 0)
        sizes[:, 0] = packed_sizes(counts, records["bit_width"])
        return sizes

    def check(self, page: Page) -> None:
        """Refuse offsets that go backwards or leave the bytes, and text that is not UTF-8."""
        if not page.length:
            return
        found = np.empty(page.length + 1, np.int64)
        _offsets_into(page, 0, page.length + 1, found)
        if found[0] != 0 or bool((found[1:] < found[:-1]).any()):
            raise page.damaged("its offsets do not ascend from 0")
        if found[-1] > min(page.slot_end(2) - page.starts[1], (1 << 31) - 1):
            raise page.damaged(f"its offsets reach {found[-1]}, past its bytes")
        if page.kind == ValueKind.TEXT:
            check_text(page, found.astype(np.int32), _data(page))

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return the bytes as a view, and offsets into them that begin where ``start`` does."""
        offsets = _offsets(page, start, stop)
        return PhysicalValues(page.kind, page.width, stop - start, _data(page), offsets)

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Refuse: values have no fixed width.

        Raises TypeError always: readers ask only for kinds of fixed width.
        """
        raise TypeError("values of any length are decoded by decode(), not into an array")

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``, their bytes behind one another."""
        if len(rows) > _FEW:
            return take_values(self.decode(page, 0, page.length), rows)
        starts, stops = _spans(page, rows)
        offsets, data = gather_spans(_data(page), starts, stops - starts)
        return PhysicalValues(page.kind, page.width, len(rows), data, offsets)


def _fit(offsets: npt.NDArray[np.int32], profile: Profile) -> LinearFit:
    return fit_linear(offsets - offsets[0], profile)


def _offset_width(count: int, fit: LinearFit, profile: Profile) -> int:
    """Return 0, the packed width, or 32 where whole offsets are wanted: these need no decoding."""
    width = stored_width(count, fit.bits, profile)
    return 32 if width and profile.packing is not Packing.BITS else width


def _data(page: Page) -> Bytes:
    return page.payload[page.starts[1] : page.slot_end(2)]


def _stream(page: Page) -> Bytes:
    return page.slot(1, np.uint8, packed_size(page.length + 1, page.bit_width))


def _offsets_into(page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
    fill_linear(_stream(page), page.bit_width, page.base, page.step, start, stop, out)


def _offsets(page: Page, start: int, stop: int) -> npt.NDArray[np.int32]:
    if not page.length:
        return np.zeros(1, np.int32)
    if page.bit_width == 32 and not page.base and not page.step:
        return page.slot(1, np.int32, page.length + 1)[start : stop + 1]
    offsets = np.empty(stop - start + 1, np.int32)
    _offsets_into(page, start, stop + 1, offsets)
    return offsets


def _spans(page: Page, rows: Integers) -> tuple[Integers, Integers]:
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stream = _stream(page) if page.bit_width else page.payload[:0]
    both = np.concatenate((rows, rows + 1))
    found = linear_at(stream, page.bit_width, page.base, page.step, both).view(np.int64)
    return found[: len(rows)], found[len(rows) :]

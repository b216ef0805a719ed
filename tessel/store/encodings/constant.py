"""One value for all rows: in the record, or once in slot 1 where it is text or opaque bytes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.arithmetic import signed_word, unsigned_view
from tessel.store.encodings.base import EncodedPage, IntegerEncoding, PageSummary, Profile
from tessel.store.encodings.codes import BYTE_KINDS, VARIABLE_KINDS, EncodingCode, ValueKind
from tessel.store.encodings.flat import Flat
from tessel.store.encodings.values import Integers, Page, PhysicalValues, integer_view, native_dtype
from tessel.store.encodings.variable import check_text, repeated

_WORD = 1 << 64


class Constant(IntegerEncoding):
    """The same bits in every row; a page encoding, and an inner one."""

    code: ClassVar[EncodingCode] = EncodingCode.CONSTANT
    name: ClassVar[str] = "constant"
    kinds: ClassVar[frozenset[ValueKind]] = Flat.kinds | VARIABLE_KINDS

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of one value outside the record; None where values differ."""
        if summary.runs != 1 or (not len(values.data) and values.offsets is None):
            return None
        return summary.total_bytes // values.length if values.kind in BYTE_KINDS else 0

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return 0 where all integers are the same."""
        return 0 if summary.runs == 1 else None

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the value, or None where there is more than one."""
        if values.offsets is not None:
            return self._encode_text(values, values.offsets)
        if len(values.data) != values.length or not _all_alike(values.data):
            return None
        if values.kind == ValueKind.FIXED:
            value = np.ascontiguousarray(values.data[0])
            return EncodedPage(self.code, count=values.width, buffers=(value,))
        if values.kind == ValueKind.DECIMAL:
            low, high = (int(word) for word in values.data[0])
            return EncodedPage(self.code, base=low, step=high)
        return self.encode_integers(values.data, profile)

    def _encode_text(
        self, values: PhysicalValues, offsets: npt.NDArray[np.int32]
    ) -> EncodedPage | None:
        lengths = offsets[1:] - offsets[:-1]
        count = int(lengths[0])
        if np.any(lengths != count):
            return None
        held = values.data[offsets[0] : offsets[-1]].reshape(values.length, count)
        if count and not _all_alike(held):
            return None
        return EncodedPage(self.code, count=count, buffers=(np.ascontiguousarray(held[0]),))

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage | None:
        """Return the one integer, or None."""
        if not _all_alike(integers):
            return None
        return EncodedPage(self.code, base=int(integer_view(integers[:1])[0]))

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the value in slot 1."""
        sizes = np.zeros((len(records), 4), np.int64)
        if kind in BYTE_KINDS:
            sizes[:, 0] = records["count"]
            # Offsets into what is decoded have 32 bits.
            wrong = np.maximum(lengths, 1) * sizes[:, 0] >= 1 << 31
            if kind == ValueKind.FIXED:
                wrong = records["count"] != width
            sizes[wrong, 0] = -1
        return sizes

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return zeros: as an inner encoding it is a linear form without step and residuals."""
        sizes = np.zeros((len(records), 2), np.int64)
        sizes[(records["step"] != 0) | (records["bit_width"] != 0), 0] = -1
        return sizes

    def check(self, page: Page) -> None:
        """Refuse a value that its type does not hold, and text that is not UTF-8."""
        if page.kind == ValueKind.TEXT:
            offsets = np.array([0, page.count], np.int32)
            check_text(page, offsets, page.slot(1, np.uint8, page.count))
        elif page.kind == ValueKind.BOOLEAN and page.base > 1:
            raise page.damaged(f"it holds {page.base}, which is no boolean")

    def check_integers(self, page: Page, lowest: int, highest: int) -> None:
        """Refuse an integer outside ``[lowest, highest]``."""
        held = signed_word(page.base)
        if page.length and not lowest <= held <= highest:
            raise page.damaged(f"it holds {held}, which is not in [{lowest}, {highest}]")

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Repeat the value."""
        return _repeat(page, stop - start)

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write the value to every place."""
        if page.kind in (ValueKind.DECIMAL, ValueKind.FIXED):
            out[...] = _repeat(page, 1).data
        else:
            self.integers_into(page, start, stop, out)

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write the bits modulo the width of ``out``."""
        unsigned_view(out)[...] = page.base % (1 << 8 * out.dtype.itemsize)

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Repeat the value."""
        return _repeat(page, len(rows))

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Repeat the bits."""
        return np.full(len(rows), page.base, np.uint64)


def _all_alike(data: npt.NDArray[Any]) -> bool:
    bits = unsigned_view(data) if data.dtype.kind == "f" else data
    return bool((bits[1:] == bits[:1]).all())


def _repeat(page: Page, times: int) -> PhysicalValues:
    kind, width = page.kind, page.width
    dtype = native_dtype(kind, width)
    if kind in (ValueKind.TEXT, ValueKind.BINARY):
        offsets, data = repeated(page.slot(1, np.uint8, page.count), times)
        return PhysicalValues(kind, width, times, data, offsets)
    if kind == ValueKind.FIXED:
        value = page.slot(1, np.uint8, width)
        return PhysicalValues(kind, width, times, np.tile(value, (times, 1)))
    if kind == ValueKind.DECIMAL:
        words = np.array([[page.base % _WORD, page.step % _WORD]], np.uint64).view(dtype)
        return PhysicalValues(kind, width, times, np.repeat(words, times, axis=0))
    data = np.full(times, page.base % (1 << 8 * width), f"<u{width}").view(dtype)
    return PhysicalValues(kind, width, times, data)

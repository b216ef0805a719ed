"""Values of fixed width as Arrow lays them out: read in place, without a copy.

Pages without values, and those in which every row is null, have no bytes at all.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import EncodedPage, PageEncoding, PageSummary, Profile
from tessel.store.encodings.codes import VARIABLE_KINDS, EncodingCode, ValueKind
from tessel.store.encodings.values import (
    Integers,
    Page,
    PhysicalValues,
    bits_at,
    bits_of,
    native_dtype,
)


class Flat(PageEncoding):
    """One Arrow buffer in slot 1; booleans are a bitmap."""

    code: ClassVar[EncodingCode] = EncodingCode.FLAT
    name: ClassVar[str] = "flat"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset(
        {
            ValueKind.BOOLEAN,
            ValueKind.SIGNED,
            ValueKind.UNSIGNED,
            ValueKind.FLOAT,
            ValueKind.DECIMAL,
            ValueKind.FIXED,
        }
    )

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return length times width, or a bit a boolean; None where there are only codes."""
        if len(values.data) != values.length:
            return None
        return int(_size(values.kind, values.width, values.length))

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the values themselves as the buffer."""
        if len(values.data) != values.length:
            return None
        if values.kind == ValueKind.BOOLEAN:
            return EncodedPage(self.code, buffers=(np.packbits(values.data, bitorder="little"),))
        return EncodedPage(self.code, buffers=(np.ascontiguousarray(values.data),))

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the buffer in slot 1."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, 0] = _size(kind, width, lengths) if kind in self.kinds else -1
        return sizes

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return a view; booleans are unpacked to a byte each."""
        return PhysicalValues(page.kind, page.width, stop - start, _values(page, start, stop))

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``."""
        if page.kind == ValueKind.BOOLEAN:
            data = bits_at(page.slot(1, np.uint8, (page.length + 7) // 8), rows)
        else:
            data = _values(page, 0, page.length)[rows]
        return PhysicalValues(page.kind, page.width, len(rows), data)


def _size(kind: ValueKind, width: int, lengths: Any) -> Any:
    return (lengths + 7) // 8 if kind == ValueKind.BOOLEAN else lengths * width


def _values(page: Page, start: int, stop: int) -> npt.NDArray[Any]:
    if page.kind == ValueKind.BOOLEAN:
        return bits_of(page.slot(1, np.uint8, (page.length + 7) // 8), start, stop)
    dtype = native_dtype(page.kind, page.width)
    if page.kind not in (ValueKind.DECIMAL, ValueKind.FIXED):
        return page.slot(1, dtype, page.length)[start:stop]
    columns = page.width // dtype.itemsize
    rows: npt.NDArray[Any] = page.slot(1, dtype, page.length * columns)
    return rows.reshape(page.length, columns)[start:stop]


class AllMissing(PageEncoding):
    """Null in every row. Decoding gives zeros and empty texts, which mean nothing."""

    code: ClassVar[EncodingCode] = EncodingCode.ALL_MISSING
    name: ClassVar[str] = "all-missing"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset(ValueKind) - {ValueKind.NONE}

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return None: whether rows are null cannot be seen from the values."""
        return None

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return a page without buffers; the caller knows that every row is null."""
        return EncodedPage(self.code) if values.kind in self.kinds else None

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return zeros; -1 where a row is not null."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[records["null_count"] != records["row_count"], 0] = -1
        return sizes

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return zeros, or empty texts."""
        kind, width, length = page.kind, page.width, stop - start
        if kind in VARIABLE_KINDS:
            offsets = np.zeros(length + 1, np.int32)
            return PhysicalValues(kind, width, length, np.empty(0, np.uint8), offsets)
        shapes: dict[ValueKind, Any] = {
            ValueKind.DECIMAL: (length, 2),
            ValueKind.FIXED: (length, width),
            ValueKind.NONE: 0,
        }
        data = np.zeros(shapes.get(kind, length), native_dtype(kind, width))
        return PhysicalValues(kind, width, length, data)

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return zeros, or empty texts."""
        return self.decode(page, 0, len(rows))


class Nothing(AllMissing):
    """No values at all, of kind NONE: structs, lists of fixed size and nulls have validity only."""

    code: ClassVar[EncodingCode] = EncodingCode.NOTHING
    name: ClassVar[str] = "nothing"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset({ValueKind.NONE})

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return zeros; any other kind has values."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, 0] = 0 if kind == ValueKind.NONE else -1
        return sizes

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Leave ``out`` as it is."""

"""Pages without values, and pages in which every row is null: no bytes at all."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import EncodedPage, PageEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.values import Integers, Page, PhysicalValues, native_dtype

_VARIABLE = frozenset({ValueKind.TEXT, ValueKind.BINARY})


class Nothing(PageEncoding):
    """No values at all, of kind NONE: structs, lists of fixed size and nulls have validity only."""

    code: ClassVar[EncodingCode] = EncodingCode.NOTHING
    name: ClassVar[str] = "nothing"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset({ValueKind.NONE})

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return 0."""
        return 0

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return a page without buffers."""
        return EncodedPage(self.code) if values.kind == ValueKind.NONE else None

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return zeros; any other kind has values."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, 0] = 0 if kind == ValueKind.NONE else -1
        return sizes

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return no values, of that length."""
        return PhysicalValues(page.kind, page.width, stop - start, np.empty(0, np.uint8))

    def decode_into(
        self, page: Page, start: int, stop: int, out: npt.NDArray[Any], at: int
    ) -> None:
        """Leave ``out`` as it is."""

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return no values, of that length."""
        return self.decode(page, 0, len(rows))


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
        return EncodedPage(self.code)

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return zeros; -1 where a row is not null."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[records["null_count"] != records["row_count"], 0] = -1
        return sizes

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return zeros, or empty texts."""
        return _zeros(page.kind, page.width, stop - start)

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return zeros, or empty texts."""
        return _zeros(page.kind, page.width, len(rows))


def _zeros(kind: ValueKind, width: int, length: int) -> PhysicalValues:
    if kind in _VARIABLE:
        offsets = np.zeros(length + 1, np.int32)
        return PhysicalValues(kind, width, length, np.empty(0, np.uint8), offsets)
    shape = {ValueKind.DECIMAL: (length, 2), ValueKind.FIXED: (length, width)}.get(kind, length)
    return PhysicalValues(kind, width, length, np.zeros(shape, native_dtype(kind, width)))

"""Pages in which every row is null, and pages without rows: no bytes at all."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import (
    Bytes,
    EncodedPage,
    Integers,
    Page,
    PageSummary,
    PhysicalValues,
    Profile,
    native_dtype,
)
from tessel.store.encodings.codes import EncodingCode, ValueKind

__all__ = ["AllMissing"]

_VARIABLE = frozenset({ValueKind.TEXT, ValueKind.BINARY})


class AllMissing:
    """Null in every row. Decoding gives zeros and empty texts, which mean nothing."""

    code: ClassVar[EncodingCode] = EncodingCode.ALL_MISSING
    name: ClassVar[str] = "all-missing"

    def accepts(self, kind: ValueKind, width: int) -> bool:
        """Return whether there are values that could be missing."""
        return kind != ValueKind.NONE

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

    def check(self, page: Page) -> None:
        """There is nothing that could be wrong."""

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return zeros, or empty texts."""
        return _zeros(page.kind, page.width, stop - start)

    def decode_into(
        self, page: Page, start: int, stop: int, out: npt.NDArray[Any], at: int
    ) -> None:
        """Write zeros."""
        out[at : at + stop - start] = 0

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return zeros, or empty texts."""
        return _zeros(page.kind, page.width, len(rows))

    def gather(
        self,
        segment: Bytes,
        records: npt.NDArray[np.void],
        rows: Integers,
        kind: ValueKind,
        width: int,
        dictionary: PhysicalValues | None,
    ) -> PhysicalValues | None:
        """Return zeros, or empty texts."""
        return _zeros(kind, width, len(rows))


def _zeros(kind: ValueKind, width: int, length: int) -> PhysicalValues:
    if kind in _VARIABLE:
        offsets = np.zeros(length + 1, np.int32)
        return PhysicalValues(kind, width, length, np.empty(0, np.uint8), offsets)
    shape = {ValueKind.DECIMAL: (length, 2), ValueKind.FIXED: (length, width)}.get(kind, length)
    return PhysicalValues(kind, width, length, np.zeros(shape, native_dtype(kind, width)))

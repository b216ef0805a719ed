"""Pages without values: of structs, lists of fixed size and nulls, which have validity at most."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import (
    EncodedPage,
    Integers,
    Page,
    PageSummary,
    PhysicalValues,
    Profile,
)
from tessel.store.encodings.codes import EncodingCode, ValueKind

__all__ = ["Nothing"]


class Nothing:
    """No values at all, of kind NONE."""

    code: ClassVar[EncodingCode] = EncodingCode.NOTHING
    name: ClassVar[str] = "nothing"

    def accepts(self, kind: ValueKind, width: int) -> bool:
        """Return whether there are no values to hold."""
        return kind == ValueKind.NONE

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

    def check(self, page: Page) -> None:
        """There is nothing that could be wrong."""

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

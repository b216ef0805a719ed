"""Integers as ``base + step * i + residual[i]``: sequences, frames of reference, near-regular time.

One layout holds all three: an arithmetic sequence has no residuals and takes no bytes, a frame of
reference has no step. Residuals are packed to the bit or kept in whole bytes, as the profile says.
A value is found without the rest of its page.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.arithmetic import (
    fill_linear,
    fit_linear,
    linear_at,
    linear_size,
    proven_bounds,
    signed_word,
    stored_width,
)
from tessel.store.encodings.base import (
    EncodedPage,
    IntegerEncoding,
    PageSummary,
    Profile,
)
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.packed import packed_size, packed_sizes, unpack
from tessel.store.encodings.values import Bytes, Integers, Page, PhysicalValues, native_dtype


class Linear(IntegerEncoding):
    """Linear integers; a page encoding, and an inner one."""

    code: ClassVar[EncodingCode] = EncodingCode.LINEAR
    name: ClassVar[str] = "linear"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset(
        {ValueKind.BOOLEAN, ValueKind.SIGNED, ValueKind.UNSIGNED}
    )

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int:
        """Return the bytes of the packed residuals."""
        return linear_size(len(integers), fit_linear(integers, profile).bits, profile)

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Fit the narrowest of two linear forms, and pack what is left."""
        fit = fit_linear(integers, profile)
        width = stored_width(len(integers), fit.bits, profile)
        return EncodedPage(
            self.code, bit_width=width, base=fit.base, step=fit.step, buffers=fit.packed(width)
        )

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return the bytes of the residuals in slot 1."""
        sizes = np.zeros((len(records), 2), np.int64)
        sizes[:, 0] = packed_sizes(lengths, records["bit_width"])
        return sizes

    def _check_values(self, page: Page, lowest: int, highest: int) -> None:
        # Every integer is looked at only where it must be.
        stream = _residuals(page)
        least, most = proven_bounds(page.base, page.step, page.bit_width, page.length)
        if lowest <= least and most <= highest:
            return
        if not page.step and page.bit_width and page.length:
            residuals = unpack(stream, page.bit_width, 0, page.length)
            base = signed_word(page.base)
            least, most = base + int(residuals.min()), base + int(residuals.max())
            if lowest <= least and most <= highest:
                return
        super()._check_values(page, lowest, highest)

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return values as a view where the residuals are the values, else computed."""
        dtype = native_dtype(page.kind, page.width)
        if page.bit_width == dtype.itemsize * 8 and not page.base and not page.step:
            data = page.slot(1, dtype, page.length)[start:stop]
            return PhysicalValues(page.kind, page.width, stop - start, data)
        return super().decode(page, start, stop)

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write integers modulo the width of ``out``."""
        fill_linear(_residuals(page), page.bit_width, page.base, page.step, start, stop, out)

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows`` modulo 2**64."""
        return linear_at(_residuals(page), page.bit_width, page.base, page.step, rows)


def _residuals(page: Page) -> Bytes:
    return page.slot(1, np.uint8, packed_size(page.length, page.bit_width))

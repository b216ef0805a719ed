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
from tessel.store.encodings.gathering import linear_in_segment
from tessel.store.encodings.packed import packed_size, packed_sizes, unpack
from tessel.store.encodings.values import check_bounds, kind_bounds

__all__ = ["Linear"]

_KINDS = frozenset({ValueKind.BOOLEAN, ValueKind.SIGNED, ValueKind.UNSIGNED})


class Linear:
    """Linear integers; a page encoding, and an inner one."""

    code: ClassVar[EncodingCode] = EncodingCode.LINEAR
    name: ClassVar[str] = "linear"

    def accepts(self, kind: ValueKind, width: int) -> bool:
        """Return whether the values are integers or booleans."""
        return kind in _KINDS

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of the packed residuals."""
        return self.integer_estimate(values.data, summary, profile)

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int:
        """Return the bytes that integers would take."""
        return linear_size(len(integers), fit_linear(integers, profile).bits, profile)

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Fit the narrowest of two linear forms, and pack what is left."""
        return self.encode_integers(values.data, profile)

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Return integers of any dtype in linear form."""
        fit = fit_linear(integers, profile)
        width = stored_width(len(integers), fit.bits, profile)
        return EncodedPage(
            self.code, bit_width=width, base=fit.base, step=fit.step, buffers=fit.packed(width)
        )

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the residuals in slot 1."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, 0] = packed_sizes(lengths, records["bit_width"])
        return sizes

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return what slots 1 and 2 need, as an inner encoding."""
        sizes = np.zeros((len(records), 2), np.int64)
        sizes[:, 0] = packed_sizes(lengths, records["bit_width"])
        return sizes

    def check(self, page: Page) -> None:
        """Refuse values that their type does not hold."""
        bounds = kind_bounds(page.kind, page.width)
        if bounds is not None:
            self.check_integers(page, *bounds)

    def check_integers(self, page: Page, lowest: int, highest: int) -> None:
        """Refuse integers outside ``[lowest, highest]``; looks at them only where it must."""
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
        found = np.empty(page.length, np.int64)
        self.integers_into(page, 0, page.length, found)
        check_bounds(page, found, lowest, highest)

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return values as a view where the residuals are the values, else computed."""
        dtype = native_dtype(page.kind, page.width)
        if page.bit_width == dtype.itemsize * 8 and not page.base and not page.step:
            data = page.slot(1, dtype, page.length)[start:stop]
        else:
            data = np.empty(stop - start, dtype)
            self.integers_into(page, start, stop, data)
        return PhysicalValues(page.kind, page.width, stop - start, data)

    def decode_into(
        self, page: Page, start: int, stop: int, out: npt.NDArray[Any], at: int
    ) -> None:
        """Compute values in place."""
        self.integers_into(page, start, stop, out[at : at + stop - start])

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write integers modulo the width of ``out``."""
        fill_linear(_residuals(page), page.bit_width, page.base, page.step, start, stop, out)

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``."""
        found = self.integers_at(page, rows).astype(f"<u{page.width}", copy=False)
        dtype = native_dtype(page.kind, page.width)
        return PhysicalValues(page.kind, page.width, len(rows), found.view(dtype))

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows`` modulo 2**64."""
        return linear_at(_residuals(page), page.bit_width, page.base, page.step, rows)

    def gather(
        self,
        segment: Bytes,
        records: npt.NDArray[np.void],
        rows: Integers,
        kind: ValueKind,
        width: int,
        dictionary: PhysicalValues | None,
    ) -> PhysicalValues | None:
        """Find values of many pages, whatever their widths, with one load from the segment."""
        found = linear_in_segment(segment, records, rows)
        if found is None:
            return None
        data = found.astype(f"<u{width}", copy=False).view(native_dtype(kind, width))
        return PhysicalValues(kind, width, len(rows), data)


def _residuals(page: Page) -> Bytes:
    return page.slot(1, np.uint8, packed_size(page.length, page.bit_width))

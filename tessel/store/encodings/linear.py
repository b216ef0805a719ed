"""Integers as ``base + step * i + residual[i]``: sequences, frames of reference, near-regular time.

One layout holds all three: an arithmetic sequence has no residuals and takes no bytes, a frame of
reference has no step. Residuals are packed to the bit or kept in whole bytes, as the profile says.
A value is found without the rest of its page.

Values that wander far in small steps are running sums of narrow differences: each is known only
after all before it, so the page is opaque.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.arithmetic import (
    CHUNK,
    fill_linear,
    fit_linear,
    linear_at,
    linear_size,
    proven_bounds,
    signed_word,
    stored_width,
    unsigned_view,
)
from tessel.store.encodings.base import (
    EncodedPage,
    IntegerEncoding,
    PageSummary,
    Profile,
)
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.packed import pack, packed_size, packed_sizes, unpack
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    Page,
    PhysicalValues,
    integer_view,
    native_dtype,
)


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


_WORD: Final = 1 << 64
_SAMPLE = 64


class Delta(IntegerEncoding):
    """``base + step * i`` + the running sum of residuals; a page encoding, and an inner one."""

    code: ClassVar[EncodingCode] = EncodingCode.DELTA
    name: ClassVar[str] = "delta"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED})

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int:
        """Return the bytes of the packed differences."""
        return linear_size(len(integers), _differences(integers)[2].bit_length(), profile)

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Pack the differences, less the least of them."""
        differences, least, spread = _differences(integers)
        width = stored_width(len(integers), spread.bit_length(), profile)
        residuals = np.zeros(len(integers), np.uint64)
        residuals[1:] = differences.view(np.uint64)
        residuals[1:] -= np.uint64(least % _WORD)
        buffers = (pack(residuals, width),) if width else ()
        base = int(integer_view(integers[:1])[0])
        return EncodedPage(self.code, bit_width=width, base=base, step=least, buffers=buffers)

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return the bytes of the residuals in slot 1."""
        sizes = np.zeros((len(records), 2), np.int64)
        sizes[:, 0] = packed_sizes(lengths, records["bit_width"])
        return sizes

    def _check_form(self, page: Page) -> None:
        if page.bit_width and page.length and unpack(_residuals(page), page.bit_width, 0, 1)[0]:
            raise page.damaged("the first of its differences is not 0")

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Add up; work grows with ``stop``."""
        stream, width = _residuals(page), page.bit_width
        bits = unsigned_view(out)
        total = page.base
        if width and start < stop:
            before = unpack(stream, width, 0, start)
            total += int(before.sum(dtype=np.uint64))
        step = np.uint64(page.step % _WORD)
        for at in range(start, stop, CHUNK):
            end = min(at + CHUNK, stop)
            sums = np.full(end - at, step, np.uint64)
            sums[0] = (total + page.step * at) % _WORD
            if width:
                sums += unpack(stream, width, at, end)
            np.cumsum(sums, out=sums)
            bits[at - start : end - start] = sums
            total = int(sums[-1]) - page.step * (end - 1)

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows``, adding up to the last of them."""
        sums = np.empty(int(rows.max(initial=-1)) + 1, np.uint64)
        self.integers_into(page, 0, len(sums), sums)
        found: npt.NDArray[np.uint64] = sums[rows]
        return found


def least_delta_bytes(integers: npt.NDArray[Any], profile: Profile) -> int:
    """Return what the differences of integers do not take less than, from some of them."""
    count = len(integers)
    if count < 2 * _SAMPLE:
        return 0
    places = np.arange(_SAMPLE) * ((count - 1) // _SAMPLE)
    wrapped = integer_view(integers[places + 1]) - integer_view(integers[places])
    sampled = wrapped.view(np.int64)
    return linear_size(count, (int(sampled.max()) - int(sampled.min())).bit_length(), profile)


def _differences(integers: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return the differences modulo 2**64 as signed integers, the least, and their spread."""
    wrapped = integer_view(integers)
    differences = (wrapped[1:] - wrapped[:-1]).view(np.int64)
    if not len(differences):
        return differences, 0, 0
    least = int(differences.min())
    return differences, least, int(differences.max()) - least

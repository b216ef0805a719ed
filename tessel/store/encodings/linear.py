"""Integers as ``base + step * i + residual[i]``: sequences, frames of reference, near-regular time.

One layout holds all three: an arithmetic sequence has no residuals and takes no bytes, a frame of
reference has no step. Residuals are packed to the bit or kept in whole bytes, as the profile says.
A value is found without the rest of its page.

Values that wander far in small steps are running sums of narrow differences: each is known only
after all before it, so the page is opaque.

Of runs of equal values it is kept where each ends, and its value in linear form.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.arithmetic import (
    fill_linear,
    fit_linear,
    linear_at,
    linear_size,
    proven_bounds,
    stored_width,
    unsigned_view,
)
from tessel.store.encodings.base import EncodedPage, IntegerEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.packed import (
    END_WIDTHS,
    narrowest_width,
    pack,
    packed_size,
    packed_sizes,
)
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    Page,
    PhysicalValues,
    check_bounds,
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
        least, most = proven_bounds(page.base, page.step, page.bit_width, page.length)
        if least < lowest or most > highest:  # every integer is looked at only where it must be
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

    integer_bytes = Linear.integer_bytes

    def _check_form(self, page: Page) -> None:
        first = np.zeros(min(page.length, 1), np.int64)
        if linear_at(_residuals(page), page.bit_width, 0, 0, first).any():
            raise page.damaged("the first of its differences is not 0")

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Add up; work grows with ``stop``."""
        sums = np.empty(stop, np.uint64)
        fill_linear(_residuals(page), page.bit_width, page.step, 0, 0, stop, sums)
        sums[:1] = page.base
        np.cumsum(sums, out=sums)
        unsigned_view(out)[...] = sums[start:]

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


class RunEnd(IntegerEncoding):
    """Last places of runs in slot 1, linear values in slot 2; a page encoding, and an inner one.

    Floats are held by their bits.
    """

    code: ClassVar[EncodingCode] = EncodingCode.RUN_END
    name: ClassVar[str] = "run-end"
    kinds: ClassVar[frozenset[ValueKind]] = Linear.kinds | {ValueKind.FLOAT}

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int:
        """Return the bytes of ends and values, these without a step."""
        lowest, highest = summary.minimum, summary.maximum
        bits = 8 * integers.dtype.itemsize
        if lowest is not None and highest is not None:
            bits = (highest - lowest).bit_length()
        ends = summary.runs * narrowest_width(len(integers) - 1) // 8
        return ends + linear_size(summary.runs, bits, profile)

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Find the runs of integers, booleans or float bits; one a value at worst."""
        bits = unsigned_view(integers) if integers.dtype.kind == "f" else integers
        lasts = np.append(np.flatnonzero(bits[1:] != bits[:-1]), len(bits) - 1)
        fit = fit_linear(bits[lasts], profile)
        width = stored_width(len(lasts), fit.bits, profile)
        end_width = narrowest_width(len(bits) - 1)
        return EncodedPage(
            self.code,
            bit_width=width,
            base=fit.base,
            step=fit.step,
            inner_width=end_width,
            count=len(lasts),
            buffers=(lasts.astype(f"<u{end_width // 8}"), *fit.packed(width)),
        )

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return the bytes of ends in slot 1 and of values in slot 2."""
        counts = records["count"].astype(np.int64)
        end_width = records["inner_width"]
        sizes = np.empty((len(records), 2), np.int64)
        sizes[:, 0] = counts * (end_width >> 3)
        sizes[:, 1] = packed_sizes(counts, records["bit_width"])
        wrong = ~END_WIDTHS[end_width] | (counts > lengths) | ((counts == 0) & (lengths > 0))
        sizes[wrong | (sizes[:, 1] < 0), 0] = -1
        return sizes

    def _check_form(self, page: Page) -> None:
        lasts = _lasts(page)
        if len(lasts) and (
            int(lasts[-1]) != page.length - 1 or bool((lasts[1:] <= lasts[:-1]).any())
        ):
            raise page.damaged(f"its runs do not ascend to row {page.length - 1}")

    def _check_values(self, page: Page, lowest: int, highest: int) -> None:
        least, most = proven_bounds(page.base, page.step, page.bit_width, page.count)
        if least < lowest or most > highest:
            found = np.empty(page.count, np.int64)
            _values_into(page, 0, page.count, found)
            check_bounds(page, found, lowest, highest)

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Repeat the values of the runs."""
        first, ends = _ends(page, start, stop)
        values = np.empty(len(ends), f"<u{out.dtype.itemsize}")
        _values_into(page, first, first + len(ends), values)
        unsigned_view(out)[...] = np.repeat(values, np.diff(ends, prepend=0))

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows``, each found by bisection."""
        lasts = _lasts(page)
        runs = np.searchsorted(lasts, rows.astype(lasts.dtype))
        return linear_at(_stream(page), page.bit_width, page.base, page.step, runs)


def _lasts(page: Page) -> npt.NDArray[Any]:
    return page.slot(1, f"<u{page.inner_width // 8}", page.count)


def _stream(page: Page) -> Bytes:
    return page.slot(2, np.uint8, packed_size(page.count, page.bit_width))


def _ends(page: Page, start: int, stop: int) -> tuple[int, Integers]:
    """Return the first run with rows in the range, and where it and the next ones end in it."""
    if stop <= start:
        return 0, np.empty(0, np.int64)
    lasts = _lasts(page)
    first, last = np.searchsorted(lasts, np.array([start, stop - 1], lasts.dtype))
    ends = lasts[first : last + 1].astype(np.int64)
    ends += 1 - start
    ends[-1] = stop - start
    return int(first), ends


def _values_into(page: Page, first: int, stop: int, out: npt.NDArray[Any]) -> None:
    fill_linear(_stream(page), page.bit_width, page.base, page.step, first, stop, out)

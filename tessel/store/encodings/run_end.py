"""Runs of equal values: where each ends, and its value. Predicates look at the values of runs."""

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
    stored_width,
    unsigned_view,
)
from tessel.store.encodings.base import EncodedPage, IntegerEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.packed import (
    END_WIDTHS,
    narrowest_width,
    packed_size,
    packed_sizes,
)
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    Page,
    PhysicalValues,
    check_bounds,
    native_dtype,
)


class RunEnd(IntegerEncoding):
    """Last places of runs in slot 1, linear values in slot 2; a page encoding, and an inner one.

    Floats are held by their bits.
    """

    code: ClassVar[EncodingCode] = EncodingCode.RUN_END
    name: ClassVar[str] = "run-end"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset(
        {ValueKind.BOOLEAN, ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT}
    )

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

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Repeat the values of the runs."""
        first, ends = _ends(page, start, stop)
        values = np.empty(len(ends), native_dtype(page.kind, page.width))
        _values_into(page, first, first + len(ends), values)
        data = np.repeat(values, np.diff(ends, prepend=0))
        return PhysicalValues(page.kind, page.width, stop - start, data)

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

"""Integers as running sums of narrow differences: for values that wander far in small steps.

A value is known only after all before it, so the page is opaque: whole pages, no single values.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.arithmetic import CHUNK, linear_size, stored_width, unsigned_view
from tessel.store.encodings.base import (
    Bytes,
    EncodedPage,
    Integers,
    Page,
    PageSummary,
    PhysicalValues,
    Profile,
    integer_view,
    native_dtype,
)
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.packed import pack, packed_size, packed_sizes, unpack
from tessel.store.encodings.values import check_bounds, kind_bounds

__all__ = ["Delta", "least_delta_bytes"]

_KINDS = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED})
_WORD: Final = 1 << 64
_SAMPLE = 64


class Delta:
    """``base + step * i`` + the running sum of residuals; a page encoding, and an inner one."""

    code: ClassVar[EncodingCode] = EncodingCode.DELTA
    name: ClassVar[str] = "delta"

    def accepts(self, kind: ValueKind, width: int) -> bool:
        """Return whether the values are integers."""
        return kind in _KINDS

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of the packed differences."""
        return self.integer_estimate(values.data, summary, profile)

    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int:
        """Return the bytes that integers would take."""
        return linear_size(len(integers), _differences(integers)[2].bit_length(), profile)

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Pack the differences, less the least of them."""
        return self.encode_integers(values.data, profile)

    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Return integers of any dtype as differences."""
        differences, least, spread = _differences(integers)
        width = stored_width(len(integers), spread.bit_length(), profile)
        residuals = np.zeros(len(integers), np.uint64)
        residuals[1:] = differences.view(np.uint64)
        residuals[1:] -= np.uint64(least % _WORD)
        buffers = (pack(residuals, width),) if width else ()
        base = int(integer_view(integers[:1])[0])
        return EncodedPage(self.code, bit_width=width, base=base, step=least, buffers=buffers)

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the residuals in slot 1."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, 0] = packed_sizes(lengths, records["bit_width"])
        return sizes

    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return what slots 1 and 2 need, as an inner encoding."""
        return self.slot_bytes(records, ValueKind.SIGNED, 8, lengths)[:, :2]

    def check(self, page: Page) -> None:
        """Refuse values that their type does not hold, and a first value that is not the base."""
        _check_first(page)
        bounds = kind_bounds(page.kind, page.width)
        if bounds is not None:
            self.check_integers(page, *bounds)

    def check_integers(self, page: Page, lowest: int, highest: int) -> None:
        """Refuse integers outside ``[lowest, highest]``, and a first one that is not the base."""
        _check_first(page)
        found = np.empty(page.length, np.int64)
        self.integers_into(page, 0, page.length, found)
        check_bounds(page, found, lowest, highest)

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Add up; work grows with ``stop``."""
        data = np.empty(stop - start, native_dtype(page.kind, page.width))
        self.integers_into(page, start, stop, data)
        return PhysicalValues(page.kind, page.width, stop - start, data)

    def decode_into(
        self, page: Page, start: int, stop: int, out: npt.NDArray[Any], at: int
    ) -> None:
        """Add up in place."""
        self.integers_into(page, start, stop, out[at : at + stop - start])

    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write integers modulo the width of ``out``."""
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

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``, adding up to the last of them."""
        found = self.integers_at(page, rows).astype(f"<u{page.width}", copy=False)
        dtype = native_dtype(page.kind, page.width)
        return PhysicalValues(page.kind, page.width, len(rows), found.view(dtype))

    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows`` modulo 2**64."""
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


def _check_first(page: Page) -> None:
    if page.bit_width and page.length and unpack(_residuals(page), page.bit_width, 0, 1)[0]:
        raise page.damaged("the first of its differences is not 0")


def _residuals(page: Page) -> Bytes:
    return page.slot(1, np.uint8, packed_size(page.length, page.bit_width))

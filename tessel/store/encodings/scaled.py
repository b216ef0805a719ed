"""Floats that were decimals, such as 101.25: integers, a power of ten, and the few exceptions.

The value is the integer *divided* by the power. Multiplying by 0.01 would round twice (0.01 is no
double) and gets one value in seven wrong in its last bit. Every value is decoded and compared as
bits when it is encoded; those that differ (NaN, infinities, -0.0, true fractions) are exceptions.
The idea, without its bit layouts, is that of ALP: Afroozeh, Kuffó, Boncz, "ALP: Adaptive Lossless
floating-Point Compression", SIGMOD 2023.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tessel.kernels.decode_rows import decode_numbers
from tessel.store.encodings.arithmetic import linear_blocks, unsigned_view
from tessel.store.encodings.base import EncodedPage, PageEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.inner import IS_ADDRESSABLE, encode_inner, inner_bytes, inner_of
from tessel.store.encodings.packed import END_WIDTHS, narrowest_width, packed_size
from tessel.store.encodings.values import (
    Integers,
    Page,
    PhysicalValues,
    native_dtype,
    nearest_before,
)

POWERS: Final = np.array([float(10**exponent) for exponent in range(23)])
"""Powers of ten that are doubles, exactly."""

_LARGEST: Final = 1 << 53
"""Up to here every integer is a double, exactly."""

_SAMPLE_BLOCKS = 8
_SAMPLE_ROWS = 32


class Scaled(PageEncoding):
    """Integers divided by a power of ten, in an inner encoding, and exceptions in slots 3 and 4."""

    code: ClassVar[EncodingCode] = EncodingCode.SCALED
    name: ClassVar[str] = "scaled"
    kinds: ClassVar[frozenset[ValueKind]] = frozenset({ValueKind.FLOAT})

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return about how many bytes a page takes, from a sample of blocks; None where all."""
        if len(values.data) != values.length:
            return None
        found = _best_exponent(values.data, profile)
        if found is None or found[1] >= values.width:
            return None
        return int(found[1] * values.length)

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the page; None where it would take no less than the values themselves."""
        data = values.data
        if len(data) != values.length:
            return None
        found = _best_exponent(data, profile)
        if found is None:
            return None
        exponent = found[0]
        integers, is_exact = _scale(data, exponent)
        exceptions = np.flatnonzero(~is_exact)
        if len(exceptions) == len(data):
            return None
        if len(exceptions):  # in the place of each stands the integer before it
            integers = integers[nearest_before(is_exact)]
        held = encode_inner(integers, profile)
        position_width = held.inner_width
        buffers = list(held.buffers)
        if len(exceptions):
            position_width = narrowest_width(len(data) - 1)
            buffers += [np.empty(0, np.uint8)] * (2 - len(buffers))
            buffers += [
                exceptions.astype(f"<u{position_width // 8}"),
                unsigned_view(data)[exceptions],
            ]
        encoded = replace(
            held,
            encoding=self.code,
            inner=held.encoding,
            inner_width=position_width,
            exceptions=len(exceptions),
            exponent=exponent,
            buffers=buffers,
        )
        return encoded if encoded.nbytes < data.nbytes else None

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the integers in slots 1 and 2, and of the exceptions in 3 and 4."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, :2] = inner_bytes(records, lengths)
        # Negative ones are large as unsigned ones.
        wrong = records["exponent"].view(np.uint8) >= len(POWERS)
        if np.count_nonzero(records["exceptions"]):
            exceptions = records["exceptions"].astype(np.int64)
            sizes[:, 2] = exceptions * (records["inner_width"] >> 3)
            sizes[:, 3] = exceptions * width
            wrong |= exceptions > lengths
            wrong |= (exceptions > 0) & ~END_WIDTHS[records["inner_width"]]
        if np.count_nonzero(wrong):
            sizes[wrong, 0] = -1
        return sizes

    def check(self, page: Page) -> None:
        """Refuse integers that are no doubles, and positions that do not ascend inside the page."""
        inner_of(page).check_integers(page, -_LARGEST, _LARGEST)
        positions = _positions(page)
        if len(positions) and (
            int(positions[-1]) >= page.length or bool((positions[1:] <= positions[:-1]).any())
        ):
            raise page.damaged("the places of its exceptions do not ascend inside it")

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Divide in place, then put the exceptions in."""
        wide = out if out.dtype == np.float64 and out.flags.c_contiguous else np.empty(stop - start)
        if IS_ADDRESSABLE[page.inner]:
            form = page.bit_width, page.base, page.step, start, stop
            stream = page.slot(1, np.uint8, packed_size(page.length, page.bit_width))
            decode_numbers(linear_blocks(stream, *form, page.exponent), wide)
        else:
            integers = wide.view(np.int64)
            inner_of(page).integers_into(page, start, stop, integers)
            np.divide(integers, POWERS[page.exponent], out=wide)
        if wide is not out:
            out[...] = wide
        places = _positions(page).astype(np.int64)
        held = slice(*np.searchsorted(places, [start, stop]).tolist())
        unsigned_view(out)[places[held] - start] = _values(page)[held]

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``; exceptions are found by bisection."""
        data = np.empty(len(rows), native_dtype(page.kind, page.width))
        integers = inner_of(page).integers_at(page, rows).view(np.int64)
        np.divide(integers, POWERS[page.exponent], out=data)
        positions = _positions(page)
        if len(positions):
            wanted = rows.astype(positions.dtype)
            found = np.minimum(np.searchsorted(positions, wanted), len(positions) - 1)
            hit = positions[found] == wanted
            unsigned_view(data)[hit] = _values(page)[found[hit]]
        return PhysicalValues(page.kind, page.width, len(rows), data)


def _positions(page: Page) -> npt.NDArray[Any]:
    if not page.exceptions:
        return np.empty(0, np.uint8)
    return page.slot(3, f"<u{page.inner_width // 8}", page.exceptions)


def _values(page: Page) -> npt.NDArray[Any]:
    """Return the values of all exceptions, as bits."""
    return page.slot(4, f"<u{page.width}", page.exceptions)


# --- finding the exponent -------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _sample_starts(rows: int) -> tuple[int, ...]:
    """Return where the blocks begin: always the same for the same number of rows."""
    random = np.random.default_rng(rows)
    return tuple(random.integers(0, rows - _SAMPLE_ROWS + 1, _SAMPLE_BLOCKS).tolist())


def _best_exponent(data: npt.NDArray[Any], profile: Profile) -> tuple[int, float] | None:
    """Return the exponent that makes values smallest, and the bytes that each takes then.

    Of a long page that is found by blocks of neighbours from all over it.
    """
    sample = data
    if len(data) > _SAMPLE_BLOCKS * _SAMPLE_ROWS:
        starts = _sample_starts(len(data))
        sample = np.concatenate([data[start : start + _SAMPLE_ROWS] for start in starts])
    return _exponent_of(sample.tobytes(), sample.dtype.str, profile)


@lru_cache(maxsize=64)  # who estimates a page may encode it next, on the same thread or another
def _exponent_of(octets: bytes, dtype: str, profile: Profile) -> tuple[int, float] | None:
    sample: npt.NDArray[Any] = np.frombuffer(octets, dtype)
    width = sample.dtype.itemsize
    best: tuple[int, float] | None = None
    finite = int(np.count_nonzero(np.isfinite(sample)))
    for exponent in range(len(POWERS)):
        integers, is_exact = _scale(sample, exponent)
        exact = int(np.count_nonzero(is_exact))
        if not exact:
            continue
        held = integers[is_exact]
        bits = profile.width((int(held.max()) - int(held.min())).bit_length())
        exceptions = (len(sample) - exact) * (width + 2)
        cost = bits / 8 + exceptions / len(sample)
        if best is None or cost < best[1]:
            best = exponent, cost
        if exact == finite:
            # A larger exponent only makes the integers longer.
            break
    return best


def _scale(
    data: npt.NDArray[Any], exponent: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the nearest integers for an exponent, and where dividing gives the same bits."""
    power = POWERS[exponent]
    with np.errstate(all="ignore"):
        nearest = np.multiply(data, power, dtype=np.float64)
        np.rint(nearest, out=nearest)
        # Not-a-number compares false, so it becomes 0 like everything else that is out of range.
        if not (nearest.min() >= -_LARGEST and nearest.max() <= _LARGEST):
            in_range = np.abs(nearest) <= _LARGEST
            nearest[~in_range] = 0.0
        integers = nearest.astype(np.int64)
        # From the integers: they have no -0.0.
        back = (integers / power).astype(data.dtype, copy=False)
    return integers, unsigned_view(back) == unsigned_view(data)

"""Integers as ``base + step * i + residual[i]`` modulo 2**64: fitting, filling in, finding one.

Linear, delta, run-end and variable pages enter here: they all keep integers in this form. The
kernel that decodes whole columns decodes single pages as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.decode_rows import decode_numbers
from tessel.kernels.intrinsics import words_of
from tessel.lazy import dataclass
from tessel.store.encodings.base import Profile
from tessel.store.encodings.packed import WHOLE_WIDTHS, pack, packed_size
from tessel.store.encodings.values import Bytes, Integers, integer_view

_ONE_PAGE = 40
"""Bits of a row's number within its page: all that is decoded at once is one page."""

_WORD: Final = 1 << 64
_SAMPLE = 17


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A linear form of integers, and what is left of them.

    Attributes
    ----------
    base, step
        Any integers, meant modulo 2**64.
    bits
        Width of the widest residual.
    above
        Integers of any dtype of which the residuals are made; None where all of these are 0.
    offset
        What is taken from each of them: who only asks for the width has not subtracted anything.
    """

    base: int
    step: int
    bits: int
    above: npt.NDArray[Any] | None
    offset: int = 0

    @property
    def residuals(self) -> npt.NDArray[np.uint64] | None:
        """What is left: not negative, as uint64; None where all are 0."""
        if self.above is None:
            return None
        held = integer_view(self.above)
        return held if self.offset == 0 else held - np.uint64(self.offset % _WORD)

    def packed(self, width: int) -> tuple[npt.NDArray[Any], ...]:
        """Return the residuals in ``width`` bits each, or no buffer where there are none."""
        if self.above is None or width == 0:
            return ()
        residuals = self.residuals
        assert residuals is not None  # made of what is there
        return (pack(residuals, width),)


def fit_linear(integers: npt.NDArray[Any], profile: Profile) -> LinearFit:
    """Return the linear form of integers (or bits) with the narrowest residuals.

    Two are compared: no step and the least value as base; and the step that leads from the first to
    the last value, which fits sequences and timestamps that are nearly regular. Where the bounds
    allow it, the base is 0, so that the residuals are the values.

    Parameters
    ----------
    integers
        At least one; any integer dtype, bool, or floats, whose bits are meant.
    """
    if integers.dtype.kind == "f":
        integers = integers.view(f"<u{integers.dtype.itemsize}")
    lowest, highest = int(integers.min()), int(integers.max())
    if lowest == highest:
        return LinearFit(lowest, 0, 0, None)
    level_bits = (highest - lowest).bit_length()
    sloped = _fit_slope(integers, level_bits)
    count = len(integers)
    level_size = linear_size(count, level_bits, profile)
    if sloped is not None and linear_size(count, sloped.bits, profile) < level_size:
        return sloped
    base = lowest
    if lowest > 0 and linear_size(count, highest.bit_length(), profile) == level_size:
        base, level_bits = 0, highest.bit_length()
    return LinearFit(base, 0, level_bits, integers, base)


def _fit_slope(integers: npt.NDArray[Any], level_bits: int) -> LinearFit | None:
    """Return the form with the mean step, or None where a sample shows it to be no better."""
    count = len(integers)
    step = round((int(integers[-1]) - int(integers[0])) / (count - 1))
    if step == 0:
        return None
    sample = _sample_places(count)
    if _residuals(integers[sample], step, sample.view(np.uint64))[1].bit_length() >= level_bits:
        return None
    offsets, spread, least = _residuals(integers, step, np.arange(count, dtype=np.uint64))
    offsets -= np.int64(least)
    base = (int(integers[0]) + least) % _WORD
    return LinearFit(base, step, spread.bit_length(), offsets.view(np.uint64) if spread else None)


@lru_cache(maxsize=64)
def _sample_places(count: int) -> npt.NDArray[np.int64]:
    return np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64)


def _residuals(
    integers: npt.NDArray[Any], step: int, places: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return distances from the line through the first value, their spread, and the least.

    Everything wraps around: if the distances leave 64 bits, they come out wide, but not wrong.
    """
    wrapped = integer_view(integers) - places * np.uint64(step % _WORD)
    distances = (wrapped - wrapped[0]).view(np.int64)
    least = int(distances.min())
    return distances, int(distances.max()) - least, least


def unsigned_view(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of values as unsigned integers of the same width; strides may stay."""
    return values.view(f"<u{values.dtype.itemsize}")


def signed_word(number: int) -> int:
    """Return a number modulo 2**64 as a signed one."""
    return (number + (1 << 63)) % _WORD - (1 << 63)


def fill_linear(
    stream: Bytes, width: int, base: int, step: int, start: int, stop: int, out: npt.NDArray[Any]
) -> None:
    """Write integers ``[start, stop)`` of a linear form to ``out``, modulo the width of ``out``.

    Parameters
    ----------
    stream, width
        The packed residuals from number 0 on, and their width in bits.
    out
        ``stop - start`` long; any dtype of 1, 2, 4 or 8 bytes, possibly strided.
    """
    bits = unsigned_view(out)
    made = bits if bits.flags.c_contiguous else np.empty(len(bits), bits.dtype)
    decode_numbers(linear_blocks(stream, width, base, step, start, stop), made)
    if made is not bits:
        bits[...] = made


def linear_blocks(
    stream: Bytes, width: int, base: int, step: int, start: int, stop: int, exponent: int = 0
) -> StoredBlocks:
    """Return integers ``[start, stop)`` of a linear form, maybe those of decimals, for kernels."""
    numbers = 0, width, signed_word((1 << width) - 1), signed_word(base), signed_word(step)
    facts = np.array([*numbers, exponent], np.int64).reshape(-1, 1, 1)
    return StoredBlocks(stream, facts, _ONE_PAGE, start, stop)


def linear_at(
    stream: Bytes, width: int, base: int, step: int, places: Integers
) -> npt.NDArray[np.uint64]:
    """Return the integers of a linear form at ``places``, modulo 2**64."""
    found = places.astype(np.uint64) * np.uint64(step % _WORD)
    found += np.uint64(base % _WORD)
    if width in WHOLE_WIDTHS:
        item = width // 8
        found += stream[: len(stream) // item * item].view(f"<u{item}")[places]
    elif width:
        bits = places * width
        words: npt.NDArray[np.uint64] = words_of(stream)[bits >> 3]
        found += words >> (bits & 7).astype(np.uint64) & np.uint64((1 << width) - 1)
    return found


def proven_bounds(base: int, step: int, width: int, count: int) -> tuple[int, int]:
    """Return bounds of a linear form that follow from its numbers alone, without wrapping."""
    first = signed_word(base)
    last = first + signed_word(step) * max(count - 1, 0)
    return min(first, last), max(first, last) + (1 << width) - 1


def stored_width(count: int, bits: int, profile: Profile) -> int:
    """Return the width in which ``count`` integers of ``bits`` bits are stored.

    That of the profile, or a whole one where the bytes behind a packed stream cost more.
    """
    width = profile.width(bits)
    if width == 0 or width in WHOLE_WIDTHS:
        return width
    whole = next(whole for whole in sorted(WHOLE_WIDTHS) if whole >= bits)
    return whole if packed_size(count, whole) <= packed_size(count, width) else width


def linear_size(count: int, bits: int, profile: Profile) -> int:
    """Return the bytes of ``count`` residuals of ``bits`` bits."""
    return packed_size(count, stored_width(count, bits, profile))

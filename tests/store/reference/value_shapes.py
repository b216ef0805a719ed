"""Columns of 64-bit words of the shapes that page encodings look for, and of none.

What :mod:`tests.store.reference.segments` makes its columns of, whatever their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["SHAPES", "Shape", "Words", "float_words"]

Words: TypeAlias = npt.NDArray[np.uint64]
Shape: TypeAlias = Callable[[np.random.Generator, int], Words]


def _word(rng: np.random.Generator) -> np.uint64:
    """Return a number that is small, or of any size, or its negative, modulo 2**64."""
    size = int(rng.integers(1, 64))
    word = int(rng.integers(0, 1 << size, dtype=np.uint64))
    return np.uint64((-word if rng.integers(2) else word) % (1 << 64))


def _constant(rng: np.random.Generator, rows: int) -> Words:
    return np.full(rows, _word(rng), np.uint64)


def _sequence(rng: np.random.Generator, rows: int) -> Words:
    return _word(rng) + _word(rng) * np.arange(rows, dtype=np.uint64)


def _residuals(rng: np.random.Generator, rows: int) -> Words:
    width = int(rng.integers(1, 64))
    return _word(rng) + rng.integers(0, 1 << width, rows, dtype=np.uint64)


def _near_regular(rng: np.random.Generator, rows: int) -> Words:
    return _sequence(rng, rows) + rng.integers(0, 50, rows, dtype=np.uint64)


def _climbing(rng: np.random.Generator, rows: int) -> Words:
    return _word(rng) + np.cumsum(rng.integers(0, 1000, rows, dtype=np.uint64), dtype=np.uint64)


def _outlier(rng: np.random.Generator, rows: int) -> Words:
    words = rng.integers(0, 4, rows, dtype=np.uint64)
    if rows:
        words[int(rng.integers(rows))] = _word(rng)
    return words


def _runs(rng: np.random.Generator, rows: int) -> Words:
    values = rng.integers(0, 1 << 40, 1 + rows // 20, dtype=np.uint64)
    steps = np.sort(rng.integers(0, len(values), rows)).astype(np.uint64)
    return np.asarray(steps % np.uint64(7) + values[0])


def _few(rng: np.random.Generator, rows: int) -> Words:
    values = rng.integers(0, 1 << 63, int(rng.integers(1, 9)), dtype=np.uint64)
    return np.asarray(values[rng.integers(0, len(values), rows)])


def _any_bits(rng: np.random.Generator, rows: int) -> Words:
    return rng.integers(0, (1 << 64) - 1, rows, dtype=np.uint64, endpoint=True)


def _edges(rng: np.random.Generator, rows: int) -> Words:
    values = [0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 1 << 53]
    return np.array(values, np.uint64)[rng.integers(0, len(values), rows)]


SHAPES: dict[str, Shape] = {
    "constant": _constant,
    "sequence": _sequence,
    "residuals": _residuals,
    "near regular": _near_regular,
    "climbing": _climbing,
    "outlier": _outlier,
    "runs": _runs,
    "few": _few,
    "any bits": _any_bits,
    "edges": _edges,
}
"""By name: numbers modulo 2**64, ``rows`` of them."""

_SPECIAL_FLOATS = np.array(
    [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308, 0.1, 101.25]
)
_NAN_PAYLOAD = np.uint64(0x7FF8_0000_DEAD_BEEF)


def float_words(rng: np.random.Generator, rows: int, style: str, shape: Shape) -> Words:
    """Return the bits of doubles.

    Parameters
    ----------
    rng
        The source of chance.
    rows
        How many.
    style
        ``"decimal"``: numbers of few digits; ``"mixed"``: these, with special values and a NaN
        with a payload among them; ``"special"``: nothing else; ``"bits"``: any bits.
    shape
        What the digits are made from.
    """
    if style == "bits":
        return shape(rng, rows)
    integers = (shape(rng, rows) % np.uint64(1_000_000)).astype(np.int64) - 500_000
    values = integers / 10.0 ** int(rng.integers(0, 7))
    if style == "special":
        values = _SPECIAL_FLOATS[rng.integers(0, len(_SPECIAL_FLOATS), rows)]
    words = np.array(values, np.float64).view(np.uint64)
    if style != "decimal" and rows:
        places = rng.integers(0, rows, 1 + rows // 50)
        words[places] = _SPECIAL_FLOATS.view(np.uint64)[places % len(_SPECIAL_FLOATS)]
        words[places[0]] = _NAN_PAYLOAD
    return words

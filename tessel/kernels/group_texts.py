"""Rows numbered by texts, in order of first appearance.

Texts are looked for in a hash table of open addressing. Each text that is new is copied beside the
table, so that chunks of rows, each with a buffer of its own, share one table. Arrow's dictionary
encoding is the twin: it numbers alike, once chunks are laid end to end.

The hash is fixed and without a seed, and decides nothing but where a text is looked for: over the
words of eight bytes of a text, little-endian, the last one filled up with zeros, from ``h`` its
length in bytes, ``h = (h ^ word) * 0x9E3779B97F4A7C15`` and ``h = h ^ (h >> 32)``, modulo 2**64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["Texts", "group_texts"]

Integers = NDArray[np.int64]

_WORD_BYTES = 8
_LEAST_SLOTS = 1 << 13


@dataclass(frozen=True, eq=False)
class Texts:
    """Rows of text, or of bytes, in one buffer.

    Attributes
    ----------
    data
        uint8.
    offsets
        int32 or int64, shape ``(rows + 1,)``: where each text begins, and the last one ends.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def group_texts(chunks: Sequence[Texts]) -> tuple[Integers, int] | None:
    """Return the group of each row of all chunks, int64, and how many groups there are.

    None where there is no compiled kernel.
    """
    rows = sum(map(len, chunks))
    kernels = compiled_kernels(rows, "group_texts")
    if kernels is None:
        return None
    codes = np.empty(rows, np.int64)
    table = np.zeros((_LEAST_SLOTS, 2), np.int64)
    held, extents = np.empty(_LEAST_SLOTS, np.uint64), np.zeros((1, 2), np.int64)
    groups = first = 0
    for chunk in itertools.chain.from_iterable(map(_readable, chunks)):
        own = codes[first : first + len(chunk)]
        first += len(own)
        words = _words(chunk.data)
        row = 0
        while row < len(own):
            if len(extents) <= len(table) // 2:
                extents = np.append(extents, np.zeros((len(table), 2), np.int64), axis=0)
            row, groups = kernels.group_texts(
                words, frozen(chunk.offsets), own, table, held, extents, groups, row
            )
            if 2 * groups >= len(table):
                table = kernels.grown_texts(table)
            elif row < len(own):
                # Room for what is held so far once more, and for the text that found none.
                length = int(chunk.offsets[row + 1] - chunk.offsets[row])
                more = len(held) + length // _WORD_BYTES + 1
                held = np.append(held, np.empty(more, np.uint64))
    return codes, groups


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the eight bytes from each place on; they overlap."""
    held = frozen(data)
    return np.ndarray((len(held) - _WORD_BYTES + 1,), "<u8", held, 0, (1,))


def _readable(chunk: Texts) -> Iterator[Texts]:
    """Cut a chunk so that eight bytes can be read from any place of a text, by copying its end."""
    starts, ends = chunk.offsets[:-1], chunk.offsets[1:]
    within = np.searchsorted(ends, len(chunk.data) - _WORD_BYTES, side="right")
    row = int(within) if len(chunk.data) >= _WORD_BYTES else 0
    if row:
        yield Texts(chunk.data, chunk.offsets[: row + 1])
    if row < len(chunk):
        place = int(starts[row])
        end = np.concatenate([chunk.data[place:], np.zeros(_WORD_BYTES, np.uint8)])
        yield Texts(end, chunk.offsets[row:] - place)

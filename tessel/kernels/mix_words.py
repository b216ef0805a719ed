"""The hash of words of 64 bits; :mod:`tessel.clauses.grouped.hashing` says which, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.declare import kernel

__all__ = ["mix_words"]

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FIRST_SHIFT, _SECOND_SHIFT, _LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel("words: u64[rows], mixed: mut u64[rows]")
def mix_words(words: Any, mixed: Any) -> None:
    """Write the hash of each word."""
    for row in range(len(words)):
        word = words[row] + _INCREMENT
        word = (word ^ (word >> _FIRST_SHIFT)) * _FIRST_FACTOR
        word = (word ^ (word >> _SECOND_SHIFT)) * _SECOND_FACTOR
        mixed[row] = word ^ (word >> _LAST_SHIFT)

"""Which of many names are worth comparing with one that does not exist."""

from __future__ import annotations

import numpy as np

__all__ = ["most_alike"]


def most_alike(name: str, candidates: list[str], count: int, cutoff: float) -> list[int]:
    """Return the places of the ``count`` candidates that share most with a name, the best first.

    What counts are characters and pairs of neighbouring ones (Ukkonen 1992, "Approximate
    string-matching with q-grams and maximal matches"): that takes linear time in all texts.
    Left out are candidates whose length alone keeps difflib's ratio below ``cutoff``.
    """
    lengths = np.fromiter(map(len, candidates), np.int64, len(candidates))
    longest = (2 - cutoff) / cutoff  # the ratio is at most twice the shorter of both together
    least, most = len(name) / longest, len(name) * longest
    places = np.flatnonzero((lengths >= least) & (lengths <= most))
    if not len(places):
        return []
    characters, pairs = _characters([candidates[at] for at in places])
    shares = np.zeros((2, 1 << 16), np.int64)
    for share, of_name in zip(shares, _characters([name]), strict=True):
        share[of_name] = 1
    starts = np.concatenate([[0], np.cumsum(lengths[places] + 1)[:-1]])
    shared = np.add.reduceat(shares[0][characters] + shares[1][pairs], starts)
    alike = shared / (lengths[places] + len(name) + 2)
    return [int(places[at]) for at in np.argsort(-alike, kind="stable")[:count]]


def _characters(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of 16 bits of all characters, each text behind a zero, and of all pairs."""
    joined = "\0".join(["", *texts, ""]).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, np.uint32)
    return (codes[:-1] & 0xFFFF), (codes[:-1] * 31 + codes[1:] & 0xFFFF)

"""What hints say: which existing name was meant, and how a limit is raised."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np

__all__ = ["most_alike", "nearest", "raise_the_limit", "repeated", "shown", "suggestion"]

Name = TypeVar("Name", bound=Hashable)

_LISTED_NAMES = 8
_SHOWN_BITS, _SHOWN_CHARACTERS = 256, 200
_LONGEST_COMPARED = 1_000
"""Characters of a name up to which similar ones are looked for: that takes quadratic time."""
_COMPARED, _SIMILAR = 8, 0.6
"""difflib takes some 50 µs for two names: it compares so many, and wants so much alike."""


def nearest(name: object, existing: Iterable[str]) -> str | None:
    """Return the existing name closest to ``name``; None where none is, or ``name`` is no text."""
    if not isinstance(name, str):
        return None
    if len(name) > _LONGEST_COMPARED:
        return None
    import difflib  # only a wrong name needs it

    candidates = existing = list(existing)
    folded, wanted = [candidate.casefold() for candidate in candidates], name.casefold()
    if wanted in folded:
        return candidates[folded.index(wanted)]
    if len(candidates) > _COMPARED:
        candidates = [candidates[at] for at in most_alike(wanted, folded, _COMPARED, _SIMILAR)]
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=_SIMILAR)
    if matches:
        return matches[0]
    from tessel.errors.foreign_names import foreign_name

    theirs = foreign_name(wanted, ("expression",))
    return theirs.our_name if theirs is not None and theirs.our_name in existing else None


def suggestion(name: object, existing: Sequence[str], what: str) -> dict[str, Any]:
    """Return the hint of an error for a name that does not exist, and its facts for programs.

    The hint tells the nearest name and what exists.
    """
    names = list(existing)  # a mapping, for one, is not indexed
    match = nearest(name, names)
    start = f"did you mean {match!r}?   " if match else ""
    listed = ", ".join(names[:_LISTED_NAMES])
    listed += f", … ({len(names)} in all)" if len(names) > _LISTED_NAMES else ""
    hint = f"{start}{what}: {listed}" if names else f"there are no {what}"
    return {"hint": hint, "existing": names, "nearest": match}


def repeated(names: Iterable[Name]) -> Name | None:
    """Return the first of some names that stands there twice, or None where none does."""
    seen: set[Name] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def raise_the_limit(option: str, given: int) -> str:
    """Return the hint for something that is larger than an option allows."""
    return (
        f"raise it with tessel.options({option}={given}), or in the environment with "
        f"TESSEL_{option.upper()}={given}"
    )


def shown(value: object) -> str:
    """Return a value for a message, which does not grow with it.

    Python refuses to write out an integer of more than 4,300 digits.
    """
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def most_alike(name: str, candidates: list[str], count: int, cutoff: float) -> list[int]:
    """Return the places of the ``count`` candidates that share most with a name, the best first.

    What counts are characters and pairs of neighbouring ones (Ukkonen 1992, "Approximate
    string-matching with q-grams and maximal matches"): that takes linear time in all texts.
    Left out are candidates whose length alone keeps difflib's ratio below ``cutoff``.
    """
    import numpy as np  # help of the command line needs none

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
    import numpy as np

    joined = "\0".join(["", *texts, ""]).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, np.uint32)
    return (codes[:-1] & 0xFFFF), (codes[:-1] * 31 + codes[1:] & 0xFFFF)

"""Which existing name was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["nearest", "suggestion"]

_LISTED_NAMES = 8


def nearest(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name closest to ``name``, or None where none is close."""
    candidates = list(existing)
    folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED_NAMES])
    return shown + (f", … ({len(names)} in all)" if len(names) > _LISTED_NAMES else "")


def suggestion(name: str, existing: Sequence[str], what: str) -> str:
    """Return the hint for a name that does not exist: the nearest one, and what exists."""
    match = nearest(name, existing)
    start = f"did you mean {match!r}?   " if match else ""
    return f"{start}{what}: {_listed(existing)}" if existing else f"there are no {what}"

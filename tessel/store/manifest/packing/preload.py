"""Which manifests are fetched in the background when a session starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tessel.lazy import dataclass
from tessel.store.manifest.packing.configuration import Preload
from tessel.store.manifest.packing.patterns import EVERYTHING, full_matches

__all__ = ["PreloadCandidate", "choose_preloads"]


@dataclass(frozen=True, slots=True)
class PreloadCandidate:
    """A manifest that might be fetched.

    Attributes
    ----------
    manifest
        Its name.
    segments
        How many it holds.
    symbols
        The names of the symbols in it.
    """

    manifest: str
    segments: int
    symbols: Collection[str]


def choose_preloads(preload: Preload, candidates: Iterable[PreloadCandidate]) -> tuple[str, ...]:
    """Return the manifests to fetch, the most wanted first.

    Those that are small enough and hold a symbol that an expression matches: by the earliest such
    expression, then by the number of symbols it matches, then by size (the bigger first, for it
    saves more), then by name.
    """
    if preload.max_manifests == 0:
        return ()
    ranked = []
    for candidate in candidates:
        if preload.max_segments is not None and candidate.segments > preload.max_segments:
            continue
        names = list(candidate.symbols)
        for place, pattern in enumerate(preload.symbols):
            count = len(names) if pattern == EVERYTHING else int(full_matches(pattern, names).sum())
            if count:
                ranked.append((place, -count, -candidate.segments, candidate.manifest))
                break
    return tuple(manifest for *_, manifest in sorted(ranked)[: preload.max_manifests])

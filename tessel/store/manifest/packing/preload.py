"""Fetching manifests in the background when a session starts.

Nothing waits for it and nothing depends on it: what it fetches a reader would fetch later. It holds
no lock, so a fork finds nothing locked; a child begins anew. A failure is told to telemetry.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterable

from tessel.lazy import dataclass
from tessel.store.history.snapshot import Snapshot
from tessel.store.history.symbol import OpenManifest
from tessel.store.history.versions import Commit
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.packing.configuration import ManifestConfiguration, Preload
from tessel.store.manifest.packing.validation import EVERYTHING, full_matches
from tessel.telemetry import emit


@dataclass(frozen=True, slots=True)
class PreloadCandidate:
    """A manifest that might be fetched."""

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


_MOST_CANDIDATES = 4_096
"""So many manifests are looked at: more than that would be a search, not a start."""

_MOST_SYMBOLS = 1_024
"""Manifests that are in no lookup are looked for in the leaves of so many symbols."""

_MOST_SESSIONS = 64


class Preloader:
    """Starts a thread for each branch or tag that a session begins on, once."""

    def __init__(self, manifest: OpenManifest) -> None:
        self._manifest = manifest
        self._process = os.getpid()
        self._threads: dict[str, threading.Thread] = {}

    def start(self, name: str, found: Callable[[], tuple[Commit, ManifestConfiguration]]) -> None:
        """Fetch in the background what is wanted of a version, both of which are found there."""
        if self._process != os.getpid():  # a forked child has none of the threads
            self._process, self._threads = os.getpid(), {}
        if name in self._threads or len(self._threads) >= _MOST_SESSIONS:
            return
        thread = threading.Thread(target=self._run, args=(name, found), daemon=True)
        thread.name = f"tessel-preload-{name}"
        self._threads[name] = thread
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is about to end
            emit("manifests.preload-failed", session=name, error=str(error))

    def _run(self, name: str, found: Callable[[], tuple[Commit, ManifestConfiguration]]) -> None:
        try:
            version, configuration = found()
            fetched = 0
            for reference in chosen_manifests(configuration, version.snapshot):
                fetched += len(self._manifest(reference).segments)
                emit("manifests.preload", session=name, manifest=reference.object)
            emit("manifests.preloaded", session=name, version=version.number, segments=fetched)
        except Exception as error:  # whatever it is, a reader will meet it where it matters
            emit("manifests.preload-failed", session=name, error=f"{error}")


def chosen_manifests(
    configuration: ManifestConfiguration, snapshot: Snapshot
) -> list[ManifestReference]:
    """Return the manifests to fetch of a version, the most wanted first; opens none."""
    wanted = configuration.preload
    if wanted.max_manifests == 0:
        return []
    references: dict[str, str] = {}
    candidates = []
    for first in itertools.islice(snapshot.lookup.first_members(), _MOST_CANDIDATES):
        segments, names = 0, []
        for member in snapshot.lookup.members(first.set, first.manifest):
            segments += member.segments
            names.append(member.name)
            if wanted.max_segments is not None and segments > wanted.max_segments:
                break
        candidates.append(PreloadCandidate(first.manifest, segments, names))
        references[first.manifest] = first.name
    for manifest, members in _in_leaves(snapshot).items():
        candidates.append(PreloadCandidate(manifest, sum(members.values()), members.keys()))
        references[manifest] = next(iter(members))
    found = []
    for chosen in choose_preloads(wanted, candidates):
        state = snapshot[references[chosen]]
        found.append(next(e.reference for e in state.manifests if e.reference.object == chosen))
    return found


def _in_leaves(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Return the manifests that are in no lookup: how many segments of which symbols."""
    found: dict[str, dict[str, int]] = {}
    symbols = 0
    for leaf in snapshot.leaves():
        for name, _, _, extents in leaf.packings():
            for manifest, segments, set_name, held in extents:
                if set_name is None or held is not None:
                    members = found.setdefault(manifest, {})
                    members[name] = members.get(name, 0) + segments
        symbols += len(leaf)
        if symbols >= _MOST_SYMBOLS:
            break
    return found

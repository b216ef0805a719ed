"""Checking a store: everything that any version refers to is read and verified.

The command ``tessel fsck`` enters here. Nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tessel.errors import CorruptStoreError, FormatVersionError, NotFoundError
from tessel.store.history import Commit, SymbolState
from tessel.store.manifest import Manifest
from tessel.store.repository import Repository
from tessel.store.segment import SegmentReader
from tessel.store.segment.packs import pack_directory

__all__ = ["CheckReport", "Damage", "check_store"]

_UNREADABLE = (CorruptStoreError, NotFoundError, FormatVersionError)


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong.

    Attributes
    ----------
    version
        The newest version that is hit.
    symbol
        The symbol; empty where the version as a whole is hit.
    object
        What is damaged, as far as known.
    message
        What was found.
    """

    version: int
    symbol: str
    object: str
    message: str


@dataclass(slots=True)
class CheckReport:
    """What a check looked at, and what it found.

    Attributes
    ----------
    versions, manifests, segments, bytes
        How many were read; bytes are those of segments.
    damages
        In the order they were found: the newest version first.
    """

    versions: int = 0
    manifests: int = 0
    segments: int = 0
    bytes: int = 0
    damages: list[Damage] = field(default_factory=list)


class _Check:
    """One pass over a store; what several versions share is read once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._reader = SegmentReader(repository.objects)
        self._seen: set[object] = set()
        self.report = CheckReport()

    def run(self) -> None:
        for number in range(self._repository.history.newest_number, 0, -1):
            self.report.versions += 1
            try:
                commit = self._repository.history.at(number)
                states = dict(commit.snapshot)
            except _UNREADABLE as error:
                self._note(number, "", error)
                continue
            for symbol, state in states.items():
                self._symbol(commit, symbol, state)

    def _symbol(self, commit: Commit, symbol: str, state: SymbolState) -> None:
        for entry in state.manifests:
            if (state.id, entry.reference.object) in self._seen:
                continue
            self._seen.add((state.id, entry.reference.object))
            self.report.manifests += 1
            try:
                manifest = self._repository.manifest(entry.reference)
                for column_id in manifest.columns_of(state.id):
                    manifest.statistics(state.id, column_id)
            except _UNREADABLE as error:
                self._note(commit.number, symbol, error)
                continue
            self._segments(commit.number, symbol, state.id, manifest)
        try:
            self._repository.view(symbol, commit.number).index()
        except _UNREADABLE as error:
            if not any(d.symbol == symbol for d in self.report.damages):
                self._note(commit.number, symbol, error)

    def _segments(self, version: int, symbol: str, identity: int, manifest: Manifest) -> None:
        for key in manifest.segment_keys(identity):
            if key in self._seen:
                continue
            self._seen.add(key)
            self.report.segments += 1
            self.report.bytes += key.length
            try:
                self._reader.verify(key)
                self._pack(key.object)
            except _UNREADABLE as error:
                self._note(version, symbol, error)

    def _pack(self, name: str) -> None:
        if name not in self._seen:
            self._seen.add(name)
            pack_directory(name, self._repository.objects.get(name))

    def _note(self, version: int, symbol: str, error: Exception) -> None:
        found = getattr(error, "attributes", {}).get("object", "")
        message = getattr(error, "message", str(error))
        self.report.damages.append(Damage(version, symbol, str(found), message))


def check_store(repository: Repository) -> CheckReport:
    """Read and verify all that the versions of a store refer to.

    Every log entry, snapshot, manifest and statistics table, and all pages of every segment, each
    once. Segments are read whatever was verified before in this process.
    """
    check = _Check(repository)
    check.run()
    return check.report

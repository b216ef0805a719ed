"""Checking: every byte that a kept version refers to is read and verified; nothing is changed.

Damage never raises here. All of it is gathered, and where there is any, a second pass says what is
lost: which symbol, in which versions, which rows. What several versions share is verified once.

The repository enters here.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Final

import numpy as np

from tessel.cancelling import ThreadPool, run_ahead
from tessel.ecs.piece import SegmentKey
from tessel.errors import NotFoundError, TesselError
from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.history.documents import open_store
from tessel.store.history.leaves import Child, Leaf, Node
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.tree import Nodes, walk
from tessel.store.history.versions import Versions
from tessel.store.maintenance.leases import WriteSession, read_lease
from tessel.store.maintenance.marking import (
    Damage,
    Losses,
    Marker,
    Rows,
    name_and_message,
    ranges_of,
    retained_versions,
)
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.names import LEASES, LOG, STORE, log_number
from tessel.store.segment.reader import SegmentReader
from tessel.store.segment.writer import pack_directory
from tessel.store.timeline import Timeline
from tessel.store.view import SymbolView
from tessel.telemetry import emit

_NAMED_ORPHANS: Final = 100
_TASKS_A_WORKER: Final = 4


@dataclass(slots=True)
class CheckReport:
    """What a check looked at, and what it found.

    Attributes
    ----------
    versions, nodes, manifests, segments, bytes
        How many were read; nodes are those of the symbol index, bytes those of segments.
    damages
        The newest version first.
    orphans, orphan_bytes
        How many objects no kept version refers to: those of expired versions, and of commits that
        are under way or never landed. None where damage hides what is referred to.
    orphan_names
        The first hundred of them.
    """

    versions: int = 0
    nodes: int = 0
    manifests: int = 0
    segments: int = 0
    bytes: int = 0
    damages: list[Damage] = field(default_factory=list)
    orphans: int | None = None
    orphan_bytes: int | None = None
    orphan_names: list[str] = field(default_factory=list)


def check_store(repository: Timeline) -> CheckReport:
    """Read and verify all that the kept versions of a store refer to.

    The log, branches and tags, leases, the symbol index, manifests with their statistics, and all
    pages of every segment, on the workers of the options. Progress is told by the events
    ``fsck.version``, ``fsck.manifest`` and ``fsck.segment``.
    """
    check = _Check(repository)
    with ThreadPool(current().workers, "tessel-fsck") as pool:
        check.metadata()
        most = _TASKS_A_WORKER * current().workers
        for tasks in (check.manifest_tasks(), check.segment_tasks()):
            for _ in run_ahead(pool, tasks, most):
                pass
    check.attribute()
    check.find_orphans()
    return check.report


class _Check:
    """One pass over a store; its steps are called in order."""

    def __init__(self, repository: Timeline) -> None:
        self._repository = repository
        self._objects = repository.objects
        self._versions = Versions(self._objects)
        self._nodes = Nodes(self._objects)
        # A view of its own, so that nothing which readers of this process keep is believed: page
        # tables, and files that are open though their names have gone.
        self._reader = SegmentReader(WriteSession(self._objects))
        self._numbers: list[int] = []
        self._places: set[tuple[str, int]] = set()
        self._references: dict[str, ManifestReference] = {}
        # A manifest may tell of symbols that have left it: then nobody needs what it says of them.
        self._held: defaultdict[str, set[int]] = defaultdict(set)
        self._states: dict[tuple[int, tuple[ManifestEntry, ...]], tuple[str, SymbolState]] = {}
        self._noted: defaultdict[tuple[str, str, str], set[int]] = defaultdict(set)
        self._expected: dict[str, int] = {}
        self._bad_nodes = False
        self._bad_manifests: dict[str, str] = {}
        self._bad_segments: dict[SegmentKey, str] = {}
        self._bad_states: dict[tuple[int, tuple[ManifestEntry, ...]], tuple[str, str]] = {}
        self._bad_packs: dict[str, str] = {}
        self.report = CheckReport()

    # --- the log, branches and tags, the symbol index ---------------------------------------------

    def metadata(self) -> None:
        """Read everything but manifests and segments."""
        try:
            open_store(self._objects, create=False, read_only=True)
        except TesselError as error:
            self._note(0, "", error)
        self._leases()
        self._numbers = self._retained()
        for number in self._numbers:
            self.report.versions += 1
            emit("fsck.version", version=number, total=len(self._numbers))
            try:
                entry = self._versions.entry(number)
                self._versions.refs_at(entry)
                tuple(entry.changes)  # checked only now
            except TesselError as error:
                self._note(number, "", error)
                continue
            for leaf in self._leaves(entry.root):
                self._symbols(leaf, number)
            for _ in self._leaves(entry.lookup):
                pass

    def _leases(self) -> None:
        """Read the leases: a damaged one loses nothing, but keeps everything from collection."""
        for name in self._objects.list(LEASES):
            try:
                read_lease(self._objects, name)
            except NotFoundError:
                continue  # it has ended by now
            except TesselError as error:
                self._note(0, "", error)

    def _retained(self) -> list[int]:
        """Return the versions to look at; all that there are, where it cannot be told."""
        try:
            head = self._versions.head()
            refs = self._versions.refs_at(head)
        except TesselError as error:
            self._note(self._versions.newest_number, "", error)
            found = (log_number(name) for name in self._objects.list(LOG))
            return [number for number in found if number is not None]
        return [] if head is None else list(retained_versions(refs, head.number))

    def _leaves(self, root: Node) -> Iterator[Leaf]:
        """Yield the leaves that can be read and have not been seen."""
        places = self._places

        def is_new(child: Child) -> bool:
            before = len(places)
            places.add(child.place)
            self.report.nodes += len(places) - before
            return len(places) > before

        def failed(child: Child, error: TesselError) -> None:
            self._bad_nodes = True
            self.report.nodes -= 1

        return walk(self._nodes, root, enters=is_new, failed=failed)

    def _symbols(self, leaf: Leaf, number: int) -> None:
        for symbol in leaf.documents:
            try:
                state = leaf.state(symbol)
            except TesselError as error:
                self._note(number, symbol, error)
                continue
            if state is not None:
                self._states.setdefault((state.id, state.manifests), (symbol, state))
                for extent in state.manifests:
                    self._references.setdefault(extent.reference.object, extent.reference)
                    self._held[extent.reference.object].add(state.id)

    # --- manifests and segments -------------------------------------------------------------------

    def manifest_tasks(self) -> Iterator[Callable[[], None]]:
        """Yield what verifies each manifest, and then that symbols and manifests agree."""
        for reference in self._references.values():
            self.report.manifests += 1
            yield lambda reference=reference: self._manifest(reference)  # type: ignore[misc]

    def _manifest(self, reference: ManifestReference) -> None:
        emit("fsck.manifest", object=reference.object, total=len(self._references))
        try:
            manifest = Manifest(self._objects, reference)
            for symbol in self._held[reference.object]:
                for column_id in manifest.columns_of(symbol):
                    manifest.statistics(symbol, column_id)
            held, of = manifest.holdings, list(self._held[reference.object])
            self._expected[reference.object] = int(held.segments[np.isin(held.symbols, of)].sum())
        except TesselError as error:
            self._bad_manifests[reference.object] = error.message

    def segment_tasks(self) -> Iterator[Callable[[], None]]:
        """Yield what verifies each segment once, and the objects that they share."""
        seen: set[tuple[str, int, int]] = set()
        objects: set[str] = set()
        for name, reference in self._references.items():
            if name in self._bad_manifests:
                continue
            manifest = Manifest(self._objects, reference)
            for symbol in self._held[name]:
                for key in manifest.segment_keys(symbol):
                    place = (key.object, key.offset, key.length)
                    if place in seen:
                        continue
                    seen.add(place)
                    self.report.segments += 1
                    self.report.bytes += key.length
                    yield lambda key=key: self._segment(key)  # type: ignore[misc]
                    if key.object not in objects:
                        objects.add(key.object)
                        yield lambda key=key: self._pack(key)  # type: ignore[misc]
        for identity, (named, state) in self._states.items():
            yield lambda i=identity, n=named, s=state: self._agree(i, n, s)  # type: ignore[misc]

    def _segment(self, key: SegmentKey) -> None:
        total = sum(self._expected.values())  # at most: manifests may share some
        emit("fsck.segment", object=key.object, bytes=key.length, total=total)
        try:
            self._reader.verify(key)
        except TesselError as error:
            self._bad_segments[key] = error.message

    def _pack(self, key: SegmentKey) -> None:
        """Verify what is not in a segment: an object is one segment, or ends as packs do."""
        name = key.object
        try:
            data = self._objects.get(name)
            whole = key.offset == 0 and key.length == data.size
            if pack_directory(name, data) is None and not whole:
                self._bad_packs[name] = f"{name} is damaged: its directory is cut short"
        except NotFoundError:
            return  # said of its segments
        except TesselError as error:
            self._bad_packs[name] = error.message

    def _agree(
        self, identity: tuple[int, tuple[ManifestEntry, ...]], symbol: str, state: SymbolState
    ) -> None:
        if any(extent.reference.object in self._bad_manifests for extent in state.manifests):
            return
        try:
            SymbolView(self._repository, symbol, state.changed, state).index()
        except TesselError as error:
            self._bad_states[identity] = name_and_message(error)

    # --- what is lost -----------------------------------------------------------------------------

    def attribute(self) -> None:
        """Say which symbols, versions and rows are hit by what was found."""
        whole = [
            Damage(max(numbers), symbol, name, message, ranges_of(n for n in numbers if n))
            for (symbol, name, message), numbers in self._noted.items()
        ]
        if self._bad_nodes or self._bad_manifests or self._bad_segments or self._bad_states:
            found = Losses(self._versions, self._nodes, self.hits)
            for number in self._numbers:
                found.version(number)
            segments = {key.object: message for key, message in self._bad_segments.items()}
            whole += found.damages(self._bad_manifests | segments)
        # A damaged directory of a pack loses nothing: manifests know where its segments are.
        hit = {damage.object for damage in whole}
        whole += [
            Damage(0, "", name, message)
            for name, message in self._bad_packs.items()
            if name not in hit
        ]
        kept = None
        with contextlib.suppress(TesselError):  # what expired during the check is no damage
            kept = self._versions.refs()
        still = [d for d in whole if not d.version or kept is None or kept.keeps(d.version)]
        self.report.damages = sorted(still, key=lambda d: (-d.version, d.symbol, d.object))

    def _note(self, version: int, symbol: str, error: TesselError) -> None:
        """Note damage outside of manifests and segments; version 0 is the whole store."""
        name, message = name_and_message(error)
        self._noted[symbol, name or (STORE if not version else ""), message].add(version)

    # --- orphans ----------------------------------------------------------------------------------

    def find_orphans(self) -> None:
        """Count what nothing refers to."""
        marker = Marker(self._objects)
        try:
            marker.mark_retained()
        except TesselError:
            return
        orphans = [
            name
            for name in self._objects.list()
            if not marker.holds(name) and not name.startswith("lease/")
        ]
        self.report.orphans = len(orphans)
        self.report.orphan_bytes = sum(self._size(name) for name in orphans)
        self.report.orphan_names = orphans[:_NAMED_ORPHANS]

    def _size(self, name: str) -> int:
        try:
            return self._objects.size(name)
        except TesselError:
            return 0  # deleted meanwhile, or of a name that no object has

    # --- for the second pass ----------------------------------------------------------------------

    def hits(self, symbol: str, state: SymbolState) -> list[tuple[str, str, Rows]]:
        """Return object, message and rows of each damage that hits a state of a symbol."""
        found: list[tuple[str, str, Rows]] = []
        position = 0
        for extent in state.manifests:
            name = extent.reference.object
            if name in self._bad_manifests:
                rows = ((position, position + extent.rows),)
                found.append((name, self._bad_manifests[name], rows))
            position += extent.rows
        disagreement = self._bad_states.get((state.id, state.manifests))
        if disagreement is not None:
            found.append((*disagreement, ((0, state.rows),)))
        elif not found and self._bad_segments:
            found += self._segment_hits(symbol, state)
        return found

    def _segment_hits(self, symbol: str, state: SymbolState) -> Iterator[tuple[str, str, Rows]]:
        index = SymbolView(self._repository, symbol, state.changed, state).index()
        for position in range(len(index)):
            key = index.source(position).key
            if key in self._bad_segments:
                rows = ((int(index.row_start[position]), int(index.row_end[position])),)
                yield key.object, self._bad_segments[key], rows

"""What retained versions refer to, for collection; what they lose by damage, for checking.

Collection and checking enter here. Nothing is guessed: what cannot be read, or was written by
another version of the format, raises and names the object, and then nobody knows what is garbage.

What several versions share is looked at once. Ids of segments are 16 bytes each in sorted arrays,
so that ten million of them take some hundred megabytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tessel.errors import CorruptStoreError, NotFoundError, SnapshotExpiredError, TesselError
from tessel.lazy import dataclass
from tessel.store.history.documents import Fields
from tessel.store.history.leaves import Child, Leaf
from tessel.store.history.log import LogEntry
from tessel.store.history.refs import Refs
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.tree import Nodes, walk
from tessel.store.history.versions import Versions
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.names import STORE, log_number, segment_id
from tessel.store.objects.base import ObjectStore
from tessel.telemetry import emit

_MERGED_IDS: Final = 1 << 16


class IdSet:
    """A set of 16-byte ids that only grows, in little more memory than the ids."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, "S16")
        self._new: list[npt.NDArray[np.bytes_]] = []
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._merged())

    def __contains__(self, identifier: object) -> bool:
        known = self._merged()
        at = int(np.searchsorted(known, np.array(identifier, "S16")))
        return at < len(known) and bool(known[at] == np.array(identifier, "S16"))

    def add(self, identifiers: npt.NDArray[np.bytes_]) -> None:
        """Add ids, repeats allowed."""
        self._new.append(np.unique(identifiers))
        self._waiting += len(self._new[-1])
        if self._waiting > max(_MERGED_IDS, len(self._sorted)):
            self._merged()

    def _merged(self) -> npt.NDArray[np.bytes_]:
        if self._new:
            self._sorted = np.unique(np.concatenate([self._sorted, *self._new]))
            self._new, self._waiting = [], 0
        return self._sorted


def retained_versions(refs: Refs, newest: int) -> Iterator[int]:
    """Yield the versions that are retained and have a log entry, the newest first."""
    first = max(1, refs.oldest)
    yield from range(newest, first - 1, -1)
    pinned = {*refs.tags.values(), *refs.branches.values()}
    yield from sorted((n for n in pinned if 0 < n < first), reverse=True)


class Marker:
    """Marks what versions refer to; more versions may be marked later.

    Parameters
    ----------
    beyond
        What this one has already seen is left out here.
    """

    def __init__(self, objects: ObjectStore, beyond: Marker | None = None) -> None:
        self._objects = objects
        self._versions = Versions(objects)
        self._nodes = Nodes(objects)
        self._beyond = beyond
        self._oldest = 0
        self._numbers: set[int] = set()
        self._names: set[str] = set()
        self._places: set[tuple[str, int]] = set()
        self._segments = IdSet()

    def mark_retained(self) -> Refs:
        """Mark all retained versions, and return the branches and tags of the store.

        Called again, it also marks what was committed since.

        Raises StoreError in one of its kinds, where something cannot be read.
        """
        head = self._versions.head()
        refs = self._versions.refs_at(head)
        if head is not None:
            self.mark(retained_versions(refs, head.number))
        # Numbers below that were marked before stay marked: the set only grows.
        self._oldest = max(1, refs.oldest)
        return refs

    def mark(self, numbers: Iterable[int]) -> None:
        """Mark versions by number."""
        for number in numbers:
            if number not in self._numbers and (
                self._beyond is None or number not in self._beyond._numbers
            ):
                self._entry(self._versions.entry(number))
                self._numbers.add(number)

    def mark_present(self, numbers: Iterable[int]) -> None:
        """Mark versions as far as they are there: some may have been collected already."""
        for number in numbers:
            try:
                self.mark([number])
            except (CorruptStoreError, SnapshotExpiredError) as error:
                absent = isinstance(error.__cause__, NotFoundError)  # rather than damaged
                if not absent and not isinstance(error, SnapshotExpiredError):
                    raise
                # Nodes that wait below those seen were not looked at.
                self._places.clear()

    def holds(self, name: str) -> bool:
        """Whether an object is referred to by what was marked."""
        number = log_number(name)
        if number is not None:
            return number in self._numbers or 0 < self._oldest <= number
        identifier = segment_id(name)
        if identifier is not None:
            return identifier in self._segments
        return name in self._names or (name == STORE and self._beyond is None)

    def _entry(self, entry: LogEntry) -> None:
        emit("maintenance.mark", version=entry.number)
        if entry.refs is not None and entry.refs.object not in self._names:
            self._versions.refs_at(entry)  # read, so that a newer format is noticed
            self._names.add(entry.refs.object)
        for leaf in walk(self._nodes, entry.root, enters=self._is_new):
            for document in leaf.documents.values():
                for extent in Fields(document, leaf.name).objects("manifests"):
                    self._manifest(ManifestEntry.read(extent).reference)
        # The lookup from manifests to symbols names nothing that the symbols do not.
        for _ in walk(self._nodes, entry.lookup, enters=self._is_new):
            pass

    def _is_new(self, child: Child) -> bool:
        new = child.place not in self._places
        self._names.add(child.reference.object)
        self._places.add(child.place)
        return new

    def _manifest(self, reference: ManifestReference) -> None:
        name = reference.object
        if name not in self._names and not (self._beyond and name in self._beyond._names):
            array = Manifest(self._objects, reference).segments.column("object").combine_chunks()
            if len(array):
                held = np.frombuffer(array.buffers()[1], "S16", len(array), 16 * array.offset)
                self._segments.add(held)
            self._names.add(name)


# --- who loses what by damage ---------------------------------------------------------------------

Rows = tuple[tuple[int, int], ...]


def name_and_message(error: TesselError) -> tuple[str, str]:
    """Return the object that an error is about, and its text."""
    return str(error.attributes.get("object", "")), error.message


@dataclass(frozen=True, slots=True)
class Damage:
    """One object that is damaged or missing, and what one symbol loses by it.

    Attributes
    ----------
    version
        The newest version that is hit; 0 where no version is.
    symbol
        The symbol; empty where a version as a whole is hit, or nothing that can be read.
    object
        What is damaged, as far as known.
    versions
        All versions that are hit, as ranges ``[first, last]``.
    rows
        The rows of the symbol that are lost in ``version``, as ranges ``[start, stop)``.
    """

    version: int
    symbol: str
    object: str
    message: str
    versions: Rows = ()
    rows: Rows = ()


class Losses:
    """Who loses what by damaged objects, version by version, the newest first.

    Parameters
    ----------
    hits
        Returns object, message and rows of each damage that hits a state of a symbol.
    """

    def __init__(
        self,
        versions: Versions,
        nodes: Nodes,
        hits: Callable[[str, SymbolState], list[tuple[str, str, Rows]]],
    ) -> None:
        self._log = versions
        self._nodes = nodes
        self._hits_of = hits
        self._found: dict[tuple[str, str], tuple[str, int, set[tuple[int, int]]]] = {}
        self._versions: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._hits: dict[tuple[int, tuple[ManifestEntry, ...]], list[tuple[str, str, Rows]]] = {}

    def version(self, number: int) -> None:
        """Look at all symbols of a version."""
        try:
            entry = self._log.entry(number)
        except TesselError:
            return  # said before

        def of_symbols(child: Child, error: TesselError) -> None:
            several = f" and {child.symbols - 1} after it" if child.symbols > 1 else ""
            self._add(number, child.first + several, *name_and_message(error), ())

        def of_lookup(child: Child, error: TesselError) -> None:
            # The lookup is for commits: without it all symbols can be read.
            self._add(number, "", *name_and_message(error), ())

        for leaf in walk(self._nodes, entry.root, failed=of_symbols):
            self._leaf(number, leaf)
        for _ in walk(self._nodes, entry.lookup, failed=of_lookup):
            pass

    def _leaf(self, number: int, leaf: Leaf) -> None:
        for symbol in leaf.documents:
            try:
                state = leaf.state(symbol)
            except TesselError:
                continue  # said before
            if state is None:
                continue
            identity = (state.id, state.manifests)
            if identity not in self._hits:
                self._hits[identity] = self._hits_of(symbol, state)
            for name, message, rows in self._hits[identity]:
                self._add(number, symbol, name, message, rows)

    def _add(self, number: int, symbol: str, name: str, message: str, rows: Rows) -> None:
        key = (name, symbol)
        newest = self._found.setdefault(key, (message, number, set()))
        if newest[1] == number:
            newest[2].update(rows)
        if not self._versions[key] or self._versions[key][-1] != number:
            self._versions[key].append(number)

    def damages(self, unplaced: Mapping[str, str]) -> list[Damage]:
        """Return one record for each object and symbol.

        Parameters
        ----------
        unplaced
            All damage to manifests and segments: messages by object.
        """
        seen = self._versions
        found = [
            Damage(newest, symbol, name, message, ranges_of(seen[name, symbol]), _joined(rows))
            for (name, symbol), (message, newest, rows) in self._found.items()
        ]
        hit = {damage.object for damage in found}
        # Columns that were dropped and rows that were deleted are nobody's loss.
        rest = unplaced.items()
        return found + [Damage(0, "", name, text) for name, text in rest if name not in hit]


def ranges_of(numbers: Iterable[int]) -> Rows:
    """Return numbers as ranges ``[first, last]``, ascending."""
    return tuple((low, high - 1) for low, high in _joined((n, n + 1) for n in numbers))


def _joined(ranges: Iterable[tuple[int, int]]) -> Rows:
    """Return ranges ``[start, stop)``, ascending; those that touch are one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return tuple(found)

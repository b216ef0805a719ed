"""What a transaction has done so far: its symbols, and what it has written for them.

Rows written in a transaction are gathered, whatever their symbols, and extents refer to a manifest
that is not there. :meth:`Stage.changes` lets :mod:`tessel.store.manifest.packing` decide which
manifests there will be, and puts the true extents in. A transaction that reads its own rows before
it ends has them written as they are by :meth:`Stage.flush`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tessel.errors import InvalidInputError, SymbolNotFoundError
from tessel.store.history.changes import Change, Removal, Replacement, Tried, resolved
from tessel.store.history.rebase import Objection, ReadRange
from tessel.store.history.snapshot import Overlay
from tessel.store.history.symbol import ManifestEntry, OpenManifest, SymbolState, rows_of
from tessel.store.history.versions import Commit, Versions
from tessel.store.maintenance.leases import WriteSession
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration, usual_configuration
from tessel.store.manifest.packing.flush import Flush
from tessel.store.manifest.packing.snapshot_membership import SnapshotMembership
from tessel.store.manifest.piece import SegmentSource
from tessel.store.manifest.table import SegmentTable
from tessel.store.names import check_symbol_name
from tessel.store.objects.base import ObjectStore, put_all
from tessel.store.operations.reading import Reader
from tessel.store.operations.working import Working
from tessel.store.segment.writer import PackWriter, SegmentWriter, WrittenSlice


class Stage:
    """The state of one transaction; used by one thread at a time.

    Parameters
    ----------
    configuration
        Says which symbols share a manifest; by default the usual ones.
    history
        The history that the transaction commits to; None for one that does not commit.

    Attributes
    ----------
    reads
        What was read, for transactions that are serializable.
    objections
        What else must not have landed meanwhile, whatever the isolation.
    session
        Where to write: the same objects, as those of this transaction.
    builder
        The rows that were written and are in no manifest yet.
    waiting
        Names and bytes of the manifests that the commit writes.
    tried
        The changes as they were applied to the base; None before they were told.
    """

    def __init__(
        self,
        objects: ObjectStore,
        base: Commit,
        manifest: OpenManifest,
        configuration: Callable[[], ManifestConfiguration] | None = None,
        history: Versions | None = None,
    ) -> None:
        self.objects = objects
        self.history = history
        self.metadata: dict[str, Any] = {}
        self.session = WriteSession(objects)
        self.base = base
        self.reads: list[ReadRange] = []
        self.objections: list[Objection] = []
        self._manifest = manifest
        self._configuration = configuration
        self.tried: Tried | None = None
        self.waiting: list[tuple[str, bytes]] = []
        self._symbols: dict[str, Working | None] = {}
        self._removed: list[str] = []
        self._pack = PackWriter(self.session)
        self.builder = ManifestBuilder()
        self._written: dict[str, ManifestReference] = {}

    # --- symbols ----------------------------------------------------------------------------------

    def find(self, symbol: str) -> Working | None:
        """Return a symbol as it is now, or None; it becomes one of the transaction's."""
        check_symbol_name(symbol)
        if symbol not in self._symbols:
            state = self.base.snapshot.get(symbol)
            if state is None:
                return None
            self._symbols[symbol] = Working.of(symbol, state)
        return self._symbols[symbol]

    def existing(self, symbol: str) -> Working:
        """Return a symbol as it is now; ``SymbolNotFoundError`` where there is none."""
        found = self.find(symbol)
        if found is None:
            # That there is none has been read as well.
            self.reads.append(ReadRange(symbol))
            names = {name for name in self.base.snapshot.near(symbol) if name not in self._symbols}
            names |= {name for name, state in self._symbols.items() if state is not None}
            raise SymbolNotFoundError.for_name(symbol, sorted(names))
        return found

    def put(self, symbol: str, state: SymbolState) -> None:
        """Make a symbol, or give it a new state whatever it was."""
        before = self._symbols.get(symbol)
        if before is not None and before.base_name not in (None, symbol):
            self._removed.append(str(before.base_name))
        self._symbols[symbol] = Working(symbol, state)

    def remove(self, working: Working) -> None:
        """Delete a symbol."""
        self._symbols[working.name] = None
        if working.base_name is not None:
            self._removed.append(working.base_name)
        elif self._orphaned(working.name):
            self._removed.append(working.name)

    def rename(self, working: Working, to: str) -> None:
        """Give a symbol another name, which no symbol has now."""
        before = working.name
        working.name = to
        self._symbols[before] = None
        self._symbols[to] = working
        if working.base is None and self._orphaned(before):
            self._removed.append(before)
        try:
            list(_in_order(self._altered()))
        except InvalidInputError:
            working.name = before
            self._symbols[before], self._symbols[to] = working, None
            raise

    def _orphaned(self, name: str) -> bool:
        """Return whether the base has a symbol of that name which none here came from."""
        if name not in self.base.snapshot:
            return False
        return all(w is None or w.base_name != name for w in self._symbols.values())

    # --- writing and reading ----------------------------------------------------------------------

    def write_rows(
        self, state: SymbolState, tables: Iterable[pa.Table]
    ) -> tuple[ManifestEntry, ...]:
        """Write rows with the columns of a state; return the extent of them, if there are any."""
        return self.add_slices(state, self.write_segments(state, tables))

    def written(self, state: SymbolState, tables: Iterable[pa.Table]) -> tuple[ManifestEntry, ...]:
        """Write rows and their manifest; return the extent of them, if there are any."""
        extents = self.write_rows(state, tables)
        self.flush()
        return tuple(dataclasses.replace(e, reference=self._known(e.reference)) for e in extents)

    def write_segments(self, state: SymbolState, tables: Iterable[pa.Table]) -> list[WrittenSlice]:
        """Write rows with the columns of a state as segments that are in no manifest yet."""
        columns, encodings = state.column_ids, state.encodings
        writer = SegmentWriter(self.session, state.schema, columns, self._pack, encodings=encodings)
        return writer.write(tables)

    def add_slices(
        self, state: SymbolState, slices: list[WrittenSlice]
    ) -> tuple[ManifestEntry, ...]:
        """Add segments that were written to the manifest; return the extent of their rows."""
        first_row = self.builder.rows_of(state.id)
        self.builder.add_slices(state.id, slices, state.types)
        if not slices:
            return ()
        rows = sum([part.rows for part in slices])
        segments = sum([len(part.segments) for part in slices])
        times = slices[0].first_time, slices[-1].last_time
        return (ManifestEntry(self.pending, rows, segments, *times, first_row),)

    def add_table(
        self, state: SymbolState, table: SegmentTable, extents: Sequence[ManifestEntry]
    ) -> ManifestEntry:
        """Add segments that exist to the manifest, those of some extents; return that of all."""
        first, last, first_row = extents[0], extents[-1], self.builder.rows_of(state.id)
        self.builder.add_table(state.id, table, state.types)
        return ManifestEntry(
            *(self.pending, rows_of(extents), len(table), first.first_time, last.last_time),
            *(first_row, first.cut_front, last.cut_back),
        )

    @property
    def pending(self) -> ManifestReference:
        """What stands for the manifest of the transaction until it is written."""
        return ManifestReference(self.builder.name, 0, 0, 0)

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest; writes what is not written yet."""
        if reference.object == self.builder.name:
            self.flush()
        return self._manifest(self._known(reference))

    def reader(self, state: SymbolState) -> Reader:
        """Return what reads a symbol."""
        source = SegmentSource(self.objects, state.schema, state.column_ids)
        return Reader(state.index(self.manifest), source)

    def last_time(self, working: Working) -> int | None:
        """Return the last value of the index; None without an index or rows."""
        state = working.state
        if state.last_time is None or not state.manifests[-1].cut_back:
            return state.last_time
        return self.reader(state).time_at(state.rows - 1)

    # --- the end ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the segments and the manifest that wait."""
        self._pack.flush()
        if self.builder:
            data, reference = self.builder.finish()
            put_all(self.session, [(reference.object, data)])
            self._written[reference.object] = reference
            self.builder = ManifestBuilder()

    def changes(self) -> list[Change]:
        """Write the segments, and return what the transaction changes, in order.

        The manifests are encoded and wait to be written with the commit.
        """
        replaced = [w for w in self._symbols.values() if w is not None and w.base is None]
        altered: list[Working] = []
        made: list[Change] = []
        for each in _in_order(self._altered()):
            change = each.change()
            if change is not None:
                altered.append(each)
                made.append(change)
        new_names = {working.name for working in replaced}
        gone = [name for name in dict.fromkeys(self._removed) if name not in new_names]
        if not made and not replaced and not gone:
            return []
        flush = self._gathered(altered, replaced)
        flushed = flush.finish()
        for working in replaced:  # written whole, or of extents that other commits wrote
            state = working.state
            extents = flushed.states.get(state.id, state.manifests)
            made.append(Replacement(working.name, dataclasses.replace(state, manifests=extents)))

        def placed(symbol: int, extent: ManifestEntry) -> tuple[ManifestEntry, ...]:
            if extent.reference.object == self.builder.name:
                return flushed.placed(symbol, extent)
            return (dataclasses.replace(extent, reference=self._known(extent.reference)),)

        changes: list[Change] = [*flushed.repackings, *map(Removal, gone)]
        changes += [resolved(change, placed) for change in made]
        self.tried = Tried(Overlay(self.base.snapshot), self.base.number + 1)
        self.tried.apply(changes)
        objects, folded = flush.fold(self.tried.symbols, flushed.objects)
        self.tried.apply(folded)
        # Before the commit, which may conflict: a repeated finalize takes what was merged.
        self._pack.flush()
        self.waiting = [*flushed.objects, *objects]
        return [*changes, *folded]

    def _gathered(self, altered: list[Working], replaced: list[Working]) -> Flush:
        """Return what packs the transaction, which knows all that it does."""
        symbols = self.base.snapshot
        configuration = self._configuration

        def opened(reference: ManifestReference) -> Manifest:
            return self._manifest(self._known(reference))

        flush = Flush(
            usual_configuration() if configuration is None else configuration(),
            SnapshotMembership(self.base.snapshot, opened),
            self.builder,
            opened,
        )
        alive = {working.state.id for working in (*altered, *replaced)}
        for working in altered:
            if working.base is not None and working.rows_changed:
                flush.edit(working.base_name or working.name, working.base, working.state)
        for working in replaced:
            base = symbols.get(working.name)
            same = base is not None and base.id == working.state.id
            flush.write(working.name, working.state, base if same else None)
        for name in {*self._removed, *(working.name for working in replaced)}:
            base = symbols.get(name)
            if base is not None and base.id not in alive:
                flush.delete(name, base)
        return flush

    def _altered(self) -> list[Working]:
        return [w for w in self._symbols.values() if w is not None and w.base is not None]

    def _known(self, reference: ManifestReference) -> ManifestReference:
        return self._written.get(reference.object, reference)


def _in_order(altered: list[Working]) -> Iterator[Working]:
    """Yield symbols so that each name is free when another symbol gets it.

    Raises InvalidInputError where names go round in a circle.
    """
    waiting = list(altered)
    while waiting:
        taken = {each.base_name for each in waiting}
        free = [e for e in waiting if e.name == e.base_name or e.name not in taken]
        if not free:
            names = sorted(str(each.base_name) for each in waiting)
            raise InvalidInputError(
                f"the symbols {', '.join(map(repr, names))} cannot swap names in one transaction",
                hint="use two: rename one of them to a name of its own first",
            )
        yield from free
        done = {id(each) for each in free}
        waiting = [each for each in waiting if id(each) not in done]

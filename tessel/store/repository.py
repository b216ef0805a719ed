"""A store without queries: symbols, versions, writes and transactions.

Writing goes data → segments → manifest → one log entry, and nothing is visible before the entry
is. Reading starts from a version, which never changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.errors import (
    InvalidInputError,
    SymbolNotFoundError,
)
from tessel.expression.schema import TableSchema
from tessel.store.encodings.base import Integers
from tessel.store.history import (
    Commit,
    History,
    SymbolState,
    open_store,
    refuse_writes,
    timestamp_of,
)
from tessel.store.manifest import Manifest, ManifestReference, SegmentIndex, SegmentSource
from tessel.store.names import check_symbol_name
from tessel.store.objects import ObjectStore, open_objects
from tessel.store.transaction import Transaction

__all__ = ["Repository", "SymbolView", "Version"]

_KEPT_MANIFESTS = 256


@dataclass(frozen=True, slots=True)
class Version:
    """What one commit did to one symbol.

    Attributes
    ----------
    number
        Number of the commit: the version of the whole store.
    timestamp
        When it landed, UTC.
    message
        What the writer said.
    symbol
        The symbol that it touched.
    change
        ``"write"``, ``"append"`` or ``"delete"``.
    rows
        Rows of the symbol afterwards.
    """

    number: int
    timestamp: datetime
    message: str
    symbol: str
    change: str
    rows: int


class SymbolView:
    """One symbol at one version; it never changes, whatever is written meanwhile.

    Attributes
    ----------
    name
        The symbol.
    version
        The version of the store that was asked for.
    changed
        The version that changed the symbol last, at or before ``version``.
    schema
        Columns in the user's order, and the index.
    row_count
        How many rows it has.
    column_ids
        The id of each column.
    metadata
        What the writer attached to it.
    """

    def __init__(self, repository: Repository, name: str, version: int, state: SymbolState) -> None:
        self.name = name
        self.version = version
        self.changed = state.changed
        self.schema: TableSchema = state.schema
        self.row_count = state.rows
        self.column_ids: Mapping[str, int] = dict(state.column_ids)
        self.metadata: dict[str, Any] = json.loads(json.dumps(dict(state.metadata)))
        self._repository = repository
        self._state = state

    def __repr__(self) -> str:
        return f"<SymbolView {self.name!r} version {self.version}: {self.row_count} rows>"

    @property
    def segment_count(self) -> int:
        """How many segments hold the symbol; known without opening a manifest."""
        return sum(entry.segments for entry in self._state.manifests)

    def index(self) -> SegmentIndex:
        """Return all segments, from the manifests; no segment is read."""
        state = self._state
        manifests = [self._repository.manifest(entry.reference) for entry in state.manifests]
        return SegmentIndex.from_manifests(
            state.id, manifests, self.schema, self.column_ids, rows=self.row_count
        )

    def source(self) -> SegmentSource:
        """Return what loads pieces of the symbol."""
        return SegmentSource(self._repository.objects, self.schema, self.column_ids)

    def take(
        self, rows: Sequence[int] | Integers, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return single rows by their position; only what holds them is read.

        Parameters
        ----------
        rows
            Positions from 0, in any order, repeats allowed.
        columns
            Names; all by default. They come in the order of the schema.

        Raises
        ------
        InvalidInputError
            For a position that is none.
        ColumnNotFoundError
            For a name that is no column.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        outside = wanted[(wanted < 0) | (wanted >= self.row_count)]
        if len(outside):
            raise InvalidInputError(
                f"symbol {self.name!r} has {self.row_count} rows and no row {int(outside[0])}",
                hint=f"rows count from 0 to {self.row_count - 1}",
                symbol=self.name,
            )
        index = self.index()
        if columns is not None:
            index = index.keep_columns(columns, clause="take", reason="not asked for")
        if not len(wanted):
            return index.schema.empty()
        source = self.source()
        slice_of = np.searchsorted(index.slice_row_start, wanted, "right") - 1
        order = np.argsort(slice_of, kind="stable")
        numbers, begins = np.unique(slice_of[order], return_index=True)
        parts = []
        for number, places in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            low, high = np.searchsorted(index.slice_number, [number, number + 1]).tolist()
            strips = [source.take(index.source(at), wanted[places]) for at in range(low, high)]
            held = {name: strip.column(name) for strip in strips for name in strip.column_names}
            names = index.schema.names
            parts.append(pa.table([held[name] for name in names], schema=index.schema.arrow))
        joined = pa.concat_tables(parts)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return joined if (place[1:] > place[:-1]).all() else joined.take(pa.array(place))


class Repository:
    """A store: opened with :meth:`open`, safe to use from several threads.

    Several processes may have one store open; none of them locks it.
    """

    def __init__(self, objects: ObjectStore, identity: str, *, read_only: bool) -> None:
        self.objects = objects
        self.id = identity
        self.read_only = read_only
        self.history = History(objects)
        self._manifests: dict[str, Manifest] = {}

    @classmethod
    def open(
        cls, uri: str | os.PathLike[str], *, create: bool = True, read_only: bool = False
    ) -> Repository:
        """Open a store.

        Parameters
        ----------
        uri
            A path, ``file:///path``, ``memory://name``, or ``memory://`` for a new one in memory.
        create
            Make a store where there is nothing.
        read_only
            Refuse every write; then nothing is made, and no file is touched.

        Raises
        ------
        StoreNotFoundError
            When there is nothing, and none is to be made.
        NotAStoreError
            When there is something else; it is left as it is.
        FormatVersionError
            When another version of the format wrote it; it is left as it is.
        """
        objects = open_objects(uri)
        identity = open_store(objects, create=create, read_only=read_only)
        return cls(objects, identity.id, read_only=read_only)

    def __repr__(self) -> str:
        return f"<Repository {self.uri!r}{' read-only' if self.read_only else ''}>"

    @property
    def uri(self) -> str:
        """Where the store is; other processes can open it by this, unless it is in memory."""
        return self.objects.uri

    # --- reading ----------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The newest version of the store; 0 while nothing was committed."""
        return self.history.newest_number

    def symbols(
        self, pattern: str | None = None, *, as_of: int | datetime | None = None
    ) -> list[str]:
        """Return the names of the symbols, sorted.

        Parameters
        ----------
        pattern
            A regular expression that the whole name matches; all names by default.
        as_of
            A version, or an instant; the newest version by default.
        """
        names = sorted(self._resolve(as_of).snapshot.symbols)
        if pattern is None:
            return names
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise InvalidInputError(f"{pattern!r} is no regular expression: {error}") from error
        return [name for name in names if matches(name)]

    def versions(self, symbol: str) -> list[int]:
        """Return the numbers of the versions that touched a symbol, the oldest first.

        Raises
        ------
        SymbolNotFoundError
            When no commit ever touched a symbol of that name.
        """
        return [version.number for version in self.log(symbol)]

    def log(self, symbol: str | None = None) -> list[Version]:
        """Return what was done to a symbol, or to all of them, the oldest first.

        Raises
        ------
        SymbolNotFoundError
            When no commit ever touched a symbol of that name.
        """
        if symbol is not None:
            check_symbol_name(symbol)
        found = [
            Version(
                entry.number,
                timestamp_of(entry),
                entry.message,
                change.name,
                change.kind,
                change.rows,
            )
            for entry in self.history.entries()
            for change in reversed(entry.changes)
            if symbol is None or change.name == symbol
        ]
        if symbol is not None and not found:
            raise SymbolNotFoundError.for_name(symbol, self.symbols())
        return found[::-1]

    def view(self, symbol: str, as_of: int | datetime | None = None) -> SymbolView:
        """Return a symbol as it is, or as it was.

        Parameters
        ----------
        symbol
            Its name.
        as_of
            A version, or an instant with a time zone; the newest version by default.

        Raises
        ------
        SymbolNotFoundError, VersionNotFoundError
            When there is no such symbol, or no such version.
        """
        check_symbol_name(symbol)
        commit = self._resolve(as_of)
        state = commit.snapshot.symbols.get(symbol)
        if state is None:
            existing = sorted(commit.snapshot.symbols)
            raise SymbolNotFoundError.for_name(symbol, existing, version=commit.number)
        return SymbolView(self, symbol, commit.number, state)

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest, kept from an earlier call where there was one."""
        found = self._manifests.get(reference.object)
        if found is None or found.reference != reference:
            found = self._manifests[reference.object] = Manifest(self.objects, reference)
            while len(self._manifests) > _KEPT_MANIFESTS:
                self._manifests.pop(next(iter(self._manifests)), None)
        return found

    def resolve(self, commit: str) -> int | None:
        """Return the version that a commit id landed as; None if it did not land."""
        return self.history.resolve(commit)

    def _resolve(self, as_of: int | datetime | None) -> Commit:
        if as_of is None:
            return self.history.newest()
        if isinstance(as_of, datetime):
            return self.history.as_of(as_of)
        if isinstance(as_of, int) and not isinstance(as_of, bool):
            return self.history.at(as_of)
        raise InvalidInputError(
            f"as_of={as_of!r} is no version",
            hint="give a version number, or a datetime with a zone",
        )

    # --- writing ----------------------------------------------------------------------------------

    def write(
        self,
        symbol: str,
        data: Any,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Write a table as a symbol, new or in place of what it was; return the new version.

        Parameters
        ----------
        symbol
            Its name.
        data
            A table of any kind that :mod:`tessel.store.frames` takes.
        index
            The column that is the time index: a timestamp, date or integer that never goes back
            and has no missing values.
        sort
            Sort the rows by the index first; rows of equal times keep their order.
        metadata
            Plain JSON to keep with the symbol.

        Raises
        ------
        InvalidInputError
            In one of its kinds, when the data cannot be taken; nothing was changed.
        CommitConflictError
            When another writer changed the symbol meanwhile; nothing was changed.
        """
        with self.transaction(f"write {symbol}") as transaction:
            transaction.write(symbol, data, index=index, sort=sort, metadata=metadata)
        return transaction.landed

    def append(self, symbol: str, data: Any) -> int:
        """Add rows at the end of a symbol; return the new version.

        The columns are those of the symbol, in any order, with the same types (a column of nulls
        without a type goes with any). With an index, no row is before the last one of the symbol.

        Raises
        ------
        SymbolNotFoundError
            When there is no such symbol.
        SchemaMismatchError
            When columns or types differ; lists all differences.
        UnsortedIndexError
            When the index goes back, in the data or below the last time of the symbol.
        """
        with self.transaction(f"append {symbol}") as transaction:
            transaction.append(symbol, data)
        return transaction.landed

    def delete(self, symbol: str) -> int:
        """Delete a symbol; earlier versions keep it. Return the new version."""
        with self.transaction(f"delete {symbol}") as transaction:
            transaction.delete(symbol)
        return transaction.landed

    def transaction(self, message: str = "") -> Transaction:
        """Gather changes of several symbols into one commit.

        ``with repository.transaction("end of day") as tx: tx.append(…); tx.write(…)``. The commit
        lands when the block ends; if the block raises, nothing of it does. A transaction without
        changes makes no version.
        """
        if self.read_only:
            raise refuse_writes(self.uri)
        if not isinstance(message, str):
            raise InvalidInputError(f"the message of a transaction is text, not {message!r}")
        return Transaction(
            self.objects, self.history, self.history.newest(), message, self.manifest
        )

"""Changes of several symbols on their way into one commit."""

from __future__ import annotations

import dataclasses
import itertools
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tessel.errors import InvalidInputError, SchemaMismatchError, SymbolNotFoundError
from tessel.expression.schema import TableSchema
from tessel.store.frames import Frame, describe_differences, read_frame
from tessel.store.history import (
    Change,
    Commit,
    Extension,
    History,
    ManifestEntry,
    Removal,
    Replacement,
    SymbolState,
)
from tessel.store.index_column import check_index_type, checked_order, sorted_by
from tessel.store.manifest import (
    Extent,
    Manifest,
    ManifestReference,
    build_manifest,
    join_manifests,
)
from tessel.store.names import check_symbol_name
from tessel.store.objects import ObjectStore
from tessel.store.segment import (
    PackWriter,
    SegmentWriter,
    WrittenSlice,
    assign_column_ids,
    normalise,
)

__all__ = ["Transaction"]

_FOLDED = 16
"""So many small manifests of one size class are joined into one by the next append."""

_APPEND_HINT = (
    "rows before the last time cannot be appended: write the symbol anew with all its rows and "
    "sort=True"
)


class Transaction:
    """Writes segments and manifests at once, and one log entry when it commits.

    Small segments wait for the commit, in packs that all symbols share.

    Made by ``Repository.transaction``. Each verb sees what the ones before it did. A transaction
    is used by one thread at a time.
    """

    def __init__(
        self,
        objects: ObjectStore,
        history: History,
        base: Commit,
        message: str,
        manifest: Callable[[ManifestReference], Manifest],
    ) -> None:
        self._objects = objects
        self._history = history
        self._base = base
        self._message = message
        self._manifest = manifest
        self._symbols = base.snapshot.overlay()
        self._changes: dict[str, Change] = {}
        self._pack = PackWriter(objects)
        self._landed: int | None = None
        self._abandoned = False

    @property
    def landed(self) -> int:
        """The version that the transaction became; known once its block has ended.

        Raises
        ------
        InvalidInputError
            While it has not.
        """
        if self._landed is None:
            raise InvalidInputError("the transaction has not landed yet")
        return self._landed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self._abandoned = True

    @property
    def base_version(self) -> int:
        """The version that the transaction started from; read what its changes depend on there."""
        return self._base.number

    # --- verbs ------------------------------------------------------------------------------------

    def write(
        self,
        symbol: str,
        data: Any,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a table as a symbol; see ``Repository.write``."""
        self._check_open()
        check_symbol_name(symbol)
        kept = _checked_metadata(metadata)
        frame = read_frame(data)
        index = frame.index if index is None else index
        if index is not None:
            check_index_type(frame.schema, index)
        elif sort:
            raise InvalidInputError(
                "sort=True without an index: there is nothing to sort by",
                hint='name the time column with index="column"',
            )
        schema = TableSchema(frame.schema, index)
        before = self._symbols.get(symbol)
        first_id = 0 if before is None else before.next_column_id
        state = SymbolState(
            id=secrets.randbits(63) if before is None else before.id,
            schema=schema,
            column_ids=assign_column_ids(schema, first_id),
            next_column_id=first_id + len(schema.names),
            metadata=kept,
        )
        added = self._write_rows(state, _in_order(frame, index, sort))
        state = dataclasses.replace(state, manifests=added, rows=sum(e.rows for e in added))
        self._symbols[symbol] = state
        self._changes[symbol] = Replacement(symbol, state)

    def append(self, symbol: str, data: Any) -> None:
        """Add rows at the end of a symbol; see ``Repository.append``."""
        self._check_open()
        check_symbol_name(symbol)
        state = self._existing(symbol)
        frame = read_frame(data)
        tables = _as_declared(symbol, frame, state.schema.arrow)
        index = state.schema.index
        if index is not None:
            tables = checked_order(tables, index, after=state.last_time, hint=_APPEND_HINT)
        added = self._write_rows(state, tables)
        self._symbols[symbol] = dataclasses.replace(
            state,
            manifests=(*state.manifests, *added),
            rows=state.rows + sum(entry.rows for entry in added),
        )
        self._changes[symbol] = self._extended(symbol, state, added)

    def delete(self, symbol: str) -> None:
        """Delete a symbol; see ``Repository.delete``."""
        self._check_open()
        check_symbol_name(symbol)
        self._existing(symbol)
        del self._symbols[symbol]
        if symbol in self._base.snapshot.symbols:
            self._changes[symbol] = Removal(symbol)
        else:
            self._changes.pop(symbol, None)

    def commit(self) -> int:
        """Land all changes as one version; called when the block ends."""
        self._check_open()
        landed = self._base.number
        if self._changes:
            # Whatever comes of it, these changes are not tried twice.
            self._abandoned = True
            self._pack.flush()
            changes = list(self._changes.values())
            landed = self._history.commit(self._base, changes, self._message).number
        self._landed = landed
        return landed

    # --- inside -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._landed is not None or self._abandoned:
            raise InvalidInputError(
                "the transaction has ended and takes no more changes",
                hint="begin another one with transaction()",
            )

    def _existing(self, symbol: str) -> SymbolState:
        state = self._symbols.get(symbol)
        if state is None:
            raise SymbolNotFoundError.for_name(symbol, sorted(self._symbols))
        return state

    def _extended(
        self, symbol: str, before: SymbolState, added: tuple[ManifestEntry, ...]
    ) -> Change:
        """Return the net change of a symbol after an append."""
        earlier = self._changes.get(symbol)
        if isinstance(earlier, Replacement):
            return Replacement(symbol, self._symbols[symbol])
        if isinstance(earlier, Extension):
            return dataclasses.replace(earlier, added=(*earlier.added, *added))
        folded, fold = self._fold(before)
        return Extension(symbol, before.id, added, folded, fold)

    def _write_rows(
        self, state: SymbolState, tables: Iterable[pa.Table]
    ) -> tuple[ManifestEntry, ...]:
        writer = SegmentWriter(self._objects, state.schema, state.column_ids, self._pack)
        slices = writer.write(tables)
        if not slices:
            return ()
        types = {state.column_ids[f.name]: f.type for f in state.schema.arrow}
        data, reference = build_manifest(state.id, slices, types)
        self._objects.put_if_absent(reference.object, data)
        return (_entry(reference, slices),)

    def _fold(self, state: SymbolState) -> tuple[tuple[str, ...], ManifestEntry | None]:
        """Join the last manifests of a symbol once there are many of one size class.

        Classes are powers of the number joined, so each segment's row is rewritten a number of
        times that grows with the logarithm of the appends, and a symbol has few manifests.
        """
        entries = state.manifests
        if len(entries) < _FOLDED:
            return (), None
        limit = _size_class(entries[-1])
        small = list(itertools.takewhile(lambda e: _size_class(e) <= limit, reversed(entries)))
        if len(small) < _FOLDED:
            return (), None
        run = small[::-1]
        parts = [Extent(self._manifest(entry.reference), 0, entry.rows) for entry in run]
        types = {state.column_ids[f.name]: f.type for f in state.schema.arrow}
        indexed = state.schema.index is not None
        data, reference = join_manifests(state.id, parts, types, indexed=indexed)
        self._objects.put_if_absent(reference.object, data)
        fold = ManifestEntry(
            reference,
            sum(entry.rows for entry in run),
            sum(entry.segments for entry in run),
            run[0].first_time,
            run[-1].last_time,
        )
        return tuple(entry.reference.object for entry in run), fold


def _entry(reference: ManifestReference, slices: Sequence[WrittenSlice]) -> ManifestEntry:
    return ManifestEntry(
        reference,
        rows=sum(part.rows for part in slices),
        segments=sum(len(part.segments) for part in slices),
        first_time=slices[0].first_time,
        last_time=slices[-1].last_time,
    )


def _size_class(entry: ManifestEntry) -> int:
    return (entry.segments.bit_length() - 1) // (_FOLDED.bit_length() - 1)


def _in_order(frame: Frame, index: str | None, sort: bool) -> Iterable[pa.Table]:
    if index is None:
        return frame.tables
    if not sort:
        return checked_order(frame.tables, index)
    tables = list(frame.tables)
    return [sorted_by(pa.concat_tables(tables), index)] if tables else []


def _as_declared(symbol: str, frame: Frame, declared: pa.Schema) -> Iterable[pa.Table]:
    """Return the tables with the columns of the symbol, in its order."""
    given = frame.schema
    for at, field in enumerate(given):
        # A column of untyped nulls is missing throughout, in whatever type.
        if pa.types.is_null(field.type) and field.name in declared.names:
            given = given.set(at, declared.field(field.name))
    differences = describe_differences(declared, given)
    if differences:
        raise SchemaMismatchError(
            f"the table has not the columns of symbol {symbol!r}",
            detail="\n".join(differences),
            hint="cast or rename the columns, or write the symbol anew",
            symbol=symbol,
            differences=differences,
        )
    return (normalise(table.select(declared.names), declared) for table in frame.tables)


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    try:
        copied = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the metadata of a symbol are plain JSON: {error}",
            hint="use text, numbers, booleans, None, lists and dictionaries with text keys",
        ) from error
    if copied != dict(metadata):
        raise InvalidInputError(
            "the metadata of a symbol would not come back as they are",
            hint="use text, numbers, booleans, None, lists and dictionaries with text keys",
        )
    found: dict[str, Any] = copied
    return found

"""One symbol at one version: what is known of it, and the way to its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.store.encodings.base import Integers
from tessel.store.history import SymbolState
from tessel.store.manifest import Manifest, ManifestReference, SegmentIndex, SegmentSource
from tessel.store.objects import ObjectStore

__all__ = ["SymbolView"]


class ManifestSource(Protocol):
    """Where a view finds bytes and manifests: a repository."""

    @property
    def objects(self) -> ObjectStore:
        """The objects of the store."""

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest, kept from an earlier call where there was one."""


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

    def __init__(
        self, repository: ManifestSource, name: str, version: int, state: SymbolState
    ) -> None:
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

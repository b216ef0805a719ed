"""One symbol at one version: what is known of it, and the way to its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.lru_cache import LruCache
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.piece import SegmentSource
from tessel.store.objects.base import ObjectStore

if TYPE_CHECKING:
    from tessel.store.pandas_shape import PandasShape
    from tessel.store.repository import Repository
    from tessel.store.single_rows import SingleRows

_MOST_SYMBOLS = 16
"""States of symbols of a repository of which the index, and random access, are kept ready."""

_MOST_SEGMENTS = 1 << 16
"""An index of more segments is kept by its users alone: it takes about a hundred bytes a
segment."""

_indexes: WeakKeyDictionary[ManifestSource, LruCache[_StateKey, SegmentIndex]] = WeakKeyDictionary()
_single_rows: WeakKeyDictionary[ManifestSource, LruCache[_StateKey, SingleRows]] = (
    WeakKeyDictionary()
)


@dataclass(frozen=True)
class _StateKey:
    """Tells states of symbols apart; only what is read through them counts."""

    id: int
    manifests: tuple[ManifestEntry, ...]
    state: SymbolState = field(hash=False)


class ManifestSource(Protocol):
    """Where a view finds bytes and manifests: a repository."""

    @property
    def id(self) -> str:
        """The id of the store."""

    @property
    def objects(self) -> ObjectStore:
        """The objects of the store."""

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest, kept from an earlier call where there was one."""


@checks_arguments
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
        self._repository = repository
        self._state = state
        self._large: ref[SegmentIndex] | None = None

    def __repr__(self) -> str:
        return f"<SymbolView {self.name!r} version {self.version}: {self.row_count} rows>"

    @cached
    def metadata(self) -> dict[str, Any]:
        """What the writer attached to it."""
        found: dict[str, Any] = json.loads(json.dumps(dict(self._state.metadata)))
        return found

    @cached
    def pandas(self) -> PandasShape | None:
        """What pandas showed of it, by column, where it was written from there."""
        shape = self._state.pandas
        names = {number: name for name, number in self.column_ids.items()}
        return None if shape is None else shape.keyed(names)

    @property
    def segment_count(self) -> int:
        """How many segments hold the symbol, those of dropped columns included.

        No manifest is opened unless rows were cut out of one.
        """
        if any(entry.cut for entry in self._state.manifests):
            return len(self.index())
        return sum(entry.segments for entry in self._state.manifests)

    def index(self) -> SegmentIndex:
        """Return all segments, from the manifests; no segment is read."""
        if sum(entry.segments for entry in self._state.manifests) > _MOST_SEGMENTS:
            index = None if self._large is None else self._large()
            if index is None:
                index = self._index()
                self._large = ref(index)
            return index
        cache = _indexes.setdefault(self._repository, LruCache(_MOST_SYMBOLS))
        return cache.get_or_make(self._key(), self._index)

    def _index(self) -> SegmentIndex:
        return self._state.index(self._repository.manifest)

    @property
    def store_id(self) -> str:
        """The id of the store that the symbol is in."""
        return self._repository.id

    def source(self, schema: TableSchema | None = None) -> SegmentSource:
        """Return what loads pieces of the symbol, with columns of the types that it declares.

        Parameters
        ----------
        schema
            By default the schema of the symbol.
        """
        return SegmentSource(self._repository.objects, schema or self.schema, self.column_ids)

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
        try:
            wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError.for_argument("take", "rows", "row numbers", rows) from error
        outside = wanted[(wanted < 0) | (wanted >= self.row_count)]
        if len(outside):
            raise InvalidInputError(
                f"symbol {self.name!r} has {self.row_count} rows and no row {int(outside[0])}",
                hint=f"rows count from 0 to {self.row_count - 1}",
                symbol=self.name,
            )
        return self._single_rows().take(wanted, columns)

    def _single_rows(self) -> SingleRows:
        """Return what finds single rows; kept by the repository for each state of a symbol."""
        from tessel.store.single_rows import SingleRows

        cache = _single_rows.setdefault(self._repository, LruCache(_MOST_SYMBOLS))
        return cache.get_or_make(self._key(), lambda: SingleRows(self.index(), self.source()))

    def _key(self) -> _StateKey:
        return _StateKey(self._state.id, self._state.manifests, self._state)


class PinnedViews:
    """Gives symbols at the version of one of them, so that a query sees one snapshot."""

    def __init__(self, repository: Repository, first: SymbolView) -> None:
        self._repository = repository
        self._first = first
        self.version = first.version

    def view(self, symbol: str, as_of: int | None) -> SymbolView:
        """Return a symbol; of the pinned version where ``as_of`` is None."""
        if symbol == self._first.name and as_of in (None, self.version):
            return self._first  # known already: another look-up would list the log again
        return self._repository.view(symbol, as_of=self.version if as_of is None else as_of)

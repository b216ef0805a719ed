"""What a library gives: rows, metadata, versions and descriptions of symbols."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

import tessel as ts
from tessel.api import Result, Store
from tessel.compat.arcticdb.items import (
    LibraryOptions,
    NameWithDType,
    OutputFormat,
    ReadRequest,
    StageResult,
    SymbolDescription,
    SymbolVersion,
    VersionedItem,
    VersionInfo,
)
from tessel.compat.arcticdb.query import (
    LazyDataFrame,
    QueryBuilder,
    bounds,
    group_key,
    tessel_query,
)
from tessel.errors import (
    InvalidInputError,
    NotFoundError,
    RefNotFoundError,
    SymbolNotFoundError,
    VersionNotFoundError,
)

OTHER_METADATA = "arcticdb.metadata"
"""The key under which metadata that are no mapping are kept."""
TIMESTAMP = "arcticdb.timestamp"
"""The key of a time among metadata, beside its ``zone``."""


_ENCODED = "arcticdb.snapshot."
"""What the tag of a snapshot begins with whose name a tag cannot have: its UTF-8 in hex follows."""


class Reads:
    """The part of a library that reads.

    Attributes
    ----------
    store
        The store that the library is.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        options: LibraryOptions,
        output_format: OutputFormat | str = OutputFormat.PANDAS,
    ) -> None:
        self.store = store
        self._name = name
        self._options = options
        self._output_format = output_format
        self._stages: dict[str, list[StageResult]] = {}

    @property
    def name(self) -> str:
        """The name of the library."""
        return self._name

    def options(self) -> LibraryOptions:
        """Return the options that have an effect, and the defaults of the others."""
        return self._options

    def __repr__(self) -> str:
        return f"Library({self._name!r}, {self.store.uri!r})"

    def __getitem__(self, symbol: str) -> VersionedItem:
        item: VersionedItem = self.read(symbol)
        return item

    def __contains__(self, symbol: str) -> bool:
        return self.has_symbol(symbol)

    # --- rows -------------------------------------------------------------------------------------

    def read(
        self,
        symbol: str,
        as_of: Any = None,
        date_range: Any = None,
        row_range: tuple[int | None, int | None] | None = None,
        columns: Sequence[str] | None = None,
        query_builder: QueryBuilder | None = None,
        output_format: OutputFormat | str | None = None,
        lazy: bool = False,
    ) -> Any:
        """Read a symbol.

        Parameters
        ----------
        symbol
            Its name.
        as_of
            A version of the library, -1 for the newest of the symbol, a snapshot, a ``datetime``.
        date_range, row_range, query_builder
            What is done to the rows, in this order.
        columns
            Columns of the result, in its order; the index comes along. None for all.
        output_format
            ``"pandas"``, ``"pyarrow"`` or ``"polars"``.
        lazy
            Return a query to go on with, which ``collect`` runs.

        Returns
        -------
        VersionedItem or LazyDataFrame

        Raises
        ------
        SymbolNotFoundError, VersionNotFoundError, ColumnNotFoundError
            For what does not exist.
        """
        chosen = None if columns is None else list(columns)
        form = output_format or self._output_format
        request = ReadRequest(symbol, as_of, date_range, row_range, chosen, query_builder, form)
        if lazy:
            return LazyDataFrame(self, request)
        view = self.store.view(symbol, as_of=self._as_of(symbol, as_of))
        result = self.store.read(symbol, query=self._query(request, view), as_of=view.version)
        data = rows_as(form, result, view, group_key(query_builder))
        labels: Any = getattr(data, "index", None)
        if view.pandas and view.pandas.range and type(labels).__name__ == "RangeIndex":
            _, start, step = view.pandas.range  # which parts of the rows have as well
            data.index = type(labels)(start, start + len(labels) * step, step, name=labels.name)
        if chosen == [] and hasattr(data, "iloc"):
            data = data.iloc[:, :0]
        return self._item(symbol, view, data)

    def head(
        self,
        symbol: str,
        n: int = 5,
        as_of: Any = None,
        columns: Sequence[str] | None = None,
        output_format: OutputFormat | str | None = None,
        lazy: bool = False,
    ) -> Any:
        """Read the first ``n`` rows; all but the last ``-n`` of a negative ``n``."""
        query = QueryBuilder().head(n)
        return self.read(symbol, as_of, None, None, columns, query, output_format, lazy)

    def tail(
        self,
        symbol: str,
        n: int = 5,
        as_of: Any = None,
        columns: Sequence[str] | None = None,
        output_format: OutputFormat | str | None = None,
        lazy: bool = False,
    ) -> Any:
        """Read the last ``n`` rows; all but the first ``-n`` of a negative ``n``."""
        query = QueryBuilder().tail(n)
        found = self.read(symbol, as_of, None, None, columns, query, output_format, lazy)
        labels: Any = None if lazy else getattr(found.data, "index", None)
        if type(labels).__name__ == "RangeIndex" and columns is not None and not len(columns):
            rows = self.store.view(symbol, as_of=found.version).row_count  # it tells their places
            found.data.index = labels + (rows - len(labels)) * labels.step
        return found

    def _query(self, request: ReadRequest, view: Any) -> ts.QueryBuilder:
        query = ts.QueryBuilder()
        if request.date_range is not None:
            query = query.date_range(*bounds(request.date_range))
        if request.row_range is not None:
            query = query.row_range(*request.row_range)
        builder = request.query_builder
        if builder is not None:
            query = query.then(*tessel_query(builder).clauses)
        if request.columns is not None:
            schema = self.store.schema(request.symbol, query, as_of=view.version)
            key = group_key(builder)
            levels = [schema.index, *index_levels(view)] if key is None else [key]
            wanted = {*request.columns, *levels}
            known = [name for name in schema.names if name in wanted]
            chosen = [*known, *(n for n in request.columns if n not in schema.names)]
            # Rows without a column at all are a habit of pandas; rows_as leaves the column out.
            query = query.select(chosen or schema.names[:1])
        return query

    def _as_of(self, symbol: str, as_of: Any) -> Any:
        """Return a version as Tessel takes it."""
        if isinstance(as_of, datetime) and as_of.tzinfo is None:
            return as_of.replace(tzinfo=UTC)
        if isinstance(as_of, str):  # the store would take a time as well
            if (tag := tag_of(as_of)) in self.store.tags():
                return tag
            raise RefNotFoundError.for_name("tag", as_of, sorted(self.store.tags()))
        if not isinstance(as_of, int) or as_of >= 0:
            return as_of
        versions = self._versions_of(symbol)
        if len(versions) < -as_of:
            raise VersionNotFoundError(
                f"{symbol!r} has no version {as_of}: it has {len(versions)}",
                hint="-1 is the newest",
            )
        return versions[as_of]

    def _versions_of(self, symbol: str) -> list[int]:
        """Return the versions that changed a symbol since it was made last, the oldest first."""
        made = itertools.takewhile(lambda v: v.change != "delete", self.store.log(symbol))
        return sorted({version.number for version in made})

    def _item(self, symbol: str, view: Any, data: Any = None) -> VersionedItem:
        timestamp = None
        with contextlib.suppress(VersionNotFoundError):  # it may have expired
            entry = self.store.at(view.changed).entry
            timestamp = None if entry is None else entry.timestamp_us * 1000
        metadata = _given_metadata(view.metadata.get(OTHER_METADATA, view.metadata)) or None
        return VersionedItem(
            symbol, self._name, data, view.changed, metadata, self.store.uri, timestamp
        )

    # --- about symbols ----------------------------------------------------------------------------

    def has_symbol(self, symbol: str, as_of: Any = None) -> bool:
        """Return whether a symbol exists, at a version."""
        with contextlib.suppress(NotFoundError):
            self.store.view(symbol, as_of=self._as_of(symbol, as_of))
            return True
        return False

    def list_symbols(self, snapshot_name: str | None = None, regex: str | None = None) -> list[str]:
        """Return the names of the symbols, of a snapshot, in which a pattern is found."""
        pattern = None if regex is None else f"(?s:.*)(?:{regex})(?s:.*)"
        return self.store.symbols(pattern, as_of=snapshot_name and tag_of(snapshot_name))

    def read_metadata(self, symbol: str, as_of: Any = None) -> VersionedItem:
        """Read the metadata of a symbol, without its rows."""
        return self._item(symbol, self.store.view(symbol, as_of=self._as_of(symbol, as_of)))

    def get_description(self, symbol: str, as_of: Any = None) -> SymbolDescription:
        """Describe what is stored under a symbol; no row is read."""
        view = self.store.view(symbol, as_of=self._as_of(symbol, as_of))
        index, levels = view.schema.index, index_levels(view)
        shown = {} if view.pandas is None else dict(view.pandas.levels)
        named = {
            name: NameWithDType(shown.get(name, name), str(view.schema.type_of(name)))
            for name in view.schema.names
        }
        ends: tuple[Any, Any] = (np.datetime64("NaT", "ns"), np.datetime64("NaT", "ns"))
        if index is not None and view.row_count:
            scan = self.store.scan(symbol, as_of=view.version)
            row = scan.agg(low=(index, "min"), high=(index, "max")).collect().to_arrow()
            ends = (row["low"][0].as_py(), row["high"][0].as_py())
        stamp = self._item(symbol, view).timestamp
        return SymbolDescription(
            columns=tuple(each for name, each in named.items() if name not in levels),
            index=tuple(named[name] for name in levels),
            index_type=("NA", "index", "multi_index")[min(len(levels), 2)],
            row_count=view.row_count,
            last_update_time=None if stamp is None else datetime.fromtimestamp(stamp / 1e9, UTC),
            date_range=ends,
            sorted="UNKNOWN" if index is None else "ASCENDING",
        )

    # --- versions and snapshots -------------------------------------------------------------------

    def list_versions(
        self,
        symbol: str | None = None,
        snapshot: str | None = None,
        latest_only: bool = False,
        skip_snapshots: bool = False,
    ) -> dict[SymbolVersion, VersionInfo]:
        """Return the versions of a symbol, or of all, the newest first.

        With a ``snapshot`` only those that it shows; with ``latest_only`` one a symbol.
        """
        tags = {} if skip_snapshots and snapshot is None else self.store.tags()
        snapshot = snapshot and tag_of(snapshot)
        if snapshot is not None and snapshot not in tags:
            self.store.at(snapshot)  # its error names what is near
        found: dict[SymbolVersion, VersionInfo] = {}
        for name in self.store.symbols() if symbol is None else [symbol]:
            try:
                log = {version.number: version for version in self.store.log(name)}
                numbers = self._versions_of(name)
            except SymbolNotFoundError:
                continue
            shown: dict[int, list[str]] = {}
            for tag, at in tags.items():
                before = [number for number in numbers if number <= at]
                if before:
                    shown.setdefault(before[-1], []).append(tag)
            if snapshot is not None:
                numbers = [number for number in numbers if snapshot in shown.get(number, ())]
            for number in reversed(numbers[-1:] if latest_only else numbers):
                tagged = [] if skip_snapshots else list(map(_name_of, shown.get(number, ())))
                info = VersionInfo(log[number].timestamp, False, tagged)
                found[SymbolVersion(name, number)] = info
        return found

    def list_snapshots(self, load_metadata: bool = True) -> Any:
        """Return the names of the snapshots; with ``load_metadata`` as keys, each with None."""
        names = [n for n in map(_name_of, self.store.tags()) if not n.startswith("arcticdb.")]
        return dict.fromkeys(names) if load_metadata else names

    def snapshot(
        self,
        snapshot_name: str,
        metadata: Any = None,
        skip_symbols: list[str] | None = None,
        versions: dict[str, int] | None = None,
    ) -> None:
        """Name the state of the whole library for ever.

        Raises
        ------
        InvalidInputError
            For metadata, and for a choice of symbols or versions: a snapshot holds them all.
        RefExistsError
            For a name that was used before.
        """
        parts = {"metadata": metadata, "skip_symbols": skip_symbols, "versions": versions}
        for name, value in parts.items():
            if value:
                raise InvalidInputError(
                    f"snapshot({snapshot_name!r}) takes no {name}",
                    hint="it names one version of the whole library",
                )
        self.store.create_tag(tag_of(snapshot_name))

    def delete_snapshot(self, snapshot_name: str) -> None:
        """Delete a snapshot; its name is never used again."""
        self.store.delete_tag(tag_of(snapshot_name))


def tag_of(snapshot: str) -> str:
    """Return the tag that a snapshot is: of its name, where a tag can have it."""
    is_tag = re.fullmatch(r"(?!\d+$)\w[\w./-]*", snapshot, re.ASCII) or not snapshot
    return snapshot if is_tag else _ENCODED + snapshot.encode().hex()


def _name_of(tag: str) -> str:
    """Return the name of the snapshot that a tag is."""
    encoded = tag.startswith(_ENCODED)
    return bytes.fromhex(tag.removeprefix(_ENCODED)).decode() if encoded else tag


def _given_metadata(value: Any) -> Any:
    """Return metadata as they were given: with times of pandas where they are marked."""
    if isinstance(value, list):
        return [_given_metadata(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TIMESTAMP, "zone"}:
        import pandas

        stamp = pandas.Timestamp(value[TIMESTAMP])
        return stamp if value["zone"] is None else stamp.tz_convert(value["zone"])
    return {key: _given_metadata(each) for key, each in value.items()}


def rows_as(output_format: OutputFormat | str, result: Result, view: Any, key: str | None) -> Any:
    """Return the rows in a format; a frame of pandas has the symbol's index, or the group's key."""
    wanted = output_format.lower()
    if wanted == "pyarrow":
        return result.to_arrow()
    if wanted == "polars":
        return result.to_polars()
    if wanted != "pandas":
        raise InvalidInputError(
            f"output_format={output_format!r} is none", hint="pandas, pyarrow or polars"
        )
    frame = result.to_pandas()
    columns = getattr(frame, "columns", ())  # a Series has none
    if key is not None and key in columns:
        return frame.set_index(key)
    index = result.index
    if index is None or index not in columns:
        return frame
    # Of a resample the buckets are a column, which the default leaves where it is.
    shown = {} if view.pandas is None else dict(view.pandas.levels)
    return result.to_pandas(index=True).rename_axis(shown.get(index, index))


def index_levels(view: Any) -> list[str]:
    """Return the columns that are levels of the index in pandas: those, or the time index."""
    shown = () if view.pandas is None else view.pandas.levels
    index = view.schema.index
    return [name for name, _ in shown] or ([] if index is None else [index])

"""A library: what reads and writes single symbols, with batches and joins of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import tessel as ts
from tessel.api import LazyTable, Result
from tessel.compat.arcticdb.items import (
    DataError,
    DeleteRequest,
    OutputFormat,
    ReadInfoRequest,
    ReadRequest,
    SymbolDescription,
    UpdatePayload,
    VersionedItem,
    VersionedItemWithJoin,
    VersionRequestType,
    WriteMetadataPayload,
    WritePayload,
)
from tessel.compat.arcticdb.query import (
    LazyDataFrameCollection,
    QueryBuilder,
    group_key,
    join_kind,
    tessel_query,
)
from tessel.compat.arcticdb.reading import index_levels, rows_as
from tessel.compat.arcticdb.writing import Writes
from tessel.errors import InvalidInputError, PlanError, TesselError, UnknownVerbError, repeated

Batch = list[VersionedItem | DataError]
NOT_OFFERED = {
    "admin_tools": "library.store.uri names the folder, whose files have the sizes",
    "compact_data_explain_plan": "library.store.compact(symbol, dry_run=True) says what would be",
    "enterprise_options": "there are none",
    "write_pickle_batch": "write tables, or keep plain JSON as metadata",
}
"""What a library of ArcticDB has and this one has not, with what is there instead."""


class Library(Writes):
    """A collection of symbols: a Tessel store under ArcticDB's names."""

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs

        def __getattr__(self, name: str) -> Any:
            if name in NOT_OFFERED:
                raise UnknownVerbError(f"{name} is not offered", hint=NOT_OFFERED[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- batches ----------------------------------------------------------------------------------

    def write_batch(self, payloads: list[WritePayload], **options: Any) -> Batch:
        """Write several symbols, each in a commit of its own."""
        return _each_once(
            payloads, lambda p: self.write(p[0], p[1], p[2], index_column=p[3], **options)
        )

    def append_batch(self, append_payloads: list[WritePayload], **options: Any) -> Batch:
        """Append to several symbols, each in a commit of its own."""
        return _each_once(
            append_payloads, lambda p: self.append(p[0], p[1], p[2], index_column=p[3], **options)
        )

    def update_batch(self, update_payloads: list[UpdatePayload], **options: Any) -> Batch:
        """Update several symbols, each in a commit of its own."""
        return _each_once(
            update_payloads,
            lambda p: self.update(p.symbol, p.data, p.metadata, date_range=p.date_range, **options),
        )

    def write_metadata_batch(self, payloads: list[WriteMetadataPayload], **options: Any) -> Batch:
        """Replace the metadata of several symbols."""
        return _each_once(payloads, lambda p: self.write_metadata(p[0], p[1], **options))

    def read_batch(
        self,
        symbols: Iterable[str | ReadRequest],
        query_builder: QueryBuilder | None = None,
        output_format: OutputFormat | str | None = None,
        lazy: bool = False,
    ) -> Any:
        """Read several symbols; what fails is a ``DataError`` in its place."""
        requests = _requests(symbols, query_builder, output_format)
        if lazy:
            frames = [self.read(**each._asdict(), lazy=True) for each in requests]
            return LazyDataFrameCollection(frames)
        return _each(requests, lambda request: self.read(**request._asdict()))

    def read_batch_and_join(
        self,
        symbols: Iterable[str | ReadRequest],
        query_builder: QueryBuilder,
        output_format: OutputFormat | str | None = None,
    ) -> VersionedItemWithJoin:
        """Read several symbols one after the other as one table; the query begins with concat."""
        requests = _requests(symbols, None, output_format)
        join = join_kind(query_builder)
        if join is None or not requests:
            raise PlanError(
                "read_batch_and_join takes symbols, and a query that begins with concat",
                hint='QueryBuilder().concat("outer")',
            )
        parts, views = [], []
        for request in requests:
            at = self.store.view(request.symbol, as_of=self._as_of(request.symbol, request.as_of))
            query = self._query(request, at)
            parts.append(self.store.scan(request.symbol, as_of=at.version).then(*query.clauses))
            views.append(at)
        together = _joined(parts, views)
        first, *others = together.parts
        clauses = tessel_query(query_builder).clauses
        by_time = any(clause.structure.uses_index for clause in clauses)
        together_as = first.merge if by_time else first.concat
        whole = together_as(*others, join=join) if others else first
        result = whole.then(*clauses).collect()
        form = requests[0].output_format or self._output_format
        key = group_key(query_builder) or result.index
        shows_rows = form.lower() == "pandas" and key is None
        data = together.frame(result) if shows_rows else rows_as(form, result, views[0], key)
        items = [
            self._item(*each) for each in zip((r.symbol for r in requests), views, strict=True)
        ]
        return VersionedItemWithJoin(items, data)

    def read_metadata_batch(self, symbols: list[str | ReadInfoRequest]) -> Batch:
        """Read the metadata of several symbols."""
        return _each(_infos(symbols), lambda each: self.read_metadata(*each))

    def get_description_batch(
        self, symbols: list[str | ReadInfoRequest]
    ) -> list[SymbolDescription | DataError]:
        """Describe several symbols."""
        return _each(_infos(symbols), lambda each: self.get_description(*each))

    def delete_batch(
        self, delete_requests: Iterable[str | DeleteRequest]
    ) -> list[DataError | None]:
        """Delete several symbols."""
        requests = [(r, None) if isinstance(r, str) else tuple(r) for r in delete_requests]
        return _each(requests, lambda each: self.delete(*each))


def _each(items: Iterable[Any], do: Callable[[Any], Any]) -> list[Any]:
    """Do something for each item, which begins with its symbol; errors take their place."""
    found = []
    for item in items:
        try:
            found.append(do(item))
        except TesselError as error:
            found.append(DataError(item[0], error, *_requested(item)))
    return found


def _requested(item: Any) -> tuple[VersionRequestType | None, Any]:
    """Return how a request to read asks for a version, and for which."""
    if not isinstance(item, ReadRequest | ReadInfoRequest):
        return None, None
    as_of = item.as_of
    if isinstance(as_of, datetime):
        return VersionRequestType.TIMESTAMP, int(as_of.timestamp() * 1e9)
    kinds = {type(None): VersionRequestType.LATEST, str: VersionRequestType.SNAPSHOT}
    return kinds.get(type(as_of), VersionRequestType.SPECIFIC), as_of


def _each_once(payloads: Sequence[Any], change: Callable[[Any], Any]) -> Batch:
    """Change the symbol of each payload, as :func:`_each`; none may have two."""
    if (twice := repeated(each.symbol for each in payloads)) is not None:
        raise InvalidInputError(
            f"{twice!r} is in the batch more than once", hint="put its rows together first"
        )
    return _each(payloads, change)


def _requests(
    symbols: Iterable[str | ReadRequest],
    query: QueryBuilder | None,
    output_format: OutputFormat | str | None,
) -> list[ReadRequest]:
    requests = [ReadRequest(each) if isinstance(each, str) else each for each in symbols]
    if query is not None and any(each.query_builder is not None for each in requests):
        raise PlanError(
            "a query for the batch goes with requests that have none",
            hint="QueryBuilder().then(first).then(second) makes one of two",
        )
    return [
        each._replace(
            query_builder=query or each.query_builder,
            output_format=each.output_format or output_format,
        )
        for each in requests
    ]


def _infos(symbols: Iterable[str | ReadInfoRequest]) -> list[ReadInfoRequest]:
    return [ReadInfoRequest(each) if isinstance(each, str) else each for each in symbols]


# --- symbols that are read as one table ----------------------------------------------------------


class _Joined(NamedTuple):
    """Parts whose columns have the same names, and what a frame of their rows shows.

    Attributes
    ----------
    parts
        The symbols.
    levels
        The columns that are the index, with the name of each, None where those of the parts differ.
    series
        The column that is a Series, with its name.
    """

    parts: list[LazyTable]
    levels: dict[str, str | None]
    series: tuple[str, Any] | None

    def frame(self, result: Result) -> Any:
        """Return the rows as a frame or a Series of pandas."""
        frame = result.to_pandas(index=False)
        if all(name in frame.columns for name in self.levels) and self.levels:
            frame = frame.set_index(list(self.levels)).rename_axis(list(self.levels.values()))
        if self.series is not None and list(map(str, frame.columns)) == [self.series[0]]:
            return frame.iloc[:, 0].rename(self.series[1])
        return frame


def _joined(parts: Sequence[LazyTable], views: Sequence[Any]) -> _Joined:
    """Give the levels of the index, by place, and the columns that are Series one name each.

    Instants of several time zones become those of UTC, without a zone.

    Raises
    ------
    InvalidInputError
        Where the parts have other numbers of levels.
    """
    levels = [index_levels(view) for view in views]
    if len(set(map(len, levels))) > 1:
        raise InvalidInputError(
            f"the symbols have indexes of {', '.join(str(len(each)) for each in levels)} levels",
            hint="symbols that are put one after the other have the same number of levels",
        )
    shown = [{} if view.pandas is None else dict(view.pandas.levels) for view in views]
    made, found = list(parts), {}
    for place, names in enumerate(zip(*levels, strict=True)):
        name = _renamed(made, names, f"level_{place}" if len(levels[0]) > 1 else "index")
        kinds = {part.schema().type_of(name) for part in made}
        if len({getattr(kind, "tz", None) for kind in kinds}) > 1:
            made[:] = [part.apply(name, ts.col(name).cast("timestamp[ns]")) for part in made]
        titles = {names_of.get(own, own) for names_of, own in zip(shown, names, strict=True)}
        found[name] = titles.pop() if len(titles) == 1 else None
    series = [None if view.pandas is None else view.pandas.series for view in views]
    columns = [each[0] for each in series if each is not None]
    if len(columns) < len(series):
        return _Joined(made, found, None)
    titles = {each[1] for each in series if each is not None}
    name = _renamed(made, columns, "values")
    return _Joined(made, found, (name, titles.pop() if len(titles) == 1 else None))


def _renamed(parts: list[LazyTable], names: Sequence[str], other: str) -> str:
    """Give columns one name, that of all or another one, and return it."""
    name = names[0] if len(set(names)) == 1 else other
    parts[:] = [
        part if own == name else part.rename({own: name})
        for part, own in zip(parts, names, strict=True)
    ]
    return name

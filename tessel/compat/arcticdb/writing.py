"""What a library takes: rows and metadata, and what deletes them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

import tessel as ts
from tessel.api import LazyTable
from tessel.compat.arcticdb.items import (
    MergeStrategy,
    StagedDataFinalizeMethod,
    StageResult,
    VersionedItem,
)
from tessel.compat.arcticdb.query import bounds
from tessel.compat.arcticdb.reading import OTHER_METADATA, TIMESTAMP, Reads
from tessel.errors import InvalidInputError, UnsortedIndexError, UnsupportedTypeError, shown


class Writes(Reads):
    """The part of a library that writes. Each call is one commit."""

    def write(
        self,
        symbol: str,
        data: Any,
        metadata: Any = None,
        prune_previous_versions: bool = False,
        staged: bool = False,
        validate_index: bool = True,
        index_column: bool = False,
    ) -> VersionedItem:
        """Write a table as a symbol, new or in place of what it was.

        Parameters
        ----------
        symbol
            Its name.
        data
            A frame of pandas or Polars, a table of Arrow.
        metadata
            Plain JSON to keep with this version.
        prune_previous_versions
            Taken, and without effect; see the package.
        validate_index
            Whether a frame whose times go back is refused; it has no time index else.
        staged
            Stage the rows instead, for ``finalize_staged_data``.
        index_column
            Whether the first column of a table of Arrow or Polars is the time index.

        Raises
        ------
        InvalidInputError
            In one of its kinds, for what is no table; nothing is pickled.
        """
        if staged:
            self.stage(symbol, data)
            return VersionedItem(symbol, self.name, None, self.store.version)
        if validate_index:
            _check_order(symbol, data)
        index = _index_of(data, index_column)
        kept = kept_metadata(metadata)
        self.store.write(symbol, data, index=index, metadata=kept)
        return self._written(symbol)

    def write_pickle(self, symbol: str, data: Any, *_: Any, **__: Any) -> VersionedItem:
        """Refuse to pickle an object, as files hold no pickles."""
        raise UnsupportedTypeError(
            f"write_pickle({symbol!r}): a {type(data).__name__} would be pickled, and is not",
            hint="write a table, or keep plain JSON as metadata",
        )

    def append(
        self,
        symbol: str,
        data: Any,
        metadata: Any = None,
        prune_previous_versions: bool = False,
        validate_index: bool = True,
        index_column: bool = False,
    ) -> VersionedItem:
        """Add rows at the end of a symbol, which is made where there is none, or no rows of it."""
        if not self.has_symbol(symbol) or not self.store.view(symbol).row_count:
            return self.write(
                symbol, data, metadata, validate_index=validate_index, index_column=index_column
            )
        if validate_index:
            _check_order(symbol, data)
        evolve = self._evolve
        return self._changed(symbol, metadata, lambda tx: tx.append(symbol, data, evolve=evolve))

    def update(
        self,
        symbol: str,
        data: Any,
        metadata: Any = None,
        upsert: bool = False,
        date_range: Any = None,
        prune_previous_versions: bool = False,
        index_column: bool = False,
    ) -> VersionedItem:
        """Replace the rows in a range of times, by default that of ``data``, by those in it.

        With ``upsert`` a symbol that does not exist is made.
        """
        if upsert and not self.has_symbol(symbol):
            return self.write(symbol, data, metadata, index_column=index_column)
        if date_range is None and hasattr(data, "__len__") and not len(data):
            return self._changed(symbol, metadata, lambda tx: self.store.view(symbol))
        within = None if date_range is None else bounds(date_range)
        if within is not None:
            index = self.store.view(symbol).schema.index
            data = changed_rows(data, lambda rows: rows.date_range(*within), index)
        evolve = self._evolve
        return self._changed(
            symbol,
            metadata,
            lambda tx: tx.update(symbol, data, date_range=within, evolve=evolve),
        )

    def merge_experimental(
        self,
        symbol: str,
        source: Any,
        strategy: MergeStrategy = MergeStrategy(),  # noqa: B008 - immutable
        on: list[str] | None = None,
        metadata: Any = None,
        prune_previous_versions: bool = False,
        upsert: bool = False,
    ) -> VersionedItem:
        """Replace rows by those of ``source`` with the same index and ``on``, and add the others.

        ``strategy`` says which of both. With ``upsert`` a symbol that does not exist is made.
        """
        actions = [str(getattr(each, "name", each)).lower() for each in strategy]
        hows: dict[tuple[str, str], Literal["semi", "anti"]]
        hows = {("update", "do_nothing"): "semi", ("do_nothing", "insert"): "anti"}
        how = hows.get((actions[0], actions[1]))
        if how is None and actions != ["update", "insert"]:
            raise InvalidInputError(
                f"strategy={tuple(actions)!r} changes nothing that is offered",
                hint='MergeStrategy("update", "do_nothing"), MergeStrategy("do_nothing", "insert") '
                'or MergeStrategy("update", "insert")',
            )
        if upsert and actions[1] == "insert" and not self.has_symbol(symbol):
            return self.write(symbol, source, metadata)
        index = self.store.view(symbol).schema.index
        keys = list(dict.fromkeys([*([] if index is None else [index]), *(on or [])]))
        if how is not None and keys:
            scratch = ts.open("memory://")
            scratch.write("source", source)
            scratch.write("known", self.store.read(symbol, columns=keys))
            source = scratch.scan("source").join("known", on=keys, how=how).collect().to_arrow()
        return self._changed(symbol, metadata, lambda tx: tx.upsert(symbol, source, keys=keys))

    def write_metadata(
        self, symbol: str, metadata: Any, prune_previous_versions: bool = False
    ) -> VersionedItem:
        """Replace the metadata of a symbol."""
        self.store.set_metadata(symbol, kept_metadata(metadata) or {})
        return self._written(symbol)

    @property
    def _evolve(self) -> str | None:
        """How columns may change by what is appended."""
        return "flexible" if self._options.dynamic_schema else None

    def _changed(
        self, symbol: str, metadata: Any, change: Callable[[Any], object]
    ) -> VersionedItem:
        """Change rows, and with them the metadata, which are those of one version alone."""
        kept = kept_metadata(metadata) or {}
        with self.store.transaction() as transaction:
            change(transaction)
            if kept != self.store.view(symbol).metadata:
                transaction.set_metadata(symbol, kept)
        return self._written(symbol)

    def _written(self, symbol: str) -> VersionedItem:
        return self._item(symbol, self.store.view(symbol))

    # --- staged rows ------------------------------------------------------------------------------

    def stage(
        self,
        symbol: str,
        data: Any,
        validate_index: bool = True,
        sort_on_index: bool = False,
        sort_columns: list[str] | None = None,
    ) -> StageResult:
        """Write rows that nobody sees before they are finalized.

        ``sort_on_index`` and ``sort_columns`` sort them first.
        """
        if sort_columns:
            data = changed_rows(data, lambda rows: rows.sort(sort_columns))
        staged = self.store.stage(symbol, data, task_id=uuid.uuid4().hex, sort=sort_on_index)
        found = StageResult(symbol, json.dumps(staged.to_json()))
        self._stages.setdefault(symbol, []).append(found)
        return found

    def finalize_staged_data(
        self,
        symbol: str,
        mode: StagedDataFinalizeMethod | str | None = StagedDataFinalizeMethod.WRITE,
        prune_previous_versions: bool = False,
        metadata: Any = None,
        validate_index: bool = True,
        delete_staged_data_on_failure: bool = False,
        stage_results: list[StageResult] | None = None,
    ) -> VersionedItem:
        """Make staged rows those of a symbol, or add them, in one commit.

        Without ``stage_results`` all that were staged by this object.

        Raises
        ------
        InvalidInputError
            When nothing was staged.
        UnsortedIndexError
            When the times of two stages overlap.
        """
        return self._finalized(symbol, mode, metadata, stage_results, sort=False)

    def sort_and_finalize_staged_data(
        self,
        symbol: str,
        mode: StagedDataFinalizeMethod | str | None = StagedDataFinalizeMethod.WRITE,
        prune_previous_versions: bool = False,
        metadata: Any = None,
        delete_staged_data_on_failure: bool = False,
        stage_results: list[StageResult] | None = None,
    ) -> VersionedItem:
        """Make staged rows those of a symbol, or add them, in the order of time."""
        return self._finalized(symbol, mode, metadata, stage_results, sort=True)

    def _finalized(
        self,
        symbol: str,
        mode: StagedDataFinalizeMethod | str | None,
        metadata: Any,
        results: list[StageResult] | None,
        *,
        sort: bool,
    ) -> VersionedItem:
        chosen = self._stages.get(symbol, []) if results is None else list(results)
        if not chosen:
            raise InvalidInputError(
                f"no rows are staged for {symbol!r}",
                hint="rows that another Library staged are finalized by stage_results=[...]",
            )
        name = str(getattr(mode, "name", mode or "write")).lower()
        if name not in ("write", "append"):
            raise InvalidInputError(f"mode={mode!r} is none", hint="write or append")
        kept = kept_metadata(metadata)
        self.store.finalize(
            symbol,
            [each.descriptor for each in chosen],
            mode="append" if name == "append" else "write",
            sort=sort,
            create=True,
            metadata=kept if name == "write" else None,
        )
        if name == "append" and kept is not None:
            self.store.set_metadata(symbol, kept)
        left = [each for each in self._stages.pop(symbol, []) if each not in chosen]
        if left:
            self._stages[symbol] = left
        return self._written(symbol)

    def get_staged_symbols(self) -> list[str]:
        """Return the symbols for which this object has staged rows."""
        return list(self._stages)

    def delete_staged_data(self, symbol: str) -> None:
        """Forget staged rows; ``gc`` collects them."""
        self._stages.pop(symbol, None)

    # --- deleting ---------------------------------------------------------------------------------

    def delete(self, symbol: str, versions: Any = None) -> None:
        """Delete a symbol, where there is one; earlier versions of the library keep it.

        Raises
        ------
        InvalidInputError
            For ``versions``: they go for all symbols together, by ``store.expire``.
        """
        if versions is not None:
            raise InvalidInputError(
                f"single versions of {symbol!r} are not deleted",
                hint="library.store.expire(older_than=...) and gc() free what old versions hold",
            )
        if self.has_symbol(symbol):
            self.store.delete(symbol)

    def delete_data_in_range(self, symbol: str, date_range: Any, **_: Any) -> None:
        """Delete the rows from one instant to another, both included."""
        self.store.delete_rows(symbol, date_range=bounds(date_range))

    def prune_previous_versions(self, symbol: str) -> None:
        """Check that a symbol exists; versions go together, by ``store.expire`` and ``gc``."""
        self.store.view(symbol)

    # --- upkeep -----------------------------------------------------------------------------------

    def defragment_symbol_data(
        self, symbol: str, segment_size: int | None = None, **_: Any
    ) -> VersionedItem:
        """Merge small segments into full ones."""
        self.store.compact(symbol, target=segment_size)
        return self._written(symbol)

    def compact_data(
        self,
        symbol: str,
        rows_per_segment: int | None = None,
        prune_previous_versions: bool = False,
    ) -> VersionedItem:
        """Merge small segments into full ones."""
        return self.defragment_symbol_data(symbol, rows_per_segment)

    def is_symbol_fragmented(self, symbol: str, segment_size: int | None = None) -> bool:
        """Return whether ``defragment_symbol_data`` would rewrite rows."""
        return self.store.compact(symbol, target=segment_size, dry_run=True).rows_rewritten > 0

    def reload_symbol_list(self) -> None:
        """Do nothing: the list of symbols is part of each version."""

    compact_symbol_list = reload_symbol_list


def changed_rows(
    data: Any, change: Callable[[LazyTable], LazyTable], index: str | None = None
) -> Any:
    """Return rows after a query; those of a frame of pandas as one."""
    scratch = ts.open("memory://")
    scratch.write("rows", data, index=index)
    result = change(scratch.scan("rows")).collect()
    return result.to_pandas() if hasattr(data, "iloc") else result.to_arrow()


def _check_order(symbol: str, data: Any) -> None:
    """Refuse a frame of pandas whose times go back."""
    index: Any = getattr(data, "index", None)
    if hasattr(index, "get_level_values"):
        times = index.get_level_values(0)
        if times.inferred_type.startswith("datetime") and not times.is_monotonic_increasing:
            raise UnsortedIndexError(
                f"the times of the rows for {symbol!r} go back",
                hint="frame.sort_index() puts them in order; validate_index=False writes them as "
                "they are, without a time index",
            )


def _index_of(data: Any, index_column: bool) -> str | None:
    """Return the column that is the time index of a table of Arrow or Polars; None without one."""
    if not index_column:
        return None
    if index_column is not True:
        raise InvalidInputError(
            f"index_column={shown(index_column)} is neither True nor False",
            hint="where it is True, the first column of the table is its time index",
        )
    names = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if not isinstance(names, list) or not names:  # those of pandas are an index
        raise InvalidInputError(
            f"index_column=True takes a table of Arrow or Polars, not a {type(data).__name__}",
            hint="a frame of pandas brings its index along: frame.set_index(column)",
        )
    return str(names[0])


def kept_metadata(metadata: Any) -> dict[str, Any] | None:
    """Return metadata as a store keeps them: a mapping."""
    if metadata is None:
        return None
    plain = _plain(metadata)
    is_kept = isinstance(plain, dict) and TIMESTAMP not in plain
    if is_kept and all(isinstance(key, str) for key in plain):
        return dict(plain)
    return {OTHER_METADATA: plain}


def _plain(value: Any) -> Any:
    """Return metadata with times as plain JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if not isinstance(value, datetime):
        return value
    zone = None if value.tzinfo is None else getattr(value.tzinfo, "key", str(value.tzinfo))
    return {TIMESTAMP: value.isoformat(), "zone": zone}

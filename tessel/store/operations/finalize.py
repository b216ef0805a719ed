"""finalize: what many workers have staged becomes rows of a symbol, once, in one commit.

Segments are taken over as they are: only where stages overlap in time, and shall be sorted, are
their rows merged and written anew; an upsert reads all rows, since any may have a key of the
symbol. The commit says in the log which attempts it took, so that the same set is never taken
twice, and it objects to landing after one that took some of them. For the rest it meets others by
the rules of its verb; where it cannot land it begins anew, with the segments that it has merged
already.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from tessel.cancelling import ThreadPool
from tessel.errors import (
    CorruptStoreError,
    IndexColumnError,
    InvalidInputError,
    NotFoundError,
    UnsortedIndexError,
)
from tessel.expression.schema import TableSchema
from tessel.options import current
from tessel.store.history.changes import Edit
from tessel.store.history.symbol import ManifestEntry, SymbolState, coalesced, rows_of
from tessel.store.index_column import Run, merge_ordered, time_text
from tessel.store.manifest.table import SegmentTable
from tessel.store.names import segment_name
from tessel.store.operations.stage import Stage
from tessel.store.operations.staged import (
    StagedRows,
    appended_state,
    common_schema,
    same_ids,
    written_state,
)
from tessel.store.operations.taking import FINALIZED, Merged, objection
from tessel.store.operations.upsert import upsert
from tessel.store.operations.working import checked_metadata
from tessel.store.operations.write_ids import WRITE_IDS, WriteId, logged_id, with_write

Mode = Literal["write", "append", "update", "upsert"]

_MODES = ("write", "append", "update", "upsert")
_CHECKS_IN_FLIGHT = 16
_LEAST_PIECE = 1 << 14  # rows: a page, below which reading takes longer than merging


def finalize(
    stage: Stage,
    symbol: str,
    staged: Sequence[StagedRows],
    *,
    mode: Mode = "write",
    sort: bool = False,
    keys: Sequence[str] | None = None,
    create: bool = False,
    metadata: Mapping[str, Any] | None = None,
    write_id: WriteId | None = None,
    merged: Merged | None = None,
) -> None:
    """Make staged rows those of a symbol; see ``Repository.finalize``, which is the way in.

    It conflicts with a commit that takes some of them meanwhile.

    Parameters
    ----------
    symbol, staged
        As ``take_staged`` returned them.
    mode, sort, keys, create, metadata, write_id
        See ``Repository.finalize``.
    merged
        What earlier tries have merged; it takes what this one does.
    """
    _check_asked(mode, keys, metadata)
    kept = checked_metadata(metadata)
    schema = common_schema(staged)
    if sort and schema.index is None:
        raise InvalidInputError(
            "sort=True without an index: there is nothing to sort by",
            hint='name the time column when you stage: index="column"',
        )
    before = stage.find(symbol)
    known = {} if before is None else before.state.metadata
    kept = with_write(known, kept, write_id, staged)
    if create and before is None and mode != "write":
        stage.put(symbol, written_state(stage, symbol, staged, schema, {}))
    if mode == "write":
        target = written_state(stage, symbol, staged, schema, kept)
    else:
        target = appended_state(stage, symbol, schema)
    _check_index(mode, schema.index, staged)
    stage.objections.append(objection(symbol, staged, write_id))
    tables = _tables_of(stage, staged)
    if mode == "upsert":
        # Rows of all stages are read: any may have a key of the symbol.
        parts = (_rows_of(stage, each, schema.arrow, current().segment_rows) for each in staged)
        rows = itertools.chain([schema.empty()], *parts)
        upsert(stage, symbol, rows, keys=keys or ())
    else:
        groups = _groups([each for each in staged if each.rows], schema.index, sort)
        if mode == "append":
            _check_after(stage, symbol, groups)
        merged = Merged() if merged is None else merged
        merged.begin(stage, lambda: _check_survival(stage))
        extents = coalesced(_extents(stage, target, groups, tables, schema, merged))
        if mode == "write":
            state = dataclasses.replace(target, manifests=extents, rows=rows_of(extents))
            stage.put(symbol, state)
        else:
            _add(stage, symbol, target, extents, mode)
    if write_id is not None and mode != "write":
        working = stage.existing(symbol)
        working.change_metadata({**working.state.metadata, **kept})
    _say(stage, FINALIZED, symbol, sorted(each.attempt for each in staged))
    if write_id is not None:
        _say(stage, WRITE_IDS, symbol, logged_id(write_id))


def _say(stage: Stage, key: str, symbol: str, what: Any) -> None:
    """Let the log tell something of a symbol."""
    stage.metadata[key] = {**stage.metadata.get(key, {}), symbol: what}


def _check_asked(mode: str, keys: Sequence[str] | None, metadata: Mapping[str, Any] | None) -> None:
    if mode not in _MODES:
        raise InvalidInputError(f"mode={mode!r} is none", hint=f"choose from: {', '.join(_MODES)}")
    if mode != "write" and metadata is not None:
        raise InvalidInputError(
            "rows that are added bring no metadata", hint="use set_metadata() for the symbol"
        )
    if (mode == "upsert") != (keys is not None):
        raise InvalidInputError(
            "keys= goes with mode='upsert', and mode='upsert' with keys=",
            hint='keys are the columns that tell one row from another, such as ["time", "ticker"]',
        )


def _check_index(mode: str, index: str | None, staged: Sequence[StagedRows]) -> None:
    if mode != "update":
        return
    if index is None:
        raise IndexColumnError.required("update")
    if not any(each.rows for each in staged):
        raise InvalidInputError(
            "an update without rows covers no range", hint="delete_rows() takes rows out"
        )


def _add(
    stage: Stage,
    symbol: str,
    target: SymbolState,
    extents: Sequence[ManifestEntry],
    mode: Literal["append", "update", "upsert"],
) -> None:
    """Add rows to the end, or put them in place of those in the range of their times."""
    working = stage.existing(symbol)
    if target.schema != working.state.schema:
        working.change_schema(target.schema, target.column_ids, "widen")
    if mode == "append" and extents:
        working.append(extents)
    elif extents:
        low, high = extents[0].first_time, extents[-1].last_time
        assert low is not None  # an update has an index
        assert high is not None
        start, stop = stage.reader(working.state).rows_between(low, high)
        working.splice([Edit(start, stop, tuple(extents), (low, high))], "update", [(low, high)])


# --- order ----------------------------------------------------------------------------------------


def _groups(staged: Sequence[StagedRows], index: str | None, sort: bool) -> list[list[StagedRows]]:
    """Return the stages in the order of their rows; those whose rows must be merged together."""
    if index is None:
        return [[each] for each in staged]
    if not sort:
        for before, after in itertools.pairwise(staged):
            if _times(before)[1] > _times(after)[0]:
                raise _overlap(before, after, index)
        return [[each] for each in staged]
    listed = sorted(enumerate(staged), key=lambda item: (*_times(item[1]), item[0]))
    groups: list[list[tuple[int, StagedRows]]] = []
    for found in listed:
        group = [found]
        # What is merged with one group may belong before rows of the group before that one.
        while groups and _must_merge(groups[-1], group):
            group = groups.pop() + group
        groups.append(group)
    return [[each for _, each in sorted(group, key=lambda item: item[0])] for group in groups]


def _must_merge(
    before: Sequence[tuple[int, StagedRows]], after: Sequence[tuple[int, StagedRows]]
) -> bool:
    """Whether one group cannot simply follow another: their numbers are places in the list.

    Rows of one time go in the order of the list, which groups that touch may keep as well.
    """
    last = max(_times(each)[1] for _, each in before)
    first = min(_times(each)[0] for _, each in after)
    in_order = max(number for number, _ in before) < min(number for number, _ in after)
    return first < last or (first == last and not in_order)


def _times(staged: StagedRows) -> tuple[int, int]:
    assert staged.times is not None  # checked where the descriptor was read
    return staged.times


def _overlap(before: StagedRows, after: StagedRows, index: str) -> UnsortedIndexError:
    crossing = _times(after)[1] >= _times(before)[0]
    what = "overlap in time" if crossing else "are not in the order of time"
    return UnsortedIndexError(
        f"tasks {before.task!r} and {after.task!r} {what}",
        hint="finalize(…, sort=True) merges them by time"
        + ("" if crossing else ", or list them in order"),
        index=index,
        tasks=[before.task, after.task],
    )


def _check_after(stage: Stage, symbol: str, groups: Sequence[Sequence[StagedRows]]) -> None:
    working = stage.existing(symbol)
    index = working.state.schema.index
    last = stage.last_time(working)
    if index is None or last is None or not groups:
        return
    first = min(groups[0], key=lambda each: _times(each)[0])
    if _times(first)[0] < last:
        kind = working.state.schema.type_of(index)
        early, late = (time_text(value, kind) for value in (_times(first)[0], last))
        raise UnsortedIndexError(
            f"what task {first.task!r} staged begins before the last time of symbol {symbol!r}, "
            f"{early} before {late}",
            hint="rows before the last time cannot be appended: update() replaces the rows of a "
            "range of times, and mode='write' the symbol",
            index=index,
            task=first.task,
        )


# --- segments -------------------------------------------------------------------------------------


def _tables_of(stage: Stage, staged: Sequence[StagedRows]) -> dict[str, SegmentTable]:
    """Read the manifests of the stages, and see that what they refer to is there and will stay."""
    objects = stage.objects

    def read(each: StagedRows) -> SegmentTable:
        state = each.state
        indexed = state.schema.index is not None
        try:
            table = state.segments(stage.manifest)
            if len(table) != state.manifests[0].segments:
                raise _gone(each, "its manifest has another number of segments")
            if indexed and table.slice_first is not None and table.slice_last is not None:
                held = int(table.slice_first[0]), int(table.slice_last[-1])
                if held != each.times:
                    raise _gone(each, "its manifest has other times")
            for name in {segment_name(name) for name in table.object.to_pylist()}:
                objects.size(name)
        except (NotFoundError, CorruptStoreError) as error:
            raise _gone(each, error.message) from error
        return table

    held = [each for each in staged if each.rows]
    with ThreadPool(_CHECKS_IN_FLIGHT, "tessel-finalize") as pool:
        tables = dict(zip((each.attempt for each in held), pool.map(read, held), strict=True))
    names = {name for table in tables.values() for name in table.object.to_pylist()}
    stage.session.adopt(sorted(map(segment_name, names)))
    _check_survival(stage)
    return tables


def _check_survival(stage: Stage) -> None:
    assert stage.history is not None  # it commits
    refs = stage.history.refs_at(stage.base.entry)
    if refs.condemned_us:
        stage.session.survived(refs)


def _gone(staged: StagedRows, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"what task {staged.task!r} staged cannot be used: {why}",
        hint="run the task again: rows that were not finalised are collected after a while",
        task=staged.task,
        attempt=staged.attempt,
    )


def _extents(
    stage: Stage,
    target: SymbolState,
    groups: Sequence[Sequence[StagedRows]],
    tables: Mapping[str, SegmentTable],
    schema: TableSchema,
    merged: Merged,
) -> Iterator[ManifestEntry]:
    """Put the stages into the manifest of the transaction, as they are wherever that can be."""
    for group in groups:
        first = group[0]
        if len(group) == 1 and same_ids(first.state, target):
            yield stage.add_table(target, tables[first.attempt], first.state.manifests)
            continue
        slices = merged.written(group, target, partial(_merged_rows, stage, group, target, schema))
        yield from stage.add_slices(target, slices)


def _merged_rows(
    stage: Stage, group: Sequence[StagedRows], target: SymbolState, schema: TableSchema
) -> Iterable[pa.Table]:
    """Return the rows of some stages in the order of time, or of one as they are."""
    # Of all that overlap, together a segment is held: less of each where there are more.
    piece = max(_LEAST_PIECE, current().segment_rows // len(group))
    parts = [_rows_of(stage, each, target.schema.arrow, piece) for each in group]
    if len(group) == 1:
        return parts[0]
    runs = [
        Run(rows, f"task {each.task!r}", _times(each)[0])
        for each, rows in zip(group, parts, strict=True)
    ]
    return merge_ordered(runs, target.schema.arrow, str(schema.index))


def _rows_of(stage: Stage, staged: StagedRows, schema: pa.Schema, piece: int) -> Iterator[pa.Table]:
    reader = stage.reader(staged.state)
    for start in range(0, staged.rows, piece):
        rows = reader.rows(start, min(start + piece, staged.rows))
        yield rows.select(schema.names).cast(schema)

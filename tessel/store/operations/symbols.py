"""A symbol as a whole: written from a table, deleted, renamed, described by metadata, compacted.

compact: small segments, and what edits have left of others, become full ones; no answer changes.
Row slices that lie side by side and are small, cut by edits, or spread over more segments than a
fresh one would be, make a run. A run is written anew where that leaves fewer segments, or where
as many are left and less than half of one is still in use. Rows stream through: the memory needed
is that of the largest segment and one of the wanted size. All else stays as it is.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import arrow_array
from tessel.errors import InvalidInputError, SymbolNameError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import current, options
from tessel.store.frames import read_frame
from tessel.store.history.changes import Edit
from tessel.store.history.symbol import SymbolState, rows_of
from tessel.store.index_column import check_index, in_order
from tessel.store.manifest.table import SegmentTable
from tessel.store.names import check_symbol_name
from tessel.store.operations.reading import Reader
from tessel.store.operations.stage import Stage
from tessel.store.operations.working import checked_metadata
from tessel.store.segment.file_writer import check_encodings
from tessel.store.segment.writer import assign_column_ids, column_slices


def write(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    index: str | None = None,
    sort: bool = False,
    metadata: Mapping[str, Any] | None = None,
    encodings: Mapping[str, str] | None = None,
) -> None:
    """Write a table as a symbol; see ``Store.write``."""
    check_symbol_name(symbol)
    kept = checked_metadata(metadata)
    frame = read_frame(data)
    index = frame.time_index(sort=sort) if index is None else index
    check_index(frame.schema, index, sort=sort)
    schema = TableSchema(frame.schema, index)
    forced = {} if encodings is None else dict(encodings)
    schema.require(forced)
    check_encodings(frame.schema, forced)
    working = stage.find(symbol)
    # A symbol that came here under another name leaves that name, and is not this one.
    same = working is not None and working.base_name in (None, symbol)
    before = working.state if working is not None and same else None
    first_id = 0 if before is None else before.next_column_id
    ids = assign_column_ids(schema, first_id)
    state = SymbolState(
        id=secrets.randbits(63) if before is None else before.id,
        schema=schema,
        column_ids=ids,
        next_column_id=first_id + len(schema.names),
        metadata=kept,
        encodings={ids[column]: encoding for column, encoding in forced.items()},
        pandas=frame.pandas and frame.pandas.keyed(ids),
    )
    extents = stage.write_rows(state, in_order(frame.tables, index, sort=sort))
    stage.put(symbol, dataclasses.replace(state, manifests=extents, rows=rows_of(extents)))


def delete(stage: Stage, symbol: str) -> None:
    """Delete a symbol; see ``Repository.delete``."""
    stage.remove(stage.existing(symbol))


def rename_symbol(stage: Stage, symbol: str, to: str) -> None:
    """Give a symbol another name; see ``Repository.rename_symbol``."""
    working = stage.existing(symbol)
    check_symbol_name(to)
    if to == symbol:
        return
    if stage.find(to) is not None:
        raise SymbolNameError(
            f"symbol {symbol!r} cannot be renamed: there is a symbol {to!r}",
            hint="delete that one first, in the same transaction if you like",
            symbol=to,
        )
    stage.rename(working, to)


def set_metadata(stage: Stage, symbol: str, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata of a symbol; see ``Repository.set_metadata``."""
    working = stage.existing(symbol)
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(
            f"the metadata of a symbol are a mapping, not {metadata!r}",
            hint="{} clears them",
        )
    working.change_metadata(checked_metadata(metadata))


# --- compact --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What compacting a symbol did, or would do.

    Attributes
    ----------
    symbol, version
        The symbol, and the version: the one that landed, or the newest where nothing was done.
    dry_run
        Whether it was only planned; then what is after is an estimate.
    rows_rewritten
        How many rows were written anew.
    segments_before, segments_after
        Segments of the whole symbol. One that is used in several places counts in each.
    bytes_before, bytes_after
        Bytes of these segments, each once. Older versions keep theirs until they expire.
    """

    symbol: str
    version: int
    dry_run: bool
    rows_rewritten: int
    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        if not self.rows_rewritten:
            return f"symbol {self.symbol!r} has nothing to compact in version {self.version}"
        what = "would be" if self.dry_run else "were"
        about = "about " if self.dry_run else ""
        return (
            f"symbol {self.symbol!r}, version {self.version}: {self.rows_rewritten:,} rows {what} "
            f"written anew\n"
            f"  segments  {self.segments_before:,} → {self.segments_after:,}\n"
            f"  bytes     {self.bytes_before:,} → {about}{self.bytes_after:,}"
        )


_Run = tuple[int, int]
"""Row slices ``[first, last)`` that are written anew."""


def compact(stage: Stage, symbol: str, *, target: int | None = None) -> None:
    """Write small and cut segments of a symbol anew; see ``Repository.compact``."""
    working = stage.existing(symbol)
    with options(segment_rows=current().segment_rows if target is None else target):
        state = working.state
        table = state.segments(stage.manifest)
        runs = _runs(table, len(state.schema.names))
        if not runs:
            return
        reader = stage.reader(working.state)
        edits = []
        total = sum(last - first for first, last in runs)
        for first, last in runs:
            start, stop = int(table.slice_start[first]), int(table.slice_end[last - 1])
            extents = stage.write_rows(state, _rows(reader, range(first, last), total))
            edits.append(Edit(start, stop, extents))
    working.splice(edits, "compact")


def planned_compaction(
    symbol: str, version: int, table: SegmentTable, columns: int, *, target: int | None = None
) -> CompactReport:
    """Say what compacting a symbol would do."""
    segments_before, bytes_before = footprint(table)
    segments, rewritten = segments_before, 0
    gone = np.zeros(len(table), dtype=bool)
    with options(segment_rows=current().segment_rows if target is None else target):
        for first, last in _runs(table, columns):
            rows = int(table.slice_end[last - 1] - table.slice_start[first])
            inside = (table.slice_of >= first) & (table.slice_of < last)
            gone |= inside
            fresh = -(-rows // current().segment_rows) * _fresh_segments(columns)
            segments += fresh - int(inside.sum())
            rewritten += rows
    used = (table.slice_end - table.slice_start)[table.slice_of]
    share = used / np.maximum(table.slice_rows[table.slice_of], 1)
    size = _bytes(table, ~gone) + int((table.length * share)[gone].sum())
    return CompactReport(
        symbol, version, True, rewritten, segments_before, segments, bytes_before, size
    )


def footprint(table: SegmentTable) -> tuple[int, int]:
    """Return how many segments a symbol has, and the bytes of them, each counted once."""
    return len(table), _bytes(table, np.ones(len(table), dtype=bool))


def _bytes(table: SegmentTable, which: np.ndarray) -> int:
    held = zip(
        table.object.filter(arrow_array(which)).to_pylist(),
        table.offset[which].tolist(),
        table.length[which].tolist(),
        strict=True,
    )
    return sum(length for _, _, length in set(held))


def _fresh_segments(columns: int) -> int:
    """Return how many segments a row slice has when it is written."""
    return len(column_slices(columns, current().segment_columns))


def _runs(table: SegmentTable, columns: int) -> list[_Run]:
    target, fresh = current().segment_rows, _fresh_segments(columns)
    rows = table.slice_end - table.slice_start
    held = np.bincount(table.slice_of, minlength=table.slices)
    wanted = (rows < target) | (rows < table.slice_rows) | (held > fresh)
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    runs = []
    for first, last in bounds.reshape(-1, 2).tolist():
        before = int(held[first:last].sum())
        after = -(-int(rows[first:last].sum()) // target) * fresh
        mostly_dead = bool((2 * rows[first:last] < table.slice_rows[first:last]).any())
        if after < before or (after == before and mostly_dead):
            runs.append((first, last))
    return runs


def _rows(reader: Reader, slices: range, total: int) -> Iterator[pa.Table]:
    for number in slices:
        table = reader.slice(number)
        telemetry.emit("compact.slice", rows=len(table), bytes=table.nbytes, total=total)
        yield table

"""Making manifests: the rows of any number of symbols, gathered into one object.

A transaction gathers what it writes in one :class:`ManifestBuilder`; packing and folding go through
it as well. Nothing is encoded before :meth:`ManifestBuilder.finish`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import (
    arrow_array,
    arrow_scalar,
    concat_tables,
    empty_table,
    numpy_array,
    table_of_rows,
)
from tessel.lazy import dataclass
from tessel.store.manifest.format import (
    SEGMENTS_SCHEMA,
    ManifestReference,
    encode_manifest,
    shared_schema,
)
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.table import Integers, SegmentTable
from tessel.store.names import new_name, segment_id
from tessel.store.segment.statistics import ColumnStatistics, bounds_type
from tessel.store.segment.writer import WrittenSegment, WrittenSlice

_OWN_BLOCK_ROWS = 64
"""A column with statistics of more segments than this has a block of its own."""

_SHARED_ROWS = 8192
"""A shared block is ended by the symbol with which it reaches so many rows."""

_Fact = tuple[Any, ...]
"""Symbol, column id, ordinal of the segment among those of the symbol, and the statistics."""


@dataclass(slots=True)
class _Gathered:
    """What was gathered of one symbol; parts in row order."""

    parts: list[pa.Table | list[tuple[Any, ...]]] = field(default_factory=list)
    segments: int = 0
    rows: int = 0
    facts: dict[pa.DataType, list[_Fact]] = field(default_factory=dict)
    tables: dict[pa.DataType, list[pa.Table]] = field(default_factory=dict)

    def add(self, part: pa.Table | list[tuple[Any, ...]], segments: int, rows: int) -> None:
        self.parts.append(part)
        self.segments += segments
        self.rows += rows


@dataclass(frozen=True, slots=True)
class Move:
    """All segments of a symbol that a manifest holds, on their way into another one.

    Attributes
    ----------
    first_segment
        How many segments of the symbol come before them in the new manifest.
    types
        The types of the columns whose statistics are kept.
    """

    first_segment: int
    types: Mapping[int, pa.DataType]


class ManifestBuilder:
    """Gathers segments of symbols; used by one thread at a time."""

    def __init__(self) -> None:
        self.name = new_name("man")
        self._symbols: dict[int, _Gathered] = {}
        self._moved: list[tuple[pa.Table, Integers]] = []
        self._moved_statistics: dict[pa.DataType, list[pa.Table]] = {}

    def __bool__(self) -> bool:
        return any(each.parts for each in self._symbols.values()) or bool(self._moved)

    def rows_of(self, symbol: int) -> int:
        """Return how many rows of a symbol were added: where the next ones begin."""
        found = self._symbols.get(symbol)
        return 0 if found is None else found.rows

    def segments_of(self, symbol: int) -> int:
        """Return how many segments of a symbol were added."""
        found = self._symbols.get(symbol)
        return 0 if found is None else found.segments

    def add_slices(
        self, symbol: int, slices: Sequence[WrittenSlice], types: Mapping[int, pa.DataType]
    ) -> None:
        """Add freshly written rows of a symbol after those that were added before.

        Parameters
        ----------
        slices
            What the segment writer returned, in row order.
        types
            The type of each column id that has statistics.
        """
        kinds = {column_id: _kind(type_) for column_id, type_ in types.items()}
        gathered = self._of(symbol)
        ordinal = gathered.segments
        rows: list[tuple[Any, ...]] = []
        for part in slices:
            for segment in part.segments:
                for column_id in range(segment.column_from, segment.column_to):
                    if column_id in part.statistics and column_id in kinds:
                        facts = gathered.facts.setdefault(kinds[column_id], [])
                        fact = part.statistics[column_id]
                        facts.append((symbol, column_id, ordinal + len(rows), *fact))
                rows.append(_segment_row(symbol, part, segment, segment is part.segments[0]))
        if rows:
            gathered.add(rows, len(rows), sum(part.rows for part in slices))

    def add_table(self, symbol: int, table: SegmentTable, types: Mapping[int, pa.DataType]) -> None:
        """Add rows that lie in other manifests; ``types`` are those of the columns to keep.

        Statistics of other columns are left behind.
        """
        gathered = self._of(symbol)
        ordinal = gathered.segments
        for column_id, type_ in sorted(types.items()):
            found = table.block(column_id, bounds_type(type_))
            if found.num_rows:
                moved = pc.add(found.column("segment"), arrow_scalar(ordinal, pa.uint32()))
                named = [
                    arrow_array(np.full(found.num_rows, symbol, dtype=np.uint64)),
                    arrow_array(np.full(found.num_rows, column_id, dtype=np.int64)),
                    moved.cast(pa.uint32()),
                    *found.columns[1:],
                ]
                kind = _kind(type_)
                made = pa.table(named, schema=shared_schema(kind))
                gathered.tables.setdefault(kind, []).append(made)
        if len(table):
            gathered.add(table.to_arrow(symbol), len(table), int(table.slice_end[-1]))

    def add_statistics(
        self, symbol: int, column_id: int, type_: pa.DataType, facts: Mapping[int, ColumnStatistics]
    ) -> None:
        """Add statistics of a column; ``facts`` by the ordinal of the segment in the symbol."""
        listed = self._of(symbol).facts.setdefault(_kind(type_), [])
        listed += [(symbol, column_id, ordinal, *fact) for ordinal, fact in facts.items()]

    def adopt(self, symbol: int, of: ManifestBuilder) -> None:
        """Add all that another builder gathered of a symbol, which this one has nothing of."""
        self._symbols[symbol] = of._symbols[symbol]

    def add_whole(self, manifest: Manifest, moves: Mapping[int, Move]) -> None:
        """Add all that a manifest holds of some symbols, which are added in no other way.

        What ``add_table`` does for one symbol, for thousands at once.
        """
        held = manifest.holdings
        wanted = np.array(sorted(moves), dtype=np.uint64)
        place = np.searchsorted(held.symbols, wanted)
        counts = held.segments[place]
        before = np.array([moves[int(symbol)].first_segment for symbol in wanted], np.int64)
        starts = np.cumsum(counts) - counts
        inside = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        rows = np.repeat(held.first[place], counts) + inside
        self._moved.append(
            (manifest.segments.take(arrow_array(rows)), inside + np.repeat(before, counts))
        )
        pairs = _Pairs.of(wanted, moves)
        for table in manifest.all_statistics(wanted):
            for kind, part in pairs.split(table, before):
                self._moved_statistics.setdefault(kind, []).append(part)

    def finish(self) -> tuple[bytes, ManifestReference]:
        """Return the bytes of the manifest, and the reference to them."""
        segments = concat_tables(
            [empty_table(SEGMENTS_SCHEMA)]
            + [
                part if isinstance(part, pa.Table) else table_of_rows(part, SEGMENTS_SCHEMA)
                for part in self._ordered_parts()
            ]
        )
        if self._moved:
            segments = self._with_moved(segments)
        kinds = set(self._moved_statistics)
        for gathered in self._symbols.values():
            kinds |= {*gathered.facts, *gathered.tables}
        blocks: dict[tuple[int, int], pa.Table] = {}
        shared: list[pa.Table] = []
        for kind in sorted(kinds, key=str):
            _cut_blocks(self._statistics_of(kind), blocks, shared)
        return encode_manifest(self.name, segments, blocks, shared)

    def _of(self, symbol: int) -> _Gathered:
        return self._symbols.setdefault(symbol, _Gathered())

    def _ordered_parts(self) -> list[pa.Table | list[tuple[Any, ...]]]:
        """Return all parts by symbol; rows that stand side by side are one part."""
        joined: list[pa.Table | list[tuple[Any, ...]]] = []
        for symbol in sorted(self._symbols):
            for part in self._symbols[symbol].parts:
                if isinstance(part, pa.Table):
                    joined.append(part)
                elif joined and isinstance(joined[-1], list):
                    joined[-1].extend(part)
                else:
                    joined.append(list(part))
        return joined

    def _with_moved(self, segments: pa.Table) -> pa.Table:
        """Return the segment table with the rows that were moved, by symbol and row slice."""
        joined = concat_tables([segments, *(table for table, _ in self._moved)])
        # What was gathered stands in order; no symbol is both gathered and moved.
        ordinals = [np.arange(segments.num_rows), *(ordinal for _, ordinal in self._moved)]
        order = np.lexsort([np.concatenate(ordinals), numpy_array(joined.column("symbol"))])
        return _in_order(joined, order)

    def _statistics_of(self, kind: pa.DataType) -> pa.Table:
        """Return all statistics with bounds of one type, by symbol, column and segment."""
        tables = list(self._moved_statistics.get(kind, []))
        facts: list[_Fact] = []
        for gathered in self._symbols.values():
            tables += gathered.tables.get(kind, [])
            facts += gathered.facts.get(kind, [])
        if facts:
            tables.append(_facts_table(facts, kind))
        joined = concat_tables(tables)
        keys = [numpy_array(joined.column(name)) for name in ("segment", "column", "symbol")]
        return _in_order(joined, np.lexsort(keys))


def _in_order(table: pa.Table, order: npt.NDArray[np.intp]) -> pa.Table:
    """Return the rows of a table in another order; mostly they stand in it."""
    return table if (np.diff(order) == 1).all() else table.take(arrow_array(order))


@dataclass(frozen=True)
class _Pairs:
    """The columns of some symbols, and the type that the bounds of each shall have."""

    symbols: npt.NDArray[np.uint64]
    columns: int
    keys: Integers
    kind_of: Integers
    kinds: list[pa.DataType]

    @classmethod
    def of(cls, symbols: npt.NDArray[np.uint64], moves: Mapping[int, Move]) -> _Pairs:
        types = [moves[int(symbol)].types for symbol in symbols]
        columns = 1 + max((max(each, default=0) for each in types), default=0)
        kinds: dict[pa.DataType, int] = {}
        known: dict[pa.DataType, int] = {}
        keys: list[int] = []
        kind_of: list[int] = []
        for at, each in enumerate(types):
            for column_id in sorted(each):
                type_ = each[column_id]
                if type_ not in known:
                    known[type_] = kinds.setdefault(_kind(type_), len(kinds))
                keys.append(at * columns + column_id)
                kind_of.append(known[type_])
        return cls(
            symbols, columns, np.array(keys, np.int64), np.array(kind_of, np.int64), [*kinds]
        )

    def split(self, table: pa.Table, moved: Integers) -> Iterator[tuple[pa.DataType, pa.Table]]:
        """Yield the part of a shared statistics table that is kept, by type of the bounds.

        ``moved`` says by how much the segments of each symbol move.
        """
        owners = numpy_array(table.column("symbol"))
        columns = numpy_array(table.column("column"))
        at = np.minimum(np.searchsorted(self.symbols, owners), len(self.symbols) - 1)
        keys = at * self.columns + columns
        pair = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        kept = (self.symbols[at] == owners) & (self.keys[pair] == keys) & (columns < self.columns)
        rows = np.flatnonzero(kept)
        if not len(rows):
            return
        segments = numpy_array(table.column("segment")).astype(np.int64) + moved[at]
        place = table.schema.get_field_index("segment")
        table = table.set_column(place, "segment", arrow_array(segments.astype(np.uint32)))
        for number in np.unique(self.kind_of[pair[rows]]).tolist():
            kind = self.kinds[number]
            part = table.take(arrow_array(rows[self.kind_of[pair[rows]] == number]))
            yield kind, part.cast(shared_schema(kind))


def _kind(type_: pa.DataType) -> pa.DataType:
    kind = bounds_type(type_)
    return pa.null() if kind is None else kind


def _segment_row(
    symbol: int, part: WrittenSlice, segment: WrittenSegment, begins: bool
) -> tuple[Any, ...]:
    key = segment.key
    return (
        symbol,
        part.rows,
        0,
        segment.column_from,
        segment.column_to,
        segment_id(key.object),
        key.offset,
        key.length,
        key.checksum,
        key.metadata_start,
        part.first_time,
        part.last_time,
        begins,
    )


def _facts_table(facts: Sequence[_Fact], kind: pa.DataType) -> pa.Table:
    symbols, columns, ordinals, low, high, *others = zip(*facts, strict=True)
    numbers = (arrow_array(symbols, pa.uint64()), arrow_array(columns, pa.int64()))
    bounds = (_bounds(low, kind), _bounds(high, kind))
    told = map(arrow_array, others)  # truths and integers of 64 bits
    made = [*numbers, arrow_array(ordinals, pa.uint32()), *bounds, *told]
    return pa.table(made, schema=shared_schema(kind))


def _bounds(values: Sequence[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    nothing = pa.nulls(1, kind)
    return pa.concat_arrays([nothing if each is None else pa.repeat(each, 1) for each in values])


def _cut_blocks(
    table: pa.Table, blocks: dict[tuple[int, int], pa.Table], shared: list[pa.Table]
) -> None:
    """Cut sorted statistics into blocks of one column each, and into shared ones."""
    symbols, columns = (numpy_array(table.column(name)) for name in ("symbol", "column"))
    begins = np.flatnonzero(
        np.concatenate([[True], (symbols[1:] != symbols[:-1]) | (columns[1:] != columns[:-1])])
    )
    counts = np.diff(np.append(begins, len(symbols)))
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        if count > _OWN_BLOCK_ROWS:
            own = table.slice(begin, count).drop_columns(["symbol", "column"])
            blocks[int(symbols[begin]), int(columns[begin])] = own.combine_chunks()
    small = np.repeat(counts <= _OWN_BLOCK_ROWS, counts)
    if not small.any():
        return
    rest = (table if small.all() else table.filter(arrow_array(small))).combine_chunks()
    owners = numpy_array(rest.column("symbol"))
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    # The block in which each symbol begins; its later rows follow it there.
    block = starts // _SHARED_ROWS
    cuts = starts[np.concatenate([[True], block[1:] != block[:-1]])].tolist()
    for start, stop in zip(cuts, [*cuts[1:], len(owners)], strict=True):
        shared.append(rest.slice(start, stop - start))

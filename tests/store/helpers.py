"""What the tests of the store share: reading a whole index, comparing tables to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tessel.expression.schema import TableSchema
from tessel.store import SegmentIndex, SegmentSource, SymbolView
from tessel.store.history.documents import open_store
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.piece import pieces_of
from tessel.store.manifest.table import Extent
from tessel.store.objects import MemoryObjects
from tests.strategies.tables import bits


def new_place(uri: str) -> MemoryObjects:
    """Return memory that holds a new store, for what is opened without looking whether it does."""
    objects = MemoryObjects(uri)
    open_store(objects, create=True, read_only=False)
    return objects


def load(index: SegmentIndex, source: SegmentSource) -> pa.Table:
    """Return all rows and columns that an index selects, put together piece by piece."""
    sent = pieces_of(index.source_columns(np.arange(len(index))))
    assert sent == [index.source(position) for position in range(len(index))]
    strips: list[pa.Table] = []
    names = index.schema.names
    for number in range(index.slices):
        columns: dict[str, pa.ChunkedArray] = {}
        rows = int(index.slice_row_end[number] - index.slice_row_start[number])
        for position in range(len(index)):
            if index.slice_number[position] == number:
                piece = index.source(position)
                part = source.load(piece)
                assert part.num_rows == rows == len(piece.row_range)
                columns |= dict(zip(part.column_names, part.columns, strict=True))
        assert set(columns) == set(names)
        if names:
            strips.append(pa.table([columns[n] for n in names], schema=index.schema.arrow))
    if not names:
        return pa.table({"": pa.nulls(index.row_count)}).select([])
    return pa.concat_tables(strips) if strips else index.schema.empty()


def index_of_manifests(
    symbol: int,
    manifests: Sequence[Manifest],
    schema: TableSchema,
    column_ids: Mapping[str, int],
    *,
    rows: int,
) -> SegmentIndex:
    """Return the index over all that manifests hold of a symbol, in row order."""
    whole = [Extent(each, 0, each.holdings.rows_of(symbol)) for each in manifests]
    return SegmentIndex.from_extents(symbol, whole, schema, column_ids, rows=rows)


def read(view: SymbolView) -> pa.Table:
    """Return a whole symbol."""
    return load(view.index(), view.source())


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Check names, types, row count, and every value to the bit."""
    assert found.schema.equals(expected.schema), (found.schema, expected.schema)
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name

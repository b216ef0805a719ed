"""The bytes of a manifest: independent blocks, then a directory of them.

::

    block 0             the segment table of all symbols in the manifest, an Arrow IPC file
    block 1 …           statistics, an Arrow IPC file each: first those of one (symbol, column id),
                        sorted by them, then those that small symbols share
    directory           one fixed-width record per block: symbols from and to (inclusive), column,
                        offset, length, checksum
    tail                number of blocks (8 bytes), magic (8 bytes)

A column with few segments has no block of its own: a thousand small symbols would make as many
thousand blocks. Its statistics lie in a *shared* block, one of those for bounds of its type, which
names symbol and column in each row and holds whole symbols.

Blocks begin at multiples of 64. A reference from a snapshot holds the length of the object, the
length of directory and tail, and their checksum; the directory holds the checksums of the blocks.
So to prune on one column out of hundreds, three ranges are read, each of them verified; a small
manifest is read whole, in one request.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import CorruptStoreError, NotFoundError
from tessel.lazy import dataclass
from tessel.store.encodings.arrow_ipc import decode_table, encode_table
from tessel.store.objects.base import ObjectStore, checksum

SEGMENTS_SCHEMA = pa.schema(
    [
        ("symbol", pa.uint64()),
        ("row_count", pa.int64()),
        ("row_offset", pa.int64()),
        ("column_from", pa.int64()),
        ("column_to", pa.int64()),
        ("object", pa.binary(16)),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("checksum", pa.uint32()),
        ("metadata_start", pa.int64()),
        ("first_time", pa.int64()),
        ("last_time", pa.int64()),
        ("begins", pa.bool_()),
    ]
)
"""Columns of the segment table.

``row_count`` rows of the symbol lie in the segment from its row ``row_offset`` on; positions are
prefix sums of the counts. Rows are ordered by symbol, row slice, columns; ``begins`` is true for
the first segment of each row slice. A segment's metadata begin at ``metadata_start`` bytes, and
``checksum`` is that of its footer. Column ids are ``[column_from, column_to)``. Times are those of
the index over the row slice, null without an index.
"""

_DIRECTORY = np.dtype(
    [
        ("symbol", "<u8"),
        ("last_symbol", "<u8"),
        ("column", "<i8"),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("checksum", "<u4"),
        ("reserved", "<u4"),
    ]
)
_MAGIC = b"TSLMAN02"
WHOLE_BYTES = 128 * 1024
"""A manifest of at most so many bytes is read in one request, which takes no longer than a small
one."""
_SEGMENTS_BLOCK = -1
_SHARED_BLOCK = -2
_ALIGNMENT = 64

Blocks = Mapping[tuple[int, int], pa.Table]
"""Statistics tables by symbol and column id."""


@functools.lru_cache(maxsize=256)
def statistics_schema(bounds: pa.DataType | None) -> pa.Schema:
    """Return the columns of a statistics block for a column with bounds of this type."""
    kind = pa.null() if bounds is None else bounds
    return pa.schema(
        [
            ("segment", pa.uint32()),
            ("minimum", kind),
            ("maximum", kind),
            ("minimum_exact", pa.bool_()),
            ("maximum_exact", pa.bool_()),
            ("nulls", pa.int64()),
            ("nans", pa.int64()),
        ]
    )


@functools.lru_cache(maxsize=256)
def shared_schema(bounds: pa.DataType | None) -> pa.Schema:
    """Return the columns of a shared block: symbol and column, then those of the statistics."""
    named = [pa.field("symbol", pa.uint64()), pa.field("column", pa.int64())]
    return pa.schema([*named, *statistics_schema(bounds)])


@dataclass(frozen=True, slots=True)
class ManifestReference:
    """What a parent remembers of a manifest.

    Attributes
    ----------
    length, tail_length
        Bytes of the object, and of its directory with tail.
    tail_checksum
        CRC-32C of the directory with tail.
    """

    object: str
    length: int
    tail_length: int
    tail_checksum: int


def encode_manifest(
    name: str, segments: pa.Table, blocks: Blocks, shared: Sequence[pa.Table] = ()
) -> tuple[bytes, ManifestReference]:
    """Return the bytes of a manifest and the reference to them, for an object called ``name``.

    Parameters
    ----------
    blocks
        Statistics that get a block of their own.
    shared
        Statistics blocks of several symbols, columns as in :func:`shared_schema`; all rows of a
        symbol with bounds of one type lie in one of them.
    """
    parts = [(0, 0, _SEGMENTS_BLOCK, segments)]
    parts += [(symbol, symbol, column, blocks[symbol, column]) for symbol, column in sorted(blocks)]
    for table in shared:
        symbols = numpy_array(table.column("symbol"))
        parts.append((int(symbols.min()), int(symbols.max()), _SHARED_BLOCK, table))
    directory = np.zeros(len(parts), _DIRECTORY)
    body = bytearray()
    for at, (first, last, column, table) in enumerate(parts):
        data = encode_table(table)
        body += bytes(-len(body) % _ALIGNMENT)
        directory[at] = (first, last, column, len(body), data.size, checksum(data), 0)
        body += memoryview(data)
    tail = directory.tobytes() + len(parts).to_bytes(8, "little") + _MAGIC
    body += tail
    return bytes(body), ManifestReference(name, len(body), len(tail), checksum(tail))


class BlockReader:
    """Reads the blocks of one manifest, each verified when it is read.

    A small manifest is read whole, in one request: the directory says where the blocks are, so that
    one after the other would be two before the first row.
    """

    def __init__(self, objects: ObjectStore, reference: ManifestReference) -> None:
        self._objects = objects
        self._reference = reference
        if reference.tail_length > reference.length:
            raise self.damaged("its directory is longer than itself")
        small = reference.length <= WHOLE_BYTES
        self._whole = self._requested(0, reference.length) if small else None
        self._directory = self._read_directory()
        self._shared: dict[int, pa.Table] = {}

    def columns_of(self, symbol: int) -> list[int]:
        """Return the ids of the columns of a symbol that have statistics, sorted."""
        rows = self._directory
        own = rows["column"][(rows["symbol"] == symbol) & (rows["column"] >= 0)]
        found = set(own.tolist())
        for table in self._shared_with(symbol):
            mine = numpy_array(table.column("symbol")) == symbol
            found |= set(numpy_array(table.column("column"))[mine].tolist())
        return sorted(found)

    def segments(self) -> pa.Table:
        """Return the segment table."""
        table = self._block(self._directory[0])
        if not table.schema.equals(SEGMENTS_SCHEMA):
            raise self.damaged("its segment table has other columns")
        return table

    def statistics(self, symbol: int, column_id: int) -> pa.Table | None:
        """Return the statistics of one column of a symbol; None where there are none."""
        rows = self._directory
        found = np.flatnonzero((rows["symbol"] == symbol) & (rows["column"] == column_id))
        if not len(found):
            return self._from_shared(symbol, column_id)
        table = self._block(rows[found[0]])
        kind = table.schema.field(1).type if table.num_columns > 1 else None
        if not table.schema.equals(statistics_schema(kind)):
            raise self.damaged(f"the statistics of column {column_id} have other columns")
        return table

    def all_statistics(self, symbols: npt.NDArray[np.uint64]) -> Iterator[pa.Table]:
        """Yield the blocks with statistics of some symbols, all as shared ones.

        ``symbols`` are sorted; a shared block comes whole.
        """
        rows = self._directory
        for at in range(1, len(rows)):
            first, last = int(rows["symbol"][at]), int(rows["last_symbol"][at])
            near = int(np.searchsorted(symbols, np.uint64(first)))
            if near == len(symbols) or symbols[near] > last:
                continue
            if rows["column"][at] == _SHARED_BLOCK:
                yield self._shared_block(at)
                continue
            found = self.statistics(first, int(rows["column"][at]))
            assert found is not None
            named = [
                arrow_array(np.full(found.num_rows, first, dtype=np.uint64)),
                arrow_array(np.full(found.num_rows, int(rows["column"][at]), dtype=np.int64)),
                *found.columns,
            ]
            yield pa.table(named, schema=shared_schema(found.schema.field("minimum").type))

    def _from_shared(self, symbol: int, column_id: int) -> pa.Table | None:
        for table in self._shared_with(symbol):
            mine = np.flatnonzero(
                (numpy_array(table.column("symbol")) == symbol)
                & (numpy_array(table.column("column")) == column_id)
            )
            if len(mine):
                return table.take(arrow_array(mine)).drop_columns(["symbol", "column"])
        return None

    def _shared_with(self, symbol: int) -> list[pa.Table]:
        """Return the shared blocks that a symbol can be in."""
        rows = self._directory
        inside = (rows["symbol"] <= symbol) & (rows["last_symbol"] >= symbol)
        found = np.flatnonzero((rows["column"] == _SHARED_BLOCK) & inside)
        return [self._shared_block(at) for at in found.tolist()]

    def _shared_block(self, at: int) -> pa.Table:
        # Two threads may both read a block the first time; they read the same bytes.
        if at not in self._shared:
            table = self._block(self._directory[at])
            kind = table.schema.field(3).type if table.num_columns > 3 else None
            if not table.schema.equals(shared_schema(kind)):
                raise self.damaged("shared statistics have other columns")
            if table.column("symbol").null_count or table.column("column").null_count:
                raise self.damaged("shared statistics do not say whose they are")
            self._shared[at] = table
        return self._shared[at]

    def damaged(self, what: str) -> CorruptStoreError:
        """Make the error for a manifest whose content is wrong."""
        return CorruptStoreError.for_object(self._reference.object, f"is damaged: {what}")

    def _read_directory(self) -> npt.NDArray[np.void]:
        reference = self._reference
        tail = self._range(reference.length - reference.tail_length, reference.tail_length)
        if checksum(tail) != reference.tail_checksum:
            raise self.damaged("the checksum of its directory is wrong")
        size = tail.size - len(_MAGIC) - 8
        end = tail.slice(max(size, 0)).to_pybytes()
        if size < _DIRECTORY.itemsize or not end.endswith(_MAGIC):
            raise self.damaged("it is no manifest")
        if int.from_bytes(end[:8], "little") * _DIRECTORY.itemsize != size:
            raise self.damaged("its directory has another length than it says")
        rows = np.frombuffer(tail.slice(0, size), dtype=_DIRECTORY)
        limit = reference.length - reference.tail_length
        inside = (rows["length"] <= limit) & (rows["offset"] <= limit)
        if not (inside & (rows["offset"] + rows["length"] <= limit))[inside].all() or not all(
            inside
        ):
            raise self.damaged("a block lies outside of it")
        if rows["column"][0] != _SEGMENTS_BLOCK:
            raise self.damaged("it has no segment table")
        return rows

    def _block(self, row: Any) -> pa.Table:
        data = self._range(int(row["offset"]), int(row["length"]))
        if checksum(data) != int(row["checksum"]):
            raise self.damaged("the checksum of a block is wrong")
        return decode_table(data, where=self._reference.object)

    def _range(self, offset: int, length: int) -> pa.Buffer:
        if self._whole is not None:
            return self._whole.slice(offset, length)
        return self._requested(offset, length)

    def _requested(self, offset: int, length: int) -> pa.Buffer:
        try:
            return self._objects.get_range(self._reference.object, offset, length)
        except NotFoundError as error:
            raise self.damaged("it is missing") from error

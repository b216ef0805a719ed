"""From a key to columns: fetch the bytes, verify them, decode what is wanted, cut the rows."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import pyarrow as pa

from tessel.ecs.components import SegmentKey
from tessel.errors import CorruptSegmentError, CorruptStoreError, NotFoundError
from tessel.store.encodings import ArrowIpc, TableEncoding
from tessel.store.objects import ObjectStore, checksum

__all__ = ["SegmentReader"]

# What was verified, per place and process: checking again would cost every read a pass over its
# bytes. Adding to a set is atomic; verifying twice in a race does no harm.
_verified: weakref.WeakKeyDictionary[ObjectStore, set[SegmentKey]] = weakref.WeakKeyDictionary()


class SegmentReader:
    """Reads segments of one object store; safe to use from several threads."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._encoding: TableEncoding = ArrowIpc()

    def read(
        self, key: SegmentKey, column_ids: Sequence[int], row_start: int, row_stop: int
    ) -> pa.Table:
        """Return rows of some columns of a segment.

        Parameters
        ----------
        key
            Where the segment lies; its checksum is verified the first time in this process.
        column_ids
            The columns, each an id that the segment holds.
        row_start, row_stop
            Rows ``[row_start, row_stop)``, counted from the first row of the segment.

        Returns
        -------
        pa.Table
            One column per id, named by the id in decimal; one chunk each. On a local disk the data
            are views of the mapped file.

        Raises
        ------
        CorruptSegmentError
            When the bytes are damaged, missing, or not what the key promises; names the object,
            and the column where one is to blame.
        """
        data = self._bytes(key)
        names = [str(column_id) for column_id in column_ids]
        table = self._encoding.decode(data, where=key.object, columns=names)
        if not 0 <= row_start <= row_stop <= table.num_rows:
            raise CorruptSegmentError(
                f"{key.object} is damaged: rows {row_start} to {row_stop} were asked for, "
                f"it has {table.num_rows}",
                object=key.object,
            )
        return table.slice(row_start, row_stop - row_start)

    def verify(self, key: SegmentKey) -> None:
        """Check the bytes of a segment against its key, whether or not that was done before."""
        self._fetch(key, verified=False)

    def _bytes(self, key: SegmentKey) -> pa.Buffer:
        seen = _verified.setdefault(self._objects, set())
        data = self._fetch(key, verified=key in seen)
        seen.add(key)
        return data

    def _fetch(self, key: SegmentKey, *, verified: bool) -> pa.Buffer:
        try:
            data = self._objects.get_range(key.object, key.offset, key.length)
        except (NotFoundError, CorruptStoreError) as error:
            raise CorruptSegmentError(
                f"{key.object} is missing or cut short: {error.message}",
                hint="restore the object from a copy of the store",
                object=key.object,
            ) from error
        if not verified and checksum(data) != key.checksum:
            raise CorruptSegmentError(
                f"{key.object} is damaged: the checksum of bytes {key.offset} to "
                f"{key.offset + key.length} is {checksum(data):#010x}, not {key.checksum:#010x}",
                hint="restore the object from a copy of the store",
                object=key.object,
                offset=key.offset,
                length=key.length,
            )
        return data

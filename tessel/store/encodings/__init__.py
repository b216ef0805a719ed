"""How columns become bytes: one file per encoding, used for segments, messages and spill.

Segment writers and readers enter here, and whoever sends tables between processes:
:func:`encode_batch` and :func:`decode_batch` are the in-memory form.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.store.encodings.arrow_ipc import ArrowIpc
from tessel.store.encodings.tables import TableEncoding

__all__ = ["ArrowIpc", "TableEncoding", "decode_batch", "encode_batch"]

_IN_MEMORY: TableEncoding = ArrowIpc()


def encode_batch(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    """Return a table as bytes that :func:`decode_batch` turns back, in any process."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    return _IN_MEMORY.encode(table)


def decode_batch(data: bytes | pa.Buffer, *, where: str = "a message") -> pa.Table:
    """Rebuild a table from bytes, as views into them; they are checked first.

    Raises
    ------
    CorruptSegmentError
        When the bytes are not what :func:`encode_batch` makes.
    """
    return _IN_MEMORY.decode(pa.py_buffer(data) if isinstance(data, bytes) else data, where=where)

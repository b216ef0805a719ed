"""Columns as one Arrow IPC file with one record batch: no compression, zero copy on reading.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format. Buffers are 64-byte
aligned inside the file. One batch means one dictionary per column.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import CorruptSegmentError

_MAGIC = b"ARROW1"
_SHORTEST_FILE = 2 * len(_MAGIC) + 6
_OPTIONS = pa.ipc.IpcWriteOptions(compression=None, unify_dictionaries=False)


def encode_table(table: pa.Table) -> pa.Buffer:
    """Return a table as one run of bytes, an Arrow IPC file; chunks are joined.

    Every bit is kept: NaN payloads, negative zeros, the values and the order of a dictionary.
    """
    batch = _one_batch(table)
    # Measured first and written into place: a buffer that grows is copied again and again.
    measure = pa.MockOutputStream()
    _write(batch, measure)
    data = pa.allocate_buffer(measure.size())
    _write(batch, pa.FixedSizeBufferWriter(data))
    return data


def decode_table(data: pa.Buffer, *, where: str) -> pa.Table:
    """Rebuild a table from the bytes of an IPC file, as views into ``data``.

    Raises CorruptSegmentError when the bytes are not what :func:`encode_table` makes.

    Parameters
    ----------
    data
        What :func:`encode_table` returned, or anything else: it is checked before it is believed.
    where
        What the bytes are, for errors: the name of an object, or ``"a message"``.
    """
    batch = _read_batch(data, where)
    names = batch.schema.names
    arrays = []
    for name in names:
        if names.count(name) != 1:
            raise _damaged(where, f"it holds {names.count(name)} columns {name!r}", column=name)
        array = batch.column(names.index(name))
        try:
            array.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(where, str(error), column=name) from error
        arrays.append(array)
    if not names:
        return pa.Table.from_batches([batch]).select([])
    return pa.table(arrays, names=names)


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """Join the chunks of each column; the dictionaries of one column become one."""
    if not table.num_columns:
        return pa.RecordBatch.from_struct_array(arrow_array([{}] * table.num_rows, pa.struct([])))
    arrays = []
    for column in table.unify_dictionaries().columns:
        joined = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(joined, pa.ChunkedArray):
            # More text than 32-bit offsets reach; writers cut rows long before this.
            raise pa.ArrowCapacityError("a column of one segment holds more than 2 GiB")
        arrays.append(joined)
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _read_batch(data: pa.Buffer, where: str) -> pa.RecordBatch:
    size = data.size
    tail = data.slice(size - len(_MAGIC)).to_pybytes() if size >= _SHORTEST_FILE else b""
    if tail != _MAGIC or data.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise _damaged(where, "it is not an Arrow IPC file")
    footer = int.from_bytes(data.slice(size - 10, 4).to_pybytes(), "little", signed=True)
    if not 0 < footer <= size - _SHORTEST_FILE:
        raise _damaged(where, f"its footer claims {footer} bytes")
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        if reader.num_record_batches != 1:
            raise _damaged(where, f"it holds {reader.num_record_batches} record batches, not 1")
        batch = reader.get_batch(0)
        batch.validate()
        _ = batch.schema.names, str(batch.schema)  # what is not text in a schema raises here
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, CorruptSegmentError):
            raise
        raise _damaged(where, str(error)) from error
    return batch


def _damaged(where: str, what: str, **attributes: Any) -> CorruptSegmentError:
    column = attributes.get("column")
    place = "" if column is None else f", column {column!r}"
    what = what.splitlines()[0] if what else "unreadable"
    return CorruptSegmentError.for_object(where, f"is damaged{place}: {what}", **attributes)

"""Rows of a plain column in one pass over all of its pages, by a compiled kernel.

Decoding enters here first. Where all pages of a column are arithmetic (no nulls, no exceptions, no
codec), its values are written by machine code where they will stay, once, and without the
interpreter's lock. Everything else, and a few rows, is decoded page by page by the encodings, which
is what this is tested against.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tessel.arrays import allocate
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.decode_rows import decode_numbers, decode_texts
from tessel.store.encodings.base import PhysicalValues, native_dtype
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.fields import FieldNode, NodeValues, to_arrow
from tessel.store.segment.gather_table import GatherTable
from tessel.store.segment.pages import SegmentPages

__all__ = ["decode_plain"]

_LEAST_ROWS = 1 << 10


def decode_plain(segment: SegmentPages, node: FieldNode, start: int, stop: int) -> pa.Array | None:
    """Return rows ``[start, stop)`` of a top-level leaf; None where its pages must be asked.

    Raises
    ------
    CorruptSegmentError
        When one of the pages is damaged.
    """
    rows = stop - start
    if rows < _LEAST_ROWS:
        return None
    table = segment.gather_table(node.number)
    if table is None or table.is_flat:
        return None
    if table.is_coded:
        return _texts(segment, table, start, stop)
    if node.kind == ValueKind.FLOAT and node.width != 8:
        return None
    values = allocate(rows, native_dtype(node.kind, node.width))
    decode_numbers(_blocks(segment, table, start, stop), values)
    physical = PhysicalValues(node.kind, node.width, rows, values)
    return to_arrow(node.type, NodeValues(rows, physical))


def _texts(segment: SegmentPages, table: GatherTable, start: int, stop: int) -> pa.Array | None:
    node = table.node
    texts = segment.text_table(node.number)
    if texts is None:
        return None
    found = decode_texts(_blocks(segment, table, start, stop), texts, allocate)
    if found is None:
        return None
    offsets, data = found
    physical = PhysicalValues(node.kind, 0, stop - start, data, offsets)
    return to_arrow(node.type, NodeValues(stop - start, physical))


def _blocks(segment: SegmentPages, table: GatherTable, start: int, stop: int) -> StoredBlocks:
    """Return rows of one column, whose pages are found sound."""
    segment.touch(table.node.number, np.arange(start >> table.shift, (stop - 1 >> table.shift) + 1))
    facts = segment.gather_stack([table]).facts
    return StoredBlocks(segment.data, facts, table.shift, start, stop)

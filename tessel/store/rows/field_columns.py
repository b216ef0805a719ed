"""Fields of rows as columns that programs on blocks read where they lie.

A pipeline enters here. What programs do not read (numbers in big endian, and rows of at most eight
bytes, whose fields are in no word of their own) has no column, and becomes one of Arrow's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tessel.kernels.blocks import ALL_PRESENT, SINGLE_BITS, Gap, StoredBlocks, spanned
from tessel.store.rows.rows import Rows
from tessel.store.rows.schema import FieldLayout, Layout, RowSchema
from tessel.store.segment.gather_table import NOT_SCALED, GatherFact
from tessel.store.segment.stored_columns import StoredColumn

__all__ = ["FieldColumns"]

_WORD_BYTES = 8
_ONE_PAGE = 40
"""All rows lie in one page, whatever their number."""


class FieldColumns:
    """The fields of rows of one schema.

    Parameters
    ----------
    schema
        Of the rows.

    Attributes
    ----------
    columns
        By name, in the order of their number; none where programs do not read the rows.
    """

    def __init__(self, schema: RowSchema) -> None:
        is_read = schema.byte_order == "little" and schema.fixed_size > _WORD_BYTES
        fields = tuple(each for each in schema.fields if is_read and _is_read(schema, each))
        self.columns = {field.name: _column(schema, field) for field in fields}
        self._facts = np.zeros((GatherFact.COUNT, len(fields), 1), np.int64)
        self._gaps = np.zeros((Gap.COUNT, len(fields), 1), np.int64)
        for place, field in enumerate(fields):
            self._facts[:, place, 0] = _facts(schema, field)
            self._gaps[Gap.NANS, place] = self.columns[field.name].exponents is not None
            self._gaps[Gap.VALIDITY, place] = ALL_PRESENT
            if schema.null_bitmap_size:
                self._gaps[Gap.VALIDITY, place] = schema.null_bitmap_offset * 8 + field.null_bit

    def blocks(self, rows: Rows, *, with_texts: bool) -> StoredBlocks:
        """Return rows as what kernels read, with the heap of their texts or without."""
        data, facts, gaps = rows.records.view(np.uint8), self._facts, self._gaps
        if with_texts:
            data, (start, heap) = spanned([data, rows.heap])
            facts, gaps = facts.copy(), gaps.copy()
            facts[GatherFact.START] += start
            gaps[Gap.VALIDITY] += 8 * start  # rows with texts have a bitmap
            gaps[Gap.VALUES], gaps[Gap.PLACES] = heap, heap + len(rows.heap)
        return StoredBlocks(data, facts, _ONE_PAGE, 0, len(rows), gaps)


def _column(schema: RowSchema, field: FieldLayout) -> StoredColumn:
    """Return what is known of a field: the bounds are those of its type."""
    kind, has_nulls = field.type.arrow, schema.null_bitmap_size > 0
    if pa.types.is_floating(kind):
        exponent = NOT_SCALED if field.size == _WORD_BYTES else SINGLE_BITS
        return StoredColumn(kind, None, np.array([exponent]), (-np.inf, np.inf), True)
    if field.is_variable:
        return StoredColumn(kind, None, None, None, has_nulls)
    reach = 1 << 8 * field.size
    low = -reach >> 1 if _is_signed(field) else 0
    return StoredColumn(kind, None, None, (low, low + reach - 1), has_nulls)


def _facts(schema: RowSchema, field: FieldLayout) -> list[int]:
    """Return where the integers of a field are.

    Their words end with the row where they would pass its end, so that the last is no exception.
    """
    size = field.size
    start = min(field.offset, schema.fixed_size - _WORD_BYTES)
    mask = np.array(
        [((1 << 8 * size) - 1) << 8 * (field.offset - start) & (1 << 64) - 1], np.uint64
    )
    has_sign = _is_signed(field) and size < _WORD_BYTES
    base = -(1 << 8 * size - 1) if has_sign else 0
    exponent = SINGLE_BITS if field.type.getter == "f32" else NOT_SCALED
    return [start, 8 * schema.fixed_size, mask.view(np.int64).item(), base, 0, exponent]


def _is_read(schema: RowSchema, field: FieldLayout) -> bool:
    """Return whether a field is in one word; its text, if it has one, in a heap of all rows."""
    if field.is_variable:
        return schema.layout is Layout.PACKED
    return not pa.types.is_fixed_size_binary(field.type.arrow)


def _is_signed(field: FieldLayout) -> bool:
    return field.type.getter.startswith("i")

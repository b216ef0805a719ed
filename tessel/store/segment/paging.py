"""Where a column is cut into pages, and what one page holds before it is encoded.

The file writer enters here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.lazy import dataclass
from tessel.store.encodings.codes import VARIABLE_KINDS, ValueKind
from tessel.store.encodings.fields import FieldNode, PhysicalColumn, shred
from tessel.store.encodings.values import (
    Bytes,
    Integers,
    PhysicalValues,
    native_dtype,
    nearest_before,
)
from tessel.store.segment.records import LARGEST_PAGE_SHIFT, PAGE_BYTES

_SMALL_PAGE_BYTES = PAGE_BYTES // 8
"""Pages are not halved below this on average for the sake of a few large rows."""


@dataclass(frozen=True, slots=True, eq=False)
class PageInput:
    """One page before encoding.

    Attributes
    ----------
    values
        What an encoding gets: null slots filled, list offsets counted from 0.
    validity
        One bool a row; None where none is null.
    """

    rows: int
    values: PhysicalValues
    validity: npt.NDArray[np.bool_] | None
    null_count: int

    @property
    def bitmap(self) -> Bytes | None:
        """The validity as an Arrow bitmap; None where no row or every row is null."""
        if self.validity is None or self.null_count == self.rows:
            return None
        return np.packbits(self.validity, bitorder="little")


def cut_field(
    array: pa.Array,
    node: FieldNode,
    nodes: Sequence[FieldNode],
    page_shift: int | None = None,
) -> tuple[int, list[PhysicalColumn]]:
    """Return the page shift of a top-level field and its physical columns, cut into pages.

    Without a ``page_shift``, pages are the largest whose decoded bytes, those of all columns of the
    field together, stay within 8 MiB. Where single large rows make that impossible, they are not
    made smaller than 1 MiB on average.
    """
    if page_shift is not None:
        return page_shift, list(shred(array, node, nodes, 1 << page_shift))
    for shift in range(LARGEST_PAGE_SHIFT, 0, -1):
        columns = list(shred(array, node, nodes, 1 << shift))
        decoded = sum((_decoded_bytes(column) for column in columns), np.zeros(1, np.int64))
        if decoded.max(initial=0) <= PAGE_BYTES or decoded.mean() < _SMALL_PAGE_BYTES:
            return shift, columns
    return 0, list(shred(array, node, nodes, 1))


def _decoded_bytes(column: PhysicalColumn) -> Integers:
    """Return the bytes that each page takes as Arrow arrays, int64 of the number of pages."""
    node, values = column.node, column.values
    rows = column.bounds[1:] - column.bounds[:-1]
    if values.codes is not None:
        return rows * 4
    if values.offsets is not None:
        ends = values.offsets[column.bounds].astype(np.int64)
        return rows * 4 + ends[1:] - ends[:-1]
    return rows * (4 if node.kind == ValueKind.OFFSETS else values.width)


def page_input(column: PhysicalColumn, page: int) -> PageInput:
    """Return one page of a column, ready to be encoded."""
    start, stop = int(column.bounds[page]), int(column.bounds[page + 1])
    rows = stop - start
    validity = None if column.validity is None else column.validity[start:stop]
    nulls = 0 if validity is None else rows - int(np.count_nonzero(validity))
    if not nulls:
        validity = None
    values = _sliced(column.values, start, stop)
    if validity is not None and nulls < rows:
        values = _filled(values, validity)
    return PageInput(rows, values, validity, nulls)


def _sliced(values: PhysicalValues, start: int, stop: int) -> PhysicalValues:
    rows = stop - start
    if values.kind == ValueKind.OFFSETS:
        places = values.data[start : stop + 1] - values.data[start]
        length = rows + (rows > 0)
        return PhysicalValues(
            ValueKind.SIGNED, 4, length, places[:length].astype(native_dtype(values.kind, 4))
        )
    codes = None if values.codes is None else values.codes[start:stop]
    if values.offsets is not None:
        offsets = values.offsets[start : stop + 1]
        return PhysicalValues(values.kind, 0, rows, values.data, offsets, codes)
    data = values.data[start:stop]
    return PhysicalValues(values.kind, values.width, rows, data, None, codes)


def _filled(values: PhysicalValues, validity: npt.NDArray[np.bool_]) -> PhysicalValues:
    """Put the value before it into every null slot, so that nulls cost no width and no runs."""
    if values.length != len(validity) or values.kind == ValueKind.NONE:
        return values  # of a list: offsets say already that null lists are empty
    source = nearest_before(validity)
    codes = None if values.codes is None else values.codes[source]
    # Text in null slots is empty already, which is as good.
    data = (
        values.data
        if values.kind in VARIABLE_KINDS or not len(values.data)
        else values.data[source]
    )
    return PhysicalValues(values.kind, values.width, values.length, data, values.offsets, codes)

"""Columns of a segment whose pages are all arithmetic, ready for kernels on what is stored.

Late reading enters here with the columns that a program computes on. Such a page has no nulls, no
exceptions and no codec: its integers are found by arithmetic, and kernels read them in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.kernels import StoredBlocks
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.fields import FieldNode
from tessel.store.segment.gather_table import GatherFact, GatherTable
from tessel.store.segment.pages import SegmentPages

__all__ = ["StoredColumn", "StoredColumns", "stored_columns"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumn:
    """One column; satisfies :class:`tessel.expression.protocols.ArithmeticColumn`."""

    type: pa.DataType
    dictionary: pa.Array | None
    exponents: npt.NDArray[np.int64] | None
    bounds: tuple[Any, Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumns:
    """Columns of one segment that are cut alike, and where their integers are.

    Attributes
    ----------
    columns
        In the order in which they were asked for.
    blocks
        Their rows.
    """

    columns: tuple[StoredColumn, ...]
    blocks: StoredBlocks


def stored_columns(
    segment: SegmentPages, nodes: Sequence[FieldNode], start: int, stop: int
) -> StoredColumns | None:
    """Return rows ``[start, stop)`` of columns; None where one is not arithmetic throughout.

    The pages are verified, where they were not before; their bytes are there.

    Raises
    ------
    CorruptSegmentError
        When one of the pages is damaged.
    """
    tables: list[GatherTable] = []
    for node in nodes:
        table = segment.gather_table(node.number)
        if table is None or table.shift != (tables[0] if tables else table).shift:
            return None
        tables.append(table)
    columns = [_kept_column(segment, table) for table in tables]
    if None in columns or start >= stop:
        return None
    shift = tables[0].shift
    numbers = np.arange(start >> shift, (stop - 1 >> shift) + 1)
    for node in nodes:
        segment.touch(node.number, numbers)
    data = segment.data.view()
    data.flags.writeable = False
    facts = segment.gather_stack(tables).facts
    blocks = StoredBlocks(data, facts, shift, start, stop)
    return StoredColumns(tuple(columns), blocks)  # type: ignore[arg-type]


def _kept_column(segment: SegmentPages, table: GatherTable) -> StoredColumn | None:
    number = table.node.number
    if number not in segment.stored:
        segment.stored[number] = _column(segment, table)
    return segment.stored[number]


def _column(segment: SegmentPages, table: GatherTable) -> StoredColumn | None:
    """Return what is known of a column; None for one whose integers are not its values."""
    node = table.node
    if table.is_coded:
        return StoredColumn(node.type, segment.dictionary_array(node.number), None, None)
    zones = segment.zone_maps(node.number)
    bounds: tuple[Any, Any] | None = None
    if zones.bounded.all() and not (zones.low_open | zones.high_open).any():
        bounds = zones.minimum.min().item(), zones.maximum.max().item()
    if node.kind == ValueKind.FLOAT:
        if node.width != 8 or zones.nans.any():
            return None
        return StoredColumn(node.type, None, table.facts[GatherFact.EXPONENT], bounds)
    if bounds is None or not _same_integers(table, bounds):
        return None
    return StoredColumn(node.type, None, None, bounds)


def _same_integers(table: GatherTable, bounds: tuple[int, int]) -> bool:
    """Whether 64-bit arithmetic gives the values: not for narrow negative ones kept as bits."""
    bits = table.node.width * 8
    if bits == 64:
        return bounds[1] < 1 << 63
    as_bits = (table.facts[GatherFact.WIDTH] == bits) & (table.facts[GatherFact.BASE] == 0)
    return bounds[0] >= 0 or not as_bits.any()

"""Single rows of plain columns from many segments, in a handful of numpy calls.

Readers enter here with rows grouped by segment. Whatever the number of segments, pages and columns,
the arithmetic is done once: a segment costs one look at its gather tables, one at which of its
pages were found sound, and one load from its bytes. Columns that are not plain everywhere are left
to :mod:`tessel.store.segment.decode_take`, which knows nulls, lists, exceptions and codecs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.kernels.load_rows import load_rows
from tessel.lazy import dataclass
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.scaled import POWERS
from tessel.store.encodings.values import Integers, native_dtype
from tessel.store.segment.page_tables import NOT_SCALED, PageStack, PageTable
from tessel.store.segment.pages import SegmentPages

_ROWS_AT_ONCE: Final = 1 << 16
"""So that what is in between takes no more memory than a few pages."""

_VALUES_A_ROW: Final = 8
_FEW_VALUES: Final = 1 << 14
"""Dictionaries of together more values than these, or that many a row, are looked up one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRows:
    """The rows wanted of one segment.

    Attributes
    ----------
    segment, nodes
        The segment, and the columns wanted: as many for all segments, in the same order.
    stop
        Where its rows end among those of all segments; they begin where the segment before ends.
    """

    segment: SegmentPages
    nodes: tuple[FieldNode, ...]
    stop: int


def row_counts(parts: Sequence[SegmentRows]) -> list[int]:
    """Return how many rows are wanted of each segment."""
    return [stop - start for start, stop in pairwise([0, *(part.stop for part in parts)])]


def gather_columns(
    parts: Sequence[SegmentRows], rows: Integers, places: Integers | None
) -> list[pa.Array | None]:
    """Return single rows of columns, or None for a column that is not plain in all segments.

    Raises CorruptSegmentError when a page that holds one of the rows is damaged.

    Parameters
    ----------
    parts
        At least one.
    rows
        Counted from the first row of their segment, in the order of ``parts``; in any order
        otherwise, repeats allowed. All are rows of the segment.
    places
        The place in the answer of each row; None for their own order.

    Returns
    -------
    list
        One entry a column, of the type that it is stored in.
    """
    found: list[pa.Array | None] = [None] * len(parts[0].nodes)
    # Columns that are plain in all segments and cut alike, and their tables by segment.
    by_shift: dict[int, tuple[list[int], list[list[PageTable]]]] = {}
    for column in range(len(found)):
        tables = _tables(parts, column)
        if tables is not None:
            columns, held = by_shift.setdefault(tables[0].shift, ([], [[] for _ in parts]))
            columns.append(column)
            for own, table in zip(held, tables, strict=True):
                own.append(table)
    for columns, held in by_shift.values():
        for column, array in zip(columns, _gathered(parts, held, rows, places), strict=True):
            found[column] = array
    return found


def _tables(parts: Sequence[SegmentRows], column: int) -> list[PageTable] | None:
    """Return the tables of a column in all segments; None where they do not go together."""
    tables: list[PageTable] = []
    for part in parts:
        table = part.segment.page_table(part.nodes[column].number)
        if table is None or not table.is_plain:
            return None
        first = tables[0] if tables else table
        # Segments of one schema share their nodes.
        same_type = table.node is first.node or table.node.type == first.node.type
        if not same_type or table.shift != first.shift or table.is_coded != first.is_coded:
            return None
        tables.append(table)
    return tables


def _gathered(
    parts: Sequence[SegmentRows],
    tables: Sequence[list[PageTable]],
    rows: Integers,
    places: Integers | None,
) -> list[pa.Array]:
    stacks = [part.segment.page_stack(held) for part, held in zip(parts, tables, strict=True)]
    results = [
        np.empty(len(rows), np.int64 if t.is_coded else native_dtype(t.node.kind, t.node.width))
        for t in tables[0]
    ]
    for low in range(0, len(rows), _ROWS_AT_ONCE):
        high = min(low + _ROWS_AT_ONCE, len(rows))
        words = _loaded(parts, stacks, rows, low, high)
        for column, result in enumerate(results):
            held = [table[column] for table in tables]
            values = _finished(parts, held, words[column], rows, low, result.dtype)
            if places is None or held[0].is_coded:
                result[low:high] = values
            else:
                result[places[low:high]] = values
    return [
        _looked_up(parts, [table[column] for table in tables], result, places)
        if tables[0][column].is_coded
        else _array(tables[0][column].node.type, result)
        for column, result in enumerate(results)
    ]


def _loaded(
    parts: Sequence[SegmentRows], stacks: Sequence[PageStack], rows: Integers, low: int, high: int
) -> npt.NDArray[np.uint64]:
    """Return the words of rows ``[low, high)``, a line a column, once their pages are verified."""
    found: list[npt.NDArray[np.uint64]] = []
    for part, begin, end in _spans(parts, low, high):
        stack, segment = stacks[part], parts[part].segment
        shift, own = stack.tables[0].shift, rows[low + begin : low + end]
        words, pages = load_rows(segment.data, stack.facts, shift, own)
        segment.touch_stack(stack, pages)
        found.append(words)
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _spans(parts: Sequence[SegmentRows], low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Return which rows of ``[low, high)`` are of which part, counted from ``low``."""
    start = 0
    for number, part in enumerate(parts):
        begin, end = max(start, low), min(part.stop, high)
        if begin < end:
            yield number, begin - low, end - low
        start = part.stop


def _finished(
    parts: Sequence[SegmentRows],
    tables: Sequence[PageTable],
    words: npt.NDArray[np.uint64],
    rows: Integers,
    low: int,
    dtype: np.dtype[Any],
) -> npt.NDArray[Any]:
    """Return values, or codes, from the words of the rows from ``low`` on."""
    integers = words.view(np.int64)
    if tables[0].is_coded:
        return integers
    least = min([table.exponent_bounds[0] for table in tables])
    most = max([table.exponent_bounds[1] for table in tables])
    # Divided, never multiplied: only so are decimals what they were.
    if least == most != NOT_SCALED:
        divided: npt.NDArray[Any] = (integers / POWERS[least]).astype(dtype, copy=False)
        return divided
    values: npt.NDArray[Any] = words.astype(f"<u{dtype.itemsize}", copy=False).view(dtype)
    if most != NOT_SCALED:
        exponents = np.empty(len(words), np.int64)
        for part, begin, end in _spans(parts, low, low + len(words)):
            pages = rows[low + begin : low + end] >> tables[part].shift
            exponents[begin:end] = tables[part].exponents[pages]
        scaled = exponents != NOT_SCALED
        values[scaled] = integers[scaled] / POWERS[exponents[scaled]]
    return values


def _looked_up(
    parts: Sequence[SegmentRows],
    tables: Sequence[PageTable],
    codes: Integers,
    places: Integers | None,
) -> pa.Array:
    """Return what codes stand for, each in the dictionary of its segment."""
    held = [
        part.segment.dictionary_array(table.node.number, rows)
        for part, table, rows in zip(parts, tables, row_counts(parts), strict=True)
    ]
    if sum(map(len, held)) <= max(_FEW_VALUES, _VALUES_A_ROW * len(codes)):
        if len(held) > 1:
            firsts = list(accumulate(map(len, held[:-1]), initial=0))
            codes += np.repeat(firsts, row_counts(parts))
        values = held[0] if len(held) == 1 else pa.concat_arrays(held)
        return values.take(_array(pa.int64(), _placed(codes, places)))
    found = [
        values.take(_array(pa.int64(), codes[begin:end]))
        for values, (_, begin, end) in zip(held, _spans(parts, 0, len(codes)), strict=True)
    ]
    joined = found[0] if len(found) == 1 else pa.concat_arrays(found)
    if places is None:
        return joined
    return joined.take(_array(pa.int64(), _placed(np.arange(len(codes)), places)))


def _placed(values: Integers, places: Integers | None) -> Integers:
    if places is None:
        return values
    placed = np.empty(len(values), np.int64)
    placed[places] = values
    return placed


def _array(type_: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])

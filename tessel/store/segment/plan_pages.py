"""Plans from page tables: which pages some columns and rows need.

The reader of segments and ``explain`` enter here. No I/O: arithmetic over arrays.

Every node below a top-level column has the same pages: page *p* belongs to the top-level rows from
``p << k`` on. So the page of a row is arithmetic, for items of nested lists too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.segment.read_plan import DICTIONARY_PAGE, ReadPlan, segment_priority
from tessel.store.segment.row_selection import RowIndices, RowRanges, RowSelection
from tessel.store.segment.sources.base import Integers

__all__ = ["ColumnPages", "plan_read"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPages:
    """The pages of one physical column of a segment.

    Attributes
    ----------
    node
        Number of the physical column in the segment's directory; it stands in plans.
    pages
        Data pages in order: a structured array with at least ``offset`` and ``length``, such as
        page records (validated before they come here).
    page_shift
        k: page *p* belongs to the top-level rows ``[p << k, (p + 1) << k)``.
    dictionary
        Start and length in the segment of the dictionary; None where there is none. It is read
        whole, with the priority of the first page wanted.
    """

    node: int
    pages: npt.NDArray[Any]
    page_shift: int
    dictionary: tuple[int, int] | None = None


def plan_read(
    columns: Sequence[ColumnPages],
    rows: RowSelection,
    *,
    row_count: int,
    name: str = "",
    offset: int = 0,
    ordinal: int = 0,
) -> ReadPlan:
    """Plan the read of some columns and rows of one segment.

    Parameters
    ----------
    columns
        The physical columns wanted.
    rows
        The rows wanted, counted from the first of the segment.
    row_count
        Rows of the segment.
    name, offset
        The object that holds the segment, and where in it the segment begins.
    ordinal
        Place of the segment in the scan.

    Returns
    -------
    ReadPlan
        A request per page that has a wanted row.

    Raises
    ------
    InvalidInputError
        For rows that the segment does not have.
    """
    _check_rows(rows, row_count)
    found: list[_Ranges] = []
    for column in columns:
        found += _column_ranges(column, np.flatnonzero(_touched(rows, column, row_count)))
    page, start, end, first_row = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(part, key) for part in found)])
        for key in ("page", "start", "end", "first_row")
    )
    node = np.repeat(
        np.array([part.node for part in found], np.int64), [len(part.page) for part in found]
    )
    fields = (
        np.zeros(len(page), np.int64),
        node,
        page,
        start + offset,
        end + offset,
        segment_priority(ordinal, first_row),
    )
    return ReadPlan.of_fields((name,), fields, None)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Ranges of one column, with the outermost row of each; bytes from the start of the segment."""

    node: int
    page: Integers
    start: Integers
    end: Integers
    first_row: Integers


def _check_rows(rows: RowSelection, row_count: int) -> None:
    if isinstance(rows, RowRanges):
        wrong = rows.stop[rows.stop > row_count]
    else:
        wrong = rows.rows[(rows.rows < 0) | (rows.rows >= row_count)]
    if len(wrong):
        raise InvalidInputError(
            f"rows up to {int(wrong[0])} were asked for, the segment has {row_count}",
            row=int(wrong[0]),
            rows=row_count,
        )


def _touched(rows: RowSelection, column: ColumnPages, row_count: int) -> npt.NDArray[np.bool_]:
    """Return, per page of a column, whether it has a wanted row."""
    count = len(column.pages)
    if isinstance(rows, RowIndices):
        touched = np.zeros(count, bool)
        touched[rows.rows >> column.page_shift] = True
        return touched
    edges = np.minimum(np.arange(count + 1, dtype=np.int64) << column.page_shift, row_count)
    return rows.overlaps(edges[:-1], edges[1:])


def _column_ranges(column: ColumnPages, pages: Integers) -> list[_Ranges]:
    if not len(pages):
        return []
    found: list[_Ranges] = []
    first_row = pages << column.page_shift
    if column.dictionary is not None:
        place, length = column.dictionary
        found.append(
            _Ranges(
                column.node,
                np.array([DICTIONARY_PAGE]),
                np.array([place]),
                np.array([place + length]),
                first_row[:1],
            )
        )
    start = column.pages["offset"][pages].astype(np.int64)
    end = start + column.pages["length"][pages].astype(np.int64)
    return [*found, _Ranges(column.node, pages, start, end, first_row)]

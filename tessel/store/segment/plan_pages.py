"""Plans from page tables: which pages, and which bytes of them, some columns and rows need.

The reader of segments and ``explain`` enter here. No I/O: arithmetic over arrays.

Every node below a top-level column has the same pages: page *p* belongs to the top-level rows from
``p << k`` on. So the page of a row is arithmetic, for items of nested lists too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.arrays import different
from tessel.errors import InvalidInputError
from tessel.store.segment.read_plan import DICTIONARY_PAGE, Pruned, ReadPlan, segment_priority
from tessel.store.segment.row_selection import RowIndices, RowRanges, RowSelection
from tessel.store.segment.sources.base import Integers

__all__ = ["ColumnPages", "PageMask", "SubPage", "plan_read"]

_SUB_PAGE_FRACTION: Final = 8
"""Less than a page is read where at most one in so many of its rows, and bytes, are wanted."""

SubPage: TypeAlias = "Callable[[np.void, Integers], Integers | None]"
"""``(record, places) -> ranges``: the bytes that hold these places of a page.

Places are rows of the page, ascending, each once. Ranges have shape ``(m, 2)``: start and stop, in
bytes from the first stored byte of the page; they may touch and overlap. None where the page has to
be read whole: it is compressed, or its encoding is not addressable.
"""


@dataclass(frozen=True, slots=True, eq=False)
class PageMask:
    """What statistics say about the pages of one column.

    Attributes
    ----------
    page_shift
        k of that column: page *p* holds rows from ``p << k`` on.
    keep
        Per page: False where none of its rows can be in the result.
    reason
        For explain, such as ``"price > 100"``.
    """

    page_shift: int
    keep: npt.NDArray[np.bool_]
    reason: str


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
    sub_page
        How to read a few rows of a page; None reads whole pages. Only for columns whose rows are
        the top-level rows.
    """

    node: int
    pages: npt.NDArray[Any]
    page_shift: int
    dictionary: tuple[int, int] | None = None
    sub_page: SubPage | None = None


def plan_read(
    columns: Sequence[ColumnPages],
    rows: RowSelection,
    *,
    row_count: int,
    name: str = "",
    offset: int = 0,
    ordinal: int = 0,
    masks: Sequence[PageMask] = (),
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
    masks
        What statistics say; a page of any column is left out where they rule out all its rows.

    Returns
    -------
    ReadPlan
        A request per page, whole pages unless few of its rows are wanted and the column can read
        less.

    Raises
    ------
    InvalidInputError
        For rows that the segment does not have.
    """
    _check_rows(rows, row_count)
    wanted = _after_masks(rows, masks, row_count)
    found: list[_Ranges] = []
    pruned: list[Pruned] = []
    for column in columns:
        asked = _touched(rows, column, row_count)
        kept = asked if wanted is rows else asked & _touched(wanted, column, row_count)
        pruned += _reasons(column, asked, kept, masks)
        found += _column_ranges(column, np.flatnonzero(kept), wanted, row_count)
    pages = sum(len(column.pages) for column in columns)
    page_bytes = sum(int(column.pages["length"].sum(dtype=np.int64)) for column in columns)
    page, start, end, first_row = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(part, key) for part in found)])
        for key in ("page", "start", "end", "first_row")
    )
    node = np.repeat(
        np.array([part.node for part in found], np.int64), [len(part.page) for part in found]
    )
    # Node and page together say which request: page numbers begin at -1, that of a dictionary.
    cut = any(column.sub_page is not None for column in columns)
    request = node * (int(page.max(initial=0)) + 2) + page + 1 if cut else None
    fields = (
        np.zeros(len(page), np.int64),
        node,
        page,
        start + offset,
        end + offset,
        segment_priority(ordinal, first_row),
    )
    return ReadPlan.of_fields(
        (name,),
        fields,
        request,
        pages=pages,
        page_bytes=page_bytes,
        pruned=tuple(pruned),
    )


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


def _after_masks(rows: RowSelection, masks: Sequence[PageMask], row_count: int) -> RowSelection:
    """Return the rows that no mask rules out."""
    for mask in masks:
        if mask.keep.all():
            continue
        edges = np.arange(len(mask.keep) + 1, dtype=np.int64) << mask.page_shift
        kept = RowRanges.where(np.minimum(edges, row_count), mask.keep)
        rows = (
            rows & kept
            if isinstance(rows, RowRanges)
            else RowIndices(rows.rows[kept.holds(rows.rows)])
        )
    return rows


def _touched(rows: RowSelection, column: ColumnPages, row_count: int) -> npt.NDArray[np.bool_]:
    """Return, per page of a column, whether it has a wanted row."""
    count = len(column.pages)
    if isinstance(rows, RowIndices):
        touched = np.zeros(count, bool)
        touched[rows.rows >> column.page_shift] = True
        return touched
    edges = np.minimum(np.arange(count + 1, dtype=np.int64) << column.page_shift, row_count)
    return rows.overlaps(edges[:-1], edges[1:])


def _reasons(
    column: ColumnPages,
    asked: npt.NDArray[np.bool_],
    kept: npt.NDArray[np.bool_],
    masks: Sequence[PageMask],
) -> list[Pruned]:
    """Tell which pages of a column are not read and why."""
    lengths = column.pages["length"]
    statistics = " and ".join(mask.reason for mask in masks if not mask.keep.all())
    drops = (("not in the rows asked for", ~asked), (f"statistics: {statistics}", asked & ~kept))
    return [
        Pruned(column.node, reason, int(drop.sum()), int(lengths[drop].sum(dtype=np.int64)))
        for reason, drop in drops
        if drop.any()
    ]


def _column_ranges(
    column: ColumnPages, pages: Integers, rows: RowSelection, row_count: int
) -> list[_Ranges]:
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
    whole = _Ranges(column.node, pages, start, end, first_row)
    if column.sub_page is None or isinstance(rows, RowRanges):
        return [*found, whole]
    return [*found, *_sub_page_ranges(column, whole, rows, row_count)]


def _sub_page_ranges(
    column: ColumnPages, whole: _Ranges, rows: RowIndices, row_count: int
) -> list[_Ranges]:
    """Replace pages of which few rows are wanted by the ranges that hold these rows."""
    assert column.sub_page is not None
    wanted = different(rows.rows)
    edges = np.searchsorted(wanted, np.append(whole.first_row, row_count))
    few = _SUB_PAGE_FRACTION * np.diff(edges) <= (1 << column.page_shift)
    keep = np.ones(len(whole.page), bool)
    found: list[_Ranges] = []
    for at in np.flatnonzero(few).tolist():
        page, first_row = int(whole.page[at]), int(whole.first_row[at])
        places = wanted[edges[at] : edges[at + 1]] - first_row
        ranges = column.sub_page(column.pages[page], places)
        if ranges is None or not len(ranges):
            continue
        joined = RowRanges.of(*map(tuple, ranges.tolist()))
        start, end = joined.start, joined.stop
        if _SUB_PAGE_FRACTION * int((end - start).sum()) > int(whole.end[at] - whole.start[at]):
            continue
        keep[at] = False
        # Pages are delivered whole, so all ranges of one have the row of its first.
        row = np.full(len(start), first_row + int(places[0]))
        origin = whole.start[at]
        found.append(
            _Ranges(column.node, np.full(len(start), page), start + origin, end + origin, row)
        )
    if keep.any():
        found.append(
            _Ranges(
                column.node,
                whole.page[keep],
                whole.start[keep],
                whole.end[keep],
                whole.first_row[keep],
            )
        )
    return found

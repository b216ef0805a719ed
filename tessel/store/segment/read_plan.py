"""The plan of a read as plain arrays: which bytes, in which order, delivered with what.

The reader of segments, the I/O queue and ``explain`` enter here. A plan is a handful of arrays, one
element a byte range; nothing in it refers to files or threads, so it can be looked at, tested and
concatenated. :mod:`tessel.store.segment.plan_pages` makes plans from page tables.

The *priority* of a range is the outermost row that it begins with, also for items of nested lists:
so complete rows come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.segment.sources.base import ByteRanges, Integers

__all__ = [
    "DICTIONARY_PAGE",
    "RangeFields",
    "ReadPlan",
    "segment_priority",
]

DICTIONARY_PAGE: Final = -1
"""The page number of a column's dictionary in a plan."""

_ROW_BITS: Final = 40
_ORDINALS: Final = 1 << (63 - _ROW_BITS)


RangeFields: TypeAlias = "tuple[Integers, Integers, Integers, Integers, Integers, Integers]"
"""object, column, page, start, end and priority of ranges in any order, int64 of one length."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """The byte ranges of a read, row-major: by priority, then column.

    All arrays are int64 of one length, an element a range.

    Attributes
    ----------
    objects
        Names of objects, each once.
    object
        Which of ``objects``.
    column
        Node number of the physical column.
    page
        Page number in the column, or :data:`DICTIONARY_PAGE`.
    start, end
        Bytes ``[start, end)`` of the object; a page without bytes has an empty range.
    priority
        Segment ordinal and outermost row, see :func:`segment_priority`.
    request
        What is delivered together: the ranges of one page. Numbered from 0 in the order of
        delivery, which is that of the lowest priority of their ranges.
    """

    objects: tuple[str, ...]
    object: Integers
    column: Integers
    page: Integers
    start: Integers
    end: Integers
    priority: Integers
    request: Integers

    def __len__(self) -> int:
        return len(self.start)

    @property
    def request_count(self) -> int:
        """How many requests there are."""
        return int(self.request.max()) + 1 if len(self) else 0

    @property
    def bytes(self) -> int:
        """Sum of the lengths of the ranges."""
        return int((self.end - self.start).sum())

    @property
    def ranges(self) -> ByteRanges:
        """The ranges alone."""
        return ByteRanges(self.objects, self.object, self.start, self.end)

    def request_priorities(self) -> Integers:
        """Return the lowest priority of each request's ranges."""
        lowest = np.full(self.request_count, np.iinfo(np.int64).max)
        np.minimum.at(lowest, self.request, self.priority)
        return lowest

    @classmethod
    def of_fields(
        cls,
        objects: tuple[str, ...],
        fields: RangeFields,
        request: Integers | None,
    ) -> ReadPlan:
        """Make a plan: sort ranges row-major, number the requests in the order of delivery.

        Parameters
        ----------
        objects, fields
            As in the plan.
        request
            Any numbers; equal ones are delivered together. None where each range is a request.
        """
        order = np.lexsort((fields[1], fields[5]))
        column, page, start, end, priority = (values.take(order) for values in fields[1:])
        place = fields[0].take(order) if len(objects) > 1 else fields[0]
        ranks = np.arange(len(order)) if request is None else _ranked(request[order])
        return cls(
            objects,
            place,
            column,
            page,
            start,
            end,
            priority,
            ranks,
        )

    @staticmethod
    def concat(plans: Sequence[ReadPlan]) -> ReadPlan:
        """Return one plan for several segments, delivered by priority."""
        objects = {name: at for at, name in enumerate(dict.fromkeys(_names(plans)))}
        places = [np.array([objects[name] for name in plan.objects], np.int64) for plan in plans]
        counts = list(itertools.accumulate((plan.request_count for plan in plans), initial=0))
        columns: list[list[Integers]] = [
            [place[plan.object] for plan, place in zip(plans, places, strict=True)],
            *([getattr(plan, name) for plan in plans] for name in _FIELDS),
        ]
        joined = [np.concatenate([np.zeros(0, np.int64), *column]) for column in columns]
        request = [plan.request + count for plan, count in zip(plans, counts, strict=False)]
        return ReadPlan.of_fields(
            tuple(objects),
            (joined[0], joined[1], joined[2], joined[3], joined[4], joined[5]),
            np.concatenate([np.zeros(0, np.int64), *request]),
        )


_FIELDS: Final = ("column", "page", "start", "end", "priority")


def _names(plans: Sequence[ReadPlan]) -> list[str]:
    return [name for plan in plans for name in plan.objects]


def _ranked(request: Integers) -> Integers:
    """Return requests numbered by their first ranges, which are in the order of a plan."""
    _, first, inverse = np.unique(request, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def segment_priority(ordinal: int, rows: Integers) -> Integers:
    """Return the priority of outermost rows of a segment: all of one segment before the next.

    Parameters
    ----------
    ordinal
        Place of the segment in the scan.
    rows
        Rows counted from the first of the segment.

    Raises
    ------
    InvalidInputError
        For an ordinal that is negative or does not fit (8,388,608 segments a scan).
    """
    if not 0 <= ordinal < _ORDINALS:
        raise InvalidInputError(
            f"segment {ordinal} of a scan has no priority",
            hint=f"a scan reads at most {_ORDINALS:,} segments; cut it into several",
        )
    return (ordinal << _ROW_BITS) + rows

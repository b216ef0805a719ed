"""Bytes of pages that are about to be decoded, fetched from where they are not at hand at once.

The opener enters here with the columns and rows that somebody touches. Pages of them that were not
fetched yet are asked for together, near ones as one request, and waited for: a touch of many
columns of several segments is one round trip. Pages that the query reads next come along where that
costs less than the round trip that it saves. Where bytes are views of a map, nothing is fetched.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tessel import telemetry
from tessel.ecs.piece import SegmentKey
from tessel.errors import (
    CorruptSegmentError,
    CorruptStoreError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    TesselError,
)
from tessel.lazy import dataclass
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.values import Integers
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.sources import ByteRanges, CoalesceLimits, ReadSource

Rows: TypeAlias = "range | Integers"
"""Rows of a segment: all from one to another, or single ones in any order, repeats allowed."""

_LINE_BYTES = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Rows of columns of one segment.

    Attributes
    ----------
    nodes
        Columns; all nodes below are fetched with them.
    rows
        Counted from the first row of the segment, which has them.
    later
        Columns that may be wanted next, of some of the rows or of none.
    """

    key: SegmentKey
    segment: SegmentPages
    nodes: Sequence[FieldNode]
    rows: Sequence[Rows]
    later: Sequence[FieldNode] = ()


def fetch(source: ReadSource, wanted: Sequence[Wanted]) -> None:
    """Read the pages that hold wanted rows into their segments, unless that was done.

    Pages of ``later`` columns are read ahead where that takes no request more, and no more than
    ``gap_bytes`` a request. So at most twice ``gap_bytes`` a request are read in vain: the gaps of
    a part, and what was read ahead.

    Raises StoreError for the first page, by its rows, that could not be read; names object, column
    and page. It is a ``CorruptSegmentError`` where the page lies outside of its object. What could
    not be read ahead is left for later.
    """
    entries = _missing(wanted, [each.nodes for each in wanted])
    if not len(entries):
        return
    names = tuple(dict.fromkeys(each.key.object for each in wanted))
    objects = np.array([names.index(each.key.object) for each in wanted], np.int64)

    def ranges(entries: Integers) -> ByteRanges:
        return ByteRanges(names, objects[entries[:, _WANTED]], entries[:, 0], entries[:, 1])

    parts = coalesce(ranges(entries), source.limits)
    later = _missing(wanted, [each.later for each in wanted])
    if len(later):
        both = np.concatenate([entries, later])
        more = coalesce(ranges(both), source.limits)
        most = parts.total_bytes + len(parts) * source.limits.gap_bytes
        if len(more) <= len(parts) and more.total_bytes <= most:
            parts = more
        entries = np.concatenate([entries, later[ranges(later).inside(parts)]])
    # Pages without bytes, of nothing but one value, are there without a request.
    with telemetry.span("storage.fetch", bytes=parts.total_bytes, requests=len(parts)):
        answers = source.read(parts) if len(parts) else []
    errors = {at: each for at, each in enumerate(answers) if isinstance(each, Exception)}
    if errors and len(later):
        fetch(source, [dataclasses.replace(each, later=()) for each in wanted])
        return
    # By rows, then columns: of several pages that could not be read, the first is named.
    for entry in entries[np.lexsort(entries.T[:1:-1])] if errors else ():
        start, end, *_, number = entry.tolist()
        for part, error in errors.items():
            one = parts.take([part])
            if one.object[0] == objects[number] and one.start[0] < end and start < one.end[0]:
                raise _read_failed(error, one, wanted[number], entry)
    for at, buffer in enumerate(each for each in answers if not isinstance(each, Exception)):
        name, start, end = names[parts.object[at]], int(parts.start[at]), int(parts.end[at])
        for key, segment in ((each.key, each.segment) for each in wanted):
            low, high = max(start, key.offset), min(end, key.offset + key.length)
            if name == key.object and low < high:
                held = np.frombuffer(buffer, np.uint8)[low - start : high - start]
                segment.data[low - key.offset : high - key.offset] = held
    for number, each in enumerate(wanted):
        each.segment.fetched[entries[entries[:, _WANTED] == number, _FLAG]] = True


_FLAG, _WANTED = 5, 6


def _missing(wanted: Sequence[Wanted], nodes: Sequence[Sequence[FieldNode]]) -> Integers:
    """Return the pages to fetch, of some nodes for each segment.

    Each is a line of seven integers: start and end in the object, first row, node, page, its flag
    in the segment, and which of ``wanted`` it is of. The dictionary of a column, page -1, is
    fetched whole with the first page that refers to it.
    """
    lines: list[Integers] = [np.zeros((0, 7), np.int64)]
    for number, (each, tops) in enumerate(zip(wanted, nodes, strict=True)):
        segment, offset = each.segment, each.key.offset
        for node in (node for top in tops for node in range(top.number, top.end)):
            records, dictionary = segment.records(node), segment.file.dictionary(node)
            flag, count = segment.flag_of(node, 0), len(records)
            left = ~segment.fetched[flag : flag + count + (dictionary is not None)]
            if not left.any():
                continue
            shift = segment.file.page_shift(node)
            touched = np.zeros(count, np.bool_)
            for rows in each.rows:
                if not isinstance(rows, range):
                    touched[rows >> shift] = True
                elif len(rows):
                    touched[rows.start >> shift : (rows.stop - 1 >> shift) + 1] = True
            first = int(touched.argmax()) << shift
            if dictionary is not None and left[count] and touched.any():
                start = int(dictionary["offset"]) + offset
                end = start + int(dictionary["length"])
                lines.append(np.array([[start, end, first, node, -1, flag + count, number]]))
            pages = np.flatnonzero(touched & left[:count])
            own = np.empty((len(pages), 7), np.int64)
            own[:, 0] = records["offset"][pages]
            own[:, 0] += offset
            own[:, 1] = own[:, 0] + records["length"][pages]
            own[:, 2], own[:, 3], own[:, 4] = pages << shift, node, pages
            own[:, _FLAG], own[:, _WANTED] = pages + flag, number
            lines.append(own)
    return np.concatenate(lines)


def _read_failed(
    error: Exception, part: ByteRanges, wanted: Wanted, entry: Integers
) -> TesselError:
    """Return the error of bytes that could not be read with object, column and page named.

    A segment that lies outside its object, or has none, is a damaged segment.
    """
    name, found = wanted.key.object, error
    if isinstance(error, (NotFoundError, CorruptStoreError)) and not isinstance(
        error, CorruptSegmentError
    ):
        found = CorruptSegmentError.for_object(name, f"is missing or cut short: {error.message}")
    elif not isinstance(error, TesselError):
        found = StoreError(
            f"could not read bytes {part.start[0]} to {part.end[0]} of {name!r}: {error}",
            object=name,
        )
    if found is not error:
        found.__cause__ = error
    assert isinstance(found, TesselError)
    column, page = int(entry[3]), int(entry[4])
    return found.with_context(
        object=name, column=str(column), page="dictionary" if page < 0 else str(page)
    )


# --- requests -------------------------------------------------------------------------------------


def coalesce(ranges: ByteRanges, limits: CoalesceLimits) -> ByteRanges:
    """Put byte ranges together into the parts that are read.

    Objects are laid out one after the other on one line, further apart than any gap, so that one
    sort and one running maximum treat all of them at once; a loop runs only over parts that reach
    the size limit.

    Parameters
    ----------
    ranges
        In any order; they may touch, overlap, repeat, or have no bytes.
    limits
        No part is longer than ``part_bytes``; a range is cut only where it is longer than that, or
        overlaps others. No part has more than ``gap_bytes`` that are in no range, so that it takes
        at most a round trip longer than its ranges would.

    Returns
    -------
    ByteRanges
        None empty, no two overlapping, ascending within each object.

    Raises
    ------
    InvalidInputError
        For a range that ends before it starts, starts before its object, or lies beyond 2**62
        bytes.
    """
    _check(ranges)
    has_bytes = np.flatnonzero(ranges.end > ranges.start)
    if not len(has_bytes):
        return ranges.take(has_bytes)
    places = _places(ranges, limits.gap_bytes)
    shift = places[ranges.object[has_bytes]]
    start, end = ranges.start[has_bytes] + shift, ranges.end[has_bytes] + shift
    # By start, then end: of ranges that start together the order must not decide where parts end.
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    part_start, part_end = _cut(start, reach, limits)
    objects = np.searchsorted(places, part_start, "right") - 1
    return ByteRanges(
        ranges.names, objects, part_start - places[objects], part_end - places[objects]
    )


def _check(ranges: ByteRanges) -> None:
    wrong = (ranges.start < 0) | (ranges.end < ranges.start) | (ranges.end > _LINE_BYTES)
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidInputError(
            f"bytes {ranges.start[at]} to {ranges.end[at]} of "
            f"{ranges.names[int(ranges.object[at])]!r} are no range",
            object=ranges.names[int(ranges.object[at])],
        )


def _places(ranges: ByteRanges, gap_bytes: int) -> Integers:
    """Return where each object begins on the line, ascending."""
    lengths = np.zeros(len(ranges.names), np.int64)
    np.maximum.at(lengths, ranges.object, ranges.end)
    total = sum(lengths.tolist()) + (gap_bytes + 1) * len(lengths)
    if total > _LINE_BYTES:
        raise InvalidInputError(
            f"ranges over {total} bytes of objects cannot be put together at once",
            hint="read fewer segments at a time",
        )
    lengths += gap_bytes + 1
    return np.cumsum(lengths) - lengths


def _cut(start: Integers, reach: Integers, limits: CoalesceLimits) -> tuple[Integers, Integers]:
    """Return the parts of sorted ranges; ``reach`` is the running maximum of their ends."""
    gaps = np.maximum(start[1:] - reach[:-1], 0)
    unwanted = np.concatenate(([0], np.cumsum(gaps)))
    begins = np.concatenate(([0], np.flatnonzero(gaps > limits.gap_bytes) + 1))
    ends = np.concatenate((begins[1:], [len(start)]))
    part_start, part_end = start[begins], reach[ends - 1]
    long = np.flatnonzero(
        (part_end - part_start > limits.part_bytes)
        | (unwanted[ends - 1] - unwanted[begins] > limits.gap_bytes)
    )
    if not len(long):
        return part_start, part_end
    keep = np.ones(len(begins), bool)
    keep[long] = False
    cuts = [
        _cut_run(start[a:b].tolist(), reach[a:b].tolist(), unwanted[a:b].tolist(), limits)
        for a, b in zip(begins[long].tolist(), ends[long].tolist(), strict=True)
    ]
    cut_start = np.array([place for starts, _ in cuts for place in starts], np.int64)
    cut_end = np.array([place for _, stops in cuts for place in stops], np.int64)
    part_start = np.concatenate((part_start[keep], cut_start))
    part_end = np.concatenate((part_end[keep], cut_end))
    order = np.argsort(part_start)
    return part_start[order], part_end[order]


def _cut_run(
    start: list[int], reach: list[int], unwanted: list[int], limits: CoalesceLimits
) -> tuple[list[int], list[int]]:
    """Cut ranges that lie near each other into parts, each as full of whole ranges as may be.

    ``unwanted`` counts the bytes of all gaps before each range.
    """
    starts: list[int] = []
    stops: list[int] = []
    at, place = 0, start[0]
    while at < len(start):
        limit = place + limits.part_bytes
        # All ranges before ``after`` end inside the part; the one at ``at`` may not.
        after = bisect_right(reach, limit, at)
        after = min(after, bisect_right(unwanted, unwanted[at] + limits.gap_bytes, at))
        starts.append(place)
        if after > at:
            stops.append(reach[after - 1])
            at = after
            place = max(start[at], reach[at - 1]) if at < len(start) else place
        else:
            stops.append(limit)
            place = limit
    return starts, stops

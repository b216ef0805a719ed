"""The requests and parts of a scan while they are under way, and how parts become answers.

Only the I/O queue enters here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa

from tessel.arrays import different
from tessel.errors import (
    CorruptSegmentError,
    CorruptStoreError,
    NotFoundError,
    StoreError,
    TesselError,
)
from tessel.lazy import dataclass
from tessel.store.segment.coalesce import CoalesceLimits, coalesce
from tessel.store.segment.read_plan import DICTIONARY_PAGE, ReadPlan
from tessel.store.segment.sources.base import ByteRanges, Integers

__all__ = ["Answer", "Batch", "Delivered", "Part", "Proceed", "Request", "read_failed"]

_EMPTY = pa.py_buffer(b"")


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The bytes of some ranges of a plan.

    Attributes
    ----------
    plan
        Where the ranges are described.
    request
        The request they were asked for, as numbered in the plan that was submitted.
    entries
        Which ranges of ``plan``, ascending.
    buffers
        Their bytes.
    """

    plan: ReadPlan
    request: int
    entries: tuple[int, ...]
    buffers: tuple[pa.Buffer, ...]


Proceed: TypeAlias = "Callable[[tuple[Answer, ...]], ReadPlan | None]"
"""What a request needs next, given all that it has; None when it is complete."""


@dataclass(slots=True, eq=False)
class Part:
    """Bytes that are read at once.

    Attributes
    ----------
    name, start, end
        Bytes ``[start, end)`` of an object.
    priority
        The lowest of the ranges in it.
    members
        The requests, as numbered in the plan, that have bytes in it.
    plan, entry
        The first range that has bytes in it, in the order of the plan; errors name its page.
    requests
        The same as ``members``, once they are in line.
    buffer
        The bytes, from their arrival until the last of its requests took its share.
    """

    name: str
    start: int
    end: int
    priority: int
    members: list[int]
    plan: ReadPlan
    entry: int
    requests: list[Request] = field(default_factory=list)
    buffer: pa.Buffer | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.end - self.start

    def drop_member(self) -> None:
        """Note that one request has taken its share."""
        self.members.pop()
        if not self.members:
            self.buffer = None


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A plan, and the parts that its ranges are read in.

    Attributes
    ----------
    plan
        The ranges wanted.
    parts
        In the order to ask for them; ``ranges`` are the same as arrays.
    entries
        Per request of the plan, its ranges.
    spans
        Per range, the parts that it lies in, one after the other; none for a range without bytes.
    """

    plan: ReadPlan
    parts: list[Part]
    ranges: ByteRanges
    entries: list[list[int]]
    spans: list[list[int]]

    @classmethod
    def of(cls, plan: ReadPlan, limits: CoalesceLimits, *, joined: bool = False) -> Batch:
        """Put the ranges of a plan together into parts.

        Parameters
        ----------
        plan
            The ranges wanted.
        limits
            Those of the source.
        joined
            Whether all ranges belong to one request, whatever the plan says.
        """
        coalesced = coalesce(plan.ranges, limits)
        wanted, part = coalesced.pairs()
        # Plans are sorted by priority, so the first range in a part has the lowest of it.
        entry = np.full(len(coalesced), len(plan), np.int64)
        np.minimum.at(entry, part, wanted)
        order = np.argsort(entry, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        request = np.zeros(len(plan), np.int64) if joined else plan.request
        request_count = 1 if joined else plan.request_count
        ranges = coalesced.ranges.take(order)
        members = _grouped(place[part], request[wanted], len(order))
        parts = [
            Part(ranges.names[name], start, end, priority, belongs, plan, first)
            for name, start, end, priority, belongs, first in zip(
                ranges.object.tolist(),
                ranges.start.tolist(),
                ranges.end.tolist(),
                plan.priority[entry[order]].tolist(),
                members,
                entry[order].tolist(),
                strict=True,
            )
        ]
        entries = _grouped(request, np.arange(len(plan)), request_count)
        spans: list[list[int]] = [[] for _ in range(len(plan))]
        for at, number in zip(wanted.tolist(), place[part].tolist(), strict=True):
            spans[at].append(number)
        return cls(plan, parts, ranges, entries, spans)

    def bytes_of(self, entry: int) -> pa.Buffer:
        """Return the bytes of a range: a view where it lies in one part, which has arrived."""
        start, end = int(self.plan.start[entry]), int(self.plan.end[entry])
        pieces: list[pa.Buffer] = []
        for number in self.spans[entry]:
            part = self.parts[number]
            assert part.buffer is not None
            begin = max(start, part.start)
            pieces.append(part.buffer.slice(begin - part.start, min(end, part.end) - begin))
        if len(pieces) == 1:
            return pieces[0]
        return _put_together(pieces) if pieces else _EMPTY


def _grouped(group: Integers, value: Integers, groups: int) -> list[list[int]]:
    """Return the values of each group, ascending, each once."""
    found: list[list[int]] = [[] for _ in range(groups)]
    span = int(value.max(initial=0)) + 1
    for pair in different(group * span + value).tolist():
        found[pair // span].append(pair % span)
    return found


def _put_together(pieces: list[pa.Buffer]) -> pa.Buffer:
    """Copy the pieces of a range that was cut, into memory aligned as Arrow wants it."""
    whole = pa.allocate_buffer(sum(piece.size for piece in pieces))
    out, at = np.frombuffer(whole, np.uint8), 0
    for piece in pieces:
        out[at : at + piece.size] = np.frombuffer(piece, np.uint8)
        at += piece.size
    return whole


@dataclass(slots=True, eq=False)
class Request:
    """What is delivered at once, while it is under way.

    Attributes
    ----------
    number
        Among all requests of the queue, in the order in which they came.
    submission, rank
        Which plan it is from, and its number there.
    priority
        The lowest of its ranges.
    proceed
        Its continuation.
    missing
        Parts that did not arrive yet.
    batch, entries
        The ranges that ``missing`` is about.
    answers
        What has arrived before.
    complete, error
        How it ended.
    """

    number: int
    submission: int
    rank: int
    priority: int
    proceed: Proceed | None
    missing: int = 0
    batch: Batch | None = None
    entries: list[int] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    complete: bool = False
    error: BaseException | None = None

    def arrive(self) -> ReadPlan | None:
        """Take the bytes, all of which have arrived; return what the continuation asks for."""
        batch = self.batch
        assert batch is not None
        buffers = tuple(batch.bytes_of(entry) for entry in self.entries)
        self.answers.append(Answer(batch.plan, self.rank, tuple(self.entries), buffers))
        for number in {number for entry in self.entries for number in batch.spans[entry]}:
            batch.parts[number].drop_member()
        self.batch = None
        return None if self.proceed is None else self.proceed(tuple(self.answers))


class Delivered:
    """One request with all its bytes. Release it, or use it as a context manager.

    Attributes
    ----------
    submission
        Which call of the queue's ``submit`` it comes from, counted from 0.
    request
        Its number in that plan.
    priority
        The lowest of its ranges.
    answers
        The ranges of the plan, then those of each continuation.
    """

    __slots__ = ("_number", "_release", "answers", "priority", "request", "submission")

    def __init__(self, release: Callable[[int], None], request: Request) -> None:
        self._release: Callable[[int], None] | None = release
        self._number = request.number
        self.submission = request.submission
        self.request = request.rank
        self.priority = request.priority
        self.answers: tuple[Answer, ...] = tuple(request.answers)

    @property
    def buffers(self) -> tuple[pa.Buffer, ...]:
        """The bytes of the plan's own ranges, in the order of the plan."""
        return self.answers[0].buffers

    def release(self) -> None:
        """Give the bytes back to the budget; a second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def read_failed(error: BaseException, part: Part, column_names: Mapping[int, str]) -> BaseException:
    """Return the error of a part with object, column and page named.

    A segment that lies outside its object, or has none, is a damaged segment.
    """
    if not isinstance(error, Exception):
        return error
    found: TesselError
    if isinstance(error, (NotFoundError, CorruptStoreError)) and not isinstance(
        error, CorruptSegmentError
    ):
        found = CorruptSegmentError(
            f"{part.name} is missing or cut short: {error.message}",
            hint="restore the object from a copy of the store",
            object=part.name,
        )
        found.__cause__ = error
    elif isinstance(error, TesselError):
        found = error
    else:
        found = StoreError(
            f"could not read bytes {part.start} to {part.end} of {part.name!r}: {error}",
            object=part.name,
        )
        found.__cause__ = error
    column, page = int(part.plan.column[part.entry]), int(part.plan.page[part.entry])
    return found.with_context(
        object=part.name,
        column=column_names.get(column, str(column)),
        page="dictionary" if page == DICTIONARY_PAGE else str(page),
    )

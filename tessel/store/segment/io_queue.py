"""Runs read plans against a source: asks ahead by a bounded number of bytes, delivers in order.

The decode stream enters here. Nothing waits but the consumer, in ``next``: whoever brings news (an
answer in a thread of the source, a release, a new plan) also asks for what may be asked for next.
So reads go on while the consumer decodes, also the second reads of lists and text.

What may be asked for is decided by :mod:`tessel.store.segment.admission`. The requests themselves,
and how bytes become answers, are in :mod:`tessel.store.segment.requests`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.closing import Closing
from tessel.errors import CancelledError, InvalidInputError
from tessel.store.segment.admission import Admission, Rule
from tessel.store.segment.read_plan import ReadPlan
from tessel.store.segment.requests import (
    Answer,
    Batch,
    Delivered,
    Part,
    Proceed,
    Request,
    read_failed,
)
from tessel.store.segment.sources.base import ByteRanges, ReadSource

__all__ = ["DEFAULT_BUDGET_BYTES", "Answer", "Delivered", "IoQueue", "Proceed"]

DEFAULT_BUDGET_BYTES: Final = 128 * 1024 * 1024
"""Bytes that a scan has asked for or holds at a time."""


class IoQueue(Closing):
    """Requests of one scan, delivered by priority; an iterator of :class:`Delivered`.

    May be used from several threads. Used as a context manager, it is cancelled when left.

    An error ends the queue at its place in the order: requests that are due before the one that
    failed are delivered first, so that what a consumer sees never depends on timing. It names
    object, column and page, and is raised again by every later call.

    Parameters
    ----------
    source
        Where the bytes are.
    budget_bytes
        Bytes asked for or not yet released, but for what the rule of admission lets pass.
    expect_more
        Whether consumers wait for plans to come until :meth:`no_more` is called.
    column_names
        Names of physical columns by node number, for errors.
    rules
        The rule of admission.

    Raises
    ------
    OptionError
        For a negative budget.
    """

    def __init__(
        self,
        source: ReadSource,
        *,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        expect_more: bool = False,
        column_names: Mapping[int, str] | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> None:
        self._source = source
        self._column_names = dict(column_names or {})
        self._admission = Admission(budget_bytes, rules)
        # Guards all that follows. Sources and continuations are called without it.
        self._changed = threading.Condition(threading.Lock())
        self._requests: dict[int, Request] = {}
        self._parts: dict[int, Part] = {}
        self._arrived: deque[tuple[int, pa.Buffer | BaseException]] = deque()
        self._complete: deque[Request] = deque()
        self._submissions = itertools.count()
        self._request_numbers = itertools.count()
        self._part_numbers = itertools.count()
        self._expect_more = expect_more
        self._closed = False
        self._pumping = False
        self._failure: BaseException | None = None

    # --- giving it work ---------------------------------------------------------------------------

    def submit(self, plan: ReadPlan, proceed: Proceed | None = None) -> int:
        """Add a plan; its reads begin at once, as far as the budget allows.

        Parameters
        ----------
        plan
            What to read.
        proceed
            Called whenever all that was asked for a request has arrived, with its answers so far:
            returns the ranges that turned out to be needed too (the items of lists, once their
            offsets are there), or None when the request is complete. It may be called in any
            thread, for several requests at once, and must not block.

        Returns
        -------
        int
            The number of the submission, as in what is delivered.

        Raises
        ------
        CancelledError
            After the queue was cancelled.
        InvalidInputError
            After :meth:`no_more`.
        """
        batch = Batch.of(plan, self._source.limits)
        priorities = plan.request_priorities().tolist()
        with self._changed:
            self._check_open()
            if self._closed:
                raise InvalidInputError("a plan came after the last one was announced")
            submission = next(self._submissions)
            requests = []
            for rank, priority in enumerate(priorities):
                number = next(self._request_numbers)
                request = Request(number, submission, rank, priority, proceed)
                self._requests[number] = request
                self._admission.add_request(number, priority)
                requests.append(request)
            self._line_up(batch, requests)
        self._pump()
        return submission

    def no_more(self) -> None:
        """Announce that no plan will come; consumers that have all stop waiting."""
        with self._changed:
            self._closed = True
            self._expect_more = False
            self._changed.notify_all()

    def cancel(self) -> None:
        """End the queue: nothing more is asked for, whoever waits gets ``CancelledError``."""
        with self._changed:
            if self._failure is None:
                self._failure = CancelledError("the read was cancelled")
            self._abandon()

    def close(self) -> None:
        """Cancel unless all was delivered; the source stays open."""
        if not self.finished:
            self.cancel()

    # --- taking from it ---------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether nothing more will be delivered."""
        with self._changed:
            return self._finished()

    @property
    def reserved_bytes(self) -> int:
        """Bytes asked for and not released."""
        with self._changed:
            return self._admission.reserved_bytes

    @property
    def waiting_bytes(self) -> int:
        """Bytes not asked for yet."""
        with self._changed:
            return self._admission.waiting_bytes

    def poll(self) -> Delivered | None:
        """Return the next request if it is complete, without waiting.

        Raises
        ------
        StoreError
            Where it could not be read; ``CorruptSegmentError`` where it lies outside its object.
        CancelledError
            After the queue was cancelled.
        """
        with self._changed:
            delivered = self._take()
        if delivered is not None:
            self._pump()
        return delivered

    def __iter__(self) -> Iterator[Delivered]:
        return self

    def __next__(self) -> Delivered:
        """Return the next request, waiting for it; raises what :meth:`poll` raises."""
        with self._changed:
            while (delivered := self._take()) is None:
                if self._finished():
                    raise StopIteration
                self._changed.wait()
        self._pump()
        return delivered

    def _take(self) -> Delivered | None:
        self._check_open()
        number = self._admission.next_request
        if number is None:
            return None
        request = self._requests[number]
        if request.error is not None:
            self._failure = request.error
            self._abandon()
            raise request.error
        if not request.complete:
            return None
        self._admission.deliver(number)
        del self._requests[number]
        if not self._requests:
            # Other consumers may be waiting for what will not come.
            self._changed.notify_all()
        return Delivered(self._release, request)

    def _release(self, number: int) -> None:
        with self._changed:
            self._admission.release(number)
        self._pump()

    # --- the state, changed under the lock --------------------------------------------------------

    def _finished(self) -> bool:
        return self._failure is not None or (not self._requests and not self._expect_more)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _line_up(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Put the parts of a batch in line; ``requests`` are those that its members count in."""
        for part, number in zip(batch.parts, self._part_numbers, strict=False):
            part.requests = [requests[rank] for rank in part.members]
            for request in part.requests:
                request.missing += 1
            self._parts[number] = part
            holders = [request.number for request in part.requests]
            self._admission.add_part(number, part.priority, part.size, holders)
        for request, entries in zip(requests, batch.entries, strict=True):
            request.batch, request.entries = batch, entries
            if request.missing == 0:
                self._complete.append(request)

    def _abandon(self) -> None:
        for number in list(self._requests):
            self._admission.drop(number)
        self._requests.clear()
        self._parts.clear()
        self._arrived.clear()
        self._complete.clear()
        self._changed.notify_all()

    def _settle(self) -> None:
        """Take in what has arrived."""
        while self._arrived:
            number, answer = self._arrived.popleft()
            part = self._parts.pop(number, None)
            if part is None:
                continue
            if isinstance(answer, pa.Buffer):
                part.buffer = answer
            for request in part.requests:
                if request.number not in self._requests:
                    continue
                request.missing -= 1
                if not isinstance(answer, pa.Buffer):
                    self._fail(request, read_failed(answer, part, self._column_names))
                elif request.missing == 0 and request.error is None:
                    self._complete.append(request)

    def _fail(self, request: Request, error: BaseException) -> None:
        """Let a request fail in its turn; nothing after it will be delivered, so drop that."""
        if request.error is None:
            request.error = error
            self._changed.notify_all()
        for other in list(self._requests.values()):
            if (other.priority, other.number) > (request.priority, request.number):
                self._admission.drop(other.number)
                del self._requests[other.number]

    # --- the pump, run by whoever brings news -----------------------------------------------------

    def _pump(self) -> None:
        """Take in answers, go on with requests, ask for what may be asked for, until all is quiet.

        One thread pumps at a time. Another that comes leaves its news in the state, and the pump
        looks at the state, under the lock, before it stops.
        """
        with self._changed:
            if self._pumping:
                return
            self._pumping = True
            complete, admitted = self._find_work()
        try:
            while complete or admitted:
                if admitted:
                    self._ask(admitted)
                for request in complete:
                    self._go_on(request)
                with self._changed:
                    complete, admitted = self._find_work()
        except BaseException as error:
            with self._changed:
                self._pumping = False
                self._failure = self._failure or error
                self._abandon()
            raise

    def _find_work(self) -> tuple[list[Request], list[tuple[int, Part]]]:
        """Return requests that lack nothing and parts to ask for; without any, the pump is off."""
        self._settle()
        complete = list(self._complete)
        self._complete.clear()
        admitted: list[tuple[int, Part]] = []
        if self._failure is None:
            admitted = [(number, self._parts[number]) for number in self._admission.admit()]
        self._pumping = bool(complete or admitted)
        return complete, admitted

    def _ask(self, admitted: Sequence[tuple[int, Part]]) -> None:
        names = tuple(dict.fromkeys(part.name for _, part in admitted))
        places = {name: at for at, name in enumerate(names)}
        table = np.array(
            [(places[part.name], part.start, part.end, part.priority) for _, part in admitted],
            dtype=np.int64,
        )
        began_ns = time.monotonic_ns()
        ranges = ByteRanges(names, table[:, 0], table[:, 1], table[:, 2])
        answers = self._source.read(ranges, table[:, 3])
        for (number, part), answer in zip(admitted, answers, strict=True):
            if isinstance(answer, Future):
                answer.add_done_callback(partial(self._on_done, number, part, began_ns))
            else:
                self._note(part, began_ns, answer)
                self._arrived.append((number, answer))

    def _on_done(self, number: int, part: Part, began_ns: int, future: Future[pa.Buffer]) -> None:
        if future.cancelled():
            answer: pa.Buffer | BaseException = CancelledError("the source was closed")
        else:
            error = future.exception()
            answer = future.result() if error is None else error
        self._note(part, began_ns, answer)
        self._arrived.append((number, answer))
        self._pump()

    def _note(self, part: Part, began_ns: int, answer: pa.Buffer | BaseException) -> None:
        telemetry.emit(
            "io.read",
            duration_ns=time.monotonic_ns() - began_ns,
            source=self._source.kind,
            object=part.name,
            offset=part.start,
            bytes=part.size,
            requests=len(part.members),
            priority=part.priority,
            failed=not isinstance(answer, pa.Buffer),
        )

    def _go_on(self, request: Request) -> None:
        """Build the answer of a request that lacks nothing; ask its continuation for more."""
        try:
            further = request.arrive()
            batch = None if further is None else Batch.of(further, self._source.limits, joined=True)
        except Exception as error:
            with self._changed:
                if request.number in self._requests:
                    self._fail(request, error)
            return
        with self._changed:
            if request.number not in self._requests:
                return
            if batch is None:
                request.complete = True
                self._changed.notify_all()
            else:
                self._line_up(batch, [request])

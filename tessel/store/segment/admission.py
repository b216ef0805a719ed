"""Which parts of a scan may be read now: a budget in bytes that can never lock up.

The I/O queue enters here. This is the whole rule, without threads, sources or clocks; the tests
leave out one line of it at a time and show that the queue then hangs.

A *request* is what the consumer gets at once (a page, say); a *part* is what is read at once, and
belongs to one request or to several whose bytes lie side by side. Requests are delivered by
priority, then in the order in which they came. A request is *in flight* when some part of it was
admitted and it was not delivered yet. The bytes of a part are *reserved* from its admission until
all its requests were released. A part is admitted when

a. it fits into what is left of the budget, or
b. nothing is in flight (or a part larger than the budget would never be read), or
c. its priority is at or before the lowest in flight (what is due before all that fills the budget
   may come late), or
d. the next request to be delivered is in flight, and the part belongs to it (the budget may be full
   of what comes after it).

Why this never hangs: the consumer waits for the next request only, and it holds nothing that counts
as in flight. If nothing is in flight, (b) lets in the first part waiting. If the next request is in
flight, (d) lets in the rest of it. If others are, all of them have a priority at or after its own,
so (c) lets in its first part, and whatever waits before that. (For this, the first part that a
request gets is due no later than the request, whatever bytes it was said to be for.)

That (d) asks for the *next* request, not for any, is on purpose: requests that share parts would
else pull one another in, over a whole scan, whatever the budget.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from tessel.errors import OptionError
from tessel.lazy import dataclass

__all__ = [
    "ADMISSION_RULES",
    "Admission",
    "Rule",
    "at_or_before_first_in_flight",
    "fits",
    "next_is_partly_in_flight",
    "nothing_in_flight",
]


@dataclass(slots=True)
class _Request:
    priority: int
    parts: list[int] = field(default_factory=list)
    in_flight: bool = False


@dataclass(slots=True)
class _Part:
    priority: int
    size: int
    requests: tuple[int, ...]
    holders: int
    admitted: bool = False


class Admission:
    """The state that the rule is about. Not thread-safe: its owner holds a lock.

    Parameters
    ----------
    budget_bytes
        Bytes reserved at a time, but for what (b), (c) and (d) let in. 0 reads one request after
        the other.
    rules
        The rule, as alternatives.

    Raises
    ------
    OptionError
        For a negative budget.
    """

    def __init__(self, budget_bytes: int, rules: Sequence[Rule] | None = None) -> None:
        if budget_bytes < 0:
            raise OptionError(f"a budget of {budget_bytes} bytes is none; it is 0 or more")
        self._budget = budget_bytes
        self._rules = ADMISSION_RULES if rules is None else tuple(rules)
        self._reserved = 0
        self._requests: dict[int, _Request] = {}
        self._parts: dict[int, _Part] = {}
        self._held: dict[int, list[int]] = {}
        # Heaps with entries that may be out of date; those are dropped when they come up.
        self._line: list[tuple[int, int]] = []
        self._order: list[tuple[int, int]] = []
        self._flying: list[tuple[int, int]] = []

    # --- what rules ask ---------------------------------------------------------------------------

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the parts that were admitted and are still held."""
        return self._reserved

    @property
    def free_bytes(self) -> int:
        """What is left of the budget; negative when it is overdrawn."""
        return self._budget - self._reserved

    @property
    def next_request(self) -> int | None:
        """The request to be delivered next; None where all were."""
        while self._order and self._order[0][1] not in self._requests:
            heapq.heappop(self._order)
        return self._order[0][1] if self._order else None

    @property
    def first_in_flight(self) -> int | None:
        """The lowest priority of a request in flight; None where there is none."""
        while self._flying and self._flying[0][1] not in self._requests:
            heapq.heappop(self._flying)
        return self._flying[0][0] if self._flying else None

    def is_in_flight(self, request: int) -> bool:
        """Return whether some part of an undelivered request was admitted."""
        found = self._requests.get(request)
        return found is not None and found.in_flight

    def priority(self, part: int) -> int:
        """Return the priority of a part."""
        return self._parts[part].priority

    def size(self, part: int) -> int:
        """Return the bytes of a part."""
        return self._parts[part].size

    def requests(self, part: int) -> tuple[int, ...]:
        """Return the requests that a part belongs to."""
        return self._parts[part].requests

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the parts that were not admitted yet."""
        return sum(part.size for part in self._parts.values() if not part.admitted)

    # --- what happens -----------------------------------------------------------------------------

    def add_request(self, request: int, priority: int) -> None:
        """Announce a request; equal priorities are delivered in the order of the numbers."""
        self._requests[request] = _Request(priority)
        self._held[request] = []
        heapq.heappush(self._order, (priority, request))

    def add_part(self, part: int, priority: int, size: int, requests: Sequence[int]) -> None:
        """Put a part of undelivered requests in line.

        Parameters
        ----------
        part
            A new number; equal priorities are admitted in the order of the numbers.
        priority
            The lowest of the bytes wanted from it. It is lowered to that of a request of which it
            is the first part.
        size
            In bytes.
        requests
            Those it belongs to, each once.
        """
        for request in requests:
            belongs = self._requests[request]
            if not belongs.parts:
                priority = min(priority, belongs.priority)
            belongs.parts.append(part)
            self._held[request].append(part)
        self._parts[part] = _Part(priority, size, tuple(requests), len(requests))
        heapq.heappush(self._line, (priority, part))

    def admit(self) -> list[int]:
        """Admit all that the rule allows now; return the parts in the order to read them."""
        admitted: list[int] = []
        if not self._line:
            return admitted
        while (part := self._first_waiting()) is not None and self._permits(part):
            self._let_in(part)
            admitted.append(part)
        due = self.next_request
        if due is not None:
            # Of the parts further back in the line, (d) can only mean those of this request.
            waiting = [p for p in self._requests[due].parts if not self._parts[p].admitted]
            for part in sorted(waiting, key=self._place):
                if self._permits(part):
                    self._let_in(part)
                    admitted.append(part)
        return admitted

    def deliver(self, request: int) -> None:
        """Note that the consumer has a request: its bytes stay reserved, but it flies no more."""
        del self._requests[request]

    def release(self, request: int) -> None:
        """Give back the bytes of a delivered request."""
        for part in self._held.pop(request, ()):
            held = self._parts[part]
            held.holders -= 1
            if held.holders == 0:
                if held.admitted:
                    self._reserved -= held.size
                del self._parts[part]

    def drop(self, request: int) -> None:
        """Forget a request: parts that no other request needs are not admitted any more."""
        self._requests.pop(request, None)
        self.release(request)

    # --- inside -----------------------------------------------------------------------------------

    def _place(self, part: int) -> tuple[int, int]:
        return self._parts[part].priority, part

    def _first_waiting(self) -> int | None:
        while self._line:
            part = self._line[0][1]
            found = self._parts.get(part)
            if found is not None and not found.admitted:
                return part
            heapq.heappop(self._line)
        return None

    def _permits(self, part: int) -> bool:
        return any(rule(self, part) for rule in self._rules)

    def _let_in(self, part: int) -> None:
        admitted = self._parts[part]
        admitted.admitted = True
        self._reserved += admitted.size
        for request in admitted.requests:
            found = self._requests.get(request)
            if found is not None and not found.in_flight:
                found.in_flight = True
                heapq.heappush(self._flying, (found.priority, request))


Rule: TypeAlias = Callable[[Admission, int], bool]
"""Whether a part may be admitted for this reason."""


def fits(admission: Admission, part: int) -> bool:
    """Return whether the part fits into what is left of the budget: (a)."""
    return admission.size(part) <= admission.free_bytes


def nothing_in_flight(admission: Admission, part: int) -> bool:
    """Return whether nothing is in flight: (b)."""
    return admission.first_in_flight is None


def at_or_before_first_in_flight(admission: Admission, part: int) -> bool:
    """Return whether the part is due at or before the first request in flight: (c)."""
    first = admission.first_in_flight
    return first is not None and admission.priority(part) <= first


def next_is_partly_in_flight(admission: Admission, part: int) -> bool:
    """Return whether the part belongs to the next request, and another of its parts is in: (d)."""
    due = admission.next_request
    return due is not None and due in admission.requests(part) and admission.is_in_flight(due)


ADMISSION_RULES: tuple[Rule, ...] = (
    fits,
    nothing_in_flight,
    at_or_before_first_in_flight,
    next_is_partly_in_flight,
)
"""The rule: a part is admitted for any of these reasons."""

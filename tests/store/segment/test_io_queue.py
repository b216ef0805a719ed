"""The I/O queue: it always ends, gives everything in order, and keeps to its budget.

The queue is driven step by step in one thread: a script says which outstanding read answers next,
when the consumer takes, when it gives bytes back. A queue with nothing outstanding that still has
nothing to hand out would wait for ever: :class:`QueueHangsError`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel import telemetry
from tessel.errors import (
    CancelledError,
    CorruptSegmentError,
    CorruptStoreError,
    InvalidInputError,
    OptionError,
    StoreError,
)
from tessel.store.objects import MemoryObjects
from tessel.store.segment.admission import (
    ADMISSION_RULES,
    Admission,
    Rule,
    at_or_before_first_in_flight,
    fits,
    next_is_partly_in_flight,
    nothing_in_flight,
)
from tessel.store.segment.coalesce import CoalesceLimits
from tessel.store.segment.io_queue import Answer, Delivered, IoQueue
from tessel.store.segment.read_all import read_all
from tessel.store.segment.read_plan import ReadPlan
from tessel.store.segment.sources.base import ByteRanges, ReadAnswer
from tessel.store.segment.sources.memory import MemorySource
from tessel.store.segment.sources.object_store import ObjectStoreSource

OBJECT_BYTES = 4096
DATA = np.random.default_rng(7).integers(0, 256, OBJECT_BYTES, dtype=np.uint8).tobytes()
WHOLE = CoalesceLimits(0, OBJECT_BYTES)


class QueueHangsError(AssertionError):
    """Nothing is outstanding and nothing can be taken, but not everything was delivered."""


class ScriptedSource:
    """Answers a read when the test says so."""

    kind = "scripted"
    immediate = False

    def __init__(self, limits: CoalesceLimits = WHOLE, data: bytes = DATA) -> None:
        self.limits = limits
        self.data = data
        self.outstanding: list[tuple[int, int, Future[pa.Buffer]]] = []
        self.asked: list[tuple[int, int]] = []
        self.priorities: list[int] = []

    def size(self, name: str) -> int:
        return OBJECT_BYTES

    def read(self, ranges: ByteRanges, priorities: np.ndarray) -> list[ReadAnswer]:
        assert len(ranges) == len(priorities) > 0
        futures: list[Future[pa.Buffer]] = [Future() for _ in range(len(ranges))]
        for start, end, future in zip(
            ranges.start.tolist(), ranges.end.tolist(), futures, strict=True
        ):
            self.outstanding.append((start, end, future))
            self.asked.append((start, end))
        self.priorities += priorities.tolist()
        return list(futures)

    def answer(self, at: int, *, fail: bool = False) -> None:
        start, end, future = self.outstanding.pop(at)
        if not future.set_running_or_notify_cancel():
            return
        if fail:
            future.set_exception(StoreError(f"bytes {start} to {end} are lost"))
        else:
            future.set_result(pa.py_buffer(self.data[start:end]))

    def close(self) -> None:
        pass


def make_plan(ranges: Sequence[tuple[int, int, int, int]]) -> ReadPlan:
    """Make a plan of (request, priority, start, end)."""
    table = np.array(ranges, dtype=np.int64).reshape(-1, 4)
    request, priority, start, end = table.T
    zeros = np.zeros(len(table), np.int64)
    return ReadPlan.of_fields(("object",), (zeros, request, zeros, start, end, priority), request)


# --- what must hold, for any schedule -------------------------------------------------------------

plans = st.lists(
    st.builds(
        lambda request, priority, start, length: (
            request,
            priority,
            start,
            min(start + length, OBJECT_BYTES),
        ),
        st.integers(0, 7),
        st.integers(0, 12),
        st.integers(0, OBJECT_BYTES - 1),
        st.one_of(st.integers(0, 40), st.integers(0, 900)),
    ),
    max_size=14,
)


@dataclasses.dataclass
class Consumer:
    """Takes what is there, checks it, and gives bytes back late, or never."""

    queue: IoQueue
    holds: int
    held: list[Delivered] = dataclasses.field(default_factory=list)
    seen: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)

    def take(self) -> bool:
        delivered = self.queue.poll()
        if delivered is None:
            return False
        for answer in delivered.answers:
            plan = answer.plan
            assert len(answer.entries) == len(answer.buffers)
            for entry, buffer in zip(answer.entries, answer.buffers, strict=True):
                start, end = int(plan.start[entry]), int(plan.end[entry])
                assert buffer.to_pybytes() == DATA[start:end]
        self.seen.append((delivered.priority, delivered.submission, delivered.request))
        self.held.append(delivered)
        while len(self.held) > self.holds:
            self.held.pop(0).release()
        return True


def run_to_the_end(
    queue: IoQueue, source: ScriptedSource, consumer: Consumer, draw: Callable[[int], int]
) -> None:
    """Answer and take in any order until the queue says that it is done."""
    while not queue.finished:
        choice = draw(3)
        if choice == 0 and consumer.take():
            continue
        if source.outstanding:
            source.answer(draw(len(source.outstanding)))
        elif not consumer.take():
            raise QueueHangsError(queue.waiting_bytes)


def drawer(data: st.DataObject) -> Callable[[int], int]:
    return lambda count: data.draw(st.integers(0, count - 1))


@given(
    st.lists(plans, min_size=1, max_size=3),
    st.sampled_from([0, 1, 64, 500, 2000, 1 << 30]),
    st.sampled_from([(0, 50), (0, 1000), (64, 300), (4096, 4096)]),
    st.sampled_from([0, 1, 3, 1000]),
    st.data(),
)
def test_any_schedule_ends_with_everything_delivered_in_order(
    submitted: list[list[tuple[int, int, int, int]]],
    budget: int,
    limits: tuple[int, int],
    holds: int,
    data: st.DataObject,
):
    source = ScriptedSource(CoalesceLimits(*limits))
    queue = IoQueue(source, budget_bytes=budget)
    consumer = Consumer(queue, holds)
    expected: list[tuple[int, int, int]] = []
    for number, ranges in enumerate(submitted):
        plan = make_plan(ranges)
        queue.submit(plan)
        expected += [
            (int(plan.priority[plan.request == request].min()), number, request)
            for request in range(plan.request_count)
        ]
    run_to_the_end(queue, source, consumer, drawer(data))
    assert consumer.seen == sorted(expected)
    for delivered in consumer.held:
        delivered.release()
    assert queue.reserved_bytes == 0
    assert queue.poll() is None


@given(plans, plans, st.sampled_from([0, 64, 500]), st.data())
def test_plans_that_come_late_and_before_what_is_in_flight_end_too(
    first: list[tuple[int, int, int, int]],
    second: list[tuple[int, int, int, int]],
    budget: int,
    data: st.DataObject,
):
    source = ScriptedSource()
    queue = IoQueue(source, budget_bytes=budget, expect_more=True)
    consumer = Consumer(queue, holds=1)
    draw = drawer(data)
    queue.submit(make_plan(first))
    for _ in range(draw(6)):
        if source.outstanding and draw(2):
            source.answer(draw(len(source.outstanding)))
        else:
            consumer.take()
    queue.submit(make_plan(second))
    queue.no_more()
    run_to_the_end(queue, source, consumer, draw)
    counts = [make_plan(ranges).request_count for ranges in (first, second)]
    found = sorted((submission, request) for _, submission, request in consumer.seen)
    assert found == [(n, request) for n, count in enumerate(counts) for request in range(count)]


@given(plans, st.sampled_from([0, 64, 500, 1 << 20]), st.data())
def test_continuations_end_and_arrive_with_their_request(
    ranges: list[tuple[int, int, int, int]], budget: int, data: st.DataObject
):
    follow = {
        request: data.draw(plans.filter(bool), label=f"items of {request}")
        for request in sorted({r for r, *_ in ranges})
        if data.draw(st.booleans())
    }
    plan = make_plan(ranges)
    # The column of a range says which request it was made for, before they were ranked.
    names = dict(zip(plan.request.tolist(), plan.column.tolist(), strict=True))
    calls: list[int] = []

    def proceed(answers: tuple[Answer, ...]) -> ReadPlan | None:
        request = names[answers[0].request]
        calls.append(request)
        return make_plan(follow[request]) if len(answers) == 1 and request in follow else None

    source = ScriptedSource()
    queue = IoQueue(source, budget_bytes=budget)
    consumer = Consumer(queue, holds=0)
    queue.submit(plan, proceed)
    run_to_the_end(queue, source, consumer, drawer(data))
    assert [request for _, _, request in consumer.seen] == list(range(plan.request_count))
    assert sorted(calls) == sorted([*names.values(), *follow])


def test_the_items_of_lists_are_asked_for_as_soon_as_their_offsets_are_there():
    """A take of rows 2 and 7 of a list column; nobody polls while the second reads are started."""
    rows = (2, 7)
    offsets = np.arange(0, 11 * 12, 12, dtype="<i4")
    items_at, stored = 1000, np.frombuffer(DATA, np.uint8).copy()
    stored[: offsets.nbytes] = offsets.view(np.uint8)
    data = stored.tobytes()

    def items(answers: tuple[Answer, ...]) -> ReadPlan | None:
        if len(answers) > 1:
            return None
        (first,) = answers
        start, end = np.frombuffer(first.buffers[0], "<i4").tolist()
        row = int(first.plan.priority[first.entries[0]])
        return make_plan([(0, row, items_at + start, items_at + end)])

    source = ScriptedSource(data=data)
    queue = IoQueue(source, budget_bytes=0)
    queue.submit(make_plan([(row, row, 4 * row, 4 * row + 8) for row in rows]), items)
    assert source.asked == [(8, 16)]
    source.answer(0)
    assert source.asked[1:] == [(1024, 1036)]
    source.answer(0)
    taken = []
    for row in rows:
        while (delivered := queue.poll()) is None:
            source.answer(0)
        assert delivered.priority == row
        taken.append(delivered.answers[1].buffers[0].to_pybytes())
    assert taken == [data[1000 + 12 * row : 1012 + 12 * row] for row in rows]
    assert source.priorities == [2, 2, 7, 7]
    assert queue.finished


@given(plans.filter(bool), st.sampled_from([0, 64, 500, 1 << 20]), st.data())
def test_an_error_ends_the_queue_at_its_place_in_the_order(
    ranges: list[tuple[int, int, int, int]], budget: int, data: st.DataObject
):
    source = ScriptedSource()
    queue = IoQueue(source, budget_bytes=budget)
    consumer = Consumer(queue, holds=data.draw(st.sampled_from([0, 100])))
    plan = make_plan(ranges)
    queue.submit(plan)
    draw = drawer(data)
    lost: set[tuple[int, int]] = set()
    raised: StoreError | None = None
    while not queue.finished:
        try:
            if draw(2) and consumer.take():
                continue
            if source.outstanding:
                at = draw(len(source.outstanding))
                if draw(4) == 0:
                    lost.add(source.outstanding[at][:2])
                    source.answer(at, fail=True)
                else:
                    source.answer(at)
            elif not consumer.take():
                raise QueueHangsError
        except StoreError as error:
            raised = error
            break
    touched = {
        int(plan.request[entry])
        for entry in range(len(plan))
        for start, end in lost
        # An empty range wants no byte, and loses none.
        if max(plan.start[entry], start) < min(plan.end[entry], end)
    }
    delivered = [request for _, _, request in consumer.seen]
    if raised is None:
        assert not touched
        assert delivered == list(range(plan.request_count))
    else:
        assert delivered == list(range(min(touched)))
        assert raised.context["object"] == "object"
        with pytest.raises(StoreError) as again:
            queue.poll()
        assert again.value is raised
        assert queue.finished


@given(plans, st.sampled_from([0, 64, 1 << 20]), st.integers(0, 8), st.data())
def test_cancelling_at_any_time_ends_the_queue(
    ranges: list[tuple[int, int, int, int]], budget: int, steps: int, data: st.DataObject
):
    source = ScriptedSource()
    queue = IoQueue(source, budget_bytes=budget)
    consumer = Consumer(queue, holds=2)
    queue.submit(make_plan(ranges))
    draw = drawer(data)
    for _ in range(steps):
        if source.outstanding and draw(2):
            source.answer(draw(len(source.outstanding)))
        else:
            consumer.take()
    asked = len(source.asked)
    queue.cancel()
    while source.outstanding:
        source.answer(draw(len(source.outstanding)), fail=bool(draw(2)))
    assert queue.finished
    with pytest.raises(CancelledError):
        queue.poll()
    with pytest.raises(CancelledError):
        next(queue)
    for delivered in consumer.held:
        delivered.release()
    assert queue.reserved_bytes == 0
    assert len(source.asked) == asked


# --- the rule of admission ------------------------------------------------------------------------


@dataclasses.dataclass
class Part:
    """A part as the brute-force model knows it."""

    priority: int
    size: int
    requests: frozenset[int]
    admitted: bool = False


class Model:
    """The rule of admission written from its words, over plain lists."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.parts: list[Part] = []
        self.order: dict[int, int] = {}
        self.delivered: set[int] = set()
        self.released: set[int] = set()

    def add(self, part: Part) -> None:
        for request in part.requests:
            if not any(request in other.requests for other in self.parts):
                part.priority = min(part.priority, self.order[request])
        self.parts.append(part)

    def reserved(self) -> int:
        return sum(p.size for p in self.parts if p.admitted and p.requests - self.released)

    def in_flight(self) -> set[int]:
        admitted = [p.requests for p in self.parts if p.admitted]
        return {r for requests in admitted for r in requests} - self.delivered

    def permits(self, part: Part) -> bool:
        flying = self.in_flight()
        undelivered = [(p, r) for r, p in self.order.items() if r not in self.delivered]
        due = min(undelivered)[1] if undelivered else None
        return (
            self.reserved() + part.size <= self.budget
            or not flying
            or part.priority <= min(self.order[r] for r in flying)
            or (due in flying and due in part.requests)
        )


@given(
    st.integers(0, 100),
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), min_size=1, max_size=4),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=4),
    st.data(),
)
def test_admission_agrees_with_its_words_and_overdraws_only_by_them(
    budget: int,
    requests: list[list[tuple[int, int]]],
    shared: list[tuple[int, int]],
    data: st.DataObject,
):
    admission, model = Admission(budget), Model(budget)
    also = {a: b for a, b in shared if a < len(requests) and b < len(requests) and a != b}
    part = 0
    for request, parts in enumerate(requests):
        model.order[request] = min(priority for priority, _ in parts)
        admission.add_request(request, model.order[request])
    for request, parts in enumerate(requests):
        for at, (priority, size) in enumerate(parts):
            members = {request, also[request]} if at == 0 and request in also else {request}
            model.add(Part(priority, size, frozenset(members)))
            admission.add_part(part, priority, size, sorted(members))
            part += 1
    ready: list[int] = []
    while len(model.released) < len(requests):
        for number in admission.admit():
            assert not model.parts[number].admitted
            assert model.permits(model.parts[number])
            model.parts[number].admitted = True
        assert admission.reserved_bytes == model.reserved()
        waiting = [p for p in model.parts if not p.admitted]
        if waiting:
            # What waits at the head of the line does so because no rule lets it in.
            assert not model.permits(min(waiting, key=lambda p: p.priority))
        complete = [
            request
            for request in set(model.order) - model.delivered
            if all(p.admitted for p in model.parts if request in p.requests)
        ]
        due = admission.next_request
        if due is not None:
            assert due in complete, "the next request can never complete"
        if ready and (due is None or data.draw(st.booleans())):
            request = ready.pop(data.draw(st.integers(0, len(ready) - 1)))
            admission.release(request)
            model.released.add(request)
        elif due is not None:
            admission.deliver(due)
            model.delivered.add(due)
            ready.append(due)
    assert admission.reserved_bytes == 0
    assert admission.next_request is None


@dataclasses.dataclass(frozen=True)
class Trap:
    """A schedule that hangs when a rule is left out."""

    name: str
    rule: Rule
    budget: int
    first: tuple[tuple[int, int, int, int], ...]
    late: tuple[tuple[int, int, int, int], ...] = ()


TRAPS = (
    Trap(
        "a request larger than the budget has to run alone",
        nothing_in_flight,
        10,
        ((0, 0, 0, 100), (1, 1, 200, 300)),
    ),
    Trap(
        "what comes late and is due first has to pass what fills the budget",
        at_or_before_first_in_flight,
        100,
        ((0, 5, 0, 100),),
        ((0, 3, 200, 300),),
    ),
    Trap(
        "a request of which a part is there has to get the rest of it",
        next_is_partly_in_flight,
        100,
        ((0, 0, 0, 50), (0, 9, 200, 300), (1, 5, 400, 450)),
    ),
)


def drive(trap: Trap, rules: tuple[Rule, ...]) -> list[int]:
    source = ScriptedSource()
    queue = IoQueue(source, budget_bytes=trap.budget, expect_more=True, rules=rules)
    consumer = Consumer(queue, holds=0)
    queue.submit(make_plan(trap.first))
    queue.submit(make_plan(trap.late))
    queue.no_more()
    run_to_the_end(queue, source, consumer, lambda count: 0)
    return [priority for priority, _, _ in consumer.seen]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.rule.__name__)
def test_a_queue_that_lacks_a_rule_hangs_where_the_whole_one_does_not(trap: Trap):
    priorities = drive(trap, ADMISSION_RULES)
    assert priorities == sorted(priorities)
    with pytest.raises(QueueHangsError):
        drive(trap, tuple(rule for rule in ADMISSION_RULES if rule is not trap.rule))


def test_the_budget_is_filled_to_the_last_byte():
    admission = Admission(100)
    for request, size in enumerate((60, 40, 1)):
        admission.add_request(request, request)
        admission.add_part(request, request, size, [request])
    assert admission.admit() == [0, 1]
    assert (admission.reserved_bytes, admission.free_bytes, admission.waiting_bytes) == (100, 0, 1)
    admission.deliver(0)
    assert admission.admit() == []
    admission.release(0)
    assert admission.admit() == [2]


def test_a_budget_below_nothing_is_refused():
    with pytest.raises(OptionError):
        IoQueue(ScriptedSource(), budget_bytes=-1)


def test_the_rules_are_these_four():
    assert set(ADMISSION_RULES) == {
        fits,
        nothing_in_flight,
        at_or_before_first_in_flight,
        next_is_partly_in_flight,
    }


def test_a_part_shared_by_many_requests_does_not_pull_all_of_them_in():
    """Each request shares a part with the next one; the budget holds all the same."""
    ranges = [(request, request, 100 * request, 100 * request + 120) for request in range(30)]
    source = ScriptedSource(CoalesceLimits(0, 100))
    queue = IoQueue(source, budget_bytes=300)
    queue.submit(make_plan(ranges))
    consumer = Consumer(queue, holds=0)
    most = 0
    while not queue.finished:
        most = max(most, queue.reserved_bytes)
        if not consumer.take():
            source.answer(0)
    assert most <= 300
    assert len(consumer.seen) == 30


# --- the driver -----------------------------------------------------------------------------------


def memory_objects(**named: bytes) -> MemoryObjects:
    objects = MemoryObjects.named("")
    for name, data in named.items():
        objects.put_if_absent(name, data)
    return objects


def test_an_immediate_source_needs_no_thread():
    source = MemorySource(memory_objects(object=DATA))
    before = set(threading.enumerate())
    with IoQueue(source, budget_bytes=100) as queue:
        queue.submit(make_plan([(0, 3, 0, 10), (1, 1, 5, 900), (2, 2, 1000, 1000)]))
        found = [(d.request, [b.to_pybytes() for b in d.buffers]) for d in queue]
    assert found == [(0, [DATA[5:900]]), (1, [b""]), (2, [DATA[:10]])]
    assert set(threading.enumerate()) <= before


@settings(max_examples=15)
@given(plans, st.sampled_from([0, 300, 1 << 20]), st.integers(1, 3))
def test_threads_that_take_and_release_at_will_get_everything_once(
    ranges: list[tuple[int, int, int, int]], budget: int, consumers: int
):
    plan = make_plan(ranges)
    found: list[int] = []
    with (
        closing(
            ObjectStoreSource(
                memory_objects(object=DATA), in_flight=3, limits=CoalesceLimits(8, 64)
            )
        ) as source,
        IoQueue(source, budget_bytes=budget) as queue,
    ):
        queue.submit(plan)

        def consume() -> None:
            for delivered in queue:
                with delivered:
                    (answer,) = delivered.answers
                    for entry, buffer in zip(answer.entries, answer.buffers, strict=True):
                        expected = DATA[int(plan.start[entry]) : int(plan.end[entry])]
                        assert buffer.to_pybytes() == expected
                    found.append(delivered.request)

        threads = [threading.Thread(target=consume) for _ in range(consumers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
    assert sorted(found) == list(range(plan.request_count))
    assert queue.reserved_bytes == 0


def test_a_consumer_that_waits_is_woken_by_a_cancellation():
    source = ScriptedSource()
    queue = IoQueue(source)
    queue.submit(make_plan([(0, 0, 0, 10)]))
    seen: list[BaseException] = []
    waiting = threading.Event()

    def consume() -> None:
        waiting.set()
        try:
            next(queue)
        except CancelledError as error:
            seen.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    assert waiting.wait(60)
    queue.cancel()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(seen) == 1


def test_an_error_names_object_column_and_page():
    source = MemorySource(memory_objects(object=DATA), limits=CoalesceLimits(0, OBJECT_BYTES))
    plan = dataclasses.replace(
        make_plan([(0, 0, 0, 10), (1, 1, 4000, 5000)]),
        column=np.array([4, 7]),
        page=np.array([0, 31]),
    )
    with IoQueue(source, column_names={7: "price"}) as queue:
        queue.submit(plan)
        next(queue).release()
        with pytest.raises(CorruptSegmentError) as caught:
            next(queue)
    error = caught.value
    assert isinstance(error.__cause__, CorruptStoreError)
    assert error.context == {"object": "object", "column": "price", "page": "31"}
    assert "4000" in error.message
    assert "4096" in error.message


def test_an_object_that_is_gone_is_damage_to_the_segment():
    with IoQueue(MemorySource(memory_objects())) as queue:
        queue.submit(make_plan([(0, 0, 0, 10)]))
        with pytest.raises(CorruptSegmentError, match="missing"):
            next(queue)


def test_an_error_of_a_continuation_is_that_of_its_request():
    def proceed(answers: tuple[Answer, ...]) -> ReadPlan | None:
        if answers[0].request == 1:
            raise CorruptSegmentError("offsets go backwards")
        return None

    with IoQueue(MemorySource(memory_objects(object=DATA))) as queue:
        queue.submit(make_plan([(0, 0, 0, 10), (1, 1, 10, 20), (2, 2, 20, 30)]), proceed)
        assert next(queue).request == 0
        with pytest.raises(CorruptSegmentError, match="backwards"):
            next(queue)


def test_each_read_is_an_event():
    events: list[telemetry.Event] = []
    with (
        telemetry.subscribe(events.append),
        IoQueue(MemorySource(memory_objects(object=DATA), limits=CoalesceLimits(5, 1000))) as queue,
    ):
        queue.submit(make_plan([(0, 0, 0, 10), (1, 1, 15, 20), (2, 2, 4000, 5000)]))
        next(queue).release()
        next(queue).release()
        with pytest.raises(CorruptSegmentError):
            next(queue)
    reads = [event.attributes for event in events if event.name == "io.read"]
    assert reads == [
        {
            "source": "memory",
            "object": "object",
            "offset": offset,
            "bytes": size,
            "requests": requests,
            "priority": priority,
            "failed": failed,
        }
        for offset, size, requests, priority, failed in [
            (0, 20, 2, 0, False),
            (4000, 1000, 1, 2, True),
        ]
    ]


def test_a_plan_after_the_last_one_is_refused():
    queue = IoQueue(ScriptedSource())
    queue.submit(make_plan([]))
    queue.cancel()
    with pytest.raises(CancelledError):
        queue.submit(make_plan([(0, 0, 0, 1)]))
    closed = IoQueue(ScriptedSource(), expect_more=True)
    closed.no_more()
    with pytest.raises(InvalidInputError):
        closed.submit(make_plan([(0, 0, 0, 1)]))


@given(plans, st.sampled_from(["memory", "threads"]))
def test_read_all_gives_the_bytes_of_every_entry_in_the_order_of_the_plan(
    ranges: list[tuple[int, int, int, int]], kind: str
):
    plan = make_plan(ranges)
    objects = memory_objects(object=DATA)
    made = MemorySource(objects) if kind == "memory" else ObjectStoreSource(objects)
    with closing(made) as source:
        buffers = read_all(source, plan)
    assert [b.to_pybytes() for b in buffers] == [
        DATA[s:e] for s, e in zip(plan.start.tolist(), plan.end.tolist(), strict=True)
    ]

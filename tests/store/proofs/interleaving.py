"""Runs writers on one place one call at a time, in every order in which their calls can come.

Stateless model checking: the writers run anew for each order, as threads that wait before each call
of the object store until it is their turn (Godefroid, "Model checking for programming languages
using VeriSoft", POPL 1997). What a writer does between two calls touches nothing that another one
sees, so the orders of calls are all that can happen.

Objects of random names, which nobody can read before a log entry names them, commute with all that
others do; calls for them take no turn unless ``every_call`` is asked for (a persistent set of
moves: the orders that are left out end in the same states).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tessel.errors import TesselError
from tessel.store.objects import MemoryObjects, ObjectStore

_SHARED = ("log/", "store.json", "lease/")
"""Names that several writers choose alike, or find by listing."""

Writer = Callable[[ObjectStore], object]


class Turns:
    """Lets one of several threads go on at a time."""

    def __init__(self, writers: int) -> None:
        self._changed = threading.Condition()
        self._alive = set(range(writers))
        self._waiting: set[int] = set()
        self._next: int | None = None

    def wait(self, writer: int) -> None:
        """Return when it is this writer's turn; called before each of its calls."""
        with self._changed:
            self._waiting.add(writer)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._next == writer)
            self._next = None
            self._waiting.discard(writer)

    def end(self, writer: int) -> None:
        """Take a writer that has returned out of the others' way."""
        with self._changed:
            self._alive.discard(writer)
            self._changed.notify_all()

    def ready(self) -> list[int]:
        """Return who waits for a turn, once nobody runs; nobody once all have ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is None and self._waiting == self._alive)
            return sorted(self._waiting)

    def give(self, writer: int) -> None:
        """Let a writer make its next call."""
        with self._changed:
            self._next = writer
            self._changed.notify_all()


class SteppedObjects(MemoryObjects):
    """A writer's door to a place that others use too: each call waits for its turn."""

    puts_in_flight = 1

    def __init__(
        self, place: MemoryObjects, turns: Turns, writer: int, *, every_call: bool = False
    ) -> None:
        super().__init__(place.uri)
        self._data, self._modified_us = place._data, place._modified_us
        self._names = place._names
        self._turns, self._writer, self._every_call = turns, writer, every_call

    def _turn(self, name: str) -> None:
        if self._every_call or name.startswith(_SHARED):
            self._turns.wait(self._writer)

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        self._turn(name)
        return super().put_if_absent(name, data)

    def get(self, name: str) -> pa.Buffer:
        self._turn(name)
        return super().get(name)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        self._turns.wait(self._writer)
        return super().list(prefix, after=after, limit=limit)

    def exists(self, name: str) -> bool:
        self._turn(name)
        return super().exists(name)

    def delete(self, name: str) -> None:
        self._turn(name)
        super().delete(name)


def copied(place: MemoryObjects) -> MemoryObjects:
    """Return a place of its own with the same objects."""
    other = MemoryObjects(place.uri)
    other._data, other._modified_us = dict(place._data), dict(place._modified_us)
    other._names = list(place._names)
    return other


@dataclass
class Run:
    """What came of one order of calls.

    Attributes
    ----------
    place
        The place afterwards.
    answers
        What each writer returned, or the error that it raised.
    order
        Whose turn it was, call by call.
    """

    place: MemoryObjects
    answers: list[object]
    order: list[int] = field(default_factory=list)


def all_orders(
    prepared: MemoryObjects, writers: Sequence[Writer], *, every_call: bool = False
) -> Iterator[Run]:
    """Run the writers in every order of their calls, each time on a copy of ``prepared``."""
    choices: list[tuple[int, int]] = []
    while True:
        schedule = [chosen for chosen, _ in choices]
        run, choices = _run(copied(prepared), writers, schedule, every_call)
        yield run
        while choices and choices[-1][0] == choices[-1][1] - 1:
            choices.pop()
        if not choices:
            return
        chosen, offered = choices.pop()
        choices.append((chosen + 1, offered))


def _run(
    place: MemoryObjects, writers: Sequence[Writer], schedule: Sequence[int], every_call: bool
) -> tuple[Run, list[tuple[int, int]]]:
    turns = Turns(len(writers))
    run = Run(place, [None] * len(writers))

    def work(number: int, writer: Writer) -> None:
        try:
            run.answers[number] = writer(
                SteppedObjects(place, turns, number, every_call=every_call)
            )
        except BaseException as error:  # what is not Tessel's is raised below, in the test's thread
            run.answers[number] = error
        finally:
            turns.end(number)

    threads = [
        threading.Thread(target=work, args=(number, writer), daemon=True)
        for number, writer in enumerate(writers)
    ]
    for thread in threads:
        thread.start()
    choices: list[tuple[int, int]] = []
    while ready := turns.ready():
        at = len(choices)
        chosen = schedule[at] if at < len(schedule) else 0
        choices.append((chosen, len(ready)))
        run.order.append(ready[chosen])
        turns.give(ready[chosen])
    for thread in threads:
        thread.join()
    for answer in run.answers:
        if isinstance(answer, BaseException) and not isinstance(answer, TesselError):
            raise AssertionError(f"a writer failed in the order {run.order}") from answer
    return run, choices

"""The one stream of events that progress bars, traces and profiles are made from.

The parts call :func:`emit` at the points worth seeing (a unit loaded, a clause run, a commit
landed); whoever wants to know subscribes, to the whole process or to one run. With no subscriber an
event costs one attribute read. Nothing here prints, and a subscriber that raises is logged and
dropped, never a failed query. No event, and no record of the logger ``tessel``, shows a secret of a
URI.

An event with ``total`` is one of so many steps: with ``done``, so many of them are done, and
``rows`` and ``bytes`` are those of all of them; without it, it is one more. ``of`` tells steps of
one name apart. Progress is made of these (:mod:`tessel.progress`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NamedTuple, Self

from tessel.closing import scoped
from tessel.errors.root import without_secrets
from tessel.forking import ChildSafeLock

__all__ = [
    *["Event", "EventSums", "Recording", "Subscriber"],
    *["emit", "emit_at", "fact", "follow", "has_subscribers", "is_followed", "is_watched"],
    *["span", "subscribe"],
]

_logger = logging.getLogger("tessel")


def _hide_secrets(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_secrets(record.getMessage()), ()
    return True


_logger.addFilter(_hide_secrets)


class Event(NamedTuple):
    """Something that happened.

    Attributes
    ----------
    name
        Dotted: the part and what it did, such as ``"clause.process"`` or ``"segment.read"``.
    at_ns
        When it happened (the end, for a span), nanoseconds of a monotonic clock.
    duration_ns
        How long it took; 0 for a point in time.
    thread
        Identifier of the thread it happened in.
    attributes
        Facts: unit, clause, rows, bytes, total. They are plain, but the ``plan`` of ``query.run``;
        those that cost something to find are functions until somebody but a record is told.
    """

    name: str
    at_ns: int
    duration_ns: int
    thread: int
    attributes: dict[str, Any]


Subscriber = Callable[[Event], None]

_lock = ChildSafeLock()
_subscribers: tuple[Subscriber, ...] = ()
_followers: ContextVar[tuple[_Follower, ...]] = ContextVar("tessel_followers", default=())
"""Those of the run that the caller is part of."""
_records: ContextVar[tuple[Recording, ...]] = ContextVar("tessel_records", default=())


@contextlib.contextmanager
def subscribe(subscriber: Subscriber) -> Iterator[None]:
    """Send every event of this process to ``subscriber`` while the block runs.

    It is called in the thread in which the event happened, and must be quick and thread-safe.
    """
    global _subscribers
    with _lock:
        _subscribers = (*_subscribers, subscriber)
    try:
        yield
    finally:
        _remove(subscriber)


def follow(
    subscriber: Subscriber, *, as_it_came: bool = False
) -> contextlib.AbstractContextManager[object]:
    """Send the events of a block alone to ``subscriber``, and those of the tasks that it starts.

    Events of other runs in the process are not sent, nor those of threads that serve several. A
    block within the block has its events sent to both.

    Parameters
    ----------
    subscriber
        What is called; as in :func:`subscribe`.
    as_it_came
        Whether an event is sent with facts that are still functions, and with secrets: for whoever
        sums numbers alone, at a fraction of the cost.
    """
    return scoped(_followers, (*_followers.get(), _Follower(subscriber, as_it_came)))


class _Follower:
    """Whom the events of a block are sent to, until it raises."""

    __slots__ = ("as_it_came", "subscriber")

    def __init__(self, subscriber: Subscriber, as_it_came: bool) -> None:
        self.subscriber: Subscriber | None = subscriber
        self.as_it_came = as_it_came


class Recording:
    """Keeps the events of its block: what profiles, traces and pages are made from.

    It costs less than following, since events are looked at when they are read; and nobody counts
    the steps of progress for it.

    Attributes
    ----------
    began_ns, ended_ns
        When the block began and ended, nanoseconds of the clock of events.
    kept
        Events one by one, as they came.
    """

    def __init__(self) -> None:
        self.began_ns = self.ended_ns = time.monotonic_ns()
        self.kept: list[Event] = []
        self._more: EventSums | None = None

    def __enter__(self) -> Self:
        self.began_ns = time.monotonic_ns()
        self._token = _records.set((*_records.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _records.reset(self.__dict__.pop("_token"))
        self.ended_ns = time.monotonic_ns()

    def sum_up(self, event: Event) -> None:
        """Add an event that is not kept."""
        self._more = self._more or EventSums()
        self._more.add(_shown(event))

    @property
    def events(self) -> list[Event]:
        """The events in the order of their ends; behind them sums (``count``) of the rest."""
        sums = [] if self._more is None else self._more.sums
        more = (EventSums.as_event(told, self.ended_ns) for told in sums)
        return [*map(_shown, self.kept), *more]


_MOST_EVENTS = 20_000
"""So many events of an operation are recorded one by one, those behind them as sums."""


def _shown(event: Event) -> Event:
    """Return an event that was kept with what its functions find, and without secrets."""
    return event._replace(
        attributes=without_secrets({k: fact(v) for k, v in event.attributes.items()})
    )


def fact(value: Any) -> Any:
    """Return a fact of an event as it came: what its function finds, if it is one."""
    return value() if value.__class__ is FunctionType else value


def is_followed() -> bool:
    """Return whether anybody receives events, whose facts may cost something to find."""
    return bool(_records.get() or _subscribers or _followers.get())


def is_watched() -> bool:
    """Return whether anybody but a recording receives events: a bar, a job, a subscriber."""
    return bool(_subscribers or _followers.get())


def has_subscribers() -> bool:
    """Return whether anybody subscribes to the whole process, whatever runs are followed."""
    return bool(_subscribers)


def _remove(subscriber: Subscriber) -> None:
    global _subscribers
    with _lock:
        kept = list(_subscribers)
        if subscriber in kept:
            kept.remove(subscriber)
        _subscribers = tuple(kept)


def emit(name: str, *, duration_ns: int = 0, **attributes: Any) -> None:
    """Tell all subscribers that something happened."""
    if _records.get() or _subscribers or _followers.get():
        _tell(name, time.monotonic_ns(), duration_ns, attributes)


def emit_at(name: str, at_ns: int, duration_ns: int, **attributes: Any) -> None:
    """Tell all subscribers of what happened earlier, or in another process."""
    _tell(name, at_ns, duration_ns, attributes)


def _tell(name: str, at_ns: int, duration_ns: int, attributes: dict[str, Any]) -> None:
    # Calls are few here: each costs a microsecond of a query that takes a thousand.
    event = tuple.__new__(Event, (name, at_ns, duration_ns, threading.get_ident(), attributes))
    for record in _records.get() if "done" not in attributes else ():  # of progress alone
        if len(record.kept) < _MOST_EVENTS:
            record.kept.append(event)
        else:
            record.sum_up(event)
    shown: Event | None = None
    for follower in _followers.get():
        told = event if follower.as_it_came else (shown := shown or _shown(event))
        if follower.subscriber and not _has_taken(follower.subscriber, told):
            follower.subscriber = None
    for subscriber in _subscribers:
        shown = shown or _shown(event)
        if not _has_taken(subscriber, shown):
            _remove(subscriber)


def _has_taken(subscriber: Subscriber, event: Event) -> bool:
    try:
        subscriber(event)
    except Exception:
        _logger.exception("a subscriber to events raised and is dropped")
        return False
    return True


class span:  # noqa: N801  (used as a function)
    """Emits one event with the duration of a block; facts learnt inside go into its dictionary."""

    __slots__ = ("_attributes", "_name", "_start")

    def __init__(self, name: str, **attributes: Any) -> None:
        self._name = name
        self._attributes = attributes

    def __enter__(self) -> dict[str, Any]:
        self._start = time.monotonic_ns()
        return self._attributes

    def __exit__(self, *error: object) -> None:
        if _records.get() or _subscribers or _followers.get():
            ended = time.monotonic_ns()  # once: the beginning follows from both figures
            _tell(self._name, ended, ended - self._start, self._attributes)


_SUMS = ("rows", "rows_in", "rows_out", "bytes", "file_bytes")
_SINGLE = ("object", "unit")
"""Facts that differ from event to event, and do not add up."""


class EventSums:
    """Sums of events, by name and by what does not add up; filled from many threads.

    Attributes
    ----------
    sums
        For each its ``name``, the facts that are the ``same``, the ``sums`` of others, how many
        there were (``count``), and how long they took (``ns``).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[str, dict[str, Any]] = {}

    @property
    def sums(self) -> list[dict[str, Any]]:
        """The sums, those that took longest first."""
        with self._lock:
            return sorted(self._by_key.values(), key=lambda told: told["ns"], reverse=True)

    def add(self, event: Event) -> None:
        """Add one event, which may be a sum itself."""
        facts = event.attributes
        same = {k: v for k, v in facts.items() if k not in (*_SUMS, *_SINGLE, "count")}
        key = json.dumps([event.name, same], default=str, sort_keys=True)
        with self._lock:
            told = self._by_key.setdefault(
                key, {"name": event.name, "ns": 0, "count": 0, "sums": {}, "same": same}
            )
            told["ns"] += event.duration_ns
            told["count"] += facts.get("count", 1)
            for name in _SUMS:
                if name in facts:
                    told["sums"][name] = told["sums"].get(name, 0) + int(facts[name])

    @staticmethod
    def as_event(told: dict[str, Any], at_ns: int = 0, **more: Any) -> Event:
        """Return a sum as one event of the calling thread."""
        facts = {**told["same"], **told["sums"], "count": told["count"], **more}
        return Event(told["name"], at_ns, told["ns"], threading.get_ident(), facts)

"""The one stream of events that progress bars, traces and profiles are made from.

The parts call :func:`emit` at the points worth seeing (a unit loaded, a clause run, a commit
landed); whoever wants to know subscribes. With no subscriber an event costs one attribute read.
Nothing here prints, and a subscriber that raises is logged and dropped, never a failed query. No
event, and no record of the logger ``tessel``, shows a secret of a URI.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from tessel.errors.root import without_secrets
from tessel.forking import ChildSafeLock
from tessel.lazy import dataclass

__all__ = ["Event", "Subscriber", "emit", "follow", "is_followed", "span", "subscribe"]

_logger = logging.getLogger("tessel")


def _hide_secrets(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_secrets(record.getMessage()), ()
    return True


_logger.addFilter(_hide_secrets)


@dataclass(frozen=True, slots=True)
class Event:
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
        Plain facts: query, stage, unit, clause, rows, bytes, total.
    """

    name: str
    at_ns: int
    duration_ns: int
    thread: int
    attributes: dict[str, Any] = field(default_factory=dict)


Subscriber = Callable[[Event], None]

_lock = ChildSafeLock()
_subscribers: tuple[Subscriber, ...] = ()
_run: ContextVar[object] = ContextVar("tessel_followed", default=None)


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


@contextlib.contextmanager
def follow(subscriber: Subscriber) -> Iterator[None]:
    """Send the events of a block alone to ``subscriber``, and those of the tasks that it starts.

    Events of other runs in the process are not sent, nor those of threads that serve several.
    """
    run = object()

    def own(event: Event) -> None:
        if _run.get() is run:
            subscriber(event)

    token = _run.set(run)
    try:
        with subscribe(own):
            yield
    finally:
        _run.reset(token)


def is_followed() -> bool:
    """Return whether anybody subscribes: what is told of an event may cost something to find."""
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
    if _subscribers:
        _tell(name, time.monotonic_ns(), duration_ns, attributes)


def _tell(name: str, at_ns: int, duration_ns: int, attributes: dict[str, Any]) -> None:
    facts = without_secrets(attributes)
    event = Event(name, at_ns, duration_ns, threading.get_ident(), facts)
    for subscriber in _subscribers:
        try:
            subscriber(event)
        except Exception:
            _logger.exception("a subscriber to events raised and is dropped")
            _remove(subscriber)


def span(name: str, **attributes: Any) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """Emit one event with the duration of the block; facts learnt inside go into the dictionary."""
    if _subscribers:
        return _Span(name, attributes)
    return contextlib.nullcontext(attributes)  # a generator would cost more than what it surrounds


class _Span:
    __slots__ = ("_attributes", "_name", "_start")

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self._name = name
        self._attributes = attributes

    def __enter__(self) -> dict[str, Any]:
        self._start = time.monotonic_ns()
        return self._attributes

    def __exit__(self, *error: object) -> None:
        ended = time.monotonic_ns()  # once: the beginning follows from both figures
        _tell(self._name, ended, ended - self._start, self._attributes)

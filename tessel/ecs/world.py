"""The door to esper: the only module that imports it.

esper keeps the state of a world in module globals and switches between worlds by name. It is
neither thread-safe nor re-entrant, and its queries hand out its own cached lists. A :class:`World`
makes that safe: its block holds one lock of the whole process, switches to the world, and switches
back in a ``finally``; everything that comes out is a copy. Only the component manager enters here.

Calls cost microseconds, so the methods take many entities at a time and one block serves a whole
unit of work.
"""

from __future__ import annotations

import collections
import itertools
import os
import threading
from collections.abc import Iterable
from typing import Any

import esper

from tessel.errors import ExecutionError

_lock = threading.Lock()
_numbers = itertools.count(1)
_waiting: collections.deque[str] = collections.deque()
"""Worlds that are closed, and deleted by whoever gives up the lock."""


def _give_up_lock() -> None:
    while True:
        try:
            while _waiting:
                name = _waiting.popleft()
                if name in esper.list_worlds():
                    esper.delete_world(name)
        finally:
            _lock.release()
        if not (_waiting and _lock.acquire(blocking=False)):
            return


def _renew_lock() -> None:
    """Give a forked child a lock that nobody holds."""
    global _lock
    _lock = threading.Lock()


# A fork waits until no thread is between two switches, so that the child finds esper in its resting
# world and every world whole. The child has one thread and starts with a new lock.
os.register_at_fork(
    before=lambda: _lock.acquire(),
    after_in_parent=lambda: _lock.release(),
    after_in_child=_renew_lock,
)


class World:
    """One esper world, entered by one thread of the process at a time.

    Use it as a block; the methods raise ``ExecutionError`` outside one::

        with world:
            entities = world.create(2)

    Blocks do not nest, also not those of different worlds: they share one lock.
    """

    __slots__ = ("_before", "_closed", "_name")

    def __init__(self) -> None:
        self._name = f"tessel {next(_numbers)}"
        self._before = ""
        self._closed = False

    def __enter__(self) -> World:
        _lock.acquire()
        if self._closed:
            _give_up_lock()
            raise ExecutionError(
                "the component manager is closed",
                hint="entities live as long as the block of their ComponentManager",
            )
        self._before = esper.current_world
        esper.switch_world(self._name)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            esper.switch_world(self._before)
        finally:
            _give_up_lock()

    def close(self) -> None:
        """Delete the world with all it holds; closing twice does nothing more.

        Garbage collection closes worlds, too, at any call of a thread that holds the lock: so the
        lock is not waited for.
        """
        if not self._closed:
            self._closed = True
            _waiting.append(self._name)
            if _lock.acquire(blocking=False):
                _give_up_lock()

    # --- inside the block -------------------------------------------------------------------------

    def create(self, count: int) -> list[int]:
        """Make entities without components."""
        self._require_entered()
        return [esper.create_entity() for _ in range(count)]

    def unknown(self, entities: Iterable[int]) -> list[int]:
        """Return the entities that do not exist."""
        self._require_entered()
        exists = esper.entity_exists
        return [entity for entity in entities if not exists(entity)]

    def entities(self) -> list[int]:
        """Return all entities, oldest first."""
        self._require_entered()
        return list(esper.get_entities())

    def find(self, entities: Iterable[int], kind: type) -> list[Any]:
        """Return each entity's component of a type; None where it has none or does not exist."""
        self._require_entered()
        look = esper.try_component
        return [look(entity, kind) for entity in entities]

    def put(self, entities: Iterable[int], kind: type, components: Iterable[object]) -> None:
        """Give each entity its component under a type, in place of one it has."""
        self._require_entered()
        give = esper.add_component
        for entity, component in zip(entities, components, strict=True):
            give(entity, component, kind)

    def remove(self, entities: Iterable[int], kind: type) -> None:
        """Take a component type from entities that all have it."""
        self._require_entered()
        for entity in entities:
            esper.remove_component(entity, kind)

    def _require_entered(self) -> None:
        if esper.current_world != self._name:
            raise ExecutionError(f"the world {self._name!r} is used outside its block")

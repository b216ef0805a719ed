"""The component manager: the one thread-safe door to the entities of a query.

The pipeline makes entities here for the segments that survived pruning, attaches their data when a
load resolves, and gathers them unit by unit. Every call does all of its work under one lock, checks
everything first, and changes nothing when it raises.

esper keeps the state of a world in module globals and switches between worlds by name. It is
neither thread-safe nor re-entrant, and its queries hand out its own cached lists. So no other
module imports it: the block of a :class:`_World` holds one lock of the whole process, switches to
the world, and switches back in a ``finally``; everything that comes out is a copy.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import esper
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.closing import Closing
from tessel.ecs.piece import Columns, FetchCount
from tessel.errors import ExecutionError, InvalidInputError, NameNotFoundError, repeated

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


class _World:
    """One esper world, entered by one thread of the process at a time.

    Blocks do not nest, also not those of different worlds: they share one lock. Calls of esper cost
    microseconds, so one block serves a whole unit of work.
    """

    __slots__ = ("_before", "_closed", "_name")

    def __init__(self) -> None:
        self._name = f"tessel {next(_numbers)}"
        self._before = ""
        self._closed = False

    def __enter__(self) -> None:
        _lock.acquire()
        if self._closed:
            _give_up_lock()
            raise ExecutionError(
                "the component manager is closed",
                hint="entities live as long as the block of their ComponentManager",
            )
        self._before = esper.current_world
        esper.switch_world(self._name)

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


class ComponentManager(Closing):
    """Entities and their components, for the time of one query.

    Use it as a block, or call :meth:`close`; entities of one manager mean nothing to another. All
    methods may be called from several threads. An entity is a positive integer that is never given
    out twice. Component types need no registration: any class will do.

    Every method raises ``ExecutionError`` once the manager is closed, and ``NameNotFoundError`` for
    an entity that does not exist.
    """

    def __init__(self) -> None:
        self._world = _World()
        # Every component type ever seen, in the order of appearance: the columns of ``inspect``.
        self._kinds: dict[type, None] = {}

    def close(self) -> None:
        """Discard all entities; what was returned before stays valid. May be called twice."""
        self._world.close()

    # --- making -----------------------------------------------------------------------------------

    def add(self, count: int, columns: Mapping[type, Sequence[object]]) -> list[int]:
        """Make entities, with their components given column-wise.

        Parameters
        ----------
        count
            How many.
        columns
            For each component type one component per entity.

        Returns
        -------
        list of int
            The entities, in the order of the columns.

        Raises
        ------
        InvalidInputError
            When a column is not of length ``count`` or holds something of another type.
        """
        if count < 0:
            raise InvalidInputError(f"cannot make {count} entities", count=count)
        _check_columns(count, columns)
        with self._world:
            self._kinds.update(dict.fromkeys(columns))
            entities = [esper.create_entity() for _ in range(count)]
            for kind, values in columns.items():
                _put(entities, kind, values)
            return entities

    # --- looking ----------------------------------------------------------------------------------

    def get(self, entities: Iterable[int], *types: type) -> tuple[list[Any], ...]:
        """Return components, one list per type in the order asked, each in entity order.

        Raises
        ------
        NameNotFoundError
            For a component that an entity does not have; names both.
        """
        wanted = list(entities)
        with self._world:
            return tuple([self._get(wanted, kind) for kind in types])

    def gather(self, entities: Iterable[int], *types: type) -> tuple[list[Any], ...]:
        """Return components for a unit, and count one fetch of each of its entities.

        It is :meth:`get`, and lowers each entity's live fetch count by one. At zero the entity's
        ``Columns`` are released; its other facts stay, and so does what was returned.

        Raises
        ------
        NameNotFoundError
            For a component that an entity does not have, ``FetchCount`` included.
        ExecutionError
            For an entity that was fetched as often as planned already.
        """
        wanted = list(entities)
        distinct = list(dict.fromkeys(wanted))
        with self._world:
            found = tuple([self._get(wanted, kind) for kind in types])
            lowered = []
            done = []
            for entity, count in zip(distinct, self._get(distinct, FetchCount), strict=True):
                if count.live < 1:
                    raise ExecutionError(
                        f"entity {entity} is fetched more often than the {count.planned} times "
                        "planned",
                        hint="set_fetch_counts says how many units fetch an entity",
                        entity=entity,
                        planned=count.planned,
                    )
                lowered.append(_fetch_count(count.planned, count.live - 1))
                if count.live == 1:
                    done.append(entity)
            _put(distinct, FetchCount, lowered)
            _release(done)
            return found

    def inspect(self) -> pa.Table:
        """Return entities × components as text, for people and for ``explain``.

        Returns
        -------
        pyarrow.Table
            ``entity`` (int64) and one string column per component type, null where an entity has
            none; one row per entity.
        """
        with self._world:
            entities = sorted(esper.get_entities())
            kinds = list(self._kinds)
            columns = [_find(entities, kind) for kind in kinds]
        table = {"entity": arrow_array(entities, pa.int64())}
        for title, values in zip(_titles(kinds), columns, strict=True):
            shown = [None if value is None else _shown(value) for value in values]
            table[title] = arrow_array(shown, pa.string())
        return pa.table(table)

    # --- changing ---------------------------------------------------------------------------------

    def attach(self, entities: Iterable[int], columns: Mapping[type, Sequence[object]]) -> None:
        """Give existing entities components that they do not have, column-wise.

        Raises
        ------
        ExecutionError
            For a component that an entity has already.
        InvalidInputError
            As for :meth:`add`, and for an entity named twice.
        """
        wanted = _distinct(entities)
        _check_columns(len(wanted), columns)
        with self._world:
            _require_existing(wanted)
            for kind in columns:
                for entity, value in zip(wanted, _find(wanted, kind), strict=True):
                    if value is not None:
                        raise ExecutionError(
                            f"entity {entity} has a component {kind.__qualname__} already",
                            entity=entity,
                            component=kind.__qualname__,
                        )
            self._kinds.update(dict.fromkeys(columns))
            for kind, values in columns.items():
                _put(wanted, kind, values)

    def set_fetch_counts(self, entities: Iterable[int], planned: Sequence[int] | int) -> None:
        """Plan how many units will fetch each entity, and start counting from there.

        An entity planned for no fetch at all holds no ``Columns`` afterwards.

        Parameters
        ----------
        entities
            Each once.
        planned
            One number per entity, or one for all; not negative.
        """
        wanted = _distinct(entities)
        numbers = [planned] * len(wanted) if isinstance(planned, int) else list(planned)
        if len(numbers) != len(wanted) or any(number < 0 for number in numbers):
            raise InvalidInputError(
                f"{len(wanted)} entities take as many planned fetches, none negative",
                entities=len(wanted),
                planned=len(numbers),
            )
        counts = [_fetch_count(int(number), int(number)) for number in numbers]
        with self._world:
            _require_existing(wanted)
            self._kinds[FetchCount] = None
            _put(wanted, FetchCount, counts)
            _release([e for e, number in zip(wanted, numbers, strict=True) if not number])

    # --- inside the lock --------------------------------------------------------------------------

    def _get(self, entities: Sequence[int], kind: type) -> list[Any]:
        """Return each entity's component of a type; raises where one has none."""
        column = _find(entities, kind)
        for entity, value in zip(entities, column, strict=True):
            if value is None:
                _require_existing([entity])
                held = [k.__qualname__ for k in self._kinds if esper.has_component(entity, k)]
                error = NameNotFoundError.for_name("component", kind.__qualname__, held)
                error.attributes["entity"] = entity
                raise error.with_context(entity=str(entity))
        return column


def _find(entities: Iterable[int], kind: type) -> list[Any]:
    """Return each entity's component of a type; None where it has none or does not exist."""
    return [esper.try_component(entity, kind) for entity in entities]


def _put(entities: Iterable[int], kind: type, components: Iterable[object]) -> None:
    """Give each entity its component under a type, in place of one it has."""
    for entity, component in zip(entities, components, strict=True):
        esper.add_component(entity, component, kind)


def _require_existing(entities: Iterable[int]) -> None:
    for entity in entities:
        if not esper.entity_exists(entity):
            raise NameNotFoundError(
                f"no entity {entity}",
                hint="it belongs to another manager",
                entity=entity,
            )


def _release(entities: Sequence[int]) -> None:
    """Let go of the data of entities that no unit will fetch any more."""
    for entity in entities:
        if esper.has_component(entity, Columns):
            esper.remove_component(entity, Columns)


@functools.lru_cache(maxsize=256)
def _fetch_count(planned: int, live: int) -> FetchCount:
    # Entities differ in few counts: shared objects make counting down cheap.
    return FetchCount(planned, live)


def _distinct(entities: Iterable[int]) -> list[int]:
    wanted = list(entities)
    if (twice := repeated(wanted)) is not None:
        raise InvalidInputError(f"entity {twice} is named twice", entity=twice)
    return wanted


def _check_columns(count: int, columns: Mapping[type, Sequence[object]]) -> None:
    for kind, values in columns.items():
        if len(values) != count:
            raise InvalidInputError(
                f"{count} entities take as many components, not {len(values)} {kind.__qualname__}",
                component=kind.__qualname__,
                entities=count,
                components=len(values),
            )
        for other in set(map(type, values)):
            if other is type(None) or not issubclass(other, kind):
                raise InvalidInputError(
                    f"a column of {kind.__qualname__} holds a {other.__qualname__}",
                    component=kind.__qualname__,
                    found=other.__qualname__,
                )


def _titles(kinds: Sequence[type]) -> list[str]:
    """Return a name for each type: short where that is clear, else longer, else numbered."""
    taken = {"entity"}
    titles = []
    for kind in kinds:
        short, full = kind.__name__, f"{kind.__module__}.{kind.__qualname__}"
        numbered = (f"{full} ({number})" for number in itertools.count(2))
        title = next(name for name in itertools.chain((short, full), numbered) if name not in taken)
        taken.add(title)
        titles.append(title)
    return titles


def _shown(component: object) -> str:
    if isinstance(component, Columns):
        return f"{component.table.num_rows} rows × {component.table.num_columns} columns"
    text = repr(component)
    start = f"{type(component).__qualname__}("
    return text[len(start) : -1] if text.startswith(start) and text.endswith(")") else text

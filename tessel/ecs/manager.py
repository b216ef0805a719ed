"""The component manager: the one thread-safe door to the entities of a query.

The pipeline makes entities here for the segments that survived pruning, attaches their data when a
load resolves, and gathers them unit by unit. Every call does all of its work under one lock, checks
everything first, and changes nothing when it raises.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.closing import Closing
from tessel.ecs.piece import Columns, FetchCount
from tessel.ecs.world import World
from tessel.errors import ExecutionError, InvalidInputError, NameNotFoundError, repeated


class ComponentManager(Closing):
    """Entities and their components, for the time of one query.

    Use it as a block, or call :meth:`close`; entities of one manager mean nothing to another. All
    methods may be called from several threads. An entity is a positive integer that is never given
    out twice. Component types need no registration: any class will do.

    Every method raises ``ExecutionError`` once the manager is closed, and ``NameNotFoundError`` for
    an entity that does not exist.
    """

    def __init__(self) -> None:
        self._world = World()
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
        with self._world as world:
            self._kinds.update(dict.fromkeys(columns))
            entities = world.create(count)
            for kind, values in columns.items():
                world.put(entities, kind, values)
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
        with self._world as world:
            return tuple([self._get(world, wanted, kind) for kind in types])

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
        with self._world as world:
            found = tuple([self._get(world, wanted, kind) for kind in types])
            lowered = []
            done = []
            for entity, count in zip(distinct, self._get(world, distinct, FetchCount), strict=True):
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
            world.put(distinct, FetchCount, lowered)
            _release(world, done)
            return found

    def inspect(self) -> pa.Table:
        """Return entities × components as text, for people and for ``explain``.

        Returns
        -------
        pyarrow.Table
            ``entity`` (int64) and one string column per component type, null where an entity has
            none; one row per entity.
        """
        with self._world as world:
            entities = sorted(world.entities())
            kinds = list(self._kinds)
            columns = [world.find(entities, kind) for kind in kinds]
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
        with self._world as world:
            _require_existing(world, wanted)
            for kind in columns:
                held = world.find(wanted, kind)
                for entity, value in zip(wanted, held, strict=True):
                    if value is not None:
                        raise ExecutionError(
                            f"entity {entity} has a component {kind.__qualname__} already",
                            entity=entity,
                            component=kind.__qualname__,
                        )
            self._kinds.update(dict.fromkeys(columns))
            for kind, values in columns.items():
                world.put(wanted, kind, values)

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
        with self._world as world:
            _require_existing(world, wanted)
            self._kinds[FetchCount] = None
            world.put(wanted, FetchCount, counts)
            _release(world, [e for e, number in zip(wanted, numbers, strict=True) if not number])

    # --- inside the lock --------------------------------------------------------------------------

    def _get(self, world: World, entities: Sequence[int], kind: type) -> list[Any]:
        """Return each entity's component of a type; raises where one has none."""
        column = world.find(entities, kind)
        for entity, value in zip(entities, column, strict=True):
            if value is None:
                raise self._missing(world, entity, kind)
        return column

    def _missing(self, world: World, entity: int, kind: type) -> NameNotFoundError:
        _require_existing(world, [entity])
        held = [k for k in self._kinds if world.find([entity], k)[0] is not None]
        error = NameNotFoundError.for_name(
            "component", kind.__qualname__, [k.__qualname__ for k in held]
        )
        error.attributes["entity"] = entity
        return error.with_context(entity=str(entity))


def _require_existing(world: World, entities: Iterable[int]) -> None:
    for entity in world.unknown(entities):
        raise NameNotFoundError(
            f"no entity {entity}",
            hint="it belongs to another manager",
            entity=entity,
        )


def _release(world: World, entities: Sequence[int]) -> None:
    """Let go of the data of entities that no unit will fetch any more."""
    held = zip(entities, world.find(entities, Columns), strict=True)
    world.remove([entity for entity, data in held if data is not None], Columns)


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

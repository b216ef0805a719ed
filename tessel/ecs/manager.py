"""The component manager: the one thread-safe door to the entities of a query.

The pipeline makes entities here for the segments that survived pruning, attaches their data when a
load resolves, and gathers them unit by unit; clauses may attach component types of their own. Every
call does all of its work under one lock, checks everything first, and changes nothing when it
raises.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.ecs.components import Columns, FetchCount
from tessel.ecs.facts import FactBlock, FactColumn, FactRow, Selection
from tessel.ecs.world import World
from tessel.errors import ExecutionError, InvalidInputError, NameNotFoundError

__all__ = ["ComponentManager"]

# These change with every fetch: an entity has its own from the start, in no block.
_CHANGING: tuple[type, ...] = (Columns, FetchCount)


class ComponentManager:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Discard all entities; what was returned before stays valid. May be called twice."""
        self._world.close()

    # --- making and discarding --------------------------------------------------------------------

    def add(self, count: int, columns: Mapping[type, Sequence[object]]) -> list[int]:
        """Make entities, with their components given column-wise.

        Parameters
        ----------
        count
            How many.
        columns
            For each component type one component per entity: a sequence of objects, which is
            copied, or a :class:`~tessel.ecs.FactColumn` of arrays, which is cheapest.

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
        block = FactBlock({kind: v for kind, v in columns.items() if kind not in _CHANGING})
        rows = map(FactRow, itertools.repeat(block), range(count))
        with self._world as world:
            self._kinds.update(dict.fromkeys(columns))
            entities = world.create(zip(rows, strict=False))
            for kind in _CHANGING:
                if kind in columns:
                    world.put(entities, kind, columns[kind])
            return entities

    def add_one(self, *components: object) -> int:
        """Make one entity with these components, each of another type."""
        kinds = [type(component) for component in components]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise InvalidInputError(
                    f"an entity has one component of a type; two are {kind.__qualname__}"
                )
        with self._world as world:
            self._kinds.update(dict.fromkeys(kinds))
            return world.create([components])[0]

    def discard(self, entities: Iterable[int]) -> None:
        """Delete entities with all their components."""
        wanted = list(dict.fromkeys(entities))
        with self._world as world:
            for row in self._select(world, wanted).rows:
                if row is not None:
                    row.forget_all()
            world.delete(wanted)

    # --- looking ----------------------------------------------------------------------------------

    def get(self, entities: Iterable[int], *types: type) -> tuple[list[Any], ...]:
        """Return components, one list per type in the order asked, each in entity order.

        Raises
        ------
        NameNotFoundError
            For a component that an entity does not have; names both.
        """
        with self._world as world:
            chosen = self._select(world, entities)
            return tuple([self._get(world, chosen, kind) for kind in types])

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
            chosen = self._select(world, wanted)
            found = tuple([self._get(world, chosen, kind) for kind in types])
            if len(distinct) < len(wanted):
                chosen = self._select(world, distinct)
            lowered = []
            done = []
            for entity, count in zip(distinct, self._get(world, chosen, FetchCount), strict=True):
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
            self._put(world, chosen, FetchCount, lowered)
            if done:
                same = len(done) == len(distinct)
                self._release(world, chosen if same else self._select(world, done))
            return found

    def entities_with(self, *types: type) -> list[int]:
        """Return the entities that have all of these component types, oldest first."""
        with self._world as world:
            if not types:
                return sorted(world.entities())
            found = {entity for entity, _ in world.holders(types)}
            for entity, (row,) in world.holders((FactRow,)):
                others = [kind for kind in types if not row.covers(kind)]
                if all(world.find((entity,), kind)[0] is not None for kind in others):
                    found.add(entity)
            return sorted(found)

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
            chosen = self._select(world, entities)
            kinds = list(self._kinds)
            columns = [self._find(world, chosen, kind) for kind in kinds]
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
            For a component that an entity has already; :meth:`replace` is for those.
        InvalidInputError
            As for :meth:`add`, and for an entity named twice.
        """
        self._change(entities, columns, present=False)

    def replace(self, entities: Iterable[int], columns: Mapping[type, Sequence[object]]) -> None:
        """Put other components in the place of those that the entities have, column-wise.

        Raises
        ------
        NameNotFoundError
            For a component that an entity does not have; :meth:`attach` is for those.
        InvalidInputError
            As for :meth:`attach`.
        """
        self._change(entities, columns, present=True)

    def detach(self, entities: Iterable[int], *types: type) -> None:
        """Take components from entities that have them.

        Raises
        ------
        NameNotFoundError
            For a component that an entity does not have; names both.
        """
        wanted = list(dict.fromkeys(entities))
        kinds = list(dict.fromkeys(types))
        with self._world as world:
            chosen = self._select(world, wanted)
            for kind in kinds:
                self._get(world, chosen, kind)
            for kind in kinds:
                self._take(world, chosen, kind)

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
            chosen = self._select(world, wanted)
            self._kinds[FetchCount] = None
            self._put(world, chosen, FetchCount, counts)
            unwanted = [e for e, number in zip(wanted, numbers, strict=True) if number == 0]
            self._release(world, self._select(world, unwanted))

    # --- inside the lock --------------------------------------------------------------------------

    def _select(self, world: World, entities: Iterable[int]) -> Selection:
        """Look up where the facts of entities stand; raises for one that does not exist."""
        wanted = list(entities)
        rows = world.find(wanted, FactRow)
        for entity, row in zip(wanted, rows, strict=True):
            if row is None and not world.exists(entity):
                raise NameNotFoundError(
                    f"no entity {entity}",
                    hint="it was discarded, or it belongs to another manager",
                    entity=entity,
                )
        return Selection.of(wanted, rows)

    def _find(self, world: World, chosen: Selection, kind: type) -> list[Any]:
        """Return each entity's component of a type, None where it has none."""
        if chosen.shared is not None and kind not in chosen.shared:
            return world.find(chosen.entities, kind)
        found: list[Any] = []
        own: list[int] = []
        for at, row in enumerate(chosen.rows):
            if row is not None and row.covers(kind):
                found.append(row.block.readers[kind](row.row))
            else:
                found.append(None)
                own.append(at)
        values = world.find([chosen.entities[at] for at in own], kind)
        for at, value in zip(own, values, strict=True):
            found[at] = value
        return found

    def _get(self, world: World, chosen: Selection, kind: type) -> list[Any]:
        """Return each entity's component of a type; raises where one has none."""
        shared = chosen.shared
        if shared is not None and kind in shared and kind not in chosen.hidden:
            read = shared[kind]
            return [read(row.row) for row in chosen.rows]
        column = self._find(world, chosen, kind)
        for entity, value in zip(chosen.entities, column, strict=True):
            if value is None:
                raise self._missing(world, entity, kind)
        return column

    def _missing(self, world: World, entity: int, kind: type) -> NameNotFoundError:
        chosen = self._select(world, [entity])
        held = [k for k in self._kinds if self._find(world, chosen, k)[0] is not None]
        error = NameNotFoundError.for_name(
            "component", kind.__qualname__, [k.__qualname__ for k in held]
        )
        error.attributes["entity"] = entity
        return error.with_context(entity=str(entity))

    def _change(
        self,
        entities: Iterable[int],
        columns: Mapping[type, Sequence[object]],
        *,
        present: bool,
    ) -> None:
        wanted = _distinct(entities)
        _check_columns(len(wanted), columns)
        with self._world as world:
            chosen = self._select(world, wanted)
            for kind in columns:
                held = self._find(world, chosen, kind)
                for entity, value in zip(wanted, held, strict=True):
                    if value is None and present:
                        raise self._missing(world, entity, kind)
                    if value is not None and not present:
                        raise ExecutionError(
                            f"entity {entity} has a component {kind.__qualname__} already",
                            hint="replace() puts another in its place",
                            entity=entity,
                            component=kind.__qualname__,
                        )
            self._kinds.update(dict.fromkeys(columns))
            for kind, values in columns.items():
                self._put(world, chosen, kind, values)

    def _put(self, world: World, chosen: Selection, kind: type, values: Iterable[object]) -> None:
        """Give entities a component of their own, in place of one they have."""
        self._hide(world, chosen, kind)
        world.put(chosen.entities, kind, values)

    def _take(self, world: World, chosen: Selection, kind: type) -> None:
        """Take a component from entities that have it."""
        hidden = self._hide(world, chosen, kind)
        world.remove([entity for entity in chosen.entities if entity not in hidden], kind)

    def _hide(self, world: World, chosen: Selection, kind: type) -> set[int]:
        """Make entities blind to a fact of their block; returns those that had it there."""
        hidden: set[int] = set()
        if chosen.shared is not None and kind not in chosen.shared:
            return hidden
        # The rows are looked up again: this may be the second type that is hidden in one call.
        rows = world.find(chosen.entities, FactRow)
        for entity, row in zip(chosen.entities, rows, strict=True):
            if row is not None and row.covers(kind):
                row.block.forget(kind, row.row)
                world.put((entity,), FactRow, (row._replace(hidden=row.hidden | {kind}),))
                hidden.add(entity)
        return hidden

    def _release(self, world: World, chosen: Selection) -> None:
        """Let go of the data of entities that no unit will fetch any more."""
        data = self._find(world, chosen, Columns)
        full = [e for e, held in zip(chosen.entities, data, strict=True) if held is not None]
        if len(full) < len(data):
            chosen = self._select(world, full)
        self._take(world, chosen, Columns)


@functools.lru_cache(maxsize=256)
def _fetch_count(planned: int, live: int) -> FetchCount:
    # Entities differ in few counts: shared objects make counting down cheap.
    return FetchCount(planned, live)


def _distinct(entities: Iterable[int]) -> list[int]:
    wanted = list(entities)
    if len(set(wanted)) != len(wanted):
        twice = next(entity for entity in wanted if wanted.count(entity) > 1)
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
        if isinstance(values, FactColumn):
            found = {values.component_type}
        else:
            found = set(map(type, values))
        for other in found:
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

"""The component manager: what each call does, its errors, threads, fork."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import weakref
from dataclasses import dataclass

import esper
import numpy as np
import pyarrow as pa
import pytest

from tessel.ecs import ColRange, Columns, ComponentManager, FetchCount, RowRange
from tessel.ecs.manager import _put
from tessel.errors import ExecutionError, InvalidInputError, NameNotFoundError


@dataclass(frozen=True)
class Colour:
    name: str


@dataclass(frozen=True)
class Heavy:
    payload: object


class Payload:
    """Something that can be watched being freed."""


class ArrayLike:
    """A component whose ``==`` gives an array, as numpy's does."""

    def __eq__(self, other: object) -> object:  # type: ignore[override]
        return np.array([True, False])

    __hash__ = None  # type: ignore[assignment]


def rows(*bounds: tuple[int, int]) -> list[RowRange]:
    return [RowRange(*pair) for pair in bounds]


def table(value: int = 0) -> pa.Table:
    return pa.table({"value": [value, value]})


def one(manager: ComponentManager, *components: object) -> int:
    """Make one entity with these components."""
    return manager.add(1, {type(component): [component] for component in components})[0]


def holders(manager: ComponentManager, kind: type) -> list[int]:
    """Return the entities that have a component of a type."""
    shown = manager.inspect().select(["entity", kind.__name__]).to_pylist()
    return [line["entity"] for line in shown if line[kind.__name__] is not None]


def test_components_come_back_in_the_order_asked():
    with ComponentManager() as manager:
        entities = manager.add(
            2, {RowRange: rows((0, 5), (5, 9)), ColRange: [ColRange(0, 2), ColRange(2, 4)]}
        )
        columns, ranges = manager.get(entities[::-1], ColRange, RowRange)
        assert columns == [ColRange(2, 4), ColRange(0, 2)]
        assert ranges == rows((5, 9), (0, 5))
        assert manager.get(entities) == ()
        assert manager.get([], RowRange) == ([],)


def test_entities_of_several_calls_and_shapes_are_found_together():
    with ComponentManager() as manager:
        bulk = manager.add(2, {RowRange: rows((0, 1), (1, 2))})
        single = one(manager, RowRange(2, 3), Colour("red"))
        more = manager.add(1, {RowRange: rows((3, 4))})
        order = [*more, single, *bulk]
        assert manager.get(order, RowRange) == (rows((3, 4), (2, 3), (0, 1), (1, 2)),)
        assert len(set(order)) == 4


def test_entities_are_never_given_out_twice():
    with ComponentManager() as manager:
        assert not set(manager.add(3, {})) & set(manager.add(3, {}))


def test_what_a_caller_does_to_its_lists_later_changes_nothing():
    with ComponentManager() as manager:
        given = rows((0, 1))
        entities = manager.add(1, {RowRange: given})
        given[0] = RowRange(7, 8)
        (found,) = manager.get(entities, RowRange)
        found.clear()
        assert manager.get(entities, RowRange) == (rows((0, 1)),)


def test_a_component_may_be_anything_also_with_an_odd_equality():
    with ComponentManager() as manager:
        odd = ArrayLike()
        bulk = manager.add(1, {ArrayLike: [odd]})[0]
        single = one(manager, odd)
        (found,) = manager.get([bulk, single], ArrayLike)
        assert found[0] is odd
        assert found[1] is odd
        assert holders(manager, ArrayLike) == [bulk, single]


def test_a_subclass_is_filed_under_the_type_it_was_given_for():
    class Scarlet(Colour):
        pass

    with ComponentManager() as manager:
        bulk = manager.add(1, {Colour: [Scarlet("a")]})
        manager.attach(bulk, {Heavy: [Heavy(1)]})
        later = manager.add(1, {})
        manager.attach(later, {Colour: [Scarlet("b")]})
        assert manager.get([*bulk, *later], Colour) == ([Scarlet("a"), Scarlet("b")],)
        with pytest.raises(NameNotFoundError):
            manager.get(later, Scarlet)


# --- errors: each leaves everything as it was ---------------------------------------------------


def test_a_missing_component_names_entity_and_type():
    with ComponentManager() as manager:
        entities = manager.add(2, {RowRange: rows((0, 1), (1, 2))})
        manager.attach(entities[:1], {Colour: [Colour("red")]})
        with pytest.raises(NameNotFoundError) as caught:
            manager.get(entities, RowRange, Colour)
        assert caught.value.attributes["entity"] == entities[1]
        assert str(caught.value) == (
            "[name-not-found] no component 'Colour'\n"
            "  components: RowRange\n"
            f"  in entity: {entities[1]}"
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda m, e: m.get([e, 99], RowRange),
        lambda m, e: m.gather([e, 99], RowRange),
        lambda m, e: m.attach([e, 99], {Colour: [Colour("a"), Colour("b")]}),
        lambda m, e: m.set_fetch_counts([e, 99], 3),
    ],
    ids=["get", "gather", "attach", "set_fetch_counts"],
)
def test_an_unknown_entity_raises_and_changes_nothing(call):
    with ComponentManager() as manager:
        entity = one(manager, RowRange(0, 1))
        manager.set_fetch_counts([entity], 2)
        before = manager.inspect()
        with pytest.raises(NameNotFoundError, match="no entity 99"):
            call(manager, entity)
        assert manager.inspect().equals(before)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m, e: m.add(-1, {}), InvalidInputError),
        (lambda m, e: m.add(2, {RowRange: rows((0, 1))}), InvalidInputError),
        (lambda m, e: m.add(1, {RowRange: [Colour("red")]}), InvalidInputError),
        (lambda m, e: m.add(1, {object: [None]}), InvalidInputError),
        (lambda m, e: m.attach([e], {Heavy: [Heavy(1)], Colour: []}), InvalidInputError),
        (lambda m, e: m.attach([e, e], {Heavy: [Heavy(1)] * 2}), InvalidInputError),
        (lambda m, e: m.attach([e], {Heavy: [Heavy(1)], RowRange: rows((5, 6))}), ExecutionError),
        (lambda m, e: m.set_fetch_counts([e], -1), InvalidInputError),
        (lambda m, e: m.set_fetch_counts([e], [1, 2]), InvalidInputError),
        (lambda m, e: m.gather([e], RowRange), NameNotFoundError),
    ],
)
def test_misuse_raises_and_changes_nothing(call, error):
    with ComponentManager() as manager:
        entity = manager.add(1, {RowRange: rows((0, 1))})[0]
        before = manager.inspect()
        with pytest.raises(error):
            call(manager, entity)
        assert manager.inspect().equals(before)
        assert manager.get([entity], RowRange) == (rows((0, 1)),)


def test_a_closed_manager_says_so_and_its_world_is_gone():
    worlds = set(esper.list_worlds())
    manager = ComponentManager()
    manager.add(3, {})
    manager.close()
    manager.close()
    assert set(esper.list_worlds()) == worlds
    with pytest.raises(ExecutionError, match="closed"):
        manager.inspect()
    assert set(esper.list_worlds()) == worlds


def test_a_manager_that_garbage_collection_closes_waits_for_no_lock():
    # A generator that nobody runs on closes its manager wherever it is collected: here within a
    # component that is being added, by a thread that holds the lock of all worlds.
    worlds = set(esper.list_worlds())
    left = ComponentManager()
    left.add(1, {})

    class Closing:
        def __iter__(self):
            left.close()
            assert set(esper.list_worlds()) > worlds
            yield Colour("red")

    def run() -> None:
        with ComponentManager() as manager, manager._world:
            _put([esper.create_entity()], Colour, Closing())
            assert len(set(esper.list_worlds()) - worlds) == 2

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert set(esper.list_worlds()) == worlds


def test_an_error_inside_leaves_esper_in_the_world_it_was_in():
    esper.switch_world("a world of someone else")
    try:
        with ComponentManager() as manager:
            with pytest.raises(NameNotFoundError):
                manager.get([1], RowRange)
            assert esper.current_world == "a world of someone else"
    finally:
        esper.switch_world("default")
        esper.delete_world("a world of someone else")


def test_what_a_closed_manager_held_is_freed():
    payload = Payload()
    watch = weakref.ref(payload)
    with ComponentManager() as manager:
        manager.add(2, {Heavy: [Heavy(payload), Heavy(None)]})
        del payload
        gc.collect()
        assert watch() is not None
    gc.collect()
    assert watch() is None


# --- fetch counts -------------------------------------------------------------------------------


def test_columns_are_released_with_the_last_fetch_and_facts_stay():
    with ComponentManager() as manager:
        once, twice = manager.add(2, {RowRange: rows((0, 2), (2, 4))})
        manager.set_fetch_counts([once, twice], [1, 2])
        manager.attach([once, twice], {Columns: [Columns(table(1)), Columns(table(2))]})
        first, ranges = manager.gather([once, twice], Columns, RowRange)
        assert holders(manager, Columns) == [twice]
        assert manager.get([once, twice], FetchCount) == ([FetchCount(1, 0), FetchCount(2, 1)],)
        (second,) = manager.gather([twice], Columns)
        assert holders(manager, Columns) == []
        assert manager.get([once, twice], RowRange) == (ranges,)
        assert [c.table["value"].to_pylist() for c in first] == [[1, 1], [2, 2]]
        assert second[0].table is first[1].table


def test_released_data_is_freed_also_when_it_was_given_in_bulk():
    class Watched(Columns):
        __slots__ = ("__weakref__",)

    data = Watched(table())
    watch = weakref.ref(data)
    with ComponentManager() as manager:
        entities = manager.add(1, {Columns: [data]})
        del data
        manager.set_fetch_counts(entities, 1)
        manager.gather(entities)
        gc.collect()
        assert watch() is None


def test_fetching_more_often_than_planned_raises_and_counts_nothing():
    with ComponentManager() as manager:
        spent, fresh = manager.add(2, {})
        manager.set_fetch_counts([spent, fresh], 1)
        manager.gather([spent])
        with pytest.raises(ExecutionError, match="more often than the 1 times planned"):
            manager.gather([fresh, spent])
        assert manager.get([spent, fresh], FetchCount) == ([FetchCount(1, 0), FetchCount(1, 1)],)


def test_a_missing_component_does_not_count_as_a_fetch():
    with ComponentManager() as manager:
        entity = one(manager, Colour("red"))
        manager.set_fetch_counts([entity], 1)
        with pytest.raises(NameNotFoundError):
            manager.gather([entity], Columns)
        assert manager.get([entity], FetchCount) == ([FetchCount(1, 1)],)


def test_an_entity_twice_in_one_unit_is_fetched_once():
    with ComponentManager() as manager:
        entity = one(manager, Colour("red"))
        manager.set_fetch_counts([entity], 2)
        assert manager.gather([entity, entity], Colour) == ([Colour("red")] * 2,)
        assert manager.get([entity], FetchCount) == ([FetchCount(2, 1)],)


def test_an_entity_planned_for_no_unit_holds_no_data():
    with ComponentManager() as manager:
        kept, dropped = manager.add(2, {Columns: [Columns(table()), Columns(table())]})
        manager.set_fetch_counts([kept, dropped], [1, 0])
        assert holders(manager, Columns) == [kept]


# --- people -------------------------------------------------------------------------------------


def test_inspect_shows_entities_by_components():
    with ComponentManager() as manager:
        manager.add(2, {RowRange: rows((0, 5), (5, 9))})
        manager.attach([2], {Columns: [Columns(table())]})
        one(manager, Colour("red"))
        assert manager.inspect().to_pydict() == {
            "entity": [1, 2, 3],
            "RowRange": ["start=0, end=5", "start=5, end=9", None],
            "Columns": [None, "2 rows × 1 columns", None],
            "Colour": [None, None, "name='red'"],
        }


def test_inspect_tells_types_of_one_name_apart():
    second, third = type("Colour", (), {}), type("Colour", (), {})
    with ComponentManager() as manager:
        one(manager, Colour("red"), second(), third())
        names = manager.inspect().column_names
    full = f"{__name__}.Colour"
    assert names == ["entity", "Colour", full, f"{full} (2)"]


# --- threads, fork ------------------------------------------------------------------------------


def test_two_managers_in_two_threads_never_see_each_other():
    steps = 300
    barrier = threading.Barrier(2)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            with ComponentManager() as manager:
                mine: list[int] = []
                for step in range(steps):
                    if step % 50 == 0:
                        barrier.wait(timeout=60)
                    mine += manager.add(2, {Colour: [Colour(f"{name}{step}")] * 2})
                    manager.set_fetch_counts(mine[-2:], 1)
                    manager.gather(mine[-2:-1], Colour)
                    assert holders(manager, Colour) == mine
                (found,) = manager.get(mine, Colour)
                assert [c.name for c in found] == [f"{name}{n // 2}" for n in range(2 * steps)]
        except BaseException as error:  # handed to the test's own thread, which raises it
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_one_manager_serves_many_threads():
    with ComponentManager() as manager:
        shared = manager.add(1, {Colour: [Colour("shared")]})
        manager.set_fetch_counts(shared, 400)
        made: list[list[int]] = [[] for _ in range(4)]

        def work(number: int) -> None:
            for _ in range(100):
                made[number] += manager.add(3, {RowRange: rows((0, 1), (1, 2), (2, 3))})
                manager.gather(shared, Colour)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert manager.get(shared, FetchCount) == ([FetchCount(400, 0)],)
        assert holders(manager, RowRange) == sorted(itertools.chain(*made))
        assert len(set(itertools.chain(*made))) == 1200


def test_a_child_made_by_fork_while_other_threads_are_inside_works():
    stop = threading.Event()
    with ComponentManager() as busy, ComponentManager() as manager:
        entity = one(manager, Colour("red"))
        many = busy.add(50, {RowRange: [RowRange(0, 1)] * 50})

        def churn() -> None:
            while not stop.is_set():
                busy.set_fetch_counts(many, 1)
                busy.gather(many, RowRange)

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    # Nothing of pytest may run in the child: it answers by its exit status alone.
                    status = 1
                    try:
                        resting = esper.current_world == "default"
                        right = manager.get([entity], Colour) == ([Colour("red")],)
                        with ComponentManager() as own:
                            own.add(2, {Colour: [Colour("a"), Colour("b")]})
                            right = right and holders(own, Colour) == [1, 2]
                        status = 0 if right and resting else 2
                    finally:
                        os._exit(status)
                _, status = os.waitpid(child, 0)
                assert os.waitstatus_to_exitcode(status) == 0
        finally:
            stop.set()
            thread.join()
        assert manager.get([entity], Colour) == ([Colour("red")],)

"""A component is a column of its values until an event has several of them, then of lists."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tessel
from tessel.store.events import Cell, LiveStore, Row, id_bytes

CELLS = {"one": [1.0], "none": [], "missing": [None], "several": [1.0, 2.0]}


def stored(*kinds: str) -> LiveStore:
    live = LiveStore()
    live.insert([event(number, kind) for number, kind in enumerate(kinds)])
    return live


def event(number: int, kind: str) -> Row:
    values = CELLS[kind]
    cell = Cell.from_values("x", values, pa.float64())
    return Row(id_bytes(1, number), "a", {"f": number}, max(1, len(values)), cells=[cell])


def column(live: LiveStore) -> tuple[pa.DataType, list[object]]:
    """Return type and values of the saved column, after the saved answers were compared."""
    repository = tessel.open("memory://")
    live.save(repository, "run")
    for budget in (0, 1 << 20):
        with LiveStore.open(repository, "run", cell_budget_bytes=budget) as again:
            assert again.range("f", 0, 99, "a") == live.range("f", 0, 99, "a")
            for number in range(len(live)):
                found = again.latest_at("f", number, "a")
                assert found == live.latest_at("f", number, "a")
    found = repository.read("run/a").to_arrow().column("x")
    return found.type, found.to_pylist()


@pytest.mark.parametrize("first", ["one", "none", "missing"])
@pytest.mark.parametrize("second", ["one", "none", "missing"])
@pytest.mark.parametrize("third", ["one", "none", "missing"])
def test_empty_cells_and_missing_values_leave_a_column_of_values(first, second, third):
    live = stored(first, second, third)
    expected = [CELLS[kind][0] if CELLS[kind] else None for kind in (first, second, third)]
    assert column(live) == (pa.float64(), expected)


def test_several_values_make_lists_for_good(tmp_path):
    path = tmp_path / "journal"
    with LiveStore(journal=path) as live:
        live.insert([event(0, "one"), event(1, "several"), event(2, "none")])
        assert column(live) == (pa.list_(pa.float64()), [[1.0], [1.0, 2.0], []])
        live.drop_range("f", 1, 2)
        assert column(live) == (pa.list_(pa.float64()), [[1.0]])
        live.dump(tmp_path / "dump")
        repository = tessel.open("memory://")
        live.save(repository, "run")
    with LiveStore(journal=path) as live:
        assert column(live) == (pa.list_(pa.float64()), [[1.0]])
    live = LiveStore()
    live.load(tmp_path / "dump")
    live.compact()
    assert column(live) == (pa.list_(pa.float64()), [[1.0]])
    with LiveStore.open(repository, "run") as live:
        live.insert(event(7, "one"))
        assert column(live) == (pa.list_(pa.float64()), [[1.0], [1.0]])


def test_a_change_writes_the_column_anew_under_a_new_id():
    repository = tessel.open("memory://")
    stored("one").save(repository, "run")
    before = repository.view("run/a").column_ids
    with LiveStore.open(repository, "run") as live:
        live.insert(event(1, "several"))
        live.save(repository, "run")
    after = repository.view("run/a").column_ids
    assert after["x"] not in before.values()
    assert repository.read("run/a", as_of=1).to_arrow().column("x").to_pylist() == [1.0]

"""Instances side by side, against a loop over them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import ColumnNotFoundError, InvalidInputError
from tessel.store.events import Cell, Found, LiveStore, Row, id_bytes, join_instances

KEY = "tessel.instance_key"


@st.composite
def events(draw: st.DrawFn) -> tuple[int, list[int], list[str] | None]:
    """Return how many instances, the values, and the keys if there are some."""
    count = draw(st.integers(1, 5))
    length = draw(st.sampled_from([0, 1, count]))
    keys = draw(
        st.none()
        | st.lists(st.sampled_from("abcdefg"), min_size=count, max_size=count, unique=True)
    )
    return count, draw(st.lists(st.integers(0, 99), min_size=length, max_size=length)), keys


def found(component: str, event: tuple[int, list[int], list[str] | None]) -> Found:
    count, values, keys = event
    cell = Cell.from_values(component, values, pa.int64())
    return Found(cell, 1, bytes(16), count, None if keys is None else pa.array(keys, pa.string()))


def expected(
    primary: tuple[int, list[int], list[str] | None], other: tuple[int, list[int], list[str] | None]
) -> list[int | None]:
    count, values, keys = primary
    other_count, other_values, other_keys = other
    column: list[int | None] = []
    for at in range(count if values else 0):
        if not other_values:
            column.append(None)
        elif len(other_values) < other_count:  # one for several
            column.append(other_values[0])
        elif keys is not None and other_keys is not None:
            known = keys[at] in other_keys
            column.append(other_values[other_keys.index(keys[at])] if known else None)
        else:
            column.append(other_values[min(at, len(other_values) - 1)])
    return column


@given(events(), events())
def test_joins_are_those_of_a_loop(primary, other):
    table = join_instances({"x": found("x", primary), "y": found("y", other)}, "x")
    rows = primary[0] if primary[1] else 0
    names = list(range(rows)) if primary[2] is None else primary[2][:rows]
    assert table.column_names == [KEY, "x", "y"]
    assert table.column(KEY).to_pylist() == names
    assert table.column("x").to_pylist() == expected(primary, primary)
    assert table.column("y").to_pylist() == expected(primary, other)


def test_cars_that_come_and_go():
    """Two events of one entity whose instances have keys, as a tracker logs them."""
    live = LiveStore()
    tracks = pa.array([7, 9, 4])
    positions = [Cell.from_values("position", [0.5, 1.5, 2.5]), Cell.from_values("lane", [1])]
    live.insert(Row(id_bytes(1, 1), "cars", {"f": 1}, 3, positions, instance_keys=tracks))
    names = [Cell.from_values("name", ["nine", "eleven"])]
    keys = pa.array([9, 11])
    live.insert(Row(id_bytes(1, 2), "cars", {"f": 2}, 2, names, instance_keys=keys))
    state = live.latest_at("f", 2, "cars")
    assert join_instances(state, "position").to_pydict() == {
        KEY: [7, 9, 4],
        "lane": [1, 1, 1],
        "name": [None, "nine", None],
        "position": [0.5, 1.5, 2.5],
    }
    assert join_instances(state, "name").column("position").to_pylist() == [1.5, None]
    with pytest.raises(ColumnNotFoundError, match="speed"):
        join_instances(state, "speed")
    with pytest.raises(ColumnNotFoundError):
        join_instances(state, KEY)


def test_keys_of_several_types_are_refused():
    state = {"x": found("x", (1, [1], ["a"])), "y": found("y", (1, [1], ["a"]))}
    cell = Cell.from_values("y", [1])
    state["y"] = Found(cell, 1, bytes(16), 1, pa.array([1]))
    with pytest.raises(InvalidInputError, match="keys of int64, and others of string"):
        join_instances(state, "x")

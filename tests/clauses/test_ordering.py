"""The order of the rows of one table, and keys that compare across tables, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.ordering import Ordering
from tessel.clauses.values import is_hashable
from tessel.testing.tables import tables
from tests.clauses.orders import order_of_rows
from tests.kernels.forced import LEVELS, in_form


@st.composite
def orderings(draw: st.DrawFn, table: pa.Table) -> Ordering | None:
    names = [f.name for f in table.schema if is_hashable(f.type)]
    if not names:
        return None
    by = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    descending = [draw(st.booleans()) for _ in by]
    return Ordering(tuple(by), tuple(descending), draw(st.sampled_from(["last", "first"])))


def _rows(found: Any, count: int) -> list[int]:
    return list(range(count)) if found is None else [int(row) for row in found]


@settings(max_examples=250)
@given(data=st.data())
def test_any_table_is_ordered_as_by_comparison(data: st.DataObject) -> None:
    table = data.draw(tables(max_rows=20))
    ordering = data.draw(orderings(table))
    if ordering is None:
        return
    expected = order_of_rows(table, ordering.by, ordering.descending, ordering.missing)
    assert _rows(ordering.order(table), table.num_rows) == expected
    count = data.draw(st.integers(0, table.num_rows + 2))
    found = _rows(ordering.first(table, count), min(count, table.num_rows))
    assert found == expected[:count]
    keys = ordering.keys(table)
    ordered = [keys[row] for row in expected]
    assert ordered == sorted(ordered)


@settings(max_examples=60)
@given(
    numbers=st.lists(st.none() | st.integers(-3, 3), min_size=30, max_size=80),
    count=st.integers(0, 9),
    downwards=st.booleans(),
    missing=st.sampled_from(["last", "first"]),
)
def test_the_first_few_of_many(
    numbers: list[int | None], count: int, downwards: bool, missing: Any
) -> None:
    table = pa.table({"n": pa.array(numbers, pa.int64()), "m": list(range(len(numbers)))[::-1]})
    for by in (("n",), ("n", "m"), ("m", "n")):
        ordering = Ordering(by, (downwards,) * len(by), missing)
        expected = order_of_rows(table, by, ordering.descending, missing)[:count]
        assert _rows(ordering.first(table, count), min(count, len(numbers))) == expected


@settings(max_examples=60)
@given(data=st.data())
def test_keys_find_their_place_in_another_table(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([pa.int8(), pa.float64(), pa.string(), pa.bool_()]))
    pools: dict[Any, st.SearchStrategy[Any]] = {
        pa.int8(): st.integers(-2, 2),
        pa.float64(): st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
        pa.string(): st.sampled_from(["", "a", "a\0", "é", "𐀀", "\uffff"]),
        pa.bool_(): st.booleans(),
    }
    values = st.lists(st.none() | pools[kind], min_size=1, max_size=12)
    parts = [pa.table({"k": pa.array(data.draw(values), kind)}) for _ in range(2)]
    direction = data.draw(st.booleans())
    ordering = Ordering(("k",), (direction,), data.draw(st.sampled_from(["last", "first"])))
    mine, other = (
        part.take(pa.array(_rows(ordering.order(part), part.num_rows), pa.int64()))
        for part in parts
    )
    keys, bound = ordering.keys(mine), ordering.keys(other)[0]
    both = pa.concat_tables([other.slice(0, 1), mine])
    order = order_of_rows(both, ["k"], [direction], ordering.missing)
    before = order.index(0)
    assert keys.up_to(bound, 0, included=False) == before
    equal = [row for row in range(len(keys)) if keys[row] == bound]
    assert keys.up_to(bound, 0, included=True) == before + len(equal)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64, np.float32])
def test_numbers_at_the_edges_of_their_types(kind: Any) -> None:
    info: Any = np.finfo(kind) if np.dtype(kind).kind == "f" else np.iinfo(kind)
    values = np.array([info.max, 0, info.min, info.max, 1, info.min], kind)
    table = pa.table({"n": values})
    for downwards in (False, True):
        order = Ordering(("n",), (downwards,)).order(table)
        assert _rows(order, 6) == order_of_rows(table, ["n"], [downwards], "last")
    lexsorted = np.lexsort([np.arange(6), values]).tolist()
    assert _rows(Ordering(("n",), (False,)).order(table), 6) == lexsorted


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [2, 300, 70_000])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint8])
def test_numbers_of_a_small_range_are_ordered_by_counting(level: str, size: int, kind: Any) -> None:
    top = int(np.iinfo(kind).max)
    random = np.random.default_rng(size)
    # As far up as the type goes: distances from the least must not leave it.
    numbers = kind(top) - random.integers(0, min(size, top), 1000).astype(kind)
    with in_form(level):
        order = Ordering(("n",), (False,)).order(pa.table({"n": numbers}))
    assert order is not None
    assert order.tolist() == np.argsort(numbers, kind="stable").tolist()

"""The order of the rows of one table, and numbers for its keys, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.ordering import Ordering
from tessel.clauses.values import is_hashable
from tests.clauses.orders import key_values, order_of_rows
from tests.kernels.forced import LEVELS, in_form
from tests.strategies.tables import tables


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
    order, numbers = ordering.order_and_numbers(table)
    assert order.tolist() == expected
    columns = [key_values(table.column(name)) for name in ordering.by]
    keys = [tuple(values[row] for values in columns) for row in expected]
    found = [tuple(each[row] for each in numbers) for row in expected]
    for (key, number), (other, theirs) in itertools.pairwise(zip(keys, found, strict=True)):
        assert (key == other) == (number == theirs)


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

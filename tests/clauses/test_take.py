"""take, against numpy's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import PlanError

ROWS = 40
TOTAL = 3 * ROWS


def _store() -> ts.Store:
    store = ts.open("memory://")
    for start in range(0, TOTAL, ROWS):  # several segments
        numbers = np.arange(start, start + ROWS)
        rows = {"t": pa.array(numbers * 1_000_000, pa.timestamp("us")), "v": numbers}
        if start:
            store.append("a", rows)
        else:
            store.write("a", rows, index="t")
    return store


STORE = _store()


@given(st.lists(st.integers(-TOTAL, TOTAL - 1), max_size=12))
def test_rows_by_position(rows: list[int]) -> None:
    for lazy, values in (
        (STORE.scan("a"), np.arange(TOTAL)),
        (STORE.scan("a").filter("v % 3 != 0"), np.flatnonzero(np.arange(TOTAL) % 3)),
    ):
        inside = [row for row in rows if -len(values) <= row < len(values)]
        found = lazy.take(inside).collect()["v"].to_pylist()
        assert found == values[np.array(inside, int)].tolist()


def test_rows_in_order_keep_the_index() -> None:
    assert STORE.scan("a").take([1, 1, 70]).schema().index == "t"
    assert STORE.scan("a").take([70, 1]).schema().index is None
    assert STORE.scan("a").take([]).collect().shape == (0, 2)
    numbers: object = np.array([2, 0])
    assert STORE.scan("a").take(numbers).collect()["v"].to_pylist() == [2, 0]  # type: ignore[arg-type]


def test_only_the_segments_between_are_read() -> None:
    found = STORE.scan("a").take([ROWS + 3, ROWS + 1]).collect()
    assert found["v"].to_pylist() == [ROWS + 3, ROWS + 1]
    assert (found.lineage.segments_read, found.lineage.segments) == (1, 3)


def test_a_plan_survives_json() -> None:
    query = ts.QueryBuilder().take([5, 3, -1])
    assert ts.QueryBuilder.from_json(query.to_json()) == query
    assert STORE.read("a", query=query)["v"].to_pylist() == [5, 3, TOTAL - 1]


@pytest.mark.parametrize("row", [TOTAL, TOTAL + 7, -TOTAL - 1])
def test_a_row_that_is_not_there_is_named(row: int) -> None:
    for first in (TOTAL - 1, -1):
        with pytest.raises(PlanError, match=f"there is no row {row}\\n"):
            STORE.scan("a").take([first, row]).collect()


@pytest.mark.parametrize("rows", [5, "12", [1.5], [True], None])
def test_what_is_no_list_of_positions_is_refused(rows: object) -> None:
    with pytest.raises(PlanError, match="take takes"):
        STORE.scan("a").take(rows)  # type: ignore[arg-type]

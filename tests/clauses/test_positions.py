"""head, tail and row_range against Python's slices, first in a query and after a filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Head, QueryBuilder, RowRange, Tail
from tessel.errors import PlanError
from tests.clauses.helpers import answer, stored
from tests.strategies.queries import row_ends

counts = st.integers(-25, 25)
ends = row_ends(counts)


def _check(
    rows: int, cut: int, query: Callable[[QueryBuilder], QueryBuilder], kept: Callable[..., object]
) -> None:
    numbers = list(range(rows))
    store = stored({"n": numbers, "twice": [2 * n for n in numbers]}, rows=cut, columns=1)
    first = answer(store, query(QueryBuilder()))
    assert first.column("n").to_pylist() == kept(numbers)
    odd = [n for n in numbers if n % 3]
    later = answer(store, query(QueryBuilder().filter("n % 3 != 0")))
    assert later.column("twice").to_pylist() == [2 * n for n in kept(odd)]  # type: ignore[attr-defined]


@settings(max_examples=25)
@given(rows=st.integers(0, 20), cut=st.integers(1, 7), n=counts)
def test_head(rows: int, cut: int, n: int) -> None:
    _check(rows, cut, lambda q: q.head(n), lambda numbers: numbers[:n])


@settings(max_examples=25)
@given(rows=st.integers(0, 20), cut=st.integers(1, 7), n=counts)
def test_tail(rows: int, cut: int, n: int) -> None:
    first = max(0, -n) if n < 0 else None

    def kept(numbers: list[int]) -> list[int]:
        return numbers[first:] if first is not None else numbers[max(0, len(numbers) - n) :]

    _check(rows, cut, lambda q: q.tail(n), kept)


@settings(max_examples=25)
@given(rows=st.integers(0, 20), cut=st.integers(1, 7), ends=ends)
def test_row_range(rows: int, cut: int, ends: tuple[int | None, int | None]) -> None:
    start, stop = ends
    _check(rows, cut, lambda q: q.row_range(start, stop), lambda numbers: numbers[start:stop])


@given(total=st.integers(0, 50), ends=ends, n=counts)
def test_the_demand_suffices(total: int, ends: tuple[int | None, int | None], n: int) -> None:
    for clause in (Head(n), Tail(n), RowRange(*ends)):
        low, high = clause.ranges(total)
        assert 0 <= low <= total
        assert low <= high <= total
        demand = clause.demand()
        if demand is not None:
            ours = range(total)[slice(*clause.ranges(demand))]
            assert list(ours) == list(range(total)[low:high])


@pytest.mark.parametrize("n", ["5", 1.5, True, None])
def test_what_is_no_number_of_rows_is_refused(n: object) -> None:
    for make in (Head, Tail, QueryBuilder().head, QueryBuilder().tail):
        with pytest.raises(PlanError, match="whole number"):
            make(n)  # type: ignore[operator]
    if n is not None:
        for make in (RowRange, QueryBuilder().row_range):
            with pytest.raises(PlanError, match="whole number"):
                make(0, n)  # type: ignore[operator]

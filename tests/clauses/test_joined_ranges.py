"""Many groups of stored integers are joined range by range: the answer of one table of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.grouped import group_merging
from tessel.clauses.grouped.partial_groups import cut_by_number
from tessel.options import options
from tests.clauses.helpers import answer, stored
from tests.profiles import cases

Q = QueryBuilder()

_WIDTHS = st.sampled_from([1, 3, 40, 5_000, 1 << 40])


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    """Draw keys that repeat within and between segments, some far away, some missing."""
    rows = draw(st.integers(1, 900))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def keys(width: int) -> pa.Array:
        found = random.integers(-(width // 2), width, rows)
        found[random.random(rows) < 0.01] = draw(st.integers(-(1 << 45), 1 << 45))
        missing = random.random(rows) < draw(st.sampled_from([0.0, 0.1]))
        return pa.array(found, mask=missing)

    return pa.table(
        {
            "a": keys(draw(_WIDTHS)),
            "b": keys(draw(st.sampled_from([1, 3, 40]))),
            "n": random.integers(-1_000, 1_000, rows),
            "v": random.standard_normal(rows),
        }
    )


_AGGREGATES: dict[str, Any] = {
    "rows": "size",
    "s": ("n", "sum"),
    "m": ("v", "mean"),
    "low": ("v", "min"),
    "first": ("n", "first"),
    "last": ("v", "last"),
}


@cases(20, 60)
@given(
    table=_tables(),
    cut=st.sampled_from([60, 250, 1_000]),
    keys=st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]),
    names=st.lists(st.sampled_from(sorted(_AGGREGATES)), min_size=1, unique=True),
    sort=st.booleans(),
    budget=st.sampled_from([1 << 14, 1 << 16, 1 << 18, 1 << 28]),
    bits=st.sampled_from([1, 2, 5]),
)
def test_answers_are_those_of_one_segment(
    table: pa.Table,
    cut: int,
    keys: tuple[str, ...],
    names: list[str],
    sort: bool,
    budget: int,
    bits: int,
) -> None:
    query = Q.groupby(*keys, sort=sort).agg(**{name: _AGGREGATES[name] for name in names})
    whole = stored(table, rows=10_000).read("x", query=query).to_arrow()
    with pytest.MonkeyPatch.context() as patch, options(live_bytes=budget, workers=1):
        patch.setattr("tessel.clauses.grouped.partial_groups._RANGE_BITS", bits)
        patch.setattr(group_merging, "_RANGES_IN_LIMIT", 64)
        assert answer(stored(table, rows=cut), query).equals(whole)


@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_groups_that_fit_are_joined_without_a_table_of_states(
    spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = 0

    def counted(*given: Any) -> Any:
        nonlocal ranges
        for own in cut_by_number(*given):
            ranges += 1
            yield own

    monkeypatch.setattr(group_merging, "cut_by_number", counted)
    random = np.random.default_rng(5)
    table = pa.table({"a": random.integers(0, 4_000, 20_000) * spread, "n": np.arange(20_000)})
    query = Q.groupby("a").agg(s=("n", "sum"))
    with options(live_bytes=1 << 20, workers=1):
        found = stored(table, rows=5_000).read("x", query=query).to_arrow()
    wanted = table.group_by("a").aggregate([("n", "sum")]).sort_by("a")
    assert found.column("s").equals(wanted.column("n_sum"))
    assert ranges > 8

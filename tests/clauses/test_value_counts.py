"""value_counts: against pandas, and against the groupby that it is short for."""

from __future__ import annotations

import collections
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, PlanError
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.strategies.tables import as_dictionary

Q = QueryBuilder()
VALUES = st.lists(st.none() | st.sampled_from(["a", "b", "c", "é"]), max_size=25)


@settings(max_examples=50)
@given(
    values=VALUES,
    cut=st.integers(1, 8),
    sort=st.booleans(),
    normalise=st.booleans(),
    drop=st.booleans(),
)
def test_counts_are_those_of_counting(
    values: list[Any], cut: int, sort: bool, normalise: bool, drop: bool
) -> None:
    column = as_dictionary(pa.array(values, pa.string()))
    store = stored({"k": column, "v": list(range(len(values)))}, rows=cut)
    query = Q.value_counts("k", sort=sort, normalise=normalise, drop_missing=drop)
    found = answer(store, query, SETTINGS[:3])
    counted = collections.Counter(v for v in values if v is not None or not drop)
    expected = list(counted.items())
    if sort:
        expected.sort(key=lambda pair: (-pair[1], pair[0] is None, pair[0]))
    total = sum(counted.values())
    counts = [n / total if normalise else n for _, n in expected]
    name = "proportion" if normalise else "count"
    assert found.to_pydict() == {"k": [value for value, _ in expected], name: counts}
    pandas = column.to_pandas().value_counts(normalize=normalise, dropna=drop)
    theirs = {
        (None if value != value else value): n for value, n in pandas.items() if n or not normalise
    }
    ours = dict(zip(found.column("k").to_pylist(), counts, strict=True))
    assert ours == {value: n for value, n in theirs.items() if n}


def test_several_columns_and_another_name() -> None:
    store = stored({"a": [1, 1, 2, 1], "b": ["x", "x", "y", "z"]})
    found = answer(store, Q.value_counts("a", "b", output="times"))
    assert found.to_pydict() == {"a": [1, 1, 2], "b": ["x", "z", "y"], "times": [2, 1, 1]}
    with pytest.raises(DuplicateColumnError, match="'a'"):
        Q.value_counts("a", output="a")
    assert answer(store, Q.value_counts("a").head(1)).to_pydict() == {"a": [1], "count": [3]}


def test_misuse_is_refused() -> None:
    store = stored({"price": [1.0]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=Q.value_counts("Price"))
    with pytest.raises(PlanError, match="needs a column"):
        Q.value_counts()

"""What the tests of cumulative clauses share: random keyed columns, and answers by brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.oracles import nan_as_null, polars_frame, same_rows
from tests.strategies.tables import PLAIN_TYPES, columns, cut_into_segments

__all__ = [
    "EXTREME_ROWS",
    "check_cumulative",
    "check_extreme",
    "check_extreme_with_polars",
    "python_values",
]

_KEYS = st.sampled_from(["a", "b", None])
_KINDS = (*PLAIN_TYPES, pa.dictionary(pa.int32(), pa.string()))
EXTREME_ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.floats()), max_size=20)
"""Keys and values for :func:`check_extreme_with_polars`."""


def check_extreme(data: st.DataObject, verb: str, choose: Callable[[list[Any]], Any]) -> None:
    """Check cum_min or cum_max on a column of any type that has an order."""

    def expected(past: list[Any], value: Any) -> Any:
        return None if value is None else choose(past)

    check_cumulative(data, verb, data.draw(st.sampled_from(_KINDS)), expected)


def check_extreme_with_polars(rows: list[tuple[str, float | None]], cut: int, verb: str) -> None:
    """Check cum_min or cum_max of floats, NaN among them, by key against Polars."""
    table = pa.table(
        {
            "k": pa.array([k for k, _ in rows], pa.string()),
            "v": pa.array([v for _, v in rows], pa.float64()),
        }
    )
    query = getattr(QueryBuilder(), verb)("v", by="k")
    found = answer(stored(table, rows=cut), query).select(["v"])
    frame = polars_frame(nan_as_null(table)).select(getattr(pl.col("v"), verb)().over("k"))
    assert same_rows(found, frame.to_arrow())


def check_cumulative(
    data: st.DataObject,
    verb: str,
    kind: pa.DataType,
    expected: Callable[[list[Any], Any], Any],
    *,
    values: st.SearchStrategy[pa.Array] | None = None,
    max_rows: int = 20,
) -> None:
    """Check a verb on a random column, with and without keys, in random segments.

    ``expected`` is given the values so far of the key that are not missing, and the value of the
    row (None where missing), as :func:`python_values` makes them.
    """
    rows = data.draw(st.integers(0, max_rows))
    column = data.draw(columns(kind, rows) if values is None else values)
    rows = len(column)
    keys = data.draw(st.lists(_KEYS, min_size=rows, max_size=rows))
    table = pa.table({"k": pa.array(keys, pa.string()), "v": column})
    store = fresh_store()
    data.draw(cut_into_segments(table)).write(store, "x")
    settings = [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))]
    for by in ([], ["k"]):
        query = getattr(QueryBuilder(), verb)({"out": "v"}, by=by)
        found = python_values(answer(store, query, settings).column("out"))
        so_far: dict[Any, list[Any]] = {}
        wanted = []
        for key, value in zip(keys, python_values(column), strict=True):
            past = so_far.setdefault(key if by else None, [])
            if value is not None:
                past.append(value)
            wanted.append(expected(past, value))
        assert found == wanted


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python compares them: temporal ones as integers, NaN as None."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return python_values(column.cast(kind.value_type))
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in python_values(chunk)]
    if pa.types.is_temporal(kind):
        narrow: list[Any] = column.view(
            pa.int32() if kind.bit_width == 32 else pa.int64()
        ).to_pylist()
        return narrow
    return [None if value != value else value for value in column.to_pylist()]

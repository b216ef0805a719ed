"""Random chains of clauses that look along the rows, among filters, projections and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder

__all__ = ["STEPS", "ordered_chains", "ordered_tables"]

Step = Callable[[QueryBuilder], QueryBuilder]

_BY = st.sampled_from([(), ("k",)])
_N = st.integers(-3, 3)
STEPS: dict[str, st.SearchStrategy[Step]] = {
    "shift": st.builds(lambda n, by: lambda q: q.shift({"a": "v"}, n, by=by), _N, _BY),
    "shift in place": st.builds(lambda n: lambda q: q.shift(["v", "f"], n), _N),
    "diff": st.builds(lambda n, by: lambda q: q.diff({"a": "v"}, n, by=by), _N, _BY),
    "cum": st.builds(lambda by: lambda q: q.cum_sum({"a": "f"}, by=by).cum_count("v"), _BY),
    "fill": st.builds(
        lambda how, by: lambda q: q.fill("f", how, by=by),
        st.sampled_from(["forward", "backward", "linear"]),
        _BY,
    ),
    "rolling": st.builds(
        lambda by, size: lambda q: q.rolling(size, by=by, min_periods=1).agg(b=("f", "mean")),
        _BY,
        st.integers(1, 4),
    ),
    "rolling time": st.just(lambda q: q.rolling("3s").agg(b=("v", "max"), n="size")),
    "ewm": st.just(lambda q: q.ewm(span=3).agg(b=("f", "mean"))),
    "ewm, by time": st.just(lambda q: q.ewm(halflife="2s", by="k").agg(b=("f", "mean"))),
    "rolling, computed": st.just(lambda q: q.rolling(2).agg(b="max(v) - min(v)")),
    "rank": st.just(lambda q: q.rank({"r": "f"}, by="k")),
    "latest_at": st.just(
        lambda q: q.latest_at(["1970-01-01T00:00:04", "1970-01-01T00:00:09"], by="k")
    ),
    "filter": st.builds(lambda n: lambda q: q.filter(f"v > {n}"), st.integers(-3, 1)),
    "filter a": st.just(lambda q: q.apply("a", "v").filter("a is not missing")),
    "date_range": st.just(lambda q: q.date_range("1970-01-01T00:00:03", "1970-01-01T00:00:12")),
    "apply": st.just(lambda q: q.apply("v", "v * 2")),
    "drop": st.just(lambda q: q.apply("n", "v").drop("n")),
    "select": st.just(lambda q: q.select("v", "t", "k", "f")),
    "head": st.builds(lambda n: lambda q: q.head(n), st.integers(-5, 9)),
    "tail": st.builds(lambda n: lambda q: q.tail(n), st.integers(-5, 9)),
    "row_range": st.builds(lambda a: lambda q: q.row_range(a, -1), st.integers(0, 4)),
}
_ENDINGS: dict[str, Step] = {
    "all": lambda q: q,
    "few columns": lambda q: q.select("t", "v"),
    "agg": lambda q: q.groupby("k").agg(s=("v", "sum"), c=("f", "count")),
}


@st.composite
def ordered_chains(draw: st.DrawFn, max_steps: int = 5) -> QueryBuilder:
    """Draw a query on a table of `ordered_tables`; it may be one that is refused."""
    query = QueryBuilder()
    names = draw(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=max_steps))
    for name in names:
        query = draw(STEPS[name])(query)
    return _ENDINGS[draw(st.sampled_from(list(_ENDINGS)))](query)


@st.composite
def ordered_tables(draw: st.DrawFn, max_rows: int = 16) -> pa.Table:
    """Draw a table with a time index ``t``, keys ``k``, and small numbers ``v`` and ``f``."""
    rows = draw(st.integers(0, max_rows))
    numbers = st.none() | st.integers(-4, 4)

    def drawn(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    return pa.table(
        {
            "t": pa.array(sorted(drawn(st.integers(0, 15))), pa.timestamp("s")),
            "k": pa.array(drawn(st.sampled_from(["a", "b", None])), pa.string()),
            "v": pa.array(drawn(numbers), pa.int32()),
            "f": pa.array(drawn(numbers), pa.float64()),
        }
    )

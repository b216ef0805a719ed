"""describe: against pandas and numpy, column by column."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import PlanError
from tests.clauses.helpers import SETTINGS, answer, stored

Q = QueryBuilder()


@settings(max_examples=40)
@given(
    values=st.lists(st.none() | st.integers(-50, 50).map(lambda n: n / 4), max_size=15),
    cut=st.integers(1, 6),
)
def test_figures_are_those_of_pandas(values: list[float | None], cut: int) -> None:
    texts = [str(v) for v in values]
    table = {"v": pa.array(values, pa.float64()), "s": pa.array(texts, pa.string())}
    store = stored(table, rows=cut)
    number, text = answer(store, Q.describe(), SETTINGS[:3]).to_pylist()
    series = pd.Series(values, dtype="float64")
    theirs = series.describe()
    assert number["count"] == theirs["count"]
    assert number["missing"] == values.count(None)
    for ours, name in (
        ("mean", "mean"), ("std", "std"), ("p25", "25%"), ("median", "50%"), ("p75", "75%")
    ):  # fmt: skip
        if number[ours] is None:
            assert math.isnan(theirs[name])
        else:
            assert math.isclose(number[ours], theirs[name], rel_tol=1e-12, abs_tol=1e-12)
    if series.count():
        assert float(number["min"]) == theirs["min"]
        assert float(number["max"]) == theirs["max"]
    assert (text["column"], text["type"], text["mean"]) == ("s", "string", None)
    assert (text["min"], text["max"]) == (min(texts, default=None), max(texts, default=None))


def test_every_type_has_its_row_and_no_digit_is_lost() -> None:
    table: dict[str, Any] = {
        "big": pa.array([2**62 + 1, None], pa.int64()),
        "t": pa.array([1_600_000_000_000_000_001, 0], pa.timestamp("ns", "UTC")),
        "d": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
        "b": [True, False],
        "k": pa.array(["y", "x"]).dictionary_encode(),
        "f": [float("nan"), -0.0],
        "raw": [b"\xff", b""],
        "l": [[1], None],
        "n": pa.nulls(2),
    }
    rows = {row["column"]: row for row in answer(stored(table), Q.describe()).to_pylist()}
    assert list(rows) == list(table)
    assert rows["big"]["max"] == str(2**62 + 1)
    assert rows["t"]["max"].startswith("2020-09-13 12:26:40.000000001")
    assert (rows["t"]["count"], rows["t"]["mean"]) == (2, None)
    assert (rows["d"]["min"], rows["d"]["mean"]) == ("1.50", 1.5)
    assert (rows["b"]["min"], rows["b"]["max"], rows["b"]["mean"]) == ("false", "true", 0.5)
    assert (rows["k"]["min"], rows["k"]["max"]) == ("x", "y")
    assert (rows["f"]["count"], rows["f"]["missing"]) == (1, 1)
    assert (rows["raw"]["count"], rows["raw"]["min"]) == (2, None)
    assert (rows["l"]["count"], rows["l"]["missing"]) == (None, None)
    assert (rows["n"]["count"], rows["n"]["missing"], rows["n"]["min"]) == (0, 2, None)


def test_without_quantiles_only_sums_are_kept() -> None:
    store = stored({"v": np.arange(10)}, rows=3)
    query = Q.describe(quantiles=False)
    (row,) = answer(store, query).to_pylist()
    assert (row["mean"], row["median"]) == (4.5, None)
    plan = store.scan("x").then(*query.clauses).plan()
    assert "partial_aggregation" in [c.name for stage in plan.stages for c in stage.clauses]
    with pytest.raises(PlanError, match="true or false"):
        Q.describe(quantiles=1)  # type: ignore[arg-type]

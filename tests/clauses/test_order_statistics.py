"""median and quantile as arrays: the bits that integers of any size give, group by group."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.aggregates import find_aggregate
from tessel.clauses.aggregates import median as median_module
from tessel.clauses.aggregates import quantile as quantile_module
from tessel.clauses.aggregates.kernels import mixes as mixes_module

GROUPS = 3
DOUBLES = st.one_of(
    st.integers(-(10**7), 10**7).map(lambda cents: cents / 100),
    st.integers(-4, 4).map(float),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, math.inf, -math.inf]),
)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float64": (pa.float64(), DOUBLES),
    "float32": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "int64": (pa.int64(), st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1))),
    "uint64": (pa.uint64(), st.one_of(st.integers(0, 9), st.integers(0, (1 << 64) - 1))),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-9, 9, places=2)),
    "timestamp": (pa.timestamp("ns"), st.integers(-(1 << 62), 1 << 62)),
    "times near": (pa.timestamp("ns"), st.integers(1 << 60, (1 << 60) + 1000)),
    "duration": (pa.duration("ms"), st.integers(-50, 50)),
    "date": (pa.date32(), st.integers(-20, 20)),
    "date64": (pa.date64(), st.integers(-20, 20).map(lambda day: day * 86_400_000)),
    "text": (pa.string(), st.text("abé", max_size=3)),
}
MIXED = sorted(set(KINDS) - {"text"})


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_date(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    return pa.array(values, kind)


def drawn(data: st.DataObject, name: str) -> tuple[pa.Array, np.ndarray]:
    kind, values = KINDS[name]
    rows = data.draw(st.lists(st.tuples(values, st.integers(0, GROUPS - 1)), max_size=40))
    codes = np.array([code for _, code in rows], np.int64)
    return column(kind, [value for value, _ in rows]), codes


@pytest.mark.parametrize("name", MIXED)
@given(
    data=st.data(),
    q=st.one_of(st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]), st.floats(0, 1)),
    interpolation=st.sampled_from(["linear", "linear", "midpoint", "nearest", "lower", "higher"]),
)
def test_arrays_give_the_bits_of_single_groups(
    name: str, data: st.DataObject, q: float, interpolation: str
) -> None:
    array, codes = drawn(data, name)
    for aggregate in (
        find_aggregate("median"),
        find_aggregate("quantile", q=q, interpolation=interpolation),
    ):
        found = []
        for as_arrays in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if not as_arrays:
                    patch.setattr(median_module, "means_of_two", lambda low, high: None)
                    patch.setattr(quantile_module, "mixes", lambda *_: None)
                found.append(aggregate.compute(array, codes, GROUPS))
        assert found[0].type == found[1].type
        assert found[0].is_valid().equals(found[1].is_valid())
        assert _bits(found[0]) == _bits(found[1])


def _bits(values: pa.Array) -> list[Any]:
    if pa.types.is_floating(values.type):
        kind = pa.int64() if values.type == pa.float64() else pa.int32()
        return values.fill_null(0).view(kind).to_pylist()
    if values.type.id in (pa.timestamp("ns").id, pa.duration("ms").id):
        values = values.view(pa.int64())
    return values.to_pylist()


def test_ordinary_groups_are_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays do the work: few groups of ordinary data are left to integers."""
    random = np.random.default_rng(4)
    codes = random.integers(0, 500, 5000)
    values = random.integers(1, 10**6, 5000)
    seen = []

    def recorded(*arguments: Any) -> Any:
        seen.append(mixes_module.mixes(*arguments))
        return seen[-1]

    monkeypatch.setattr(quantile_module, "mixes", recorded)
    aggregate = find_aggregate("quantile", q=0.9)
    columns = [pa.array(values / 100), pa.array(values), pa.array(values).view(pa.timestamp("ns"))]
    for each in columns:
        aggregate.compute(each, codes, 500)
    assert len(seen) == len(columns)
    # A tenth of a double lies in the middle between two doubles one time in twenty.
    assert [each[1].mean() > 0.9 for each in seen] == [True] * 3
    assert [each[1].all() for each in seen] == [False, True, True]

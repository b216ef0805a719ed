"""Exact sums over windows against fractions, extremes of windows against Python's own."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.aggregates.kernels import windows
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tessel.clauses.aggregates.kernels.windows import ExactRows, window_extremes

wild = st.floats(allow_nan=False) | st.sampled_from(
    [5e-324, -5e-324, 1.7e308, 2.0**-1022, 0.1, -0.0]
)
NUMBERS = {
    pa.float64(): wild,
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.decimal128(38, 2): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal(n).scaleb(-2, Context(prec=50))
    ),
}


@st.composite
def _windows(draw: st.DrawFn, rows: int) -> tuple[np.ndarray, np.ndarray]:
    bounds = st.lists(st.integers(0, rows), min_size=2, max_size=2).map(sorted)
    drawn = draw(st.lists(bounds, max_size=12))
    return tuple(np.array([pair[side] for pair in drawn], np.int64) for side in (0, 1))  # type: ignore[return-value]


def _rounded(values: list[float]) -> float:
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return math.nan if len(infinite) == 2 else infinite.pop()
    try:
        return float(sum(map(Fraction, values)))
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_sums_of_windows(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(NUMBERS[kind], max_size=20))
    cut = data.draw(st.integers(0, len(values)))
    parts = [ExactRows.of_values(pa.array(part, kind)) for part in (values[:cut], values[cut:])]
    starts, stops = data.draw(_windows(len(values)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_BLOCK_CELLS", data.draw(st.sampled_from([1, 20, 1 << 20])))
        sums = parts[0].followed_by(parts[1]).window_sums(starts, stops)
    chosen = [values[a:b] for a, b in zip(starts, stops, strict=True)]
    if isinstance(sums, IntegerSums):
        scale = 100 if pa.types.is_decimal(kind) else 1
        wanted = [int(sum(map(Fraction, each)) * scale) for each in chosen]
        assert [sums.number(at) for at in range(sums.groups)] == wanted
        again = ExactRows.of_sums(sums)
    else:
        expected = np.array([_rounded(each) for each in chosen])
        np.testing.assert_array_equal(sums.rounded(), expected)
        codes = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
        flat = np.array([value for each in chosen for value in each], np.float64)
        same = FloatSums.of_values(flat, codes, len(chosen))
        for found, other in zip(sums.to_arrays(), same.to_arrays(), strict=True):
            assert found.equals(other)  # the same state as without windows
        again = ExactRows.of_sums(sums)
    rows = np.arange(sums.groups)
    for found, other in zip(
        again.taken(rows).window_sums(rows, rows + 1).to_arrays(), sums.to_arrays(), strict=True
    ):
        assert found.equals(other)


@settings(max_examples=60)
@given(data=st.data(), numbers=st.lists(st.integers(-9, 9), max_size=40))
def test_extremes_of_windows(data: st.DataObject, numbers: list[int]) -> None:
    starts, stops = data.draw(_windows(len(numbers)))
    pairs: list[tuple[Any, Any]] = [(np.minimum, min), (np.maximum, max)]
    for better, best in pairs:
        found = window_extremes(np.array(numbers, np.int64), starts, stops, better)
        for a, b, value in zip(starts, stops, found, strict=True):
            assert a == b or value == best(numbers[a:b])

"""The stable order of numbers, against numpy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tessel.clauses import ordering
from tessel.clauses.ordering import stable_order

_LIMITS = [np.iinfo(kind) for kind in (np.int64, np.uint64, np.int32)]
_RANDOM = np.random.default_rng(11)
_ROWS = 5000

CASES: dict[str, NDArray[Any]] = {
    "narrow integers": _RANDOM.integers(-40, 40, _ROWS),
    "wide integers": _RANDOM.integers(_LIMITS[0].min, _LIMITS[0].max, _ROWS),
    "wide integers, repeated": _RANDOM.choice(
        _RANDOM.integers(_LIMITS[0].min, _LIMITS[0].max, 50), _ROWS
    ),
    "both ends": _RANDOM.choice([_LIMITS[0].min, -1, 0, _LIMITS[0].max], _ROWS),
    "the least": _LIMITS[0].min + _RANDOM.integers(0, 99, _ROWS),
    "the greatest": _LIMITS[0].max - _RANDOM.integers(0, 99, _ROWS),
    "great unsigned": _LIMITS[1].max - _RANDOM.integers(0, 99, _ROWS).astype(np.uint64),
    "unsigned of all sizes": _RANDOM.integers(0, _LIMITS[1].max, _ROWS, np.uint64),
    "32 bits": _RANDOM.integers(_LIMITS[2].min, _LIMITS[2].max, _ROWS).astype(np.int32),
    "16 bits": _RANDOM.integers(0, 1 << 16, _ROWS).astype(np.uint16),
    "bool": _RANDOM.random(_ROWS) < 0.5,
    "one value": np.full(_ROWS, 7),
    "decimals": np.round(_RANDOM.normal(100, 5, _ROWS), 2),
    "decimals, not all": np.append(np.round(_RANDOM.normal(100, 5, _ROWS), 2), 1 / 3),
    "zeros of both signs": _RANDOM.choice([0.0, -0.0, 0.5, -0.5], _ROWS),
    "infinities": _RANDOM.choice([np.inf, -np.inf, 1.0, 2.5], _ROWS),
    "any floats": _RANDOM.normal(size=_ROWS),
    "any floats, repeated": _RANDOM.choice(_RANDOM.normal(size=60), _ROWS),
    "great floats": _RANDOM.choice([1e300, -1e300, 5e-324, 0.0], _ROWS),
    "floats of 32 bits": np.round(_RANDOM.normal(100, 5, _ROWS), 1).astype(np.float32),
    "neighbours": 2.0**50 + _RANDOM.integers(-3, 3, _ROWS),
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_it_is_that_of_numpy(values: NDArray[Any]) -> None:
    found = stable_order(values)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.argsort(values, kind="stable"))


_VALUES: dict[Any, st.SearchStrategy[Any]] = {
    np.int64: st.integers(_LIMITS[0].min, _LIMITS[0].max),
    np.uint64: st.integers(0, _LIMITS[1].max),
    np.float64: st.one_of(
        st.sampled_from([0.1, 0.25, -0.0, 0.0, 3.0, 1e15, -7.125]), st.floats(allow_nan=False)
    ),
}


@given(data=st.data(), kind=st.sampled_from(list(_VALUES)))
def test_of_few_rows_too(data: st.DataObject, kind: Any) -> None:
    values = np.array(data.draw(st.lists(_VALUES[kind])), kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_FEW_ROWS", 2)
        assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))

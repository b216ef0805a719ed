"""var, std and sem as arrays: the bits that integers of any size give."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tessel.clauses.aggregates import find_aggregate
from tessel.clauses.aggregates import spread as spread_module
from tessel.clauses.aggregates.kernels import spreads
from tessel.clauses.aggregates.kernels.spreads import Spreads
from tests.kernels.forced import FORMS, in_form

GROUPS = 3
NAMES = ("var", "std", "sem")
DOUBLES = st.one_of(
    st.integers(-(10**7), 10**7).map(lambda cents: cents / 100),
    st.integers(-4, 4).map(float),
    st.floats(-1e6, 1e6),
    st.floats(-1e150, 1e150),
    st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308, 1e-170, 1e9 + 1e-7, math.inf]),
)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float64": (pa.float64(), DOUBLES),
    "int64": (pa.int64(), st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1))),
    "decimal": (pa.decimal128(38, 5), st.integers(-(10**9), 10**9).map(lambda n: n / 8)),
    "timestamp": (pa.timestamp("ns"), st.integers(-(1 << 62), 1 << 62)),
    "duration": (pa.duration("ms"), st.integers(-(10**6), 10**6)),
    "date": (pa.date32(), st.integers(-20_000, 20_000)),
}


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.float64()).cast(kind)
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def never_certain(sums: Any, squares: Any, counts: Any, **_: Any) -> Spreads:
    return Spreads(np.zeros(len(counts)), np.zeros(len(counts), np.bool_))


@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data(), ddof=st.sampled_from([0, 1, 1, 2]), form=st.sampled_from(FORMS))
def test_arrays_give_the_bits_of_integers(
    name: str, data: st.DataObject, ddof: int, form: str
) -> None:
    kind, values = KINDS[name]
    rows = data.draw(st.lists(st.tuples(values, st.integers(0, GROUPS - 1)), max_size=24))
    array = column(kind, [value for value, _ in rows])
    codes = np.array([code for _, code in rows], np.int64)
    for spread in NAMES:
        if spread == "var" and pa.types.is_temporal(kind):
            continue
        aggregate = find_aggregate(spread, ddof=ddof)
        with in_form(form), pytest.MonkeyPatch.context() as patch:
            states = aggregate.partial(array, codes, GROUPS)
            found = _answer(aggregate, states, kind)
            patch.setattr(spread_module, "rounded_spreads", never_certain)
            assert found == _answer(aggregate, states, kind)


def _answer(aggregate: Any, states: list[pa.Array], kind: pa.DataType) -> list[Any]:
    try:
        found = aggregate.finish(states, kind)
    except OverflowError as error:
        return [type(error), str(error)]
    found.validate(full=True)
    width = pa.int64()
    return [found.type, found.is_valid().to_pylist(), found.fill_null(0).view(width).to_pylist()]


def _exactly(values: list[float], ddof: int) -> Fraction:
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    return sum(((v - mean) ** 2 for v in map(Fraction, values)), Fraction(0)) / (len(values) - ddof)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
@example([0.0, 2.0**-27, 2.0, 1.0])
@example([1.0, 1.0 + 2.0**-52])
@example([3.0, 3.0, 3.0])
def test_values_near_one_another_are_rounded_once(values: list[float]) -> None:
    exact = _exactly(values, 1)
    found = find_aggregate("var", ddof=1).compute(
        pa.array(values), np.zeros(len(values), np.int64), 1
    )
    assert found[0].as_py() == exact.numerator / exact.denominator


def test_ordinary_groups_are_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays do the work: no group of ordinary data is left to integers."""
    random = np.random.default_rng(4)
    codes = random.integers(0, 500, 5000)
    values = random.integers(1, 10**6, 5000) / 100
    seen = []

    def recorded(*arguments: Any, **options: Any) -> Spreads:
        seen.append(spreads.rounded_spreads(*arguments, **options))
        return seen[-1]

    monkeypatch.setattr(spread_module, "rounded_spreads", recorded)
    for name in NAMES:
        find_aggregate(name).compute(pa.array(values), codes, 500)
        find_aggregate(name).compute(pa.array((values * 100).astype(np.int64)), codes, 500)
    stamps = pa.array((values * 1e9).astype(np.int64)).view(pa.timestamp("ns"))
    find_aggregate("std").compute(stamps, codes, 500)
    assert len(seen) == 7
    assert all(each.certain.all() for each in seen)

"""var, std and sem: the bits that fractions give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import _float_sqrt_of_frac  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tessel.clauses.aggregates import find_aggregate
from tessel.clauses.values import integers, is_temporal
from tests.kernels.forced import FORMS, in_form
from tests.kernels.test_exact_sums import nearest, root_to_integer

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


@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data(), ddof=st.sampled_from([0, 1, 1, 2]), form=st.sampled_from(FORMS))
def test_spreads_are_rounded_once(name: str, data: st.DataObject, ddof: int, form: str) -> None:
    kind, values = KINDS[name]
    rows = data.draw(st.lists(st.tuples(values, st.integers(0, GROUPS - 1)), max_size=24))
    array = column(kind, [value for value, _ in rows])
    codes = np.array([code for _, code in rows], np.int64)
    for spread in NAMES:
        if spread == "var" and pa.types.is_temporal(kind):
            continue
        aggregate = find_aggregate(spread, ddof=ddof)
        with in_form(form):
            states = aggregate.partial(array, codes, GROUPS)
            found = _answer(aggregate, states, kind)
        wanted = [
            _wanted(spread, array.filter(pa.array(codes == group)), ddof) for group in range(GROUPS)
        ]
        past = [each for each in wanted if isinstance(each, int) and each >= 1 << 63]
        if past:
            assert isinstance(found, OverflowError)
            assert f" is {past[0]} in one group, past {aggregate.result_type(kind)}" in str(found)
        else:
            assert found == wanted


def _answer(aggregate: Any, states: list[pa.Array], kind: pa.DataType) -> Any:
    try:
        found = aggregate.finish(states, kind)
    except OverflowError as error:
        return error
    found.validate(full=True)
    return (found.cast(pa.int64()) if is_temporal(found.type) else found).to_pylist()


def _wanted(spread: str, values: pa.Array, ddof: int) -> float | int | None:
    """Return what one group gives, of fractions."""
    kind, scale = values.type, Fraction(1)
    if pa.types.is_decimal(kind):
        numbers = [Fraction(each) for each in values.to_pylist()]
    elif pa.types.is_floating(kind):
        if len(values) <= ddof or not np.isfinite(values.to_numpy()).all():
            return None
        numbers = [Fraction(each) for each in values.to_pylist()]
    else:
        numbers = [Fraction(each) for each in integers(values).tolist()]
        scale = Fraction(86_400 if pa.types.is_date(kind) else 1)
    if len(numbers) <= ddof:
        return None
    exact = _exactly(numbers, ddof) * scale**2 / (len(numbers) if spread == "sem" else 1)
    if is_temporal(kind):
        return root_to_integer(exact)
    if spread == "var":
        return nearest(exact)
    try:
        return _float_sqrt_of_frac(exact.numerator, exact.denominator) if exact else 0.0
    except OverflowError:
        return math.inf


def _exactly(values: Sequence[float | Fraction], ddof: int) -> Fraction:
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

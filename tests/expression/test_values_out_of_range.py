"""What a type does not hold is one typed error, whichever operator the value passes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tessel.clauses import QueryBuilder
from tessel.errors import ExpressionError, ExpressionTypeError, IntegerOverflowError, TesselError
from tests.clauses.helpers import answer, stored

Q = QueryBuilder()
DAY = {"time32[s]": 86_400, "time32[ms]": 86_400_000, "time64[us]": 86_400 * 10**6}


@pytest.mark.parametrize("kind", DAY)
@pytest.mark.parametrize("past", [True, False])
def test_counts_outside_of_a_day_are_no_times(kind: str, past: bool) -> None:
    last, wrong = DAY[kind] - 1, DAY[kind] if past else -1
    store = stored({"a": [0, None, last, wrong]})
    with pytest.raises(ExpressionError, match="less than a day"):
        answer(store, Q.apply("z", f"cast(a, '{kind}')"))
    found = answer(store, Q.cast({"a": kind}, strict=False)).column("a")
    found.validate(full=True)
    assert [each is None for each in found.to_pylist()] == [False, True, False, True]


def test_date64_holds_whole_days() -> None:
    store = stored({"a": [0, -86_400_000, 1]})
    with pytest.raises(ExpressionError, match="whole days"):
        answer(store, Q.apply("z", "cast(a, 'date64')"))
    found = answer(store, Q.head(2).apply("z", "cast(a, 'date64')")).column("z")
    assert found.to_pylist() == [dt.date(1970, 1, 1), dt.date(1969, 12, 31)]


@pytest.mark.parametrize("kind", [*DAY, "time64[ns]"])
def test_text_becomes_a_time_of_day(kind: str) -> None:
    store = stored({"a": ["12:30:00", "23:59:59", None, "00:00"]})
    found = answer(store, Q.apply("z", f"cast(a, '{kind}')")).column("z")
    assert found.to_pylist() == [dt.time(12, 30), dt.time(23, 59, 59), None, dt.time()]
    for text in ("24:00:00", "noon", "12:30Z", "12:30:00.1234567891"):
        with pytest.raises(ExpressionError, match=f"cannot be cast to .*'{text}'"):
            answer(stored({"a": [text]}), Q.apply("z", f"cast(a, '{kind}')"))


def test_text_and_durations_do_not_go_together() -> None:
    for texts in (["1"], pa.array([], pa.string())):
        with pytest.raises(ExpressionTypeError, match="cannot cast to duration"):
            answer(stored({"a": texts}), Q.apply("z", "cast(a, 'duration[s]')"))


FAR = pa.array([dt.datetime(9999, 12, 31), None], pa.timestamp("s"))
NEAR = pa.array([dt.datetime(2024, 1, 1)] * 2, pa.timestamp("ns"))
MANY_PLACES = pa.array([Decimal("0.1"), None], pa.decimal128(38, 37))


@pytest.mark.parametrize(
    "expression", ["coalesce(a, b)", "case when b is missing then b else a end"]
)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (FAR, NEAR),
        (FAR.cast(pa.timestamp("s", "UTC")), NEAR.cast(pa.timestamp("ns", "UTC"))),
        (pa.array([2**62, 0], pa.duration("s")), pa.array([1, 2], pa.duration("ns"))),
        (pa.array([1, 2**62]), MANY_PLACES),
    ],
    ids=["instants", "zoned", "durations", "decimals"],
)
def test_chosen_values_that_do_not_fit_are_told(a: pa.Array, b: pa.Array, expression: str) -> None:
    with pytest.raises(IntegerOverflowError, match="passes the range of"):
        answer(stored({"a": a, "b": b}), Q.apply("z", expression))


@pytest.mark.parametrize("operator", ["*", "//"])
def test_durations_and_integers_past_64_bits(operator: str) -> None:
    store = stored({"d": pa.array([1], pa.duration("s"))})
    with pytest.raises(TesselError, match="passes the range of"):
        answer(store, Q.apply("z", f"d {operator} 9223372036854775808"))


def test_the_way_out_of_an_overflow_of_instants_works() -> None:
    store = stored({"a": FAR, "b": NEAR})
    with pytest.raises(IntegerOverflowError, match=r"a - b passes") as caught:
        answer(store, Q.apply("z", "a - b"))
    assert "of the finer unit to the coarser one" in (caught.value.hint or "")
    found = answer(store, Q.apply("z", "a - cast(b, 'timestamp[s]')")).column("z")
    assert found.to_pylist() == [dt.datetime(9999, 12, 31) - dt.datetime(2024, 1, 1), None]

"""Exactness, errors and the order in which rows reach an operator."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import ColumnNotFoundError, ExpressionError, IntegerOverflowError
from tessel.expression import coalesce, col, lit, parse, when
from tessel.expression.evaluate import evaluate
from tessel.expression.periods import first_instant_ns
from tessel.expression.temporal import zone_of

TOP = 2**63 - 1
TABLE = pa.table({"n": pa.array([1, TOP, None, -(2**63)]), "safe": [True, False, True, True]})


def values(text: str, table: pa.Table = TABLE) -> list[Any]:
    return evaluate(parse(text), table).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "text", ["n + 1", "n * 2", "n - 1", "-n", "abs(n)", "n + n", "cast(n, 'uint64') + n"]
)
def test_integers_past_64_bits_raise_and_name_the_expression(text: str) -> None:
    with pytest.raises((IntegerOverflowError, ExpressionError)) as caught:
        values(text)
    assert caught.value.attributes["expression"]
    assert caught.value.hint


def test_the_overflow_names_the_operator_that_overflowed() -> None:
    with pytest.raises(IntegerOverflowError) as caught:
        values("(n + 1) * 0 == 5")
    assert caught.value.attributes["expression"] == "n + 1"


REACHED = [
    ("case when safe then 0 else n - 5 end", [0, TOP - 5, 0, 0]),
    ("case when n < 9 then 1 when n + 5 > 0 then 2 else 3 end", None),
    ("case when n > 9 then 1 else n + 5 end", [6, 1, None, -(2**63) + 5]),
    ("n < 9 and n + 5 > 0", [True, False, None, False]),
    ("n >= 9 or n + 5 > 0", [True, True, None, False]),
    ("n + 5 > 0 and n < 9", None),
    ("coalesce(case when n > 9 then 0 else null end, n + 5)", [6, 0, None, -(2**63) + 5]),
    ("safe and case when true then n + 5 > 0 else n + n > 0 end", [True, False, None, False]),
]


@pytest.mark.parametrize(("text", "wanted"), REACHED, ids=[text for text, _ in REACHED])
def test_a_row_raises_only_if_it_reaches_the_operator(text: str, wanted: list[Any] | None) -> None:
    if wanted is None:
        with pytest.raises(IntegerOverflowError):
            values(text)
    else:
        assert values(text) == wanted


def test_constants_raise_for_rows_only() -> None:
    overflow = lit(TOP) + 1
    assert evaluate(overflow, TABLE.slice(0, 0)).to_pylist() == []
    assert evaluate(when(col("n") == 77).then(overflow).otherwise(0), TABLE).to_pylist() == [0] * 4
    with pytest.raises(IntegerOverflowError):
        evaluate(overflow, TABLE)


def test_text_of_branches_that_are_computed_apart() -> None:
    chosen = when(col("n") > 9).then("big").otherwise((col("n") + 5).cast("text"))
    assert evaluate(chosen, TABLE).to_pylist() == ["6", "big", None, str(-(2**63) + 5)]


_WHOLE = st.integers(-(2**63), TOP) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, TOP, 0])
_REAL = st.floats(allow_nan=False) | _WHOLE.map(float)


@given(st.lists(st.tuples(_WHOLE, _REAL, st.integers(0, 2**64 - 1)), min_size=1, max_size=20))
def test_comparisons_are_exact(rows: list[tuple[int, float, int]]) -> None:
    whole, real, size = zip(*rows, strict=True)
    table = pa.table(
        {"i": pa.array(whole, pa.int64()), "x": real, "u": pa.array(size, pa.uint64())}
    )
    for sign in ("<", "<=", "==", ">"):
        for left, right in (("i", "x"), ("x", "i"), ("i", "u"), ("u", "i"), ("u", "x"), ("x", "u")):
            named = {"i": whole, "x": real, "u": size}
            wanted = [
                # Python compares int and float exactly
                {"<": one < two, "<=": one <= two, "==": one == two, ">": one > two}[sign]
                for one, two in zip(named[left], named[right], strict=True)
            ]
            assert values(f"{left} {sign} {right}", table) == wanted


@given(st.lists(st.tuples(st.integers(-(2**63), TOP), st.integers(-(2**63), TOP)), max_size=9))
def test_units_of_time_compare_exactly(rows: list[tuple[int, int]]) -> None:
    table = pa.table(
        {
            "a": pa.array([one for one, _ in rows], pa.timestamp("s")),
            "b": pa.array([two for _, two in rows], pa.timestamp("ns")),
        }
    )
    assert values("a < b", table) == [one * 10**9 < two for one, two in rows]
    assert values("a == b", table) == [one * 10**9 == two for one, two in rows]
    assert values("b < a", table) == [two < one * 10**9 for one, two in rows]


def test_zeros_are_equal_and_nan_is_missing() -> None:
    table = pa.table({"x": [0.0, -0.0, float("nan"), None]})
    assert values("x == 0", table) == [True, True, None, None]
    assert values("x == -0.0", table) == [True, True, None, None]
    assert values("x in (0.0,)", table) == [True, True, None, None]
    assert values("x in (-0.0, 5)", table) == [True, True, None, None]
    assert values("x not in (1)", table) == [True, True, None, None]
    assert values("not (x != 0)", table) == [True, True, None, None]
    assert values("x is missing", table) == [False, False, True, True]
    assert values("x in (float 'nan')", table) == [None, None, None, None]
    assert values("x in ()", table) == [False] * 4
    assert values("0 / x is missing", table) == [True] * 4


def test_uint64_beside_signed_integers_is_exact() -> None:
    table = pa.table({"u": pa.array([2**64 - 1, 5], pa.uint64()), "i": [-(2**63), -7]})
    assert values("u + i", table) == [2**63 - 1, -2]
    assert values("u // cast(4, 'int64')", table) == [2**62 - 1, 1]
    with pytest.raises(IntegerOverflowError):
        values("u - i", table)


def test_integer_literals_in_sets_that_no_value_can_equal() -> None:
    table = pa.table({"i": pa.array([1, 2], pa.int8()), "x": pa.array([0.1, 2], pa.float32())})
    assert values("i in (300, 1.5, 2.0, -1e300)", table) == [False, True]
    assert values("x in (0.1)", table) == [True, False]
    assert values("x == 0.1", table) == [True, False]
    assert values("x in (9007199254740993)", table) == [False, False]


DICTIONARY = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, None, 2, 0, 1, 0]), pa.array(["a", "b", None, "unused"])
)


@pytest.mark.parametrize(
    "text",
    [
        "d == 'a'",
        "d is missing",
        "d is not missing",
        "coalesce(d, 'x')",
        "d in ('b', null)",
        "upper(d)",
        "d != d",
        "length(d) + 1",
        "concat(d, d)",
        "case when d == 'a' then d else 'z' end",
        "starts_with(d, 'a') or d is missing",
    ],
)
def test_dictionaries_behave_as_their_values(text: str) -> None:
    coded = pa.table({"d": DICTIONARY})
    plain = pa.table({"d": DICTIONARY.dictionary_decode()})
    assert evaluate(parse(text), coded).equals(evaluate(parse(text), plain))


def test_values_that_no_row_has_do_not_raise() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), pa.array(["1", "no number"]))
    assert values("cast(d, 'int64')", pa.table({"d": coded})) == [1, 1, 1]


def test_chunks_with_different_dictionaries() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    table = pa.table({"d": pa.chunked_array(chunks)})
    assert values("d == 'a'", table) == [True, False, False, True]
    assert evaluate(col("d"), table).to_pylist() == ["a", "b", "c", "a"]


def test_unknown_columns_raise() -> None:
    with pytest.raises(ColumnNotFoundError):
        values("m > 1")


CASTS = [
    ("cast('12', 'int64')", 12),
    ("cast(1.0, 'int8')", 1),
    ("cast(float 'nan', 'int64')", None),
    ("cast(true, 'int8')", 1),
    ("cast('2024-01-31', 'date')", dt.date(2024, 1, 31)),
    ("cast(1706659200, 'timestamp[s]')", dt.datetime(2024, 1, 31)),
    ("cast(timestamp '2024-01-31T00:30:00Z', 'timestamp[us]')", dt.datetime(2024, 1, 31, 0, 30)),
    ("cast(timestamp '2024-01-31', 'int64')", 1_706_659_200_000_000),
    ("cast(date '2024-01-31', 'timestamp[us]')", dt.datetime(2024, 1, 31)),
    ("cast(9007199254740993, 'float64')", 9007199254740992.0),
    ("cast(duration '2s', 'int64')", 2_000_000),
    ("cast(5, 'decimal128(4, 1)') == 5", True),
]


@pytest.mark.parametrize(("text", "wanted"), CASTS, ids=[text for text, _ in CASTS])
def test_cast(text: str, wanted: Any) -> None:
    assert values(text, pa.table({"a": [1]})) == [wanted]


def test_casting_to_a_zone_reads_the_clock() -> None:
    table = pa.table({"t": pa.array([dt.datetime(2024, 7, 1, 12)], pa.timestamp("us"))})
    moved = evaluate(col("t").cast("timestamp[us, Europe/Paris]"), table)
    assert moved.cast(pa.int64())[0].as_py() == 1_719_828_000_000_000
    back = evaluate(col("t").cast("timestamp[us, Europe/Paris]").cast("timestamp[us]"), table)
    assert back.equals(table["t"].combine_chunks())


@pytest.mark.parametrize(
    "text", ["cast('x', 'int64')", "cast(1.5, 'int64')", "cast(300, 'int8')", "cast(-1, 'uint8')"]
)
def test_casts_never_cut(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        values(text)
    assert caught.value.attributes["expression"] == text


def test_filling_with_an_expression() -> None:
    table = pa.table({"a": [None, 1.0, float("nan")], "b": [5, 6, None]})
    assert evaluate(col("a").fill_missing(col("b")), table).to_pylist() == [5.0, 1.0, None]
    assert evaluate(coalesce(col("a")), table).to_pylist() == [None, 1.0, None]


ZONES = [
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Europe/Amsterdam",
    "+05:30",
]


@pytest.mark.parametrize("zone", ZONES)
@given(data=st.data())
def test_days_begin_at_their_first_instant(zone: str, data: st.DataObject) -> None:
    day = data.draw(st.integers(-40_000, 20_000))
    midnight = dt.datetime(1970, 1, 1) + dt.timedelta(days=day)
    start, date = first_instant_ns(midnight, zone_of(zone)) // 10**9, midnight.date()

    def local(second: int) -> dt.date:
        instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
        return instant.astimezone(zone_of(zone)).date()

    assert local(start) == date
    assert local(start - 1) < date


@pytest.mark.parametrize("zone", [None, "America/New_York", "America/Sao_Paulo", "Asia/Kathmandu"])
@given(seconds=st.lists(st.integers(0, 1_700_000_000), min_size=1, max_size=9))
def test_calendar_fields_agree_with_pandas(zone: str | None, seconds: list[int]) -> None:
    table = pa.table({"t": pa.array(seconds, pa.timestamp("s", zone))})
    series = pd.Series(pd.to_datetime(np.array(seconds), unit="s", utc=True)).dt.tz_convert(zone)
    for name in ("year", "month", "day", "hour", "minute", "second", "weekday", "date"):
        wanted = getattr(series.dt, "day_of_week" if name == "weekday" else name).tolist()
        assert values(f"{name}(t)", table) == wanted
    floored = evaluate(col("t").floor("1d"), table).cast(pa.int64()).to_pylist()
    wanted = series.dt.normalize() if zone is None else None
    if wanted is not None:
        assert floored == [int(moment.timestamp()) for moment in wanted]


def test_seconds_are_those_of_the_clock_where_offsets_have_seconds() -> None:
    for zone, second, wanted in [("Africa/Monrovia", 0, 30), ("Asia/Kolkata", -2_208_833_146, 24)]:
        table = pa.table({"t": pa.array([second, None], pa.timestamp("s", zone))})
        assert values("second(t)", table) == [wanted, None]


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
@given(seconds=st.lists(st.integers(2**31, 2**37), min_size=1, max_size=9))
def test_clocks_go_on_changing_after_2037(zone: str, seconds: list[int]) -> None:
    counts = pa.array([*(1_000 * each for each in seconds), None], pa.timestamp("ms", zone))
    table = pa.table({"t": counts})
    clock = [dt.datetime.fromtimestamp(each, zone_of(zone)) for each in seconds]
    for name in ("year", "month", "day", "hour", "minute", "second", "weekday", "date"):
        told = [getattr(each, name) for each in clock]
        wanted = [each() if callable(each) else each for each in told]
        assert values(f"{name}(t)", table) == [*wanted, None]
    wanted = [each.replace(tzinfo=None) for each in clock]
    assert values("cast(t, 'timestamp[ms]')", table) == [*wanted, None]
    texts = [each.strftime("%Y-%m-%d %H:%M:%S.000%z") for each in clock]
    assert values("cast(t, 'text')", table) == [*texts, None]


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
@given(
    seconds=st.lists(
        st.one_of(
            st.integers(2**31, 2**37),
            # Around the changes of clocks in New York and on Lord Howe Island in 2050.
            st.sampled_from([2530767600, 2551330800, 2532783600, 2548422000]).flatmap(
                lambda change: st.integers(change - 30_000, change + 30_000)
            ),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_readings_of_clocks_after_2037_have_instants(zone: str, seconds: list[int]) -> None:
    """The first instant that has the reading; of one that is skipped, the change of clocks."""
    counts = pa.array([*(1_000 * each for each in seconds), None], pa.timestamp("ms"))
    found = evaluate(parse(f"cast(t, 'timestamp[ms, {zone}]')"), pa.table({"t": counts}))
    instants = found.cast(pa.int64()).to_pylist()
    assert instants[-1] is None

    def reading(instant: int) -> int:
        clock = dt.datetime.fromtimestamp(instant, zone_of(zone)).replace(tzinfo=dt.UTC)
        return int(clock.timestamp())

    for wall, instant in zip(seconds, (each // 1_000 for each in instants[:-1]), strict=True):
        if reading(instant) == wall:
            assert all(reading(instant - early) != wall for early in (1_800, 3_600))
        else:
            assert reading(instant - 1) < wall < reading(instant)


@given(st.lists(st.integers(-(2**40), 2**40), max_size=9), st.sampled_from(["7s", "15min", "1h"]))
def test_floor_counts_from_the_epoch(seconds: list[int], rule: str) -> None:
    table = pa.table({"t": pa.array(seconds, pa.timestamp("s", "Asia/Kathmandu"))})
    length = {"7s": 7, "15min": 900, "1h": 3600}[rule]
    got = evaluate(col("t").floor(rule), table).cast(pa.int64()).to_pylist()
    assert got == [second // length * length for second in seconds]

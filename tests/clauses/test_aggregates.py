"""Every aggregate against a brute-force model in plain Python, whole and from partials."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses.aggregates import (
    Aggregate,
    MergeableAggregate,
    aggregate_from_json,
    aggregate_names,
    find_aggregate,
    register,
    registry,
)
from tessel.clauses.values import plain
from tessel.errors import (
    AggregateError,
    IntegerOverflowError,
    NameNotFoundError,
    PlanFormatError,
)
from tessel.expression.operators import aggregate as calls
from tests.strategies.tables import as_dictionary

NUMBERS = sorted(
    {"count", "first", "last", "max", "mean", "median", "min", "nunique", "quantile", "sem"}
    | {"size", "std", "sum", "var"}
)
BOOLS = sorted([*NUMBERS, "all", "any"])
NO_SUM = [name for name in NUMBERS if name not in ("sum", "var")]
DURATIONS = [name for name in NUMBERS if name != "var"]
ORDERED = [name for name in NO_SUM if name not in ("mean", "median", "quantile", "sem", "std")]
PARAMETERS: dict[str, dict[str, Any]] = {"quantile": {"q": 0.3}}


@dataclass(frozen=True)
class Kind:
    """A column type: its values as the integers, floats or objects that the model works on."""

    name: str
    type: pa.DataType
    values: st.SearchStrategy[Any]
    aggregates: list[str]
    sum_type: pa.DataType | None = None
    mean_type: pa.DataType | None = None
    day: int = 1


def integer_range(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


I64, U64, F64 = pa.int64(), pa.uint64(), pa.float64()
MAX64 = 2**63 - 1
KINDS = [
    Kind("bool", pa.bool_(), st.booleans(), BOOLS, I64, F64),
    Kind("int8", pa.int8(), integer_range(-128, 127), NUMBERS, I64, F64),
    Kind("int64", I64, integer_range(-(2**63), MAX64), NUMBERS, I64, F64),
    Kind("uint8", pa.uint8(), integer_range(0, 255), NUMBERS, U64, F64),
    Kind("uint64", U64, integer_range(0, 2**64 - 1), NUMBERS, U64, F64),
    Kind("float16", pa.float16(), st.floats(width=16), NUMBERS, F64, F64),
    Kind("float32", pa.float32(), st.floats(width=32), NUMBERS, F64, F64),
    Kind("float64", F64, st.floats(), NUMBERS, F64, F64),
    Kind(
        "decimal",
        pa.decimal128(20, 3),
        st.integers(-(10**20) + 1, 10**20 - 1),
        NUMBERS,
        pa.decimal128(38, 3),
        F64,
    ),
    Kind("text", pa.string(), st.text(max_size=3), ORDERED),
    Kind("large text", pa.large_string(), st.text(max_size=3), ORDERED),
    Kind("text view", pa.string_view(), st.text(max_size=20), ORDERED),
    Kind("binary", pa.binary(), st.binary(max_size=3), ORDERED),
    Kind("fixed binary", pa.binary(2), st.binary(min_size=2, max_size=2), ORDERED),
    Kind("date32", pa.date32(), st.integers(-9999, 9999), NO_SUM, None, pa.date32()),
    Kind(
        "date64",
        pa.date64(),
        st.integers(-9999, 9999).map(lambda day: day * 86_400_000),
        NO_SUM,
        None,
        pa.date64(),
        day=86_400_000,
    ),
    Kind("time32", pa.time32("s"), st.integers(0, 86_399), NO_SUM, None, pa.time32("s")),
    Kind("time64", pa.time64("us"), st.integers(0, 86_399_999_999), NO_SUM, None, pa.time64("us")),
    Kind(
        "timestamp",
        pa.timestamp("ns", "UTC"),
        integer_range(-(2**63), MAX64),
        NO_SUM,
        None,
        pa.timestamp("ns", "UTC"),
    ),
    Kind(
        "duration",
        pa.duration("ms"),
        integer_range(-(2**63), MAX64),
        DURATIONS,
        pa.duration("ms"),
        pa.duration("ms"),
    ),
    Kind("null", pa.null(), st.none(), BOOLS, I64, F64),
]
BY_NAME = {kind.name: kind for kind in KINDS}
CASES = [
    pytest.param(kind, name, id=f"{name} of {kind.name}")
    for kind in KINDS
    for name in kind.aggregates
]


def expected_type(kind: Kind, name: str) -> pa.DataType:
    if name in ("count", "size", "nunique"):
        return I64
    if name == "sum":
        return kind.sum_type
    if name in ("any", "all"):
        return pa.bool_()
    if name in ("mean", "median", "quantile", "var"):
        return kind.mean_type
    if name in ("std", "sem"):
        if kind.mean_type == F64:
            return F64
        return pa.duration("s" if pa.types.is_date(kind.type) else kind.type.unit)
    widened = {"float16": pa.float32(), "text view": pa.string()}
    return widened.get(kind.name, kind.type)


# --- columns in and out of Arrow ------------------------------------------------------------------


def column_of(kind: Kind, values: list[Any]) -> pa.Array:
    if pa.types.is_decimal(kind.type):
        exact = decimal.Context(prec=60)
        scaled = [None if v is None else exact.scaleb(decimal.Decimal(v), -3) for v in values]
        return pa.array(scaled, kind.type)
    if pa.types.is_temporal(kind.type):
        width = pa.int32() if kind.type.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind.type)
    if kind.name == "float16":
        floats = np.array([0 if v is None else v for v in values], np.float16)
        return pa.array(floats, kind.type, mask=np.array([v is None for v in values], bool))
    return pa.array(values, kind.type, from_pandas=False)


def numbers_of(array: pa.Array) -> list[Any]:
    """Values as the model has them: integers behind temporal types, decimals unscaled."""
    if pa.types.is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_decimal(array.type):
        exact = decimal.Context(prec=60)
        return [None if v is None else int(exact.scaleb(v, 3)) for v in array.to_pylist()]
    return array.to_pylist()


def represented(array: pa.Array, form: str) -> pa.Array | pa.ChunkedArray:
    if form == "slice":
        return pa.concat_arrays([array, array]).slice(len(array))
    if form == "chunks":
        half = len(array) // 2
        return pa.chunked_array([array[:half], array[half:]], array.type)
    if form == "dictionary" and not pa.types.is_null(array.type):
        return as_dictionary(array)
    return array


# --- the model ------------------------------------------------------------------------------------


class Overflow(Exception):  # noqa: N818
    """The sum does not fit."""


def nearest_float(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def model_sum(kind: Kind, values: list[Any]) -> Any:
    if kind.sum_type == F64:
        special = sum(v for v in values if math.isinf(v))
        if special != 0:
            return None if math.isnan(special) else special
        return nearest_float(sum(map(Fraction, values), Fraction(0)))
    total = sum(map(int, values))
    low, high = (0, 2**64) if kind.sum_type == U64 else (-(2**63), 2**63)
    if pa.types.is_decimal(kind.type):
        low, high = -(10**38) + 1, 10**38
    if not low <= total < high:
        raise Overflow
    return total


def model_mean(kind: Kind, values: list[Any]) -> Any:
    if not values:
        return None
    if pa.types.is_floating(kind.type) and any(map(math.isinf, values)):
        return model_sum(kind, values)
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    if pa.types.is_decimal(kind.type):
        mean /= 1000
    if kind.mean_type == F64:
        return nearest_float(mean)
    return round(mean / kind.day) * kind.day


def model_median(kind: Kind, values: list[Any]) -> Any:
    ordered = sorted(values)
    middle = len(ordered)
    return model_mean(kind, ordered[(middle - 1) // 2 : middle // 2 + 1] if ordered else [])


def model_quantile(kind: Kind, values: list[Any], share: Fraction) -> Any:
    place, rest = divmod(share * (len(values) - 1), 1)
    low, high = (sorted(values) * 2)[place : place + 2]
    if not rest:
        high = low
    if pa.types.is_floating(kind.type) and not (math.isfinite(low) and math.isfinite(high)):
        return low + high
    mixed = Fraction(low) + rest * (Fraction(high) - Fraction(low))
    if kind.mean_type == F64:
        return nearest_float(mixed / 1000 if pa.types.is_decimal(kind.type) else mixed)
    return round(mixed / kind.day) * kind.day


def model_variance(kind: Kind, values: list[Any], ddof: int = 1) -> Fraction | None:
    """The variance in squares of the unit of the result."""
    infinite = pa.types.is_floating(kind.type) and any(map(math.isinf, values))
    if len(values) <= ddof or infinite:
        return None
    numbers = [Fraction(value) / kind.day for value in values]
    mean = sum(numbers) / len(numbers)
    variance = sum((value - mean) ** 2 for value in numbers) / (len(numbers) - ddof)
    if pa.types.is_date(kind.type):
        return variance * 86_400**2
    return variance / 1000**2 if pa.types.is_decimal(kind.type) else variance


def model_root(kind: Kind, values: list[Any], divisor: int) -> Any:
    """The root of the variance over a divisor, with decimals to spare, then rounded."""
    variance = model_variance(kind, values)
    if variance is None:
        return None
    squared = variance / divisor
    with decimal.localcontext(prec=120):
        numerator, denominator = map(decimal.Decimal, squared.as_integer_ratio())
        root = (numerator / denominator).sqrt()
        if kind.mean_type == F64:
            return float(root)
        whole = int(root.to_integral_value(decimal.ROUND_HALF_EVEN))
    if whole > MAX64:
        raise Overflow
    return whole


MODEL: dict[str, Callable[[Kind, list[Any]], Any]] = {
    "count": lambda kind, values: len(values),
    "nunique": lambda kind, values: len(set(values)),
    "first": lambda kind, values: values[0] if values else None,
    "last": lambda kind, values: values[-1] if values else None,
    "min": lambda kind, values: min(values, default=None),
    "max": lambda kind, values: max(values, default=None),
    "sum": model_sum,
    "mean": model_mean,
    "median": model_median,
    "any": lambda kind, values: any(values) if values else None,
    "all": lambda kind, values: all(values) if values else None,
    "quantile": lambda kind, values: (
        model_quantile(kind, values, Fraction(3, 10)) if values else None
    ),
    "var": lambda kind, values: (
        None if (found := model_variance(kind, values)) is None else nearest_float(found)
    ),
    "std": lambda kind, values: model_root(kind, values, 1),
    "sem": lambda kind, values: model_root(kind, values, len(values)),
}


def aggregate_of(name: str) -> Aggregate:
    """The aggregate of a name, with parameters where it needs some."""
    return find_aggregate(name, **PARAMETERS.get(name, {}))


def model(kind: Kind, name: str, values: list[Any], codes: list[int], groups: int) -> list[Any]:
    found = []
    for group in range(groups):
        rows = [v for v, code in zip(values, codes, strict=True) if code == group]
        present = [v for v in rows if v is not None and v == v]
        found.append(len(rows) if name == "size" else MODEL[name](kind, present))
    return found


@st.composite
def rows_of(draw: st.DrawFn, kind: Kind) -> tuple[list[Any], list[int]]:
    rows = draw(st.lists(st.tuples(st.none() | kind.values, st.integers(0, 2)), max_size=16))
    return [value for value, _ in rows], [code for _, code in rows]


def partials(
    aggregate: MergeableAggregate, column: Any, codes: np.ndarray, groups: int, data: st.DataObject
) -> list[pa.Array]:
    """Cut rows at random places, reduce each run, and merge neighbours in a random tree."""
    kind = column.type
    cuts = sorted(data.draw(st.lists(st.integers(0, len(codes)), max_size=3)))
    edges = [0, *cuts, len(codes)]
    states = [
        aggregate.partial(column[low:high], codes[low:high], groups)
        for low, high in itertools.pairwise(edges)
    ]
    fields = aggregate.partial_fields(kind)
    while len(states) > 1:
        at = data.draw(st.integers(0, len(states) - 2))
        tables = [pa.table(state, schema=pa.schema(fields)) for state in states[at : at + 2]]
        stacked = through_bytes(pa.concat_tables(tables))
        both = np.tile(np.arange(groups), 2)
        states[at : at + 2] = [aggregate.merge(stacked.columns, both, groups, kind)]
    return states[0]


def through_bytes(table: pa.Table) -> pa.Table:
    """The table as another process would receive it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def same(found: list[Any], wanted: list[Any]) -> bool:
    wanted = [None if b != b else b for b in wanted]
    return len(found) == len(wanted) and all(
        (a is None) == (b is None) and (a is None or a == b)
        for a, b in zip(found, wanted, strict=True)
    )


# There are many cases, so each takes a part of the examples of the profile.
@pytest.mark.parametrize(("kind", "name"), CASES)
@settings(max_examples=settings.default.max_examples // 5)
@given(data=st.data())
def test_aggregates_follow_the_model(kind: Kind, name: str, data: st.DataObject) -> None:
    values, code_list = data.draw(rows_of(kind))
    codes = np.array(code_list, np.int64)
    aggregate = aggregate_of(name)
    form = data.draw(st.sampled_from(["plain", "slice", "chunks", "dictionary"]))
    column = represented(column_of(kind, values), form)
    assert aggregate.result_type(column.type, "x") == expected_type(kind, name)
    ways = [lambda: aggregate.compute(column, codes, 4, "x")]
    if isinstance(aggregate, MergeableAggregate):
        states = partials(aggregate, column, codes, 4, data)
        ways.append(lambda: aggregate.finish(states, column.type, "x"))
    assert aggregate.mergeable is (len(ways) == 2)
    try:
        wanted = model(kind, name, values, code_list, 4)
    except Overflow:
        for way in ways:
            with pytest.raises(IntegerOverflowError, match="of column 'x' is"):
                way()
        return
    for way in ways:
        found = way()
        found.validate(full=True)
        assert found.type == expected_type(kind, name)
        assert same(numbers_of(found), wanted), (numbers_of(found), wanted)


@pytest.mark.parametrize(
    "name",
    [p.values[1] for p in CASES if p.values[0].name == "float64" and p.values[1] != "nunique"],
)
@given(data=st.data())
def test_bits_do_not_depend_on_the_cut(name: str, data: st.DataObject) -> None:
    values, code_list = data.draw(rows_of(BY_NAME["float64"]))
    column, codes = column_of(BY_NAME["float64"], values), np.array(code_list, np.int64)
    aggregate = aggregate_of(name)
    whole = aggregate.compute(column, codes, 3, "x")
    if isinstance(aggregate, MergeableAggregate):
        merged = aggregate.finish(partials(aggregate, column, codes, 3, data), F64, "x")
        for one, other in zip(merged.to_pylist(), whole.to_pylist(), strict=True):
            assert repr(one) == repr(other)


# --- single facts ---------------------------------------------------------------------------------


def compute(name: str, values: list[Any], kind: pa.DataType) -> Any:
    found = find_aggregate(name).compute(
        pa.array(values, kind), np.zeros(len(values), np.int64), 1, "x"
    )
    return found[0].as_py()


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [-0.0], [-0.0, None]])
@pytest.mark.parametrize("name", ["min", "max", "sum"])
def test_zero_is_positive(name: str, values: list[float]) -> None:
    assert repr(compute(name, values, F64)) == "0.0"


def test_first_and_last_return_the_stored_bits() -> None:
    assert repr(compute("first", [None, -0.0, 1.0], F64)) == "-0.0"
    assert repr(compute("last", [1.0, -0.0, math.nan], F64)) == "-0.0"


def test_infinities_of_both_signs_have_no_sum_and_no_mean() -> None:
    for name in ("sum", "mean", "median"):
        assert compute(name, [math.inf, -math.inf], F64) is None
    assert compute("mean", [math.inf, 1.0], F64) == math.inf


def test_a_mean_does_not_overflow_on_the_way() -> None:
    assert compute("mean", [1.7e308] * 3, F64) == 1.7e308
    assert compute("mean", [2**63 - 1] * 5, I64) == 2.0**63
    assert compute("median", [1.7e308] * 2, F64) == 1.7e308


def test_means_of_dates_go_to_the_nearest_day_and_half_to_even() -> None:
    days = [dt.date(1970, 1, 1), dt.date(1970, 1, 2)]
    assert compute("mean", days, pa.date32()) == dt.date(1970, 1, 1)
    later = [dt.date(1970, 1, 2), dt.date(1970, 1, 3)]
    assert compute("mean", later, pa.date32()) == dt.date(1970, 1, 3)
    assert compute("mean", later, pa.date64()) == dt.date(1970, 1, 3)


def test_partial_sums_may_leave_64_bits_and_come_back() -> None:
    codes = np.zeros(2, np.int64)
    sum_ = find_aggregate("sum")
    assert isinstance(sum_, MergeableAggregate)
    up = sum_.partial(pa.array([MAX64, MAX64]), codes, 1)
    down = sum_.partial(pa.array([-MAX64, -5]), codes, 1)
    stacked = [pa.concat_arrays(pair) for pair in zip(up, down, strict=True)]
    assert sum_.finish(sum_.merge(stacked, codes, 1, I64), I64, "x").to_pylist() == [MAX64 - 5]
    with pytest.raises(IntegerOverflowError) as caught:
        sum_.finish(up, I64, "seats")
    assert caught.value.attributes["column"] == "seats"
    assert caught.value.attributes["aggregate"] == "sum"
    assert str(2 * MAX64) in str(caught.value)


def test_decimal_sums_raise_past_38_digits() -> None:
    limit = decimal.Decimal(10**38 - 1)
    below = limit.copy_negate()
    kind = pa.decimal128(38, 0)
    assert compute("sum", [limit, decimal.Decimal(0)], kind) == limit
    assert compute("sum", [below], kind) == below
    for values in ([limit, decimal.Decimal(1)], [below, decimal.Decimal(-1)], [limit] * 400):
        with pytest.raises(IntegerOverflowError, match="decimal128"):
            compute("sum", values, kind)


def test_narrow_decimals_are_summed_as_wide_ones() -> None:
    values = pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")], pa.decimal128(5, 2))
    narrow = values.cast(pa.decimal32(5, 2))
    sum_ = find_aggregate("sum")
    assert sum_.result_type(narrow.type, "x") == pa.decimal128(38, 2)
    codes = np.zeros(2, np.int64)
    assert sum_.compute(narrow, codes, 1, "x").to_pylist() == [decimal.Decimal("4.00")]


def test_many_groups_and_rows_agree_with_pandas() -> None:
    generator = np.random.default_rng(2)
    codes = generator.integers(0, 70_000, 150_000)
    codes[-1] = 69_999
    numbers = generator.integers(-1000, 1000, 150_000)
    halves = generator.integers(-1000, 1000, 150_000) / 2
    halves[generator.random(150_000) < 0.1] = np.nan
    frame = pd.DataFrame({"code": codes, "numbers": numbers, "halves": halves})
    grouped = frame.groupby("code")
    for column in ("numbers", "halves"):
        values = pa.array(frame[column].to_numpy())
        for name in ("sum", "mean", "min", "max", "count", "nunique", "median", "first", "last"):
            wanted = grouped[column].agg(name).reindex(range(70_000))
            filled = wanted.fillna(0) if name in ("sum", "count", "nunique") else wanted
            found = find_aggregate(name).compute(values, codes, 70_000, column)
            as_floats = found.cast(F64).to_numpy(zero_copy_only=False)
            assert np.array_equal(as_floats, filled.to_numpy(float), equal_nan=True), name


def test_size_needs_no_column() -> None:
    size = find_aggregate("size")
    assert isinstance(size, MergeableAggregate)
    assert not size.reads_values
    codes = np.array([0, 0, 2])
    assert size.compute(None, codes, 3, "").to_pylist() == [2, 0, 1]
    states = size.partial(None, codes, 3)
    assert size.finish(size.merge(states, np.array([1, 1, 0]), 2, None), None, "").to_pylist() == [
        1,
        2,
    ]


def test_lists_can_be_counted_and_picked() -> None:
    column = pa.array([None, [1], [2, 3]])
    codes = np.zeros(3, np.int64)
    found = {
        name: find_aggregate(name).compute(column, codes, 1, "x")[0].as_py()
        for name in ("first", "last", "count", "size")
    }
    assert found == {"first": [1], "last": [2, 3], "count": 2, "size": 3}


# --- refusals -------------------------------------------------------------------------------------

LISTS = ("count", "first", "last", "size")
NESTED = [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.month_day_nano_interval()]
REFUSED = [
    *(("sum", BY_NAME[n].type) for n in ("text", "binary", "date32", "date64", "time32")),
    ("sum", pa.timestamp("ns")),
    ("sum", pa.dictionary(pa.int8(), pa.string())),
    *((name, BY_NAME[n].type) for n in ("text", "binary") for name in ("mean", "median")),
    *((name, kind) for name in (*NUMBERS, "any", "all") for kind in NESTED if name not in LISTS),
    *((name, pa.decimal256(50, 1)) for name in BOOLS if name not in LISTS),
    *((n, pa.int8()) for n in ("any", "all")),
    *(("var", kind) for kind in (pa.duration("s"), pa.timestamp("s"), pa.date32())),
    *((name, pa.string()) for name in ("quantile", "std", "sem", "var")),
]


@pytest.mark.parametrize(("name", "kind"), REFUSED, ids=lambda value: str(value))
def test_types_that_mean_nothing_are_refused(name: str, kind: pa.DataType) -> None:
    with pytest.raises(AggregateError, match=f"no {name} of column 'where' of type") as caught:
        aggregate_of(name).result_type(kind, "where")
    assert caught.value.hint
    assert caught.value.attributes["column"] == "where"


def test_the_table_of_types_is_whole() -> None:
    assert aggregate_names() == sorted([*BOOLS, "weighted_mean"])
    for kind in KINDS:
        for name in set(BOOLS) - set(kind.aggregates):
            with pytest.raises(AggregateError):
                aggregate_of(name).result_type(kind.type, "x")


# --- the registry ---------------------------------------------------------------------------------


def test_names_and_plain_forms() -> None:
    for name in aggregate_names():
        aggregate = aggregate_of(name)
        assert aggregate.name == name
        assert aggregate_from_json(json.loads(json.dumps(aggregate.to_json()))) == aggregate
        assert hash(aggregate) == hash(aggregate_of(name))
    assert find_aggregate("sum").to_json() == "sum"
    assert find_aggregate("std").to_json() == {"name": "std", "ddof": 1}
    assert find_aggregate("sum").describe("qty") == "sum(qty)"
    assert find_aggregate("size").describe("qty") == "size()"
    assert find_aggregate("sum") != find_aggregate("mean")


def test_an_unknown_name_raises_with_the_nearest() -> None:
    with pytest.raises(NameNotFoundError, match="did you mean 'median'"):
        find_aggregate("medain")
    with pytest.raises(AggregateError, match="takes no parameters, not q"):
        find_aggregate("sum", q=1)
    for data in (None, 3, {}, {"name": 1}, ["sum"]):
        with pytest.raises(PlanFormatError, match="not the plain form"):
            aggregate_from_json(data)


def test_an_aggregate_with_parameters_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.aggregate_names()  # imports all: what registers in the copy is lost with it
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setattr(calls, "_names", set(calls._names))

    @register
    @dataclass(frozen=True)
    class Nth(Aggregate):
        name: ClassVar[str] = "nth"
        n: int
        step: int = 1

        def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
            return value_type

        def compute(
            self, values: Any, codes: np.ndarray, groups: int, column: str | None = None
        ) -> pa.Array:
            rows = [np.flatnonzero(codes == group)[self.n] for group in range(groups)]
            return plain(values).take(pa.array(rows))

    nth = find_aggregate("nth", n=1)
    assert nth == Nth(1)
    assert nth.to_json() == {"name": "nth", "n": 1, "step": 1}
    assert aggregate_from_json(nth.to_json()) == nth
    assert nth.describe("qty") == "nth(qty, n=1)"
    codes = np.array([0, 1, 0, 1])
    assert nth.compute(pa.array([1, 2, 3, 4]), codes, 2).to_pylist() == [3, 4]
    with pytest.raises(AggregateError, match="takes n, step, not no parameters"):
        find_aggregate("nth")
    with pytest.raises(AggregateError, match="there is an aggregate 'nth' already"):
        register(Nth)


# --- the documentation ----------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs" / "aggregates.md"
DOCUMENTED = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16()),
    *(pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(12, 2)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time64("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
    *(pa.duration("ns"), pa.null()),
]


def documented_types() -> dict[tuple[str, str], str]:
    """What the table in the documentation says: type and aggregate to result type."""
    table = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("| ")]
    header, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    found = {}
    for kinds, *results in rows[:-1]:
        # Commas inside brackets belong to the type.
        for kind in re.findall(r"[^,(\[]+(?:[(\[][^)\]]*[)\]])?", kinds):
            for names, result in zip(header[1:], results, strict=True):
                for name in names.split(", "):
                    found[kind.strip(), name] = kind.strip() if result == "same" else result
    return found


def test_the_documented_result_types_are_the_real_ones() -> None:
    real = {}
    for kind in DOCUMENTED:
        for name in BOOLS:
            try:
                real[str(kind), name] = str(aggregate_of(name).result_type(kind, "x"))
            except AggregateError:
                real[str(kind), name] = "–"
    assert documented_types() == real

"""Every aggregate of every type in queries, cut at will: as of the whole column at once."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel.clauses import QueryBuilder
from tessel.clauses.aggregates import (
    Aggregate,
    Quantile,
    WeightedMean,
    aggregate_names,
    find_aggregate,
)
from tessel.clauses.values import plain
from tessel.errors import AggregateError, TesselError
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.strategies.tables import as_dictionary, bits

Q = QueryBuilder()
ROWS, GROUPS = 23, 4
UNDER = (SETTINGS[0], SETTINGS[2])
ALL: list[Aggregate] = [
    *(find_aggregate(n) for n in aggregate_names() if n not in ("quantile", "weighted_mean")),
    *(Quantile(0.3, how) for how in ("linear", "lower", "higher", "nearest", "midpoint")),  # type: ignore[arg-type]
    find_aggregate("std", ddof=0),
]


def decimals(digits: int, scale: int) -> pa.Array:
    values = [
        None if n % 5 == 0 else decimal.Decimal(n * 37 - 300).scaleb(-scale) for n in range(ROWS)
    ]
    return pa.array(values, pa.decimal128(digits, scale))


def integers(kind: pa.DataType, step: int) -> pa.Array:
    values = pa.array([None if n % 5 == 0 else n * step % 101 for n in range(ROWS)], pa.int64())
    if pa.types.is_date64(kind):
        return pa.array(
            [None if v is None else v * 86_400_000 for v in values.to_pylist()], pa.int64()
        ).view(kind)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return values.cast(width).view(kind) if pa.types.is_temporal(kind) else values.cast(kind)


def objects(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array([values[n * n % len(values)] for n in range(ROWS)], kind)


COLUMNS: dict[str, pa.Array] = {
    **{str(kind): integers(kind, 17) for kind in (
        pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float64(), pa.float32(), pa.date32(),
        pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ns"), pa.duration("ms"),
        pa.timestamp("us", "America/New_York"),
    )},
    "wide int64": pa.array([None if n % 7 == 0 else (-1) ** n * (2**62 - n) for n in range(ROWS)]),
    "odd floats": objects(pa.float64(), [0.0, -0.0, float("nan"), None, 1e300, 5e-324, -1.5]),
    "infinite floats": objects(pa.float64(), [float("inf"), 1.0, None, 2.0, 3.0]),
    "bool": objects(pa.bool_(), [True, None, False]),
    "narrow decimal": decimals(9, 2),
    "wide decimal": decimals(38, 20),
    "text": objects(pa.string(), ["b", "", None, "Bé", "\U0001f600"]),
    "binary": objects(pa.binary(), [b"\xff", b"", None]),
    "dictionary": as_dictionary(objects(pa.string(), ["b", "a", None])),
    "list": objects(pa.list_(pa.int64()), [[1, 2], None, [], [3]]),
    "fixed list": objects(pa.list_(pa.float64(), 2), [[1.0, 2.0], None, [0.0, -0.0]]),
    "struct": objects(pa.struct([("a", pa.int64()), ("b", pa.string())]),
                      [{"a": 1, "b": "x"}, None]),
    "null": pa.nulls(ROWS),
}  # fmt: skip
KEYS = np.array([n * 5 % GROUPS if n % 6 else GROUPS - 1 for n in range(ROWS)])


def possible(kind: pa.DataType) -> dict[str, Aggregate]:
    found: dict[str, Aggregate] = {}
    for number, each in enumerate(ALL):
        try:
            if each.reads_values:
                each.result_type(kind, "v")
        except AggregateError:
            continue
        found[f"o{number}"] = each
    return found


@pytest.mark.parametrize("grouped", ["merged", "bucketed", "resample"])
@pytest.mark.parametrize("name", COLUMNS)
def test_aggregates_of_every_type(name: str, grouped: str) -> None:
    column = COLUMNS[name]
    keys = np.sort(KEYS) if grouped == "resample" else KEYS
    times = pa.array(keys.astype("int64") * 3600, pa.timestamp("s"))
    table = pa.table({"t": times, "k": pa.array(keys, pa.int64()), "v": column})
    store = stored(table, rows=6, index="t" if grouped == "resample" else None)
    wanted: dict[str, pa.Array] = {}
    for output, each in possible(column.type).items():
        if grouped == "merged" and not each.mergeable:
            continue
        try:
            wanted[output] = each.compute(column, keys.astype(np.int64), GROUPS, "v")
        except TesselError as error:
            # What cannot be answered raises the same in a query.
            one = Q.groupby("k").agg(x=("v", each))
            with pytest.raises(type(error)):
                store.read("x", query=one)
    start = Q.resample("1h") if grouped == "resample" else Q.groupby("k")
    query = start.agg(
        **{o: ("v", each) for o, each in possible(column.type).items() if o in wanted}
    )
    found = answer(store, query, UNDER)
    assert found.num_rows == GROUPS
    for output, values in wanted.items():
        assert found.schema.field(output).type == values.type
        assert bits(found.column(output)) == bits(plain(values)), (output, query)


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_impossible_is_refused_before_it_runs(name: str) -> None:
    kind = COLUMNS[name].type
    taken = possible(kind).values()
    store = stored({"k": [1] * ROWS, "v": COLUMNS[name]})
    refused = [each for each in ALL if each not in taken]
    for each in refused:
        with pytest.raises(AggregateError, match=r"no .* of column 'v' of type") as caught:
            store.schema("x", Q.groupby("k").agg(x=("v", each)))
        assert caught.value.hint
    weighing = Q.groupby("k").agg(x=("v", WeightedMean(), "k"))
    if find_aggregate("mean") in taken:
        assert store.schema("x", weighing).type_of("x") == find_aggregate("mean").result_type(kind)
    else:
        with pytest.raises(AggregateError):
            store.schema("x", weighing)

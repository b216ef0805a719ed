"""Keys of every type against a model in plain Python, and group counts from one to a million."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses.values import plain_type
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.strategies.tables import as_dictionary, bits

Q = QueryBuilder()
# Threads, buckets of a few bytes, units one by one: the cut of the rows is drawn.
UNDER = (SETTINGS[0], SETTINGS[2])
# Of many groups, budgets of a few bytes would make a file of each.
MANY = ({"workers": 1}, {"workers": 3, "inline_bytes": 0, "hash_bucket_bytes": 1 << 16})


@dataclass(frozen=True)
class Kind:
    """A type of keys: the integers or objects of a column, in an order of their own."""

    type: pa.DataType
    values: list[Any]

    def column(self, values: list[Any]) -> pa.Array:
        kind = self.type
        if pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array(values, width).view(kind)
        if pa.types.is_dictionary(kind):
            return as_dictionary(Kind(kind.value_type, []).column(values), kind)
        return pa.array(values, kind, from_pandas=False)


NAN, DAY = float("nan"), 86_400_000
KINDS = [
    Kind(pa.bool_(), [True, False, None]),
    Kind(pa.int8(), [3, -1, None, 127]),
    Kind(pa.uint64(), [2**64 - 1, 0, None, 7]),
    Kind(pa.int64(), [2**63 - 1, -(2**63), None, 0]),
    Kind(pa.float32(), [0.5, -0.0, 0.0, NAN, None, float("-inf")]),
    Kind(pa.float64(), [1e300, -0.0, 0.0, NAN, None, float("inf"), -1.5]),
    Kind(pa.decimal128(5, 2), [decimal.Decimal(n) / 100 for n in (101, -999, 0)] + [None]),
    Kind(pa.decimal128(38, 0), [decimal.Decimal(10**37 * n) for n in (9, -9, 0)] + [None]),
    Kind(pa.string(), ["b", "", "Bé", "\U0001f600", "～", None]),
    Kind(pa.binary(), [b"\xff", b"", b"a", None]),
    Kind(pa.dictionary(pa.int8(), pa.string()), ["z", "a", "", None]),
    Kind(pa.dictionary(pa.int32(), pa.int64()), [2**40, -1, None]),
    Kind(pa.date32(), [-1, 0, 20_000, None]),
    Kind(pa.date64(), [-DAY, 0, DAY, None]),
    Kind(pa.time32("ms"), [5, 0, None]),
    Kind(pa.time64("ns"), [5, 0, None]),
    Kind(pa.timestamp("us", "Asia/Kolkata"), [1, -1, 2**52, None]),
    Kind(pa.duration("s"), [1, -1, None]),
    Kind(pa.null(), [None]),
]


def key_of(value: Any) -> Any:
    """The key a value stands for: null and NaN are one, so are both zeros."""
    if value is None or value != value:
        return None
    return value + 0.0 if isinstance(value, float) else value


def model(
    rows: list[tuple[Any, ...]], *, sort: bool, drop_missing: bool
) -> list[tuple[tuple[Any, ...], list[int]]]:
    """Keys and the numbers of their rows."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(rows):
        key = tuple(map(key_of, row))
        if not (drop_missing and None in key):
            groups.setdefault(key, []).append(number)
    found = list(groups.items())
    if sort:
        found.sort(
            key=lambda group: [(v is None, 0 if v is None else ordered(v)) for v in group[0]]
        )
    return found


def ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value  # UTF-8 is the order of code points


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.type))
@settings(max_examples=6)
@given(data=st.data())
def test_keys_of_every_type(kind: Kind, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from(KINDS))
    pairs = st.tuples(st.sampled_from(kind.values), st.sampled_from(other.values))
    rows = data.draw(st.lists(pairs, max_size=14))
    both = data.draw(st.booleans())
    rows = rows if both else [row[:1] for row in rows]
    names = ["k", "j"] if both else ["k"]
    table = pa.table(
        {
            name: each.column([row[at] for row in rows])
            for at, (name, each) in enumerate(zip(names, [kind, other], strict=False))
        }
        | {"row": pa.array(range(len(rows)), pa.int64())}
    )
    options = {name: data.draw(st.booleans()) for name in ("sort", "drop_missing")}
    how = data.draw(st.sampled_from(["sum", "nunique"]))  # merged, or through buckets
    query = Q.groupby(*names, **options).agg(
        n="size", first=("row", "min"), last=("row", "last"), x=("row", how)
    )
    found = answer(stored(table, rows=data.draw(st.integers(1, 5))), query, UNDER)
    wanted = model(rows, **options)
    assert found.schema.types[: len(names)] == [
        plain_type(each.type) for each in ([kind, other] if both else [kind])
    ]
    for at, (name, each) in enumerate(zip(names, [kind, other], strict=False)):
        expected = Kind(plain_type(each.type), []).column([key[at] for key, _ in wanted])
        assert bits(found.column(name)) == bits(pa.chunked_array([expected]))
    assert found.column("n").to_pylist() == [len(numbers) for _, numbers in wanted]
    assert found.column("first").to_pylist() == [numbers[0] for _, numbers in wanted]
    assert found.column("last").to_pylist() == [numbers[-1] for _, numbers in wanted]
    results = {"sum": sum, "nunique": len}
    assert found.column("x").to_pylist() == [results[how](numbers) for _, numbers in wanted]


@pytest.mark.parametrize(
    ("groups", "rows"),
    [(1, 5_000), (2, 5_000), (997, 20_000), (20_000, 30_000),
     pytest.param(1_000_000, 1_500_000, marks=pytest.mark.slow)],
)  # fmt: skip
def test_any_number_of_groups(groups: int, rows: int) -> None:
    generator = np.random.default_rng(groups)
    keys = generator.integers(0, groups, rows) * 7919  # far apart: no table of all numbers
    values = generator.integers(-1000, 1000, rows)
    weights = generator.integers(1, 9, rows)
    table = pa.table({"k": keys, "v": values, "w": weights})
    store = stored(table, rows=1 << 14, columns=3)
    different, codes = np.unique(keys, return_inverse=True)
    counts = np.bincount(codes)
    sums = np.bincount(codes, values)
    query = Q.groupby("k").agg(s=("v", "sum"), m=("v", "vwap", "w"), d=("v", "std", 0))
    found = answer(store, query, MANY)
    assert np.array_equal(found.column("k"), different)
    assert np.array_equal(found.column("s"), sums)
    weighted = np.bincount(codes, values * weights) / np.bincount(codes, weights)
    assert np.array_equal(found.column("m"), weighted)  # both sums are whole: one rounding
    squares = np.bincount(codes, values * values)
    variance = (counts * squares - sums * sums) / (counts * counts)
    np.testing.assert_array_almost_equal_nulp(found.column("d").to_numpy(), np.sqrt(variance), 2)
    appearing = answer(store, Q.groupby("k", sort=False).agg(n="size"), MANY)
    _, first = np.unique(keys, return_index=True)
    assert np.array_equal(appearing.column("k"), different[np.argsort(first)])
    assert np.array_equal(appearing.column("n"), counts[np.argsort(first)])


_SCALED = st.tuples(
    st.integers(0, 6),
    st.sampled_from([9, 3_000, 1 << 18, 1 << 24]),
    st.sampled_from([0, 0, 0.1, 1]),
    st.sampled_from([None, None, None, -0.0, NAN, 1e300, 0.1 + 0.2]),
)
"""Of a part: decimal places, how far integers reach, how much is missing, and an odd value."""


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@settings(max_examples=12)
@given(
    parts=st.lists(_SCALED, min_size=2, max_size=3),
    seed=st.integers(0, 1 << 30),
    drop=st.booleans(),
)
def test_keys_that_are_stored_as_decimals(
    kind: pa.DataType, parts: list[Any], seed: int, drop: bool
) -> None:
    """Segments have scales of their own, or none where there is an odd value."""
    random, store = np.random.default_rng(seed), fresh_store()
    rows: list[tuple[Any, ...]] = []
    for places, reach, missing, odd in parts:
        numbers = random.integers(-reach, reach, 400) / 10**places
        if odd is not None:
            numbers[random.integers(0, 400)] = odd
        with np.errstate(over="ignore"):
            keys = pa.array(
                numbers.astype(kind.to_pandas_dtype()), mask=random.random(400) < missing
            )
        part = pa.table({"k": keys, "j": random.integers(0, 3, 400), "v": np.arange(400)})
        (store.append if rows else store.write)("x", part)
        rows += zip(*part.to_pydict().values(), strict=True)
    for names in (["k"], ["j", "k"]):
        query = Q.groupby(*names, drop_missing=drop).agg(n="size", x=("v", "sum"))
        wanted = model(
            [tuple(row["kjv".index(n)] for n in names) for row in rows],
            sort=True,
            drop_missing=drop,
        )
        found = answer(store, query, MANY)
        keys = zip(*(found.column(name).to_pylist() for name in names), strict=True)
        assert list(keys) == [key for key, _ in wanted]
        assert found.column("n").to_pylist() == [len(own) for _, own in wanted]
        assert found.column("x").to_pylist() == [
            sum(rows[at][2] for at in own) for _, own in wanted
        ]

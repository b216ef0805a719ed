"""A join with few rows, each with a key of its own, is a filter and look-ups: one answer."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.errors import PlanFormatError, TesselError
from tessel.expression import col
from tessel.expression.node import Expression
from tessel.expression.operators.membership import Lookup
from tessel.options import options
from tests.clauses.helpers import answer, events, fresh_store, same_table
from tests.clauses.joins.tables import KEY_KINDS, KeyKind, narrowed
from tests.kernels.forced import LEVELS, in_form

Q = QueryBuilder()
HOWS = ("inner", "left", "semi", "anti")

VALUES: tuple[tuple[pa.DataType, list[Any]], ...] = (
    (pa.int64(), [-(1 << 63), 0, (1 << 63) - 1]),
    (pa.uint64(), [0, 1 << 63]),
    (pa.int8(), [-128, 5]),
    (pa.float64(), [0.25, -0.0, float("nan")]),
    (pa.float32(), [0.5, float("nan")]),
    (pa.string(), ["", "ä", "a long text that is not short"]),
    (pa.large_string(), ["b", "\0"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.bool_(), [True, False]),
    (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("-123456789012345678.25")]),
    (pa.timestamp("ns", "UTC"), [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    (pa.date32(), [dt.date(1969, 12, 31)]),
    (pa.duration("ms"), [dt.timedelta(seconds=-1)]),
    (pa.list_(pa.int64()), [[1, None], []]),
    (pa.dictionary(pa.int8(), pa.string()), ["x", "y"]),
)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[KeyKind, pa.Table, pa.Table]:
    kind = draw(st.sampled_from(KEY_KINDS))
    number = st.none() | st.integers(0, 6)
    left = draw(st.lists(number, min_size=1, max_size=12))
    unique = draw(st.integers(0, 3)) > 0
    right = draw(st.lists(number, max_size=5, unique=unique))
    columns: dict[str, Any] = {"k": kind.values(kind.right, _drawn(kind.right, right))}
    for at in range(draw(st.integers(0, 2))):
        type_, values = draw(st.sampled_from(VALUES))
        drawn = [draw(st.none() | st.sampled_from(values)) for _ in right]
        plain = type_.value_type if pa.types.is_dictionary(type_) else type_
        columns[f"c{at}"] = pa.array(drawn, plain).cast(type_)
    ours = {
        "t": pa.array(range(len(left)), pa.timestamp("s")),
        "k": kind.values(kind.left, _drawn(kind.left, left)),
        "c0": pa.array([f"{at}" * 40 for at in range(len(left))]),
    }
    return kind, pa.table(ours), pa.table(columns)


def _drawn(kind: pa.DataType, numbers: list[int | None]) -> list[int | None]:
    if kind != pa.bool_():
        return numbers
    return [None if number is None else number % 2 for number in numbers]


@settings(max_examples=60)
@given(
    tables=_tables(),
    how=st.sampled_from(HOWS),
    rows=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    level=st.sampled_from(LEVELS),
    behind=st.sampled_from(["nothing", "groups", "select", "filter", "sums"]),
)
def test_look_ups_give_what_the_join_gives(
    tables: tuple[KeyKind, pa.Table, pa.Table],
    how: Any,
    rows: tuple[int, int],
    level: str,
    behind: str,
) -> None:
    _, left, right = tables
    store = fresh_store()
    with options(segment_rows=rows[0], segment_columns=2):
        store.write("x", left, index="t")
    with options(segment_rows=rows[1]):
        store.write("y", right)
    query = Q.join("y", "k", how)
    shown = store.schema("x", query)
    last = shown.names[-1]
    numeric = pa.types.is_integer(shown.type_of(last)) or pa.types.is_floating(shown.type_of(last))
    if behind == "groups" and not pa.types.is_nested(shown.type_of(last)):
        query = query.groupby(last).agg(n=("t", "count"), first=("k", "first"))
    elif behind == "sums" and numeric:
        query = query.agg(s=(last, "mean"), n=(last, "count"))
    elif behind == "select":
        query = query.select("t", last) if last != "t" else query.select("t")
    elif behind == "filter":
        query = query.filter(col(last).is_missing())
    try:
        wanted: Any = answer(store, query)
    except Exception as error:
        wanted = type(error), str(error)
    with in_form(level), narrowed(10_000):
        try:
            found: Any = answer(store, query)
        except Exception as error:
            found = type(error), str(error)
    if isinstance(wanted, tuple):
        assert found == wanted
    else:
        assert same_table(found, wanted)


def _shop(rows: int = 9_000) -> Store:
    """Sales in segments of 1,000 rows, with keys of several types, and what is known of each."""
    random = np.random.default_rng(5)
    store = fresh_store()
    who = random.integers(0, 60, rows)
    sales = {
        "t": pa.array(np.arange(rows), pa.timestamp("s")),
        "word": pa.array([None if at == 7 else f"w{at}" for at in who]),
        "number": pa.array(who.astype(np.int16), mask=who == 9),
        "far": who.astype(np.int64) * 1_000_000_007 - 5,
        "price": np.round(random.random(rows) * 100, 2),
    }
    with options(segment_rows=1_000):
        store.write("sales", pa.table(sales), index="t")
    known = np.arange(0, 60, 2)
    people = {
        "word": pa.array([f"w{at}" for at in known]),
        "number": pa.array(known, pa.uint32()),
        "far": known * 1_000_000_007 - 5,
        "city": pa.array([None if at == 8 else f"c{at % 5}" for at in known]),
        "weight": pa.array([None if at == 12 else float(at) for at in known]),
        "rank": known % 7,
    }
    store.write("people", people)
    return store


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("key", ["word", "number", "far"])
def test_a_star_is_one_kernel(key: str, how: Any, level: str) -> None:
    """The looked-up columns are group keys, sums and conditions of a program on stored blocks."""
    store = _shop()
    people = SubQuery("people", None, Q.select(key, "city", "weight", "rank").clauses)
    joined = Q.join(people, key, how)
    for query in (
        joined.groupby("city").agg(n=("t", "count"), p=("price", "sum"), w=("weight", "sum")),
        joined.groupby("rank", "city").agg(p=("price", "max"), w=("weight", "mean")),
        joined.filter("city >= 'c2'").groupby("rank").agg(p=("price", "sum")),
        joined.apply("loud", col("city").upper()).groupby("loud").agg(p=("price", "sum")),
    ):
        wanted = store.read("sales", query=query).to_arrow()
        with in_form(level), narrowed(10_000), events("clause.process") as seen:
            found = store.read("sales", query=query).to_arrow()
        assert same_table(found, wanted)
        assert "broadcast_join" not in {e.attributes["clause"] for e in seen}


def test_rows_that_are_no_look_up_are_joined() -> None:
    store = _shop()
    store.write("twice", {"number": [2, 4, 4], "city": ["a", "b", "c"]})
    store.write("lists", {"number": [2, 4], "of": [[1], [2, 3]]})
    for other in ("twice", "lists"):
        query = Q.join(other, "number").select("t", "number", store.schema(other).names[-1])
        wanted = store.read("sales", query=query).to_arrow()
        with narrowed(10_000), events("clause.process") as seen:
            found = store.read("sales", query=query).to_arrow()
        assert same_table(found, wanted)
        assert "broadcast_join" in {e.attributes["clause"] for e in seen}


def test_errors_behind_a_look_up_are_those_behind_the_join() -> None:
    """And they say of which rows, which behind a join nobody knows."""
    store = _shop()
    joined = Q.join("people", "word")
    for query in (
        joined.apply("x", col("city").cast("int8")),
        joined.apply("x", col("number") * 4611686018427387904),
        joined.filter("far * 9223372036854775807 > price"),
        joined.groupby("city").agg(s=("nothing", "sum")),
    ):
        errors = []
        for most_keys in (None, 10_000):
            with narrowed(most_keys), pytest.raises(Exception) as caught:
                store.read("sales", query=query)
            error = caught.value
            assert isinstance(error, TesselError)
            said = str(error).partition("\n  in ")[0]
            errors.append((type(error), said, error.context.get("clause")))
        assert errors[0] == errors[1]


def test_the_table_of_a_look_up_is_checked() -> None:
    made = Lookup.of_columns(col("k"), pa.array([1, 2]), pa.array(["a", "b"]))
    assert Expression.from_json(made.to_json()).equals(made)
    for keys in ([1, 1], [1, None]):
        with pytest.raises(PlanFormatError, match="twice"):
            Lookup.of_columns(col("k"), pa.array(keys), pa.array(["a", "b"]))
    for table in ("", "AAAA", "no base64", made.table[:40]):
        with pytest.raises(PlanFormatError, match="holds no table"):
            Lookup(col("k"), table)

"""Joins: a million trades beside a million quotes, by time and by keys, and a thousand names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Query, Workload

SEED = 17
_START_NS = 1_704_067_200_000_000_000
_UNIT_NS = 1_000
_TEN, _MANY, _NAMES_EVERY = 10, 10_000, 10
_TOLERANCE_UNITS = 6


def _side(rows: int, seed: int, odd: int, value: str) -> pa.Table:
    """Return times that only go up, keys of few and many values, and an id that no other row has.

    Times of one side are even and those of the other odd, so that no two are the same and no two
    quotes are as far from a trade: there engines differ.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    units = np.cumsum(random.integers(1, 4, rows)) * 4 + odd
    few, many = random.integers(0, _TEN, rows), random.integers(0, _MANY, rows)
    words = pa.array([f"KEY{number:02}" for number in range(_TEN)])
    return pa.table(
        {
            "ts": pa.array(_START_NS + units * _UNIT_NS, pa.timestamp("ns")),
            "few": few,
            "word": pa.DictionaryArray.from_arrays(pa.array(few), words).cast(pa.string()),
            "many": many,
            "id": random.permutation(rows),
            value: random.integers(1, 1_000_000, rows) / 100,
        }
    )


def make(rows: int) -> pa.Table:
    """Return trades."""
    return _side(rows, SEED, 0, "price")


def make_quotes(rows: int) -> pa.Table:
    """Return quotes."""
    return _side(rows, SEED + 1, 1, "bid")


def make_names(rows: int) -> pa.Table:
    """Return names of a tenth of the keys ``many``, whatever the rows."""
    keys = np.arange(0, _MANY, _NAMES_EVERY)
    return pa.table({"many": keys, "name": [f"name-{key}" for key in keys]})


def _asof(
    name: str, question: str, by: str | None, direction: str = "backward", within: bool = False
) -> Query:
    columns = ["ts", *([by] if by else [])]
    nanoseconds = _TOLERANCE_UNITS * _UNIT_NS

    def tessel(tables: Any) -> Any:
        import tessel as ts

        clauses = ts.QueryBuilder().select(*columns, "bid").clauses
        query = ts.QueryBuilder().select(*columns, "price")
        return tables["joins"].read(
            "joins",
            query=query.join_asof(
                ts.SubQuery("quotes", None, clauses),
                by=by,
                direction=direction,  # type: ignore[arg-type]
                tolerance=f"{nanoseconds}ns" if within else None,
            ),
        )

    def polars(tables: Any) -> Any:
        import datetime as dt

        return (
            tables["joins"]
            .select(*columns, "price")
            .join_asof(
                tables["quotes"].select(*columns, "bid"),
                on="ts",
                by=by,
                strategy=direction,
                tolerance=dt.timedelta(microseconds=nanoseconds // 1_000) if within else None,
                check_sortedness=False,
            )
        )

    keys = f"l.{by} = r.{by} AND " if by else ""
    shown = ", ".join(f"l.{column}" for column in columns)
    bid = f"CASE WHEN l.ts - r.ts <= INTERVAL {nanoseconds // 1_000} MICROSECONDS THEN bid END"
    compare = ">=" if direction == "backward" else "<="
    answers = {"tessel": tessel, "polars": polars}
    if direction != "nearest":  # which DuckDB does not know
        answers["duckdb"] = lambda tables: tables["joins"].sql(
            f"SELECT {shown}, price, {bid if within else 'bid'} AS bid FROM joins l "
            f"ASOF LEFT JOIN quotes r ON {keys}l.ts {compare} r.ts"
        )
    return Query(name, question, answers, key=("ts",))


def _inner(name: str, question: str, other: str, on: str, column: str) -> Query:
    def tessel(tables: Any) -> Any:
        import tessel as ts

        clauses = ts.QueryBuilder().select(on, column).clauses
        query = ts.QueryBuilder().select("ts", "price", on)
        return tables["joins"].read(
            "joins", query=query.join(ts.SubQuery(other, None, clauses), on)
        )

    return Query(
        name,
        question,
        {
            "tessel": tessel,
            "polars": lambda tables: (
                tables["joins"]
                .select("ts", "price", on)
                .join(tables[other].select(on, column), on=on)
            ),
            "duckdb": lambda tables: tables["joins"].sql(
                f"SELECT joins.ts, price, {on}, {column} FROM joins JOIN {other} USING ({on})"
            ),
        },
        key=("ts",),
    )


WORKLOAD = Workload(
    name="joins",
    index="ts",
    make=make,
    rows=1_000_000,
    smoke_rows=20_000,
    others=(
        Workload("quotes", "ts", make_quotes, 1_000_000, 20_000, ()),
        Workload("names", "many", make_names, 1_000, 1_000, ()),
    ),
    queries=(
        _asof("asof", "the last quote before each trade", None),
        _asof("asof-forward", "the first quote after each trade", None, "forward"),
        _asof("asof-nearest", "the nearest quote", None, "nearest"),
        _asof("asof-within", "the last quote of the 6 µs before", None, within=True),
        _asof("asof-few", "the last quote before, of 10 keys", "few"),
        _asof("asof-many", "the last quote before, of 10,000 keys", "many"),
        _asof("asof-word", "the last quote before, of 10 keys of text", "word"),
        _asof("asof-few-nearest", "the nearest quote, of 10 keys", "few", "nearest"),
        _inner("inner-id", "trades and quotes of one id, a million each", "quotes", "id", "bid"),
        _inner("inner-names", "trades with a thousand names", "names", "many", "name"),
    ),
)

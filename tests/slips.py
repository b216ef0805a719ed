"""Slips of new users, and the texts that answer them: ``python -m tests.slips`` writes them anew.

``tests/golden_slips.txt`` has one block a slip: the line that somebody writes, behind ``>>>``, and
the error it ends in. The names are those of `names`.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import tessel as ts

__all__ = ["GOLDEN", "SLIPS", "answer", "blocks", "names"]

GOLDEN = Path(__file__).parent / "golden_slips.txt"

SLIPS = """
sum(trades)
len(trades)
trades["price"]
trades[["price", "symbol"]]
trades[0:5]
trades.__setitem__("twice", 2)
np.array(trades)
trades.columns
trades.pivot(index="time")
trades.to_csv("out.csv")
trades.price
trades.mean()
trades.to_pandas()
trades.loc["2024-01-01"]
trades.where("price > 1")
trades.fillna(0)
trades.show()
trades.write_parquet("bars.parquet")
trades.to_dicts()
trades.take([999]).collect()
trades.groupby("symbol").size()
pd.DataFrame(trades)
q.collect()
q.explain()
q.to_pandas()
q.sortby("price")
store.trades
store.sql("SELECT * FROM trades")
store.list_symbols()
store.read("trdes")
store.read("trades", as_of=99)
ts.Expression("price")
ts.col("price")[0]
len(ts.col("price"))
len(q)
trades.agg("count(*)")
trades.agg("price + 1")
trades.filter("avg(price) > 1")
trades.groupby("symbol").agg(m="stddev")
trades.query("price > 1")
ts.open("s3://bucket/x", options={"retries": 3})
q + q
trades > 1
trades.collect() * 2
-trades.collect()
sorted([trades, trades])
sorted(store.log("trades") * 2)
store.log("trades")[0] < store.at("main")
store.at("main") >= 1
[stage for stage in trades.plan()]
trades.plan()[0]
store + store
[value for value in ts.col("price")]
bool(ts.col("price") > 1)
ts.Lineage("trades")
store.read("trades", as_of="yesterday")
store.read("trades", as_of="2024-13-01")
store.read("trades", query="price > 1")
store.read("trades", engine="spark")
store.write("new", {"a": [1, 2], "b": [1]})
store.write("new", 5)
store.write("new", {"a": 1})
store.write("new", {"a": "text"})
store.write("new", {"a": [2**70]})
store.write("new", {"a": [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]})
store.write("new", pd.DataFrame({"a": [pd.Timestamp(0), pd.Timestamp(0, tz="UTC")]}))
store.write("new", {"a": np.zeros((2, 2))})
store.write("new", {"when": ["03/04/2010"]}, index="when")
store.write(table, "new")
store.__enter__()
store.__setitem__("new", table)
store.__delitem__("trades")
store.close()
store.write("new", table, index="tme")
store.append("nothing", table)
store.append("trades", table)
store.append("trades", table.drop(["qty"]))
store.delete("nothing")
ts.open("s3:/bucket/trades")
ts.open(5)
trades.filter(ts.col("time") > dt.datetime(2024, 1, 1)).collect()
trades.filter("time > timestamp '2024-01-01T00:00:00'").collect()
trades.filter("price > 1 & qty > 5")
trades.filter("price > 1 | symbol == 'a'")
trades.filter((ts.col("price") > 1) and (ts.col("qty") > 5))
trades.filter(ts.col("price") > 1 & ts.col("qty") > 5)
trades.filter(1 < ts.col("price") < 3)
trades.filter(not ts.col("price"))
trades.filter(ts.col("symbol") in ["a", "b"])
trades.filter(lambda row: row.price > 1)
trades.filter(np.array([True, False]))
trades.filter([True, False])
trades.filter(pd.Series([True, False]))
trades.filter(pl.Series([True, False]))
trades.filter(pl.col("price") > 1)
trades.filter(price=3)
trades.filter("price").collect()
trades.filter("price = 1")
trades.filter("price <> 1")
trades.filter("price > 1 && qty > 5")
trades.filter("symbol == a").collect()
trades.filter("symbol in (a, c)").collect()
trades.filter("price > qt").collect()
trades.filter("symbol is 'a'")
trades.filter("symbol is None")
trades.filter("price > '1'").collect()
trades.filter("len(symbol) > 1")
trades.filter("SELECT * FROM trades")
trades.filter("(price > 1").collect()
trades.filter("symbol in ['a']")
trades.filter("symbol not in  ['a']")
trades.filter("price ? 1 : 0")
trades.filter("my price > 1")
trades.filter("trades.price > 1")
trades.filter("trades['price'] > 1")
trades.filter("symbol.upper() == 'A'")
trades.filter("symbol contains 'a'")
trades.filter("symbol ILIKE 'a%'")
trades.filter("price::int > 1")
trades.filter("cast(price as int) > 1")
trades.filter("price > @x")
trades.filter("price > 1;")
trades.filter("price > 1,000")
trades.filter("count(*) > 1")
trades.filter("price > 1 if qty else 2")
trades.filter("price in (SELECT 1)")
trades.with_columns(x=ts.when(ts.col("price") > 1).then(1))
trades.with_columns(x=ts.when(ts.col("price") > 1))
trades.with_columns(x=ts.when("price > 1").then(1).otherwise(0)).collect()
trades.groupby(by="symbol")
trades.groupby(by=["symbol"])
trades.groupby("symbol", as_index=False)
trades.groupby("symbol", dropna=False)
trades.groupby(level=0)
ts.connect("data.db")
ts.read_csv("trades.csv")
ts.scan_parquet("trades.parquet")
ts.DataFrame({"price": [1.5]})
ts.Arctic("lmdb://data")
ts.opn("data")
ts.mean("price")
ts.Store("data")
ts.Store(uri="data")
ts.LazyTable("trades")
ts.Result(table)
trades.select("pric").collect()
trades.select(ts.col("price") * 2)
trades.with_columns("price * 2")
trades.with_columns(ts.col("price") * ts.col("qty"))
trades.with_columns(x=lambda row: row.price)
trades.apply("x", lambda row: row.price)
trades.sort("price", ascending=False)
trades.sort("-price").collect()
trades.head("5")
trades.take(5)
trades.take([1000]).collect()
trades.top_k("price", 3)
trades.rolling(0).agg(n="count")
trades.select([])
trades.merge("trades", on="symbol").collect()
trades.agg([pl.col("qty").sum()])
trades.join(table, on="symbol")
trades.join("quotes", on="symbol").collect()
trades.groupby("symbol").mean()
trades.groupby("symbol")["price"].mean()
trades.groupby("symbol").price
trades.groupby("symbol").collect()
trades.groupby().agg(n="count")
trades.groupby("symbol").agg(price="mean")
trades.groupby("symbol").agg(m=("price", "avg"))
trades.groupby("symbol").agg(m=("price", np.mean))
trades.groupby("symbol").agg(m="price * 2")
trades.groupby("symbol").agg("smu")
trades.groupby("symbol").agg("sum", n="count")
trades.agg(m=("symbol", "mean")).collect()
trades.resample("1h").sum()
trades.resample("1h").collect()
trades.resample("1M").agg(n="count")
trades.resample("hourly").agg(n="count")
trades.resample("1h", tz="Berlin")
trades.rolling(3).mean()
trades.date_range("2024-13-01").collect()
trades.date_range("2024-02-01", "2024-01-01").collect()
trades.collect(executor="dask")
trades.collect(engine="spark")
ts.col("price").lowercase()
ts.col("price").mena()
ts.col("price").isin([1])
ts.col("price").apply(abs)
ts.col("time").dt.hour
ts.col("symbol").str.upper()
ts.col("price") + pd.Series([1])
ts.col("price") + pl.col("qty")
trades.collect()["pric"]
trades.collect().filter("price > 1")
trades.collect().columns
trades.collect().group_by("symbol")
trades.collect().sort_values("price")
trades.collect()[0]
trades.groupby("symbol").agg(["mean"])
ts.col("price").cumsum()
ts.col("price").rank().over("symbol")
store.copy("trades", "copy")
store.write("trades", table, mode="append")
store.read("trades", filters=[("price", ">", 1)])
store.read("trades", as_of=-1)
store.read(["trades", "quotes"])
store.schema("trades")["price"]
store.schema("trades").columns
store.delete("trades", where="price > 1")
trades.select(p="price")
trades.rename(price="p")
trades.resample("1h", on="time")
trades.collect().price
trades.collect().to_csv("out.csv")
"""


def names() -> dict[str, Any]:
    """Return what stands for what in the slips."""
    times = [dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC) for hour in range(4)]
    table = pa.table(
        {"time": times, "symbol": ["a", "b"] * 2, "price": [1.5, 2.0, 3.0, 0.5], "qty": range(4)}
    )
    store = ts.open("memory://")
    store.write("trades", table, index="time")
    found = {"store": store, "trades": store["trades"], "table": table, "q": ts.QueryBuilder()}
    return {**found, "ts": ts, "pd": pd, "pl": pl, "np": np, "dt": dt}


def answer(slip: str, known: dict[str, Any]) -> str:
    """Return the error that a slip ends in, as people see it."""
    try:
        eval(slip, dict(known))
    except Exception as error:
        kind = "" if isinstance(error, ts.TesselError) else f"{type(error).__name__}: "
        return re.sub(r" at 0x[0-9a-f]+", "", f"{kind}{error}")
    return "no error"


def blocks() -> list[tuple[str, str]]:
    """Return the slips of the file with their texts."""
    found = []
    for block in GOLDEN.read_text(encoding="utf-8").split("\n\n"):
        slip, _, text = block.strip("\n").partition("\n")
        found.append((slip.removeprefix(">>> "), text))
    return found


def _write() -> None:
    known = names()
    made = (f">>> {slip}\n{answer(slip, known)}" for slip in SLIPS.strip().splitlines())
    GOLDEN.write_text("\n\n".join(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()

"""The fluent builder: write a table, query it, look at how the query is run."""

import datetime as dt

import pyarrow as pa

import tessel as ts

minutes = range(60 * 24)
trades = pa.table(
    {
        "ts": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=m) for m in minutes],
        "symbol": [("AAPL", "MSFT", "NVDA")[m % 3] for m in minutes],
        "price": [100 + (m * 7 % 40) / 4 for m in minutes],
        "volume": [10 + m * 13 % 90 for m in minutes],
    }
)

store = ts.open("memory://fluent-builder")
store.write("trades", trades, index="ts")

query = (
    ts.QueryBuilder()
    .date_range("2024-01-01T09:00", "2024-01-01T17:00")
    .filter("price > 101 and symbol in ('AAPL', 'NVDA')")
    .apply("notional", ts.col("price") * ts.col("volume"))
    .groupby("symbol")
    .agg(trades=("volume", "count"), volume=("volume", "sum"), notional=("notional", "sum"))
)
print(store.read("trades", query=query))
print(store.explain("trades", query))

# The same verbs on a lazy table, and a resample.
print(
    store.scan("trades")
    .filter("symbol == 'AAPL'")
    .resample("6h")
    .agg(open=("price", "first"), high=("price", "max"), close=("price", "last"))
    .collect()
)

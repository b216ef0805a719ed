"""Trades: 10 million rows × 7 columns made from a fixed seed, sorted by an irregular time.

``ts`` (ns, no two equal, 50 a second on average), ``symbol`` (500, few of them frequent),
``price``, ``bid`` and ``ask`` (2 decimals), ``volume`` (1 to 5,000), ``venue`` (12).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads import trades_answers as answers
from benchmarks.workloads.base import Query, Workload

SEED = 20130101
START_NS = 1_704_067_200_000_000_000
"""2024-01-01T00:00:00Z."""

SYMBOLS, VENUES = 500, 12
_ZIPF_EXPONENT = 1.2
_MEAN_GAP_NS = 20_000_000
_LARGEST_VOLUME = 5_000


def make(rows: int) -> pa.Table:
    """Return the first ``rows`` trades of the seed's world."""
    random = np.random.Generator(np.random.PCG64(SEED))
    gaps = np.maximum(random.exponential(_MEAN_GAP_NS, rows), 1).astype(np.int64)
    times = START_NS + np.cumsum(gaps)
    weights = np.arange(1, SYMBOLS + 1) ** -_ZIPF_EXPONENT
    symbols = random.choice(SYMBOLS, rows, p=weights / weights.sum()).astype(np.int16)
    usual_price = np.exp(random.normal(4.6, 0.8, SYMBOLS))
    price = np.round(usual_price[symbols] * np.exp(random.normal(0.0, 0.02, rows)), 2)
    half_spread = random.integers(1, 6, rows) / 100
    volume = random.integers(1, _LARGEST_VOLUME + 1, rows)
    venue = random.integers(0, VENUES, rows).astype(np.int8)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ns", tz="UTC")),
            "symbol": _texts(symbols, [f"SYM{number:04d}" for number in range(SYMBOLS)]),
            "price": price,
            "bid": np.round(price - half_spread, 2),
            "ask": np.round(price + half_spread, 2),
            "volume": volume,
            "venue": _texts(venue, [f"VENUE{number:02d}" for number in range(VENUES)]),
        }
    )


def _texts(codes: Any, texts: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes, pa.array(texts)).cast(pa.string())


WORKLOAD = Workload(
    name="trades",
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=50_000,
    queries=(
        Query("all", "all columns", answers.ALL),
        Query("two-columns", "price, volume", answers.TWO_COLUMNS),
        Query("filter", "price > 100 and volume < 50, all columns", answers.FILTER),
        Query("by-symbol", "by symbol: mean price, sum volume", answers.BY_SYMBOL, key=("symbol",)),
        Query("by-venue", "by venue: mean price, sum volume", answers.BY_VENUE, key=("venue",)),
        Query("resample", "1 minute: OHLC of price, sum volume", answers.RESAMPLE, key=("ts",)),
        Query(
            "notional",
            "volume < 2500, price * volume, sum by symbol",
            answers.NOTIONAL,
            key=("symbol",),
        ),
        Query("date-range", "two hours (a quarter, if fewer), all columns", answers.DATE_RANGE),
        Query("one-symbol", "symbol == 'SYM0123', all columns", answers.ONE_SYMBOL),
        Query("random-rows", "100 random rows, all columns", answers.RANDOM_ROWS),
        Query("last-rows", "the last 10 rows", answers.LAST_ROWS),
    ),
)

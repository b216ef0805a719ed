"""Small segments that together have every type, every encoding and both codecs.

Deterministic and a few kilobytes each: what is damaged byte by byte and read again and again.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tessel.cached import cached
from tessel.store.segment.file_writer import WriteOptions
from tests.store.segment.helpers import PROFILES, with_ids, written

ROWS = 45
"""Three pages of 16 rows, the last one short."""

_AT = np.arange(ROWS)
_NULL = pa.array(_AT % 5 != 2)


def _some_missing(values: pa.Array) -> pa.Array:
    return pa.compute.if_else(_NULL, values, None)


@dataclass(frozen=True, eq=False)
class Sample:
    """A segment to be damaged.

    Attributes
    ----------
    name
        For test ids.
    make
        Makes its columns.
    encodings
        By column name, the encoding to use.
    profile
        Name of a profile.
    page_shift
        Pages hold 2**page_shift rows.
    """

    name: str
    make: Callable[[], dict[str, pa.Array]]
    encodings: dict[str, str] = field(default_factory=dict)
    profile: str = "fast"
    page_shift: int = 4

    @cached
    def table(self) -> pa.Table:
        return with_ids(pa.table(self.make()))

    @cached
    def data(self) -> bytes:
        names = list(self.make())
        ids = dict(zip(names, self.table.column_names, strict=True))
        encodings = {ids[name]: encoding for name, encoding in self.encodings.items()}
        shifts = dict.fromkeys(self.table.column_names, self.page_shift)
        return written(self.table, WriteOptions(PROFILES[self.profile], encodings, shifts))


def _numbers() -> dict[str, pa.Array]:
    jitter = (_AT * 7919) % 31
    return {
        "sequence": pa.array(1_700_000_000 + 60 * _AT, pa.timestamp("s", "UTC")),
        "near": pa.array(10**15 + 10**6 * _AT + jitter, pa.int64()),
        "packed": _some_missing(pa.array(jitter, pa.uint16())),
        "delta": pa.array(np.cumsum(jitter), pa.int32()),
        "runs": pa.array(_AT // 6 * 1000, pa.uint64()),
        "any": pa.array((_AT.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)),
        "constant": pa.array(np.full(ROWS, -3), pa.int8()),
        "flags": _some_missing(pa.array(jitter % 2 == 0)),
        "missing": pa.nulls(ROWS, pa.int16()),
        "nothing": pa.nulls(ROWS),
    }


def _floats() -> dict[str, pa.Array]:
    prices = np.round(100 + (_AT * 7919) % 97 / 100, 2)
    odd = prices.copy()
    odd[[3, 17, 40]] = [np.nan, 0.1 + 0.2, -np.inf]
    return {
        "prices": pa.array(prices),
        "exceptions": _some_missing(pa.array(odd)),
        "narrow": pa.array(np.round(prices, 1), pa.float32()),
        "runs": pa.array(np.repeat([1.5, np.nan, -0.0], ROWS // 3)),
        "any": pa.array(np.sqrt(prices)),
        "scaled runs": pa.array(np.repeat(prices[: ROWS // 9], 9)),
        "repeated": pa.array(np.sqrt(prices[_AT % 3])),
    }


def _texts() -> dict[str, pa.Array]:
    words = ["AAPL", "MSFT", "é€\U0010ffff", ""]
    return {
        "symbol": _some_missing(pa.array([words[at % 4] for at in _AT])),
        "ids": pa.array([f"order-{at * 7919:07d}" for at in _AT]),
        "lengths": pa.array(["x" * (at * 7 % 13) for at in _AT]),
        "constant": pa.array(["one text for all rows"] * ROWS),
        "bytes": _some_missing(pa.array([bytes([at, 255, 0]) * (at % 3) for at in _AT])),
        "fixed": pa.array([bytes([at, at, 7]) for at in _AT], pa.binary(3)),
        "category": pa.array([words[at % 3] for at in _AT]).dictionary_encode(),
    }


def _nested() -> dict[str, pa.Array]:
    lists = [None if at % 7 == 3 else [at + n for n in range(at % 4)] for at in _AT.tolist()]
    texts = [[f"t{at}"] * (at % 3) for at in _AT.tolist()]
    deep = [[[at], [], [at, None]] if at % 2 else None for at in _AT.tolist()]
    pairs = [(at, None if at % 3 else 0.5 * at) for at in _AT.tolist()]
    point = pa.struct([("name", pa.string()), ("at", pa.list_(pa.int16(), 2))])
    points = [None if at % 4 == 1 else {"name": "n", "at": [at, 1]} for at in _AT.tolist()]
    coded = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(3 * ROWS) % 4, pa.int8()), pa.array(["a", "b", "c", "d"])
    )
    return {
        "lists": pa.array(lists, pa.list_(pa.int64())),
        "texts": pa.array(texts, pa.list_(pa.string())),
        "deep": pa.array(deep, pa.list_(pa.list_(pa.int32()))),
        "pairs": pa.array(pairs, pa.struct([("a", pa.int32()), ("b", pa.float64())])),
        "points": pa.array(points, point),
        "coded": pa.ListArray.from_arrays(
            pa.array(np.arange(0, 3 * ROWS + 1, 3), pa.int32()), coded
        ),
    }


def _decimals_and_times() -> dict[str, pa.Array]:
    small = [decimal.Decimal(at * 7919 % 1000).scaleb(-2) for at in _AT.tolist()]
    large = [decimal.Decimal(10**30 + at) for at in _AT.tolist()]
    day = datetime.date(2024, 2, 27)
    return {
        "small": _some_missing(pa.array(small, pa.decimal128(9, 2))),
        "large": pa.array(large, pa.decimal128(38, 0)),
        "dates": pa.array([day + datetime.timedelta(at) for at in _AT.tolist()]),
        "times": _some_missing(pa.array(_AT * 10**9, pa.time64("ns"))),
        "durations": pa.array(_AT % 3, pa.duration("us")),
    }


def _long_runs() -> dict[str, pa.Array]:
    prices = np.round(100 + (np.arange(8) * 7919) % 97 / 100, 2)
    symbols = np.array(["AAPL", "MSFT", "GOOG"])
    climb = 10_000 + np.cumsum(np.arange(800) * 7919 % 797 // 3 + np.arange(800))
    return {
        "climb": pa.array(climb / 100.0),
        "prices": pa.array(np.repeat(prices, 100)),
        "symbols": pa.array(np.repeat(symbols[np.arange(8) * 5 % 3], 100)),
        "texts": pa.array(["some words, " * 9 + str(at * 7919 % 800) for at in range(800)]),
    }


def _wide_numbers() -> dict[str, pa.Array]:
    noise = np.arange(2_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(50)
    return {
        "two": pa.array((noise % np.uint64(900)).astype(np.uint16)),
        "four": pa.array(1e3 + noise.astype(np.float32), pa.float32()),
        "eight": pa.array(1e6 + noise.astype(np.float64)),
    }


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "numbers",
        _numbers,
        {"near": "linear", "packed": "linear", "delta": "delta", "runs": "run-end", "any": "flat"},
    ),
    Sample(
        "floats",
        _floats,
        {"exceptions": "scaled", "narrow": "scaled", "runs": "run-end", "repeated": "dictionary"},
    ),
    Sample("texts", _texts, {"symbol": "dictionary", "ids": "variable", "lengths": "variable"}),
    Sample("nested", _nested),
    Sample("decimals and times", _decimals_and_times),
    Sample("compact numbers", _numbers, {"any": "flat"}, "compact"),
    Sample("compact texts", _texts, {}, "compact"),
    Sample("compact nested", _nested, {}, "compact"),
    Sample("long runs", _long_runs, {}, "lz4", 16),
    Sample("byte planes", _wide_numbers, {"four": "flat", "eight": "flat"}, "compact", 16),
)

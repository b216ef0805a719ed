"""Arrow tables of every type, for tests of what travels."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.strategies.tables import as_dictionary

whole = {
    kind: st.integers(*bounds)
    for kind, bounds in {
        pa.int8(): (-(2**7), 2**7 - 1),
        pa.int16(): (-(2**15), 2**15 - 1),
        pa.int32(): (-(2**31), 2**31 - 1),
        pa.int64(): (-(2**63), 2**63 - 1),
        pa.uint8(): (0, 2**8 - 1),
        pa.uint16(): (0, 2**16 - 1),
        pa.uint32(): (0, 2**32 - 1),
        pa.uint64(): (0, 2**64 - 1),
    }.items()
}
instants = {
    kind: st.integers(-(2**62), 2**62)
    for kind in (
        pa.timestamp("ns"),
        pa.timestamp("us", "Europe/Zurich"),
        pa.timestamp("ns", "UTC"),
        pa.time64("ns"),
        pa.duration("ms"),
    )
} | {pa.date32(): st.integers(-(2**31), 2**31 - 1), pa.timestamp("s"): st.integers(-(2**40), 2**40)}
instants[pa.time64("ns")] = st.integers(0, 86_399_999_999_999)
words = st.text(st.characters(codec="utf-8"), max_size=6)
others = {
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): words,
    pa.large_string(): words,
    pa.string_view(): words,
    pa.binary(): st.binary(max_size=6),
    pa.large_binary(): st.binary(max_size=6),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.decimal128(20, 4): st.decimals(-(10**9), 10**9, places=4),
    pa.decimal256(50, 2): st.decimals(-(10**12), 10**12, places=2),
    pa.list_(pa.uint16()): st.lists(whole[pa.uint16()], max_size=3),
    pa.list_(pa.float32(), 2): st.lists(
        st.floats(width=32, allow_nan=False), min_size=2, max_size=2
    ),
    pa.struct([("a", pa.uint8()), ("b", pa.large_string())]): st.fixed_dictionaries(
        {"a": st.none() | whole[pa.uint8()], "b": st.none() | words}
    ),
    pa.map_(pa.string(), pa.int64()): st.lists(
        st.tuples(words, whole[pa.int64()]), max_size=3, unique_by=lambda pair: pair[0]
    ),
    pa.null(): st.none(),
}


def _array(kind: pa.DataType, values: list[object]) -> pa.Array:
    if kind in instants:
        storage = pa.int32() if kind == pa.date32() else pa.int64()
        return pa.array(values, storage).view(kind)
    return pa.array(values, kind)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.ChunkedArray:
    """A column of any type, with missing values, in one or two chunks."""
    kinds = {**whole, **instants, **others}
    kind = draw(st.sampled_from(list(kinds)))
    values = draw(st.lists(st.none() | kinds[kind], min_size=rows, max_size=rows))
    array = _array(kind, values)
    encodes = kind in whole or kind in (pa.string(), pa.large_string(), pa.timestamp("ns"))
    if encodes and draw(st.booleans()):
        array = as_dictionary(array)
    cut = draw(st.integers(0, rows))
    return pa.chunked_array([array.slice(0, cut), array.slice(cut)], array.type)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of one to four columns of any types, perhaps empty, perhaps with metadata."""
    rows = draw(st.integers(0, 12))
    width = draw(st.integers(1, 4))
    made = pa.table({f"column {n}": draw(columns(rows)) for n in range(width)})
    if draw(st.booleans()):
        made = made.replace_schema_metadata({"origin": "test", "pandas": "{}"})
    return made


def ticks(rows: int, seed: int) -> pa.Table:
    """Rows like those of a market: instants, prices, sizes, a repeating word as a dictionary."""
    random = np.random.default_rng(seed)
    start = np.datetime64(datetime.datetime(2020, 1, 1), "ns")
    return pa.table(
        {
            "time": start + np.cumsum(random.integers(1, 1000, rows)).astype("timedelta64[ns]"),
            "price": np.round(random.normal(100, 1, rows), 2),
            "size": random.integers(0, 1000, rows).astype("uint32"),
            "name": as_dictionary(pa.array(random.choice(["one", "two", "three"], rows))),
            "fee": pa.array(
                [decimal.Decimal(int(value)).scaleb(-2) for value in random.integers(0, 99, rows)],
                pa.decimal128(10, 2),
            ),
        }
    )


def decoded(table: pa.Table) -> pa.Table:
    """Return a table with its dictionary columns as plain ones, to compare what they say."""
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(position).cast(field.type.value_type)
            table = table.set_column(position, field.name, plain)
    return table.combine_chunks()

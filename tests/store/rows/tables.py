"""Random schemas and tables of what rows hold."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

FIXED = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.date32(), pa.date64(),
    pa.time32("ms"), pa.time64("ns"), pa.duration("us"),
]  # fmt: skip
VARIABLE = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
DAY_MS = 86_400_000


def values_of(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Return values of a type as what Arrow takes, boundary values often."""
    types = pa.types
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if "string" in str(kind):
        return st.text(max_size=20)
    if "binary" in str(kind):
        return st.binary(max_size=20)
    if types.is_date64(kind):
        return st.integers(-20_000, 20_000).map(lambda day: day * DAY_MS)
    if types.is_time(kind):
        return st.integers(0, 1000)
    if types.is_unsigned_integer(kind):
        return st.integers(0, 2**kind.bit_width - 1)
    bits = kind.bit_width - 1
    return st.integers(-(2**bits), 2**bits - 1)


def column_of(kind: pa.DataType, values: list[object]) -> pa.Array:
    """Return an array of a type; temporal values are given as their numbers."""
    if pa.types.is_temporal(kind):
        integer = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, integer).view(kind)
    return pa.array(values, kind)


@st.composite
def tables(draw: st.DrawFn, *, variable: bool = True, max_rows: int = 12) -> pa.Table:
    """Draw a table of a few columns, nulls among the values."""
    kinds = draw(st.lists(st.sampled_from(FIXED + (VARIABLE if variable else [])), min_size=1))
    rows = draw(st.integers(0, max_rows))
    columns = {}
    for at, kind in enumerate(kinds[:12]):
        one = st.none() | values_of(kind)
        columns[f"f{at}"] = column_of(kind, draw(st.lists(one, min_size=rows, max_size=rows)))
    return pa.table(columns)

"""Random tables of every stored type, and random ways to cut them into segments.

For property tests of anything that reads a store::

    @given(data=st.data())
    def test_mine(data):
        table = data.draw(tables(index=True))
        cut = data.draw(cut_into_segments(table, index="t"))
        repository = Repository.open("memory://")
        cut.write(repository, "symbol")
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from hypothesis import strategies as st

from tessel.compare import bits
from tessel.lazy import dataclass
from tessel.options import options
from tessel.store.repository import Repository

__all__ = [
    "PLAIN_TYPES",
    "Segmentation",
    "as_dictionary",
    "bits",
    "column_types",
    "columns",
    "cut_into_segments",
    "index_columns",
    "tables",
]

PLAIN_TYPES: tuple[pa.DataType, ...] = (
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(9, 2),
    pa.decimal128(38, 0),
    pa.string(),
    pa.binary(),
    pa.binary(3),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "America/New_York"),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
    pa.duration("us"),
)
"""One of each stored type that has no children."""

_PASSING = 2
"""Rows of each stretch that is written and deleted then."""

_DAY_MS = 86_400_000
_MISSING = ("none", "some", "all")
INDEX_TYPES: tuple[pa.DataType, ...] = (
    pa.timestamp("us"),
    pa.timestamp("ns", "America/New_York"),
    pa.date32(),
    pa.date64(),
    pa.int64(),
    pa.int8(),
    pa.uint32(),
)
"""Types that a time index can have."""


def column_types(*, nested: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Draw a stored column type: plain, dictionary, and (unless not ``nested``) lists, structs."""
    plain = st.sampled_from(PLAIN_TYPES)
    values = st.sampled_from([pa.string(), pa.binary(), pa.int64(), pa.float64(), pa.date32()])
    dictionary = values.map(lambda kind: pa.dictionary(pa.int32(), kind))
    flat = plain | dictionary
    if not nested:
        return flat
    children = st.recursive(
        plain,
        lambda inner: (
            inner.map(pa.list_)
            | st.tuples(inner, st.integers(1, 3)).map(lambda drawn: pa.list_(*drawn))
            | st.lists(inner, max_size=3).map(
                lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
            )
        ),
        max_leaves=3,
    )
    return flat | children


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw a value of a type, not missing, as something ``pa.array`` takes."""
    if pat.is_null(kind):
        return st.none()
    if pat.is_boolean(kind):
        return st.booleans()
    if pat.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        edges = st.sampled_from([info.min, info.max, 0])
        return st.integers(max(info.min, -4), 4) | edges | st.integers(info.min, info.max)
    if pat.is_floating(kind):
        special = st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 101.25])
        return special | st.floats(width=kind.bit_width)
    if pat.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: decimal.Decimal(n).scaleb(-kind.scale, _WIDE))
    if pat.is_string(kind):
        return st.text(max_size=4) | st.sampled_from(_LONG_TEXTS)
    if pat.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pat.is_binary(kind):
        return st.binary(max_size=4) | st.sampled_from([b"\xff" * 70, b"a" * 70, b""])
    if pat.is_time(kind):
        return st.integers(0, 86_399).map(lambda s: datetime.time(s // 3600, s // 60 % 60, s % 60))
    if pat.is_date64(kind):
        return st.integers(-10_000, 30_000).map(lambda day: day * _DAY_MS)
    if pat.is_date32(kind):
        return st.integers(-700_000, 2_900_000)
    if pat.is_temporal(kind):
        return st.integers(-(2**30), 2**30)
    if pat.is_dictionary(kind):
        return _values(kind.value_type)
    return _nested_values(kind)


_WIDE = decimal.Context(prec=50)
_LONG_TEXTS = ["é" * 40, "z" * 70, "\U0010ffff" * 20, "a" * 63 + "é", "", "\0"]


def _nested_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pat.is_fixed_size_list(kind):
        size = kind.list_size
        return st.lists(_optional(kind.value_type), min_size=size, max_size=size)
    if pat.is_list(kind):
        return st.lists(_optional(kind.value_type), max_size=3)
    fields = {kind.field(i).name: _optional(kind.field(i).type) for i in range(kind.num_fields)}
    return st.fixed_dictionaries(fields)


def _optional(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.none() | _values(kind)


def as_dictionary(values: pa.Array, kind: pa.DataType | None = None) -> pa.DictionaryArray:
    """Return values as a dictionary whose entries are not in the order of their first rows.

    Categories have an order of their own. ``dictionary_encode`` numbers them as rows come, and code
    that takes the number of an entry for that of a row looks right.

    Parameters
    ----------
    values
        Plain values, with nulls or without.
    kind
        The type of the result; int32 codes by default.
    """
    encoded = values.dictionary_encode()
    entries = encoded.dictionary
    codes = pc.subtract(len(entries) - 1, encoded.indices).cast(pa.int32())
    single = [entries[at : at + 1] for at in reversed(range(len(entries)))]  # views cannot be taken
    turned = pa.concat_arrays(single or [entries])
    made = pa.DictionaryArray.from_arrays(codes, turned)
    return made if kind is None else made.cast(kind)


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    """Draw a column of a type: without missing values, with some, or of nothing else."""
    missing = draw(st.sampled_from(_MISSING))
    choices = {"none": _values(kind), "some": _optional(kind), "all": st.none()}
    values = draw(st.lists(choices[missing], min_size=rows, max_size=rows))
    if pat.is_dictionary(kind):
        return as_dictionary(pa.array(values, kind.value_type))
    if pat.is_date64(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


@st.composite
def index_columns(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    """Draw a time index of a type: never going back, with equal times, nothing missing."""
    steps = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    values = np.cumsum(np.array(steps, dtype=np.int64)) if rows else np.array([], np.int64)
    if pat.is_integer(kind) and kind.bit_width == 8:
        return pa.array(values, pa.int64()).cast(kind)
    start = draw(st.integers(0, 10**6))
    scale = _DAY_MS if pat.is_date64(kind) else 1
    narrow = pa.int32() if pat.is_date32(kind) else pa.int64()
    return pa.array((values + start) * scale).cast(narrow).cast(kind)


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    index: bool = False,
    kinds: st.SearchStrategy[pa.DataType] | None = None,
    max_rows: int = 30,
    max_columns: int = 5,
) -> pa.Table:
    """Draw a table as a store returns it: stored types, one column at least.

    Parameters
    ----------
    draw
        Given by hypothesis.
    index
        Whether a column ``"t"``, at a random place, is fit to be the time index.
    kinds
        The types of the other columns; all by default.
    max_rows, max_columns
        Bounds of the size.
    """
    rows = draw(st.integers(0, max_rows))
    types = draw(
        st.lists(
            column_types() if kinds is None else kinds,
            min_size=0 if index else 1,
            max_size=max_columns,
        )
    )
    made = [(f"c{at}", draw(columns(kind, rows))) for at, kind in enumerate(types)]
    if index:
        kind = draw(st.sampled_from(INDEX_TYPES))
        made.insert(draw(st.integers(0, len(made))), ("t", draw(index_columns(kind, rows))))
    return pa.table([array for _, array in made], names=[name for name, _ in made])


@dataclass(frozen=True)
class Segmentation:
    """A way to write a table: in which parts, cut into segments of which size.

    Attributes
    ----------
    parts
        The first is written, the others are appended; together they are the table.
    index
        The time index, or None.
    segment_rows, segment_columns
        The largest segment.
    passing
        Rows that are written too and deleted then, which leaves segments that are cut: for each
        stretch of them the part, the row in front of it, and the row that they all are copies of,
        at the time of the one in front.
    """

    parts: Sequence[pa.Table]
    index: str | None
    segment_rows: int
    segment_columns: int
    passing: Sequence[tuple[int, int, int]] = ()

    @property
    def table(self) -> pa.Table:
        """The whole table."""
        return pa.concat_tables(self.parts)

    def write(self, repository: Repository, symbol: str) -> int:
        """Write the table as a symbol, cut like this; return the last version."""
        begins = list(itertools.accumulate((part.num_rows for part in self.parts), initial=0))
        parts, deleted = list(self.parts), []
        for part, front, source in sorted(self.passing, reverse=True):
            parts[part] = self._with_passing(parts[part], front, source)
            deleted.append(begins[part] + front + 1)
        with options(segment_rows=self.segment_rows, segment_columns=self.segment_columns):
            version = repository.write(symbol, parts[0], index=self.index)
            for rows in parts[1:]:
                version = repository.append(symbol, rows)
            for row in reversed(deleted):  # those before it are gone
                version = repository.delete_rows(symbol, rows=(row, row + _PASSING))
        return version

    def _with_passing(self, table: pa.Table, front: int, source: int) -> pa.Table:
        copied = table.take([source] * _PASSING)
        if self.index is not None:
            place = table.schema.get_field_index(self.index)
            times = table.column(place).take([front] * _PASSING)
            copied = copied.set_column(place, table.schema.field(place), times)
        return pa.concat_tables([table.slice(0, front + 1), copied, table.slice(front + 1)])


@st.composite
def cut_into_segments(
    draw: st.DrawFn, table: pa.Table, *, index: str | None = None, max_parts: int = 3
) -> Segmentation:
    """Draw a way to cut a table into segments by rows and by columns."""
    cuts = draw(st.lists(st.integers(0, table.num_rows), max_size=max_parts - 1).map(sorted))
    bounds = [0, *cuts, table.num_rows]
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    segment_rows = draw(st.integers(1, max(1, table.num_rows)))
    segment_columns = draw(st.integers(1, table.num_columns))
    passing: dict[tuple[int, int], int] = {}
    for _ in range(draw(st.sampled_from([0, 0, 1, 3])) if table.num_rows else 0):
        part = draw(st.sampled_from([at for at, rows in enumerate(parts) if rows.num_rows]))
        row = st.integers(0, parts[part].num_rows - 1)
        passing[part, draw(row)] = draw(row)
    edits = [(part, front, source) for (part, front), source in passing.items()]
    return Segmentation(parts, index, segment_rows, segment_columns, edits)

"""Groups and the order of keys against plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.clauses.grouped import grouping
from tessel.clauses.grouped.grouping import (
    check_key_type,
    group_codes,
    missing_rows,
    order_of_keys,
)
from tessel.clauses.grouped.numbered_keys import numbered_keys, order_of_numbers
from tessel.clauses.values import different_values, normalised, plain, plain_type
from tessel.errors import InvalidInputError, UnsupportedTypeError
from tests.kernels.forced import LEVELS, in_form
from tests.strategies.tables import as_dictionary

KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "near uint64": (pa.uint64(), st.integers(2**63 - 3, 2**63 + 3)),
    "float32": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    "float64": (pa.float64(), st.sampled_from([0.0, -0.0, 0.1, math.nan, -math.inf])),
    "text": (pa.string(), st.sampled_from(["", "a", "ab", "é", "z", "\U0001f600", "\uffff"])),
    "large text": (pa.large_string(), st.sampled_from(["", "x", "y"])),
    "text view": (pa.string_view(), st.sampled_from(["", "x", "longer than twelve bytes"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff", b"a"])),
    "fixed binary": (pa.binary(2), st.sampled_from([b"aa", b"ab", b"\xff\x00"])),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("ns", "UTC"), st.integers(-(2**62), 2**62)),
    "duration": (pa.duration("ms"), st.integers(-5, 5)),
    "decimal": (pa.decimal128(10, 2), st.integers(-3, 3).map(lambda n: decimal.Decimal(n) / 4)),
    "null": (pa.null(), st.none()),
}


@st.composite
def key_columns(draw: st.DrawFn) -> list[pa.Array | pa.ChunkedArray]:
    rows = draw(st.integers(0, 12))
    columns = []
    for name in draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3)):
        kind, values = KEYS[name]
        row_values = st.lists(st.none() | values, min_size=rows, max_size=rows)
        array = pa.array(draw(row_values), kind, from_pandas=False)
        columns.append(represented(array, draw(st.sampled_from(["plain", "cut", "dictionary"]))))
    return columns


def represented(array: pa.Array, form: str) -> pa.Array | pa.ChunkedArray:
    """The same column otherwise laid out: chunks that are slices, or a dictionary a chunk."""
    if form == "plain":
        return array
    half = len(array) // 2
    padded = pa.concat_arrays([array.slice(0, half), array, array.slice(half)])
    chunks = [padded.slice(half, half), padded.slice(2 * half, len(array) - half)]
    if form == "dictionary" and not pa.types.is_null(array.type):
        chunks = [as_dictionary(chunk) for chunk in chunks]
    return pa.chunked_array(chunks)


def key_of(value: Any) -> Any:
    return None if value is None or value != value else value


def rows_of(columns: list[Any]) -> list[tuple[Any, ...]]:
    arrays = [plain(column) for column in columns]
    as_numbers = [
        array.view(pa.int64()) if array.type.id in _COUNTED else array for array in arrays
    ]
    return [
        tuple(map(key_of, row))
        for row in zip(*(array.to_pylist() for array in as_numbers), strict=True)
    ]


_COUNTED = {pa.timestamp("ns").id, pa.duration("ms").id}


@given(key_columns(), st.booleans(), st.sampled_from(LEVELS), st.sampled_from([0, 1 << 16]))
def test_groups_are_numbered_by_first_appearance(
    columns: list[Any], drop: bool, level: str, cells: int
) -> None:
    rows = rows_of(columns)
    kept = [row for row, key in enumerate(rows) if not (drop and None in key)]
    order: dict[tuple[Any, ...], int] = {}
    first = []
    for row in kept:
        if rows[row] not in order:
            order[rows[row]] = len(order)
            first.append(row)
    with in_form(level), pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_CELLS", cells)
        patch.setattr(grouping, "_CELLS_A_ROW", cells)
        patch.setattr(grouping, "_TABLE_CELLS_A_ROW", cells)
        found = group_codes(columns, drop_missing=drop)
    assert found.codes.dtype == np.int64
    assert found.codes.tolist() == [order[rows[row]] for row in kept]
    assert found.first_row.tolist() == first
    assert (list(range(len(rows))) if found.rows is None else found.rows.tolist()) == kept
    assert [array.type for array in found.keys] == [plain_type(c.type) for c in columns]
    assert rows_of(found.keys) == list(order)
    assert len(found) == len(order)
    for array in found.keys:
        array.validate(full=True)
        if pa.types.is_floating(array.type):
            assert not any(math.copysign(1, v) < 0 for v in array.to_pylist() if v == 0)
            assert not any(v != v for v in array.to_pylist() if v is not None)


@given(key_columns())
def test_missing_rows(columns: list[Any]) -> None:
    assert missing_rows(columns).tolist() == [None in row for row in rows_of(columns)]


@given(key_columns())
def test_order_of_keys(columns: list[Any]) -> None:
    rows = rows_of(columns)

    def place(row: int) -> list[tuple[bool, Any]]:
        # Text by code point is text as UTF-8 by byte; Python's own order is by code point too.
        return [(value is None, 0 if value is None else value) for value in rows[row]]

    assert order_of_keys(columns).tolist() == sorted(range(len(rows)), key=place)


@given(key_columns())
def test_the_order_of_numbers_is_that_of_their_keys(columns: list[Any]) -> None:
    keys = group_codes(columns, drop_missing=False).keys
    assert order_of_numbers(*numbered_keys(keys)).tolist() == order_of_keys(keys).tolist()


def test_text_is_ordered_by_code_point() -> None:
    # UTF-16 order would put the emoji before U+FFFF.
    texts = ["\U0001f600", "\uffff", "b", "a", None, "B", "é"]
    order = order_of_keys([pa.array(texts)]).tolist()
    assert [texts[row] for row in order] == ["B", "a", "b", "é", "\uffff", "\U0001f600", None]


@pytest.mark.parametrize("level", LEVELS)
def test_wide_key_combinations_do_not_overflow(level: str) -> None:
    generator = np.random.default_rng(3)
    columns = [
        pa.array(generator.integers(-(2**63), 2**63 - 1, 300).repeat(2)[generator.permutation(600)])
        for _ in range(9)
    ]
    with in_form(level):
        found = group_codes(columns, drop_missing=True)
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    assert found.codes.tolist() == [numbers.setdefault(row, len(numbers)) for row in rows]


@pytest.mark.parametrize("cells", [0, 1 << 16])
def test_tables_and_hashing_agree(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_CELLS", cells)
    monkeypatch.setattr(grouping, "_CELLS_A_ROW", 0 if cells == 0 else 2)
    monkeypatch.setattr(grouping, "_TABLE_CELLS_A_ROW", 0 if cells == 0 else 16)
    generator = np.random.default_rng(5)
    first = generator.integers(-40, 40, 200_000)
    second = generator.integers(0, 30, 200_000)
    absent = generator.random(200_000) < 0.1
    columns = [pa.array(first, mask=absent), pa.array(second)]
    found = group_codes(columns, drop_missing=True)
    pairs = (first * 100 + second)[~absent]
    distinct, start, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(start))
    assert (found.codes == place[inverse]).all()
    assert (found.first_row == np.flatnonzero(~absent)[np.sort(start)]).all()
    assert len(found) == len(distinct)


def test_dictionaries_with_repeats_nulls_and_both_zeros() -> None:
    entries = pa.array([0.0, None, -0.0, math.nan, 1.0, 1.0])
    column = pa.DictionaryArray.from_arrays(pa.array([4, 2, 0, 1, 3, None, 5], pa.int8()), entries)
    found = group_codes([column], drop_missing=False)
    assert found.codes.tolist() == [0, 1, 1, 2, 2, 2, 0]
    assert found.keys[0].to_pylist() == [1.0, 0.0, None]


def test_normalised_floats() -> None:
    found = normalised(pa.chunked_array([[-0.0, math.nan], [None, 1.0]]))
    assert found.to_pylist() == [0.0, None, None, 1.0]
    assert math.copysign(1, found[0].as_py()) == 1


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.run_end_encoded(pa.int32(), pa.int8()),
    ],
    ids=str,
)
def test_types_that_cannot_be_keys(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match="column 'where' of type"):
        check_key_type("where", kind)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_types_that_can_be_keys(name: str) -> None:
    kind = KEYS[name][0]
    check_key_type("where", kind)
    if not pa.types.is_null(kind):
        check_key_type("where", pa.dictionary(pa.int32(), kind))


def test_no_keys_or_uneven_keys_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no key columns"):
        group_codes([], drop_missing=True)
    with pytest.raises(InvalidInputError, match="lengths"):
        group_codes([pa.array([1]), pa.array([1, 2])], drop_missing=True)


def test_dates_keep_their_type() -> None:
    day = dt.date(2013, 3, 31)
    found = group_codes([pa.array([day, day])], drop_missing=True)
    assert found.keys[0].equals(pa.array([day]))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["text", "double", "int", "flag", "time", "decimal", "uint"])
def test_many_keys_are_in_the_order_of_arrow(kind: str, count: int) -> None:
    random = np.random.default_rng(3)
    drawn = random.integers(-2_000, 2_000, 20_000)
    mask = random.random(20_000) < 0.2
    column = {
        "text": pa.array([f"é{number}" for number in drawn], mask=mask),
        "double": pa.array(drawn * 0.5, mask=mask),
        "int": pa.array(drawn, mask=mask),
        "flag": pa.array(drawn > 0, mask=mask),
        "time": pa.array(drawn, mask=mask).cast(pa.timestamp("us")),
        "decimal": pa.array(drawn, mask=mask).cast(pa.decimal128(22, 2)),
        "uint": pa.array(drawn.astype(np.uint64), mask=mask),
    }[kind]
    keys = (
        [column, pa.array(random.integers(0, 9, 20_000))][-count:][::-1] if count > 1 else [column]
    )
    names = [str(at) for at in range(len(keys))]
    wanted = pc.sort_indices(
        pa.table(keys, names=names), sort_keys=[(name, "ascending") for name in names]
    )
    assert order_of_keys(keys).tolist() == wanted.to_pylist()


@pytest.mark.parametrize("greatest", [decimal.Decimal(100), decimal.Decimal(10) ** 30])
def test_decimals_of_64_bits_and_of_more(greatest: decimal.Decimal) -> None:
    numbers = [3, -1, None, 3, 0, -1, None, greatest]
    array = pa.array(numbers, pa.decimal128(38, 2))
    found = group_codes([array], drop_missing=False)
    assert found.codes.tolist() == [0, 1, 2, 0, 3, 1, 2, 4]
    assert found.keys[0].to_pylist() == [3, -1, None, 0, greatest]
    codes, entries = different_values(array.drop_null())
    assert codes.tolist() == [0, 1, 0, 2, 1, 3]
    assert entries.to_pylist() == [3, -1, 0, greatest]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_of_any_width(kind: Any) -> None:
    array = pa.array(np.array([0.5, -0.0, np.nan, 0.5, 0.0, np.inf], kind))
    found = group_codes([array], drop_missing=False)
    assert found.codes.tolist() == [0, 1, 2, 0, 1, 3]
    assert found.keys[0].to_pylist() == [0.5, 0.0, None, math.inf]

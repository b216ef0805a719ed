"""Arrow from numpy and numpy from Arrow: what Arrow's own functions give."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tessel
from tessel.arrays import arrow_array, arrow_scalar, empty_table, fill_null, numpy_array

KINDS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()),
    *(pa.binary(2), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.date32(), pa.duration("s")),
    *(pa.decimal128(9, 2), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int64())),
]
SAME = (
    st.none(),
    st.booleans(),
    st.integers(-(1 << 65), 1 << 65),
    st.integers(-200, 200),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
)
PLAIN = st.one_of(*SAME)


def outcome(make: Any) -> Any:
    """Return a type and its values, or the type of the error."""
    try:
        found = make()
        if isinstance(found, pa.Scalar):
            return str(found.type), repr(found.as_py())
        found.validate(full=True)
        return str(found.type), repr(found.to_pylist())
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        return type(error)


@example([None, -0.0], None)
@example([-0.0, None], pa.float32())
@given(
    st.one_of(*(st.lists(st.one_of(st.none(), each), max_size=5) for each in (PLAIN, *SAME))),
    st.one_of(st.none(), st.sampled_from(KINDS)),
)
def test_lists_become_what_arrow_makes_of_them(values: list[Any], kind: pa.DataType | None) -> None:
    assert outcome(lambda: arrow_array(values, kind)) == outcome(lambda: pa.array(values, kind))
    assert outcome(lambda: arrow_array(tuple(values), kind)) == outcome(
        lambda: pa.array(tuple(values), kind)
    )


@example(3.5e38, pa.float32())
@given(PLAIN, st.sampled_from(KINDS))
def test_a_scalar_is_what_arrow_makes_of_it(value: Any, kind: pa.DataType) -> None:
    assert outcome(lambda: arrow_scalar(value, kind)) == outcome(lambda: pa.scalar(value, kind))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?"])
@pytest.mark.parametrize("step", [1, 2, -1])
@pytest.mark.parametrize("masked", [False, True])
def test_numbers_go_there_and_back(dtype: str, step: int, masked: bool) -> None:
    values = np.array([0, 1, 1, 0, 1, 7, 100, 0, 1, 1, 0], dtype)[::step]
    mask = np.arange(len(values)) % 3 == 1 if masked else None
    made, expected = arrow_array(values, mask=mask), pa.array(values, mask=mask)
    made.validate(full=True)
    assert made.equals(expected)
    for rows in (made, made.slice(3), made.slice(3, 4), made.slice(2, 0)):
        for each in (rows, pa.chunked_array([rows, rows]), pa.chunked_array([], rows.type)):
            found = numpy_array(each)
            theirs = each.to_numpy() if isinstance(each, pa.ChunkedArray) else each.to_numpy(False)
            np.testing.assert_array_equal(found, theirs)
            assert found.dtype == theirs.dtype


def test_what_a_masked_array_masks_is_null() -> None:
    masked = np.ma.array([1, 2], mask=[False, True])
    assert arrow_array(masked, pa.int32()).to_pylist() == [1, None]
    store = tessel.open("memory://")
    store.write("a", {"k": [1, 2]})
    store.add_column("a", "x", masked)
    assert store.read("a").to_arrow()["x"].to_pylist() == [1, None]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.int32(), pa.duration("us"), pa.float64()])
def test_numbers_are_read_as_a_type(kind: pa.DataType) -> None:
    values = np.arange(5)
    assert arrow_array(values, kind).equals(pa.array(values, kind))


@pytest.mark.parametrize("kind", [pa.timestamp("ns", "UTC"), pa.duration("s"), pa.timestamp("ms")])
def test_times_become_numpy_s(kind: pa.DataType) -> None:
    made = pa.array([0, 1, -5, 1 << 40], kind)
    for each in (made, made.slice(2), pa.chunked_array([made, made]), pa.chunked_array([], kind)):
        theirs = each.to_numpy() if isinstance(each, pa.ChunkedArray) else each.to_numpy(False)
        np.testing.assert_array_equal(numpy_array(each), theirs)
        assert numpy_array(each).dtype == theirs.dtype


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_table_without_rows(kind: pa.DataType) -> None:
    schema = pa.schema([("a", kind), pa.field("b", pa.int64(), metadata={"c": "d"})])
    assert empty_table(schema).equals(schema.empty_table(), check_metadata=True)


def test_nulls_are_filled() -> None:
    assert fill_null(pa.array([1, None], pa.int8()), 3).to_pylist() == [1, 3]
    assert fill_null(pa.array([0.5, None]), 0).to_pylist() == [0.5, 0.0]
    assert fill_null(pa.chunked_array([[True, None]]), False).to_pylist() == [True, False]


OTHERS = {"arrays.py", "compare.py", "plotting.py", "cli", "spark_exec", "testing"}
"""What makes and reads arrays here, and what no query needs."""
UNKNOWN = {
    ("scalars.py", "scalar"): 1,
    ("quantile.py", "array"): 1,
    ("frames.py", "array"): 1,
    ("pandas_frames.py", "array"): 1,
}
"""Values of any type, of which Arrow says the type; NaN that becomes null."""


def test_queries_make_arrays_by_buffers() -> None:
    found: dict[tuple[str, str], int] = {}
    root = Path(tessel.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in OTHERS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name = node.func.attr
            of_arrow = name in ("array", "scalar") and ast.unparse(node.func.value) == "pa"
            if of_arrow or name in ("to_numpy", "empty_table") or _takes_python(node):
                found[path.name, name] = found.get((path.name, name), 0) + 1
    assert found == UNKNOWN


def _takes_python(call: ast.Call) -> bool:
    """Return whether a function of Arrow is given a value of Python that it makes a scalar of."""
    assert isinstance(call.func, ast.Attribute)
    name = call.func.attr.removesuffix("_") if call.func.attr in ("and_", "or_") else call.func.attr
    if ast.unparse(call.func.value) != "pc" or name not in pc.list_functions():
        return False
    arity = pc.get_function(name).arity
    values = call.args if arity is Ellipsis else call.args[:arity]
    return any(
        isinstance(each, ast.Constant | ast.UnaryOp)
        or (isinstance(each, ast.Name) and each.id.isupper())
        for each in values
    )


@pytest.mark.parametrize(
    ("call", "is_one"),
    [
        ("pc.greater(lengths, 1)", True),
        ("pc.and_(pc.less(a, -1), b)", False),
        ("pc.less(a, -1)", True),
        ("pc.less_equal(size, _MOST)", True),
        ("pc.binary_join_element_wise(text, ends, '')", True),
        ("pc.starts_with(text, '0')", False),
        ("pc.is_in(a, value_set=b)", False),
        ("np.greater(a, 1)", False),
    ],
)
def test_values_of_python_are_seen(call: str, is_one: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert _takes_python(node) == is_one

"""Arrow from numpy and numpy from Arrow, by buffers.

``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas at their first call in a process, to know
its types: a quarter of a second, more than the queries of many a script. What holds numbers, truths
or text needs none of that. Whatever else is given goes to those functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = [
    "arrow_array",
    "arrow_scalar",
    "concat_tables",
    "different",
    "empty_table",
    "fill_null",
    "is_number",
    "numpy_array",
    "one_array",
    "places",
    "scalar_text",
    "table_of_rows",
    "unified",
]

_TYPES: dict[np.dtype[Any], pa.DataType] = {
    np.dtype(np.int8): pa.int8(),
    np.dtype(np.int16): pa.int16(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.uint8): pa.uint8(),
    np.dtype(np.uint16): pa.uint16(),
    np.dtype(np.uint32): pa.uint32(),
    np.dtype(np.uint64): pa.uint64(),
    np.dtype(np.float32): pa.float32(),
    np.dtype(np.float64): pa.float64(),
    np.dtype(np.bool_): pa.bool_(),
}
_DTYPES = {kind: dtype for dtype, kind in _TYPES.items()}


def arrow_array(
    values: Any,
    type: pa.DataType | None = None,  # noqa: A002  # its name in Arrow
    *,
    mask: Any = None,
) -> pa.Array:
    """Return values as an Arrow array; numbers of a contiguous numpy array are shared.

    Parameters
    ----------
    values
        Of shape ``(rows,)`` where it is a numpy array; what a masked one masks is null.
    type
        The type of the result; by default that of the values.
    mask
        Bool, shape ``(rows,)``: true where the result is null.
    """
    if isinstance(values, list | tuple) and mask is None:
        return _of_list(values, type)
    plain = isinstance(values, np.ndarray) and not hasattr(values, "mask")
    kind = _TYPES.get(values.dtype) if plain else None
    if kind is None or values.ndim != 1:
        return pa.array(values, type, mask=mask)
    valid, nulls = None, 0
    if mask is not None:
        nulls = int(np.count_nonzero(mask))
        valid = (
            pa.py_buffer(np.packbits(~np.asarray(mask, bool), bitorder="little")) if nulls else None
        )
    held = np.packbits(values, bitorder="little") if kind == pa.bool_() else values
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(held))]
    made = pa.Array.from_buffers(kind, len(values), buffers, nulls)
    return made if type is None or type == kind else made.cast(type)


def _of_list(values: list[Any] | tuple[Any, ...], kind: pa.DataType | None) -> pa.Array:
    """Return numbers, truths, text or bytes, with None for nulls, as an Arrow array."""
    given = set(map(type, values))
    if given <= {None.__class__}:
        return pa.nulls(len(values), kind)
    empty = None.__class__ in given
    (held, *others) = given - {None.__class__}
    if kind is None and not others:
        kind = _OF_PYTHON.get(held)
    missing = np.array([each is None for each in values]) if empty else None
    if not others and held is int and _is_counted(kind):
        return _of_list(values, pa.int64()).view(kind)
    dtype = _DTYPES.get(kind)
    if not others and dtype is not None and held is _PYTHON[dtype.kind]:
        # A double past the largest single is infinite, as for Arrow; numpy would warn of it.
        with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
            numbers = [0 if each is None else each for each in values] if empty else values
            return arrow_array(np.array(numbers, dtype), mask=missing)
    if not others and (held, kind) in ((str, pa.string()), (bytes, pa.binary())):
        texts = [(each or held()) for each in values]
        raw = [each.encode() for each in texts] if held is str else texts
        ends = np.cumsum([0, *map(len, raw)])
        if ends[-1] < 1 << 31:
            valid = None
            if missing is not None:
                valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
            buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(raw))]
            return pa.Array.from_buffers(kind, len(raw), buffers)
    width = kind.byte_width if kind and pa.types.is_fixed_size_binary(kind) else None
    if given == {bytes} and all(len(each) == width for each in values):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(b"".join(values))])
    return pa.array(values, kind)


_PYTHON = {"i": int, "u": int, "f": float, "b": bool}
_OF_PYTHON: dict[type, pa.DataType] = {
    **{bool: pa.bool_(), int: pa.int64(), float: pa.float64()},
    **{str: pa.string(), bytes: pa.binary()},
}


def _is_counted(kind: pa.DataType | None) -> bool:
    """Return whether a type counts units of time in 64 bits: instants and durations."""
    return kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_duration(kind))


def arrow_scalar(value: Any, type: pa.DataType | None = None) -> pa.Scalar:  # noqa: A002
    """Return one value as an Arrow scalar, by default of its type."""
    return arrow_array([value], type)[0]


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is of integers, floats or decimals."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def scalar_text(value: pa.Scalar) -> str:
    """Return a value as text, as Arrow tells it where Python has no such date or instant."""
    try:
        return str(value)
    except (OverflowError, ValueError):
        return str(arrow_array([value], value.type).cast(pa.string())[0])


def numpy_array(values: Any) -> NDArray[Any]:
    """Return what ``to_numpy(zero_copy_only=False)`` does of an Arrow array or chunked array."""
    kind = values.type
    dtype = _DTYPES.get(kind)
    if dtype is None and _is_counted(kind):
        dtype = np.dtype(f"{'M' if pa.types.is_timestamp(kind) else 'm'}8[{kind.unit}]")
    if dtype is None or values.null_count:
        found: NDArray[Any] = (
            values.to_numpy()
            if isinstance(values, pa.ChunkedArray)
            else values.to_numpy(zero_copy_only=False)
        )
        return found
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            return np.concatenate([np.empty(0, dtype), *map(numpy_array, values.chunks)])
        values = values.chunk(0)
    buffer, count, first = values.buffers()[1], len(values), values.offset
    if buffer is None:
        return np.empty(0, dtype)
    if dtype.kind == "b":
        bits = np.frombuffer(buffer, np.uint8)
        return np.unpackbits(bits, count=first + count, bitorder="little")[first:].view(np.bool_)
    return np.frombuffer(buffer, dtype, count=count, offset=first * dtype.itemsize)


def places(rows: NDArray[np.int64]) -> pa.Array:
    """Return rows as Arrow takes them fastest: by 32 bits in three quarters of the time."""
    return arrow_array(rows.astype(np.int32) if rows.max(initial=0) >> 31 == 0 else rows)


def one_array(column: Any) -> Any:
    """Return an array or chunked array as one array, which copies nothing of a single chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return unified(column).combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def different(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values of integers, ascending; ``np.unique`` imports ``numpy.ma``."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def fill_null(values: Any, filler: Any) -> Any:
    """Return an Arrow array, chunked array or scalar with a value of its type in place of nulls."""
    if pa.types.is_floating(values.type):
        filler = float(filler)
    return pc.fill_null(values, arrow_scalar(filler, values.type))


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table of a schema without rows."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def table_of_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return a table of rows, each a value for each field; pandas is not imported for it."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    made = [arrow_array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(made, schema=schema)


def concat_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """Return what Arrow's function of this name does, each column as :func:`unified` gives it."""
    table = pa.concat_tables(tables)
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field, unified(table.column(at)))
    return table


def unified(column: Any) -> Any:
    """Return a column, with one dictionary for all chunks where they are codes of floats.

    Arrow's ``take`` and ``combine_chunks`` join dictionaries that differ, and give 0.0 for -0.0.
    """
    kind = column.type
    if not isinstance(column, pa.ChunkedArray) or not pa.types.is_dictionary(kind):
        return column
    if not pa.types.is_floating(kind.value_type) or any(
        chunk.dictionary.null_count for chunk in column.chunks
    ):
        return column  # of which Arrow makes no one dictionary
    return column.unify_dictionaries()

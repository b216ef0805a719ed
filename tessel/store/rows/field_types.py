"""What a field of a row can be: its bytes, its numpy view, and its values in Python."""

from __future__ import annotations

import datetime as dt
import operator
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.errors import InvalidInputError, UnsupportedTypeError
from tessel.expression.scalars import scalar_of
from tessel.lazy import dataclass

_TEMPORAL = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class FieldType:
    """How a type lies in a row.

    Attributes
    ----------
    arrow
        The type.
    view
        numpy's format of the bytes in little endian: ``<i8``, ``<M8[ns]``; for text and bytes the
        pair of offset and length, two ``<u4``.
    code
        The letter of :mod:`struct`; empty for text and bytes.
    size, alignment
        Bytes, and the multiple at which compiled programs put them.
    getter
        The typed getter that reads it: ``i64``, ``f64``, ``str``.
    """

    arrow: pa.DataType
    view: str
    code: str
    size: int
    alignment: int
    getter: str

    @property
    def is_variable(self) -> bool:
        """Whether the values lie outside the row's fixed part."""
        return not self.code

    def stored(self, value: Any, name: str) -> Any:
        """Return what is stored for a Python value: an integer, a float, a bool, or bytes.

        Raises
        ------
        InvalidInputError
            For a value of another type, or one that the type cannot hold without loss.
        """
        try:
            return _to_stored(self, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"field {name!r} of type {self.arrow} takes no {value!r}",
                hint=_EXPECTED.get(self.getter, "give a whole number of the type's range"),
                field=name,
                type=str(self.arrow),
                detail=str(error) or None,
            ) from error

    def shown(self, stored: Any) -> Any:
        """Return the Python value of what is stored, without loss.

        Timestamps and dates are ``numpy.datetime64``, durations and times of day ``timedelta64``,
        of their unit: Python's own do not hold all that is stored.
        """
        made = _SHOWN.get(self.arrow.id)
        if made is not None:
            return made(stored, _UNITS.get(self.arrow.id) or self.arrow.unit)
        if self.getter == "bool":
            return bool(stored)
        if self.getter == "str":
            return str(stored, "utf-8")
        return bytes(stored) if self.getter == "bytes" else stored


_EXPECTED = {
    "bool": "give True, False or None",
    "f32": "give a number that 32 bits can hold, or None",
    "f64": "give a number or None",
    "str": "give text or None",
    "bytes": "give bytes or None",
}
_NUMBERS: dict[str, tuple[str, str, str]] = {
    "int8": ("<i1", "b", "i8"),
    "int16": ("<i2", "h", "i16"),
    "int32": ("<i4", "i", "i32"),
    "int64": ("<i8", "q", "i64"),
    "uint8": ("<u1", "B", "u8"),
    "uint16": ("<u2", "H", "u16"),
    "uint32": ("<u4", "I", "u32"),
    "uint64": ("<u8", "Q", "u64"),
    "float": ("<f4", "f", "f32"),
    "double": ("<f8", "d", "f64"),
    "bool": ("|u1", "B", "bool"),
}


def field_type(name: str, data_type: pa.DataType) -> FieldType:
    """Return how a field of a type lies in a row.

    Raises UnsupportedTypeError for a type that rows do not hold, nested ones among them.
    """
    types = pa.types
    if str(data_type) in _NUMBERS:
        view, code, getter = _NUMBERS[str(data_type)]
    elif types.is_timestamp(data_type) or types.is_duration(data_type):
        letter = "M" if types.is_timestamp(data_type) else "m"
        view, code, getter = f"<{letter}8[{data_type.unit}]", "q", "i64"
    elif types.is_date32(data_type) or types.is_time32(data_type):
        view, code, getter = "<i4", "i", "i32"
    elif types.is_date64(data_type) or types.is_time64(data_type):
        view, code, getter = "<i8", "q", "i64"
    elif types.is_fixed_size_binary(data_type) and data_type.byte_width:
        width = data_type.byte_width
        return FieldType(data_type, f"|V{width}", f"{width}s", width, 1, "bytes")
    elif types.is_string(data_type) or types.is_large_string(data_type):
        return FieldType(data_type, "<u4", "", 8, 4, "str")
    elif types.is_binary(data_type) or types.is_large_binary(data_type):
        return FieldType(data_type, "<u4", "", 8, 4, "bytes")
    else:
        raise UnsupportedTypeError(
            f"field {name!r} is {data_type}, which rows do not hold",
            hint="rows hold bool, integers, float32, float64, timestamps, dates, times, durations, "
            "text and bytes; write nested and decimal columns as tables",
            field=name,
            type=str(data_type),
        )
    size = np.dtype(view).itemsize
    return FieldType(data_type, view, code, size, size, getter)


# --- values ---------------------------------------------------------------------------------------


def _to_stored(kind: FieldType, value: Any) -> Any:
    data_type = kind.arrow
    if kind.getter == "bool":
        if isinstance(value, bool | np.bool_):
            return bool(value)
        raise TypeError(f"a {type(value).__name__} is no bool")
    if kind.getter in ("str", "bytes"):
        return _to_bytes(kind, value)
    if kind.getter in ("f32", "f64"):
        if isinstance(value, bool | str | bytes):
            raise TypeError(f"a {type(value).__name__} is no number")
        number = float(value)
        if kind.getter == "f32":
            struct.pack("<f", number)  # raises where 32 bits cannot hold it
        return number
    if pa.types.is_temporal(data_type) and isinstance(value, _TEMPORAL):
        found = scalar_of(value, data_type)
        if not found.is_valid:
            raise ValueError("it is missing")
        return found.value
    if isinstance(value, bool | np.bool_):
        raise TypeError("a bool is no number")
    number = operator.index(value)
    limits = np.iinfo(np.dtype(kind.view.replace("M", "i").replace("m", "i").split("[")[0]))
    if not limits.min <= number <= limits.max:
        raise OverflowError(f"it lies outside [{limits.min}, {limits.max}]")
    return number


def _to_bytes(kind: FieldType, value: Any) -> bytes:
    if kind.getter == "str":
        if not isinstance(value, str):
            raise TypeError(f"a {type(value).__name__} is no text")
        return value.encode()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a {type(value).__name__} is not bytes")
    data = bytes(value)
    if kind.code and len(data) != kind.size:
        raise ValueError(f"it has {len(data)} bytes, not {kind.size}")
    return data


_UNITS = {pa.lib.Type_DATE32: "D", pa.lib.Type_DATE64: "ms"}
_SHOWN: dict[int, Any] = {
    **dict.fromkeys((pa.lib.Type_TIMESTAMP, *_UNITS), np.datetime64),
    pa.lib.Type_DURATION: np.timedelta64,
    pa.lib.Type_TIME32: np.timedelta64,
    pa.lib.Type_TIME64: np.timedelta64,
}

"""Which column types are stored, as what, and which are refused by name.

============================================  ====================================================
given                                         stored
============================================  ====================================================
null, bool, integers, float32, float64        as they are
float16                                       float32 (widened, lossless)
decimal32, decimal64, decimal128              decimal128 of the same precision and scale
text: string, large_string, string_view       string
binary, large_binary, binary_view             binary
fixed_size_binary                             as it is
timestamp, date, time, duration               as they are, unit and zone included; a zone that
                                              Arrow or Python does not know is refused
dictionary                                    dictionary with int32 codes, its values as above
list, large_list, list views                  list, its items as above
fixed_size_list, struct                       as they are, their children as above
map, union, interval, run_end_encoded,        refused
decimal256, extension types
============================================  ====================================================

Text and binary have 32-bit offsets whatever their total size: writers cut rows so that one column
of one segment stays far below 2 GiB, and a table is made of many segments.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.errors import DuplicateColumnError, InvalidInputError, UnsupportedTypeError
from tessel.expression.types import is_zone
from tessel.options import current
from tessel.store.encodings.fields import KINDS

_SHARED_BYTES = 1 << 24
"""Tables from so many bytes on are checked by several threads."""

_SPLIT_BYTES = 1 << 30
"""Chunks of text with 64-bit offsets are split to at most this before they are narrowed."""

_MOST_NESTED = 100
"""Lists and structs within one another; Arrow reads no schema back that has more than 124."""


def _list(type_: pa.DataType, column: str) -> pa.DataType:
    return pa.list_(_child(type_.value_type, column))


def _fixed_list(type_: pa.DataType, column: str) -> pa.DataType:
    if type_.list_size < 1:
        raise _refused(type_, column, "lists of a fixed size hold at least one item")
    return pa.list_(_child(type_.value_type, column), type_.list_size)


def _struct(type_: pa.DataType, column: str) -> pa.DataType:
    names = [type_.field(i).name for i in range(type_.num_fields)]
    if len(set(names)) != len(names):
        raise DuplicateColumnError(
            f"column {column!r} is a struct with two fields of one name",
            hint="rename one of the fields",
            column=column,
        )
    return pa.struct([pa.field(f.name, _child(f.type, column)) for f in type_])


def _child(type_: pa.DataType, column: str) -> pa.DataType:
    # A dictionary inside a list or struct keeps its code type: kernels cannot change it there.
    if pat.is_dictionary(type_) and not pat.is_null(type_.value_type):
        return pa.dictionary(
            type_.index_type, _dictionary_values(type_, column), ordered=type_.ordered
        )
    return stored_type(type_, column)


def _dictionary(type_: pa.DataType, column: str) -> pa.DataType:
    if pat.is_null(type_.value_type):
        return pa.null()  # categories that nobody gave have no type yet
    return pa.dictionary(pa.int32(), _dictionary_values(type_, column), ordered=type_.ordered)


def _dictionary_values(type_: pa.DataType, column: str) -> pa.DataType:
    values = stored_type(type_.value_type, column)
    if pat.is_nested(values) or pat.is_dictionary(values):
        raise _refused(type_, column, "dictionaries hold plain values")
    return values


_TEXT = (pa.large_string(), pa.string_view())
_BYTES = (pa.large_binary(), pa.binary_view())
_LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)

_RULES: dict[int, Callable[[pa.DataType, str], pa.DataType]] = {
    pa.float16().id: lambda type_, column: pa.float32(),
    **dict.fromkeys([t.id for t in _TEXT], lambda type_, column: pa.string()),
    **dict.fromkeys([t.id for t in _BYTES], lambda type_, column: pa.binary()),
    **dict.fromkeys(
        (pa.decimal32(1).id, pa.decimal64(1).id),
        lambda type_, column: pa.decimal128(type_.precision, type_.scale),
    ),
    pa.dictionary(pa.int8(), pa.int8()).id: _dictionary,
    **dict.fromkeys([made(pa.int8()).id for made in _LISTS], _list),
    pa.list_(pa.int8(), 1).id: _fixed_list,
    pa.struct([]).id: _struct,
}
"""By id, how the other types that are stored become what they are stored as."""


def stored_type(type_: pa.DataType, column: str) -> pa.DataType:
    """Return the type that values of ``type_`` are stored as.

    Raises UnsupportedTypeError for a type that is not stored; names ``column`` and the type;
    DuplicateColumnError for a struct with two fields of one name.
    """
    if type_.id in KINDS:
        return type_
    if type_.id not in _RULES:
        raise _refused(type_, column, "such columns are not stored")
    return _RULES[type_.id](type_, column)


def _refused(type_: pa.DataType, column: str, why: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {column!r} has type {type_}: {why}",
        hint=_way_out(type_),
        column=column,
        type=str(type_),
    )


def _way_out(type_: pa.DataType) -> str:
    if isinstance(type_, pa.BaseExtensionType):
        return f"cast it to its storage type {type_.storage_type}"
    if pat.is_map(type_):
        return "cast it to list<struct<key, value>>"
    if pat.is_run_end_encoded(type_):
        return f"decode it to {type_.value_type}"
    if pat.is_decimal256(type_):
        return "cast it to decimal128, which holds 38 digits"
    return "cast the column to a stored type, or drop it"


def accepted_type(type_: pa.DataType, column: str) -> pa.DataType:
    """Return the type that new values of ``type_`` are stored as.

    Raises UnsupportedTypeError also for types nested too deep, and for a zone that nothing can
    print or convert later: ``stored_type`` lets them pass because earlier versions stored them.
    """
    inside = level = [type_]
    for _ in range(_MOST_NESTED + 1):
        level = [each.field(at).type for each in level for at in range(each.num_fields)]
        if not level:
            break
        inside = inside + level
    else:
        raise _refused(type_, column, f"{_MOST_NESTED} types within one another are the most")
    stored = stored_type(type_, column)
    for each in inside:
        zone = getattr(each.value_type if pat.is_dictionary(each) else each, "tz", None)
        if zone and not is_zone(zone):
            raise UnsupportedTypeError(
                f"column {column!r} has the time zone {zone!r}, which the zone database lacks",
                hint="cast it to a zone such as 'Europe/Paris' or 'UTC', or to an offset such as "
                "'+01:00'",
                column=column,
                zone=zone,
            )
    return stored


def accepted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that a table of ``schema`` is stored with; see ``accepted_type``."""
    return pa.schema([pa.field(f.name, accepted_type(f.type, f.name)) for f in schema])


def normalise_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as stored: stored types, nullable fields, no metadata."""
    return pa.schema([pa.field(f.name, stored_type(f.type, f.name)) for f in schema])


def normalise(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly the types of a normalised ``schema`` of the same columns.

    Raises InvalidInputError when a value does not fit its stored type, or is none (a date64 within
    a day, text that is not UTF-8): what is written can be read.
    """
    workers = min(current().workers, table.num_columns)
    if workers > 1 and table.get_total_buffer_size() >= _SHARED_BYTES:
        with ThreadPoolExecutor(workers, thread_name_prefix="tessel-check") as pool:
            list(pool.map(_check_values, table.column_names, table.columns))
    else:
        list(map(_check_values, table.column_names, table.columns))
    cast = [_cast(column, field) for column, field in zip(table.columns, schema, strict=True)]
    if not cast:
        return table.replace_schema_metadata(None)
    return pa.table(cast, schema=schema)


def _check_values(name: str, column: pa.ChunkedArray) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"column {name!r} ({column.type}) holds values that are none: {error}", column=name
        ) from error


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    chunks = [part for chunk in column.chunks for part in _cast_array(chunk, field)]
    return pa.chunked_array(chunks, type=field.type)


def _cast_array(array: pa.Array, field: pa.Field) -> list[pa.Array]:
    if pat.is_null(array.type) or pat.is_null(field.type):
        return [pa.nulls(len(array), field.type)]
    if pat.is_dictionary(field.type) and pat.is_dictionary(array.type):
        return [cast_dictionary(array, field.type)]
    if array.type == field.type:
        # Equality ignores the names of list items: the table made of it has the declared ones.
        return [array]
    if pat.is_string_view(array.type) or pat.is_binary_view(array.type):
        # Of views only newer versions of pyarrow tell the size.
        large = pa.large_string() if pat.is_string_view(array.type) else pa.large_binary()
        array = array.cast(large)
    held = array.get_total_buffer_size()  # no less than `nbytes`, and told of nested views, too
    if held > _SPLIT_BYTES and array.nbytes > _SPLIT_BYTES and len(array) > 1:
        half = len(array) // 2
        return _cast_array(array.slice(0, half), field) + _cast_array(array.slice(half), field)
    try:
        if pat.is_list_view(array.type) or pat.is_large_list_view(array.type):
            array = _plain_list(array)
        if pat.is_nested(array.type) and array.offset:
            # Casts of sliced structs lose the offset of their children; a copy has none.
            array = pa.concat_arrays([array, array.slice(0, 0)])
        made = array.cast(field.type)
        made.validate()
    except pa.ArrowNotImplementedError as error:
        raise _refused(array.type, field.name, f"it cannot become {field.type}") from error
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"column {field.name!r} does not fit {field.type}: {error}", column=field.name
        ) from error
    return [made]


def _plain_list(array: pa.Array) -> pa.Array:
    """Return list views as lists; the cast of pyarrow makes invalid arrays of views with nulls."""
    lengths = numpy_array(fill_null(pc.list_value_length(array), 0))
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(arrow_array(offsets), array.flatten(), mask=mask)


def cast_dictionary(array: pa.DictionaryArray, type_: pa.DataType) -> pa.Array:
    """Change code and value types; nulls among the values become nulls among the codes."""
    dictionary = array.dictionary
    if dictionary.null_count or len(dictionary) != len(dictionary.unique()):
        array = array.dictionary_decode().dictionary_encode()
        dictionary = array.dictionary
    return pa.DictionaryArray.from_arrays(
        array.indices.cast(type_.index_type),
        dictionary.cast(type_.value_type),
        ordered=type_.ordered,
    )


def is_index_type(type_: pa.DataType) -> bool:
    """Return whether a column of this type can be a time index.

    Timestamps, dates and integers that fit 64 signed bits; uint64 does not.
    """
    return bool(
        pat.is_timestamp(type_)
        or pat.is_date(type_)
        or (pat.is_integer(type_) and not pat.is_uint64(type_))
    )

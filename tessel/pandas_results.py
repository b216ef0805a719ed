"""Results as pandas frames: with the index, names, dtypes and categories that were written.

What pandas showed of a symbol is its :class:`PandasShape`. A result has what is left of it, as
schema metadata of pandas, so that Arrow gives it back too; what only we give back stands there
under ``tessel``. Imported for results of symbols that were written from pandas.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from tessel.clauses.base import BUCKETED, Clause, IndexEffect, Structure
from tessel.clauses.sort import OrderedClause
from tessel.errors import InvalidInputError, UnsupportedTypeError
from tessel.expression.schema import TableSchema
from tessel.store.pandas_shape import PandasShape

if TYPE_CHECKING:
    import pandas

__all__ = ["frame_of", "pandas_metadata"]


def pandas_metadata(
    shape: PandasShape,
    stored: TableSchema,
    stored_rows: int,
    clauses: Sequence[Clause],
    table: pa.Table,
) -> bytes | None:
    """Return what a result shows in pandas, as schema metadata; None for nothing.

    Parameters
    ----------
    shape, stored, stored_rows
        Of the symbol: what pandas showed, its columns, its rows.
    clauses, table
        The query, and its result.
    """
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    kept = {n for n in _untouched(clauses, stored) if kinds.get(n) == stored.type_of(n)}
    found = shape.keyed({name: name for name in kept})
    levels = dict(found.levels)
    names = [name for name in table.column_names if name not in levels]
    is_series = found.series is not None and names == [found.series[0]]
    is_integers = all(name.removeprefix("-").isdecimal() for name in names)
    all_rows = table.num_rows == stored_rows and all(map(_gives_rows_in_order, clauses))
    columns = found.columns
    if columns is not None and columns[1] == "int64" and not is_integers:
        columns = (columns[0], "str") if columns[0] is not None else None
    rows_kept = bool(kept) or not clauses
    found = PandasShape(
        found.levels,
        found.range if all_rows and rows_kept else None,
        found.dtypes,
        found.categories,
        columns if rows_kept else None,
        found.series if is_series else None,
    )
    return _document(found, table).encode() if found else None


def _untouched(clauses: Sequence[Clause], stored: TableSchema) -> set[str]:
    """Return the columns whose values belong to the rows that they were written with."""
    found, schema = set(stored.names), stored
    for clause in clauses:
        info = clause.structure
        makes_groups = info.index is IndexEffect.REPLACE or (
            info.input is Structure.ALL
            and info.index is IndexEffect.DROP
            and not isinstance(clause, OrderedClause)
        )
        if makes_groups or info.input in BUCKETED or info.output in BUCKETED:
            return set()
        found -= info.adds
        if info.input is Structure.MULTI_SYMBOL:
            return found  # names of the others are told apart from these
        schema = clause.output_schema(schema)
        found &= set(schema.names)
    return found


def _gives_rows_in_order(clause: Clause) -> bool:
    """Return whether a clause gives rows as they come, where it gives as many."""
    info = clause.structure
    return info.keeps_order and (
        info.keeps_count or not (info.adds or info.input is Structure.MULTI_SYMBOL)
    )


def _document(shape: PandasShape, table: pa.Table) -> str:
    levels = dict(shape.levels)
    index: list[Any] = list(levels)
    if shape.range is not None:
        name, start, step = shape.range
        stop = start + step * table.num_rows
        index = [{"kind": "range", "name": name, "start": start, "stop": stop, "step": step}]
    dtypes = {name: dtype for name, dtype in shape.dtypes.items() if not _is_unnamed(dtype)}
    columns = [
        _described(levels.get(name, name), name, str(kind), dtypes.get(name, "object"))
        for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        if name in levels or name in shape.dtypes
    ]
    names = []
    if shape.columns is not None:
        label, dtype = shape.columns
        names = [_described(label, label, "int64" if dtype == "int64" else "unicode", dtype)]
    document = {
        "index_columns": index,
        "column_indexes": names,
        "columns": columns,
        "creator": {"library": "tessel"},
        "pandas_version": "3.0.0",
        "tessel": shape.to_json(),
    }
    return json.dumps(document)


def _is_unnamed(dtype: str) -> bool:
    """Return whether pandas has no dtype by this name: its own of Arrow's types with parameters."""
    return dtype.endswith("[pyarrow]") and ("<" in dtype or "(" in dtype)


def _described(label: Any, field: Any, kind: str, dtype: str) -> dict[str, Any]:
    """Return what pandas' metadata say of one column."""
    names = {"name": label, "field_name": field}
    return {**names, "pandas_type": kind, "numpy_type": dtype, "metadata": None}


# --- to pandas ------------------------------------------------------------------------------------


def frame_of(
    table: pa.Table, index: str | None, wanted: bool | None
) -> pandas.DataFrame | pandas.Series[Any]:
    """Return a frame, or the Series that was written.

    Parameters
    ----------
    table
        The result, with what it shows in pandas in its schema's metadata.
    index
        The time index of the result.
    wanted
        As of ``Result.to_pandas``.
    """
    import pandas

    held = (table.schema.metadata or {}).get(b"pandas")
    document = None if held is None else json.loads(held)
    shape = PandasShape() if document is None else _shape(document["tessel"])
    frame = _columns(table, document, shape)
    if wanted:
        if index is None:
            raise InvalidInputError(
                "to_pandas(index=True): the result has no time index",
                hint='leave index= out, or set one: to_pandas().set_index("column")',
            )
        return frame.set_index(index)
    if wanted is None and shape.levels:
        # set_index makes a RangeIndex of some integers.
        labels = [label for _, label in shape.levels]
        levels = [frame.pop(key) for key, _ in shape.levels]
        for at, (key, _) in enumerate(shape.levels if len(levels) > 1 else ()):
            if pat.is_integer(table.schema.field(key).type) and levels[at].dtype.kind == "f":
                levels[at] = table.column(key).to_pylist()  # integers, of which some are missing
        if len(levels) == 1:
            frame.index = pandas.Index(levels[0]).rename(labels[0])
        else:
            frame.index = pandas.MultiIndex.from_arrays(levels, names=labels)
    if wanted is None and shape.range is not None:
        name, start, step = shape.range
        stop = start + step * len(frame)
        frame.index = pandas.RangeIndex(start, stop, step, name=name)
    if wanted is None and shape.series is not None:
        column, label = shape.series
        series: pandas.Series[Any] = frame[column].rename(label)
        return series
    if shape.columns is not None:
        label, dtype = shape.columns
        if dtype != "int64":
            frame.columns = frame.columns.astype(dtype)
        elif wanted is None or not shape.levels:
            numbers = [int(name) for name in frame.columns]
            frame.columns = pandas.Index(numbers, dtype=dtype)
        frame.columns = frame.columns.rename(label)
    return frame


def _shape(document: dict[str, Any]) -> PandasShape:
    """Return the shape of a result, whose keys are names."""
    names = {key: tuple(document[key]) for key in ("range", "columns", "series") if key in document}
    return PandasShape(
        levels=tuple((key, name) for key, name in document.get("levels", ())),
        dtypes=dict(document.get("dtypes", ())),
        categories={key: (dtype, values) for key, dtype, values in document.get("categories", ())},
        **names,
    )


def _columns(table: pa.Table, document: Any, shape: PandasShape) -> pandas.DataFrame:
    """Return a frame of all columns, in the dtypes that they were written in."""
    import pandas

    metadata = None
    if document is not None:
        columns = [{**each, "name": each["field_name"]} for each in document["columns"]]
        plain = {**document, "index_columns": [], "column_indexes": [], "columns": columns}
        metadata = {b"pandas": json.dumps(plain)}
    try:
        frame: pandas.DataFrame = table.replace_schema_metadata(metadata).to_pandas()
    except pa.ArrowInvalid as error:
        for field in table.schema:
            if "time64[ns]" in str(field.type):  # also within lists and structs
                raise UnsupportedTypeError(
                    f"column {field.name!r} has times of day with nanoseconds, which pandas lacks",
                    hint=f'take .cast({{"{field.name}": "int64"}}) or "string" for times as they '
                    "are; to_arrow() and to_polars() keep them",
                    column=field.name,
                ) from error
        raise
    for field in table.schema:
        if pat.is_dictionary(field.type) and (zone := getattr(field.type.value_type, "tz", None)):
            values = frame[field.name].cat
            if getattr(values.categories, "tz", None) is None:  # Arrow leaves the zone out
                instants = pandas.DatetimeIndex(values.categories, tz="UTC").tz_convert(zone)
                frame[field.name] = values.rename_categories(instants)
    for name, dtype in shape.dtypes.items():
        if _is_unnamed(dtype):
            frame[name] = pandas.arrays.ArrowExtensionArray(table.column(name))
        elif dtype == "object" and frame[name].dtype != object:
            frame[name] = _objects(table.column(name), frame[name])
        elif dtype == "float16":
            frame[name] = frame[name].astype(dtype)
    for name, (dtype, held) in shape.categories.items():
        frame[name] = _categorical(frame[name], *_categories(held, dtype))
    return frame


def _objects(column: pa.ChunkedArray, values: Any) -> Any:
    """Return values as objects of Python; None where one is missing."""
    import pandas

    kind = column.type
    if pat.is_temporal(kind):
        return values.astype(object)
    return pandas.Series(column.to_pylist(), dtype=object, index=values.index)


def _categories(held: str, dtype: str) -> tuple[Any, bool]:
    """Return categories as an index, and whether they are ordered (which empty ones tell)."""
    pandas = sys.modules["pandas"]
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(held, validate=True))) as reader:
        table = reader.read_all()
    found = pandas.Index(table.column(0).to_pandas()).rename(None).astype(dtype)
    return found, table.column_names == ["ordered"]


def _categorical(values: Any, categories: Any, is_ordered: bool) -> Any:
    """Return values with the categories that were written, and behind them those of rows since."""
    pandas = sys.modules["pandas"]
    if not isinstance(values.dtype, pandas.CategoricalDtype):  # none had a value
        return values.astype(pandas.CategoricalDtype(categories, is_ordered))
    own = values.cat.categories
    more = own.difference(categories, sort=False)
    return values.cat.set_categories(categories.append(more) if len(more) else categories)

"""add_column, drop_column, rename_columns, widen: columns change, and no other is rewritten.

Columns have ids that are never used again: a name can come back, its old values cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.errors import (
    DuplicateColumnError,
    IndexColumnError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    UnsupportedTypeError,
)
from tessel.errors.arguments import check_nesting
from tessel.expression.node import Expression
from tessel.expression.scalars import array_of, scalar_of
from tessel.expression.schema import TableSchema
from tessel.options import current, options
from tessel.store.frames import check_column_names
from tessel.store.history.changes import Edit
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.operations.incoming import can_widen, can_widen_index
from tessel.store.operations.stage import Stage
from tessel.store.operations.working import Working
from tessel.store.segment.types import accepted_type, is_index_type, normalise


def add_column(
    stage: Stage, symbol: str, name: str, values: Any = None, *, data_type: Any = None
) -> None:
    """Add a column; see ``Repository.add_column``."""
    working = stage.existing(symbol)
    state = working.state
    check_column_names([name])
    if name in state.schema:
        raise DuplicateColumnError(
            f"symbol {symbol!r} has a column {name!r} already",
            hint="drop or rename that one first",
            column=name,
        )
    column = _column(values, data_type, name, state.rows)
    kind = accepted_type(_type(data_type) if column is None else column.type, name)
    schema = TableSchema(state.schema.arrow.append(pa.field(name, kind)), state.schema.index)
    ids = {**state.column_ids, name: state.next_column_id}
    if column is None or not state.rows:
        working.change_schema(schema, ids, "add column")
        return
    own = pa.schema([(name, kind)])
    table = normalise(pa.table([column], names=[name]), own)
    _fill(stage, working, schema, ids, table)


def retype(stage: Stage, working: Working, wanted: SymbolState, names: Sequence[str]) -> None:
    """Store columns anew, under the types and ids that another state of the symbol has for them.

    Nothing is changed where a value does not fit its new type.
    """
    reader, rows = stage.reader(working.state), working.state.rows
    tables = {
        name: normalise(reader.columns([name]).rows(0, rows), wanted.schema.select([name]).arrow)
        for name in names
    }
    for name, table in tables.items():
        state = working.state
        arrow = state.schema.arrow
        arrow = arrow.set(arrow.get_field_index(name), table.schema.field(0))
        ids = {**state.column_ids, name: wanted.column_ids[name]}
        _fill(stage, working, TableSchema(arrow, state.schema.index), ids, table)


def _fill(
    stage: Stage, working: Working, schema: TableSchema, ids: dict[str, int], table: pa.Table
) -> None:
    """Give a symbol columns of which the one in ``table`` is new, with its values."""
    (name,) = table.column_names
    rows = working.state.rows
    extents = _with_values(stage, working, table, ids[name]) if rows else ()
    working.change_schema(schema, ids, "fill column")
    if rows:
        working.splice([Edit(0, rows, extents)], "fill column")


def drop_column(stage: Stage, symbol: str, name: str) -> None:
    """Take a column away; see ``Repository.drop_column``."""
    working = stage.existing(symbol)
    state = working.state
    state.schema.require([name], where=f"symbol {symbol!r}")
    if name == state.schema.index:
        raise IndexColumnError(
            f"column {name!r} is the time index of symbol {symbol!r} and cannot be dropped",
            hint="write the symbol anew without index=",
            index=name,
        )
    kept = [other for other in state.schema.names if other != name]
    if not kept:
        raise InvalidInputError(
            f"column {name!r} is the last one of symbol {symbol!r}",
            hint="delete the symbol instead",
            column=name,
        )
    ids = {other: state.column_ids[other] for other in kept}
    working.change_schema(state.schema.select(kept), ids, "drop column")


def rename_columns(stage: Stage, symbol: str, names: Mapping[str, str]) -> None:
    """Give columns other names; see ``Repository.rename_columns``."""
    working = _having(stage, symbol, names, "renamed", '{"old": "new"}')
    state = working.state
    after = [names.get(name, name) for name in state.schema.names]
    check_column_names(after)
    if after == state.schema.names:
        return
    fields = [pa.field(n, f.type) for n, f in zip(after, state.schema.arrow, strict=True)]
    index = state.schema.index
    schema = TableSchema(pa.schema(fields), None if index is None else names.get(index, index))
    ids = {names.get(name, name): number for name, number in state.column_ids.items()}
    working.change_schema(schema, ids, "rename column")


def widen(stage: Stage, symbol: str, types: Mapping[str, Any]) -> None:
    """Give columns wider types; see ``Repository.widen``."""
    working = _having(stage, symbol, types, "widened", '{"column": "int64"}')
    state = working.state
    arrow = state.schema.arrow
    for name, wanted in types.items():
        old, new = state.schema.type_of(name), accepted_type(_type(wanted), name)
        if not can_widen(old, new):
            raise SchemaMismatchError(
                f"column {name!r} of type {old} cannot be widened to {new}: "
                "not every value would stay as it is",
                hint="add a column of the type you want, or write the symbol anew",
                column=name,
            )
        if name == state.schema.index and not (is_index_type(new) and can_widen_index(old, new)):
            raise IndexColumnError(
                f"column {name!r} is the time index and cannot become {new}",
                hint="an index stays what it is, or becomes an integer of more bits other than "
                "uint64; for another one write the symbol anew",
                index=name,
                type=str(new),
            )
        arrow = arrow.set(arrow.get_field_index(name), pa.field(name, new))
    if arrow != state.schema.arrow:
        schema = TableSchema(arrow, state.schema.index)
        working.change_schema(schema, state.column_ids, "widen")


def _having(stage: Stage, symbol: str, given: object, what: str, example: str) -> Working:
    """Return a symbol that has the columns which a mapping names."""
    working = stage.existing(symbol)
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"columns are {what} by a mapping, not {given!r}", hint=f"write {example}"
        )
    working.state.schema.require(given, where=f"symbol {symbol!r}")
    return working


# --- values of a new column -----------------------------------------------------------------------


def _type(given: Any) -> pa.DataType:
    if given is None:
        return pa.null()
    if isinstance(given, pa.DataType):
        return given
    try:
        return pa.type_for_alias(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise UnsupportedTypeError(
            f"{given!r:.80} is no type",
            hint='give a pyarrow type, or its name such as "int64"',
        ) from error


def _column(values: Any, type_: Any, name: str, rows: int) -> pa.ChunkedArray | None:
    """Return the values of a new column, or None where all are missing."""
    if values is None:
        return None
    if isinstance(values, Expression):
        raise InvalidInputError(
            f"{values} is an expression, and the values of column {name!r} are to be given",
            hint=f"compute them with a query, .apply({name!r}, expression), and give that column "
            "of its result",
            column=name,
        )
    wanted = None if type_ is None else _type(type_)
    check_nesting(values)
    try:
        if isinstance(values, pa.Scalar) or not _has_values(values):
            scalar = scalar_of(values, wanted)
            if not scalar.is_valid:
                return None
            return pa.chunked_array([pa.repeat(scalar, rows)])
        if isinstance(values, pa.Array | pa.ChunkedArray):
            found = values if wanted is None else values.cast(wanted)
        else:
            found = array_of(values, wanted)
    except TesselError as error:
        raise error.with_context(column=name) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the values of column {name!r} could not be taken: {error}",
            hint="give one value, or as many as there are rows, all of one type",
            column=name,
        ) from error
    column = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
    if len(column) != rows:
        raise InvalidInputError(
            f"column {name!r} has {len(column)} values, and the symbol has {rows} rows",
            hint="give one value, or as many as there are rows",
            column=name,
            rows=rows,
        )
    return column


def _has_values(values: Any) -> bool:
    if isinstance(values, str | bytes | Mapping):
        return False
    return hasattr(values, "__len__") or hasattr(values, "__arrow_c_array__")


def _with_values(
    stage: Stage, working: Working, values: pa.Table, column_id: int
) -> tuple[ManifestEntry, ...]:
    """Write the values as segments that are cut like the rows of the symbol."""
    state = working.state
    table = state.segments(stage.manifest)
    lengths = table.slice_end - table.slice_start
    (name,) = values.column_names
    alone = SymbolState(state.id, TableSchema(values.schema), {name: column_id}, column_id + 1)
    with options(segment_rows=max(current().segment_rows, int(np.max(lengths)))):
        written = [
            stage.write_segments(alone, [values.slice(start, rows)])
            for start, rows in zip(table.slice_start.tolist(), lengths.tolist(), strict=True)
        ]
    grown = table.with_column(written)
    ordinal = stage.builder.segments_of(state.id)
    entry = stage.add_table(state, grown, state.manifests)
    fresh = np.flatnonzero(grown.origin < 0) + ordinal
    facts = [part.statistics[column_id] for each in written for part in each]
    statistics = dict(zip(fresh.tolist(), facts, strict=True))
    stage.builder.add_statistics(state.id, column_id, values.schema.field(0).type, statistics)
    return (entry,)

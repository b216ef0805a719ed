"""write: a table becomes a symbol, in place of what it was."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.expression.schema import TableSchema
from tessel.store.frames import Frame, read_frame
from tessel.store.history.symbol import SymbolState, rows_of
from tessel.store.index_column import check_index_type, checked_order, sorted_by
from tessel.store.names import check_symbol_name
from tessel.store.operations.incoming import checked_metadata
from tessel.store.operations.stage import Stage
from tessel.store.segment.file_writer import check_encodings
from tessel.store.segment.layout import assign_column_ids

__all__ = ["write"]


def write(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    index: str | None = None,
    sort: bool = False,
    metadata: Mapping[str, Any] | None = None,
    encodings: Mapping[str, str] | None = None,
) -> None:
    """Write a table as a symbol; see ``Repository.write``."""
    check_symbol_name(symbol)
    kept = checked_metadata(metadata)
    frame = read_frame(data)
    index = frame.index if index is None else index
    if index is not None:
        check_index_type(frame.schema, index)
    elif sort:
        raise InvalidInputError(
            "sort=True without an index: there is nothing to sort by",
            hint='name the time column with index="column"',
        )
    schema = TableSchema(frame.schema, index)
    forced = {} if encodings is None else dict(encodings)
    schema.require(forced)
    check_encodings(frame.schema, forced)
    working = stage.find(symbol)
    # A symbol that came here under another name leaves that name, and is not this one.
    same = working is not None and working.base_name in (None, symbol)
    before = working.state if working is not None and same else None
    first_id = 0 if before is None else before.next_column_id
    ids = assign_column_ids(schema, first_id)
    state = SymbolState(
        id=secrets.randbits(63) if before is None else before.id,
        schema=schema,
        column_ids=ids,
        next_column_id=first_id + len(schema.names),
        metadata=kept,
        encodings={ids[column]: encoding for column, encoding in forced.items()},
    )
    extents = stage.write_rows(state, _in_order(frame, index, sort))
    stage.put(symbol, dataclasses.replace(state, manifests=extents, rows=rows_of(extents)))


def _in_order(frame: Frame, index: str | None, sort: bool) -> Iterable[pa.Table]:
    if index is None:
        return frame.tables
    if not sort:
        return checked_order(frame.tables, index)
    tables = list(frame.tables)
    return [sorted_by(pa.concat_tables(tables), index)] if tables else []

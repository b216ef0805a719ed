"""A symbol as a whole: written from a table, deleted, renamed, described by metadata."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

from tessel.errors import InvalidInputError, SymbolNameError
from tessel.expression.schema import TableSchema
from tessel.store.frames import read_frame
from tessel.store.history.symbol import SymbolState, rows_of
from tessel.store.index_column import check_index, in_order
from tessel.store.names import check_symbol_name
from tessel.store.operations.incoming import checked_metadata
from tessel.store.operations.stage import Stage
from tessel.store.segment.file_writer import check_encodings
from tessel.store.segment.writer import assign_column_ids


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
    index = frame.time_index(sort=sort) if index is None else index
    check_index(frame.schema, index, sort=sort)
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
        pandas=frame.pandas and frame.pandas.keyed(ids),
    )
    extents = stage.write_rows(state, in_order(frame.tables, index, sort=sort))
    stage.put(symbol, dataclasses.replace(state, manifests=extents, rows=rows_of(extents)))


def delete(stage: Stage, symbol: str) -> None:
    """Delete a symbol; see ``Repository.delete``."""
    stage.remove(stage.existing(symbol))


def rename_symbol(stage: Stage, symbol: str, to: str) -> None:
    """Give a symbol another name; see ``Repository.rename_symbol``."""
    working = stage.existing(symbol)
    check_symbol_name(to)
    if to == symbol:
        return
    if stage.find(to) is not None:
        raise SymbolNameError(
            f"symbol {symbol!r} cannot be renamed: there is a symbol {to!r}",
            hint="delete that one first, in the same transaction if you like",
            symbol=to,
        )
    stage.rename(working, to)


def set_metadata(stage: Stage, symbol: str, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata of a symbol; see ``Repository.set_metadata``."""
    working = stage.existing(symbol)
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(
            f"the metadata of a symbol are a mapping, not {metadata!r}",
            hint="{} clears them",
        )
    working.change_metadata(checked_metadata(metadata))

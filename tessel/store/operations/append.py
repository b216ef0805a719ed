"""append: rows at the end of a symbol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tessel.store.history.changes import Edit
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.index_column import checked_order
from tessel.store.operations.incoming import take
from tessel.store.operations.stage import Stage

__all__ = ["append"]

_HINT = (
    "rows before the last time cannot be appended: update() replaces the rows of a range of times, "
    "staged writes take rows in any order, or write the symbol anew with sort=True"
)


def append(
    stage: Stage, symbol: str, data: Any, *, evolve: str | Iterable[str] | None = None
) -> None:
    """Add rows at the end of a symbol; see ``Repository.append``."""
    working = stage.existing(symbol)
    incoming = take(working, data, evolve)
    tables = incoming.tables
    index = incoming.state.schema.index
    if index is not None:
        tables = checked_order(tables, index, after=stage.last_time(working), hint=_HINT)
    extents = stage.write_rows(incoming.state, tables)
    incoming.apply(working)
    end = working.state.rows
    edits = []
    for extent in extents:
        touched: TimeBounds | None = None
        if extent.first_time is not None and extent.last_time is not None:
            touched = extent.first_time, extent.last_time
        edits.append(Edit(end, end, extents, touched, at_end=True))
    working.splice(edits, "append")

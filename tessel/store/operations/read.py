"""read: rows of a symbol as the transaction has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.store.history.rebase import ReadRange
from tessel.store.operations.ranges import row_range, time_range
from tessel.store.operations.stage import Stage

__all__ = ["read"]


def read(stage: Stage, symbol: str, *, rows: Any = None, times: Any = None) -> pa.Table:
    """Return rows of a symbol; see ``Transaction.read``."""
    working = stage.existing(symbol)
    state = working.state
    if rows is not None and times is not None:
        raise InvalidInputError("read takes rows= or times=, not both")
    base_name = working.base_name or symbol
    if times is not None:
        claim = time_range(times, state.schema, "read by times")
        reader = stage.reader(working)
        stage.reads.append(ReadRange(base_name, times=claim))
        return reader.rows(*reader.rows_between(*claim))
    start, stop = (0, state.rows) if rows is None else row_range(rows, state.rows)
    if rows is None or working.rows_changed:
        # Positions of changed rows are not those of the base.
        stage.reads.append(ReadRange(base_name))
    else:
        stage.reads.append(ReadRange(base_name, rows=(start, stop)))
    return stage.reader(working).rows(start, stop)

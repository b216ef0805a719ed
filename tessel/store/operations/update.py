"""update: the rows of a range of times give way to those of a frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.errors import IndexColumnError, InvalidInputError
from tessel.store.history.changes import Claim
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.index_column import checked_order, index_integers
from tessel.store.operations.incoming import take
from tessel.store.operations.planning import Planned, staged_edits
from tessel.store.operations.ranges import time_range
from tessel.store.operations.stage import Stage

__all__ = ["update"]


def update(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    date_range: Any = None,
    evolve: str | Iterable[str] | None = None,
) -> None:
    """Replace the rows in a range of times; see ``Repository.update``."""
    working = stage.existing(symbol)
    index = working.state.schema.index
    if index is None:
        raise IndexColumnError.required("update")
    claim: Claim | None = None
    if date_range is not None:
        claim = time_range(date_range, working.state.schema, "update")
    incoming = take(working, data, evolve)
    schema = incoming.state.schema.arrow
    table = pa.concat_tables(
        [empty_table(schema), *checked_order(incoming.tables, index, hint=_HINT)]
    )
    first, last = _ends(table, index)
    if claim is None:
        if first is None:
            raise InvalidInputError(
                "an update without rows covers no range",
                hint="name the range that shall be empty with date_range=, or use delete_rows()",
                symbol=symbol,
            )
        claim = first, last
    low, high = claim
    too_early = low is not None and first is not None and first < low
    too_late = high is not None and last is not None and last > high
    if too_early or too_late:
        raise InvalidInputError(
            f"the rows of the update do not all lie in date_range={date_range!r}",
            hint="leave the others out, or widen the range",
            symbol=symbol,
        )
    start, stop = stage.reader(working).rows_between(low, high)
    incoming.apply(working)
    if start == stop and not table.num_rows:
        return
    touched: TimeBounds | None = None if low is None or high is None else (low, high)
    edits = staged_edits(stage, working.state, [Planned(start, stop, table)], touched=touched)
    working.splice(edits, "update", [claim])


_HINT = "sort the rows of the update by the index first"


def _ends(table: pa.Table, index: str) -> tuple[int | None, int | None]:
    if not table.num_rows:
        return None, None
    column = table.column(index)
    first = index_integers(column.slice(0, 1), index)[0]
    last = index_integers(column.slice(len(column) - 1), index)[0]
    return int(first), int(last)

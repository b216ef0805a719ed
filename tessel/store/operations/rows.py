"""Rows of a symbol: read, appended, replaced by a range of times, deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import concat_tables, empty_table, fill_null, numpy_array
from tessel.errors import ExpressionTypeError, IndexColumnError, InvalidInputError
from tessel.expression.evaluate import evaluate
from tessel.expression.intervals import evaluate_statistics
from tessel.expression.node import Expression
from tessel.expression.periods import instant_text, period_bounds, units_from_ns, zone_of
from tessel.expression.scalars import whole_number
from tessel.expression.schema import TableSchema
from tessel.expression.text import parse
from tessel.store.history.changes import Claim
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.rebase import ReadRange
from tessel.store.index_column import checked_order, index_ends
from tessel.store.operations.incoming import Evolve, take
from tessel.store.operations.reading import Planned, Reader, staged_edits
from tessel.store.operations.stage import Stage


def read(
    stage: Stage,
    symbol: str,
    *,
    rows: tuple[int, int] | None = None,
    times: tuple[Any, Any] | None = None,
) -> pa.Table:
    """Return rows of a symbol as the transaction has them, its own changes included.

    Parameters
    ----------
    symbol
        Its name.
    rows
        Positions ``(start, stop)``.
    times
        A range of the index, as ``date_range`` elsewhere: both ends included.

    With ``isolation="serializable"``, the commit conflicts if what was read has changed.
    """
    working = stage.existing(symbol)
    state = working.state
    if rows is not None and times is not None:
        raise InvalidInputError("read takes rows= or times=, not both")
    base_name = working.base_name or symbol
    if times is not None:
        claim = time_range(times, state.schema, "read by times")
        reader = stage.reader(working.state)
        stage.reads.append(ReadRange(base_name, times=claim))
        return reader.rows(*reader.rows_between(*claim))
    start, stop = (0, state.rows) if rows is None else row_range(rows, state.rows)
    if rows is None or working.rows_changed:
        # Positions of changed rows are not those of the base.
        stage.reads.append(ReadRange(base_name))
    else:
        stage.reads.append(ReadRange(base_name, rows=(start, stop)))
    return stage.reader(working.state).rows(start, stop)


_APPEND_HINT = (
    "rows before the last time cannot be appended: update() replaces the rows of a range of times, "
    "staged writes take rows in any order, or write the symbol anew with sort=True"
)


def append(stage: Stage, symbol: str, data: Any, *, evolve: Evolve = None) -> None:
    """Add rows at the end of a symbol; see ``Store.append``."""
    working = stage.existing(symbol)
    incoming = take(working, data, evolve)
    tables = incoming.tables
    index = incoming.state.schema.index
    if index is not None:
        tables = checked_order(tables, index, after=stage.last_time(working), hint=_APPEND_HINT)
    extents = stage.write_rows(incoming.state, tables)
    incoming.apply(working, stage)
    working.append(extents)


def update(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    date_range: tuple[Any, Any] | None = None,
    evolve: Evolve = None,
) -> None:
    """Replace the rows in a range of times; see ``Store.update``."""
    working = stage.existing(symbol)
    index = working.state.schema.index
    if index is None:
        raise IndexColumnError.required("update")
    claim: Claim | None = None
    if date_range is not None:
        claim = time_range(date_range, working.state.schema, "update")
    incoming = take(working, data, evolve)
    schema = incoming.state.schema.arrow
    table = concat_tables(
        [empty_table(schema), *checked_order(incoming.tables, index, hint=_UPDATE_HINT)]
    )
    first, last = index_ends(table, index) if table.num_rows else (None, None)
    if claim is None:
        if first is None or last is None:
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
    start, stop = stage.reader(working.state).rows_between(low, high)
    incoming.apply(working, stage)
    if start == stop and not table.num_rows:
        return
    touched: TimeBounds | None = None if low is None or high is None else (low, high)
    edits = staged_edits(stage, working.state, [Planned(start, stop, table)], touched=touched)
    working.splice(edits, "update", [claim])


_UPDATE_HINT = "sort the rows of the update by the index first"


def delete_rows(
    stage: Stage,
    symbol: str,
    *,
    rows: tuple[int, int] | None = None,
    date_range: tuple[Any, Any] | None = None,
    where: Expression | str | None = None,
) -> None:
    """Take rows out of a symbol; see ``Repository.delete_rows``."""
    working = stage.existing(symbol)
    state = working.state
    if sum(each is not None for each in (rows, date_range, where)) != 1:
        raise InvalidInputError(
            "delete_rows takes one of rows=, date_range= and where=",
            hint='for instance delete_rows(symbol, where="price < 0")',
            symbol=symbol,
        )
    claims: list[Claim] = []
    touched: TimeBounds | None = None
    if rows is not None:
        start, stop = row_range(rows, state.rows)
        reader = stage.reader(working.state)
        planned = [Planned(start, stop)] if start < stop else []
    elif date_range is not None:
        claim = time_range(date_range, state.schema, "delete_rows by date_range")
        reader = stage.reader(working.state)
        start, stop = reader.rows_between(*claim)
        claims.append(claim)
        planned = [Planned(start, stop)] if start < stop else []
    else:
        condition = _condition(where, state.schema)
        stage.reads.append(ReadRange(working.base_name or symbol))
        reader = stage.reader(working.state)
        planned = _matching(reader, condition)
    if not planned:
        return
    if state.schema.index is not None:
        touched = reader.time_at(planned[0].start), reader.time_at(planned[-1].stop - 1)
    edits = staged_edits(stage, state, planned, reader=reader, touched=touched)
    working.splice(edits, "delete rows", claims)


def _condition(where: Expression | str | None, schema: TableSchema) -> Expression:
    condition = parse(where) if isinstance(where, str) else where
    if not isinstance(condition, Expression):
        raise InvalidInputError(
            f"where={where!r} is no condition",
            hint='write where="price < 0" or col("price") < 0',
        )
    kind = condition.result_type(schema)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise ExpressionTypeError(
            f"delete_rows takes a condition, but {condition} is {kind}",
            hint=f"compare it with something: {condition} > ...",
            expression=str(condition),
            type=str(kind),
        )
    return condition


def _matching(reader: Reader, condition: Expression) -> list[Planned]:
    """Return the runs of rows for which a condition is true."""
    index = reader.index
    if not index.slices:
        return []
    proofs = evaluate_statistics(condition, index.statistics, index.schema)
    names = [name for name in reader.schema.names if name in condition.columns()]
    columns = reader.columns(names or reader.schema.names[:1])  # without columns there are no rows
    runs: list[Planned] = []
    for number, proof in enumerate(proofs.tolist()):
        start = int(index.slice_row_start[number])
        stop = int(index.slice_row_end[number])
        if proof < 0:
            continue
        if proof > 0:
            _extend(runs, start, stop)
            continue
        mask = fill_null(evaluate(condition, columns.slice(number)), False)
        flags = np.zeros(stop - start + 2, dtype=np.int8)
        flags[1:-1] = numpy_array(mask)
        changes = np.flatnonzero(np.diff(flags))
        for low, high in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
            _extend(runs, start + low, start + high)
    return runs


def _extend(runs: list[Planned], start: int, stop: int) -> None:
    if runs and runs[-1].stop == start:
        runs[-1] = Planned(runs[-1].start, stop)
    else:
        runs.append(Planned(start, stop))


def row_range(rows: Any, count: int) -> tuple[int, int]:
    """Return rows ``[start, stop)`` of a symbol of ``count`` rows.

    Raises
    ------
    InvalidInputError
        For anything but two positions of the symbol, the second not before the first.
    """
    given = rows if isinstance(rows, tuple | list | range) and len(rows) == 2 else (None, None)
    start, stop = (whole_number(end) for end in given)
    if start is None or stop is None:
        raise InvalidInputError(
            f"rows={rows!r} is no range of rows",
            hint="give rows=(start, stop): positions from 0, the second is not included",
        )
    if start > stop:
        raise InvalidInputError.exchanged("rows", start, stop)
    if not 0 <= start <= stop <= count:
        raise InvalidInputError(
            f"rows={rows!r} do not lie in a symbol of {count} rows",
            hint=f"0 <= start <= stop <= {count}",
            rows=count,
        )
    return start, stop


def time_range(bounds: Any, schema: TableSchema, what: str) -> Claim:
    """Return index values ``[from, to]`` in the index's own unit; None is no bound.

    Raises IndexColumnError for a symbol without an index; InvalidInputError for bounds that are
    none, or that end before they begin.

    Parameters
    ----------
    bounds
        Two of ISO text (a partial one means its whole period at either end), dates, date-times,
        whole numbers for an index of integers, or None.
    """
    if schema.index is None:
        raise IndexColumnError.required(what)
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InvalidInputError(
            f"date_range is a start and an end, not {bounds!r}",
            hint='write date_range=("2013-01-01", "2013-03-31"); None is no bound',
        )
    kind = schema.type_of(schema.index)
    if pa.types.is_integer(kind):
        low, high = (None if bound is None else _integer(bound, kind) for bound in bounds)
        if low is not None and high is not None and high < low:
            raise InvalidInputError.exchanged("date_range", low, high)
        return low, high
    start, end = (instant_text(bound) for bound in bounds)
    first, last = period_bounds(start, end, zone_of(kind))
    return (
        None if first is None else units_from_ns(first.start_ns, kind),
        None if last is None else units_from_ns(last.end_ns, kind) - 1,
    )


def _integer(bound: Any, kind: pa.DataType) -> int:
    found = whole_number(bound)
    if found is None:
        raise InvalidInputError(
            f"{bound!r} is no bound for an index of type {kind}",
            hint="give whole numbers",
        )
    return found

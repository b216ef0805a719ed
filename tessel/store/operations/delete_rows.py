"""delete_rows: rows go, by position, by time or by a condition; no row that stays is rewritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import fill_null, numpy_array
from tessel.errors import ExpressionTypeError, InvalidInputError
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.statistics import evaluate_statistics
from tessel.expression.text import parse
from tessel.store.history.changes import Claim
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.rebase import ReadRange
from tessel.store.operations.planning import Planned, staged_edits
from tessel.store.operations.ranges import row_range, time_range
from tessel.store.operations.reading import Reader
from tessel.store.operations.stage import Stage

__all__ = ["delete_rows"]


def delete_rows(
    stage: Stage,
    symbol: str,
    *,
    rows: Any = None,
    date_range: Any = None,
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
        reader = stage.reader(working)
        planned = [Planned(start, stop)] if start < stop else []
    elif date_range is not None:
        claim = time_range(date_range, state.schema, "delete_rows by date_range")
        reader = stage.reader(working)
        start, stop = reader.rows_between(*claim)
        claims.append(claim)
        planned = [Planned(start, stop)] if start < stop else []
    else:
        condition = _condition(where, state.schema)
        stage.reads.append(ReadRange(working.base_name or symbol))
        reader = stage.reader(working)
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

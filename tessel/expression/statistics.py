"""The statistics domain: what minimum, maximum and missing counts prove of whole row slices.

Sound or silent. A predicate answers, per slice, which of true, false and missing its rows *can* be;
FALSE is "no row can be true", TRUE is "no row can be anything else". All slices are computed at
once, on arrays as long as there are slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import TesselError
from tessel.expression.checking import node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.known import Asked, Known, as_truth, nothing_known, null_flags
from tessel.expression.leaves import Column
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.statistics_rules import known_of

if TYPE_CHECKING:
    from tessel.expression.protocols import StatisticsView

__all__ = ["FALSE", "TRUE", "UNKNOWN", "evaluate_statistics"]

FALSE, UNKNOWN, TRUE = -1, 0, 1
"""No row can be true · nothing is proved · every row is true."""


def evaluate_statistics(
    expression: ExpressionContext | Expression, view: StatisticsView, schema: TableSchema
) -> npt.NDArray[np.int8]:
    """Say what statistics prove of a predicate, for every row slice of a view.

    Parameters
    ----------
    expression
        A predicate (of bool or null type).
    view
        The statistics; slices of the same order as the answer.
    schema
        Columns and types of the table.

    Returns
    -------
    numpy.ndarray of int8
        `FALSE` (-1) where no row can be true, `TRUE` (1) where every row is, `UNKNOWN` (0)
        elsewhere. A slice without rows is FALSE.

    Raises
    ------
    ColumnNotFoundError, ExpressionTypeError
        Where the predicate does not fit the schema.
    """
    context = (
        expression
        if isinstance(expression, ExpressionContext)
        else ExpressionContext.of(expression)
    )
    types = node_types(context, schema)
    rows = np.asarray(view.row_counts, dtype=np.int64)
    known: dict[str, Known] = {}
    for name in context.order:
        node = context.expression(name)
        operands = tuple(known[child] for child in context.children(name))
        if isinstance(node, Column):
            known[name] = _column(node, view, rows)
        else:
            known[name] = _apply_rule(Asked(node, types[name], operands, len(rows)))
    answer = as_truth(known[context.root], len(rows))
    assert answer.true is not None
    assert answer.false is not None
    result = np.zeros(len(rows), dtype=np.int8)
    result[~answer.false & ~answer.missing & answer.exact] = TRUE
    result[~answer.true | (rows == 0)] = FALSE
    return result


def _apply_rule(asked: Asked) -> Known:
    """Apply the node's rule; where its kernels cannot take the bounds, nothing is known."""
    try:
        return known_of(asked.node, asked)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TesselError):
        return nothing_known(asked)


def _column(node: Column, view: StatisticsView, rows: npt.NDArray[np.int64]) -> Known:
    facts = view.facts(node.column)
    missing = np.asarray(facts.missing)
    exact = np.asarray(facts.minimum_exact) & np.asarray(facts.maximum_exact)
    low, high = facts.minimum, facts.maximum
    if pa.types.is_null(low.type):
        value = np.ones(len(rows), dtype=bool)
        return Known(value, missing != 0, exact)
    unbounded = null_flags(low) & null_flags(high)
    value = ~(unbounded & (missing >= rows))
    # bounds that are absent because nothing is present do not make a proof inexact
    return Known(value, missing != 0, exact | ~value, low, high)

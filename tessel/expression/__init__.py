"""Expressions: what a predicate or a projection is, how it is typed, computed, written and read.

The room knows nothing of storage or queries. `col`, `lit`, `when`, `where`, `coalesce` and `parse`
make expressions; `evaluate` computes one on an Arrow table; `evaluate_statistics` asks only
minimum, maximum and missing counts. Everything else is reached through these.
"""

from tessel.expression.build import (
    WhenBranches,
    WhenCondition,
    all_of,
    any_of,
    coalesce,
    col,
    lit,
    max_of,
    min_of,
    when,
    where,
)
from tessel.expression.context import ContextNode, ExpressionContext
from tessel.expression.encoded import BlockProgram, Number
from tessel.expression.evaluate import evaluate
from tessel.expression.node import Expression
from tessel.expression.plain_conditions import PlainCondition, plain_conditions
from tessel.expression.protocols import ArithmeticColumn, ColumnFacts, EncodedColumn, StatisticsView
from tessel.expression.raising import cannot_raise
from tessel.expression.registry import OPERATORS
from tessel.expression.rewriting import with_columns
from tessel.expression.schema import TableSchema
from tessel.expression.statistics import FALSE, TRUE, UNKNOWN, evaluate_statistics
from tessel.expression.text import parse

__all__ = [
    "FALSE",
    "OPERATORS",
    "TRUE",
    "UNKNOWN",
    "ArithmeticColumn",
    "BlockProgram",
    "ColumnFacts",
    "ContextNode",
    "EncodedColumn",
    "Expression",
    "ExpressionContext",
    "Number",
    "PlainCondition",
    "StatisticsView",
    "TableSchema",
    "WhenBranches",
    "WhenCondition",
    "all_of",
    "any_of",
    "cannot_raise",
    "coalesce",
    "col",
    "evaluate",
    "evaluate_statistics",
    "lit",
    "max_of",
    "min_of",
    "parse",
    "plain_conditions",
    "when",
    "where",
    "with_columns",
]

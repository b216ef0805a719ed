"""Expressions: what a predicate or a projection is, how it is typed, computed, written and read.

The room knows nothing of storage or queries. `col`, `lit`, `when`, `where`, `coalesce` and `parse`
make expressions; `evaluate` computes one on an Arrow table; `evaluate_statistics` asks only
minimum, maximum and missing counts. Everything else is reached through these.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "build": (
            "WhenBranches WhenCondition all_of any_of coalesce col lit max_of min_of when where"
        ),
        "context": "ExpressionContext",
        "block_columns": "ColumnForm",
        "encoded": "BlockProgram Number Output",
        "node": "Expression",
        "registry": "all_operators",
        "checking": "cannot_raise with_columns",
        "schema": "TableSchema",
        "intervals": "FALSE TRUE UNKNOWN ColumnFacts StatisticsView evaluate_statistics",
        "text": "parse",
    },
)

"""Tessel: a versioned store for time-series tables with one query pipeline.

The same query runs on a thread pool or as a Spark job::

    import tessel as ts

    store = ts.open("data/flights")
    store.write("flights", table, index="time_hour", sort=True)
    store.read("flights", query=ts.QueryBuilder().filter("dep_delay > 15").head(10))
"""

from tessel.api import LazyTable, Lineage, Result, Store
from tessel.api import open_store as open  # noqa: A004  # a module's own open, as in gzip and io
from tessel.clauses import (
    Clause,
    ClauseInfo,
    Explanation,
    LocalExecutor,
    QueryBuilder,
    Structure,
    SubQuery,
    register,
)
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression import Expression, coalesce, col, lit, parse, when, where
from tessel.expression.schema import TableSchema
from tessel.options import Options, options

__all__ = [
    "Clause",
    "ClauseInfo",
    "Explanation",
    "Expression",
    "LazyTable",
    "Lineage",
    "LocalExecutor",
    "Options",
    "ProcessingUnit",
    "QueryBuilder",
    "Result",
    "Store",
    "Structure",
    "SubQuery",
    "TableSchema",
    "TesselError",
    "coalesce",
    "col",
    "lit",
    "open",
    "options",
    "parse",
    "register",
    "when",
    "where",
]

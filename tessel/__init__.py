"""Tessel: a versioned store for time-series tables with one query pipeline.

The same query runs on a thread pool or as a Spark job::

    import tessel as ts

    store = ts.open("data/flights")
    store.write("flights", table, index="time_hour", sort=True)
    store.read("flights", query=ts.QueryBuilder().filter("dep_delay > 15").head(10))

Public names are imported when they are first used, so that a program which only might need
Tessel starts as fast as without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tessel.errors import TesselError
from tessel.options import Options, options

if TYPE_CHECKING:
    from tessel.api import Job, JobState, LazyTable, Lineage, Result, Store
    from tessel.api import open_store as open  # noqa: A004  # a module's own, as in gzip and io
    from tessel.clauses import (
        Clause,
        ClauseInfo,
        Explanation,
        IndexEffect,
        LocalExecutor,
        QueryBuilder,
        Structure,
        SubQuery,
        register,
    )
    from tessel.ecs import ProcessingUnit
    from tessel.expression import Expression, coalesce, col, lit, parse, when, where
    from tessel.expression.schema import TableSchema
    from tessel.store import AzureCredentials, CloudOptions, GoogleCredentials, S3Credentials

__all__ = [
    "AzureCredentials",
    "Clause",
    "ClauseInfo",
    "CloudOptions",
    "Explanation",
    "Expression",
    "GoogleCredentials",
    "IndexEffect",
    "Job",
    "JobState",
    "LazyTable",
    "Lineage",
    "LocalExecutor",
    "Options",
    "ProcessingUnit",
    "QueryBuilder",
    "Result",
    "S3Credentials",
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

_MODULES = {
    "tessel.api": ("Job", "JobState", "LazyTable", "Lineage", "Result", "Store", "open"),
    "tessel.clauses": (
        "Clause",
        "ClauseInfo",
        "Explanation",
        "IndexEffect",
        "LocalExecutor",
        "QueryBuilder",
        "Structure",
        "SubQuery",
        "register",
    ),
    "tessel.ecs": ("ProcessingUnit",),
    "tessel.expression": (
        "Expression",
        "TableSchema",
        "coalesce",
        "col",
        "lit",
        "parse",
        "when",
        "where",
    ),
    "tessel.store": ("AzureCredentials", "CloudOptions", "GoogleCredentials", "S3Credentials"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_OTHER_NAMES = {"open": "open_store"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tessel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), _OTHER_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

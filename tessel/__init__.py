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

from typing import TYPE_CHECKING

from tessel.errors import TesselError
from tessel.lazy import names_from
from tessel.options import Options, options

if TYPE_CHECKING:
    from tessel.api import Job, JobState, LazyTable, Lineage, Result, Store, from_spark
    from tessel.api import open_store as open  # noqa: A004  # a module's own, as in gzip and io
    from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
    from tessel.clauses.builder import QueryBuilder
    from tessel.clauses.combining import SubQuery
    from tessel.clauses.registry import register
    from tessel.ecs.unit import ProcessingUnit
    from tessel.expression.build import coalesce, col, lit, when, where
    from tessel.expression.node import Expression
    from tessel.expression.schema import TableSchema
    from tessel.expression.text import parse
    from tessel.pipeline.executor import LocalExecutor
    from tessel.pipeline.explain import Explanation
    from tessel.store.objects.cloud_place import CloudOptions
    from tessel.store.objects.credentials import (
        AzureCredentials,
        GoogleCredentials,
        S3Credentials,
    )

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
    "from_spark",
    "lit",
    "open",
    "options",
    "parse",
    "register",
    "when",
    "where",
]

__version__ = "0.1.0"
"""The version; packaging reads it here."""

__getattr__ = names_from(
    __name__,
    {
        "api": "Job JobState LazyTable Lineage Result Store from_spark open_store",
        "clauses.base": "Clause ClauseInfo IndexEffect Structure",
        "clauses.builder": "QueryBuilder",
        "clauses.combining": "SubQuery",
        "pipeline.explain": "Explanation",
        "clauses.registry": "register",
        "pipeline.executor": "LocalExecutor",
        "ecs.unit": "ProcessingUnit",
        "expression.build": "coalesce col lit when where",
        "expression.node": "Expression",
        "expression.schema": "TableSchema",
        "expression.text": "parse",
        "store.objects.cloud_place": "CloudOptions",
        "store.objects.credentials": "AzureCredentials GoogleCredentials S3Credentials",
    },
    asked_by_users=True,
    open="open_store",
)


def __dir__() -> list[str]:
    return sorted(__all__)

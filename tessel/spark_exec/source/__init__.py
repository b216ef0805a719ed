"""Data into Spark and out of it: the data source ``tessel``, and what moves whole tables.

Modules, inside out: ``options`` (what was asked for), ``types`` and ``rows`` (columns and rows in
both worlds), ``reader``, ``stream_reader`` and ``writer``, ``registration`` (the source as Spark
calls it), ``views``.
All but ``options`` import pyspark, so they are imported where a session is at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_source"]


def register_source(session: SparkSession) -> None:
    """Make ``format("tessel")`` known to a session; doing it again changes nothing.

    Raises
    ------
    MissingDependencyError
        Where pyspark is older than 4.0, which has no data sources in Python.
    """
    from tessel.spark_exec.versions import pyspark_version

    pyspark_version((4, 0), 'format("tessel")')
    from tessel.spark_exec.source.registration import TesselSource

    session.dataSource.register(TesselSource)

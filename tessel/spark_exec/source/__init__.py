"""Data into Spark and out of it: the data source ``tessel``, and what moves whole tables.

Modules, inside out: ``options`` (what was asked for), ``types`` and ``rows`` (columns and rows in
both worlds), ``reader``, ``writer`` and ``streams``, ``registration`` (the source as Spark
calls it), ``views``.
All but ``options`` import pyspark, so they are imported where a session is at hand.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_source"]


def register_source(session: SparkSession) -> None:
    """Make ``format("tessel")`` known to a session; doing it again changes nothing.

    From then on the errors of the source are raised as what they are, where pyspark would raise
    one of its own around a page that shows them.

    Raises
    ------
    MissingDependencyError
        Where pyspark is older than 4.0, which has no data sources in Python.
    """
    from tessel.spark_exec.versions import pyspark_version

    pyspark_version((4, 0), 'format("tessel")')
    from tessel.spark_exec.jobs import slots_of_session
    from tessel.spark_exec.source.registration import TesselSource

    slots = slots_of_session(session)
    # What cannot be imported by its name is sent as it is: the planner learns the slots by it.
    session.dataSource.register(type("TesselSource", (TesselSource,), {"slots": slots}))
    _raise_typed_errors()


def _raise_typed_errors() -> None:
    """Wrap what makes Python's exceptions of the JVM's: pyspark has no place to say more of one."""
    from pyspark.errors.exceptions import captured

    from tessel.spark_exec.errors_wire import marked_error, shown_error

    modules: list[Any] = [captured]
    if "pyspark.sql.connect.client.core" in sys.modules:
        modules.append(sys.modules["pyspark.sql.connect.client.core"])

    def raising_typed(convert: Any) -> Any:
        @functools.wraps(convert)
        def converted(*arguments: Any, **options: Any) -> Exception:
            error: Exception = convert(*arguments, **options)
            text = str(error)
            # What a worker was to tell counts more than what it was raised from.
            return marked_error(text) or shown_error(text) or error

        converted.of_tessel = True  # type: ignore[attr-defined]
        return converted

    for module in modules:
        if not hasattr(module.convert_exception, "of_tessel"):
            module.convert_exception = raising_typed(module.convert_exception)

"""The one Spark session of a test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of ours on two slots, shared by all tests of the run."""
    from tessel.spark_exec.runtime import spark_session, stop_session

    yield spark_session("local[2]")
    stop_session()

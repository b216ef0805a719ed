"""Codes of floats keep the sign of zero in tasks of Spark, too, with a segment a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tessel as ts
from tessel.spark_exec import SparkExecutor
from tessel.testing.parity import assert_parity
from tests.clauses.test_float_codes import QUERIES, TABLE
from tests.strategies.tables import bits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_sign_of_zero_stays(tmp_path: Path, spark: SparkSession) -> None:
    store = ts.open(str(tmp_path / "store"))
    with ts.options(segment_rows=1):
        store.write("x", TABLE, index="t")
        store.write("y", TABLE, index="t")
    for query in QUERIES.values():
        assert_parity(store, "x", query, SparkExecutor(spark))
    found = assert_parity(store, "x", QUERIES["read"], SparkExecutor(spark))
    assert isinstance(found, pa.Table)
    assert bits(found.column("c")) == bits(TABLE.column("c"))

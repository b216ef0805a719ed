"""The session of a process: ours is one, has our settings, and is not replaced."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tessel.errors import InvalidInputError
from tessel.spark_exec.runtime import active_session, is_own_session, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_there_is_one_session_for_all_threads(spark: SparkSession) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(spark_session("local[2]"))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(session is spark for session in found)
    assert spark_session() is spark_session("local[2]") is active_session() is spark
    assert is_own_session(spark)
    assert not is_own_session(spark.newSession())


def test_our_settings_are_in_force(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.defaultParallelism == 2
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_another_master_or_setting_is_refused_and_changes_nothing(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match=r"'local\[2\]' is running; 'local\[7\]'"):
        spark_session("local[7]")
    with pytest.raises(InvalidInputError, match=r"other settings of spark\.x"):
        spark_session(configuration={"spark.x": "1"})
    same = {"spark.sql.session.timeZone": "UTC"}
    assert spark_session("local[2]", configuration=same) is spark
    assert spark.range(3).count() == 3

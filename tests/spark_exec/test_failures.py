"""Failures of Spark itself are sentences that say what to do."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import CancelledError, SparkError
from tessel.spark_exec import shipping
from tessel.spark_exec.driver import within_start_timeout
from tessel.spark_exec.errors_wire import from_driver_exception, known_failure
from tessel.spark_exec.submission import check_same_package, package_archive, package_build

PAGE = (
    "An error occurred while calling o61.collectToPython.\n: org.apache.spark.SparkException: "
    "Job aborted due to stage failure: "
)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "Master removed our application: FAILED\n\tat",
            "the application (FAILED)",
            "wrote before",
        ),
        ("All masters are unresponsive! Giving up.", "master no longer answers", "stop_session"),
        (
            "Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 "
            "(TID 7) (127.0.0.2 executor 3): ExecutorLostFailure (executor 3 exited caused by one "
            "of the running tasks) Reason: Command exited with code 137\nDriver stacktrace:",
            "lost its executor 4 times: Command exited with code 137",
            "wrote before",
        ),
        ('IOException: Cannot run program "/no/python": error=2', "/no/python", "PYSPARK_PYTHON"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.9", "has 3.9", "PYSPARK_PYTHON"),
        ("ModuleNotFoundError: No module named 'tessel'\n", "module 'tessel'", "package_archive"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "no module 'pyarrow'", "PYSPARK_PYTHON"),
        (
            "SparkException: Python worker failed to connect back.\n\tat",
            "did not start within the time",
            "from its checkpoint",
        ),
        ("Job 3 failed because SparkContext was shut down", "session was stopped", "stop_session"),
        (
            "Total size of serialized results of 3 tasks (1.1 GiB) is bigger than "
            "spark.driver.maxResultSize (1024.0 MiB)",
            "too large to be collected: 1.1 GiB, where the session takes 1024.0 MiB",
            "iter_batches",
        ),
        ("<_InactiveRpcError status = StatusCode.UNAVAILABLE", "no longer answers", "connect anew"),
    ],
)
def test_pages_of_the_jvm_are_told_in_a_sentence(text: str, message: str, hint: str) -> None:
    error = from_driver_exception(RuntimeError(PAGE + text))
    assert isinstance(error, SparkError)
    assert message in error.message
    assert "\n" not in error.message
    assert hint in str(error.hint)


def test_a_job_that_spark_cancelled_is_cancelled() -> None:
    text = PAGE + "[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs"
    assert isinstance(from_driver_exception(RuntimeError(text)), CancelledError)
    assert known_failure(["ZeroDivisionError: division by zero"]) is None


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def test_a_worker_of_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"x": [1]})
    assert list(shipping.shipped(_same)(iter([batch]))) == [batch]
    monkeypatch.setattr(shipping, "package_build", lambda: "9.9")
    with pytest.raises(RuntimeError) as caught:
        next(shipping.shipped(_same)(iter([batch])))
    error = from_driver_exception(RuntimeError(f"{PAGE}{caught.value}\n at"))
    assert f"has Tessel {package_build()}; the driver has 9.9" in error.message
    assert sys.executable in error.message
    assert "package_archive()" in str(error.hint)


def test_modules_that_differ_are_another_build(tmp_path: Path) -> None:
    sent = tmp_path / "sent.zip"
    with zipfile.ZipFile(package_archive()) as source, zipfile.ZipFile(sent, "w") as target:
        for name in source.namelist():
            changed = name == "tessel/cached.py"
            target.writestr(name, source.read(name) + b"#\n" * changed)
    told = [
        subprocess.run(
            [
                sys.executable,
                "-S",
                "-c",
                f"import sys; sys.path[:0] = ['{place}', {_LIBRARY!r}]; {_TOLD}",
            ],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={},
        ).stdout.strip()
        for place in (package_archive(), sent)
    ]
    assert told[0] == package_build()  # an archive of it is the same package
    assert told[1] != told[0]
    with pytest.raises(SparkError, match=r"which has Tessel .*; the driver has 0\.0") as caught:
        check_same_package("0.0")
    assert "package_archive()" in str(caught.value.hint)


_TOLD = "from tessel.spark_exec.submission import package_build; print(package_build())"
_LIBRARY = sysconfig.get_path("purelib")


def test_a_worker_without_the_package_is_told(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    sent = tmp_path / "task"
    sent.write_bytes(cloudpickle.dumps(shipping.shipped(_same)))
    source = (
        f"import sys; sys.path.append({sysconfig.get_path('purelib')!r}); import pickle\n"
        f"next(pickle.load(open({str(sent)!r}, 'rb'))(iter([])))"
    )
    # Without the start-up files of the environment a checkout is not installed.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, cwd=tmp_path
    )
    error = from_driver_exception(RuntimeError(PAGE + done.stderr))
    assert "which lacks Tessel: No module named 'tessel'" in error.message
    assert "PYSPARK_PYTHON" in str(error.hint)


def test_a_silent_server_is_left() -> None:
    ever = threading.Event()
    with ts.options(spark_start_timeout=1), pytest.raises(SparkError, match="sc://x") as caught:
        within_start_timeout("sc://x", ever.wait)
    ever.set()
    assert "no session within 1 s" in str(caught.value.detail)
    assert within_start_timeout("sc://x", lambda: 7) == 7


_TRACEBACK = """\
[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):
  File "/w/tessel/spark_exec/source/options.py", line 7, in of
    raise NameNotFoundError.for_name("verb", verb, _VERBS)
tessel.errors.names.NameNotFoundError: [name-not-found] no verb 'upsrt'
    two lines
      of detail
  did you mean 'upsert'?
  in symbol: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/tessel/spark_exec/source/options.py", line 9, in of
    raise InvalidInputError("y") from error
{}
\tat org.apache.spark.sql.execution.python.PythonPlanner
"""  # noqa: E501  (as Spark has it)


def test_an_error_of_ours_in_a_page_is_raised_as_it_was() -> None:
    for error in (
        SparkError("it was so", hint="do this\nor that", detail="a\n  b\n\nc").with_context(
            symbol="'x'", clause="filter(a > 1)"
        ),
        SparkError("it was so: [no-kind] in x: y"),
    ):
        shown = f"{type(error).__module__}.{type(error).__name__}: {error}"
        found = from_driver_exception(RuntimeError(_TRACEBACK.format(shown)))
        assert type(found) is SparkError
        assert str(found) == str(error)
        assert (found.hint, found.context) == (error.hint, error.context)

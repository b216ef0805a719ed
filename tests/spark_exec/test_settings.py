"""Settings of our sessions, as pure functions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tessel.spark_exec.java import JavaChoice
from tessel.spark_exec.settings import (
    holds_temporary,
    import_folders,
    is_local,
    is_remote_url,
    launch_environment,
    session_settings,
    slots_of,
)
from tests.spark_exec.scripts import CHECKOUT

JAVA = JavaChoice(Path("/home"), "17.0.1", "JAVA_HOME", "because", Path("/home"))


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[ 4 , 2]", 4),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
    ],
)
def test_slots_of_a_master(master: str, slots: int | None) -> None:
    assert slots_of(master) == slots
    assert is_local(master) == (slots is not None)
    assert not is_remote_url(master)


@pytest.mark.parametrize(
    ("master", "loopback"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://cluster.example:7077", False),
        ("yarn", False),
    ],
)
def test_only_sessions_of_this_machine_are_bound_to_it(
    tmp_path: Path, master: str, loopback: bool
) -> None:
    settings = session_settings(master, "name", tmp_path, JAVA)
    assert ("spark.driver.host" in settings) == loopback
    assert ("spark.driver.bindAddress" in settings) == loopback


def test_a_local_session_writes_only_to_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    settings = session_settings("local[3]", "name", tmp_path, JAVA)
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.sql.warehouse.dir"].startswith(tmp_path.as_uri())
    assert settings["spark.local.dir"].startswith(str(tmp_path))
    assert str(tmp_path) in settings["spark.driver.extraJavaOptions"]
    assert settings["spark.pyspark.python"] == sys.executable
    assert "spark.driver.extraJavaOptions" not in session_settings("local", "n", tmp_path, None)


@pytest.mark.parametrize(
    ("folder", "is_short"), [("/tmp/ours", True), ("/tmp/" + "long" * 20, False), ("/a b", False)]
)
def test_sockets_of_the_jvm_have_short_paths(folder: str, is_short: bool) -> None:
    settings = session_settings("local[3]", "name", Path(folder), JAVA)
    options = settings["spark.driver.extraJavaOptions"]
    assert (f"-Djava.io.tmpdir={folder}" in options) == is_short
    assert holds_temporary(Path(folder)) == is_short


def test_workers_import_what_this_process_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "scripts"))
    monkeypatch.syspath_prepend(str(tmp_path / "absent"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    folders = import_folders()
    assert str(CHECKOUT) in folders
    assert str(tmp_path / "scripts") in folders
    assert str(tmp_path) in folders, "an empty entry is the working folder"
    assert str(tmp_path / "absent") not in folders
    assert len(set(folders)) == len(folders)
    assert not any(Path(folder).name.startswith(("python3", "site-packages")) for folder in folders)


def test_the_interpreter_of_a_cluster_may_be_said_that_of_this_machine_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/cluster/python")
    assert launch_environment("local[2]", JAVA)["PYSPARK_PYTHON"] == sys.executable
    assert launch_environment("yarn", JAVA)["PYSPARK_PYTHON"] == "/cluster/python"
    assert launch_environment("local", JAVA)["JAVA_HOME"] == str(Path("/home"))
    assert "JAVA_HOME" not in launch_environment("local", None)

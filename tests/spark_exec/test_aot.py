"""The warm start: where its cache belongs, when it is used, and one real warm-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessel.errors import InvalidInputError
from tessel.spark_exec import aot
from tessel.spark_exec.aot import aot_cache, aot_option, warmup
from tessel.spark_exec.java import JavaChoice
from tests.spark_exec.scripts import path_without_java, run_script

SPARK = Path("/spark")


def java(version: str, home: str = "/java") -> JavaChoice:
    return JavaChoice(Path(home), version, "PATH", f"Java {version} from PATH", Path(home))


def test_the_cache_is_named_after_java_and_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = {
        aot_cache(java("25.0.1"), "4.3.0", SPARK),
        aot_cache(java("25.0.2"), "4.3.0", SPARK),
        aot_cache(java("25.0.1", "/other"), "4.3.0", SPARK),
        aot_cache(java("25.0.1"), "4.3.1", SPARK),
        aot_cache(java("25.0.1"), "4.3.0", Path("/other")),
    }
    assert len(names) == 5
    assert all(name is not None and name.is_relative_to(tmp_path) for name in names)
    assert aot_cache(java("21.0.1"), "4.3.0", SPARK) is None


def test_it_is_used_once_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert aot_option(java("25"), "4.3.0", SPARK) is None
    cache = aot_cache(java("25"), "4.3.0", SPARK)
    assert cache is not None
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"")
    assert aot_option(java("25"), "4.3.0", SPARK) == f"-XX:AOTCache={cache}"


@pytest.mark.parametrize("others_write", ["", ".."])
def test_it_is_not_used_where_others_can_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_write: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = aot_cache(java("25"), "4.3.0", SPARK)
    assert cache is not None
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"")
    assert aot_option(java("25"), "4.3.0", SPARK) is not None
    (cache / others_write if others_write else cache).resolve().chmod(0o777)
    assert aot_option(java("25"), "4.3.0", SPARK) is None


def test_a_java_too_old_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aot, "choose_java", lambda: java("17.0.1"))
    with pytest.raises(InvalidInputError, match=r"Java 25 or newer; Java 17\.0\.1 from PATH"):
        warmup()


@pytest.mark.slow
@pytest.mark.spark
def test_a_warm_up_is_used_and_a_damaged_cache_does_no_harm(tmp_path: Path) -> None:
    environment = {
        "PATH": path_without_java(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    result = run_script(
        """
        import os
        from tessel.spark_exec.aot import warmup
        from tessel.spark_exec.doctor import diagnose
        from tessel.spark_exec.runtime import stop_session

        made = warmup()
        assert made.size > 50_000_000
        assert [entry.name for entry in made.path.parent.iterdir()] == [made.path.name]
        found = diagnose()
        assert found.problem is None, found.problem
        assert found.warm_cache == made.path
        stop_session()
        os.truncate(made.path, made.size // 2)
        found = diagnose()
        assert found.problem is None, found.problem
        stop_session()
        made.path.write_bytes(b"nonsense")
        found = diagnose()
        assert found.problem is None, found.problem
        print("done")
        """,
        folder=tmp_path,
        environment=environment,
    )
    assert result.stdout == "done\n", result.stderr
    assert result.returncode == 0

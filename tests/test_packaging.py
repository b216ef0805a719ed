"""What an installed Tessel is: every module imports, the import is light, the files are there."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tessel

ROOT = Path(__file__).parents[1]

HEAVY = (
    "pyspark",
    "py4j",
    "numba",
    "llvmlite",
    "pandas",
    "polars",
    "duckdb",
    "lark",
    "rich",
    "typer",
    "obstore",
)


def _modules_after(statement: str) -> set[str]:
    """Return the modules that a new interpreter holds after a statement."""
    program = f"import sys, json\n{statement}\njson.dump(sorted(sys.modules), sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr))


def test_import_is_light() -> None:
    loaded = _modules_after("from tessel import *")
    assert "tessel" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_help_is_light() -> None:
    statement = (
        "sys.argv = ['tessel', '--help']\n"
        "from tessel.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
    )
    loaded = _modules_after(statement)
    assert "typer" in loaded
    assert loaded.isdisjoint({*HEAVY, "numpy", "pyarrow"} - {"typer", "rich"})


def _module_names() -> list[str]:
    found = pkgutil.walk_packages(tessel.__path__, "tessel.", onerror=_fail)
    return sorted(module.name for module in found)


def _fail(name: str) -> None:
    raise AssertionError(f"the package {name} cannot be imported")


def test_every_module_can_be_imported_alone() -> None:
    """Each in the order given, in one interpreter that has imported nothing else of ours.

    Then every name that a module calls public is there; ruff does not see into starred lists.
    """
    names = _module_names()
    assert len(names) > 30
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    if name != 'tessel.spark_exec.daemon':\n"
        "        importlib.import_module(name)\n"
        "for name in sys.argv[1:]:\n"
        "    module = sys.modules.get(name)\n"
        "    for public in getattr(module, '__all__', ()):\n"
        "        getattr(module, public)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *names], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _only_tells_a_type(asked: ast.expr) -> bool:
    """Whether an asserted expression is one that narrows a type or compares what is at hand."""
    if isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not):
        asked = asked.operand
        return isinstance(asked, ast.Call) and _only_tells_a_type(asked)
    if isinstance(asked, ast.Call):
        telling = ("isinstance", "has_capability")
        return isinstance(asked.func, ast.Name) and asked.func.id in telling
    if isinstance(asked, ast.Compare):
        names = [
            node.func.id if isinstance(node.func, ast.Name) else ""
            for node in ast.walk(asked)
            if isinstance(node, ast.Call)
        ]
        return not any(isinstance(node, ast.NamedExpr) for node in ast.walk(asked)) and (
            set(names) <= {"len"}
        )
    return False


def test_no_assert_does_what_python_with_o_would_leave_out() -> None:
    """A property that raises, a call or a check of input in an assert is gone with ``-O``."""
    found = [
        f"{path.name}:{node.lineno}: {ast.unparse(node.test)}"
        for path in sorted(Path(tessel.__path__[0]).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and not _only_tells_a_type(node.test)
    ]
    assert found == []


def test_public_names_are_sorted_and_exist() -> None:
    assert list(tessel.__all__) == sorted(tessel.__all__)
    for name in tessel.__all__:
        assert getattr(tessel, name) is not None


def test_the_package_is_typed_and_licensed() -> None:
    assert (Path(tessel.__path__[0]) / "py.typed").is_file()
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("extra", ["spark", "cloud", "cli", "plot", "demo", "bench", "dev", "all"])
def test_extra_exists(extra: str) -> None:
    assert extra in metadata.metadata("tessel").get_all("Provides-Extra", [])


def test_every_requirement_of_dev_is_pinned() -> None:
    """What `make` installs is what `constraints.txt` says: nothing is left to the day's newest."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 for line in pins)
    pinned = {_folded(line.partition("==")[0]) for line in pins}
    assert _reachable("tessel", frozenset({"dev"}), set()) - {"tessel"} <= pinned


def _folded(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _reachable(
    name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> set[str]:
    """Return the names of everything that a package requires here, itself included."""
    from packaging.requirements import Requirement

    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    found = {_folded(name)}
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            found |= _reachable(requirement.name, frozenset(requirement.extras), seen)
    return found


def test_every_name_that_a_package_of_the_store_imports_on_first_use_is_there() -> None:
    found = 0
    for module in pkgutil.walk_packages(tessel.__path__, "tessel."):
        if module.ispkg and f"{module.name}.".startswith("tessel.store."):
            package = importlib.import_module(module.name)
            if hasattr(package, "__getattr__"):
                for name in inspect.getclosurevars(package.__getattr__).nonlocals["places"]:
                    assert getattr(package, name) is not None
                    found += 1
    assert found > 50


def test_no_module_takes_a_private_name_of_another() -> None:
    """Inner modules list no names: the underscore alone says which are for others (decision 85)."""
    found = [
        f"{path.name}: {node.module}.{each.name}"
        for path in sorted(Path(tessel.__path__[0]).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tessel")
        for each in node.names
        if each.name.startswith("_") and not each.name.startswith("__")
    ]
    assert found == []


def test_workflows_call_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    called = {m for each in workflows for m in re.findall(r"run: make ([a-z-]+)", each.read_text())}
    assert {"test", "coverage", "wheels"} <= called <= targets

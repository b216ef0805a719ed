"""The workflows call make targets and lanes that exist, on the Pythons that the package names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.versions.lanes import LANES

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _jobs(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_make_target(path: Path) -> None:
    steps = [step for job in _jobs(path).values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert len(commands) >= 2
    assert [each for each in commands if each.split()[0] != "make"] == []
    assert {each.split()[1] for each in commands} <= TARGETS


def test_the_pythons_are_those_that_the_package_names() -> None:
    jobs = _jobs(ROOT / ".github/workflows/tests.yml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [each.split(" :: ")[-1] for each in project["classifiers"] if "Python :: 3." in each]
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    lanes = jobs["versions"]["strategy"]["matrix"]["lane"]
    assert set(lanes) <= {lane.name for lane in LANES}
    assert {"newest", "oldest"} <= set(lanes)


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")))
def test_forms_of_issues_are_whole(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    assert len({each["id"] for each in form["body"]}) == len(form["body"])


def test_fragments_of_changes_are_of_a_known_kind() -> None:
    kinds = {
        each["directory"]
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"][
            "type"
        ]
    }
    names = [path.name for path in (ROOT / "changes").iterdir()]
    fragments = [name for name in names if name not in ("README.md", "template.md")]
    assert [
        name
        for name in fragments
        if not re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(kinds)})\.md", name)
    ] == []

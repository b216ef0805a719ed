"""The table of lanes holds together; the lanes themselves are run by ``make test-versions``."""

from __future__ import annotations

import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.versions.__main__ import ROOT, lower_bounds, python_for, turn_of
from tests.versions.lanes import LANES, TURNS, WAITING, Versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_each_lane_has_a_turn_or_a_reason_and_each_turn_comes() -> None:
    with_turn = {name for turn in TURNS for name in turn}
    assert with_turn | set(WAITING) == {lane.name for lane in LANES}
    assert with_turn.isdisjoint(WAITING)
    assert {turn_of(commits) for commits in range(40, 40 + len(TURNS))} == set(TURNS)


def test_each_extra_that_users_install_has_a_lane_of_the_wheel() -> None:
    of_developers = {"bench", "bench-formats", "dev", "docs"}
    tried = {extra for lane in LANES if not lane.tests for extra in lane.extras}
    assert tried == set(PROJECT["optional-dependencies"]) - of_developers
    assert any(not lane.tests and not lane.extras for lane in LANES)


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_what_a_lane_runs_is_there(lane) -> None:
    assert all((ROOT / path).exists() for path in lane.tests)


def test_the_oldest_versions_are_all_lower_bounds() -> None:
    """A requirement without a lower bound would be tried at its newest."""
    bounds = {each.partition("==")[0] for each in lower_bounds(PROJECT)}
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(each for name in extras for each in extras[name])]
    named = {Requirement(each).name for each in asked} - {"tessel"}
    assert named - bounds == {"pandas-stubs"}  # its versions are those of pandas
    assert "pyarrow==21" in lower_bounds(PROJECT)
    oldest = next(lane for lane in LANES if lane.versions is Versions.OLDEST)
    assert PROJECT["requires-python"] == f">={oldest.pythons[0]}"


def test_a_python_is_looked_for_by_running_it() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert python_for(("2.0", here)) == ([sys.executable], {})
    assert python_for(("2.0",)) is None

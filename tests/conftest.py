"""Settings shared by all tests: the hypothesis profiles, and how long a test may hang."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.spark_fixtures import spark  # noqa: F401  (a fixture)

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("normal", max_examples=40, deadline=None, suppress_health_check=_quiet)
settings.register_profile("slow", settings.get_profile("normal"), max_examples=2_000)
# What compares compiled kernels with their twins is to meet compiled ones, in each process.
os.environ.setdefault("TESSEL_JIT_WAIT", "1")
settings.load_profile(os.environ.get("TESSEL_TEST_PROFILE", "normal"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let slow tests run as long as they need, and keep all of Spark in one process.

    The limit of the others is there against hangs. Where tests run in several processes, those of
    Spark go to the same one: there is one session a run.
    """
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(0))
        uses_spark = item.get_closest_marker("spark") or "spark" in getattr(
            item, "fixturenames", ()
        )
        if uses_spark or item.nodeid.startswith("tests/spark_exec"):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish() -> None:
    """Take all that is there before the first test out of what garbage collections look through.

    Modules and collected tests are millions of objects, which no collection frees.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let what was frozen be collected when the process ends: bindings complain of what is left."""
    gc.unfreeze()

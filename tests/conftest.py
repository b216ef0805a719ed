"""Settings shared by all tests: the hypothesis profiles, and how long a test may hang."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.distribution import group_of, pytest_xdist_make_scheduler  # noqa: F401  (a hook)
from tests.spark_fixtures import spark  # noqa: F401  (a fixture)

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("normal", max_examples=25, deadline=None, suppress_health_check=_quiet)
settings.register_profile("slow", settings.get_profile("normal"), max_examples=2_000)
settings.load_profile(os.environ.get("TESSEL_TEST_PROFILE", "normal"))


class HungError(BaseException):
    """A test ran into the limit against hangs.

    No failure of pytest's, which hypothesis catches: it would run the example again, find that it
    passes, and say that the test is flaky instead of what happened.
    """


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """End a test at the limit by an error that nothing on its way catches."""
    on_main = threading.current_thread() is threading.main_thread()
    if settings.method != "signal" or not on_main:
        return None

    def end(signum: int, frame: object) -> None:
        faulthandler.dump_traceback()
        raise HungError(f"{item.nodeid} did not end within {settings.timeout} s")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # what pytest-timeout calls
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let slow tests run as long as they need, and see that tests of the session are grouped.

    The limit of the others is there against hangs.
    """
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(0))
        if "spark" in getattr(item, "fixturenames", ()) and group_of(item.nodeid) != "spark":
            raise pytest.UsageError(f"{item.nodeid} uses the session: its name must have spark")


def pytest_collection_finish() -> None:
    """Take all that is there before the first test out of what garbage collections look through.

    Modules and collected tests are millions of objects, which no collection frees.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let what was frozen be collected when the process ends: bindings complain of what is left."""
    gc.unfreeze()

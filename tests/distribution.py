"""Which tests the processes of pytest-xdist run: those that share a JVM go to the same one.

The groups of ``--dist=loadgroup`` have no effect from pytest 9.2 on: pytest-xdist 3.8 writes them
into the names of tests, which it can no longer change (its issue 1386), and nothing fails.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

__all__ = ["ByGroup", "group_of", "pytest_xdist_make_scheduler"]

_WITH_SERVERS = ("tests/spark_exec/test_cluster.py", "tests/spark_exec/test_connect.py")
"""Files whose tests share a cluster or a server of their own, and no session."""
_WITH_PROCESSES = ("tests/spark_exec/test_runtime.py",)
"""Files whose tests start processes with a session of their own, and share nothing."""


def group_of(nodeid: str) -> str:
    """Return what all tests that run in the same process as this one are grouped by.

    The process that distributes tests knows their names alone: a test that needs the session of the
    run has ``spark`` in its name, or in the path of its file.
    """
    file = nodeid.partition("::")[0]
    if file in _WITH_SERVERS:
        return file
    shares = "spark" in nodeid and file not in _WITH_PROCESSES
    return "spark" if shares else nodeid


class ByGroup(LoadScopeScheduling):
    """Gives groups to processes as wholes, those of most tests first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """Distribute tests by their groups, whatever ``--dist`` says."""
    return ByGroup(config, log)

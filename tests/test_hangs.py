"""A test that hangs is ended, and its error says that it hung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

HANGS = """
import threading
from hypothesis import given, strategies as st

calls = []

@given(st.integers())
def test_hangs_once(number):
    calls.append(number)
    if len(calls) == 3:
        threading.Event().wait()
"""


def test_an_example_that_hangs_is_not_called_flaky(tmp_path: Path) -> None:
    """Hypothesis would run the example again, which passes, and report a ``FlakyFailure``."""
    (tmp_path / "test_it.py").write_text(HANGS)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--timeout=1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "test_hangs_once did not end within 1.0 s" in done.stdout
    assert "Flaky" not in done.stdout

"""What the tests in Chromium need; without Playwright (`make test-browser`) there are none."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

if importlib.util.find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")  # Playwright leaves a running event loop to whoever comes next
def chromium() -> Iterator[Any]:
    """A browser: the one that the variable CHROMIUM names, one of the system, or Playwright's."""
    from playwright.sync_api import sync_playwright

    given = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given, args=["--no-sandbox"])
        yield browser
        browser.close()

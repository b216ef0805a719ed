"""How many cases a property draws whose cases are dear: few, or all by ``make test-slow``."""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["SLOW", "cases"]

SLOW = os.environ.get("TESSEL_TEST_PROFILE") == "slow"


def cases(few: int, full: int) -> settings:
    """Return the settings of a property: so many cases, and so many in the profile ``slow``."""
    return settings(max_examples=full if SLOW else few)

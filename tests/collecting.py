"""Collection of all that no version needs, in tests that have just written it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Protocol


class _Collects(Protocol):
    def gc(self, *, minimum_age: timedelta, dry_run: bool) -> Any: ...


def collect_all(store: _Collects) -> None:
    """Collect also what is as old as the collection itself.

    The clock of a file system ticks every few milliseconds: two thirds of the files that are
    written right behind another have its time. An object of the very tick in which a collection
    asks the clock is young, since it may have been written behind that, and it stays. Log entries
    stay for six hours.
    """
    while set(store.gc(minimum_age=timedelta(0), dry_run=False).young) - {"log"}:
        time.sleep(0.005)

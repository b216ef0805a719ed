"""An object of the tick in which a collection asks the clock is young, and goes with the next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tessel.store.maintenance import gc
from tessel.store.repository import Repository
from tests.collecting import collect_all


def test_what_was_written_in_the_tick_of_a_collection_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository.open(str(tmp_path / "store"))
    repository.stage("s", {"t": [1]}, task_id="0")
    found = (path for path in (tmp_path / "store").rglob("*") if path.parent.name in ("seg", "man"))
    staged = max(found, key=lambda path: path.stat().st_mtime_ns)
    tick = staged.stat().st_mtime_ns // 1_000
    monkeypatch.setattr(gc._Collection, "_place_us", lambda self: tick)
    report = repository.gc(minimum_age=timedelta(0), dry_run=False)
    assert staged.exists()
    assert set(report.young) & {"seg", "man"}
    monkeypatch.undo()
    collect_all(repository)
    assert not staged.exists()

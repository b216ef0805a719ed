"""A process with 128 descriptors does everything that one with a million does.

Each test is a process of its own, since the limit is one of processes: 1,500 small segments, each
an object, and 300 that are long enough to be mapped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = """
import gc, os, resource, sys
from datetime import timedelta
import numpy as np, pyarrow as pa, pyarrow.compute as pc
import tessel
import tessel.store.segment.writer as writer
from tessel.store.objects.mapped import map_count

def opened():
    return len(os.listdir("/dev/fd"))

def store_of(segments, rows):
    '''A symbol whose segments are objects of their own.'''
    writer.SMALL_SEGMENT_BYTES = 0
    count = segments * rows
    table = pa.table({"n": range(count), "x": np.random.default_rng(7).random(count)})
    with tessel.options(segment_rows=rows, fsync=False):
        store = tessel.open(sys.argv[1])
        store.write("many", table, index="n")
    return store, table

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
"""

SCRIPTS = {
    "read, query, compact and gc": """
from tessel.store.history.documents import open_store
from tessel.store.objects import LocalObjects
store, table = store_of(1500, rows=4)
before = opened()
dear = tessel.QueryBuilder().filter("x > 0.5")
for _ in range(2):
    assert store.read("many").to_arrow().equals(table)
    found = store.read("many", query=dear).to_arrow()
    assert found.equals(table.filter(pc.greater(table["x"], 0.5)))
assert opened() <= before + 2, (before, opened())

readers = []
for _ in range(2):
    objects = LocalObjects(sys.argv[1], mapped=False)
    identity = open_store(objects, create=False, read_only=True)
    readers.append(tessel.Store(objects, identity.id, read_only=True))
    assert readers[-1].read("many").to_arrow().equals(table)
# Readers keep no file open.
assert opened() <= before + 2, (before, opened())

with tessel.options(fsync=False):
    store.compact("many")
    store.expire(store.version, dry_run=False)
    gone = store.gc(minimum_age=timedelta(0), dry_run=False)
assert gone.deleted.objects >= 1500, gone
assert store.read("many").to_arrow().equals(table)
assert not store.check().damages
""",
    "mapped": """
store, table = store_of(300, rows=9000)
before = opened()
held = store.read("many", columns=["x"]).to_arrow()
assert held["x"].equals(table["x"])
assert map_count() >= 256, map_count()
assert opened() <= before + 2, (before, opened())
del held, store
for _ in range(3):  # what finalizers free in one collection is found by the next
    gc.collect()
assert map_count() == 0, map_count()
""",
    "live recordings": """
from tessel.store.events import LiveStore, Recorder
live = LiveStore()
with Recorder(live) as recorder:
    for frame in range(1500):
        recorder.log("arm", {"angle": float(frame)}, frame=frame)
writer.SMALL_SEGMENT_BYTES = 0
with tessel.options(segment_rows=1, fsync=False):
    store = tessel.open(sys.argv[1])
    live.save(store, "run")
before = opened()
again = [LiveStore.open(store, "run") for _ in range(2)]
for one in again:
    for frame in range(0, 1500, 50):
        assert one.latest_at("frame", frame, "arm")["angle"].cell.to_list() == [float(frame)]
    assert one.range("frame", 0, 1500, "arm").equals(live.range("frame", 0, 1500, "arm"))
assert opened() <= before + 8, (before, opened())
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_under_a_limit_of_128_descriptors(tmp_path: Path, name: str):
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + SCRIPTS[name], str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]

"""What a process imports: pandas, numba and lark never, and of ours what its queries use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tessel as ts
from tessel.clauses.registry import clause_names, find_clause

REFUSING = """
import sys
REFUSED = ("pandas", "numba", "lark")
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            import os, traceback
            traceback.print_stack()
            os._exit(3)
sys.meta_path.insert(0, Refuses())
"""
WRITES = """
import numpy as np, pyarrow as pa
import tessel as ts
from tessel import col
random = np.random.default_rng(5)
rows = 5_000
names = np.repeat(np.arange(4, dtype=np.int8), rows // 4)
def column(kind, values):
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(values))])
table = pa.table({
    "time": column(pa.timestamp("ns"), 10**18 + np.arange(rows) * 10**9),
    "symbol": column(pa.int8(), names),
    "name": pa.StringArray.from_buffers(
        rows, pa.py_buffer(np.arange(rows + 1, dtype=np.int32)), pa.py_buffer(b"abcde" * 1000)),
    "price": column(pa.float64(), np.round(random.normal(100, 1, rows), 2)),
    "size": column(pa.int32(), random.integers(1, 500, rows).astype(np.int32)),
    "value": column(pa.float64(), random.normal(size=rows)),
})
store = ts.open(PLACE)
store.write("trades", table, index="time")
"""
READS = """
import tessel as ts
from tessel import col
store = ts.open(PLACE)
store.read("trades", columns=["size"])
"""
QUERIES = """
query = store.scan("trades")
query.filter("price > 100.5 and size < 250").collect()
query.groupby("symbol").agg(rows="size", total=("size", "sum"), mean=("price", "mean")).collect()
query.resample("1h").agg(low=("price", "min"), total=("size", "sum")).collect()
"""
MORE = """
query.head(10).collect()
query.tail(10).collect()
query.sort("price").collect()
query.sort("value").head(3).collect()
query.date_range("2001-09-09T02:00").filter(col("time") < "2001-09-09T02:30").collect()
query.filter(col("price").is_in([100.0, 101.5]) | col("name").contains("bc")).collect()
query.apply("twice", ts.when(col("price") > 100).then(col("size") * 2).otherwise(0)).collect()
query.cast({"size": "float64"}).rename({"size": "much"}).drop("name").collect()
query.groupby("symbol").agg(middle=("value", "median"), first=("size", "first")).collect()
query.groupby("name").agg(spread=("price", "std"), values=("size", "nunique")).collect()
query.distinct("symbol").collect()
query.value_counts("symbol").collect()
query.describe().collect()
query.rolling(3).agg(mean=("price", "mean")).collect()
query.ewm(alpha=0.5).agg(mean=("price", "mean")).collect()
query.shift("price").cum_sum("size").rank("value").collect()
query.resample("1h").agg(last=("price", "last")).fill("last").collect()
query.join("trades", on="time").collect()
query.join_asof("trades", on="time").collect()
query.concat("trades").collect()
query.merge("trades").collect()
from tessel.store.events import LiveStore, Recorder
live = LiveStore()
with Recorder(live) as recorder:
    recorder.log("robot/arm", {"angle": 0.5, "name": "left"}, frame=42)
live.latest_at("frame", 50, "robot/arm")
"""
COMMANDS = """
from pathlib import Path
from tessel.cli.app import app
file = Path(PLACE, "a.csv")
file.write_text("at,s,p,n\\n2024-01-01 00:00:00,A,1.5,1\\n2024-01-02 00:00:00,B,2.5,2\\n")
lines = Path(PLACE, "a.jsonl")
lines.write_text('{"at": "2024-01-01 00:00:00", "n": 1, "p": 1.5}\\n')
import contextlib, io
for words in (
    f"import {file} --symbol t --index at", f"import {lines} --symbol u --index at",
    "ls", "show t", "show t -o csv", "log", "versions t", "diff 1 1", "explain t --analyze",
    "tag create x", "tag list",
):
    with contextlib.redirect_stdout(io.StringIO()):
        assert not app([*words.split(), "-s", f"{PLACE}/shop"], standalone_mode=False), words
"""
COUNTS = """
ours = [name for name in sys.modules if name.partition(".")[0] == "tessel"]
print(len(ours), len(sys.modules))
"""


def run(place: Path, *parts: str) -> list[int]:
    program = "\n".join((REFUSING, f"PLACE = {str(place)!r}", *parts, COUNTS))
    # Not with what measures coverage in programs that tests start: its modules would be counted.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_no_process_imports_what_only_others_need(tmp_path: Path) -> None:
    run(tmp_path, WRITES, READS, QUERIES, MORE)


def test_commands_import_what_they_use(tmp_path: Path) -> None:
    run(tmp_path, COMMANDS)


def test_queries_import_what_they_use(tmp_path: Path) -> None:
    run(tmp_path, WRITES)
    reading, all_reading = run(tmp_path, READS)
    asking, all_asking = run(tmp_path, READS, QUERIES)
    assert reading <= 205
    assert all_reading <= 460
    assert asking <= 295
    assert all_asking <= 550


def test_the_class_of_a_clause_of_ours_has_its_name() -> None:
    for name in clause_names():
        found = find_clause(name)
        if found.__module__.startswith("tessel."):
            assert found.__name__ == "".join(map(str.capitalize, name.split("_")))
            assert getattr(ts.clauses, found.__name__) is found

"""Hints never advise what was given: each hint that names an option, in calls that give it.

The hints are found in the source. One that names an option with a value has a case here: a call
that gives the option so, and is refused all the same. Where it is never refused, that is shown.
"""

from __future__ import annotations

import ast
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tessel as ts
from tessel.compat.arcticdb import Arctic
from tessel.errors import SparkError, TesselError
from tessel.spark_exec.driver import check_answers
from tessel.store import events

OPTION = re.compile(r"""\b([a-z_]+)=('[a-z]\w*(?:\[2\])?'|"[a-z]\w*"|True|False)""")
TABLE = pa.table({"t": [1, 2, 3], "v": pa.array([1, 2, 3], pa.int32()), "k": ["a", "b", "c"]})


def advice(hint: str | None) -> set[tuple[str, str]]:
    """Return the options that a hint names with a value."""
    return {(name, value.strip("'\"")) for name, value in OPTION.findall(hint or "")}


@dataclass(frozen=True)
class Given:
    """A call that gives an option as hints advise it; ``refused`` where it is an error still."""

    option: str
    value: str
    call: Callable[[ts.Store, Path], Any]
    refused: bool = True


def _rows(**columns: Any) -> pa.Table:
    return pa.table({"t": [4], "v": pa.array([4], pa.int32()), **columns})


def _live(**times: Any) -> None:
    with events.Recorder(events.LiveStore()) as recorder:
        recorder.log("robot", {"angle": 1.0}, **times)


def _load_damaged(folder: Path, **how: Any) -> None:
    """Load a dump of which a bit is flipped."""
    live = events.LiveStore()
    with events.Recorder(live) as recorder:
        recorder.log("robot", {"angle": 1.0}, frame=1)
    path = folder / "events"
    live.dump(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    events.LiveStore().load(path, **how)


def _append(rows: pa.Table, evolve: Any) -> Callable[[ts.Store, Path], Any]:
    return lambda store, folder: store.append("frame", rows, evolve=evolve)


def _finalize(**options: Any) -> Callable[[ts.Store, Path], Any]:
    def call(store: ts.Store, folder: Path) -> Any:
        parts = [
            store.stage("new", TABLE, task_id="1", index="t"),
            store.stage("new", _rows(k=["x"]).drop(["v"]), task_id="2", index="t"),
        ]
        return store.finalize("new", parts, **options)

    return call


CASES = [
    Given(
        "account",
        "name",
        lambda store, folder: ts.open("s3://bucket/a", options={"account": "name"}),
    ),
    Given("evolve", "add", _append(_rows(), "add")),
    Given("evolve", "add", _append(_rows(k=[1]), "add")),
    Given("evolve", "add", _append(_rows(k=["x"]).set_column(1, "v", [["x"]]), ["add", "widen"])),
    Given("evolve", "add", _append(_rows(new=["x"]), ["add"])),
    Given("evolve", "flexible", _append(_rows(k=[1]), "flexible")),
    Given("evolve", "widen", _append(_rows(), "widen")),
    Given("evolve", "widen", _append(_rows(k=["x"], new=[1]), "widen")),
    Given("evolve", "widen", _append(_rows(k=[1]), ["widen", "add"])),
    Given("create", "True", lambda store, folder: ts.open(str(folder / "no"), create=True), False),
    Given(
        "validate_index",
        "False",
        lambda store, folder: (
            Arctic("mem://hints")
            .create_library("x")
            .write("s", pd.DataFrame({"v": [1, 2]}, pd.to_datetime([2, 1])), validate_index=False)
        ),
        False,
    ),
    Given(
        "create",
        "True",
        lambda store, folder: ts.open(str(folder / "no"), create=True, read_only=True),
    ),
    Given(
        "read_only",
        "False",
        lambda store, folder: ts.open(str(folder / "no"), create=False, read_only=False),
    ),
    Given("timeless", "True", lambda store, folder: _live(timeless=True, frame=3)),
    Given("timeless", "True", lambda store, folder: _live(timeless=True), False),
    Given("salvage", "True", lambda store, folder: _load_damaged(folder, salvage=True), False),
    Given("method", "value", lambda store, folder: ts.QueryBuilder().fill("v", "value")),
    Given(
        "join",
        "outer",
        lambda store, folder: store.scan("frame").concat("texts", join="outer").collect(),
    ),
    Given(
        "empty",
        "omit",
        lambda store, folder: (
            store.scan("times").resample("1us", empty="omit").agg(n="size").collect()
        ),
        False,
    ),
    Given(
        "on",
        "column",
        lambda store, folder: store.scan("unordered").merge("frame", on="column").schema(),
    ),
    Given(
        "on",
        "column",
        lambda store, folder: store.scan("frame").join("frame", on="column").schema(),
    ),
    Given(
        "on",
        "key",
        lambda store, folder: store.scan("frame").join("frame", on="key").schema(),
    ),
    Given("left_on", "key", lambda store, folder: ts.QueryBuilder().join("frame", left_on="key")),
    Given("right_on", "id", lambda store, folder: ts.QueryBuilder().join("frame", right_on="id")),
    Given("index", "column", lambda store, folder: store.write("new", TABLE, index="column")),
    Given(
        "index",
        "column",
        lambda store, folder: store.stage("new", TABLE, task_id="1", index="column", sort=True),
    ),
    Given("sort", "True", _finalize(sort=True)),
    Given("sort", "True", lambda store, folder: store.write("new", TABLE, sort=True)),
    Given("mode", "write", _finalize(mode="write")),
    Given(
        "executor",
        "local",
        lambda store, folder: store.read("nope", executor="local"),
    ),
    Given(
        "keep",
        "first",
        lambda store, folder: ts.QueryBuilder().distinct("nope", keep="first"),
        False,
    ),
    Given(
        "spark_master",
        "local[2]",
        lambda store, folder: check_answers("local[2]"),
        False,
    ),
    Given(
        "allow_http",
        "True",
        lambda store, folder: ts.CloudOptions(endpoint="http://user:pw@host", allow_http=True),
    ),
]


@pytest.fixture
def store() -> ts.Store:
    made = ts.open("memory://")
    made.write("frame", TABLE, index="t")
    made.write("unordered", pa.table({"column": ["b", "a"], "v": [1, 2]}))
    made.write("texts", pa.table({"t": ["x"]}))
    day = dt.datetime(2024, 1, 1)
    made.write("times", pa.table({"t": [day, day + dt.timedelta(days=90)]}), index="t")
    return made


@pytest.mark.parametrize("given", CASES, ids=lambda given: f"{given.option}={given.value}")
def test_a_hint_does_not_advise_what_was_given(
    given: Given, store: ts.Store, tmp_path: Path
) -> None:
    if not given.refused:
        given.call(store, tmp_path)
        return
    with pytest.raises(TesselError) as caught:
        given.call(store, tmp_path)
    assert (given.option, given.value) not in advice(caught.value.hint), caught.value.hint


def test_a_hint_of_rows_that_can_grow_advises_all_that_is_needed(store: ts.Store) -> None:
    rows = pa.table({"t": [4], "v": [4.0], "k": ["x"], "new": [1]})
    with pytest.raises(TesselError) as caught:
        store.append("frame", rows, evolve="add")
    assert "evolve=['add', 'widen']" in str(caught.value.hint)
    store.append("frame", rows, evolve=["add", "widen"])


def test_a_hint_of_rows_that_lack_a_column_says_so(store: ts.Store) -> None:
    with pytest.raises(TesselError) as caught:
        store.append("frame", _rows(), evolve="add")
    assert caught.value.hint == (
        "cast or rename the columns, let them grow with evolve='flexible', add those that are "
        "missing, of nulls, or write the symbol anew"
    )
    store.append("frame", _rows(), evolve="flexible")


def test_no_spark_master_is_advised_to_one_who_gave_a_local_one() -> None:
    with pytest.raises(SparkError) as caught:
        check_answers("spark://127.0.0.1:1")
    assert ("spark_master", "local[2]") in advice(caught.value.hint)


def _hints_in_source() -> set[tuple[str, str]]:
    found = set()
    for path in Path(ts.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                for part in ast.walk(node.value):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        found |= advice(part.value)
    return found


EXAMPLES = {
    *[("where", "price"), ("tz", "UTC"), ("drop", "True"), ("frozen", "True")],
    ("utc", "True"),  # of pandas.to_datetime
    ("rows", "count"),  # an output of agg
    ("errors", "replace"),  # of bytes.decode
    ("executor", "spark"),  # tests/spark_exec/test_streamed.py takes the hint
}
"""What looks like an option of ours and is none, or is an example for a value."""


def test_every_hint_that_names_an_option_has_a_case() -> None:
    without = _hints_in_source() - {(given.option, given.value) for given in CASES} - EXAMPLES
    assert sorted(without) == []

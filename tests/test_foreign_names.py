"""Names of other systems: each raises one error that says ours, and ours is there and runs."""

from __future__ import annotations

import collections
import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, feather, parquet

import tessel as ts
from tessel.errors import UnknownVerbError
from tessel.errors.foreign_names import FOREIGN_NAMES, ForeignName
from tessel.store.events import LiveStore, Recorder
from tests.migration_pages import PAGES, page

TIMES = [f"2024-01-01T{hour:02}:00:00" for hour in range(24)]


@pytest.fixture
def store() -> ts.Store:
    found = ts.open("memory://")
    query = ts.QueryBuilder().cast({"time": "timestamp[us]"})
    found.write(
        "raw",
        {
            "time": TIMES,
            "symbol": ["a", "b"] * 12,
            "price": [1.5, 2.0, 3.0] * 8,
            "marks": [[1, 2]] * 24,
        },
    )
    found.write("trades", found.read("raw", query=query), index="time")
    found.create_tag("before")
    found.write("names", {"symbol": ["a", "b"]})
    return found


def logged() -> LiveStore:
    live = LiveStore()
    with Recorder(live) as recorder:
        for frame in range(5):
            recorder.log("robot/arm", {"angle": frame / 2}, frame=frame)
    return live


def owner(store: ts.Store, on: str) -> Any:
    lazy = store.scan("trades")
    return {
        "store": lambda: store,
        "builder": lambda: store,  # which runs the query
        "query": lambda: lazy,
        "lazy": lambda: lazy,
        "expression": lambda: ts.col("price"),
        "result": lambda: lazy.collect(),
        "live": logged,
        "recorder": lambda: Recorder(LiveStore()),
        "module": lambda: ts,
        "schema": lambda: store.schema("trades"),
    }[on]()


def asked(store: ts.Store, on: str) -> Any:
    return ts.QueryBuilder() if on in ("query", "builder") else owner(store, on)


def _files(store: ts.Store) -> None:
    """Make a store in this folder, and the files that it is written from."""
    rows = store.read("trades").to_arrow().select(["time", "symbol", "price"])
    ts.open("data").write("trades", rows, index="time")
    csv.write_csv(rows, "trades.csv")
    csv.write_csv(rows, "trades.tsv", csv.WriteOptions(delimiter="\t"))
    parquet.write_table(rows, "trades.parquet")
    feather.write_feather(rows, "trades.feather")
    feather.write_feather(rows, "trades.arrow")
    Path("trades.jsonl").write_text('{"price": 1.5}\n')


OWN_SETTING = {
    "open": _files,
    "delete_tag": lambda store: store.create_tag("eod"),
}
ON_TEXT = ("str", "strip", "lower", "upper", "contains", "starts_with", "ends_with", "matches")
ON_TEXT += ("length", "slice")


def _shown(row: ForeignName) -> str:
    return f"{row.system}-{row.on}-{row.theirs}"


@pytest.mark.parametrize("row", FOREIGN_NAMES, ids=_shown)
def test_the_error_says_ours(store: ts.Store, row: ForeignName) -> None:
    is_verb = row.written().startswith("lazy.") and row.theirs == row.our_name
    if row.theirs == row.our_name and not is_verb and row.on != "builder":
        pytest.fail("a name that means the same here needs no row")
    with pytest.raises(UnknownVerbError) as caught:
        getattr(asked(store, row.on), row.theirs)
    assert isinstance(caught.value, AttributeError)
    ours = "a verb of queries" if is_verb else repr(row.our_name)
    if row.theirs == row.our_name and row.on == "builder":
        ours = "of a store"
    assert caught.value.message == f"{row.theirs!r} is {ours} here"
    assert not hasattr(asked(store, row.on), row.theirs)


@pytest.mark.parametrize("row", FOREIGN_NAMES, ids=_shown)
def test_ours_runs(
    store: ts.Store, row: ForeignName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    OWN_SETTING.get(row.our_name, lambda store: None)(store)
    known = {"owner": owner(store, row.on), "ts": ts, "store": store, "q": ts.QueryBuilder()}
    found = eval(row.written("owner"), {**known, "lazy": store.scan("trades")})
    if row.on == "query" or isinstance(found, ts.LazyTable):
        found.collect()
    elif row.on == "expression":
        if row.our_name in ON_TEXT:
            column = "symbol"
        elif row.our_name in ("year", "floor", "weekday"):
            column = "time"
        else:
            column = "price"
        if row.our_name == "field":
            return  # of structs, which no symbol here has
        made = eval(f"ts.col({column!r}).{row.ours}", {"ts": ts})
        query = store.scan("trades")
        is_aggregate = row.our_name in ("sum", "count", "nunique", "mean", "std", "var")
        (query.agg(x=made) if is_aggregate else query.apply("x", made)).collect()
    elif row.our_name == "iter_batches":
        assert sum(batch.num_rows for batch in found) == len(TIMES)


def test_one_name_has_one_answer() -> None:
    answers = collections.defaultdict(set)
    for row in FOREIGN_NAMES:
        answers[row.on, row.theirs].add(row.our_name)
    assert {name: ours for name, ours in answers.items() if len(ours) > 1} == {}
    assert len({(row.system, row.on, row.theirs) for row in FOREIGN_NAMES}) == len(FOREIGN_NAMES)


@pytest.mark.parametrize(
    "on", ["store", "lazy", "expression", "result", "live", "recorder", "module"]
)
def test_a_misspelt_name_gets_the_nearest(store: ts.Store, on: str) -> None:
    thing = owner(store, on)
    for name in ("column_nams", "symbls", "fliter", "is_inn"):
        with pytest.raises(UnknownVerbError, match=f"has no '{name}'"):
            getattr(thing, name)
    right = {
        "store": "symbols",
        "lazy": "filter",
        "expression": "is_in",
        "result": "to_pandas",
        "live": "latest_at",
        "recorder": "flush",
        "module": "QueryBuilder",
    }[on]
    with pytest.raises(UnknownVerbError, match=f"did you mean '{right}'"):
        getattr(thing, right[:-1] + "x" * (on == "expression"))


def test_private_names_are_plain_attribute_errors(store: ts.Store) -> None:
    for on in ("store", "lazy", "expression", "result", "module"):
        with pytest.raises(AttributeError) as caught:
            _ = owner(store, on)._repr_mimebundle_
        assert type(caught.value) is AttributeError
    expression = ts.col("a") > 1
    assert copy.deepcopy(expression).equals(expression)
    assert pickle.loads(pickle.dumps(expression)).equals(expression)


def test_the_error_of_a_property_stays_what_it_is(store: ts.Store) -> None:
    class Odd(ts.Result):
        @property
        def wrong(self) -> Any:
            raise AttributeError("from within")

    made = store.read("trades")
    with pytest.raises(AttributeError, match="from within"):
        _ = Odd(made.to_arrow(), made.index, lambda: made.lineage).wrong


def test_the_table_is_imported_for_a_name_that_is_missing_alone(tmp_path: Path) -> None:
    script = (
        "import sys, tessel as ts\n"
        f"store = ts.open({str(tmp_path / 's')!r})\n"
        "store.write('t', {'a': [1, 2]})\n"
        "store.scan('t').filter(ts.col('a') > 1).agg(n=('a', 'sum')).collect()\n"
        "assert 'tessel.errors.foreign_names' not in sys.modules\n"
        "hasattr(store, 'list_symbols')\n"
        "assert 'tessel.errors.foreign_names' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


CHECKERS = {
    "mypy": ("mypy", "--follow-imports=silent", "--no-incremental"),
    "pyright": ("basedpyright", "--level", "error"),
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_see_a_misspelt_name(tmp_path: Path, checker: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import tessel as ts\n"
        "store = ts.open('memory://')\n"
        "store.scan('a').head(1).collect().to_pandas()\n"
        "store.scan('a').groupby('b').agg('sum').resample('1h', tz='UTC').agg(n='count')\n"
        "store.scan('a').fliter('x > 1')\n"
        "ts.QueryBuilder().limit(1)\n"
        "ts.col('a').isin([1])\n"
        "store.list_symbols()\n"
        "store.read('a').data\n"
        "store.scan('a').groupby('b').mean()\n"
        "ts.col('a').roundd()\n"
    )
    command = [sys.executable, "-m", *CHECKERS[checker], str(program)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    found = re.findall(r"program\.py:(\d+).* error: ", done.stdout)
    assert sorted(map(int, found)) == [*range(5, 12)], done.stdout


@pytest.mark.parametrize("system", PAGES)
def test_the_pages_are_made_from_the_table(system: str) -> None:
    path = Path(__file__).parents[1] / "docs" / f"coming-from-{system}.md"
    assert path.read_text() == page(system), "write it anew: python -m tests.migration_pages"

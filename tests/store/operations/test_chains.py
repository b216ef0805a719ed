"""Random chains of changes against a list of rows: content, queries, positions, old versions."""

from __future__ import annotations

import bisect
import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessel import col
from tessel.api import Store
from tessel.options import options
from tessel.store import Repository
from tests.store.helpers import read

Row = dict[str, Any]

_NAMES = ("a", "b", "c", "d")


@dataclasses.dataclass
class Model:
    """A symbol as a list of rows; ``names`` are its columns without the index."""

    rows: list[Row]
    names: list[str]
    indexed: bool

    def copy(self) -> Model:
        return Model([dict(row) for row in self.rows], list(self.names), self.indexed)

    def times(self) -> list[int]:
        return [row["t"] for row in self.rows]

    def table(self) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows] for name in ("t", *self.names)}


class Chain:
    """Draws changes and makes them in a store and in the model alike."""

    def __init__(self, data: st.DataObject, repository: Repository, indexed: bool) -> None:
        self.data = data
        self.repository = repository
        self.model = Model([], ["a", "k"], indexed)
        self.versions: list[tuple[int, Model]] = []
        self.serial = 0

    def rows(self, low: int, high: int, count: int) -> list[Row]:
        drawn = [self.data.draw(st.integers(low, high)) for _ in range(count)]
        made = []
        for time in sorted(drawn) if self.model.indexed else drawn:
            self.serial += 1
            row = {"t": time, "k": self.serial}
            for name in self.model.names:
                if name != "k":
                    row[name] = self.data.draw(st.none() | st.integers(0, 50))
            made.append(row)
        return made

    def frame(self, rows: list[Row]) -> pa.Table:
        names = ["t", *self.model.names]
        return pa.table({n: pa.array([row[n] for row in rows], pa.int64()) for n in names})

    def write(self, tx: Any) -> None:
        self.model.names = ["a", "k"]
        self.model.rows = self.rows(0, 40, self.data.draw(st.integers(0, 20)))
        tx.write("s", self.frame(self.model.rows), index="t" if self.model.indexed else None)

    def append(self, tx: Any) -> None:
        last = self.model.rows[-1]["t"] if self.model.rows and self.model.indexed else 0
        rows = self.rows(last, last + 6, self.data.draw(st.integers(0, 6)))
        tx.append("s", self.frame(rows))
        self.model.rows += rows

    def update(self, tx: Any) -> None:
        if not self.model.indexed:
            return
        low = self.data.draw(st.integers(-2, 50))
        high = self.data.draw(st.integers(low, low + 15))
        rows = self.rows(low, high, self.data.draw(st.integers(0, 5)))
        bounds: tuple[int | None, int | None] | None = (low, high)
        if rows and self.data.draw(st.booleans()):
            bounds, low, high = None, rows[0]["t"], rows[-1]["t"]
        tx.update("s", self.frame(rows), date_range=bounds)
        start = bisect.bisect_left(self.model.times(), low)
        stop = bisect.bisect_right(self.model.times(), high)
        self.model.rows[start:stop] = rows

    def upsert(self, tx: Any) -> None:
        known = self.data.draw(
            st.lists(st.sampled_from(self.model.rows), unique_by=lambda r: r["k"], max_size=5)
            if self.model.rows
            else st.just([])
        )
        rows = self.rows(0, 50, self.data.draw(st.integers(0, 3)) + len(known))
        for row, old in zip(rows, known, strict=False):
            row["k"] = old["k"]
            if self.data.draw(st.booleans()):
                row["t"] = old["t"]
        rows = self.data.draw(st.permutations(rows))
        tx.upsert("s", self.frame(rows), keys=["k"])
        place = {row["k"]: at for at, row in enumerate(self.model.rows)}
        gone: set[int] = set()
        merged: list[Row] = []
        for row in rows:
            at = place.get(row["k"])
            same_time = at is not None and self.model.rows[at]["t"] == row["t"]
            if at is not None and (same_time or not self.model.indexed):
                self.model.rows[at] = row
                continue
            if at is not None:
                gone.add(at)
            merged.append(row)
        self.model.rows = [r for at, r in enumerate(self.model.rows) if at not in gone]
        if not self.model.indexed:
            self.model.rows += merged
            return
        for row in sorted(merged, key=lambda r: r["t"]):
            at = bisect.bisect_right(self.model.times(), row["t"])
            self.model.rows.insert(at, row)

    def delete_rows(self, tx: Any) -> None:
        start = self.data.draw(st.integers(0, len(self.model.rows)))
        stop = self.data.draw(st.integers(start, len(self.model.rows)))
        tx.delete_rows("s", rows=(start, stop))
        del self.model.rows[start:stop]

    def delete_where(self, tx: Any) -> None:
        bound = self.data.draw(st.integers(0, 50))
        tx.delete_rows("s", where=col("a") > bound)
        self.model.rows = [r for r in self.model.rows if r["a"] is None or r["a"] <= bound]

    def delete_times(self, tx: Any) -> None:
        if not self.model.indexed:
            return
        low = self.data.draw(st.none() | st.integers(0, 45))
        high = self.data.draw(st.none() | st.integers(low or 0, 60))
        tx.delete_rows("s", date_range=(low, high))
        self.model.rows = [
            row
            for row in self.model.rows
            if (low is not None and row["t"] < low) or (high is not None and row["t"] > high)
        ]

    def add_column(self, tx: Any) -> None:
        free = [name for name in _NAMES if name not in self.model.names]
        if not free:
            return
        name = self.data.draw(st.sampled_from(free))
        how = self.data.draw(st.sampled_from(["missing", "one", "all"]))
        values: Any = {"missing": None, "one": 7, "all": list(range(len(self.model.rows)))}[how]
        tx.add_column("s", name, values, data_type=pa.int64())
        self.model.names.append(name)
        for at, row in enumerate(self.model.rows):
            row[name] = values[at] if how == "all" else values

    def drop_column(self, tx: Any) -> None:
        free = [name for name in self.model.names if name not in ("a", "k")]
        if free:
            name = self.data.draw(st.sampled_from(free))
            tx.drop_column("s", name)
            self.model.names.remove(name)

    def swap_columns(self, tx: Any) -> None:
        others = [name for name in self.model.names if name not in ("a", "k")]
        if others:
            name = self.data.draw(st.sampled_from(others))
            tx.rename_columns("s", {"a": name, name: "a"})
            self.model.names = [{"a": name, name: "a"}.get(n, n) for n in self.model.names]
            for row in self.model.rows:
                row["a"], row[name] = row[name], row["a"]

    def check(self, tx: Any) -> None:
        """Read inside of the transaction."""
        assert tx.read("s").to_pydict() == self.model.table()
        stop = self.data.draw(st.integers(0, len(self.model.rows)))
        start = self.data.draw(st.integers(0, stop))
        part = {n: v[start:stop] for n, v in self.model.table().items()}
        assert tx.read("s", rows=(start, stop)).to_pydict() == part


ACTS = [
    Chain.append,
    Chain.append,
    Chain.update,
    Chain.update,
    Chain.upsert,
    Chain.delete_rows,
    Chain.delete_where,
    Chain.delete_times,
    Chain.add_column,
    Chain.drop_column,
    Chain.swap_columns,
    Chain.write,
    Chain.check,
]


def _check(repository: Repository, model: Model, data: st.DataObject, version: int) -> None:
    view = repository.view("s", version)
    expected = model.table()
    index = view.index()
    assert view.row_count == index.row_count == len(model.rows)
    # Those of columns that were dropped are there until the symbol is compacted.
    assert view.segment_count >= len(index)
    assert view.schema.names == ["t", *model.names]
    assert read(view).to_pydict() == expected
    if model.rows:
        some = data.draw(st.lists(st.integers(0, len(model.rows) - 1), max_size=6))
        taken = {name: [values[at] for at in some] for name, values in expected.items()}
        assert view.take(some).to_pydict() == taken
    store = Store.open(repository.uri)
    bound = data.draw(st.integers(0, 50))
    lazy = store.scan("s", as_of=version)
    found = lazy.filter(col("a") > bound).collect().to_arrow().to_pydict()
    kept = [row for row in model.rows if row["a"] is not None and row["a"] > bound]
    assert found == {name: [row[name] for row in kept] for name in expected}
    if model.indexed:
        low = data.draw(st.integers(0, 50))
        first, last = index.slice_first_time, index.slice_last_time
        assert first is not None
        assert last is not None
        times = model.times()
        bounds = zip(first, last, index.slice_row_start, index.slice_row_end, strict=True)
        assert all(a <= min(times[s:e]) and max(times[s:e]) <= b for a, b, s, e in bounds)
        found = lazy.filter(col("t").between(low, low + 5)).collect().to_arrow().to_pydict()
        kept = [row for row in model.rows if low <= row["t"] <= low + 5]
        assert found == {name: [row[name] for row in kept] for name in expected}


def _run(data: st.DataObject, steps: int) -> None:
    repository = Repository.open("memory://")
    chain = Chain(data, repository, data.draw(st.booleans(), label="indexed"))
    shape = {
        "segment_rows": data.draw(st.sampled_from([3, 5, 1000])),
        "segment_columns": data.draw(st.sampled_from([1, 2, 256])),
    }
    with options(**shape):
        with repository.transaction() as tx:
            chain.write(tx)
        chain.versions.append((repository.newest, chain.model.copy()))
        for _ in range(data.draw(st.integers(1, steps))):
            with repository.transaction() as tx:
                for act in data.draw(st.lists(st.sampled_from(ACTS), min_size=1, max_size=3)):
                    act(chain, tx)
            chain.versions.append((repository.newest, chain.model.copy()))
    _check(repository, chain.model, data, repository.newest)
    again = Repository.open(repository.uri, create=False)
    for version, model in chain.versions:
        _check(again, model, data, version)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_chains_of_changes_are_those_of_a_list_of_rows(data: st.DataObject) -> None:
    _run(data, 5)


@pytest.mark.slow
@settings(max_examples=2000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_long_chains_of_changes(data: st.DataObject) -> None:
    _run(data, 40)

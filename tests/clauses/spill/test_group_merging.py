"""Groups that are put aside: in memory while there is room, then in a file; the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import tessel
from tessel.clauses.aggregates import MergeableAggregate, find_aggregate
from tessel.clauses.grouped.group_merging import GroupMerge
from tessel.clauses.grouped.group_states import GroupShape
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.results import NamedAggregate
from tessel.clauses.spill import Workspace
from tessel.clauses.values import plain
from tessel.expression.schema import TableSchema
from tessel.options import Options
from tessel.pipeline.packing import FEW_ROWS

GROUPS = 3000


@pytest.mark.parametrize(
    ("budget", "aside", "in_file"),
    [(1 << 30, False, False), (1 << 19, True, False), (1 << 17, True, True)],
    ids=["held", "in memory", "in a file"],
)
def test_groups_put_aside_come_back(budget: int, aside: bool, in_file: bool) -> None:
    random = np.random.default_rng(2)
    table = pa.table({"k": random.integers(0, GROUPS, 12_000), "x": random.random(12_000)})
    source = TableSchema(table.schema)
    aggregates = (NamedAggregate("s", "x", find_aggregate("sum")),)
    shape = GroupShape(("k",), aggregates, source)
    with Workspace(Options(live_bytes=budget)) as workspace:
        merge = GroupMerge(shape, workspace)
        with merge as groups:
            for start in range(0, table.num_rows, 1000):
                part = table.slice(start, 1000)
                found = group_codes([part.column("k")], drop_missing=True)
                codes, keys = found.codes, found.keys
                groups.add(PartialGroups.of_rows(shape, part, codes, len(found), keys))
            assert groups.spilled == aside
            buffer = groups._spill_buffer
            assert (buffer is not None and buffer.spilled > 0) == in_file
            tables = list(groups.finished())
        assert workspace.account.alive == 0
    sums = pa.concat_tables(tables).sort_by("k")
    wanted = table.group_by("k").aggregate([("x", "sum")]).sort_by("k")
    assert sums.column("k").equals(wanted.column("k"))
    assert np.allclose(sums.column("s").to_numpy(), wanted.column("x_sum").to_numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("different", "budget", "aside"),
    [(1 << 40, 1 << 20, False), (1 << 40, 1 << 18, True), (9, 1 << 16, False)],
    ids=["held", "put aside", "merged"],
)
def test_states_of_values_are_held_as_they_come(different: int, budget: int, aside: bool) -> None:
    """Up to all that may be held, where values do not repeat; else they are merged."""
    random = np.random.default_rng(3)
    keys, values = random.integers(0, 20, 40_000), random.integers(0, different, 40_000)
    table = pa.table({"k": keys, "x": values})
    source = TableSchema(table.schema)
    aggregates = (NamedAggregate("m", "x", find_aggregate("median")),)
    shape = GroupShape(("k",), aggregates, source)
    with Workspace(Options(live_bytes=budget)) as workspace:
        with GroupMerge(shape, workspace) as groups:
            for start in range(0, table.num_rows, 2000):
                part = table.slice(start, 2000)
                found = group_codes([part.column("k")], drop_missing=True)
                codes, keys_found = found.codes, found.keys
                groups.add(PartialGroups.of_rows(shape, part, codes, len(found), keys_found))
            assert groups.spilled == aside
            medians = pa.concat_tables(groups.finished()).sort_by("k")
        assert workspace.account.alive == 0
    assert medians["k"].to_pylist() == list(range(20))
    assert medians["m"].to_pylist() == [float(np.median(values[keys == key])) for key in range(20)]


@pytest.mark.parametrize("keys", [(), ("k",)])
@pytest.mark.parametrize("different", [40_000, 200])
def test_texts_that_differ_are_not_joined_in_vain(
    different: int, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of dictionaries tells; those of texts that repeat are joined, and fit."""
    joined: list[GroupMerge] = []
    join = GroupMerge._join

    def counted(merge: GroupMerge) -> None:
        joined.append(merge)
        join(merge)

    monkeypatch.setattr(GroupMerge, "_join", counted)
    numbers = np.random.default_rng(4).permutation(np.arange(40_000) % different)
    table = pa.table({"k": numbers % 2, "n": pa.array(numbers).cast(pa.string())})
    aggregates = (NamedAggregate("d", "n", find_aggregate("nunique")),)
    shape = GroupShape(keys, aggregates, TableSchema(table.schema))
    with Workspace(Options(live_bytes=1 << 20)) as room, GroupMerge(shape, room) as groups:
        for start in range(0, table.num_rows, 2000):
            part, codes, found = table.slice(start, 2000), np.zeros(2000, np.int64), []
            if keys:
                grouped = group_codes([part.column("k")], drop_missing=True)
                codes, found = grouped.codes, grouped.keys
            groups.add(PartialGroups.of_rows(shape, part, codes, 1 + len(keys), found))
        assert (bool(joined), groups.spilled) == (different == 200, different > 200)
        counts = [table["d"].to_pylist() for table in groups.finished()]
    assert sum(sum(each) for each in counts) == different


class _Sized:
    """Stands for partial groups, and counts how often it is asked for its bytes."""

    asked = 0

    @property
    def nbytes(self) -> int:
        _Sized.asked += 1
        return 100


def test_what_is_held_is_not_asked_for_its_bytes_again() -> None:
    source = TableSchema(pa.schema({"k": pa.int64(), "x": pa.float64()}))
    aggregates = (NamedAggregate("s", "x", find_aggregate("sum")),)
    shape = GroupShape(("k",), aggregates, source)
    with Workspace(Options()) as workspace:
        merge = GroupMerge(shape, workspace)
        with merge as groups:
            _Sized.asked = 0
            for _ in range(1000):
                groups.add(_Sized())  # type: ignore[arg-type]
            assert _Sized.asked <= 2000
            assert workspace.account.alive == 100_000
        assert workspace.account.alive == 0


def test_units_that_are_held_as_numbers_are_asked_once_or_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    nbytes = vars(PartialGroups)["nbytes"]

    def counted(groups: PartialGroups) -> int:
        nonlocal asked
        asked += 1
        return int(nbytes.__get__(groups, PartialGroups))

    monkeypatch.setattr(PartialGroups, "nbytes", property(counted))
    units = 128
    size = FEW_ROWS + 1  # units of no more rows are read together
    table = pa.table({"k": [n % 5 for n in range(units * size)], "x": range(units * size)})
    with tessel.options(segment_rows=size):
        store = tessel.open("memory://")
        store.write("a", table)
    found = store.read("a", query=tessel.QueryBuilder().groupby("k").agg(s="sum(x)")).to_arrow()
    wanted = table.group_by("k").aggregate([("x", "sum")]).sort_by("k")
    assert found.sort_by("k").column("s").to_pylist() == wanted.column("x_sum").to_pylist()
    assert 0 < asked <= 6 * units


@dataclass(frozen=True)
class _Together(MergeableAggregate):
    """All values of a group in order of rows, as text: a state that grows, and is no reduction."""

    name: ClassVar[str] = "together"
    compact: ClassVar[bool] = False

    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        return pa.string()

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:
        return [pa.field("text", pa.string())]

    def partial(self, values: Any, codes: np.ndarray, groups: int) -> list[pa.Array]:
        return self._joined([str(value) for value in values.to_pylist()], codes, groups)

    def merge(
        self, states: Sequence[Any], codes: np.ndarray, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        return self._joined(states[0].to_pylist(), codes, groups)

    def finish(
        self, states: Sequence[Any], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        return plain(states[0])

    def _joined(self, texts: list[str], codes: np.ndarray, groups: int) -> list[pa.Array]:
        found: list[list[str]] = [[] for _ in range(groups)]
        for text, code in zip(texts, codes.tolist(), strict=True):
            found[code] += [text] if text else []
        return [pa.array([",".join(each) for each in found], pa.string())]


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["one group", "by key"])
@pytest.mark.parametrize("beside", [{}, {"m": ("x", "median")}], ids=["alone", "beside a median"])
@pytest.mark.parametrize("budget", [1 << 30, 1 << 14], ids=["held", "put aside"])
def test_states_that_grow_of_aggregates_of_ones_own_are_finished(
    keys: tuple[str, ...], beside: dict[str, Any], budget: int
) -> None:
    rows = 80_000
    table = pa.table({"k": np.arange(rows) % 3, "x": np.arange(rows)})
    query = tessel.QueryBuilder()
    grouped = query.groupby(*keys, sort=False) if keys else query
    with tessel.options(segment_rows=5_000):
        store = tessel.open("memory://")
        store.write("a", table)
    with tessel.options(live_bytes=budget, workers=1):
        found = store.read("a", query=grouped.agg(t=("x", _Together()), **beside)).to_arrow()
    groups = [range(rows)] if not keys else [range(key, rows, 3) for key in range(3)]
    assert found.column("t").to_pylist() == [",".join(map(str, own)) for own in groups]
    if beside:
        assert found.column("m").to_pylist() == [float(np.median(own)) for own in groups]

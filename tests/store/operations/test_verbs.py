"""What each verb does and refuses; a refusal leaves every byte of the store as it was."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tessel.api import Store
from tessel.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    DuplicateColumnError,
    ExpressionError,
    ExpressionTypeError,
    IndexColumnError,
    InvalidInputError,
    PlanError,
    SchemaMismatchError,
    SymbolNameError,
    SymbolNotFoundError,
    TesselError,
    UnsortedIndexError,
    UnsupportedTypeError,
)
from tessel.options import options
from tessel.store import Repository
from tessel.store.operations.incoming import can_widen
from tests.store.helpers import read
from tests.strategies.tables import PLAIN_TYPES

DAYS = pa.table(
    {
        "day": pa.array([dt.date(2020, 1, d) for d in (1, 2, 2, 5, 9)]),
        "x": pa.array([1, 2, 3, 4, 5], pa.int32()),
        "name": ["a", "b", "c", "d", None],
    }
)
PLAIN = pa.table({"k": [1, 2, 3], "f": [0.0, 1.0, float("nan")], "l": [[1], [2], [3]]})


def _listing(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def _days(*days: int, x: int = 0) -> pa.Table:
    return pa.table(
        {
            "day": pa.array([dt.date(2020, 1, d) for d in days], pa.date32()),
            "x": pa.array([x] * len(days), pa.int32()),
            "name": pa.array([None] * len(days), pa.string()),
        }
    )


BAD_INPUT: dict[str, tuple[Callable[[Repository], Any], type[TesselError], str]] = {
    "append before": (lambda r: r.append("days", _days(8)), UnsortedIndexError, "update"),
    "append names staged": (lambda r: r.append("days", _days(8)), UnsortedIndexError, "staged"),
    "evolve": (
        lambda r: r.append("days", _days(9), evolve="grow"),
        InvalidInputError,
        "add, widen",
    ),
    "new column": (
        lambda r: r.append("days", _days(9).append_column("n", pa.array([1]))),
        SchemaMismatchError,
        "'n' is new",
    ),
    "update unknown": (lambda r: r.update("dys", _days(1)), SymbolNotFoundError, "'days'"),
    "update without index": (lambda r: r.update("plain", PLAIN), IndexColumnError, "index"),
    "update without rows": (lambda r: r.update("days", _days()), InvalidInputError, "date_range"),
    "update unsorted": (lambda r: r.update("days", _days(2, 1)), UnsortedIndexError, "row 1"),
    "update outside": (
        lambda r: r.update("days", _days(7), date_range=("2020-01-02", "2020-01-06")),
        InvalidInputError,
        "do not all lie",
    ),
    "range backwards": (
        lambda r: r.update("days", _days(), date_range=("2020-01-05", "2020-01-02")),
        InvalidInputError,
        "before it begins",
    ),
    "range of three": (
        lambda r: r.delete_rows("days", date_range=("2020", "2021", "2022")),
        InvalidInputError,
        "start and an end",
    ),
    "range that is no date": (
        lambda r: r.delete_rows("days", date_range=("soon", None)),
        PlanError,
        "not a date",
    ),
    "range of numbers for dates": (
        lambda r: r.delete_rows("days", date_range=(1, 2)),
        PlanError,
        "not a date",
    ),
    "range without index": (
        lambda r: r.delete_rows("plain", date_range=(1, 2)),
        IndexColumnError,
        "index",
    ),
    "rows past the end": (
        lambda r: r.delete_rows("days", rows=(2, 6)),
        InvalidInputError,
        "5 rows",
    ),
    "rows backwards": (
        lambda r: r.delete_rows("days", rows=(3, 2)),
        InvalidInputError,
        "ends before",
    ),
    "rows that are none": (
        lambda r: r.delete_rows("days", rows=(0.0, 1)),  # type: ignore[arg-type]
        InvalidInputError,
        "no range of rows",
    ),
    "nothing to delete": (lambda r: r.delete_rows("days"), InvalidInputError, "one of"),
    "two to delete": (
        lambda r: r.delete_rows("days", rows=(0, 1), where="x > 1"),
        InvalidInputError,
        "one of",
    ),
    "where unknown": (
        lambda r: r.delete_rows("days", where="y > 1"),
        ColumnNotFoundError,
        "'y'",
    ),
    "where a number": (
        lambda r: r.delete_rows("days", where="x + 1"),
        ExpressionTypeError,
        "condition",
    ),
    "where nonsense": (lambda r: r.delete_rows("days", where="x >"), ExpressionError, "x >"),
    "where no expression": (
        lambda r: r.delete_rows("days", where=7),  # type: ignore[arg-type]
        InvalidInputError,
        "no condition",
    ),
    "no keys": (lambda r: r.upsert("days", _days(1), keys=[]), InvalidInputError, "needs keys"),
    "unknown key": (
        lambda r: r.upsert("days", _days(1), keys=["z"]),
        ColumnNotFoundError,
        "'z'",
    ),
    "key twice": (
        lambda r: r.upsert("days", _days(1), keys=["x", "x"]),
        DuplicateColumnError,
        "twice",
    ),
    "nested key": (
        lambda r: r.upsert("plain", PLAIN, keys=["l"]),
        InvalidInputError,
        "cannot be a key",
    ),
    "missing key": (
        lambda r: r.upsert("days", _days(1), keys=["name"]),
        InvalidInputError,
        "missing in row 0",
    ),
    "NaN as key": (
        lambda r: r.upsert("plain", PLAIN, keys=["f"]),
        InvalidInputError,
        "missing in row 2",
    ),
    "two rows of a key": (
        lambda r: r.upsert("days", _days(1, 1), keys=["day", "x"]),
        InvalidInputError,
        "rows 0 and 1",
    ),
    "a key that the symbol has twice": (
        lambda r: r.upsert("days", _days(2), keys=["day"]),
        InvalidInputError,
        "several rows",
    ),
    "rename to what exists": (
        lambda r: r.rename_symbol("days", "plain"),
        SymbolNameError,
        "there is a symbol",
    ),
    "rename to nothing": (lambda r: r.rename_symbol("days", ""), SymbolNameError, "1024|1,024"),
    "rename unknown": (lambda r: r.rename_symbol("day", "z"), SymbolNotFoundError, "'days'"),
    "metadata": (
        lambda r: r.set_metadata("days", {"a": object()}),
        InvalidInputError,
        "JSON",
    ),
    "metadata that are none": (
        lambda r: r.set_metadata("days", 7),  # type: ignore[arg-type]
        InvalidInputError,
        "mapping",
    ),
    "add what exists": (lambda r: r.add_column("days", "x"), DuplicateColumnError, "'x'"),
    "add a number": (
        lambda r: r.add_column("days", 1),  # type: ignore[arg-type]
        InvalidInputError,
        "no text",
    ),
    "add too few": (lambda r: r.add_column("days", "n", [1]), InvalidInputError, "5 rows"),
    "add mixed": (
        lambda r: r.add_column("days", "n", [1, "x", 2, 3, 4]),
        InvalidInputError,
        "one type",
    ),
    "add of no type": (
        lambda r: r.add_column("days", "n", data_type="integer"),
        UnsupportedTypeError,
        "no type",
    ),
    "add of a refused type": (
        lambda r: r.add_column("days", "n", data_type=pa.decimal256(50, 2)),
        UnsupportedTypeError,
        "'n'",
    ),
    "drop unknown": (lambda r: r.drop_column("days", "y"), ColumnNotFoundError, "'y'"),
    "drop the index": (lambda r: r.drop_column("days", "day"), IndexColumnError, "time index"),
    "drop the last": (lambda r: r.drop_column("one", "a"), InvalidInputError, "last one"),
    "rename unknown column": (
        lambda r: r.rename_columns("days", {"y": "z"}),
        ColumnNotFoundError,
        "'y'",
    ),
    "rename onto another": (
        lambda r: r.rename_columns("days", {"x": "name"}),
        DuplicateColumnError,
        "'name'",
    ),
    "rename by a list": (
        lambda r: r.rename_columns("days", ["x"]),  # type: ignore[arg-type]
        InvalidInputError,
        "mapping",
    ),
    "widen unknown": (lambda r: r.widen("days", {"y": "int64"}), ColumnNotFoundError, "'y'"),
    "widen with loss": (
        lambda r: r.widen("plain", {"k": "float64"}),
        SchemaMismatchError,
        "int64 cannot be widened to double",
    ),
    "narrow": (lambda r: r.widen("days", {"x": "int16"}), SchemaMismatchError, "cannot be widened"),
    "isolation": (
        lambda r: r.transaction(isolation="none"),  # type: ignore[arg-type]
        InvalidInputError,
        "serializable",
    ),
    "swap": (lambda r: _swap(r), InvalidInputError, "one transaction"),
}


def _swap(repository: Repository) -> None:
    with repository.transaction() as tx:
        tx.rename_symbol("days", "other")
        tx.rename_symbol("plain", "days")
        tx.rename_symbol("other", "plain")


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    repository = Repository.open(path)
    with options(segment_rows=2):
        repository.write("days", DAYS, index="day", metadata={"a": 1})
    repository.write("plain", PLAIN)
    repository.write("one", {"a": [1]})
    return path


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_leaves_every_byte(store_path: Path, case: str) -> None:
    act, error, text = BAD_INPUT[case]
    before = _listing(store_path)
    with pytest.raises(error, match=text):
        act(Repository.open(store_path))
    assert _listing(store_path) == before


def test_a_verb_that_is_refused_changes_nothing_in_its_transaction() -> None:
    repository = Repository.open("memory://")
    repository.write("days", DAYS, index="day")
    with repository.transaction() as tx:
        tx.append("days", _days(10))
        for verb in (
            lambda: tx.append("days", _days(9)),
            lambda: tx.update("days", _days(2, 1)),
            lambda: tx.upsert("days", _days(2), keys=["day"]),
            lambda: tx.add_column("days", "n", [1]),
        ):
            with pytest.raises(TesselError):
                verb()
        assert tx.read("days").equals(pa.concat_tables([DAYS, _days(10)]))
    assert read(repository.view("days")).equals(pa.concat_tables([DAYS, _days(10)]))


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.date64(), pa.timestamp("s", "UTC")])
def test_times_that_python_has_no_name_for_are_told(kind: pa.DataType) -> None:
    repository = Repository.open("memory://")
    unit = 86_400_000 if pa.types.is_date64(kind) else 86_400
    far = pa.array([5_000_000 * unit, -3_000_000 * unit], pa.int64()).view(kind)
    with pytest.raises(UnsortedIndexError, match="goes back in row 1: "):
        repository.write("s", {"t": far}, index="t")
    repository.write("s", {"k": far, "n": [1, 2]})
    twice = {"k": pa.concat_arrays([far, far]), "n": [1, 2, 3, 4]}
    with pytest.raises(InvalidInputError, match="rows 0 and 2 of the table have the key k="):
        repository.upsert("s", twice, keys=["k"])


def test_an_update_by_partial_dates_covers_whole_periods() -> None:
    repository = Repository.open("memory://")
    times = pd.date_range("2020-01-30", "2020-03-02", freq="6h", name="t").as_unit("us")
    frame = pd.DataFrame({"x": np.arange(len(times))}, index=times)
    with options(segment_rows=10):
        repository.write("s", frame)
        repository.delete_rows("s", date_range=("2020-02", "2020-02"))
        new = pd.DataFrame(
            {"x": [-1]}, index=pd.DatetimeIndex(["2020-02-29T23:59"], name="t").as_unit("us")
        )
        repository.update("s", new, date_range=("2020-02-29", "2020-03-01"))
    expected = pd.concat([frame[:"2020-01-31"], new, frame["2020-03-02":]])  # type: ignore[misc]
    found = read(repository.view("s")).to_pandas().set_index("t")
    pd.testing.assert_frame_equal(found, expected, check_freq=False)
    asked = Store.open(repository.uri).read("s", date_range=("2020-02-29", "2020-03-02T00"))
    assert asked.to_arrow().column("x").to_pylist() == [-1, int(frame.x["2020-03-02T00:00"])]


def test_the_last_time_after_the_end_was_cut_is_that_of_a_row() -> None:
    repository = Repository.open("memory://")
    repository.write("days", DAYS, index="day")
    repository.delete_rows("days", rows=(3, 5))
    repository.append("days", _days(3))
    assert read(repository.view("days")).column("day").to_pylist()[-1] == dt.date(2020, 1, 3)
    with pytest.raises(UnsortedIndexError, match="after 2020-01-03"):
        repository.append("days", _days(2))


def test_an_update_reads_the_segments_at_its_bounds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from tessel.store.manifest.piece import SegmentSource

    repository = Repository.open("memory://")
    with options(segment_rows=100, segment_columns=1):
        repository.write("s", {"t": range(10_000), "x": range(10_000)}, index="t")
    loaded: list[tuple[int, tuple[str, ...]]] = []
    load = SegmentSource.load
    monkeypatch.setattr(
        SegmentSource,
        "load",
        lambda self, piece: loaded.append((piece.row_start, piece.columns)) or load(self, piece),
    )
    repository.update("s", {"t": [2050, 3050], "x": [0, 0]})
    assert loaded == [(2000, ("t",)), (3000, ("t",))]


def test_one_change_writes_no_row_that_stays() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=1000):
        repository.write("s", {"t": range(100_000), "x": range(100_000)}, index="t")
    before = {name: repository.objects.size(name) for name in repository.objects.list()}
    repository.update("s", {"t": [500, 77_777], "x": [0, 0]})
    made = {
        name: repository.objects.size(name)
        for name in repository.objects.list()
        if name not in before
    }
    assert sum(made.values()) < 20_000, made
    assert read(repository.view("s")).num_rows == 100_000 - (77_777 - 500 + 1) + 2


def test_scattered_deletions_do_not_make_thousands_of_pieces() -> None:
    repository = Repository.open("memory://")
    values = np.arange(20_000)
    repository.write("s", {"t": values, "x": values % 7}, index="t")
    repository.delete_rows("s", where="x == 3")
    view = repository.view("s")
    assert len(view.index()) <= 600
    assert read(view).column("t").to_pylist() == values[values % 7 != 3].tolist()


def test_a_condition_may_read_no_column() -> None:
    for where, left in [("length('a') > 0", 0), ("length('a') > 1", 5), ("1 / 0 > 2", 0)]:
        repository = Repository.open("memory://")
        with options(segment_rows=2):
            repository.write("s", {"x": list(range(5))})
        repository.delete_rows("s", where=where)
        assert read(repository.view("s")).num_rows == left


def test_lists_of_extents_stay_short() -> None:
    repository = Repository.open("memory://")
    model = list(range(2000))
    repository.write("s", {"t": model, "x": model}, index="t")
    longest = 0
    for step in range(150):
        at = step * 769 % 2000
        repository.update("s", {"t": [at], "x": [-step]})
        model[at] = -step
        state = repository.history.newest().snapshot["s"]
        longest = max(longest, len(state.manifests))
    assert longest < 150
    assert read(repository.view("s")).column("x").to_pylist() == model


@pytest.mark.parametrize("kind", [t for t in PLAIN_TYPES if not pa.types.is_null(t)], ids=str)
def test_every_plain_type_can_be_a_key(kind: pa.DataType) -> None:
    from hypothesis import given, settings
    from hypothesis import strategies as st

    from tests.strategies.tables import columns

    @settings(max_examples=5, database=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        column = data.draw(columns(kind, 6)).drop_null().unique()
        if pa.types.is_floating(kind):
            column = column.filter(pc.equal(column, column))
        keep = [v for at, v in enumerate(column.to_pylist()) if v not in column.to_pylist()[:at]]
        keys = pa.array(keep, column.type)
        repository = Repository.open("memory://")
        repository.write("s", pa.table({"k": keys, "n": pa.array(range(len(keys)), pa.int64())}))
        again = pa.table({"k": keys[::-1], "n": pa.array([-1] * len(keys), pa.int64())})
        repository.upsert("s", again, keys=["k"])
        found = read(repository.view("s"))
        assert found.column("k").combine_chunks().equals(keys)
        assert found.column("n").to_pylist() == [-1] * len(keys)

    check()


def test_minus_zero_is_zero_as_a_key() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"f": [0.0, 1.0], "n": [1, 2]})
    repository.upsert("s", {"f": [-0.0, 2.0], "n": [3, 4]}, keys=["f"])
    assert read(repository.view("s")).column("n").to_pylist() == [3, 2, 4]


# --- columns --------------------------------------------------------------------------------------


def test_a_new_column_leaves_the_segments_of_the_others() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=2):
        repository.write("days", DAYS, index="day")
        repository.delete_rows("days", rows=(1, 2))
    old = repository.view("days").index()
    repository.add_column("days", "n", [10, 20, 30, 40], data_type="int16")
    index = repository.view("days").index()
    keys = {index.source(at).key for at in range(len(index))}
    assert {old.source(at).key for at in range(len(old))} <= keys
    assert index.slice_row_start.tolist() == old.slice_row_start.tolist()
    assert index.statistics.facts("n").minimum.to_pylist() == [10, 20, 40]
    assert index.statistics.facts("n").minimum_exact.all()
    assert index.statistics.facts("x").minimum_exact.tolist() == [False, True, True]
    assert read(repository.view("days")).column("n").to_pylist() == [10, 20, 30, 40]
    assert len(Store.open(repository.uri).scan("days").filter("n > 25").collect()) == 2


def test_a_column_that_comes_back_is_another_one() -> None:
    repository = Repository.open("memory://")
    repository.write("days", DAYS, index="day")
    repository.drop_column("days", "x")
    repository.add_column("days", "x", data_type=pa.int32())
    view = repository.view("days")
    assert read(view).column("x").to_pylist() == [None] * 5
    assert view.column_ids["x"] not in repository.view("days", 1).column_ids.values()
    assert read(repository.view("days", 1)).equals(DAYS)


def test_columns_of_one_generation_are_not_taken_for_another() -> None:
    repository = Repository.open("memory://")
    with options(segment_columns=1), repository.transaction() as tx:
        tx.write("s", {"a": [1, 2]})
        tx.add_column("s", "b")
        tx.drop_column("s", "a")
        tx.append("s", {"b": [3, 4]})
    assert read(repository.view("s")).to_pydict() == {"b": [None, None, 3, 4]}


def test_an_index_can_be_renamed_and_widened() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"t": pa.array([1, 2, 3], pa.int16()), "x": [1, 2, 3]}, index="t")
    repository.rename_columns("s", {"t": "x", "x": "t"})
    repository.widen("s", {"x": "int64"})
    view = repository.view("s")
    assert view.schema.index == "x"
    repository.append("s", {"x": [2**40], "t": [4]})
    repository.update("s", {"x": [2], "t": [9]})
    assert read(repository.view("s")).to_pydict() == {"x": [1, 2, 3, 2**40], "t": [1, 9, 3, 4]}


def test_evolution_by_rule() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": pa.array([1], pa.int16()), "n": pa.nulls(1)})
    repository.append("s", {"a": pa.array([2], pa.int16()), "n": ["x"]})
    assert repository.view("s").schema.type_of("n") == pa.string()
    with pytest.raises(SchemaMismatchError, match="'a' is int64, not int16"):
        repository.append("s", {"a": [3], "n": ["y"]})
    repository.append("s", {"a": [2**40], "n": ["y"]}, evolve="widen")
    repository.append("s", {"a": pa.array([4], pa.int8()), "n": pa.nulls(1)}, evolve="widen")
    repository.append("s", {"n": ["z"], "b": [1.5], "a": [5]}, evolve=["add", "widen"])
    assert read(repository.view("s")).to_pydict() == {
        "a": [1, 2, 2**40, 4, 5],
        "n": [None, "x", "y", None, "z"],
        "b": [None, None, None, None, 1.5],
    }
    kinds = [version.change for version in repository.log("s")][::-1]
    assert kinds == ["write", "append, widen", "append, widen", "append", "append, add column"]
    found = Store.open(repository.uri).scan("s").filter("a > 3").collect().to_arrow()
    assert found.column("a").to_pylist() == [2**40, 4, 5]


FLEXIBLE = [
    # stored, appended, the common type by hand; None where it is refused
    (pa.array([1, None], pa.int8()), pa.array([200], pa.uint8()), pa.int16()),
    (pa.array([1], pa.uint32()), pa.array([-1], pa.int8()), pa.int64()),
    (pa.array([1], pa.int64()), pa.array([1], pa.uint64()), None),
    (pa.array([1, 2], pa.int64()), pa.array([0.5]), pa.float64()),
    (pa.array([0.5]), pa.array([2**53], pa.uint64()), pa.float64()),
    (pa.array([0.5]), pa.array([2**53 + 1], pa.int64()), InvalidInputError),
    (pa.array([2**53 + 1], pa.int64()), pa.array([0.5]), InvalidInputError),
    (pa.array([1], pa.int16()), pa.array([0.5], pa.float32()), pa.float32()),
    (pa.array([1], pa.int32()), pa.array([0.5], pa.float32()), pa.float64()),
    (pa.array([0.5], pa.float32()), pa.array([1], pa.int64()), pa.float64()),
    (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("ns")), pa.timestamp("ns")),
    (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("s", "UTC")), None),
    (pa.array([2**40], pa.timestamp("s")), pa.array([1], pa.timestamp("ns")), InvalidInputError),
    (pa.array(["a"]).dictionary_encode(), pa.array(["b"]), pa.string()),
    (pa.array(["b"]), pa.array(["a", None]).dictionary_encode(), pa.string()),
    (pa.array([True]), pa.array([1]), None),
    (pa.array(["1"]), pa.array([1]), None),
    (pa.array([[1]], pa.list_(pa.int8())), pa.array([[300]]), pa.list_(pa.int64())),
]


@pytest.mark.parametrize(("stored", "more", "common"), FLEXIBLE)
@pytest.mark.parametrize("verb", ["append", "update", "upsert", "appender"])
def test_flexible_columns_go_to_the_common_type(
    stored: pa.Array, more: pa.Array, common: Any, verb: str
) -> None:
    repository = Repository.open("memory://")
    times = pa.array(range(len(stored)), pa.int32())
    with options(segment_rows=1):
        repository.write("s", {"t": times, "gone": times, "x": stored}, index="t")
    rows = pa.table({"t": pa.array(range(9, 9 + len(more)), pa.int32()), "x": more, "new": more})

    def change() -> None:
        if verb == "appender":
            with repository.appender("s", evolve="flexible") as appender:
                appender.append(rows)
        elif verb == "upsert":
            repository.upsert("s", rows, keys=["t"], evolve="flexible")
        else:
            getattr(repository, verb)("s", rows, evolve="flexible")

    if verb == "appender" and common is not None and _is_stored_anew(stored.type, common):
        common = None
    if not isinstance(common, pa.DataType):
        refused = SchemaMismatchError if common is None else common
        with pytest.raises(refused, match="'x'"):
            change()
        assert repository.log("s")[0].change == "write"
        assert repository.view("s").schema.type_of("x") == stored.type
        return
    change()
    found = read(repository.view("s"))
    assert found.schema.field("x").type == common
    assert found["x"].to_pylist() == [
        each.as_py() for part in (stored, more) for each in part.cast(common)
    ]
    assert found["gone"].to_pylist() == [*times.to_pylist(), *[None] * len(more)]
    assert found["new"].to_pylist() == [*[None] * len(stored), *more.to_pylist()]
    assert not Store.open(repository.uri).check().damages


def _is_stored_anew(old: pa.DataType, common: Any) -> bool:
    return isinstance(common, pa.DataType) and not can_widen(old, common)


def test_rows_of_others_meanwhile_conflict_with_a_column_that_is_stored_anew(
    tmp_path: Path,
) -> None:
    repository = Repository.open(tmp_path / "s")
    repository.write("s", {"x": [1]})
    transaction = repository.transaction()
    transaction.append("s", {"x": [0.5]}, evolve="flexible")
    repository.append("s", {"x": [2**60]})
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert read(repository.view("s")).to_pydict() == {"x": [1, 2**60]}


def test_widening_keeps_every_value() -> None:
    kinds = [t for t in PLAIN_TYPES if not pa.types.is_null(t)]
    tried = 0
    for old, new in itertools.product(kinds, kinds):
        if old == new or not can_widen(old, new):
            continue
        tried += 1
        values = _extremes(old)
        repository = Repository.open("memory://")
        repository.write("s", pa.table({"a": values}))
        repository.widen("s", {"a": new})
        found = read(repository.view("s")).column("a").combine_chunks()
        assert found.type == new
        assert found.cast(old).equals(values), (old, new)
        index = repository.view("s").index()
        assert index.statistics.facts("a").minimum.type == new
    assert tried > 20
    assert not can_widen(pa.int64(), pa.float64())
    assert not can_widen(pa.uint64(), pa.int64())
    assert not can_widen(pa.timestamp("s"), pa.timestamp("ns"))


def _extremes(kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        return pa.array([info.min, 0, info.max, None], kind)
    if pa.types.is_decimal(kind):
        digits = re.sub(".", "9", "x" * kind.precision)
        most = pa.scalar(digits).cast(pa.decimal128(kind.precision, 0)).as_py()
        return pa.array([most.scaleb(-kind.scale), None], kind)
    if pa.types.is_floating(kind):
        return pa.array([1.5, -0.0, None], kind)
    return pa.array([0, 1, None], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


# --- one commit -----------------------------------------------------------------------------------


def test_many_small_symbols_in_one_commit_are_few_objects() -> None:
    repository = Repository.open("memory://")
    names = [f"symbol{at:04}" for at in range(1000)]
    for step in range(2):
        before = set(repository.objects.list())
        with repository.transaction() as tx:
            for at, name in enumerate(names):
                frame = {"t": [step], "x": [float(at)], "name": [name]}
                if step:
                    tx.append(name, frame)
                else:
                    tx.write(name, frame, index="t")
        made = [name.split("/")[0] for name in set(repository.objects.list()) - before]
        assert made.count("man") == 1
        assert made.count("seg") == 1
        assert len(made) <= 10, made
    view = repository.view("symbol0007")
    assert read(view).to_pydict() == {"t": [0, 1], "x": [7.0, 7.0], "name": ["symbol0007"] * 2}
    facts = view.index().statistics.facts("x")
    assert facts.minimum.to_pylist() == [7.0, 7.0]
    assert facts.minimum_exact.all()


# --- isolation ------------------------------------------------------------------------------------


def _skewed(isolation: Any, **what: Any) -> int:
    """Let two transactions each take a doctor off call who sees the other one on it."""
    repository = Repository.open("memory://")
    repository.write("call", {"t": [0, 10, 20, 30], "on": [1, 0, 0, 1]}, index="t")
    first = repository.transaction(isolation=isolation)
    second = repository.transaction(isolation=isolation)
    for transaction, time in ((first, 0), (second, 30)):
        if sum(transaction.read("call", **what).column("on").to_pylist()) == 2:
            transaction.update("call", {"t": [time], "on": [0]})
    first.commit()
    second.commit()
    return sum(read(repository.view("call")).column("on").to_pylist())


@pytest.mark.parametrize("what", [{}, {"rows": (0, 4)}, {"times": (0, 30)}], ids=str)
def test_write_skew_is_rejected_where_that_was_asked_for(what: dict[str, Any]) -> None:
    assert _skewed("snapshot", **what) == 0
    with pytest.raises(CommitConflictError, match="read"):
        _skewed("serializable", **what)


@pytest.mark.parametrize(
    ("what", "theirs", "lands"),
    [
        ({"rows": (0, 2)}, lambda tx: tx.update("s", {"t": [30], "x": [1]}), True),
        ({"rows": (2, 4)}, lambda tx: tx.update("s", {"t": [10], "x": [1]}), True),
        ({"rows": (2, 4)}, lambda tx: tx.delete_rows("s", rows=(0, 1)), False),
        ({"rows": (1, 3)}, lambda tx: tx.update("s", {"t": [20], "x": [1]}), False),
        ({"rows": (0, 4)}, lambda tx: tx.append("s", {"t": [40], "x": [1]}), True),
        ({}, lambda tx: tx.append("s", {"t": [40], "x": [1]}), False),
        ({"times": (0, 10)}, lambda tx: tx.delete_rows("s", rows=(2, 3)), True),
        ({"times": (0, 20)}, lambda tx: tx.delete_rows("s", rows=(2, 3)), False),
        ({"times": (35, None)}, lambda tx: tx.append("s", {"t": [40], "x": [1]}), False),
        ({"times": (0, 35)}, lambda tx: tx.append("s", {"t": [40], "x": [1]}), True),
        ({}, lambda tx: tx.set_metadata("s", {"a": 1}), True),
        ({}, lambda tx: tx.add_column("s", "n"), False),
        ({}, lambda tx: tx.rename_symbol("s", "z"), False),
        ({}, lambda tx: tx.write("other", {"a": [1]}), True),
    ],
)
def test_what_was_read_and_what_changed(what: Any, theirs: Any, lands: bool) -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"t": [0, 10, 20, 30], "x": [0] * 4}, index="t")
    late = repository.transaction(isolation="serializable")
    late.read("s", **what)
    late.write("mine", {"a": [1]})
    with repository.transaction() as first:
        theirs(first)
    if lands:
        assert late.commit() == 3
    else:
        with pytest.raises(CommitConflictError, match="'s'"):
            late.commit()


def test_that_there_was_none_has_been_read() -> None:
    repository = Repository.open("memory://")
    late = repository.transaction(isolation="serializable")
    with pytest.raises(SymbolNotFoundError):
        late.read("s")
    late.write("t", {"a": [1]})
    repository.write("s", {"a": [1]})
    with pytest.raises(CommitConflictError, match="'s'"):
        late.commit()


def test_disjoint_updates_of_many_threads_all_land() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=64):
        repository.write("s", {"t": range(800), "x": [0] * 800}, index="t")
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for step in range(10):
                time = worker * 100 + step * 10
                rows = {"t": [time, time, time + 1], "x": [worker + 1] * 3}
                repository.update("s", rows)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert repository.newest == 81
    expected: list[tuple[int, int]] = []
    for time in range(800):
        changed = time % 10 < 2
        row = (time, time // 100 + 1 if changed else 0)
        expected += [row] * (2 if time % 10 == 0 else 1)
    found = read(repository.view("s")).to_pydict()
    assert list(zip(found["t"], found["x"], strict=True)) == expected


def test_an_index_keeps_its_unit() -> None:
    # Manifests count the times of date32 in days, those of date64 in milliseconds.
    repository = Repository.open("memory://")
    days = pa.table({"t": pa.array([1, 2], pa.date32()), "n": [0, 1]})
    repository.write("s", days, index="t")
    with pytest.raises(IndexColumnError, match="cannot become date64"):
        repository.widen("s", {"t": pa.date64()})
    later = pa.table({"t": pa.array([259_200_000], pa.date64()), "n": [2]})
    with pytest.raises(SchemaMismatchError):
        repository.append("s", later, evolve="widen")
    assert repository.newest == 1
    repository.write("i", pa.table({"t": pa.array([1], pa.int32())}), index="t")
    with pytest.raises(SchemaMismatchError):
        repository.append("i", pa.table({"t": [2.0]}), evolve="widen")
    repository.append("i", pa.table({"t": [2**40]}), evolve="widen")
    assert read(repository.view("i")).column("t").to_pylist() == [1, 2**40]

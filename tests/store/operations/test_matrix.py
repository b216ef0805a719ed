"""The conflict matrix: every cell both ways, against the same changes made one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.errors import CommitConflictError, TesselError
from tessel.options import options
from tessel.store import Repository, Transaction
from tessel.store.history.committed_changes import KINDS
from tessel.store.history.rebase import MATRIX
from tests.store.helpers import read

_DOCUMENT = Path(__file__).parents[3] / "docs" / "changing-data.md"
_TIMES = range(0, 100, 10)

_SLICES = (8, 1, 1, 8, 2, 2, 2, 8)
"""Rows of each row slice of the symbol of the matrix, all columns in one segment."""

_LONG = range(0, 10 * sum(_SLICES), 10)
_ROWS = {"low": (8, 10), "high": (18, 24)}
_COMPACTED = {"low": (2, 4), "high": (8, 2)}
"""Rows and columns of full segments for which one place has something to compact, and no other.

Two rows and all columns: the higher row slices are full. Eight rows and half of the columns: the
lower two would be as many segments afterwards.
"""

Act = Callable[[Transaction, str], None]


def _frame(*times: int, x: int = 0) -> pa.Table:
    return pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "x": pa.array([x] * len(times), pa.int64()),
            "y": pa.array([str(x)] * len(times)),
            "w": pa.array([x] * len(times), pa.int16()),
        }
    )


def _span(place: str) -> tuple[int, int]:
    start, stop = _ROWS[place]
    return 10 * start, 10 * (stop - 1)


def _update(tx: Transaction, place: str) -> None:
    low, high = _span(place)
    tx.update("s", _frame(low, low + 1, high, x=5), date_range=(low, high))


def _compact(tx: Transaction, place: str) -> None:
    target, columns = _COMPACTED[place]
    with options(segment_columns=columns):
        tx.compact("s", target=target)


ACTS: dict[str, Act] = {
    "write": lambda tx, place: tx.write("s", _frame(1, 2), index="t"),
    "append": lambda tx, place: tx.append("s", _frame(_LONG.stop, x=len(place))),
    "update": _update,
    "upsert": lambda tx, place: tx.upsert("s", _frame(*_span(place), x=6), keys=["t"]),
    "delete rows": lambda tx, place: tx.delete_rows("s", rows=_ROWS[place]),
    "delete": lambda tx, place: tx.delete("s"),
    "rename": lambda tx, place: tx.rename_symbol("s", "z"),
    "rename column": lambda tx, place: tx.rename_columns("s", {"y": "yy"}),
    "add column": lambda tx, place: tx.add_column("s", "n", data_type=pa.int8()),
    "fill column": lambda tx, place: tx.add_column("s", "f", 1),
    "drop column": lambda tx, place: tx.drop_column("s", "x"),
    "widen": lambda tx, place: tx.widen("s", {"w": "int32"}),
    "metadata": lambda tx, place: tx.set_metadata("s", {"who": place}),
    "compact": _compact,
}


def _prepared() -> Repository:
    repository = Repository.open("memory://")
    with options(segment_rows=3, segment_columns=2):
        repository.write("s", _frame(*_TIMES), index="t")
    return repository


def _long() -> Repository:
    repository = Repository.open("memory://")
    with options(segment_columns=4), repository.transaction() as tx:
        start = 0
        for rows in _SLICES:
            times = _LONG[start : start + rows]
            if start:
                tx.append("s", _frame(*times))
            else:
                tx.write("s", _frame(*times), index="t")
            start += rows
    return repository


def _content(repository: Repository) -> dict[str, tuple[pa.Table, dict[str, object]]]:
    views = [repository.view(name) for name in repository.symbols()]
    return {view.name: (read(view), view.metadata) for view in views}


def _one_after_the_other(*steps: tuple[str, str]) -> dict[str, tuple[pa.Table, dict[str, object]]]:
    repository = _long()
    for kind, place in steps:
        with repository.transaction() as tx:
            ACTS[kind](tx, place)
    return _content(repository)


def test_every_kind_is_tried() -> None:
    assert set(ACTS) == set(KINDS)


@pytest.mark.parametrize(
    ("place", "slices"),
    [("low", [8, 2, 8, 2, 2, 2, 8]), ("high", [8, 1, 1, 8, 6, 8])],
)
def test_compacting_writes_the_rows_of_one_place(place: str, slices: list[int]) -> None:
    repository = _long()
    before = repository.view("s").index()
    assert (before.slice_row_end - before.slice_row_start).tolist() == list(_SLICES)
    with repository.transaction() as tx:
        ACTS["compact"](tx, place)
    after = repository.view("s").index()
    assert (after.slice_row_end - after.slice_row_start).tolist() == slices


# Where rows decide, ours lie before theirs, behind them, and on them.
CELLS = [
    (ours, theirs, places)
    for (ours, theirs), outcome in MATRIX.items()
    for places in [("low", "high"), ("high", "low"), ("low", "low")][
        : 3 if outcome == "rows" else 1
    ]
]


@pytest.mark.parametrize(("ours", "theirs", "places"), CELLS, ids=lambda value: str(value))
def test_the_matrix(ours: str, theirs: str, places: tuple[str, str]) -> None:
    repository = _long()
    late = repository.transaction()
    ACTS[ours](late, places[0])
    with repository.transaction() as first:
        ACTS[theirs](first, places[1])
    outcome = MATRIX[ours, theirs]
    same_rows = places[0] == places[1] and "append" not in (ours, theirs)
    if outcome == "conflict" or (outcome == "rows" and same_rows):
        with pytest.raises(CommitConflictError, match="version 2 came first") as caught:
            late.commit()
        assert caught.value.attributes["version"] == 2
        assert repository.newest == 2
        assert _content(repository) == _one_after_the_other((theirs, places[1]))
        return
    assert late.commit() == repository.newest == 3
    # Compacting changes nothing that is seen. Positions of the higher rows hold for both if they
    # are changed first, and of two appends the one that landed first stands first.
    steps = [
        (kind, place)
        for kind, place in zip((ours, theirs), places, strict=True)
        if kind != "compact"
    ]
    if places[1] == "high" or ours == theirs == "append":
        steps.reverse()
    try:
        expected = _one_after_the_other(*steps)
    except TesselError:
        # What names a column by its old name has to come first.
        expected = _one_after_the_other(*reversed(steps))
    assert _content(repository) == expected
    again = Repository.open(repository.uri, create=False)
    assert _content(again) == expected
    assert read(again.view("s", 1)).equals(_frame(*_LONG))


@pytest.mark.parametrize("ours", KINDS)
def test_other_symbols_never_conflict(ours: str) -> None:
    repository = _long()
    repository.write("other", _frame(1), index="t")
    late = repository.transaction()
    ACTS[ours](late, "low")
    with repository.transaction() as first:
        first.rename_symbol("other", "another")
        first.write("new", _frame(1))
    assert late.commit() == 4
    assert {"another", "new"} <= set(repository.symbols())


# --- what the cells that say "rows" mean ----------------------------------------------------------

_UPDATE_END: Act = lambda tx, _: tx.update("s", _frame(90, 120), date_range=(85, 130))  # noqa: E731

TIMED: dict[str, tuple[Act, Act, list[int] | None]] = {
    "an append after one with earlier times": (
        lambda tx, _: tx.append("s", _frame(110)),
        lambda tx, _: tx.append("s", _frame(100)),
        [*_TIMES, 100, 110],
    ),
    "an append after one with later times": (
        lambda tx, _: tx.append("s", _frame(100)),
        lambda tx, _: tx.append("s", _frame(110)),
        None,
    ),
    "an append after an update of the end": (
        lambda tx, _: tx.append("s", _frame(120)),
        _UPDATE_END,
        [*_TIMES[:-1], 90, 120, 120],
    ),
    "an append below an update of the end": (
        lambda tx, _: tx.append("s", _frame(119)),
        _UPDATE_END,
        None,
    ),
    "an update of a range into which rows were appended": (
        _UPDATE_END,
        lambda tx, _: tx.append("s", _frame(125)),
        None,
    ),
    "an update of the end before what was appended": (
        lambda tx, _: tx.update("s", _frame(90, 95)),
        lambda tx, _: tx.append("s", _frame(125)),
        [*_TIMES, 95, 125],
    ),
    "an append after a deletion of the end": (
        lambda tx, _: tx.append("s", _frame(100)),
        lambda tx, _: tx.delete_rows("s", rows=(8, 10)),
        [*_TIMES[:8], 100],
    ),
    "two inserts into one gap, ours later": (
        lambda tx, _: tx.upsert("s", _frame(16), keys=["t"]),
        lambda tx, _: tx.upsert("s", _frame(14), keys=["t"]),
        [0, 10, 14, 16, *_TIMES[2:]],
    ),
    "two inserts into one gap, ours earlier": (
        lambda tx, _: tx.upsert("s", _frame(14), keys=["t"]),
        lambda tx, _: tx.upsert("s", _frame(16), keys=["t"]),
        [0, 10, 14, 16, *_TIMES[2:]],
    ),
    "two inserts into one gap that overlap": (
        lambda tx, _: tx.upsert("s", _frame(13, 17), keys=["t"]),
        lambda tx, _: tx.upsert("s", _frame(15), keys=["t"]),
        None,
    ),
    "the same new key twice": (
        lambda tx, _: tx.upsert("s", _frame(15), keys=["t"]),
        lambda tx, _: tx.upsert("s", _frame(15), keys=["t"]),
        None,
    ),
    "an insert between rows that were deleted": (
        lambda tx, _: tx.upsert("s", _frame(25), keys=["t"]),
        lambda tx, _: tx.delete_rows("s", rows=(1, 6)),
        None,
    ),
    "edits side by side": (
        lambda tx, _: tx.update("s", _frame(20, 20, 30)),
        lambda tx, _: tx.update("s", _frame(0, 10, 10)),
        [0, 10, 10, 20, 20, *_TIMES[3:]],
    ),
    "a delete that leaves two of our edits side by side": (
        lambda tx, _: (tx.delete_rows("s", rows=(2, 3)), tx.delete_rows("s", rows=(3, 4)))[0],
        lambda tx, _: tx.delete_rows("s", rows=(3, 4)),
        [0, 10, *_TIMES[5:]],
    ),
}


@pytest.mark.parametrize("case", TIMED)
def test_rows_and_times_decide(case: str) -> None:
    ours, theirs, times = TIMED[case]
    repository = _prepared()
    late = repository.transaction()
    ours(late, "low")
    with repository.transaction() as first:
        theirs(first, "low")
    if times is None:
        with pytest.raises(CommitConflictError):
            late.commit()
        return
    late.commit()
    assert read(repository.view("s")).column("t").to_pylist() == times


def test_without_an_index_appends_follow_one_another() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    late = repository.transaction()
    late.append("s", {"a": [2]})
    late.append("s", {"a": [3]})
    repository.append("s", {"a": [9]})
    late.commit()
    assert read(repository.view("s")).to_pydict() == {"a": [1, 9, 2, 3]}


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "theirs",
    [
        lambda tx: tx.write("z", {"a": [1]}),
        lambda tx: tx.rename_symbol("other", "z"),
    ],
)
def test_a_name_that_was_taken_meanwhile(theirs: Callable[[Transaction], None]) -> None:
    for ours in (lambda tx: tx.rename_symbol("s", "z"), lambda tx: tx.write("z", {"b": [1]})):
        repository = _prepared()
        repository.write("other", {"a": [1]})
        late = repository.transaction()
        ours(late)
        with repository.transaction() as first:
            theirs(first)
        with pytest.raises(CommitConflictError, match="'z'"):
            late.commit()


def test_a_swap_with_what_was_there_is_one_commit() -> None:
    repository = _prepared()
    repository.write("staged", _frame(1))
    with repository.transaction() as tx:
        tx.delete("s")
        tx.rename_symbol("staged", "s")
        tx.write("staged", _frame(2))
    assert read(repository.view("s")).equals(_frame(1))
    assert read(repository.view("staged")).equals(_frame(2))
    with repository.transaction() as tx:
        tx.rename_symbol("s", "old")
        tx.rename_symbol("staged", "s")
    assert repository.symbols() == ["old", "s"]
    assert read(repository.view("s")).equals(_frame(2))
    assert read(repository.view("old")).equals(_frame(1))
    assert "rename" in repository.log("old")[-1].change


# --- the document ---------------------------------------------------------------------------------


def test_the_document_says_what_the_code_does() -> None:
    lines = _DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| ours ↓ theirs →"))
    head = [cell.strip() for cell in lines[start].strip("|").split("|")][1:]
    told: dict[tuple[str, str], str] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        ours, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        assert len(cells) == len(head)
        for theirs, cell in zip(head, cells, strict=True):
            told[re.sub(r"\*", "", ours), theirs] = cell
    assert told == dict(MATRIX)

"""Staged writes against Polars and against plain lists: every row once, in the order asked for."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tessel.errors import (
    CommitConflictError,
    IndexColumnError,
    InvalidInputError,
    ReadOnlyStoreError,
    SchemaMismatchError,
    SymbolNameError,
    SymbolNotFoundError,
    TesselError,
    UnsortedIndexError,
)
from tessel.expression import evaluate_statistics, parse
from tessel.options import options
from tessel.store import Repository, Transaction
from tessel.store.maintenance.fsck import check_store
from tessel.store.operations import finalize as finalizing
from tessel.store.operations.staged import StagedRows
from tests.collecting import collect_all
from tests.store.helpers import read

stages = st.lists(st.lists(st.integers(0, 9), max_size=7).map(sorted), min_size=1, max_size=5)


def _frame(times: list[int], task: int = 0) -> pa.Table:
    rows = range(len(times))
    return pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "task": pa.array([task for _ in rows], pa.int16()),
            "text": pa.array([f"{task}/{row}" for row in rows], pa.string()),
        }
    )


def _new() -> Repository:
    return Repository.open("memory://")


def _texts(repository: Repository, symbol: str = "s") -> list[str]:
    found: list[str] = read(repository.view(symbol)).column("text").to_pylist()
    return found


def _sorted(frames: list[pa.Table]) -> list[str]:
    everything = pl.from_arrow(pa.concat_tables(frames))
    assert isinstance(everything, pl.DataFrame)
    return everything.sort("t", maintain_order=True).get_column("text").to_list()


# --- what comes out -------------------------------------------------------------------------------


@settings(max_examples=40)
@example(times=[[0, 1], [0], [0]], rows=1, before=False, piece=1)
@example(times=[[0, 3], [0], [0], [0, 2]], rows=2, before=True, piece=9)
@given(times=stages, rows=st.integers(1, 4), before=st.booleans(), piece=st.sampled_from([1, 9]))
def test_unordered_stages_are_merged(
    times: list[list[int]], rows: int, before: bool, piece: int
) -> None:
    repository = _new()
    frames = [_frame(each, at) for at, each in enumerate(times)]
    if before:
        repository.write("s", pa.table({"t": [1], "old": ["x"]}), index="t")
    with options(segment_rows=rows, segment_columns=2), pytest.MonkeyPatch.context() as patch:
        patch.setattr(finalizing, "_LEAST_PIECE", piece)
        staged = [
            repository.stage("s", frame, task_id=str(at), index="t")
            for at, frame in enumerate(frames)
        ]
        version = repository.finalize("s", staged, sort=True)
    assert version == repository.newest == 1 + before
    assert _texts(repository) == _sorted(frames)
    view = repository.view("s")
    assert view.schema.index == "t"
    assert view.schema.arrow == frames[0].schema


@settings(max_examples=40)
@given(times=stages, shift=st.integers(0, 3))
def test_appended_stages_follow(times: list[list[int]], shift: int) -> None:
    """Ordered stages go to the end as they are; a list that overlaps is refused, unless sorted."""
    repository = _new()
    old = _frame([0, 2], 99)
    repository.write("s", old, index="t")
    frames = [_frame([t + 2 + shift * at for t in each], at) for at, each in enumerate(times)]
    staged = [repository.stage("s", frame, task_id=str(at)) for at, frame in enumerate(frames)]
    joined = [t for frame in frames for t in frame.column("t").to_pylist()]
    if joined != sorted(joined):
        with pytest.raises(UnsortedIndexError, match="tasks '"):
            repository.finalize("s", staged, mode="append")
        assert repository.newest == 1
    else:
        repository.finalize("s", staged, mode="append")
        assert _texts(repository) == _texts_of([old, *frames])
        return
    repository.finalize("s", staged, mode="append", sort=True)
    assert _texts(repository) == _sorted([old, *frames])


def _texts_of(frames: list[pa.Table]) -> list[str]:
    return [text for frame in frames for text in frame.column("text").to_pylist()]


def test_without_an_index_the_list_is_the_order() -> None:
    repository = _new()
    frames = [_frame([3, 1], 0), _frame([2, 2], 1), _frame([], 2)]
    staged = [repository.stage("s", frame, task_id=str(at)) for at, frame in enumerate(frames)]
    repository.finalize("s", [staged[1], staged[2], staged[0]])
    assert _texts(repository) == _texts_of([frames[1], frames[0]])
    more = repository.stage("s", frames[1], task_id="more")
    repository.finalize("s", [more], mode="append")
    assert _texts(repository) == _texts_of([frames[1], frames[0], frames[1]])


def test_segments_that_do_not_overlap_are_taken_over_as_they_are() -> None:
    repository = _new()
    frames = [_frame([4, 5], 0), _frame([0, 1], 1), _frame([9, 11], 2), _frame([10, 12], 3)]
    staged = [
        repository.stage("s", frame, task_id=str(at), index="t") for at, frame in enumerate(frames)
    ]
    before = set(repository.objects.list("seg/"))
    repository.finalize("s", staged, sort=True)
    index = repository.view("s").index()
    held = [index.source(position).key.object for position in range(len(index))]
    assert len(held) == 3
    assert [name in before for name in held] == [True, True, False]
    assert _texts(repository) == _sorted(frames)
    assert [index.source(n).time_range.first for n in range(3)] == [0, 4, 9]  # type: ignore[union-attr]


def test_rows_of_equal_times_keep_the_order_of_the_list() -> None:
    repository = _new()
    frames = [_frame([1, 2], 0), _frame([2, 2], 1), _frame([2, 3], 2)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        staged = [
            repository.stage("s", frame, task_id=str(at), index="t")
            for at, frame in enumerate(frames)
        ]
        repository.finalize("s", [staged[n] for n in order], sort=True)
        assert _texts(repository) == _sorted([frames[n] for n in order])


def test_columns_of_another_place_are_written_anew() -> None:
    """What was staged before the symbol got the columns that it has now goes where they are."""
    repository = _new()
    staged = repository.stage("s", _frame([5, 6], 1), task_id="late", index="t")
    repository.write("s", pa.table({"x": [1.0], "y": [2.0], "t": [1]}), index="t")
    repository.write("s", _frame([1], 0), index="t")
    repository.finalize("s", [staged], mode="append")
    assert _texts(repository) == ["0/0", "1/0", "1/1"]
    repository.finalize("s", [repository.stage("s", _frame([3], 2), task_id="w")], mode="write")
    assert _texts(repository) == ["2/0"]
    assert read(repository.view("s", 3)).column("task").to_pylist() == [0, 1, 1]


def test_a_column_without_a_type_takes_that_of_others() -> None:
    repository = _new()
    one = repository.stage("s", pa.table({"a": [1], "b": pa.nulls(1)}), task_id="1")
    two = repository.stage("s", pa.table({"a": [2], "b": ["x"]}), task_id="2")
    repository.finalize("s", [one, two])
    assert read(repository.view("s")).to_pydict() == {"a": [1, 2], "b": [None, "x"]}
    repository.write("n", pa.table({"a": [1], "b": pa.nulls(1)}))
    more = repository.stage("n", pa.table({"b": ["y"], "a": [3]}), task_id="3")
    repository.finalize("n", [more], mode="append")
    assert read(repository.view("n")).to_pydict() == {"a": [1, 3], "b": [None, "y"]}


def test_metadata_and_statistics_come_along() -> None:
    """Segments are pruned by the statistics that the workers took."""
    repository = _new()
    staged = [
        repository.stage("s", _frame([at], at), task_id=str(at), index="t") for at in range(3)
    ]
    repository.finalize("s", staged, metadata={"source": "tasks"})
    view = repository.view("s")
    assert view.metadata == {"source": "tasks"}
    proofs = evaluate_statistics(parse("task > 1"), view.index().statistics, view.schema)
    assert proofs.tolist() == [-1, -1, 1]


# --- once -----------------------------------------------------------------------------------------


def test_of_two_attempts_one_counts() -> None:
    repository = _new()
    first = repository.stage("s", _frame([1], 0), task_id="a", index="t")
    second = repository.stage("s", _frame([2], 1), task_id="a", index="t")
    other = repository.stage("s", _frame([3], 2), task_id="b", index="t")
    repository.finalize("s", [first, other, second, first])
    assert _texts(repository) == ["0/0", "2/0"]
    third = [repository.stage("s", _frame([n], n), task_id="c", index="t") for n in (5, 6)]
    repository.finalize("s", third, attempts={"c": third[1].attempt})
    assert _texts(repository) == ["6/0"]


def test_the_same_set_lands_once() -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged = [repository.stage("s", _frame([at + 1], at), task_id=str(at)) for at in range(3)]
    version = repository.finalize("s", staged, mode="append")
    repository.append("s", _frame([50], 8))
    again = Repository.open(repository.uri, create=False)
    for listed in (staged, staged[::-1], [*staged, staged[0]]):
        assert again.finalize("s", listed, mode="append") == version
    assert again.newest == version + 1
    assert _texts(repository) == ["9/0", "0/0", "1/0", "2/0", "8/0"]
    fresh = repository.stage("s", _frame([60], 7), task_id="0")
    assert repository.finalize("s", [fresh], mode="append") == version + 2


def test_a_set_that_shares_attempts_with_one_that_landed_is_refused() -> None:
    repository = _new()
    staged = [
        repository.stage("s", _frame([at], at), task_id=f"task {at}", index="t") for at in range(3)
    ]
    repository.finalize("s", staged[:2])
    for listed in (staged, staged[1:], staged[:1]):
        with pytest.raises(InvalidInputError, match=r"version 1 has taken some.*'task [01]'"):
            repository.finalize("s", listed, mode="append")
    assert repository.newest == 1
    repository.finalize("s", staged[2:], mode="append")
    assert _texts(repository) == ["0/0", "1/0", "2/0"]


def test_two_who_finalise_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second finds the commit of the first, whatever was checked before."""
    repository = _new()
    repository.write("s", pa.table({"text": ["old"]}))
    staged = [repository.stage("s", pa.table({"text": [str(n)]}), task_id=str(n)) for n in (1, 2)]
    rival = Repository.open(repository.uri, create=False)
    original = Repository.transaction
    landed: list[int] = []

    def late(self: Repository, *arguments: Any, **named: Any) -> Any:
        made = original(self, *arguments, **named)
        if self is repository and not landed:
            landed.append(rival.finalize("s", staged, mode="append"))
        return made

    monkeypatch.setattr(Repository, "transaction", late)
    assert repository.finalize("s", staged, mode="append") == landed[0] == repository.newest
    assert _texts(repository) == ["old", "1", "2"]


class _Merges:
    """Counts merges, and lets others change the symbol before each commit of a finalise."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, others: Callable[[int], object], times: int
    ) -> None:
        self.merges = self.tries = 0
        merge, commit = finalizing.merge_ordered, Transaction.commit

        def merging(*arguments: Any) -> Any:
            self.merges += 1
            return merge(*arguments)

        def late(transaction: Transaction) -> int:
            if transaction._message == "finalize s":
                self.tries += 1
                if self.tries <= times:
                    others(self.tries)
            return commit(transaction)

        monkeypatch.setattr(finalizing, "merge_ordered", merging)
        monkeypatch.setattr(Transaction, "commit", late)


def test_others_who_append_meanwhile_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged = [repository.stage("s", _frame([9], 0), task_id="0")]
    _Merges(monkeypatch, lambda _: [repository.append("s", _frame([n], n)) for n in (1, 2, 3)], 1)
    assert repository.finalize("s", staged, mode="append") == 5
    assert _texts(repository) == ["9/0", "1/0", "2/0", "3/0", "0/0"]


def test_it_gives_up_where_others_never_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged = [repository.stage("s", _frame([9], 0), task_id="0")]
    _Merges(monkeypatch, lambda _: repository.write("s", _frame([0], 1), index="t"), 1_000)
    with pytest.raises(CommitConflictError):
        repository.finalize("s", staged, mode="append")
    assert "0/0" not in _texts(repository)


def _overlapping(repository: Repository) -> tuple[list[StagedRows], list[str]]:
    frames = [_frame([20, 22], 5), _frame([21, 23], 6), _frame([30], 7)]
    staged = [repository.stage("s", frame, task_id=str(at)) for at, frame in enumerate(frames)]
    return staged, _sorted(frames)


def test_appends_of_others_meanwhile_make_no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged, texts = _overlapping(repository)
    counted = _Merges(monkeypatch, lambda n: repository.append("s", _frame([n], n)), 1)
    assert repository.finalize("s", staged, mode="append", sort=True) == 3
    assert (counted.tries, counted.merges) == (1, 1)
    assert _texts(repository) == ["9/0", "1/0", *texts]


def test_what_was_merged_is_not_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged, texts = _overlapping(repository)
    counted = _Merges(monkeypatch, lambda n: repository.append("s", _frame([n], n)), 3)
    before = len(list(repository.objects.list("seg/")))
    assert repository.finalize("s", staged, sort=True) == 5
    assert (counted.tries, counted.merges) == (4, 1)
    # Three of others, and the merged rows once.
    assert len(list(repository.objects.list("seg/"))) == before + 4
    assert _texts(repository) == texts
    assert check_store(repository).damages == []
    assert repository.finalize("s", staged, sort=True) == 5


def test_what_was_merged_into_other_columns_is_merged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged, texts = _overlapping(repository)

    def others(number: int) -> None:
        repository.delete("s")
        repository.write("s", pa.table({"text": ["x"], "more": [1], "t": [0]}), index="t")
        repository.write("s", _frame([number], 1), index="t")

    counted = _Merges(monkeypatch, others, 1)
    repository.finalize("s", staged, mode="append", sort=True)
    assert (counted.tries, counted.merges) == (2, 2)
    assert _texts(repository) == ["1/0", *texts]


def test_what_was_merged_and_is_gone_is_merged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = _new()
    repository.write("s", _frame([0], 9), index="t")
    staged, texts = _overlapping(repository)
    staged_objects = set(repository.objects.list("seg/"))
    counted = _Merges(monkeypatch, lambda n: repository.append("s", _frame([n], n)), 1)
    original = Repository.transaction

    def collected(self: Repository, *arguments: Any, **named: Any) -> Any:
        if arguments[:1] == ("finalize s",) and counted.tries == 1:
            index = self.view("s").index()
            held = {index.source(at).key.object for at in range(len(index))}
            (merged,) = set(self.objects.list("seg/")) - staged_objects - held
            self.objects.delete(merged)
        return original(self, *arguments, **named)

    monkeypatch.setattr(Repository, "transaction", collected)
    repository.finalize("s", staged, sort=True)
    assert (counted.tries, counted.merges) == (2, 2)
    assert _texts(repository) == texts
    assert check_store(repository).damages == []


# --- several processes ----------------------------------------------------------------------------


def _work(uri: str, task: int, attempt: int) -> str:
    repository = Repository.open(uri, create=False)
    times = [task + 10 * row for row in range(20)]
    frame = _frame(times, task)
    assert attempt >= 0
    return json.dumps(repository.stage("s", frame, task_id=str(task), index="t").to_json())


def test_workers_are_processes_of_their_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "store")
    repository = Repository.open(uri)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        work = [pool.submit(_work, uri, task, again) for again in range(2) for task in range(5)]
        found = [each.result() for each in work]
    assert repository.newest == 0
    assert repository.finalize("s", found, sort=True) == 1
    times = read(repository.view("s")).column("t").to_pylist()
    assert times == sorted(task + 10 * row for task in range(5) for row in range(20))
    assert repository.finalize("s", found, sort=True) == 1


def _finish(uri: str, found: list[str], mode: Any) -> int:
    return Repository.open(uri, create=False).finalize("s", found, mode=mode, sort=True)


@pytest.mark.parametrize("mode", ["write", "append"])
def test_processes_that_finalise_one_set_at_once(tmp_path: Path, mode: str) -> None:
    uri = str(tmp_path / "store")
    repository = Repository.open(uri)
    repository.write("s", _frame([0], 99), index="t")
    found = [
        json.dumps(repository.stage("s", _frame([1, 2, 3], task), task_id=str(task)).to_json())
        for task in range(4)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        work = [pool.submit(_finish, uri, found, mode) for _ in range(9)]
        assert {each.result() for each in work} == {2}
    assert repository.newest == 2
    staged = [_frame([1, 2, 3], task) for task in range(4)]
    assert _texts(repository) == (["99/0"] if mode == "append" else []) + _sorted(staged)


# --- what is left behind --------------------------------------------------------------------------


def test_what_is_not_finalised_is_collected_after_a_while(tmp_path: Path) -> None:
    repository = Repository.open(str(tmp_path / "store"))
    repository.write("kept", _frame([1]))
    staged = repository.stage("s", _frame([1]), task_id="0")
    taken = repository.stage("s", _frame([2]), task_id="1")
    repository.finalize("s", [taken])
    held = {*repository.objects.list("seg/"), *repository.objects.list("man/")}
    repository.gc(dry_run=False)
    assert {*repository.objects.list("seg/"), *repository.objects.list("man/")} == held
    collect_all(repository)
    left = {*repository.objects.list("seg/"), *repository.objects.list("man/")}
    assert left < held
    newest = repository.newest
    with pytest.raises(InvalidInputError, match="task '0' staged cannot be used"):
        repository.finalize("s", [staged], mode="append")
    assert repository.newest == newest
    assert _texts(repository) == ["0/0"]
    assert _texts(repository, "kept") == ["0/0"]


# --- what comes from outside ----------------------------------------------------------------------


def test_a_descriptor_travels_as_plain_data() -> None:
    repository = _new()
    staged = repository.stage("s", _frame([1, 2]), task_id="ä", index="t")
    text = json.dumps(staged.to_json())
    assert StagedRows.from_json(text) == StagedRows.from_json(json.loads(text)) == staged
    assert pickle.loads(pickle.dumps(staged)) == staged
    assert (staged.rows, staged.times, staged.schema.index) == (2, (1, 2), "t")
    assert "2 rows" in repr(staged)
    empty = repository.stage("s", _frame([]), task_id="none", index="t")
    assert StagedRows.from_json(empty.to_json()) == empty
    assert (empty.rows, empty.times) == (0, None)


_ATOMS = st.sampled_from(
    [None, True, -1, 0, 1, 2**40, 2**70, 1.5, "", "x", "man/" + "0" * 32, [], {}, [1], {"a": 1}]
)


@settings(max_examples=150)
@given(data=st.data())
def test_no_descriptor_is_trusted(data: st.DataObject) -> None:
    """Whatever one field says: a typed error, or the rows that were staged; never another end."""
    repository = _new()
    staged = repository.stage("s", _frame([1, 2]), task_id="a", index="t")
    forged = copy.deepcopy(staged.to_json())
    places = [(forged, key) for key in forged]
    places += [(forged["state"], key) for key in forged["state"]]
    extent = forged["state"]["manifests"][0]
    places += [(extent, key) for key in extent]
    holder, key = data.draw(st.sampled_from(places), label="place")
    if data.draw(st.booleans(), label="remove"):
        del holder[key]
    else:
        holder[key] = data.draw(_ATOMS, label="value")
    try:
        repository.finalize("s", [forged])
    except TesselError:
        assert repository.newest == 0
        return
    assert read(repository.view("s")).column("text").to_pylist() == ["0/0", "0/1"]


def test_misuse_is_refused() -> None:
    repository = _new()
    other = _new()
    repository.write("x", _frame([1, 5], 0), index="t")
    good = repository.stage("x", _frame([7], 1), task_id="good")
    stage, finalize = repository.stage, repository.finalize
    wide = stage("x", pa.table({"t": [1], "task": [1]}), task_id="wide")
    plain = stage("x", pa.table({"a": [1]}), task_id="plain")
    early = stage("x", _frame([3], 1), task_id="early")
    overlap = [stage("x", _frame([7, 9], 1), task_id="p"), stage("x", _frame([8], 1), task_id="q")]
    backwards = [stage("x", _frame([9], 1), task_id="r"), stage("x", _frame([8], 1), task_id="s")]
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: stage("x", _frame([2, 1]), task_id="a"), UnsortedIndexError, "goes back"),
        (lambda: stage("x", _frame([1]), task_id=""), InvalidInputError, "task_id=''"),
        (lambda: stage("x", _frame([1]), task_id=3), InvalidInputError, "task_id=3"),
        (lambda: stage("", _frame([1]), task_id="a"), SymbolNameError, "cannot name"),
        (lambda: stage("x", 3, task_id="a"), InvalidInputError, "no table"),
        (lambda: stage("y", _frame([1]), task_id="a", index="z"), IndexColumnError, "'z'"),
        (lambda: stage("y", _frame([1]), task_id="a", sort=True), InvalidInputError, "nothing to"),
        (lambda: finalize("x", []), InvalidInputError, "nothing was staged"),
        (lambda: finalize("x", good), InvalidInputError, "takes a list"),
        (lambda: finalize("x", [3]), InvalidInputError, "no descriptor"),
        (lambda: finalize("x", ["{"]), InvalidInputError, "not JSON"),
        (lambda: finalize("y", [good]), InvalidInputError, "for symbol 'x', not 'y'"),
        (lambda: other.finalize("x", [good]), InvalidInputError, "another store"),
        (lambda: finalize("x", [good], mode="merge"), InvalidInputError, "mode='merge'"),
        (lambda: finalize("x", [good, wide]), SchemaMismatchError, "task 'wide'"),
        (lambda: finalize("x", [plain], mode="append"), SchemaMismatchError, "symbol 'x'"),
        (lambda: finalize("x", [plain], sort=True), InvalidInputError, "nothing to sort"),
        (
            lambda: finalize("x", [early], mode="append"),
            UnsortedIndexError,
            "what task 'early' staged begins",
        ),
        (lambda: finalize("x", overlap), UnsortedIndexError, "tasks 'p' and 'q' overlap"),
        (lambda: finalize("x", backwards), UnsortedIndexError, "'r' and 's' are not in the order"),
        (lambda: finalize("x", [good], attempts={"b": "1"}), InvalidInputError, "task 'b'"),
        (
            lambda: finalize("x", [good], mode="append", metadata={"a": 1}),
            InvalidInputError,
            "bring no metadata",
        ),
        (lambda: finalize("x", [good], metadata={"a": {1}}), InvalidInputError, "plain JSON"),
    ]
    for act, error, text in cases:
        with pytest.raises(error, match=text):
            act()
    lost = stage("z", _frame([1]), task_id="lost")
    with pytest.raises(SymbolNotFoundError):
        finalize("z", [lost], mode="append")
    assert repository.newest == 1
    assert _texts(repository, "x") == ["0/0", "0/1"]
    frozen = Repository.open(repository.uri, read_only=True)
    with pytest.raises(ReadOnlyStoreError):
        frozen.stage("x", _frame([9]), task_id="a")
    with pytest.raises(ReadOnlyStoreError):
        frozen.finalize("x", [good])
    with repository.transaction() as tx:
        tx.finalize("x", [good], mode="append")
        tx.set_metadata("x", {"tasks": 1})
    assert _texts(repository, "x") == ["0/0", "0/1", "1/0"]
    assert repository.finalize("x", [good], mode="append") == 2

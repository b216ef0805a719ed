"""Staged rows that update and upsert a symbol, and writes that have a name, against plain verbs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import (
    CommitConflictError,
    IndexColumnError,
    InvalidInputError,
    SchemaMismatchError,
    UnsortedIndexError,
)
from tessel.options import options
from tessel.store import Repository, StreamBatch
from tessel.store.maintenance.fsck import check_store
from tests.store.helpers import read

times = st.lists(st.integers(0, 12), max_size=6).map(sorted)


def frame(times: list[int], text: str = "") -> pa.Table:
    return pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "text": pa.array([f"{text}{row}" for row in range(len(times))], pa.string()),
        }
    )


def store_of(*tables: pa.Table) -> Repository:
    repository = Repository.open("memory://")
    for table in tables:
        repository.write("s", table, index="t")
    return repository


def staged(repository: Repository, *tables: pa.Table, index: str | None = "t") -> list[Any]:
    return [
        repository.stage("s", table, task_id=str(at), index=index)
        for at, table in enumerate(tables)
    ]


def rows(repository: Repository) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = read(repository.view("s")).to_pydict()
    return found


# --- the same as plain verbs ----------------------------------------------------------------------


@settings(max_examples=60)
@given(
    before=times,
    parts=st.lists(times, min_size=1, max_size=3).filter(any),
    segment_rows=st.integers(1, 4),
)
def test_an_update(before: list[int], parts: list[list[int]], segment_rows: int) -> None:
    tables = [frame(each, f"{at}/") for at, each in enumerate(parts)]
    with options(segment_rows=segment_rows):
        plain, tasks = store_of(frame(before)), store_of(frame(before))
        together = pa.concat_tables(tables).sort_by([("t", "ascending")])
        plain.update("s", together)
        tasks.finalize("s", staged(tasks, *tables), mode="update", sort=True)
    assert rows(tasks) == rows(plain)
    assert tasks.newest == 2
    assert check_store(tasks).damages == []


@settings(max_examples=60)
@given(
    before=st.lists(st.integers(0, 9), unique=True).map(sorted),
    parts=st.lists(st.integers(0, 12), unique=True, min_size=1),
    cuts=st.integers(1, 3),
    index=st.booleans(),
)
def test_an_upsert(before: list[int], parts: list[int], cuts: int, index: bool) -> None:
    tables = [frame(sorted(parts[at::cuts]), f"{at}/") for at in range(cuts)]
    name = "t" if index else None
    stores = [Repository.open("memory://") for _ in range(2)]
    for repository in stores:
        repository.write("s", frame(before), index=name)
    plain, tasks = stores
    plain.upsert("s", pa.concat_tables(tables), keys=["t"])
    tasks.finalize("s", staged(tasks, *tables, index=name), mode="upsert", keys=["t"])
    assert rows(tasks) == rows(plain)


def test_an_update_takes_segments_over_as_they_are() -> None:
    repository = store_of(frame([0, 5, 9]))
    parts = staged(repository, frame([3, 4]), frame([6]))
    before = {name for name, *_ in _objects(repository)}
    repository.finalize("s", parts, mode="update")
    kinds = {name.partition("/")[0] for name, *_ in _objects(repository) if name not in before}
    assert not any("seg" in kind or "pack" in kind for kind in kinds), kinds
    assert rows(repository)["t"] == [0, 3, 4, 6, 9]


def _objects(repository: Repository) -> list[tuple[str]]:
    return [(str(getattr(each, "name", each)),) for each in repository.objects.list()]


# --- a symbol that is not there -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "update", "upsert"])
def test_create_makes_the_symbol(mode: Any) -> None:
    repository = store_of()
    keys = ["t"] if mode == "upsert" else None
    parts = staged(repository, frame([1, 2]), frame([3]))
    assert repository.finalize("s", parts, mode=mode, keys=keys, create=True) == 1
    assert rows(repository)["t"] == [1, 2, 3]
    assert repository.view("s").schema.index == "t"
    assert check_store(repository).damages == []


def test_two_that_make_it_at_once_both_add_their_rows() -> None:
    repository = store_of()
    first, second = staged(repository, frame([1]), frame([2]))
    transaction = repository.transaction()
    transaction.finalize("s", [first], mode="append", create=True)
    repository.finalize("s", [second], mode="append", create=True)
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert rows(repository)["t"] == [2]


def test_two_rows_of_one_key_in_two_tasks() -> None:
    for repository in (store_of(), store_of(frame([7]))):
        before = repository.newest
        parts = staged(repository, frame([1, 2]), frame([2]))
        with pytest.raises(InvalidInputError, match="have the key t=2"):
            repository.finalize("s", parts, mode="upsert", keys=["t"], create=True)
        assert repository.newest == before


# --- a write with a name --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["write", "append", "update", "upsert"])
def test_a_write_is_done_once(mode: Any) -> None:
    repository = store_of(frame([0]))
    keys = ["t"] if mode == "upsert" else None

    def again() -> int:
        parts = staged(repository, frame([1, 2]), frame([3]))
        return repository.finalize("s", parts, mode=mode, keys=keys, write_id="monday")

    assert again() == 2
    repository.append("s", frame([9]))
    assert again() == 2
    assert repository.newest == 3
    assert rows(repository)["t"][-4:] == [1, 2, 3, 9]
    with pytest.raises(InvalidInputError, match=r"'monday' stands for 3 rows(.|\n)*now for 1"):
        repository.finalize("s", staged(repository, frame([10])), write_id="monday")
    assert repository.newest == 3


def test_the_last_thousand_are_known_beside_what_users_attach() -> None:
    repository = store_of()
    repository.write("s", frame([0]), index="t", metadata={"unit": "s"})
    known = [[f"{number}", 1] for number in range(1_000)]
    repository.set_metadata("s", {"unit": "s", "tessel.writes": known})
    repository.finalize("s", staged(repository, frame([1])), mode="append", write_id="new")
    metadata = repository.view("s").metadata
    assert metadata["unit"] == "s"
    assert metadata["tessel.writes"] == [*known[1:], ["new", 1]]
    # Written anew, also without an id, the symbol knows them still.
    repository.finalize("s", staged(repository, frame([1])))
    assert repository.view("s").metadata == {"tessel.writes": metadata["tessel.writes"]}


@pytest.mark.parametrize("other", [None, 1, {"a": 1}, [1], [["a"]], [["a", "b"]]])
def test_what_users_put_in_their_place_is_none(other: Any) -> None:
    repository = store_of(frame([0]))
    repository.set_metadata("s", {"tessel.writes": other})
    repository.finalize("s", staged(repository, frame([1])), mode="append", write_id="a")
    assert repository.view("s").metadata["tessel.writes"] == [["a", 1]]


def test_two_that_do_one_write_at_once() -> None:
    repository = store_of(frame([0]))
    transaction = repository.transaction()
    transaction.finalize("s", staged(repository, frame([1])), mode="append", write_id="a")
    repository.finalize("s", staged(repository, frame([1])), mode="append", write_id="a")
    with pytest.raises(CommitConflictError, match=r"conflict|meanwhile|took|write"):
        transaction.commit()
    assert rows(repository)["t"] == [0, 1]


# --- the batches of a stream ----------------------------------------------------------------------

batches = st.builds(
    StreamBatch,
    stream=st.sampled_from("ab"),
    number=st.integers(0, 4),
    query=st.sampled_from(["q", "r", None]),
    restart=st.integers(0, 5).map(lambda n: n == 0),
)


@given(st.lists(st.tuples(batches, st.integers(0, 2)), max_size=8))
def test_batches_follow_one_another_or_are_refused(asked: list[tuple[StreamBatch, int]]) -> None:
    repository = store_of(frame([0]))
    last: dict[str, tuple[int, int, str | None]] = {}
    expected = [0]
    for batch, count in asked:
        parts = staged(repository, frame([1] * count))
        before = repository.newest
        number, rows_before, query = last.get(batch.stream, (batch.number - 1, 0, None))
        same = batch.query is None or query in (None, batch.query)
        again = same and batch.number == number
        if again and rows_before == count:
            assert repository.finalize("s", parts, mode="append", write_id=batch) <= before
            assert repository.newest == before
        elif not again and (batch.restart or (same and batch.number == number + 1)):
            version = repository.finalize("s", parts, mode="append", write_id=batch)
            assert version == repository.newest == before + 1
            last[batch.stream] = batch.number, count, batch.query or query
            expected += [1] * count
        else:
            with pytest.raises(InvalidInputError, match=r"batch \d .*of stream '[ab]'"):
                repository.finalize("s", parts, mode="append", write_id=batch)
        assert rows(repository)["t"] == expected
    told = repository.view("s").metadata.get("tessel.streams", {})
    assert told == {stream: list(each) for stream, each in last.items()}


@pytest.mark.parametrize("mode", ["write", "append", "upsert"])
def test_every_verb_keeps_the_last_batch_of_each_stream(mode: Any) -> None:
    repository = store_of(frame([0]))
    keys = ["t"] if mode == "upsert" else None
    for first, stream in ((10, "a"), (20, "b")):
        for number, count in enumerate([1, 0, 2]):
            for _ in range(2):
                start = first + number
                parts = staged(repository, frame(list(range(start, start + count))))
                batch = StreamBatch(stream, number)
                repository.finalize("s", parts, mode=mode, keys=keys, write_id=batch)
    assert repository.newest == 7
    expected = {"a": [2, 2, None], "b": [2, 2, None]}
    assert repository.view("s").metadata["tessel.streams"] == expected
    # The version of a batch is found, whatever came after it.
    repository.append("s", frame([90]))
    parts = staged(repository, frame([95, 96]))
    assert repository.finalize("s", parts, mode="append", write_id=StreamBatch("a", 2)) == 4


def test_two_that_write_one_batch_at_once() -> None:
    repository = store_of(frame([0]))
    transaction = repository.transaction()
    batch = StreamBatch("a", 0)
    transaction.finalize("s", staged(repository, frame([1])), mode="append", write_id=batch)
    repository.finalize("s", staged(repository, frame([1])), mode="append", write_id=batch)
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert rows(repository)["t"] == [0, 1]


@pytest.mark.parametrize("other", [None, 1, [1], {"a": 1}, {"a": [1]}, {"a": [1, "b", None]}])
def test_what_users_put_in_the_place_of_streams_is_none(other: Any) -> None:
    repository = store_of(frame([0]))
    repository.set_metadata("s", {"tessel.streams": other})
    parts = staged(repository, frame([1]))
    repository.finalize("s", parts, mode="append", write_id=StreamBatch("a", 7))
    assert repository.view("s").metadata["tessel.streams"] == {"a": [7, 1, None]}


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ({"mode": "upsert"}, InvalidInputError, "keys= goes with mode='upsert'"),
        ({"keys": ["t"]}, InvalidInputError, "keys= goes with mode='upsert'"),
        ({"mode": "merge"}, InvalidInputError, "mode='merge' is none"),
        ({"mode": "update", "metadata": {}}, InvalidInputError, "bring no metadata"),
        ({"mode": "update"}, UnsortedIndexError, "overlap in time"),
        ({"write_id": ""}, InvalidInputError, "names no write"),
        ({"write_id": 7}, InvalidInputError, "names no write"),
        ({"write_id": StreamBatch("", 0)}, InvalidInputError, "stream_id='' names no stream"),
        ({"mode": "upsert", "keys": ["x"]}, KeyError, "'x'"),
    ],
)
def test_arguments_that_are_refused(
    asked: dict[str, Any], kind: type[Exception], message: str
) -> None:
    repository = store_of(frame([0]))
    with pytest.raises(kind, match=message):
        repository.finalize("s", staged(repository, frame([1, 5]), frame([2])), **asked)
    assert repository.newest == 1


def test_updates_that_have_no_range() -> None:
    repository = store_of(frame([0]))
    with pytest.raises(InvalidInputError, match="covers no range"):
        repository.finalize("s", staged(repository, frame([])), mode="update")
    other = Repository.open("memory://")
    other.write("s", frame([0]))
    with pytest.raises(IndexColumnError, match="update needs a time index"):
        other.finalize("s", staged(other, frame([1]), index=None), mode="update")
    with pytest.raises(SchemaMismatchError, match="the index is"):
        other.finalize("s", staged(other, frame([1])), mode="update")

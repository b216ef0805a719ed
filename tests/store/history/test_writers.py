"""Many writers on one store: nothing acknowledged is lost, races end in one winner."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.errors import (
    CommitConflictError,
    CommitUnknownError,
    RefExistsError,
    RefNotFoundError,
    SnapshotExpiredError,
    StoreError,
)
from tessel.options import options
from tessel.store.history.committer import advisory_lock
from tessel.store.history.documents import open_store
from tessel.store.history.history import History
from tessel.store.history.log import LogEntry
from tessel.store.history.versions import timestamp_of
from tessel.store.objects import LocalObjects, ObjectStore
from tessel.store.objects.local import TEMPORARY
from tests.store.history.helpers import CountingObjects, changes_of, put, values

COMMITS = 25


def _check(history: History, writers: int, commits: int) -> None:
    """Check that the log is one dense chain, and that every writer's last value is there."""
    entries = list(history.entries())
    assert [entry.number for entry in entries] == list(range(writers * commits, 0, -1))
    assert [e.previous for e in entries] == [*(e.commit for e in entries[1:]), ""]
    assert all(a.timestamp_us > b.timestamp_us for a, b in itertools.pairwise(entries))
    told: dict[str, list[object]] = {}
    for entry in reversed(entries):
        found = values(history.at(entry.number))
        for change in entry.changes:
            told.setdefault(change.name, []).append(found[change.name])
    assert told == {f"s{writer}": list(range(commits)) for writer in range(writers)}
    assert values(history.newest()) == {f"s{writer}": commits - 1 for writer in range(writers)}


def opened(objects: ObjectStore) -> History:
    """Return the history of a store, made where there is none."""
    open_store(objects, create=True, read_only=False)
    return History(objects)


def test_threads_lose_nothing() -> None:
    objects = CountingObjects()
    shared = opened(objects)
    failures: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            # Half of the threads share a history, as those of one open store do.
            history = shared if writer % 2 else opened(objects)
            for number in range(COMMITS):
                put(history, "main", {f"s{writer}": number})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    _check(opened(objects), 4, COMMITS)


def _write_many(path: str, writer: int, commits: int, clock_off_seconds: int) -> None:
    real = time.time_ns
    time.time_ns = lambda: real() + clock_off_seconds * 10**9
    with options(fsync=False):
        history = opened(LocalObjects(path))
        for number in range(commits):
            put(history, "main", {f"s{writer}": number})


def _processes(path: Path, writers: int, commits: int) -> None:
    context = multiprocessing.get_context("fork")
    running = [
        context.Process(target=_write_many, args=(str(path), writer, commits, off))
        for writer, off in zip(range(writers), itertools.cycle([0, 3600, -3600]), strict=False)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * writers
    _check(opened(LocalObjects(path)), writers, commits)


def test_processes_with_clocks_an_hour_off_lose_nothing(tmp_path: Path) -> None:
    _processes(tmp_path, 4, COMMITS)


@pytest.mark.slow
def test_sixteen_processes_and_two_hundred_commits_each(tmp_path: Path) -> None:
    _processes(tmp_path, 16, 200)


def test_branches_do_not_wait_for_each_other() -> None:
    objects = CountingObjects()
    history = opened(objects)
    put(history, "main", {"a": 0})
    history.create_branch("dev", 1)
    on_main, on_dev = history.newest("main"), history.newest("dev")
    assert history.commit(on_dev, changes_of({"a": "dev"}), "").number == 3
    assert history.commit(on_main, changes_of({"a": "main"}), "").number == 4
    assert values(history.newest("dev")) == {"a": "dev"}
    assert values(history.newest("main")) == {"a": "main"}
    with pytest.raises(CommitConflictError, match="version 4 came first"):
        history.commit(on_main, changes_of({"a": "late"}), "")
    assert history.newest_number == 4


# --- races of branches and tags -------------------------------------------------------------------


def _racing() -> tuple[History, CountingObjects, Callable[[Callable[[History], object]], None]]:
    """Return a history, and how to let another writer act just before its next log entry."""
    objects = CountingObjects()
    history = opened(objects)
    put(history, "main", {"a": 1})
    history.create_branch("dev", 1)
    put(history, "dev", {"a": 2})

    def before_the_next_entry(act: Callable[[History], object]) -> None:
        def once(name: str) -> None:
            if name.startswith("log/"):
                objects.before_put = lambda name: None
                act(opened(objects))

        objects.before_put = once

    return history, objects, before_the_next_entry


def test_two_that_make_one_tag() -> None:
    history, _, before = _racing()
    before(lambda other: other.create_tag("v1", 3))
    with pytest.raises(RefExistsError, match="there is a tag 'v1', at version 3"):
        history.create_tag("v1", 1)
    assert history.refs().tags == {"v1": 3}
    assert history.newest_number == 4


def test_a_tag_and_a_branch_of_one_name() -> None:
    history, _, before = _racing()
    before(lambda other: other.create_branch("v1", 3))
    with pytest.raises(RefExistsError, match="there is a branch 'v1', at version 4"):
        history.create_tag("v1", 1)
    assert (history.refs().tags, history.newest_number) == ({}, 4)


def test_two_that_make_different_tags_both_do() -> None:
    history, _, before = _racing()
    before(lambda other: other.create_tag("v1", 3))
    history.create_tag("v2", 1)
    assert history.refs().tags == {"v1": 3, "v2": 1}


def test_two_that_delete_one_branch() -> None:
    history, _, before = _racing()
    before(lambda other: other.delete_branch("dev"))
    with pytest.raises(RefNotFoundError, match="no branch 'dev'"):
        history.delete_branch("dev")
    assert history.newest_number == 4


def test_a_commit_to_a_branch_that_is_deleted_meanwhile() -> None:
    history, _, before = _racing()
    base = history.newest("dev")
    before(lambda other: other.delete_branch("dev"))
    with pytest.raises(CommitConflictError, match="'dev' was deleted meanwhile; nothing") as caught:
        history.commit(base, changes_of({"b": 1}), "")
    assert caught.value.attributes["branch"] == "dev"
    assert history.newest_number == 4


def test_a_commit_to_a_branch_that_is_set_back_meanwhile() -> None:
    history, _, before = _racing()
    base = history.newest("dev")
    before(lambda other: other.reset_branch("dev", 1))
    with pytest.raises(CommitConflictError, match="'dev' was set back behind version 3"):
        history.commit(base, changes_of({"b": 1}), "")
    assert history.newest_number == 4
    assert values(history.newest("dev")) == {"a": 1}


def test_a_commit_on_the_version_that_its_branch_is_set_to_lands() -> None:
    history, _, before = _racing()
    base = history.on_branch(1, "main")
    put(history, "main", {"a": 7})
    before(lambda other: other.reset_branch("main", 1))
    assert history.commit(base, changes_of({"b": 1}), "").number == 6
    assert values(history.newest()) == {"a": 1, "b": 1}


def test_a_tag_on_a_version_that_expires_meanwhile() -> None:
    history, _, before = _racing()
    put(history, "main", {"a": 3})
    before(lambda other: other.expire_before(4))
    with pytest.raises(SnapshotExpiredError, match="version 2 was expired"):
        history.create_tag("v1", 2)
    assert history.refs().tags == {}


def test_a_commit_made_on_what_has_expired_is_a_conflict() -> None:
    history, _, _ = _racing()
    base = history.on_branch(1, "main")
    for value in range(3):
        put(history, "main", {"b": value})
    history.expire_before(history.newest_number)
    with pytest.raises(CommitConflictError, match="have expired"):
        history.commit(base, changes_of({"c": 1}), "")
    assert history.commit(history.newest(), changes_of({"c": 1}), "").number == 8


def test_a_revert_conflicts_like_the_changes_it_makes() -> None:
    history, _, before = _racing()
    put(history, "main", {"a": 3, "b": 1})
    base, target = history.newest(), history.at(1)
    before(lambda other: put(other, "main", {"b": 2}))
    with pytest.raises(CommitConflictError):
        history.revert(base, target, "")
    before(lambda other: put(other, "main", {"c": 2}))
    landed = history.revert(history.newest(), target, "")
    assert landed is not None
    assert values(history.newest()) == {"a": 1, "c": 2}


# --- what became of it ----------------------------------------------------------------------------


class _LosesReplies(CountingObjects):
    """Puts of log entries land, and say that they did not."""

    answers: list[str]

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        landed = super().put_if_absent(name, data)
        if name.startswith("log/") and self.answers:
            if self.answers.pop(0) == "exists":
                return False
            raise StoreError("timed out")
        return landed


@pytest.mark.parametrize("answer", ["exists", "error"])
def test_an_act_whose_reply_is_lost_happens_once(answer: str) -> None:
    objects = _LosesReplies()
    objects.answers = []
    history = opened(objects)
    put(history, "main", {"a": 1})
    acts: list[Callable[[], LogEntry]] = [
        lambda: history.create_tag("v1", 1),
        lambda: history.create_branch("dev", 1),
        lambda: history.reset_branch("dev", 1),
        lambda: history.delete_tag("v1"),
        lambda: history.delete_branch("dev"),
    ]
    for act in acts:
        objects.answers = [answer]
        number = history.newest_number
        assert act().number == history.newest_number == number + 1
    assert [entry.act for entry in history.entries()] == [
        "delete-branch", "delete-tag", "reset-branch", "create-branch", "create-tag", "commit",
    ]  # fmt: skip


def test_an_act_that_nobody_knows_of_is_resolved_later(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = _LosesReplies()
    objects.answers = []
    history = opened(objects)
    put(history, "main", {"a": 1})
    objects.answers = ["error"]
    blind = pytest.MonkeyPatch()
    blind.setattr(objects, "get", lambda name: (_ for _ in ()).throw(StoreError("unreachable")))
    with pytest.raises(CommitUnknownError) as caught:
        history.create_tag("v1", 1)
    blind.undo()
    assert history.resolve(caught.value.attributes["commit"]) == 2
    assert history.refs().tags == {"v1": 1}


def test_clocks_an_hour_off_leave_the_order_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = CountingObjects()
    now = time.time_ns()
    for number in range(12):
        off = (0, 3600, -3600)[number % 3] * 10**9
        monkeypatch.setattr(time, "time_ns", lambda off=off, number=number: now + off + number)
        put(opened(objects), "main", {"a": number})
    history = opened(objects)
    entries = list(history.entries())
    assert all(a.timestamp_us > b.timestamp_us for a, b in itertools.pairwise(entries))
    for entry in entries:
        moment = timestamp_of(entry)
        assert history.as_of(moment).number == entry.number
        assert history.as_of(moment - timedelta(microseconds=1)).number == entry.number - 1


# --- advisory locks -------------------------------------------------------------------------------


@pytest.mark.parametrize(("losses", "locks"), [(7, 0), (8, 1), (12, 1)])
def test_a_writer_that_keeps_losing_asks_for_the_lock(
    losses: int, locks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def held(objects: object, name: str) -> Iterator[None]:
        events.append(f"{name} begins")
        yield
        events.append(f"{name} ends")

    monkeypatch.setattr("tessel.store.history.committer.advisory_lock", held)
    objects = CountingObjects()
    history, other = opened(objects), opened(objects)
    put(history, "main", {"a": 0})
    left = list(range(losses))

    def overtake(name: str) -> None:
        if name.startswith("log/") and left:
            objects.before_put = lambda name: None
            put(other, "main", {"theirs": left.pop()})
            objects.before_put = overtake

    objects.before_put = overtake
    assert put(history, "main", {"ours": 1}) == losses + 2
    assert events == ["commit begins", "commit ends"] * locks


def test_one_at_a_time_has_the_turn_of_a_directory(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path)
    objects.put_if_absent("a", b"")
    inside, most = 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with advisory_lock(objects, "commit"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert list(objects.list()) == ["a"], "the lock is no object"


def test_a_turn_that_is_never_given_back_holds_nobody_up_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tessel.store.history.committer._LONGEST_WAIT_SECONDS", 0.02)
    objects = LocalObjects(tmp_path)
    objects.put_if_absent("a", b"")
    descriptor = os.open(tmp_path / TEMPORARY / "turn-commit", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with advisory_lock(objects, "commit"):
            pass
    finally:
        os.close(descriptor)


def test_a_place_without_turns_or_folders_goes_on_without() -> None:
    with advisory_lock(CountingObjects(), "commit"):
        pass
    with advisory_lock(LocalObjects("/nowhere/at/all"), "commit"):
        pass

"""Local puts and commits under every failing call, death at every call, and power loss."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.errors import CommitUnknownError, StoreError
from tessel.store import Repository
from tessel.store.objects import LocalObjects
from tests.store.helpers import read
from tests.store.objects.disk_model import (
    Call,
    ProcessDied,
    Recorder,
    crashes,
    recorded,
    restore,
)

DATA = bytes(range(1, 101))
BEFORE = pa.table({"x": [1, 2, 3]})
AFTER = pa.table({"x": [4, 5, 6, 7]})


def _put(root: Path) -> bool:
    return LocalObjects(root).put_if_absent("seg/ab/x", DATA)


def _calls_of(root: Path, act: Callable[[], object]) -> list[Call]:
    with recorded(root) as recorder:
        act()
    return recorder.calls


def test_the_calls_of_a_put(tmp_path: Path) -> None:
    calls = _calls_of(tmp_path, lambda: _put(tmp_path))
    assert {call.what for call in calls} == {"mkdir", "create", "write", "sync", "link", "unlink"}


PUT_CALLS = 17


def test_how_many_calls_a_put_has(tmp_path: Path) -> None:
    with recorded(tmp_path) as recorder:
        _put(tmp_path)
    assert recorder.count == PUT_CALLS


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("at", range(PUT_CALLS))
def test_a_put_with_a_failing_call(tmp_path: Path, at: int, number: int) -> None:
    objects = LocalObjects(tmp_path)
    said = "put"
    with recorded(
        tmp_path, fail_at=at, failure=lambda: OSError(number, os.strerror(number))
    ) as recorder:
        try:
            assert objects.put_if_absent("seg/ab/x", DATA)
        except StoreError as error:
            said = error.attributes.get("landed", "failed")
    linked = any(call.what == "link" for call in recorder.calls)
    there = objects.exists("seg/ab/x")
    assert there == linked
    assert not there or objects.get("seg/ab/x").to_pybytes() == DATA
    synced = bool(recorder.calls) and recorder.calls[-1] == Call("sync", f"{tmp_path}/seg/ab")
    assert said == ("failed" if not linked else "put" if synced else "unknown")
    assert objects.put_if_absent("seg/ab/x", DATA) == (not there)
    assert objects.get("seg/ab/x").to_pybytes() == DATA


@pytest.mark.parametrize("at", range(PUT_CALLS))
def test_a_put_of_a_process_that_dies_at_a_call(tmp_path: Path, at: int) -> None:
    with recorded(tmp_path, fail_at=at), pytest.raises(ProcessDied):
        _put(tmp_path)
    objects = LocalObjects(tmp_path)
    if objects.exists("seg/ab/x"):
        assert objects.get("seg/ab/x").to_pybytes() == DATA
        assert not objects.put_if_absent("seg/ab/x", b"other")
    else:
        assert objects.put_if_absent("seg/ab/x", DATA)
    assert list(objects.list()) == ["seg/ab/x"]


def test_power_loss_at_any_moment_of_a_put(tmp_path: Path) -> None:
    place = str(tmp_path)
    with recorded(tmp_path) as recorder:
        _put(tmp_path)
    target = f"{place}/seg/ab/x"
    seen = set()
    for length in range(len(recorder.calls) + 1):
        acknowledged = length == len(recorder.calls)
        for state in crashes(recorder.calls[:length], place, random.Random(length), 64):
            found = state.get(target)
            assert found in (None, DATA)
            assert not acknowledged or found == DATA
            seen.add(found)
    assert seen == {None, DATA}, "both happen"


@pytest.mark.parametrize("dropped", ["sync of the file", "sync of the folder", "sync of a parent"])
def test_the_model_notices_a_sync_that_is_left_out(tmp_path: Path, dropped: str) -> None:
    place = str(tmp_path)
    calls = _calls_of(tmp_path, lambda: _put(tmp_path))
    file = next(call.path for call in calls if call.what == "write")
    path = {"sync of the file": file, "sync of the folder": f"{place}/seg/ab"}.get(dropped, place)
    kept = [call for call in calls if not (call.what == "sync" and call.path == path)]
    assert len(kept) < len(calls)
    found = {s.get(f"{place}/seg/ab/x") for s in crashes(kept, place, random.Random(1), 64)}
    assert found != {DATA}


# --- a whole commit -------------------------------------------------------------------------------


def _check_commit(root: Path, acknowledged: bool, what: str) -> bool:
    """Check a store after a crash in the middle of its second commit; say whether that landed."""
    repository = Repository.open(root, create=False)
    landed = repository.newest == 2
    assert landed or repository.newest == 1, what
    assert landed or not acknowledged, f"an acknowledged commit is gone: {what}"
    assert read(repository.view("a")).equals(AFTER if landed else BEFORE), what
    assert read(repository.view("a", as_of=1)).equals(BEFORE), what
    assert repository.write("b", AFTER) == repository.newest == 2 + landed, what
    return landed


def _commit_recorded(root: Path, **settings: object) -> tuple[Recorder, int]:
    """Record a store that is made and written twice; also how many calls came before the second."""
    with recorded(root, **settings) as recorder:
        repository = Repository.open(root)
        repository.write("a", BEFORE)
        first = len(recorder.calls)
        repository.write("a", AFTER)
    return recorder, first


def test_power_loss_at_any_moment_of_a_commit(tmp_path: Path) -> None:
    _power_losses(tmp_path, each=0)


@pytest.mark.slow
def test_power_loss_at_any_moment_of_a_commit_in_many_ways(tmp_path: Path) -> None:
    _power_losses(tmp_path, each=30)


def _power_losses(tmp_path: Path, *, each: int) -> None:
    """Check the store after all moments: nothing unsafe there, all of it, and ``each`` between."""
    root = tmp_path / "store"
    root.mkdir()
    recorder, first = _commit_recorded(root)
    numbers = iter(range(1_000_000))
    outcomes = set()
    for length in range(first, len(recorder.calls) + 1):
        acknowledged = length == len(recorder.calls)
        tried = set()
        for state in crashes(recorder.calls[:length], str(root), random.Random(length), each):
            key = hash(tuple(sorted((k, v or b"") for k, v in state.items())))
            if key in tried:
                continue
            tried.add(key)
            place = restore(state, str(root), tmp_path / f"crash-{next(numbers)}")
            what = f"after call {length}: {recorder.calls[length - 1]}"
            outcomes.add(_check_commit(place, acknowledged, what[:200]))
    assert outcomes == {True, False}


def _second_commit_dying(
    root: Path, at: int, failure: Callable[[], BaseException]
) -> tuple[bool, str]:
    """Fail call ``at`` of a second commit; return whether it got that far, and what was said."""
    repository = Repository.open(root)
    repository.write("a", BEFORE)
    with recorded(root, fail_at=at, failure=failure) as recorder:
        try:
            repository.write("a", AFTER)
        except CommitUnknownError:
            said = "unknown"
        except StoreError:
            said = "failed"
        except ProcessDied:
            said = "died"
        else:
            said = "won"
    return recorder.count > at, said


def test_death_at_any_call_of_a_commit(tmp_path: Path) -> None:
    outcomes = set()
    for at in range(1_000):
        root = tmp_path / str(at)
        reached, said = _second_commit_dying(root, at, ProcessDied)
        outcomes.add(_check_commit(root, said == "won", f"call {at}"))
        if not reached:
            assert said == "won"
            break
        assert said == "died"
    assert at > 10
    assert outcomes == {True, False}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failing_call_of_a_commit(tmp_path: Path, number: int) -> None:
    said_ones = set()
    for at in range(1_000):
        root = tmp_path / str(at)
        reached, said = _second_commit_dying(root, at, lambda: OSError(number, os.strerror(number)))
        said_ones.add(said)
        landed = _check_commit(root, said == "won", f"call {at}")
        assert said in ("won", "unknown" if landed else "failed"), at
        if not reached:
            break
    assert at > 10
    assert said_ones == {"won", "failed", "unknown"}


def test_an_entry_in_another_folder_waits_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Folders of the log hold a thousand entries; counted from here, the second commit begins one.
    monkeypatch.setattr("tessel.store.names._LAST_NUMBER", 10**12 - 999)
    Repository.open(tmp_path).write("x", BEFORE)
    (first,) = tmp_path.glob("log/*/*")
    # Another process saw the name, whose folder its writer has perhaps not synced.
    calls = _calls_of(tmp_path, lambda: Repository.open(tmp_path).write("x", AFTER))
    (second,) = set(tmp_path.glob("log/*/*")) - {first}
    assert second.parent != first.parent
    landed = calls.index(next(c for c in calls if (c.what, c.path) == ("link", str(second))))
    assert Call("sync", str(first.parent)) in calls[:landed]
    # Within one folder the sync of the entry itself does it.
    calls = _calls_of(tmp_path, lambda: Repository.open(tmp_path).write("x", BEFORE))
    assert Call("sync", str(first.parent)) not in calls

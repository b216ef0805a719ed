"""Rows that come to a symbol, as the log tells, against a list of rows for each version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import InvalidInputError, SnapshotExpiredError
from tessel.options import options
from tessel.store import Repository
from tessel.store.added_rows import added_rows
from tests.store.helpers import read

_EDITS = ("write", "update", "delete rows")
_ADDITIONS = ("append", "append", "append", "late update", "upsert")
_OTHERS = ("compact", "metadata", "column", "other", "tag")

operations = st.lists(st.sampled_from((*_ADDITIONS, *_OTHERS, *_EDITS)), max_size=10)


def frame(times: list[int]) -> dict[str, Any]:
    return {"t": times}


def times_of(repository: Repository, version: int) -> list[int]:
    return read(repository.view("s", version))["t"].to_pylist()  # type: ignore[no-any-return]


@given(operations=operations, data=st.data())
def test_runs_are_what_came_between_edits(operations: list[str], data: st.DataObject) -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=3):
        repository.write("s", frame([0, 1]), index="t")
        times, held = [0, 1], {1: [0, 1]}
        edits: dict[int, str] = {}
        for number, operation in enumerate(operations):
            new, before = [len(held) * 10 + 20, len(held) * 10 + 21], repository.newest
            had_rows = bool(times)  # a write where there are none adds rows, and edits none
            match operation:
                case "append":
                    repository.append("s", frame(new))
                    times = times + new
                case "late update":  # behind the end: nothing goes
                    repository.update("s", frame(new))
                    times = times + new
                case "upsert":
                    repository.upsert("s", frame(new), keys=["t"])
                    times = times + new
                case "compact":
                    repository.compact("s")
                case "metadata":
                    repository.set_metadata("s", {"n": number})
                case "column":
                    repository.add_column("s", f"c{number}", number)
                    repository.drop_column("s", f"c{number}")
                case "other":
                    repository.write("o", frame([number]))
                case "tag":
                    repository.create_tag(f"t{number}")
                case "write":
                    repository.write("s", frame(new), index="t")
                    times = new
                case "update" if times:
                    repository.update("s", frame([times[-1]] * 2))
                    times = [time for time in times if time != times[-1]] + [times[-1]] * 2
                case "delete rows" if times:
                    repository.delete_rows("s", rows=(0, 1))
                    times = times[1:]
            for version in range(before + 1, repository.newest + 1):
                held[version] = times
                if operation in _EDITS and had_rows:
                    edits[version] = operation
    until = repository.at(data.draw(st.sampled_from(sorted(held))))
    since = data.draw(st.integers(1, until.number))
    known = data.draw(st.integers(0, len(held[since])))
    behind = [version for version in edits if since < version <= until.number]
    runs = added_rows(repository, "s", since, known, until)
    assert [None if run.after is None else run.after.version for run in runs] == [None, *behind]
    start = known
    for run, first, stop in zip(
        runs, [since, *behind], [*(version - 1 for version in behind), until.number], strict=True
    ):
        assert (run.start, run.stop) == (start, len(held[stop]))
        assert times_of(repository, run.version)[run.start : run.stop] == held[stop][start:]
        assert run.reached[0] == (first, len(held[first]))
        assert all(rows == len(held[version]) for version, rows in run.reached)
        grown = {v for v in range(first + 1, stop + 1) if len(held[v]) > len(held[v - 1])}
        assert grown <= {version for version, _ in run.reached}
        start = len(held[behind[0]]) if behind else 0
        behind = behind[1:]


def test_what_expired_matters_only_where_it_changed_the_symbol() -> None:
    repository = Repository.open("memory://")
    repository.write("s", frame([0]), index="t")
    repository.append("s", frame([1]))
    for number in range(3):
        repository.write("o", frame([number]))
    repository.append("s", frame([2]))

    def added(since: int, rows: int) -> tuple[int, int]:
        (run,) = added_rows(repository, "s", since, rows, repository.at(None))
        return run.start, run.stop

    repository.expire(5, dry_run=False)
    assert added(2, 1) == (1, 3)
    assert added(2, 2) == (2, 3)
    with pytest.raises(SnapshotExpiredError, match="after version 1 has expired") as caught:
        added(1, 1)
    assert caught.value.attributes["oldest"] == 5
    assert "version 5 is the oldest" in str(caught.value)


def test_versions_that_are_not_on_the_line() -> None:
    repository = Repository.open("memory://")
    repository.write("s", frame([0]), index="t")
    repository.append("s", frame([1]))
    repository.reset_branch("main", 1)
    repository.append("s", frame([2]))
    with pytest.raises(InvalidInputError, match="version 2 does not lie on branch 'main'"):
        added_rows(repository, "s", 2, 2, repository.at(None))
    (run,) = added_rows(repository, "s", 1, 1, repository.at(None))
    assert times_of(repository, run.version)[run.start : run.stop] == [2]
    with pytest.raises(InvalidInputError, match="had 2 rows at version 4, and not 9"):
        added_rows(repository, "s", 1, 9, repository.at(None))


@pytest.mark.parametrize("how", ["delete", "rename"])
def test_a_symbol_that_goes_is_edited(how: str) -> None:
    repository = Repository.open("memory://")
    repository.write("s", frame([0]), index="t")
    if how == "delete":
        repository.delete("s")
    else:
        repository.rename_symbol("s", "r")
    runs = added_rows(repository, "s", 1, 1, repository.at(None))
    assert [run.after and run.after.kind for run in runs] == [None, how]
    repository.write("s", frame([5, 6]), index="t")
    _, last = added_rows(repository, "s", 1, 1, repository.at(None))
    assert (last.start, last.stop) == (0, 2)

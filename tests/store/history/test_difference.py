"""``diff`` and ``revert`` of symbols with rows, against what reading both versions shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.ecs.piece import SegmentKey
from tessel.options import options
from tessel.store import Difference, Repository, SegmentRows
from tests.store.helpers import read
from tests.store.history.helpers import CountingObjects


def _table(start: int, stop: int, **more: Any) -> dict[str, Any]:
    return {"t": list(range(start, stop)), "x": [float(n) for n in range(start, stop)], **more}


def _places(repository: Repository, symbol: str, version: int) -> dict[tuple[SegmentKey, int], int]:
    """Return where every row of every segment is in the symbol, from the index of all of it."""
    index = repository.view(symbol, version).index()
    pieces = [index.source(at) for at in range(len(index))]
    return {
        (piece.key, piece.segment_row_start + row): piece.row_start + row
        for piece in pieces
        for row in range(len(piece.row_range))
    }


def _told(segments: Sequence[SegmentRows]) -> dict[tuple[SegmentKey, int], int]:
    found = [
        ((segment.key, segment.first + row), segment.rows.start + row)
        for segment in segments
        for row in range(len(segment.rows))
    ]
    assert len(dict(found)) == len(found), "no row of a segment is told twice"
    return dict(found)


def _check(repository: Repository, a: int, b: int) -> Difference:
    """Check a difference against all that both versions hold, read symbol by symbol."""
    found = repository.diff(a, b)
    before, after = set(repository.symbols(as_of=a)), set(repository.symbols(as_of=b))
    assert (set(found.added), set(found.removed)) == (after - before, before - after)
    changed = {one.symbol: one for one in found.changed}
    for symbol in before & after:
        was, becomes = _places(repository, symbol, a), _places(repository, symbol, b)
        left, right = repository.view(symbol, a), repository.view(symbol, b)
        if symbol not in changed:
            assert was == becomes
            assert left.metadata == right.metadata
            assert left.schema.arrow.equals(right.schema.arrow)
            continue
        one = changed[symbol]
        gone = {place: row for place, row in was.items() if place not in becomes}
        new = {place: row for place, row in becomes.items() if place not in was}
        assert (_told(one.segments_removed), _told(one.segments_added)) == (gone, new)
        assert (one.rows_before, one.rows_after) == (left.row_count, right.row_count)
        assert (one.metadata_before, one.metadata_after) == (left.metadata, right.metadata)
    return found


def test_an_append_adds_segments_and_nothing_else() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=10, segment_columns=1):
        repository.write("s", _table(0, 35), index="t", metadata={"unit": "EUR"})
        repository.write("other", _table(0, 3))
        repository.append("s", _table(35, 40))
    found = _check(repository, 2, 3)
    (one,) = found.changed
    assert (one.symbol, one.rows_before, one.rows_after) == ("s", 35, 40)
    assert one.segments_removed == ()
    assert {(segment.rows.start, segment.rows.end) for segment in one.segments_added} == {(35, 40)}
    assert not one.recreated
    assert bool(found)
    assert not repository.diff(3, 3)
    back = _check(repository, 3, 2)
    assert back.changed[0].segments_removed == one.segments_added


def test_other_columns_types_and_metadata_are_told() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"t": [1], "a": [1], "b": ["x"]}, index="t", metadata={"unit": "EUR"})
    repository.write("s", {"a": [1.5], "t": [1], "c": [True]}, metadata={"unit": "USD"})
    (one,) = _check(repository, 1, 2).changed
    assert (one.columns_added, one.columns_removed) == (("c",), ("b",))
    assert one.columns_retyped == (("a", "int64", "double"),)
    assert (one.index_before, one.index_after) == ("t", None)
    assert (one.metadata_before, one.metadata_after) == ({"unit": "EUR"}, {"unit": "USD"})
    assert not one.columns_renamed


def test_a_symbol_made_anew_is_told_from_one_that_was_changed() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    repository.delete("s")
    repository.write("s", {"a": [1]})
    assert _check(repository, 1, 2).removed == ("s",)
    assert _check(repository, 2, 3).added == ("s",)
    (one,) = _check(repository, 1, 3).changed
    assert one.recreated


def test_renamed_columns_and_symbols_are_told() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1], "b": [2]})
    repository.rename_columns("s", {"a": "c"})
    (one,) = _check(repository, 1, 2).changed
    assert one.columns_renamed == (("a", "c"),)
    assert (one.columns_added, one.columns_removed, one.columns_retyped) == ((), (), ())
    repository.rename_symbol("s", "s2")
    found = _check(repository, 2, 3)
    assert (found.added, found.removed, found.changed) == (("s2",), ("s",), ())
    assert repository.versions("s") == [1, 2, 3]
    assert repository.versions("s2") == [3]
    repository.revert(1)
    assert read(repository.view("s")).to_pydict() == {"a": [1], "b": [2]}
    assert repository.symbols() == ["s"]


def test_rows_taken_out_of_the_middle_leave_the_segments_around_them() -> None:
    repository = Repository.open("memory://")
    with options(segment_rows=10):
        repository.write("s", _table(0, 40), index="t")
    repository.delete_rows("s", rows=(12, 18))
    repository.update("s", _table(30, 32))
    (one,) = repository.diff(1, 2).changed
    assert [(s.rows.start, s.rows.end, s.first) for s in one.segments_removed] == [(12, 18, 2)]
    assert one.segments_added == ()
    for a, b in ((1, 2), (2, 3), (1, 3), (3, 1)):
        _check(repository, a, b)


def test_the_branches_of_a_store_are_compared() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    repository.create_branch("dev")
    repository.create_tag("start")
    repository.on_branch("dev").append("s", {"a": [2]})
    assert repository.diff("main", "start").changed == ()
    (one,) = repository.diff("start", "dev").changed
    assert (one.symbol, one.rows_after) == ("s", 2)
    assert repository.diff("dev").changed[0].rows_after == 1


def test_only_what_differs_is_read() -> None:
    objects = CountingObjects()
    repository = Repository(objects, "id", read_only=False)
    with repository.transaction() as tx:
        for number in range(600):
            tx.write(f"s{number:04}", {"a": [number]})
    repository.append("s0300", {"a": [1]})
    objects.forget()
    found = Repository(objects, "id", read_only=True).diff(1, 2)
    assert [one.symbol for one in found.changed] == ["s0300"]
    kinds = [name.split("/")[0] for name in objects.reads]
    assert kinds.count("leaf") == 2
    assert kinds.count("man") <= 6
    assert "seg" not in kinds


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "append", "append", "cut", "delete"]), st.sampled_from("abc")
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=25)
@given(STEPS, st.data())
def test_any_two_versions(steps: list[tuple[str, str]], data: st.DataObject) -> None:
    repository = Repository.open("memory://")
    next_time = dict.fromkeys("abc", 0)
    with options(segment_rows=3):
        for verb, symbol in steps:
            exists = symbol in repository.symbols()
            start = next_time[symbol]
            next_time[symbol] += 4
            if verb == "write" or (verb == "append" and not exists):
                repository.write(symbol, _table(start, start + 4), index="t")
            elif verb == "append":
                repository.append(symbol, _table(start, start + 4))
            elif verb == "cut" and exists:
                rows = repository.view(symbol).row_count
                repository.delete_rows(symbol, rows=(rows // 3, min(rows, rows // 2 + 1)))
            elif exists:
                repository.delete(symbol)
    versions = st.integers(0, repository.newest)
    _check(repository, data.draw(versions), data.draw(versions))

    to = data.draw(versions)
    expected = {name: read(repository.view(name, to)) for name in repository.symbols(as_of=to)}
    number = repository.revert(to)
    assert number == repository.newest
    assert {name: read(repository.view(name)) for name in repository.symbols()} == expected
    for name in expected:
        repository.append(name, _table(100, 101))
        assert repository.view(name).row_count == expected[name].num_rows + 1


def test_a_revert_gives_no_column_id_out_again() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    repository.write("s", {"b": [1]})
    used = {*repository.view("s", 1).column_ids.values(), *repository.view("s").column_ids.values()}
    repository.revert(1)
    assert repository.view("s").column_ids == repository.view("s", 1).column_ids
    repository.write("s", {"c": [1]})
    assert used.isdisjoint(repository.view("s").column_ids.values())


def test_a_revert_to_what_is_makes_no_version() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    assert repository.revert(1) == 1
    repository.create_tag("v1")
    assert repository.revert("v1") == repository.newest == 2


@pytest.mark.parametrize("message", ["", "undo the import"])
def test_a_revert_says_what_it_is(message: str) -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": [1]})
    repository.write("s", {"a": [2]})
    assert repository.revert(1, message) == 3
    assert repository.log(limit=1)[0].message == (message or "revert to version 1")
    assert repository.versions("s") == [1, 2, 3]
    assert read(repository.view("s", 2)).to_pydict() == {"a": [2]}

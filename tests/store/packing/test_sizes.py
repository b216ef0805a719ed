"""How much a commit writes, in objects and bytes, with the usual configuration."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.commits import simulate
from tessel.options import options
from tessel.store.manifest.table import Extent, SegmentTable
from tessel.store.repository import Repository
from tests.store.helpers import assert_same, read
from tests.store.history.helpers import CountingObjects
from tests.store.packing.laws import check_limits, check_lookup

SMALL = pa.table({"t": pa.array([1, 2], pa.int64()), "x": [0.5, 1.5]})
LATER = pa.table({"t": pa.array([3], pa.int64()), "x": [2.5]})


def _store() -> tuple[Repository, CountingObjects]:
    objects = CountingObjects()
    return Repository(objects, "id", read_only=False), objects


def _bytes(objects: CountingObjects) -> int:
    return sum(size for _, size in objects.puts)


@pytest.mark.parametrize("symbols", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_small_symbols_of_one_commit_share_few_manifests(symbols: int) -> None:
    store, objects = _store()
    with store.transaction() as changes:
        for number in range(symbols):
            changes.write(f"s{number:05}", SMALL, index="t")
    snapshot = store.at(None).snapshot
    assert objects.put_kinds["man"] == 1
    assert {e.set for state in snapshot.values() for e in state.manifests} == {None}
    check_limits(store, store.manifest_configuration)
    assert_same(read(store.view("s00471")), SMALL)


@pytest.mark.parametrize(
    ("symbols", "rounds"), [(40, 20), pytest.param(1_000, 20, marks=pytest.mark.slow)]
)
def test_small_symbols_are_touched_with_ten_objects(symbols: int, rounds: int) -> None:
    store, objects = _store()
    names = [f"s{number:04}" for number in range(symbols)]
    with store.transaction() as changes:
        for name in names:
            changes.write(name, SMALL, index="t")
    assert len(objects.puts) <= 10
    for later in range(rounds):  # beyond the number at which tails are folded
        objects.forget()
        with store.transaction() as changes:
            for name in names:
                changes.append(name, LATER)
        assert len(objects.puts) <= 10, later
    assert read(store.view("s0007")).num_rows == 2 + rounds
    assert len(store.at(None).snapshot["s0007"].manifests) <= 16
    check_limits(store, store.manifest_configuration)


def test_an_append_writes_as_much_whatever_the_size_of_the_store() -> None:
    sizes = {}
    for segments in (1_000, 100_000, 3_000_000):
        store, objects = _store()
        simulate(store, "big", segments)
        assert store.view("big").segment_count == segments
        written = []
        for later in range(20):
            objects.forget()
            store.append("big", pa.table({"t": pa.array([segments + later], pa.int64())}))
            written.append(_bytes(objects))
        sizes[segments] = max(written)
        assert store.view("big").row_count == segments + 20
        check_lookup(store.at(None).snapshot)
    assert max(sizes.values()) < 64 * 1024
    assert max(sizes.values()) < 1.5 * min(sizes.values())


def test_a_symbol_too_big_for_a_manifest_is_cut_and_changed_in_places() -> None:
    store, _ = _store()
    store.set_manifest_configuration({"sets": [{"name": "default", "max_segments": 100}]})
    rows = pa.table({"t": pa.array(range(300), pa.int64())})
    with options(segment_rows=1):
        store.write("big", rows, index="t")
    before = store.at(None).snapshot["big"].manifests
    assert [extent.segments for extent in before] == [100] * 3
    assert store.view("big").segment_count == 300
    assert [(e.first_time, e.last_time) for e in before[:2]] == [(0, 99), (100, 199)]
    with options(segment_rows=1):
        for later in range(300, 340):
            store.append("big", pa.table({"t": pa.array([later], pa.int64())}))
    after = store.at(None).snapshot["big"].manifests
    assert after[:3] == before
    assert len(after) < 3 + 16 + 16
    store.delete_rows("big", rows=(150, 160))
    kept = {extent.reference for extent in store.at(None).snapshot["big"].manifests}
    assert {extent.reference for extent in before} <= kept
    expected = pa.concat_tables(
        [rows.slice(0, 150), rows.slice(160), pa.table({"t": pa.array(range(300, 340))})]
    )
    assert_same(read(store.view("big")), expected)
    store.repack()
    assert_same(read(store.view("big")), expected)
    check_limits(store, store.manifest_configuration)


def _in_manifests(store: Repository, symbol: str) -> dict[str, int]:
    """Return how many segments the manifests of a symbol really hold."""
    extents = store.at(None).snapshot[symbol].manifests
    return {
        each.reference.object: store.manifest(each.reference).segments.num_rows for each in extents
    }


def test_segments_are_counted_where_rows_were_cut_out_of_row_slices() -> None:
    store, _ = _store()
    limit = 12
    store.set_manifest_configuration({"sets": [{"name": "default", "max_segments": limit}]})
    rows = pa.table({name: pa.array(range(8), pa.int64()) for name in ("t", *"abcdef")})
    with options(segment_rows=4, segment_columns=2):
        store.write("wide", rows, index="t")
    assert _in_manifests(store, "wide") == {
        store.at(None).snapshot["wide"].manifests[0].reference.object: 8
    }
    # Each of five pieces has all four column slices of its row slice: 20 in all, 12 by estimate.
    for row in (5, 3, 1):
        store.delete_rows("wide", rows=(row, row + 1))
    kept = [0, 2, 4, 6, 7]
    assert_same(read(store.view("wide")), rows.take(kept))
    assert store.repack().symbols == 1
    assert all(held <= limit for held in _in_manifests(store, "wide").values())
    assert store.repack().symbols == 0
    check_limits(store, store.manifest_configuration)
    assert_same(read(store.view("wide")), rows.take(kept))


@settings(max_examples=60)
@given(
    slices=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=6),
    data=st.data(),
)
def test_segments_between_rows_are_those_of_a_table_of_them(
    slices: list[tuple[int, int]], data: st.DataObject
) -> None:
    store, _ = _store()
    row = 0
    for rows, columns in slices:
        with options(segment_rows=rows, segment_columns=columns):
            more = {name: range(row, row + 2 * rows) for name in "tab"}
            row += 2 * rows
            (store.append if "s" in store.symbols() else store.write)("s", pa.table(more))
    store.write("other", {"x": [1]})
    store.repack()
    state = store.at(None).snapshot["s"]
    (extent,) = state.manifests
    manifest = store.manifest(extent.reference)
    start = data.draw(st.integers(0, row))
    stop = data.draw(st.integers(start, row))
    wanted = SegmentTable.from_extents(
        state.id, [Extent(manifest, start, stop - start)], indexed=False, rows=stop - start
    )
    assert manifest.count_between(state.id, start, stop) == len(wanted)
    assert manifest.count_between(state.id, 0, row) == extent.segments
    assert manifest.count_between(state.id + 1, 0, row) == 0


@pytest.mark.parametrize("limit", [1, 3, 4, 7])
def test_a_row_slice_wider_than_a_manifest_may_be_is_one_by_itself(limit: int) -> None:
    store, _ = _store()
    store.set_manifest_configuration({"sets": [{"name": "default", "max_segments": limit}]})
    rows = pa.table({name: pa.array(range(12), pa.int64()) for name in ("t", *"abcdef")})
    with options(segment_rows=4, segment_columns=2):
        store.write("wide", rows, index="t")
    held = _in_manifests(store, "wide")
    assert list(held.values()) == [4, 4, 4]
    assert store.repack().symbols == 0
    with options(segment_rows=4, segment_columns=1):
        later = pa.table({name: pa.array([12, 13], pa.int64()) for name in rows.column_names})
        store.append("wide", later)
    store.repack()
    assert {name: _in_manifests(store, "wide").get(name) for name in held} == held
    check_limits(store, store.manifest_configuration)
    assert_same(read(store.view("wide")), pa.concat_tables([rows, later]))


def test_a_cold_append_reads_as_much_whatever_the_size_of_the_store() -> None:
    asked = {}
    for segments in (1_000, 100_000, 3_000_000):
        store, objects = _store()
        simulate(store, "big", segments)
        objects.forget()
        cold = Repository(objects, "id", read_only=False)
        cold.append("big", pa.table({"t": pa.array([segments], pa.int64())}))
        asked[segments] = [name.split("/")[0].split()[0] for name in objects.reads]
        # The state of the symbol rides in the log entry, and says where its index ends.
        assert "man" not in asked[segments]
    assert len({tuple(each) for each in asked.values()}) == 1
    assert len(asked[1_000]) <= 6

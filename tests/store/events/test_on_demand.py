"""Recordings that are open: cells are read when they are asked for, within a budget of bytes."""

from __future__ import annotations

import os
import random
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tessel
from tessel.errors import (
    CorruptSegmentError,
    InvalidInputError,
    SnapshotExpiredError,
    SymbolNotFoundError,
)
from tessel.store.events import Cell, LiveStore, Recorder, Row, id_bytes, recordings
from tessel.store.events import batch as batches
from tessel.store.events.stored_cells import CellCache
from tessel.store.history.documents import open_store
from tessel.store.maintenance.leases import all_leases
from tessel.store.objects import LocalObjects
from tessel.store.repository import Repository
from tessel.store.segment import paging
from tessel.store.segment.sources import ObjectStoreSource, open_source
from tests.store.events.histories import History

BUDGETS = [0, 1, 200, 5_000, 1 << 30]


@pytest.fixture
def small_pages(monkeypatch):
    """Pages of four rows."""
    monkeypatch.setattr(paging, "LARGEST_PAGE_SHIFT", 2)


def reopened(history: History, folder: Path | None, budget: int) -> None:
    """Save the store of a history, and go on with the recording."""
    repository: Repository = tessel.open("memory://" if folder is None else str(folder))
    if folder is not None and history.random.random() < 0.5:
        repository = afar(folder)
    with tessel.options(segment_rows=history.random.choice([1, 3, 10, 1000])):
        history.store.save(repository, "run")
    history.store.close()
    history.store = LiveStore.open(repository, "run", cell_budget_bytes=budget)


class Afar(LocalObjects):
    """Files that are read as if they were far away: what is asked for, and that each time."""


open_source.register(Afar, ObjectStoreSource)


def afar(path: Path, *, read_only: bool = False) -> Repository:
    objects = Afar(path, mapped=False)
    identity = open_store(objects, create=True, read_only=read_only)
    return Repository(objects, identity.id, read_only=read_only)


def kept(store: LiveStore) -> CellCache:
    assert store._cells is not None
    return store._cells


def run(seed: int, budget: int, folder: Path, rounds: int) -> None:
    """Open a recording and go on with it, again and again; compare every answer in between."""
    history = History(seed)
    for _ in range(2 + 2 * rounds):
        history.step()
    for _ in range(rounds):
        if not history.model.events:
            history.log()
        reopened(history, folder / "store" if seed % 2 else None, budget)
        history.compare()
        for _ in range(3):
            history.step()
            if history.store._cells is not None:
                assert kept(history.store).nbytes <= budget
        history.compare()
    if not history.model.events:
        history.log()
    reopened(history, None, budget)
    history.store.dump(folder / "dump")
    history.store = LiveStore()
    history.store.load(folder / "dump")
    history.compare()
    assert history.compared > 0


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_recording_answers_as_the_model_whatever_its_budget(seed, budget, small_pages, tmp_path):
    """It is written to, collected, dropped from, compacted, dumped and saved again meanwhile."""
    run(100 + seed, budget, tmp_path, 2)


@pytest.mark.slow
def test_hundreds_of_recordings(monkeypatch, tmp_path):
    for seed in range(300):
        monkeypatch.setattr(paging, "LARGEST_PAGE_SHIFT", seed % 5)
        folder = tmp_path / str(seed)
        folder.mkdir()
        run(1000 + seed, BUDGETS[seed % len(BUDGETS)], folder, 5)


# --- what is read ---------------------------------------------------------------------------------


def logged(count: int = 64) -> LiveStore:
    live = LiveStore()
    with Recorder(live) as recorder:
        for at in range(count):
            recorder.log("a", {"x": float(at), "text": "t" * at}, frame=at)
            if at % 4 == 0:
                recorder.log("a", {"y": np.full(at % 3, at)}, frame=at)
    return live


def test_opening_reads_no_cell_and_a_question_the_pages_that_it_needs(small_pages):
    repository = tessel.open("memory://")
    logged().save(repository, "run")
    with LiveStore.open(repository, "run", cell_budget_bytes=10_000) as live:
        assert len(kept(live)) == 0
        assert "a [frame] text, x: 64 events in 1 chunks, 64 with cells at rest" in repr(live)
        assert live.latest_at("frame", 30, "a", ["x"])["x"].cell.to_list() == [30.0]
        assert len(kept(live)) == 1
        assert live.latest_at("frame", 30, "a", ["x"])["x"].cell.to_list() == [30.0]
        assert len(kept(live)) == 1
        assert live.range("frame", 0, 63, "a", ["x"]).num_rows == 64
        assert len(kept(live)) == 20  # 80 events in pages of four
        assert live.nbytes >= kept(live).nbytes > 0
        for batch in live.batches():
            batch.to_arrow()  # who goes through everything keeps nothing
        assert len(kept(live)) == 20
        live.collect(fraction=0.0)
        assert len(kept(live)) == 0


def test_a_page_larger_than_the_budget_is_not_kept_and_its_rows_are_taken_singly(monkeypatch):
    repository = tessel.open("memory://")
    logged(400).save(repository, "run")
    live = LiveStore.open(repository, "run", cell_budget_bytes=100)
    decoded = []
    for at in (10, 200, 399, 0):
        found = live.latest_at("frame", at, "a", ["text"])["text"]
        assert found.cell.to_list() == ["t" * at]
        decoded.append(found.cell.values.nbytes)
    assert len(kept(live)) == 0
    assert max(decoded) < 1000, "an answer does not hold the page that it is of"


def test_the_pages_not_used_for_longest_are_let_go():
    cache = CellCache(100)
    pages = [pa.array(np.arange(5)) for _ in range(4)]
    assert all(cache.put((0, at), page) for at, page in enumerate(pages[:2]))
    assert cache.get((0, 0)) is pages[0]
    assert cache.put((0, 2), pages[2])
    assert cache.get((0, 1)) is None
    assert cache.get((0, 0)) is pages[0]
    assert cache.put((0, 0), pages[3])  # the same again counts once
    assert cache.nbytes == 80
    assert not cache.put((0, 5), pa.array(np.arange(50)))
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


@pytest.mark.parametrize("budget", [-1, 1.5, True, "1"])
def test_a_budget_is_a_number_of_bytes(budget):
    repository = tessel.open("memory://")
    logged(3).save(repository, "run")
    with pytest.raises(InvalidInputError, match="a budget of"):
        LiveStore.open(repository, "run", cell_budget_bytes=budget)
    with pytest.raises(SymbolNotFoundError):
        LiveStore.open(repository, "other")


# --- types ----------------------------------------------------------------------------------------

KINDS = [
    (pa.bool_(), [True, False, True]),
    (pa.int8(), [1, -1, 0]),
    (pa.uint64(), [2**64 - 1, 0, 1]),
    (pa.float16(), [np.float16(0.5)] * 3),
    (pa.float32(), [0.5, float("inf"), -0.0]),
    (pa.string(), ["", "ä", "b"]),
    (pa.large_string(), ["", "ä", "b"]),
    (pa.large_binary(), [b"", b"a", b"\0"]),
    (pa.binary(2), [b"ab", b"cd", b"ef"]),
    (pa.date32(), [0, 1, -1]),
    (pa.time64("ns"), [0, 1, 2]),
    (pa.timestamp("us", "Europe/Berlin"), [0, 1, -1]),
    (pa.duration("ms"), [0, 1, -1]),
    (pa.list_(pa.float64()), [[1.0], [], [2.0, 3.0]]),
    (pa.list_(pa.field("element", pa.int8(), nullable=False)), [[1], [], [2, 3]]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0]] * 3),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}] * 3),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda each: str(each)[:30])
def test_components_have_the_types_that_they_were_logged_in(kind, values, single):
    live = LiveStore()
    cells = [values[at : at + 1] for at in range(3)] if single else [values, [], values[:1]]
    rows = [
        Row(id_bytes(1, at), "a", {"f": at}, 3 if not single else 1,
            [Cell.from_arrow("x", pa.array(cell, kind))])
        for at, cell in enumerate(cells)
    ]  # fmt: skip
    live.insert(rows)
    repository = tessel.open("memory://")
    live.save(repository, "run")
    with LiveStore.open(repository, "run") as again:
        again.check()
        for at in range(3):
            found = again.latest_at("f", at, "a")["x"].cell
            assert found == live.latest_at("f", at, "a")["x"].cell
            assert found.type == kind
        assert again.range("f", 0, 9, "a") == live.range("f", 0, 9, "a")
        assert again.insert(rows) == 0
        cell = Cell.from_arrow("x", pa.array(values[:1], kind))
        assert again.insert(Row(id_bytes(1, 9), "a", {"f": 9}, cells=[cell])) == 1
        assert again.latest_at("f", 9, "a")["x"].cell == cell


def test_extension_types_come_back():
    live = LiveStore()
    cell = Cell.from_arrow("x", pa.uuid().wrap_array(pa.array([b"a" * 16, None], pa.binary(16))))
    live.insert(Row(id_bytes(1, 1), "a", {"f": 1}, 2, cells=[cell]))
    repository = tessel.open("memory://")
    live.save(repository, "run")
    assert LiveStore.open(repository, "run").latest_at("f", 1, "a")["x"].cell == cell


# --- what happens to the recording meanwhile ------------------------------------------------------


def test_a_recording_that_is_replaced_and_collected_stays_what_it_was(tmp_path):
    repository = afar(tmp_path / "store")
    logged().save(repository, "run")
    live = LiveStore.open(repository, "run", cell_budget_bytes=0)
    logged(3).save(repository, "run")
    repository.expire(repository.newest, dry_run=False)
    repository.gc(minimum_age=timedelta(0), dry_run=False)
    assert live.latest_at("frame", 30, "a")["x"].cell.to_list() == [30.0]
    assert len(list(all_leases(repository.objects))) == 1
    live.close()
    assert not list(all_leases(repository.objects))
    repository.gc(minimum_age=timedelta(0), dry_run=False)
    with pytest.raises(SnapshotExpiredError):
        live.latest_at("frame", 40, "a")
    assert len(LiveStore.open(repository, "run")) == 4


def test_a_lease_ends_with_the_store_that_nobody_has_any_more(tmp_path):
    repository = tessel.open(str(tmp_path / "store"))
    logged().save(repository, "run")
    live = LiveStore.open(repository, "run")
    state = live.latest_at("frame", 30, "a")
    assert len(list(all_leases(repository.objects))) == 1
    del live
    assert not list(all_leases(repository.objects))
    assert state["x"].cell.to_list() == [30.0]


def test_a_store_that_is_read_only_has_no_lease_and_says_what_happened(tmp_path):
    repository = tessel.open(str(tmp_path / "store"))
    logged().save(repository, "run")
    read_only = afar(tmp_path / "store", read_only=True)
    live = LiveStore.open(read_only, "run", cell_budget_bytes=0)
    assert live.latest_at("frame", 30, "a")["x"].cell.to_list() == [30.0]
    assert not list(all_leases(repository.objects))
    logged(3).save(repository, "run")
    repository.expire(repository.newest, dry_run=False)
    repository.gc(minimum_age=timedelta(0), dry_run=False)
    with pytest.raises(SnapshotExpiredError):
        live.latest_at("frame", 30, "a")


def test_objects_that_are_gone_are_named(tmp_path):
    repository = tessel.open(str(tmp_path / "store"))
    logged().save(repository, "run")
    for path in (tmp_path / "store" / "seg").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(CorruptSegmentError, match="missing"):
        LiveStore.open(tessel.open(str(tmp_path / "store")), "run")


def test_a_symbol_that_others_changed_is_what_it_says_or_says_so(small_pages):
    repository = tessel.open("memory://")
    live = logged(8)
    live.save(repository, "run")
    table = repository.view("run/a").take(range(10))
    assert "tessel.presence" in table.column_names

    def changed(column: str, values: pa.Array) -> LiveStore:
        metadata = repository.view("run/a").metadata
        other = table.set_column(table.column_names.index(column), column, values)
        copy = tessel.open("memory://")
        copy.write("run/a", other, index="log_time", metadata=metadata)
        return LiveStore.open(copy, "run")

    again = changed("x", pa.nulls(10, pa.float64()))
    assert again.latest_at("frame", 3, "a", ["text"])["text"].cell.to_list() == ["ttt"]
    with pytest.raises(InvalidInputError, match="was changed after the recording was saved"):
        again.latest_at("frame", 3, "a", ["x"])
    for name in ("event_id", "tessel.presence", "num_instances"):
        with pytest.raises(InvalidInputError, match=f"column '{name}' has missing values"):
            changed(name, pa.nulls(10, table.schema.field(name).type))
    repository.drop_column("run/a", "tessel.presence")  # then the cells themselves are looked at
    for budget in (0, 1000):
        bare = LiveStore.open(repository, "run", cell_budget_bytes=budget)
        assert bare.range("frame", 0, 9, "a") == live.range("frame", 0, 9, "a")
    repository.delete_rows("run/a", rows=(0, 5))
    assert len(LiveStore.open(repository, "run")) == 5
    repository.add_column("run/a", "more", 1)
    repository.drop_column("run/a", "y")
    with pytest.raises(InvalidInputError, match="is no saved recording"):
        LiveStore.open(repository, "run")


@pytest.mark.parametrize(
    "wrong",
    [
        {"entity": 5},
        {"timelines": {"frame": "weeks"}},
        {"timelines": {"x": "sequence"}},
        {"components": ["nothing"]},
        {"lists": ["x"]},
        {"types": "no base64"},
        {"types": "AAAA"},
    ],
    ids=str,
)
def test_metadata_that_fit_no_columns_are_refused(wrong):
    repository = tessel.open("memory://")
    logged(8).save(repository, "run")
    metadata = repository.view("run/a").metadata
    metadata["tessel.events"] |= wrong
    repository.set_metadata("run/a", metadata)
    with pytest.raises(InvalidInputError, match="is no saved recording"):
        LiveStore.open(repository, "run")


# --- much at a time -------------------------------------------------------------------------------


def test_what_does_not_fit_memory_is_saved_and_dumped_in_parts(monkeypatch, small_pages, tmp_path):
    live = logged(100)
    expected = live.range("frame", 0, 99, "a")
    monkeypatch.setattr(recordings, "_WINDOW_BYTES", 1000)
    monkeypatch.setattr(batches, "_PIECE_BYTES", 500)
    first, second = tessel.open("memory://"), tessel.open("memory://")
    live.save(first, "run")
    assert first.view("run/a").segment_count > 3
    opened = LiveStore.open(first, "run", cell_budget_bytes=0)
    opened.save(second, "run")
    opened.dump(tmp_path / "dump")
    loaded = LiveStore()
    assert loaded.load(tmp_path / "dump") == len(live)
    for store in (opened, LiveStore.open(second, "run"), loaded):
        assert store.range("frame", 0, 99, "a") == expected


def test_readers_race_evictions_and_a_writer(small_pages, tmp_path):
    repository = tessel.open(str(tmp_path / "store"))
    count = 300
    whole = logged(count)
    whole.save(repository, "run")
    live = LiveStore.open(repository, "run", cell_budget_bytes=2_000)
    wrong: list[object] = []
    stop = threading.Event()

    def read(seed: int) -> None:
        pick = random.Random(seed)
        try:
            for _ in range(150):
                at = pick.randrange(count)
                state = live.latest_at("frame", at, "a")
                if state["x"].cell.to_list() != [float(at)]:
                    wrong.append((at, state))
                if state["text"].cell.to_list() != ["t" * at]:
                    wrong.append((at, state))
                first = pick.randrange(count)
                found = live.range("frame", first, first + 20, "a", ["x"]).column("x")
                if found.to_pylist() != [[float(n)] for n in range(first, min(first + 21, count))]:
                    wrong.append((first, found))
        except BaseException as error:
            wrong.append(error)

    def write() -> None:
        with Recorder(live, max_rows=5) as recorder:
            at = 10**6
            while not stop.is_set():
                recorder.log("a", {"x": 1.0, "text": "new"}, frame=at)
                at += 1

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    writer = threading.Thread(target=write)
    for thread in (*readers, writer):
        thread.start()
    for reader in readers:
        reader.join()
    stop.set()
    writer.join()
    assert not wrong
    assert kept(live).nbytes <= 2_000
    live.check()


def test_a_forked_child_reads_with_a_lease_of_its_own(tmp_path):
    repository = tessel.open(str(tmp_path / "store"))
    logged().save(repository, "run")
    live = LiveStore.open(repository, "run", cell_budget_bytes=0)
    (before,) = all_leases(repository.objects)
    child = os.fork()
    if not child:
        try:
            good = live.latest_at("frame", 30, "a")["x"].cell.to_list() == [30.0]
            good = good and len(list(all_leases(repository.objects))) == 2
            live.close()
            good = good and [each.name for each in all_leases(repository.objects)] == [before.name]
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert [each.name for each in all_leases(repository.objects)] == [before.name]
    live.close()

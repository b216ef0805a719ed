"""Pages kept for random access: never more bytes than allowed, the least used go first."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.options import options
from tessel.store import Repository
from tessel.store.encodings.codes import PAGE_RECORD, ValueKind
from tessel.store.encodings.values import Page, page_from_record
from tessel.store.lru_cache import ByteLruCache
from tessel.store.segment import pages as segment_pages
from tessel.store.segment.decode_take import take_column
from tessel.store.segment.file_writer import WriteOptions
from tessel.store.segment.known_pages import PageKey, is_running, unpacked_pages
from tests.store.helpers import assert_same
from tests.store.reference.segments import plain_values
from tests.store.segment.helpers import PROFILES, opened, with_ids, written

MOST = 100


def _page(size: int) -> Page:
    record = np.zeros(1, PAGE_RECORD)[0]
    return page_from_record(record, np.zeros(size, np.uint8), ValueKind.SIGNED, 8)


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 130)), max_size=60))
def test_what_is_kept_is_what_was_used_last(steps: list[tuple[int, int | None]]) -> None:
    """Against a plain list of keys in the order of their last use."""
    kept = unpacked_pages(MOST)
    model: OrderedDict[int, Page] = OrderedDict()
    for number, size in steps:
        key = (0, 0, number)
        if size is None:
            assert kept.get(key) is model.get(number)
            if number in model:
                model.move_to_end(number)
            continue
        page = _page(size)
        kept.put(key, page)
        model.pop(number, None)
        if size <= MOST:
            model[number] = page
        while sum(page.payload.nbytes for page in model.values()) > MOST:
            model.popitem(last=False)
        assert kept.nbytes == sum(page.payload.nbytes for page in model.values()) <= MOST
        assert len(kept) == len(model)
    kept.clear()
    assert (len(kept), kept.nbytes) == (0, 0)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> ByteLruCache[PageKey, Page]:
    own = unpacked_pages(1 << 25)
    monkeypatch.setattr(segment_pages, "UNPACKED", own)
    return own


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Count the pages that are decompressed."""
    calls: list[dict[str, Any]] = []
    real = segment_pages.decompress_blocks

    def counted(stored: Any, codec: int, length: int, place: dict[str, Any], **more: Any) -> Any:
        calls.append(place)
        return real(stored, codec, length, place, **more)

    monkeypatch.setattr(segment_pages, "decompress_blocks", counted)
    return calls


def _compact() -> tuple[Repository, pa.Table]:
    random = np.random.default_rng(0)
    names = pa.array([f"a rather long name {n % 77}" for n in range(100_000)])
    table = pa.table(
        {
            "price": np.cumsum(random.integers(-5, 6, 100_000)) / 100 + 500,
            "text": pa.array([f"{n * 7919 % 100_000} of many" for n in range(100_000)]),
            "name": names,
            "sums": np.cumsum(random.integers(1, 50, 100_000) * (1 + np.arange(100_000) // 100)),
            "holes": pa.array(
                np.cumsum(random.integers(1, 50, 100_000)), mask=random.random(100_000) < 0.3
            ),
            "scaled sums": np.cumsum(random.integers(1, 90, 100_000)) / 100,
        }
    )
    repository = Repository.open("memory://")
    with options(profile="compact"):
        repository.write("s", table)
    return repository, table


def test_taking_again_decompresses_nothing(
    kept: ByteLruCache[PageKey, Page], unpacked: list[dict[str, Any]]
) -> None:
    repository, table = _compact()
    rows = np.random.default_rng(1).integers(0, 100_000, 50)
    expected = table.take(pa.array(rows))
    assert_same(repository.view("s").take(rows), expected)
    first = len(unpacked)
    assert first > 0
    assert len(kept) > 0
    assert_same(repository.view("s").take(rows), expected)
    assert_same(repository.view("s").take(rows[::-1]), table.take(pa.array(rows[::-1])))
    assert len(unpacked) == first
    kept.clear()
    assert_same(repository.view("s").take(rows), expected)
    assert len(unpacked) > first


def _column(kind: str, nulls: bool) -> pa.Array:
    """Numbers that climb, of any type that running sums can hold."""
    random = np.random.default_rng(3)
    climbing = np.cumsum(random.integers(1, 3, 70_000))
    mask = random.random(70_000) < 0.1 if nulls else None
    if kind == "list":
        offsets = pa.array(np.concatenate(([0], climbing[:999])), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(np.arange(climbing[998])))
    if kind == "decimal":
        return pa.array(climbing, mask=mask).cast(pa.decimal128(21, 2))
    if kind == "timestamp":
        return pa.array(climbing, pa.timestamp("us"), mask=mask)
    scaled = climbing / 4 if kind.startswith("float") else climbing
    return pa.array(scaled.astype(kind), mask=mask)


@pytest.mark.parametrize("profile", ["fast", "compact"])
@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize(
    "kind",
    ["int8", "uint16", "int32", "uint64", "float32", "float64", "timestamp", "decimal",
     "list"],
)  # fmt: skip
def test_running_sums_are_taken_from(
    kind: str, nulls: bool, profile: str, kept: ByteLruCache[PageKey, Page]
) -> None:
    column = _column(kind, nulls)
    forced = {} if kind == "list" else {"7": "scaled" if kind.startswith("float") else "delta"}
    table = with_ids(pa.table({"c": column}))
    segment = opened(written(table, WriteOptions(PROFILES[profile], forced)))
    rows = np.random.default_rng(4).integers(0, len(column), 300)
    for _ in range(2):
        found = take_column(segment, segment.file.top(7), rows)
        found.validate(full=True)
        assert plain_values(found) == plain_values(column.take(pa.array(rows)))
    pages = [segment.page(0, number) for number in range(segment.page_count(0))]
    running = sum(is_running(page) for page in pages)
    assert running == (len(pages) if "delta" in forced.values() else running)
    assert len(kept) >= running


def test_scans_keep_nothing(kept: ByteLruCache[PageKey, Page]) -> None:
    repository, table = _compact()
    view = repository.view("s")
    assert_same(view.source().load(view.index().source(0)), table)
    assert len(kept) == 0


def test_a_cache_too_small_for_a_page_changes_nothing(
    kept: ByteLruCache[PageKey, Page], unpacked: list[dict[str, Any]]
) -> None:
    kept.most_bytes = 10
    repository, table = _compact()
    for rows in (np.array([5, 99_999, 5]), np.array([70_000])):
        assert_same(repository.view("s").take(rows), table.take(pa.array(rows)))
    assert len(kept) == 0


def test_pages_are_decompressed_each_time_where_they_are_verified_each_time(
    kept: ByteLruCache[PageKey, Page], unpacked: list[dict[str, Any]]
) -> None:
    repository, table = _compact()
    with options(verify_always=True):
        view = Repository.open(repository.uri, create=False).view("s")
        before = 0
        for _ in range(2):
            assert_same(view.take([3, 80_000]), table.take(pa.array([3, 80_000])))
            assert len(unpacked) > before
            before = len(unpacked)
    assert len(kept) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_takes_while_the_parent_holds_the_lock(kept: ByteLruCache[PageKey, Page]) -> None:
    repository, table = _compact()
    rows = np.array([7, 90_000])
    repository.view("s").take(rows)
    with kept._lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                kept.renew_lock()
                found = repository.view("s").take(rows)
                code = 0 if found.equals(table.take(pa.array(rows))) and len(kept) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(kept) > 0

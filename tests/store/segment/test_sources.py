"""All sources give the same bytes and refuse the same ranges; each has traps of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import (
    CorruptStoreError,
    NotFoundError,
    OptionError,
    TesselError,
)
from tessel.store.objects import LocalObjects, MemoryObjects
from tessel.store.segment.sources import (
    LOCAL,
    REMOTE,
    ByteRanges,
    MemorySource,
    MmapSource,
    ObjectStoreSource,
    ReadAnswer,
    ReadSource,
    Viewing,
    open_source,
)

SOURCES: dict[str, Callable[[Any], ReadSource]] = {
    "memory": MemorySource,
    "mmap": MmapSource,
    "object_store": ObjectStoreSource,
    "pread": lambda objects: open_source(LocalObjects(objects.uri, mapped=False)),
}
DATA = {
    "pack/a": np.random.default_rng(1).integers(0, 256, 100_000, dtype=np.uint8).tobytes(),
    "b": bytes(range(256)),
    "empty": b"",
}
NAMES = (*DATA, "absent")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalObjects:
    objects = LocalObjects(tmp_path_factory.mktemp("objects"))
    for name, data in DATA.items():
        objects.put_if_absent(name, data)
    return objects


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, local: LocalObjects) -> ReadSource:
    return SOURCES[request.param](local)


def ranges_of(*ranges: tuple[int, int, int]) -> ByteRanges:
    table = np.array(ranges, dtype=np.int64).reshape(-1, 3)
    return ByteRanges(NAMES, table[:, 0], table[:, 1], table[:, 2])


def outcome(answer: ReadAnswer) -> bytes | type[BaseException]:
    return type(answer) if isinstance(answer, Exception) else answer.to_pybytes()


def read(source: ReadSource, *ranges: tuple[int, int, int]) -> list[bytes | type[BaseException]]:
    answers = source.read(ranges_of(*ranges))
    return [outcome(answer) for answer in answers]


# --- the same for all -----------------------------------------------------------------------------

some_ranges = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.integers(0, 256), st.integers(0, 256)),
        st.tuples(st.integers(0, 3), st.integers(-5, 100_100), st.integers(-5, 100_100)),
        st.sampled_from([(0, 0, 100_000), (0, 100_000, 100_000), (0, 0, 1 << 62), (2, 0, 0)]),
    ),
    max_size=12,
)


@given(ranges=some_ranges)
def test_bytes_or_an_error_for_each_range(source: ReadSource, ranges: list[tuple[int, int, int]]):
    expected: list[bytes | type[BaseException]] = []
    for place, start, end in ranges:
        data = DATA.get(NAMES[place])
        if 0 <= start <= end and data is not None:
            expected.append(data[start:end] if end <= len(data) else CorruptStoreError)
        else:
            expected.append(CorruptStoreError if data is not None else NotFoundError)
    found = read(source, *ranges)
    for (place, start, end), got, right in zip(ranges, found, expected, strict=True):
        if NAMES[place] == "absent" and not 0 <= start <= end:
            # Wrong in two ways: either is told.
            assert got in (NotFoundError, CorruptStoreError)
        else:
            assert got == right


def test_only_memory_and_maps_are_shown_without_reading(local: LocalObjects):
    shown = {kind for kind in SOURCES if isinstance(SOURCES[kind](local), Viewing)}
    assert shown == {"memory", "mmap"}


def test_names_that_leave_the_directory_are_refused(source: ReadSource):
    outside = ByteRanges(("../outside",), *np.array([[0], [0], [1]]))
    with contextlib.suppress(TesselError):  # one answer, or all
        (answer,) = source.read(outside)
        assert isinstance(answer, TesselError)


def test_many_ranges_of_one_object(source: ReadSource):
    ranges = [(0, at * 997 % 90_000, at * 997 % 90_000 + at * 13) for at in range(60)]
    assert read(source, *ranges) == [DATA["pack/a"][start:end] for _, start, end in ranges]


def test_buffers_outlive_their_source(local: LocalObjects):
    for kind in SOURCES:
        opened = SOURCES[kind](local)
        (answer,) = opened.read(ranges_of((0, 10, 90_000)))
        del opened
        assert outcome(answer) == DATA["pack/a"][10:90_000]


# --- choosing -------------------------------------------------------------------------------------


def test_the_store_chooses(local: LocalObjects):
    class Elsewhere(MemoryObjects):
        """Registers nothing, so its base class decides."""

    class Cloud:
        """Some other store."""

    assert isinstance(open_source(local), MmapSource)
    assert isinstance(open_source(LocalObjects(local.uri, mapped=False)), ObjectStoreSource)
    assert isinstance(open_source(MemoryObjects.named("")), MemorySource)
    assert isinstance(open_source(Elsewhere("memory://x")), MemorySource)
    assert isinstance(open_source(Cloud()), ObjectStoreSource)


def test_limits_suit_the_place(local: LocalObjects):
    limits = {kind: SOURCES[kind](local).limits for kind in SOURCES}
    assert limits == {
        "memory": LOCAL,
        "mmap": LOCAL,
        "pread": LOCAL,
        "object_store": REMOTE,
    }
    assert (LOCAL.gap_bytes, LOCAL.part_bytes) == (4 << 10, 4 << 20)
    assert (REMOTE.gap_bytes, REMOTE.part_bytes) == (3 << 19, 16 << 20)


def test_there_is_a_thread_at_least(local: LocalObjects):
    with pytest.raises(OptionError):
        ObjectStoreSource(local, in_flight=0)


# --- maps -----------------------------------------------------------------------------------------


def test_a_mapped_range_is_no_copy(local: LocalObjects):
    source = MmapSource(local)
    whole = source.view("pack/a")
    (answer,) = source.read(ranges_of((0, 4096, 8192)))
    assert isinstance(answer, pa.Buffer)
    assert answer.address == whole.address + 4096
    again = source.view("pack/a")
    assert again.address == whole.address


@pytest.mark.parametrize("kind", ["mmap", "pread"])
@pytest.mark.parametrize("looked_at_before", [False, True])
def test_a_file_cut_short_is_an_error_and_no_crash(
    tmp_path: Path, kind: str, looked_at_before: bool
):
    """In a process of its own: what must not happen would end it."""
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_read_cut_file, args=(str(tmp_path), kind, looked_at_before))
    child.start()
    child.join(120)
    assert child.exitcode == 0


def _read_cut_file(root: str, kind: str, looked_at_before: bool) -> None:
    objects = LocalObjects(root)
    objects.put_if_absent("cut", bytes(100_000))
    path = os.path.join(root, "cut")
    source = SOURCES[kind](objects)

    def read_cut(start: int, end: int) -> bytes | type[BaseException]:
        ends = np.array([[start], [end]])
        return outcome(*source.read(ByteRanges(("cut",), np.zeros(1, np.int64), *ends)))

    if looked_at_before:
        assert read_cut(90_000, 100_000) == bytes(10_000)
    os.truncate(path, 5000)
    for start, end in ((90_000, 100_000), (4000, 6000)):
        assert read_cut(start, end) is CorruptStoreError, (start, end)


def test_maps_are_let_go_but_never_under_a_reader(tmp_path: Path):
    objects = LocalObjects(tmp_path)
    for number in range(300):
        objects.put_if_absent(f"o{number}", bytes([number % 256]) * 10)
    source = MmapSource(objects)
    first = source.view("o0")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        assert source.view(f"o{number}").to_pybytes() == bytes([number % 256]) * 10
    assert len(os.listdir("/proc/self/fd")) <= before
    assert first.to_pybytes() == bytes(10)


def test_files_are_closed_when_done(local: LocalObjects):
    before = set(os.listdir("/proc/self/fd"))
    for kind in ("mmap", "pread"):
        source = SOURCES[kind](local)
        assert read(source, (1, 0, 10)) == [DATA["b"][:10]]
        del source
    assert set(os.listdir("/proc/self/fd")) <= before


# --- threads --------------------------------------------------------------------------------------


class GatedObjects(MemoryObjects):
    """Answers only when told to, and notes the order of what it was asked."""

    def __init__(self) -> None:
        super().__init__("memory://gated")
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.order: list[int] = []
        self.lock = threading.Lock()
        self.now = self.most = 0

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        with self.lock:
            self.order.append(offset)
            self.now += 1
            self.most = max(self.most, self.now)
        self.begun.release()
        assert self.gate.wait(60)
        with self.lock:
            self.now -= 1
        return super().get_range(name, offset, length)


def single_bytes(*starts: int) -> ByteRanges:
    first = np.array(starts, dtype=np.int64)
    return ByteRanges(("o",), np.zeros_like(first), first, first + 1)


def test_as_many_are_in_flight_as_allowed():
    objects = GatedObjects()
    objects.put_if_absent("o", bytes(200))
    source = ObjectStoreSource(objects, in_flight=5)
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(source.read, single_bytes(*range(20)))
        for _ in range(6):
            assert objects.begun.acquire(timeout=60)
        objects.gate.set()
        assert {outcome(answer) for answer in reading.result(60)} == {b"\x00"}
    assert objects.most == 6  # the thread that asks reads, too
    assert [at for at in objects.order if at != 19] == list(range(19))


def test_the_main_thread_reads_nothing_itself():
    names: set[str] = set()

    class Named(MemoryObjects):
        def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
            names.add(threading.current_thread().name)
            return super().get_range(name, offset, length)

    objects = Named("memory://named")
    objects.put_if_absent("o", bytes(200))
    source = ObjectStoreSource(objects)
    source.read(single_bytes(1, 2))
    assert not any(name == threading.main_thread().name for name in names)
    names.clear()
    with ThreadPoolExecutor(1, thread_name_prefix="other") as other:
        other.submit(source.read, single_bytes(1)).result(60)
    assert names == {"other_0"}


def test_what_a_read_raises_is_its_answer():
    class Failing(MemoryObjects):
        def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
            if offset != 1:
                raise ZeroDivisionError
            return super().get_range(name, offset, length)

    objects = Failing("memory://failing")
    objects.put_if_absent("o", b"xyz")
    source = ObjectStoreSource(objects, in_flight=1)
    expected = [ZeroDivisionError, b"y", ZeroDivisionError]
    assert [outcome(answer) for answer in source.read(single_bytes(0, 1, 2))] == expected
    with ThreadPoolExecutor(1) as other:
        answers = other.submit(source.read, single_bytes(0, 1, 2)).result(60)
    assert [outcome(answer) for answer in answers] == expected


# --- processes ------------------------------------------------------------------------------------


def _read_in_child(kind: str, root: str) -> bytes:
    return _scan(SOURCES[kind](LocalObjects(root)))


def _scan(source: ReadSource) -> bytes:
    found = read(source, (0, 0, 2000), (0, 5000, 6000))
    return b"".join(each for each in found if isinstance(each, bytes))


SCANNED = DATA["pack/a"][:2000] + DATA["pack/a"][5000:6000]


@pytest.mark.parametrize("kind", list(SOURCES))
def test_a_source_works_after_a_fork(local: LocalObjects, kind: str):
    """The child uses the very source that the parent has threads and maps in."""
    source = SOURCES[kind](local)
    assert _scan(source) == SCANNED
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if _scan(source) == SCANNED else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert _scan(source) == SCANNED


def test_sources_work_in_spawned_processes(local: LocalObjects):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for kind in SOURCES:
            assert pool.apply(_read_in_child, (kind, local.uri)) == SCANNED

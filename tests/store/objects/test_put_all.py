"""Many puts at a time: as many as the store says, within a bound of memory, failures raised."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tessel.errors import StoreError
from tessel.store.objects import CloudOptions, MemoryObjects, ParallelPuts, put_all
from tests.store.objects.servers import CREDENTIALS, MotoServer


class _Slow(MemoryObjects):
    """Takes a moment for each put, and counts what is being put."""

    def __init__(self, puts_in_flight: int) -> None:
        super().__init__("memory://slow")
        self.puts_in_flight = puts_in_flight
        self.guard = threading.Lock()
        self.now = self.most = self.bytes_now = self.most_bytes = 0

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        with self.guard:
            self.now += 1
            self.bytes_now += len(data)
            self.most = max(self.most, self.now)
            self.most_bytes = max(self.most_bytes, self.bytes_now)
        time.sleep(0.01)
        try:
            return super().put_if_absent(name, data)
        finally:
            with self.guard:
                self.now -= 1
                self.bytes_now -= len(data)


def test_as_many_at_a_time_as_the_store_says() -> None:
    objects = _Slow(20)
    put_all(objects, ((f"seg/{n}", b"x") for n in range(100)))
    assert len(list(objects.list())) == 100
    assert 4 < objects.most <= 20


def test_bytes_in_flight_are_bounded_and_items_are_taken_as_there_is_room() -> None:
    objects = _Slow(64)
    ahead: list[int] = []

    def items() -> Iterator[tuple[str, bytes]]:
        for number in range(60):
            ahead.append(number * 1000 - sum(objects.size(n) for n in objects.list()))
            yield f"seg/{number}", bytes(1000)

    put_all(objects, items(), bytes_in_flight=5_000)
    assert len(list(objects.list())) == 60
    assert 1_000 < objects.most_bytes <= 5_000
    assert max(ahead) <= 6_000


def test_what_is_larger_than_the_bound_is_put_alone() -> None:
    objects = _Slow(8)
    put_all(objects, ((f"seg/{n}", bytes(1000 * n)) for n in range(8)), bytes_in_flight=10)
    assert objects.most <= 2  # the empty object counts for nothing
    assert len(list(objects.list())) == 8


class _FailsOnce(_Slow):
    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        if name == "seg/5":
            raise StoreError("the disk is full")
        return super().put_if_absent(name, data)


def test_the_first_failure_is_raised_after_the_puts_in_flight() -> None:
    objects = _FailsOnce(4)
    taken: list[int] = []

    def items() -> Iterator[tuple[str, bytes]]:
        for number in range(1_000):
            taken.append(number)
            yield f"seg/{number}", b""

    with pytest.raises(StoreError, match="disk is full"):
        put_all(objects, items())
    assert objects.now == 0
    assert len(taken) < 100


def test_a_cloud_says_how_many(moto: MotoServer) -> None:
    from tessel.store.objects import open_objects

    options = CloudOptions(endpoint=moto.url, allow_http=True, in_flight=7)
    for objects, expected in (
        (open_objects("s3://some-bucket", credentials=CREDENTIALS, options=options), 7),
        (moto.open("s3://some-bucket"), 64),
    ):
        assert isinstance(objects, ParallelPuts)
        assert objects.puts_in_flight == expected


def test_the_caller_puts_one_of_them() -> None:
    # A commit has two objects to put beside each other: a thread for each is one too many.
    threads: list[str] = []

    class _Named(_Slow):
        def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
            threads.append(threading.current_thread().name)
            return super().put_if_absent(name, data)

    objects = _Named(4)
    put_all(objects, [("man/1", b"a"), ("leaf/1", b"b")])
    assert sorted(objects.list()) == ["leaf/1", "man/1"]
    assert objects.most == 2
    assert threads.count(threading.current_thread().name) == 1

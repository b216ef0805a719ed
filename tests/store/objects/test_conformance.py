"""Every place for bytes keeps the same promises; the suite itself notices where one does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import NotFoundError
from tessel.options import options
from tessel.store.objects import LocalObjects, MemoryObjects, ObjectStore, put_all
from tessel.testing.object_stores import CHECKS
from tests.store.objects.servers import MotoServer

PLACES: dict[str, Callable[[Path, MotoServer], ObjectStore]] = {
    "memory": lambda path, moto: MemoryObjects.named(""),
    "mapped": lambda path, moto: LocalObjects(path / "store"),
    "pread": lambda path, moto: LocalObjects(path / "store", mapped=False),
    "s3": lambda path, moto: moto.open(f"s3://{moto.new_bucket()}/a/folder"),
    "s3-bucket": lambda path, moto: moto.open(f"s3://{moto.new_bucket()}"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("check", CHECKS)
def test_promise(place: str, check: str, tmp_path: Path, moto: MotoServer) -> None:
    CHECKS[check](PLACES[place](tmp_path, moto))


def test_two_folders_of_a_bucket_are_two_stores(moto: MotoServer) -> None:
    bucket = moto.new_bucket()
    first, second = (moto.open(f"s3://{bucket}/{folder}") for folder in ("data", "data2"))
    assert first.put_if_absent("a", b"1")
    assert second.put_if_absent("a", b"2")
    assert list(first.list()) == list(second.list()) == ["a"]
    assert list(moto.open(f"s3://{bucket}/").list()) == ["data/a", "data2/a"]


_names = st.lists(st.sampled_from(["a", "b", "a-b", "a.b", "b0"]), min_size=1, max_size=3)


@given(
    names=st.sets(_names.map("/".join), max_size=8),
    prefix=st.sampled_from(["", "a/", "a/b/", "c/"]),
    after=st.none() | _names.map("/".join),
    limit=st.none() | st.integers(0, 3),
)
def test_listing_is_that_of_a_sorted_list(
    names: set[str],
    prefix: str,
    after: str | None,
    limit: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with options(fsync=False):
        for objects in (
            MemoryObjects.named(""),
            LocalObjects(tmp_path_factory.mktemp("objects")),
        ):
            kept = []
            for name in sorted(names):
                # A file system cannot hold a name that is also a folder.
                if not any(name.startswith(other + "/") for other in kept):
                    objects.put_if_absent(name, b"")
                    kept.append(name)
            wanted = [n for n in kept if n.startswith(prefix) and (after is None or n > after)]
            assert list(objects.list(prefix, after=after, limit=limit)) == wanted[:limit]


def test_a_listing_of_several_pages(moto: MotoServer) -> None:
    objects = moto.open(f"s3://{moto.new_bucket()}/p")
    names = [f"seg/{number:04}" for number in range(1_050)]
    put_all(objects, ((name, b"") for name in names))
    assert list(objects.list("seg/")) == names
    assert list(objects.list("seg/", after="seg/0998", limit=3)) == names[999:1002]


# --- the suite ------------------------------------------------------------------------------------


class _Overwrites(MemoryObjects):
    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        self.delete(name)
        return super().put_if_absent(name, data)


class _EveryoneWins(MemoryObjects):
    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        super().put_if_absent(name, data)
        return True


class _ShortReads(MemoryObjects):
    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        start = max(0, offset)
        return pa.py_buffer(self.get(name).to_pybytes()[start : start + max(0, length)])


class _Unsorted(MemoryObjects):
    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        yield from reversed(list(super().list(prefix, after=after, limit=limit)))


class _DeleteRefuses(MemoryObjects):
    def delete(self, name: str) -> None:
        if not self.exists(name):
            raise NotFoundError("absent")
        super().delete(name)


class _AnyName(MemoryObjects):
    def get(self, name: str) -> pa.Buffer:
        return super().get("a") if name == ".a" else super().get(name)

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        return super().put_if_absent("a" if name == ".a" else name, data)


@pytest.mark.parametrize(
    ("broken", "noticed_by"),
    [
        (_Overwrites, "never overwrites"),
        (_EveryoneWins, "one of many wins"),
        (_ShortReads, "says what is absent"),
        (_Unsorted, "lists in order"),
        (_DeleteRefuses, "removes"),
        (_AnyName, "checks names"),
    ],
)
def test_a_broken_promise_is_noticed(broken: type[MemoryObjects], noticed_by: str) -> None:
    with pytest.raises((AssertionError, NotFoundError)):
        CHECKS[noticed_by](broken("memory://broken"))

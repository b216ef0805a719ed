"""What every place for bytes promises, checked: the suite for an object store of one's own.

::

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_objects(name):
        CHECKS[name](MyObjects("somewhere empty"))

Each check wants a store without objects, and raises ``AssertionError`` where a promise is broken.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa

from tessel.errors import CorruptStoreError, InvalidInputError, NotFoundError, TesselError
from tessel.store.objects.base import ObjectStore, put_all

__all__ = ["CHECKS"]

_BAD_NAMES: Final = ("", "../a", "a/../b", "/a", "a//b", "a/", "A", "a\0", ".a", "a" * 300)
_PARTS: Final = ("a", "b", "a-b", "a.b", "b0")


def _is_an_object_store(objects: ObjectStore) -> None:
    """Check that it has the methods."""
    _equal(isinstance(objects, ObjectStore), True, "whether it is an ObjectStore")


def _holds_what_was_put(objects: ObjectStore) -> None:
    """Check that bytes of any length and kind come back, whole and in part, and never change."""
    whole = bytes(range(256)) * 400
    values = {"a/b": b"one", "empty": b"", "a/c/d": whole}
    for name, value in values.items():
        data = pa.py_buffer(value) if name == "a/c/d" else value
        _equal(objects.put_if_absent(name, data), True, f"the put of {name!r}")
    for name, value in values.items():
        _equal(objects.get(name).to_pybytes(), value, f"the object {name!r}")
        _equal(objects.get(name).is_mutable, False, "whether it can be changed")
        _equal((objects.size(name), objects.exists(name)), (len(value), True), f"size of {name!r}")
    for offset, length in ((0, 1), (1, 2), (10, 90_000), (0, len(whole)), (len(whole), 0), (7, 0)):
        found = objects.get_range("a/c/d", offset, length).to_pybytes()
        _equal(found, whole[offset : offset + length], f"bytes {offset} to {offset + length}")
    _equal(objects.get_range("empty", 0, 0).size, 0, "the bytes of nothing")
    _equal(objects.exists("a"), False, "whether a folder is an object")


def _never_overwrites(objects: ObjectStore) -> None:
    """Check that a name keeps the first bytes it was given."""
    _equal(objects.put_if_absent("a", b"one"), True, "the first put")
    for later in (b"two", b"one", b""):
        _equal(objects.put_if_absent("a", later), False, "a later put")
    _equal(objects.get("a").to_pybytes(), b"one", "the object")


def _one_of_many_wins(objects: ObjectStore) -> None:
    """Check that of threads that put one name, one is told that it did, and it did."""
    for turn in range(5):
        name = f"log/{turn}"
        barrier = threading.Barrier(8)
        won: list[int] = []
        threads = [
            threading.Thread(target=_race, args=(objects, name, number, barrier, won))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _equal(len(won), 1, "the number of threads that wrote one object")
        _equal(objects.get(name).to_pybytes(), b"%d" % won[0], "what the winner wrote")


def _race(
    objects: ObjectStore, name: str, number: int, barrier: threading.Barrier, won: list[int]
) -> None:
    barrier.wait()
    if objects.put_if_absent(name, b"%d" % number):
        won.append(number)


def _says_what_is_absent(objects: ObjectStore) -> None:
    """Check the errors for objects that are not there, and for bytes that objects do not have."""
    objects.put_if_absent("a", b"abc")
    for act in (objects.get, objects.size, lambda name: objects.get_range(name, 0, 1)):
        for name in ("b", "b/c", "a/b"):
            _raises(NotFoundError, partial(act, name), f"an absent {name!r}")
    _raises(NotFoundError, lambda: objects.get_range("b", 0, 0), "nothing of what is absent")
    _equal(objects.exists("a/b"), False, "whether there is an object below an object")
    for offset, length in ((0, 4), (3, 1), (2, 2), (4, 0), (-1, 1), (0, -1), (0, 10**12)):
        _raises(
            CorruptStoreError,
            partial(objects.get_range, "a", offset, length),
            f"{length} bytes from {offset} of 3",
        )


def _removes(objects: ObjectStore) -> None:
    """Check that what is removed is gone, also twice, and may be put again."""
    objects.put_if_absent("a/b", b"one")
    objects.put_if_absent("a/c", b"two")
    for _ in range(2):
        objects.delete("a/b")
        _equal(objects.exists("a/b"), False, "whether it is still there")
    objects.delete("never/was")
    _equal(list(objects.list()), ["a/c"], "what is left")
    _equal(objects.put_if_absent("a/b", b"new"), True, "the put of a removed name")
    _equal(objects.get("a/b").to_pybytes(), b"new", "the new object")


def _checks_names(objects: ObjectStore) -> None:
    """Check that only what can be a name everywhere is one."""
    for name in _BAD_NAMES:
        for act in (objects.get, objects.size, lambda name: objects.put_if_absent(name, b"")):
            _raises(InvalidInputError, partial(act, name), f"the name {name!r}")
    _equal(list(objects.list()), [], "what was written")


def _lists_in_order(objects: ObjectStore) -> None:
    """Check listings against a sorted list, for many prefixes, starts and limits."""
    _equal(list(objects.list()), [], "the names in an empty store")
    chance = random.Random(7)
    names: set[str] = set()
    for _ in range(60):
        name = "/".join(chance.choices(_PARTS, k=chance.choice((1, 2, 3, 3, 3))))
        # A file system cannot hold a name that is also a folder.
        if not any(n.startswith(name + "/") or name.startswith(n + "/") for n in names):
            names.add(name)
            objects.put_if_absent(name, b"")
    starts = [None, "a", "a/b", "a/b/zz", "b0/", *chance.sample(sorted(names), 5)]
    for prefix in ("", "a/", "a/b/", "a-b/", "none/"):
        for after in starts:
            matching = [n for n in names if n.startswith(prefix) and (after is None or n > after)]
            for limit in (None, 0, 1, 3):
                _equal(
                    list(objects.list(prefix, after=after, limit=limit)),
                    sorted(matching)[:limit],
                    f"the names below {prefix!r} after {after!r}, at most {limit}",
                )


def _puts_many(objects: ObjectStore) -> None:
    """Check that many objects are put at a time, and that a failure among them is raised."""
    put_all(objects, ((f"seg/{n}", b"%d" % n) for n in range(50)))
    _equal(len(list(objects.list("seg/"))), 50, "the number of objects")
    put_all(objects, iter([("seg/1", b"1")]))
    _raises(
        CorruptStoreError,
        lambda: put_all(objects, ((f"seg/{n}", b"other") for n in range(40, 60))),
        "a name that has other bytes",
    )
    _equal(objects.get("seg/40").to_pybytes(), b"40", "the object that was there")


CHECKS: Final[dict[str, Callable[[ObjectStore], None]]] = {
    "is an object store": _is_an_object_store,
    "holds what was put": _holds_what_was_put,
    "never overwrites": _never_overwrites,
    "one of many wins": _one_of_many_wins,
    "says what is absent": _says_what_is_absent,
    "removes": _removes,
    "checks names": _checks_names,
    "lists in order": _lists_in_order,
    "puts many": _puts_many,
}
"""The checks by name; each takes an empty store and raises ``AssertionError``."""


def _equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what} is {found!r:.200} and not {expected!r:.200}")


def _raises(expected: type[TesselError], act: Callable[[], object], what: str) -> None:
    try:
        found = act()
    except expected:
        return
    raise AssertionError(f"{what} gives {found!r:.200} and no {expected.__name__}")

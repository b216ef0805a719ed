"""Memory that ends the process where anything is read or written outside of it.

``python -m tests.guard_pages --cases 200 --seed 1`` writes segments with forms drawn at random,
forges fields and contents of most of them with right checksums, and asks queries. Bytes of objects
and every array that a kernel takes lie against pages that cannot be touched: in front of the array
or behind it, as chance has it. Objects cannot be written either. A query ends with an answer or a
typed error; a process that is ended by a signal has read or written outside.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tessel.api import open_store
from tessel.clauses import QueryBuilder
from tessel.errors import TesselError
from tessel.kernels import library
from tessel.kernels.declare import Kernel
from tessel.options import options
from tessel.store.objects.memory import MemoryObjects
from tessel.store.segment import writer
from tessel.store.segment.file_writer import EncodedSegment
from tests.forms.writing import FormsOfPages
from tests.store.segment.forging import COLUMN_FIELDS, PAGE_FIELDS, Forgery

__all__ = ["guarded", "guarded_kernels", "guarded_objects"]

_PAGE = mmap.PAGESIZE
_NOTHING, _READ, _READ_AND_WRITE = 0, 1, 3
_NOT_FORGED = ("checksum", "page_table_checksum")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _Region:
    """Some pages between two that cannot be touched."""

    def __init__(self, pages: int) -> None:
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + _PAGE
        self.size = pages * _PAGE
        for guard in (self.start - _PAGE, self.start + self.size):
            _protect(guard, _PAGE, _NOTHING)

    def octets(self, size: int, *, behind: bool) -> npt.NDArray[np.uint8]:
        """Return bytes that end where the region does, or begin where it does."""
        place = self.start + (self.size - size if behind else 0)
        held = (ctypes.c_uint8 * size).from_address(place)
        return np.frombuffer(held, np.uint8) if size else np.empty(0, np.uint8)


def _protect(place: int, size: int, rights: int) -> None:
    if _libc.mprotect(place, size, rights):
        raise OSError(ctypes.get_errno(), "mprotect")


def guarded(data: bytes) -> pa.Buffer:
    """Return bytes that nobody can write, right before a page that cannot be touched."""
    region = _Region(max(-(-len(data) // _PAGE), 1))
    held = region.octets(len(data), behind=True)
    held[:] = np.frombuffer(data, np.uint8)
    _protect(region.start, region.size, _READ)
    place = region.start + region.size - len(data)
    return pa.foreign_buffer(place, len(data), region)


@contextlib.contextmanager
def guarded_objects() -> Iterator[None]:
    """Keep objects in memory in guarded bytes."""
    put = MemoryObjects.put_if_absent

    def put_guarded(objects: MemoryObjects, name: str, data: bytes | pa.Buffer) -> bool:
        won = put(objects, name, data)
        if won:
            objects._data[name] = guarded(bytes(memoryview(data)))
        return won

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryObjects, "put_if_absent", put_guarded)
        yield


# --- kernels --------------------------------------------------------------------------------------


class _Arguments:
    """Copies of the arrays of one call at a time, each against a guard page."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._regions: dict[tuple[int, int], _Region] = {}

    def call(self, kernel: Kernel, run: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Call machine code with copies; what it has written is copied back."""
        copies = list(given)
        for number, array in enumerate(given):
            if isinstance(array, np.ndarray):
                self._check_alone(kernel, number, given)
                copies[number] = self._copy(number, array)
        result = run(*copies)
        for argument, array, copy in zip(kernel.arguments, given, copies, strict=True):
            if argument.writes:
                array[...] = copy
        return result

    @staticmethod
    def _check_alone(kernel: Kernel, number: int, given: Sequence[Any]) -> None:
        """Where arrays share bytes and one is written, copies would change the answer."""
        if not kernel.arguments[number].writes:
            return
        for at, other in enumerate(given):
            shared = at != number and isinstance(other, np.ndarray)
            assert not (shared and np.may_share_memory(given[number], other)), kernel

    def _copy(self, number: int, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # Powers of two, so that few regions are ever made.
        pages = 1 << (max(-(-array.nbytes // _PAGE), 1) - 1).bit_length()
        region = self._regions.setdefault((number, pages), _Region(pages))
        behind = bool(self._random.random() < 0.7)
        copy = region.octets(array.nbytes, behind=behind).view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy


@contextlib.contextmanager
def guarded_kernels(
    random: np.random.Generator, *, stray: Stray | None = None
) -> Iterator[set[str]]:
    """Give kernels copies of their arrays between guard pages; yield names of those that ran.

    Parameters
    ----------
    stray
        Makes other arguments for the machine code of the copies: wrong ones, which must be found.
    """
    arguments, ran = _Arguments(random), set[str]()
    checked = Kernel._checked

    def guarded_call(kernel: Kernel, _: str) -> Callable[..., Any]:
        run = checked(kernel, library.machine_level())

        def call(*given: Any) -> Any:
            ran.add(kernel.name)
            if stray is not None:
                return arguments.call(kernel, lambda *held: run(*stray(kernel, held)), given)
            return arguments.call(kernel, run, given)

        return call

    # Calls are kept by form, and those of this block are of a form of their own.
    own = library.using_form(f"guarded {id(arguments)}")
    with pytest.MonkeyPatch.context() as patch, own:
        patch.setattr(Kernel, "_checked", guarded_call)
        yield ran


def _read_on(kernel: Kernel, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Let a kernel on rows of stored columns go on for rows that there are not."""
    names = [each.name for each in kernel.arguments]
    if not {"shift", "stop"} <= set(names):
        return given
    shift, stop = given[names.index("shift")], names.index("stop")
    return (*given[:stop], int(given[stop]) + (1 << int(shift)), *given[stop + 1 :])


def _read_behind() -> None:
    """Read the byte behind an object."""
    data = guarded(b"some bytes")
    ctypes.string_at(data.address, data.size + 1)


Stray: TypeAlias = Callable[[Kernel, tuple[Any, ...]], tuple[Any, ...]]
STRAYS: dict[str, Stray | None] = {"object": None, "kernel": _read_on}


# --- forged stores --------------------------------------------------------------------------------


@contextlib.contextmanager
def _forged(random: np.random.Generator, changes: int) -> Iterator[None]:
    """Forge each segment that is written, and make its checksums right again."""
    begin = writer.begin_segment

    def begin_forged(*given: Any) -> Callable[[], EncodedSegment]:
        finish = begin(*given)

        def finish_forged() -> EncodedSegment:
            made = finish()
            forgery = Forgery(made.to_buffer().to_pybytes())
            for _ in range(changes):
                _change(forgery, random)
            return replace(made, pieces=[np.frombuffer(forgery.signed(), np.uint8)])

        return finish_forged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "begin_segment", begin_forged)
        yield


def _change(forgery: Forgery, random: np.random.Generator) -> None:
    node = int(random.integers(forgery.columns))
    if not forgery.records(node):
        return
    page = int(random.integers(forgery.records(node)))
    kind = random.integers(8)
    if kind == 0:
        name = str(random.choice([n for n in COLUMN_FIELDS if n not in _NOT_FORGED]))
        value = forgery.column(node, name)
        forgery.column(node, name, _other(random, value, COLUMN_FIELDS[name].bits))
    elif kind < 4:
        name = str(random.choice([n for n in PAGE_FIELDS if n not in _NOT_FORGED]))
        value = forgery.page(node, page, name)
        forgery.page(node, page, name, _other(random, value, PAGE_FIELDS[name].bits))
    elif len(payload := forgery.payload(node, page)):
        size = min(int(random.choice([1, 2, 4, 8, 64])), len(payload))
        place = int(random.integers(len(payload) - size + 1))
        with_ones = random.integers(2)
        payload[place : place + size] = b"\xff" * size if with_ones else random.bytes(size)


def _other(random: np.random.Generator, value: int, bits: int) -> int:
    edges = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 16, 64]
    near = [value + 1, value - 1, 2 * value, value // 2, value + 64, value - 64]
    return int(random.choice(np.array([*edges, *near], object))) % (1 << bits)


def _table(random: np.random.Generator) -> pa.Table:
    rows = int(random.choice([1, 7, 64, 300, 3_000, 9_000]))
    words = pa.array(["", "AAPL", "MSFT", "é", "a longer text, of two dozen"])
    missing = random.random(rows) < float(random.choice([0.0, 0.2]))
    prices = np.round(random.normal(100, 20, rows), 2)
    prices[random.random(rows) < float(random.choice([0.0, 0.1]))] = np.nan
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(0, 5, rows))).cast(pa.timestamp("s")),
            "k": pa.array(random.integers(0, 9, rows).astype(np.int16)),
            "n": pa.array(random.integers(-(1 << 40), 1 << 40, rows), mask=missing),
            "i": pa.array((np.arange(rows) // 3 - 50).astype(np.int32), mask=missing),
            "p": pa.array(prices, mask=missing),
            "x": random.normal(size=rows),
            "f": pa.array(prices.astype(np.float32)),
            "s": words.take(pa.array(random.integers(0, len(words), rows))),
            "d": words.take(pa.array(random.integers(0, 4, rows))).dictionary_encode(),
            "b": pa.array(random.integers(0, 2, rows).astype(np.bool_), mask=missing),
        }
    )


def _queries() -> list[QueryBuilder]:
    q = QueryBuilder()
    facts = {"c": "count(n)", "v": "sum(p)", "lo": "min(n)", "hi": "max(p)", "w": "sum(x)"}
    some = q.filter("p > 90 and k < 7")
    return [
        q,
        some,
        q.filter("n > 0 and x < 0.5").select("s", "p", "n"),
        q.filter("s == 'AAPL' or contains(s, 'two')"),
        some.groupby("k").agg(**facts),
        q.groupby("d").agg(**facts, m="median(p)", u="nunique(i)"),
        q.filter("i > 3").groupby("s", "k").agg(f="first(p)", l="last(n)", sd="std(x)"),
        q.agg(**facts, m="mean(f)", sd="var(p)"),
        q.resample("30s").agg(o="first(p)", h="max(n)", l="last(x)", v="sum(i)", c="count(b)"),
        q.top_k(5, "p"),
        some.top_k(3, "n", descending=False),
        q.distinct("k", "d"),
        q.sort("p", "k"),
        q.rolling(5, by="k").agg(m="mean(p)", s="sum(i)"),
        q.apply("z", "p * 2 + n").filter("z > 10").agg(c="count(z)", s="sum(z)"),
        q.head(3),
        q.tail(3),
    ]


def ask(cases: int, first: int, *, stray: Stray | None = None) -> dict[str, int]:
    """Ask queries of forged stores; return how many ended how, and how many kernels ran."""
    ended = {"answers": 0, "errors": 0}
    random = np.random.default_rng(first)
    with guarded_objects(), guarded_kernels(random, stray=stray) as ran, options(workers=1):
        for _ in range(cases):
            store, table = open_store("memory://"), _table(random)
            changes = int(random.choice([0, 1, 1, 1, 2, 4]))
            shifts = range(3, 13)
            with _forged(random, changes), FormsOfPages(random, shifts)():
                store.write("x", table, index="t")
            for query in _queries():
                try:
                    store.read("x", query=query).to_arrow()
                except TesselError:
                    ended["errors"] += 1
                else:
                    ended["answers"] += 1
        ended["kernels"] = len(ran)
    return ended


def main() -> int:
    """Ask, and print how it ended; or be ended by a read outside."""
    parser = argparse.ArgumentParser(prog="python -m tests.guard_pages")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stray", choices=sorted(STRAYS), help="what must end the process")
    asked = parser.parse_args()
    if asked.stray == "object":
        _read_behind()
    print(ask(asked.cases, asked.seed, stray=STRAYS.get(asked.stray)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

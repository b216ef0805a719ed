"""Segments are written and read after a fork, with all the parent has open, and after a spawn."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessel.ecs.piece import SegmentKey
from tessel.store.objects.local import LocalObjects
from tessel.store.segment.file_writer import encode_segment
from tessel.store.segment.reader import SegmentReader
from tessel.store.segment.sources import MmapSource, ObjectStoreSource, ReadSource
from tests.store.segment.helpers import opened, plain
from tests.store.segment.samples import SAMPLES

KINDS = {"mmap": MmapSource, "pread": ObjectStoreSource}
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def _key(name: str, data: bytes) -> SegmentKey:
    file = opened(data).file
    return SegmentKey(name, 0, len(data), file.checksum, file.metadata_start)


KEYS = {f"segments/{at}": _key(f"segments/{at}", s.data) for at, s in enumerate(SAMPLES)}
EXPECTED = {name: plain(sample.table) for name, sample in zip(KEYS, SAMPLES, strict=True)}


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    made = LocalObjects(str(tmp_path))
    for name, sample in zip(KEYS, SAMPLES, strict=True):
        made.put_if_absent(name, sample.data)
    return made


def _read_all(reader: SegmentReader) -> dict[str, Any]:
    found = {}
    for name, key in KEYS.items():
        ids = reader.open(key).file.column_ids
        rows = reader.open(key).row_count
        found[name] = plain(reader.read(key, ids, 0, rows))
        backwards = np.arange(rows)[::-1].copy()
        assert plain(reader.take(key, ids, backwards)) == {
            column: values[::-1] for column, values in found[name].items()
        }
    return found


def _written() -> list[str]:
    """Encode all samples on threads; return digests of the bytes."""
    with ThreadPoolExecutor(2) as pool:
        return [
            hashlib.sha256(
                encode_segment(sample.table, None, pool.map).to_buffer().to_pybytes()
            ).hexdigest()
            for sample in SAMPLES
        ]


def _in_child(check: Callable[[], bool]) -> bool:
    """Return whether a check holds in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("kind", list(KINDS))
def test_reading_goes_on_in_a_forked_child(objects: LocalObjects, kind: str) -> None:
    source: ReadSource = KINDS[kind](objects)
    reader = SegmentReader(objects, source)
    assert _read_all(reader) == EXPECTED
    with ThreadPoolExecutor(2) as pool:  # threads of the parent decode while it forks
        under_way = [pool.submit(_read_all, reader) for _ in range(6)]
        assert _in_child(lambda: _read_all(reader) == EXPECTED)
        assert _in_child(lambda: _read_all(SegmentReader(objects, source)) == EXPECTED)
        assert all(each.result() == EXPECTED for each in under_way)
    assert _read_all(reader) == EXPECTED


def test_pages_touched_by_the_child_first(objects: LocalObjects) -> None:
    reader = SegmentReader(objects)
    assert _in_child(lambda: _read_all(reader) == EXPECTED)
    assert _read_all(reader) == EXPECTED


def test_the_same_bytes_are_written_in_a_forked_child() -> None:
    expected = _written()
    assert _in_child(lambda: _written() == expected)


def _read_by_uri(uri: str) -> dict[str, Any]:
    return _read_all(SegmentReader(LocalObjects(uri)))


def test_spawned_processes_read_and_write_the_same(objects: LocalObjects, tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_read_by_uri, (str(tmp_path),)) == EXPECTED
        assert pool.apply(_written) == _written()

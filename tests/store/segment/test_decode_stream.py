"""A stream gives the rows of its segments in order, whatever the batches, sources and threads."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.components import SegmentKey
from tessel.errors import CorruptSegmentError, InvalidInputError
from tessel.store.objects import LocalObjects, MemoryObjects, ObjectStore
from tessel.store.segment.decode_stream import BatchTask, DecodeStream
from tessel.store.segment.file_writer import encode_segment
from tessel.store.segment.opened import SegmentOpener
from tessel.store.segment.read_ahead import SegmentRows
from tessel.store.segment.sources.open import SOURCES
from tessel.testing.segments import plain_values, segment_tables
from tests.store.segment.helpers import with_ids, write_options


def put(objects: ObjectStore, tables: list[pa.Table], options: Any = None) -> list[SegmentKey]:
    """Write tables as segments of one object, at multiples of 64, and return their keys."""
    data, keys = bytearray(), []
    name = f"seg/{len(list(objects.list()))}"
    for table in tables:
        data += bytes(-len(data) % 64)
        encoded = encode_segment(table, options)
        keys.append(SegmentKey(name, len(data), encoded.length, encoded.checksum))
        data += encoded.to_buffer().to_pybytes()
    objects.put_if_absent(name, bytes(data))
    return keys


def stream(
    objects: ObjectStore, keys: list[SegmentKey], rows: list[tuple[int, int]], **options: Any
) -> DecodeStream:
    source = SOURCES[options.pop("source", "memory")](objects)
    columns = options.pop("columns", [7])
    parts = [SegmentRows(key, *part) for key, part in zip(keys, rows, strict=True)]
    return DecodeStream(SegmentOpener(objects, source), parts, columns, **options)


@given(st.data())
def test_any_batches_of_any_segments(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 200))
    table = with_ids(data.draw(segment_tables(rows)))
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=3)))
    edges = [0, *cuts, rows]
    tables = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    objects = MemoryObjects("memory://stream")
    keys = put(objects, tables, data.draw(write_options(table)))
    wanted = [
        tuple(sorted(data.draw(st.integers(0, part.num_rows)) for _ in range(2))) for part in tables
    ]
    expected = pa.concat_tables(
        [part.slice(a, b - a) for part, (a, b) in zip(tables, wanted, strict=True)]
    )
    size = data.draw(st.none() | st.sampled_from([1, 7, 64, 1000]))
    found = list(
        stream(
            objects,
            keys,
            wanted,
            columns=[7 + at for at in range(table.num_columns)],
            batch_rows=size,
            workers=data.draw(st.integers(1, 3)),
            source=data.draw(st.sampled_from(["memory", "object_store"])),
            budget_bytes=data.draw(st.sampled_from([0, 1000, 1 << 20])),
        )
    )
    for batch in found:
        batch.validate(full=True)
    if size is not None:
        full, rest = divmod(expected.num_rows, size)
        assert [batch.num_rows for batch in found] == [size] * full + [rest] * (rest > 0)
    for at, name in enumerate(table.column_names):
        values = [value for batch in found for value in plain_values(batch.column(at))]
        assert values == plain_values(expected.column(name))


ROWS = 1_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SegmentKey], pa.Table]:
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "7": np.round(random.random(ROWS) * 100, 2),
            "8": pa.array([f"SYM{n}" for n in range(50)]).take(random.integers(0, 50, ROWS)),
            "9": random.random(ROWS),
        }
    )
    path = tmp_path_factory.mktemp("stream")
    edges = [0, 300_000, 300_001, 700_000, ROWS]
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    return path, put(LocalObjects(path), parts), table


def whole(table: pa.Table) -> list[tuple[int, int]]:
    return [(0, 300_000), (0, 1), (0, 399_999), (0, 300_000)]


@pytest.mark.parametrize("source", ["mmap", "pread"])
@pytest.mark.parametrize("size", [None, 1_000, 65_537, 10**6])
def test_batch_sizes_over_a_million_rows(large: Any, source: str, size: int | None) -> None:
    path, keys, table = large
    reading = stream(
        LocalObjects(path),
        keys,
        whole(table),
        columns=[7, 8, 9],
        batch_rows=size,
        source=source,
        workers=2,
    )
    batches = list(reading)
    assert pa.Table.from_batches(batches).combine_chunks().equals(table.combine_chunks())
    if size is None:
        assert [batch.num_rows for batch in batches][:6] == [65_536] * 4 + [37_856, 1]
    else:
        assert {batch.num_rows for batch in batches[:-1]} <= {size}


def test_aligned_batches_of_flat_pages_are_views(large: Any) -> None:
    path, keys, _ = large
    objects = LocalObjects(path)
    opener = SegmentOpener(objects)
    (batch, *_) = DecodeStream(opener, [SegmentRows(keys[0], 0, 300_000)], [9], workers=1)
    data = opener.open(keys[0]).data
    low = data.ctypes.data
    assert low <= batch.column(0).buffers()[1].address < low + len(data)


def test_tasks_run_in_the_threads_of_the_consumer(large: Any) -> None:
    path, keys, table = large
    reading = stream(LocalObjects(path), keys, whole(table), workers=1, source="mmap")
    seen = list(
        reading.map(lambda task: (threading.current_thread(), task.ordinal, task.row_start))
    )
    assert {thread for thread, *_ in seen} == {threading.main_thread()}
    assert [ordinal for _, ordinal, _ in seen] == list(range(len(seen)))
    starts = [0, 65_536, 131_072, 196_608, 262_144, 300_000, 300_001]
    assert [start for *_, start in seen][:7] == starts


def test_what_survives_is_asked_of_columns_at_rest(large: Any) -> None:
    path, keys, table = large

    def survivors(task: BatchTask) -> list[float]:
        found: list[float] = []
        for columns in task.columns():
            symbols = columns[8]
            held = symbols.dictionary()
            if held is None:  # the segment of one row
                keep = np.array(symbols.decode()) == "SYM7"
            else:
                keep = symbols.codes().to_numpy() == held.to_pylist().index("SYM7")
            found += columns[9].filter(keep).to_pylist()
        return found

    reading = stream(
        LocalObjects(path),
        keys,
        whole(table),
        columns=[8, 9],
        batch_rows=100_000,
        workers=2,
        source="mmap",
    )
    found = [value for part in reading.map(survivors) for value in part]
    expected = table.filter(np.array(table.column("8")) == "SYM7").column("9").to_pylist()
    assert found == expected


def test_an_early_end_and_errors_leave_no_thread(large: Any) -> None:
    path, keys, table = large
    before = set(threading.enumerate())
    for source in ("mmap", "pread"):
        objects = LocalObjects(path)
        reader = SOURCES[source](objects)
        opener = SegmentOpener(objects, reader)
        parts = [SegmentRows(k, a, b) for k, (a, b) in zip(keys, whole(table), strict=True)]
        batches = iter(DecodeStream(opener, parts, [7], workers=2))
        next(batches)
        batches.close()  # type: ignore[attr-defined]
        with pytest.raises(ZeroDivisionError):
            list(DecodeStream(opener, parts, [7], workers=2).map(lambda task: 1 // 0))
        reader.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("source", ["memory", "object_store"])
def test_batches_before_damage_are_given(source: str) -> None:
    table = pa.table({"7": np.arange(200_000) ** 2 % 1_000_003})
    encoded = encode_segment(table)
    data = bytearray(encoded.to_buffer().to_pybytes())
    data[int(encoded.columns[0].records["offset"][2])] ^= 1
    objects = MemoryObjects("memory://damage")
    objects.put_if_absent("seg/x", bytes(data))
    key = SegmentKey("seg/x", 0, encoded.length, encoded.checksum)
    batches = iter(stream(objects, [key], [(0, 200_000)], workers=2, source=source))
    good = [next(batches), next(batches)]
    assert pa.Table.from_batches(good).column(0).equals(table.column(0)[: 2 * 65_536])
    with pytest.raises(CorruptSegmentError, match="page 2"):
        next(batches)
    missing = SegmentKey("seg/y", 0, encoded.length, encoded.checksum)
    for keys in ([missing], [missing, key]):
        with pytest.raises(CorruptSegmentError, match="seg/y"):
            list(stream(objects, keys, [(0, 10)] * len(keys), workers=2, source=source))


def test_nothing_and_misuse() -> None:
    objects = MemoryObjects("memory://nothing")
    keys = put(objects, [pa.table({"7": [1, 2]}), pa.table({"7": ["a"]})])
    assert list(stream(objects, keys[:1], [(1, 1)])) == []
    (batch,) = stream(objects, keys[:1], [(0, 2)], columns=[])
    assert (batch.num_rows, batch.num_columns) == (2, 0)
    with pytest.raises(InvalidInputError, match="several types"):
        list(stream(objects, keys, [(0, 2), (0, 1)], batch_rows=3))
    for wrong in ({"batch_rows": 0}, {"workers": 0}):
        with pytest.raises(InvalidInputError, match="1 row or more"):
            stream(objects, keys, [(0, 2), (0, 1)], **wrong)

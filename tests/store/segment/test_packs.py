"""Small segments of one commit share objects; each is read like any other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import CorruptSegmentError, SymbolNotFoundError
from tessel.options import options
from tessel.store import Repository
from tessel.store.objects import MemoryObjects
from tessel.store.segment.file_writer import encode_segment
from tessel.store.segment.reader import SegmentReader
from tessel.store.segment.writer import PackWriter, pack_directory
from tests.store.helpers import read


def _segments(objects: MemoryObjects) -> list[str]:
    return list(objects.list("seg/"))


def test_many_symbols_of_one_commit_share_one_object() -> None:
    repository = Repository.open("memory://")
    assert isinstance(repository.objects, MemoryObjects)
    with repository.transaction() as transaction:
        for number in range(20):
            transaction.write(f"s{number}", {"a": [number, number + 1], "b": ["x", None]})
        assert _segments(repository.objects) == []
    (name,) = _segments(repository.objects)
    keys = pack_directory(name, repository.objects.get(name))
    assert keys is not None
    assert len(keys) == 20
    assert all(key.offset % 64 == 0 for key in keys)
    for number in range(20):
        view = repository.view(f"s{number}")
        assert read(view).to_pydict() == {"a": [number, number + 1], "b": ["x", None]}
        held = view.index().source(0).key
        assert (keys[number].offset, keys[number].checksum) == (held.offset, held.checksum)


def test_an_abandoned_transaction_leaves_no_pack() -> None:
    repository = Repository.open("memory://")

    def write_and_fail() -> None:
        with repository.transaction() as transaction:
            transaction.write("a", {"a": [1]})
            transaction.append("b", {"a": [1]})

    with pytest.raises(SymbolNotFoundError):
        write_and_fail()
    assert isinstance(repository.objects, MemoryObjects)
    assert _segments(repository.objects) == []


def test_large_segments_are_objects_of_their_own() -> None:
    repository = Repository.open("memory://")
    assert isinstance(repository.objects, MemoryObjects)
    random = np.random.default_rng(1)
    with options(segment_rows=200_000), repository.transaction() as transaction:
        transaction.write("a", {"a": random.random(400_001)})
    packs = [pack_directory(n, repository.objects.get(n)) for n in _segments(repository.objects)]
    assert sorted(len(pack or ()) for pack in packs) == [0, 0, 1]


def test_a_full_pack_is_written_and_another_begun() -> None:
    objects = MemoryObjects("memory://packs")
    encoded = [encode_segment(pa.table({"7": np.arange(n)})) for n in range(1, 8)]
    limit = 3 * max(segment.length + 64 for segment in encoded)
    writer = PackWriter(objects, pack_bytes=limit)
    keys = [writer.add(segment) for segment in encoded]
    writer.flush()
    writer.flush()
    names = list(dict.fromkeys(key.object for key in keys))
    assert len(names) > 2
    assert sorted(names) == _segments(objects)
    assert all(objects.size(name) <= limit for name in names)
    reader = SegmentReader(objects)
    for rows, key in enumerate(keys, 1):
        assert reader.read(key, [7], 0, rows).to_pydict() == {"7": list(range(rows))}


def test_what_is_packed_is_what_was_given_even_if_it_changes_before_the_commit() -> None:
    objects = MemoryObjects("memory://changing")
    values = np.arange(100.0) ** 0.5
    writer = PackWriter(objects)
    key = writer.add(encode_segment(pa.table({"7": pa.array(values)})))
    expected = values.tolist()
    values[:] = 0.0
    writer.flush()
    assert SegmentReader(objects).read(key, [7], 0, 100).to_pydict() == {"7": expected}


@pytest.mark.parametrize("at", range(-40, 0))
def test_a_damaged_directory_is_seen(at: int) -> None:
    objects = MemoryObjects("memory://directory")
    writer = PackWriter(objects)
    writer.add(encode_segment(pa.table({"7": [1]})))
    writer.flush()
    (name,) = _segments(objects)
    data = bytearray(objects.get(name).to_pybytes())
    data[at] ^= 1
    if at >= -8:  # it does not end like a pack any more
        assert pack_directory(name, pa.py_buffer(bytes(data))) is None
        return
    with pytest.raises(CorruptSegmentError, match=name):
        pack_directory(name, pa.py_buffer(bytes(data)))
    assert pack_directory(name, pa.py_buffer(b"short")) is None

"""Damage of any object gives a typed error or the same answer, never a wrong one."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.ecs.components import SegmentKey
from tessel.errors import CorruptSegmentError, CorruptStoreError, StoreError, TesselError
from tessel.options import options
from tessel.store import Repository, decode_batch, encode_batch
from tessel.store.history import open_store
from tessel.store.objects import MemoryObjects, checksum
from tessel.store.segment import SegmentReader
from tests.store.helpers import read

TABLE = pa.table(
    {
        "t": pa.array(range(6), pa.timestamp("s")),
        "text": ["a", None, "c", "dd", "", "f"],
        "number": [1.5, None, float("nan"), -0.0, 5.0, 6.0],
        "many": [[1], [], None, [2, None], [3], [4]],
        "code": pa.array(["x", "y", "x", None, "x", "x"]).dictionary_encode(),
    }
)


@functools.cache
def _contents() -> dict[str, bytes]:
    repository = Repository.open("memory://")
    with options(segment_rows=4, segment_columns=3):
        repository.write("s", TABLE.slice(0, 5), index="t", metadata={"a": [1, "b"]})
        repository.append("s", TABLE.slice(5))
        repository.write("other", {"a": [1]})
    objects = repository.objects
    return {name: objects.get(name).to_pybytes() for name in objects.list()}


def _answer(contents: dict[str, bytes]) -> Any:
    """Return all that can be read of a store with these objects."""
    objects = MemoryObjects("memory://damaged")
    for name, data in contents.items():
        objects.put_if_absent(name, data)
    identity = open_store(objects, create=False, read_only=True)
    repository = Repository(objects, identity.id, read_only=True)
    answers: list[Any] = [identity.id, repository.log()]
    for version in range(repository.newest + 1):
        for name in repository.symbols(as_of=version):
            view = repository.view(name, as_of=version)
            answers.append((view.schema, view.metadata, view.changed, view.column_ids))
            answers.append(repr(read(view).to_pydict()))
            statistics = view.index().statistics
            for column in view.schema.names:
                facts = statistics.facts(column)
                answers.append((facts.minimum.to_pylist(), facts.maximum.to_pylist()))
                answers.append((facts.missing.tolist(), facts.minimum_exact.tolist()))
    return answers


def _answer_or_none(contents: dict[str, bytes]) -> Any:
    try:
        return _answer(contents)
    except StoreError:
        return None


KINDS = ["store.json", "log/", "snap/", "man/", "seg/"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_flipped_bit(kind: str, data: st.DataObject) -> None:
    contents = dict(_contents())
    name = data.draw(st.sampled_from([n for n in contents if n.startswith(kind)]))
    bit = data.draw(st.integers(0, 8 * len(contents[name]) - 1))
    damaged = bytearray(contents[name])
    damaged[bit // 8] ^= 1 << bit % 8
    contents[name] = bytes(damaged)
    # Every byte of every object is under a checksum, so a flip is always seen, except in padding
    # between the blocks of a manifest, which nobody reads.
    answer = _answer_or_none(contents)
    if answer is not None:
        assert kind == "man/"
        assert answer == _answer(_contents())


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_cut_or_foreign_object(kind: str, data: st.DataObject) -> None:
    contents = dict(_contents())
    name = data.draw(st.sampled_from([n for n in contents if n.startswith(kind)]))
    whole = contents[name]
    other = data.draw(st.sampled_from(list(contents.values())))
    contents[name] = data.draw(
        st.integers(0, len(whole) - 1).map(lambda at: whole[:at])
        | st.just(bytes(len(whole)))
        | st.just(other if other != whole else b"")
        | st.binary(max_size=100)
    )
    with pytest.raises(StoreError):
        _answer(contents)


@pytest.mark.parametrize("kind", ["snap/", "man/", "seg/"])
def test_a_missing_object_is_named(kind: str) -> None:
    for name in [n for n in _contents() if n.startswith(kind)]:
        contents = {n: data for n, data in _contents().items() if n != name}
        with pytest.raises(CorruptStoreError, match=name):
            _answer(contents)


def test_bytes_after_the_end_change_nothing() -> None:
    for kind in ("snap/", "man/", "seg/"):
        contents = {n: d + b"more" if n.startswith(kind) else d for n, d in _contents().items()}
        assert _answer(contents) == _answer(_contents())


# --- segments that lie although their checksum is right -------------------------------------------


def _reader_of(data: bytes) -> tuple[SegmentReader, SegmentKey]:
    objects = MemoryObjects("memory://forged")
    objects.put_if_absent("seg/x", data)
    return SegmentReader(objects), SegmentKey("seg/x", 0, len(data), checksum(data))


@settings(max_examples=300)
@given(data=st.data())
def test_a_forged_segment_never_crashes(data: st.DataObject) -> None:
    table = TABLE.rename_columns([str(n) for n in range(TABLE.num_columns)])
    forged = bytearray(encode_batch(table).to_pybytes())
    for _ in range(data.draw(st.integers(1, 4))):
        forged[data.draw(st.integers(0, len(forged) - 1))] = data.draw(st.integers(0, 255))
    reader, key = _reader_of(bytes(forged))
    found = _read_or_none(reader, key)
    if found is not None:
        found.validate(full=True)
        assert found.num_rows == 6
        encode_batch(found)  # touches every byte that the arrays refer to


def _read_or_none(reader: SegmentReader, key: SegmentKey) -> pa.Table | None:
    try:
        return reader.read(key, range(TABLE.num_columns), 0, 6)
    except CorruptSegmentError:
        return None


def test_a_column_or_row_that_is_not_there_is_named() -> None:
    reader, key = _reader_of(encode_batch(pa.table({"7": [1, 2]})).to_pybytes())
    with pytest.raises(CorruptSegmentError, match="'8'") as caught:
        reader.read(key, [8], 0, 1)
    assert caught.value.attributes["column"] == "8"
    with pytest.raises(CorruptSegmentError, match="rows 0 to 3"):
        reader.read(key, [7], 0, 3)
    assert reader.read(key, [7], 1, 2).to_pydict() == {"7": [2]}


@given(data=st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for forged in (data, b"ARROW1\0\0" + data + b"ARROW1"):
        with pytest.raises(TesselError):
            decode_batch(forged, where="a test")


def test_verified_once_and_again_on_request() -> None:
    data = encode_batch(pa.table({"7": [1, 2]})).to_pybytes()
    reader, key = _reader_of(data)
    wrong = SegmentKey(key.object, key.offset, key.length, key.checksum ^ 1)
    for _ in range(2):
        with pytest.raises(CorruptSegmentError, match="checksum"):
            reader.read(wrong, [7], 0, 1)
        with pytest.raises(CorruptSegmentError, match="checksum"):
            reader.verify(wrong)
    reader.read(key, [7], 0, 1)
    reader.verify(key)

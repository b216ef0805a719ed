"""Damage of any object gives a typed error or the same answer, never a wrong one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.piece import SegmentKey
from tessel.errors import CorruptSegmentError, CorruptStoreError, StoreError, TesselError
from tessel.options import options
from tessel.store import Repository
from tessel.store.encodings.arrow_ipc import decode_table
from tessel.store.history.documents import open_store
from tessel.store.objects import MemoryObjects
from tessel.store.segment.file_writer import encode_segment
from tessel.store.segment.reader import SegmentReader
from tessel.store.segment.sources import ObjectStoreSource
from tests.store.helpers import assert_same, read

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
        repository.write("s", TABLE.slice(0, 5), index="t", metadata={"a": [1, "b" * 9000]})
        repository.append("s", TABLE.slice(5))
        repository.write("other", {"a": [1]})
    repository.create_branch("side", at=1)
    repository.create_tag("first", at=1)
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
    history = repository.history
    answers += [(entry.commit, history.refs_at(entry)) for entry in history.entries()]
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


KINDS = ["store.json", "log/", "leaf/", "refs/", "man/", "seg/"]


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
    # and in the directory of a pack, which nobody reads.
    answer = _answer_or_none(contents)
    if answer is not None:
        assert kind in ("man/", "seg/")
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
    answer = _answer_or_none(contents)
    if answer is not None:  # a pack without its directory still has its segments
        assert kind == "seg/"
        assert whole.startswith(contents[name])
        assert answer == _answer(_contents())


@pytest.mark.parametrize("kind", ["leaf/", "refs/", "man/", "seg/"])
def test_a_missing_object_is_named(kind: str) -> None:
    for name in [n for n in _contents() if n.startswith(kind)]:
        contents = {n: data for n, data in _contents().items() if n != name}
        with pytest.raises(CorruptStoreError, match=name):
            _answer(contents)


def test_bytes_after_the_end_change_nothing() -> None:
    for kind in ("leaf/", "refs/", "man/", "seg/"):
        contents = {n: d + b"more" if n.startswith(kind) else d for n, d in _contents().items()}
        assert _answer(contents) == _answer(_contents())


# --- segments that are not what their key says ----------------------------------------------------


def _reader_of(table: pa.Table) -> tuple[SegmentReader, SegmentKey]:
    encoded = encode_segment(table)
    objects = MemoryObjects("memory://forged")
    objects.put_if_absent("seg/x", encoded.to_buffer())
    return SegmentReader(objects), SegmentKey("seg/x", 0, encoded.length, encoded.checksum)


def test_a_column_or_row_that_is_not_there_is_named() -> None:
    reader, key = _reader_of(pa.table({"7": [1, 2]}))
    with pytest.raises(CorruptSegmentError, match="'8'") as caught:
        reader.read(key, [8], 0, 1)
    assert caught.value.attributes["column"] == "8"
    with pytest.raises(CorruptSegmentError, match="rows 0 to 3"):
        reader.read(key, [7], 0, 3)
    assert reader.read(key, [7], 1, 2).to_pydict() == {"7": [2]}
    assert reader.read(key, [], 0, 2).num_rows == 2


@given(data=st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for forged in (data, b"ARROW1\0\0" + data + b"ARROW1"):
        with pytest.raises(TesselError):
            decode_table(pa.py_buffer(forged), where="a test")


@pytest.mark.parametrize(
    "change", [{"checksum": 1}, {"offset": 64}, {"length": 1}, {"length": 1 << 40}]
)
def test_another_key_than_that_of_the_segment_is_refused(change: dict[str, int]) -> None:
    reader, key = _reader_of(pa.table({"7": [1, 2]}))
    wrong = key._replace(**change)
    for _ in range(2):
        with pytest.raises(CorruptSegmentError):
            reader.read(wrong, [7], 0, 1)
        with pytest.raises(CorruptSegmentError):
            reader.verify(wrong)
    reader.read(key, [7], 0, 1)
    reader.verify(key)


@pytest.mark.parametrize("metadata_start", [None, 0, 64, 1 << 40])
def test_where_metadata_start_is_a_hint_only(metadata_start: int | None) -> None:
    reader, key = _reader_of(pa.table({"7": [1, 2]}))
    wrong = key._replace(metadata_start=metadata_start)
    assert reader.read(wrong, [7], 0, 2).to_pydict() == {"7": [1, 2]}


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0, 2, 1, 0]])
def test_take_across_the_columns_of_a_segment(rows: list[int]) -> None:
    table = TABLE.rename_columns([str(n) for n in range(TABLE.num_columns)])
    reader, key = _reader_of(table)
    found = reader.take(key, range(TABLE.num_columns), np.array(rows))
    assert_same(found, table.take(rows))


def test_no_rows_of_a_dictionary_column_are_no_damage() -> None:
    """Nothing was read for them from a store that is far: the dictionary is not there to verify."""
    table = pa.table({"7": pa.array(["x", "y"] * 2).dictionary_encode()})
    encoded = encode_segment(table)
    objects = MemoryObjects("memory://far")
    objects.put_if_absent("seg/x", encoded.to_buffer())
    key = SegmentKey("seg/x", 0, encoded.length, encoded.checksum)
    reader = SegmentReader(objects, ObjectStoreSource(objects))
    nothing = pa.array([], pa.string()).dictionary_encode()
    assert reader.read(key, [7], 2, 2).column("7").combine_chunks() == nothing
    assert reader.take(key, [7], np.array([], np.int64)).column("7").combine_chunks() == nothing
    lazy = reader.lazy_rows(key, [7], 0, 4)
    none = np.zeros(4, np.bool_)
    assert lazy.column(7, 0, 4, none).filter(none) == nothing
    assert reader.read(key, [7], 1, 2).column("7").to_pylist() == ["y"]

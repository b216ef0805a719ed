"""References: logged and kept as any component, fetched from allowed places and no others."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import google_crc32c
import polars as pl
import pyarrow as pa
import pytest

import tessel
from tessel.errors import (
    InvalidInputError,
    NotFoundError,
    ReferenceChangedError,
    StoreAccessError,
    TesselError,
    UnsupportedTypeError,
)
from tessel.store.events import (
    Cell,
    EventBatch,
    LiveStore,
    Recorder,
    Reference,
    ReferenceReader,
    SocketSink,
)
from tessel.store.events.extension_types import ReferenceType, reference_array

DATA = random.Random(9).randbytes(10_000)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "videos" / "Run 7.MP4"
    path.parent.mkdir()
    path.write_bytes(DATA)
    return path


@pytest.fixture
def reader(video: Path) -> ReferenceReader:
    return ReferenceReader([video.parent], max_bytes=8_000, cache_bytes=5_000)


def part(video: Path, first: int, stop: int, *, checked: bool = False) -> Reference:
    made = Reference.of(str(video), DATA[first:stop], first)
    return made if checked else Reference(made.uri, made.offset, made.length)


def read(buffers: Iterator[pa.Buffer | None]) -> list[bytes | None]:
    return [None if each is None else bytes(each) for each in buffers]


# --- values ---------------------------------------------------------------------------------------


def test_a_reference_says_which_bytes():
    made = Reference.of("/data/a", b"xyz", 7)
    assert made == Reference("/data/a", 7, 3, google_crc32c.value(b"xyz"))
    array = reference_array([made, None, Reference("/data/b")])
    assert array.type == ReferenceType()
    assert array.to_pylist() == [made, None, Reference("/data/b")]
    assert [each.as_py() for each in array] == array.to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        ("",),
        (None,),
        (b"/a",),
        ("/a" * 2000,),
        ("/a", -1),
        ("/a", None),
        ("/a", 1.0),
        ("/a", True),
        ("/a", 0, -1),
        ("/a", 0, "1"),
        ("/a", 2**63 - 1, 1),
        ("/a", 0, 1, 2**32),
        ("/a", 0, 1, -1),
    ],
    ids=repr,
)
def test_references_that_are_none_are_refused(values):
    with pytest.raises(InvalidInputError, match="reference"):
        Reference(*values)


def test_a_component_holds_references_alone():
    with pytest.raises(InvalidInputError, match="is no reference"):
        Cell.from_values("x", [Reference("/a"), "/b"])
    with pytest.raises(InvalidInputError, match="is no reference"):
        Cell.from_values("x", [{"uri": "/a"}], ReferenceType())
    assert Cell.from_values("x", [None], ReferenceType()).to_list() == [None]
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": 1.0}, f=1)
        with pytest.raises(InvalidInputError, match="is double, and this event has"):
            recorder.log("a", {"x": Reference("/a")}, f=2)


def storage(**fields: object) -> pa.Array:
    values = {"uri": "/a", "offset": 0, "length": None, "checksum": None, **fields}
    return pa.array([values], ReferenceType.storage)


BAD = {
    "no uri": storage(uri=None),
    "an empty uri": storage(uri=""),
    "a long uri": storage(uri="/" * 5000),
    "no offset": storage(offset=None),
    "before the object": storage(offset=-1),
    "a negative length": storage(length=-1),
    "past what counts": storage(offset=2**63 - 1, length=1),
}


@pytest.mark.parametrize("name", BAD)
def test_what_arrives_and_is_no_reference_is_refused(name):
    """As an array, and in a batch of somebody else, alone and in lists."""
    array = pa.ExtensionArray.from_storage(ReferenceType(), BAD[name])
    with pytest.raises(InvalidInputError, match="reference that is none"):
        Cell.from_arrow("x", array)
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": Reference("/a")}, f=1)
    arrow = store.batches()[0].to_arrow()
    assert EventBatch.from_arrow(arrow).shape.components == (("x", ReferenceType()),)
    lists = pa.LargeListArray.from_arrays(pa.array([0, 1], pa.int64()), array)
    at = arrow.schema.get_field_index("x")
    for column in (array, lists):
        field = arrow.schema.field(at).with_type(column.type)
        with pytest.raises(InvalidInputError, match="reference that is none"):
            EventBatch.from_arrow(arrow.set_column(at, field, column))


# --- fetching -------------------------------------------------------------------------------------


def test_any_range_is_fetched(video, reader):
    pick = random.Random(3)
    for _ in range(200):
        first, stop = sorted(pick.choices(range(len(DATA) + 1), k=2))
        reference = part(video, first, stop, checked=pick.random() < 0.5)
        if stop - first > 8_000:
            with pytest.raises(InvalidInputError, match="are fetched at once"):
                reader.fetch(reference)
        else:
            assert bytes(reader.fetch(reference)) == DATA[first:stop]
        assert reader.kept_bytes <= 5_000
    assert bytes(reader.fetch(Reference(str(video), 9_000))) == DATA[9_000:]
    with pytest.raises(InvalidInputError, match="10000 bytes"):
        reader.fetch(Reference(str(video)))


@pytest.mark.parametrize("checked", [True, False])
def test_objects_that_are_gone_or_changed_are_named(video, reader, checked):
    reference = part(video, 100, 200, checked=checked)
    for bad in (part(video, 0, 10, checked=True), part(video, 5, 10)):
        video.write_bytes(b"x" * 4)
        with pytest.raises(ReferenceChangedError, match="has 4 bytes"):
            reader.fetch(bad)
    with pytest.raises(ReferenceChangedError, match="has 4 bytes, and the reference is to all"):
        reader.fetch(Reference(str(video), 5))
    video.write_bytes(bytes(len(DATA)))
    if checked:
        with pytest.raises(ReferenceChangedError, match="checksum"):
            reader.fetch(reference)
    else:
        assert bytes(reader.fetch(reference)) == bytes(100)
    video.unlink()
    with pytest.raises(NotFoundError):
        reader.fetch(reference)


def test_only_what_cannot_change_is_kept(video, reader):
    checked, plain = part(video, 0, 100, checked=True), part(video, 0, 100)
    assert reader.fetch(plain) == reader.fetch(checked)
    assert reader.kept_bytes == 100
    video.write_bytes(bytes(len(DATA)))
    assert bytes(reader.fetch(checked)) == DATA[:100]
    assert bytes(reader.fetch(plain)) == bytes(100)


def test_what_was_used_last_is_kept(video, reader):
    parts = [part(video, at * 1000, (at + 1) * 1000, checked=True) for at in range(6)]
    for each in parts[:5]:
        reader.fetch(each)
    reader.fetch(parts[0])
    reader.fetch(parts[5])  # in the place of the second
    assert reader.kept_bytes == 5_000
    video.unlink()
    assert [bytes(reader.fetch(parts[at])) for at in (0, 2, 3, 4, 5)]
    with pytest.raises(NotFoundError):
        reader.fetch(parts[1])


@pytest.mark.parametrize(
    "uri",
    [
        "{root}x/Run 7.MP4",
        "{root}/../outside",
        "{root}/a/../../outside",
        "file://{root}/%2e%2e/outside",
        "{root}",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://bucket/key",
        "memory://other/run",
    ],
)
def test_nothing_outside_the_roots_is_read(uri, video, reader):
    (video.parent.parent / "outside").write_bytes(DATA)
    with pytest.raises(StoreAccessError, match="no place that may be read") as caught:
        reader.fetch(Reference(uri.format(root=video.parent)))
    assert str(video.parent) in str(caught.value)


@pytest.mark.parametrize("uri", ["http://h/a", "relative/a", "ftp://user:secret@h/a"])
def test_other_schemes_are_refused(uri, reader):
    with pytest.raises(InvalidInputError) as caught:
        reader.fetch(Reference(uri))
    assert "secret" not in str(caught.value)


def test_links_are_refused(video, reader):
    (video.parent / "link").symlink_to(video)
    with pytest.raises(StoreAccessError, match="is not read"):
        reader.fetch(Reference(str(video.parent / "link")))


def test_readers_that_are_none_are_refused(tmp_path):
    for wrong in ({"roots": "/data"}, {"roots": ["data"]}, {"roots": ["http://h"]}):
        with pytest.raises(InvalidInputError):
            ReferenceReader(**wrong)
    for numbers in ({"max_bytes": 0}, {"cache_bytes": -1}):
        with pytest.raises(InvalidInputError, match="positive"):
            ReferenceReader([tmp_path], **numbers)
    with pytest.raises(InvalidInputError, match="are no references"):
        list(ReferenceReader([]).fetch_all(pa.array([1])))


def test_a_forked_child_reads_too(video, reader):
    reference = part(video, 0, 100, checked=True)
    with reader._kept._lock:  # held when the process forks
        child = os.fork()
        if not child:
            os._exit(0 if bytes(reader.fetch(reference)) == DATA[:100] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- in a store -----------------------------------------------------------------------------------


def logged(
    video: Path, store: LiveStore, *, several: bool = True
) -> dict[int, list[Reference | None]]:
    """Log frames, one or several cameras each; return the references."""
    given = {}
    with Recorder(store) as recorder:
        for frame in range(6):
            count = 3 if frame == 4 and several else 1
            given[frame] = [part(video, frame * 100 + n, frame * 150 + 100) for n in range(count)]
            if count == 3:
                given[frame][1] = None
            value = given[frame] if count > 1 else given[frame][0]
            recorder.log("camera", {"image": value, "exposure": frame / 2}, frame=frame)
    return given


def expected(given: list[Reference | None]) -> list[bytes | None]:
    return [
        None if each is None else DATA[each.offset : each.offset + (each.length or 0)]
        for each in given
    ]


def test_a_live_store_fetches_what_its_answers_refer_to(video, reader):
    store = LiveStore(references=reader)
    given = logged(video, store)
    for frame, references in given.items():
        found = store.latest_at("frame", frame, "camera")["image"]
        assert found.cell.to_list() == references
        assert read(store.fetch(found)) == expected(references)
    table = store.range("frame", 0, 9, "camera", ["image"], include_latest_at_start=True)
    every = [each for references in given.values() for each in references]
    assert read(store.fetch(table.column("image"))) == expected(every)
    filled = store.table("frame", "camera", at=[3], fill="latest_at")
    assert read(store.fetch(filled.column("image"))) == expected(given[3])
    many = store.latest_at_many("frame", [4, -1], "camera", "image")
    assert read(store.fetch(many.column("image"))) == expected(given[4])
    store.check()


def test_a_store_without_a_reader_reads_nothing(video):
    store = LiveStore()
    logged(video, store)
    found = store.latest_at("frame", 1, "camera")["image"]
    with pytest.raises(StoreAccessError, match="held elsewhere"):
        store.fetch(found)


def test_who_logs_over_a_socket_cannot_make_the_store_read_other_files(video, reader):
    with LiveStore(references=reader) as store, store.serve() as server:
        with SocketSink(server.address) as sink, Recorder(sink) as recorder:
            recorder.log("a", {"x": Reference("/etc/passwd")}, f=1)
            recorder.log("a", {"x": part(video, 1, 2)}, f=2)
        with pytest.raises(StoreAccessError):
            list(store.fetch(store.latest_at("f", 1, "a")["x"]))
        assert read(store.fetch(store.latest_at("f", 2, "a")["x"])) == [DATA[1:2]]


@pytest.mark.parametrize("several", [True, False], ids=["lists", "plain"])
def test_a_saved_recording_has_structs_and_comes_back(video, reader, tmp_path, several):
    live = LiveStore(references=reader)
    given = logged(video, live, several=several)
    repository = tessel.open(str(tmp_path / "store"))
    live.save(repository, "run")
    again = LiveStore.open(repository, "run", references=reader)
    for frame, references in given.items():
        assert (
            again.latest_at("frame", frame, "camera")["image"]
            == live.latest_at("frame", frame, "camera")["image"]
        )
        assert read(again.fetch(again.latest_at("frame", frame, "camera")["image"])) == expected(
            references
        )
    query = tessel.QueryBuilder().filter("exposure >= 1.5").select("frame", "image")
    table = repository.read("run/camera", query=query).to_arrow()
    kind = table.schema.field("image").type
    assert (kind.value_type if several else kind) == ReferenceType.storage
    late = [each for frame, references in given.items() if frame >= 3 for each in references]
    assert read(reader.fetch_all(table.column("image"))) == expected(late)
    uris = {each.uri for each in late if each is not None}
    if not several:
        assert set(pl.from_arrow(table)["image"].struct.field("uri")) == uris
        found = duckdb.sql('select distinct image.uri from "table"').fetchall()
        assert {uri for (uri,) in found} == uris


def test_a_dump_and_a_journal_keep_references(video, reader, tmp_path):
    path = tmp_path / "events"
    with LiveStore(journal=path) as store:
        given = logged(video, store)
    with LiveStore(journal=path, references=reader) as store:
        for frame, references in given.items():
            found = store.latest_at("frame", frame, "camera")["image"]
            assert read(store.fetch(found)) == expected(references)


def test_types_of_others_without_a_hash_are_refused_by_name():
    class Unhashable(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int64(), "test.unhashable")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

    array = pa.ExtensionArray.from_storage(Unhashable(), pa.array([1]))
    with pytest.raises(UnsupportedTypeError, match="cannot be logged"):
        Cell.from_arrow("x", array)


def test_a_struct_of_other_fields_is_no_reference(reader):
    with pytest.raises(TesselError, match="no references"):
        list(reader.fetch_all(pa.array([{"uri": "/a"}])))
    with pytest.raises(InvalidInputError, match="a reference has"):
        Reference.from_struct({"uri": "/a"})

"""Types of our own: through IPC and files, in other processes, and to readers without them."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError, TesselError
from tessel.store.events import (
    Cell,
    EventBatch,
    LiveStore,
    Recorder,
    Reference,
    Row,
    Table,
    id_bytes,
)
from tessel.store.events.extension_types import (
    ComponentNameType,
    EntityPathType,
    EventIdType,
    OwnType,
    ReferenceType,
    register_own_types,
)
from tests.store.events.golden import making
from tests.store.events.histories import History

OWN = [ComponentNameType(), EntityPathType(), EventIdType(), ReferenceType()]


def through_ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    (found,) = pa.ipc.open_stream(sink.getvalue())
    return found


def of_all_types() -> pa.RecordBatch:
    arrays = [pa.ExtensionArray.from_storage(kind, pa.nulls(2, kind.storage_type)) for kind in OWN]
    return pa.RecordBatch.from_arrays(arrays, [kind.extension_name for kind in OWN])


# --- the types ------------------------------------------------------------------------------------


def test_types_come_back_through_ipc_and_pickle():
    batch = of_all_types()
    assert through_ipc(batch).schema.types == OWN
    assert pickle.loads(pickle.dumps(batch)).schema.types == OWN
    assert [kind.extension_name for kind in OWN] == [
        "tessel.component",
        "tessel.entity_path",
        "tessel.event_id",
        "tessel.reference",
    ]


@pytest.mark.parametrize("kind", OWN, ids=str)
def test_types_are_equal_to_themselves_alone(kind):
    assert kind == type(kind)()
    assert hash(kind) == hash(type(kind)())
    assert [each == kind for each in OWN].count(True) == 1
    assert kind != kind.storage_type
    assert kind.storage_type != kind
    with pytest.raises(ValueError, match="said to be"):
        type(kind).__arrow_ext_deserialize__(pa.int64(), b"")
    with pytest.raises(ValueError, match="said to be"):
        type(kind).__arrow_ext_deserialize__(kind.storage_type, b"1")


def test_types_are_registered_once_however_often_that_is_asked():
    for _ in range(3):
        register_own_types()
    assert through_ipc(of_all_types()).schema.types == OWN
    assert all(isinstance(kind, OwnType) for kind in through_ipc(of_all_types()).schema.types)


def types_in_a_child(data: bytes) -> list[str]:
    import tessel.store.events  # noqa: F401  (registers them)

    return [str(kind) for kind in pa.ipc.open_stream(data).schema.types]


@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_other_processes_have_them(way):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, of_all_types().schema):
        pass
    data = sink.getvalue().to_pybytes()
    if way == "spawn":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(types_in_a_child, (data,)) == [str(kind) for kind in OWN]
    else:
        child = os.fork()
        if not child:
            os._exit(0 if types_in_a_child(data) == [str(kind) for kind in OWN] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


RELOADED = """
import importlib, sys
import pyarrow as pa
import tessel.store.events
from tessel.store.events import extension_types as types
sink = pa.BufferOutputStream()
with pa.ipc.new_stream(sink, pa.schema([("x", types.EventIdType())])):
    pass
before = types.EventIdType()
again = importlib.reload(types)
(kind,) = pa.ipc.open_stream(sink.getvalue()).schema.types
assert type(kind) is again.EventIdType, kind
assert kind == before == again.EventIdType()
"""


def test_the_module_can_be_imported_again():
    subprocess.run([sys.executable, "-W", "error", "-c", RELOADED], check=True)


def test_importing_tessel_alone_imports_nothing_of_them():
    code = "import sys, tessel; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


WITHOUT = """
import json, sys
import pyarrow as pa
with pa.OSFile(sys.argv[1], "rb") as file:
    table = pa.ipc.open_file(file).read_all()
assert not any(name.split(".")[0] == "tessel" for name in sys.modules)
shown = {
    field.name: [
        str(field.type),
        (field.metadata or {}).get(b"ARROW:extension:name", b"").decode(),
        (field.metadata or {}).get(b"tessel.kind", b"").decode(),
    ]
    for field in table.schema
}
paths = table.column("entity_path").to_pylist()
print(json.dumps([shown, paths]))
"""


def test_a_reader_without_them_sees_storage_and_metadata(tmp_path):
    path = tmp_path / "events.arrow"
    reference = Cell.from_values("image", [Reference("/data/a")])
    rows = [*making.rows(), Row(id_bytes(2_000, 1), "camera", {"frame": 9}, 1, [reference])]
    batch = Table.from_rows(rows).to_arrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, str(path)],
        capture_output=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    shown, paths = json.loads(done.stdout)
    assert shown["event_id"] == ["fixed_size_binary[16]", "tessel.event_id", "event_id"]
    assert shown["entity_path"] == ["string", "tessel.entity_path", "entity_path"]
    image, _, kind = shown["image"]
    assert (image.startswith("large_list<item: struct<uri: string"), kind) == (True, "component")
    assert paths == [row.entity for row in Table.from_rows(rows).rows]


# --- batches of one shape -------------------------------------------------------------------------


def test_batches_have_typed_ids_and_plain_ones_are_taken():
    store = LiveStore()
    with Recorder(store) as recorder:
        recorder.log("a", {"x": 1.0}, frame=1)
    arrow = store.batches()[0].to_arrow()
    assert arrow.schema.field("event_id").type == EventIdType()
    plain = arrow.set_column(
        0, arrow.schema.field(0).with_type(pa.binary(16)), arrow.column(0).storage
    )
    for each in (arrow, through_ipc(arrow), plain, through_ipc(plain)):
        other = LiveStore()
        assert other.insert(EventBatch.from_arrow(each)) == 1
        assert other.latest_at("frame", 1, "a")["x"].cell.to_list() == [1.0]
    wrong = pa.ExtensionArray.from_storage(pa.uuid(), arrow.column(0).storage)
    with pytest.raises(InvalidInputError, match="needs one column 'event_id'"):
        EventBatch.from_arrow(
            arrow.set_column(0, arrow.schema.field(0).with_type(pa.uuid()), wrong)
        )


# --- tables of any events -------------------------------------------------------------------------


def test_a_table_is_one_record_batch_in_the_order_of_ids():
    table = Table.from_rows(making.rows())
    batch = table.to_arrow()
    assert batch.schema.types[:2] == [EventIdType(), EntityPathType()]
    ids = batch.column("event_id").storage.to_pylist()
    assert ids == sorted(ids) == [row.event_id for row in table.rows]
    components = {
        field.name: field.metadata[b"tessel.component"]
        for field in batch.schema
        if field.metadata[b"tessel.kind"] == b"component"
    }
    assert components["angle"] == b"angle"
    assert len(batch.schema.metadata[b"tessel.batch_id"]) == 32
    assert (
        table.to_arrow().schema.metadata[b"tessel.batch_id"]
        > batch.schema.metadata[b"tessel.batch_id"]
    )


@pytest.mark.parametrize("seed", range(8))
def test_random_events_come_back(seed):
    history = History(seed)
    rows = [history.row(history.event()) for _ in range(30)]
    rows += [
        Row.clear(id_bytes(9_000, at), "a", {"frame": at}, recursive=at > 1) for at in range(3)
    ]
    table = Table.from_rows(rows if seed else making.rows())
    batch = table.to_arrow()
    for each in (batch, through_ipc(batch)):
        assert Table.from_arrow(each).rows == table.rows
    assert Table.from_arrow(Table().to_arrow()).rows == []


def test_names_and_types_may_meet():
    """A component in two types, one named like a column, one like a timeline of another event."""
    rows = [
        Row(id_bytes(1, 1), "a", {"f": 1}, 1, [Cell.from_values("x", [1])]),
        Row(id_bytes(1, 2), "b", {"event_id": 1}, 1, [Cell.from_values("x", ["text"])]),
        Row(id_bytes(1, 3), "c", {}, 1, [Cell.from_values("f", [1.0])]),
        Row(id_bytes(1, 4), "c", {}, 0, [Cell.empty("entity_path", pa.int8())]),
    ]
    batch = Table.from_rows(rows).to_arrow()
    assert len(set(batch.schema.names)) == batch.num_columns
    assert Table.from_arrow(batch).rows == rows
    other = Row(id_bytes(1, 5), "c", {"f": making.NOON}, 1, [Cell.from_values("y", [1])])
    with pytest.raises(InvalidInputError, match="counts sequences in one event, and timestamps"):
        Table.from_rows([*rows, other]).to_arrow()


def spoiled() -> dict[str, pa.RecordBatch]:
    rows = [Row(id_bytes(1, 1), "a", {"f": 1}, 2, [Cell.from_values("x", [1, 2])])]
    batch = Table.from_rows(rows).to_arrow()
    at = {name: batch.schema.get_field_index(name) for name in batch.schema.names}
    field = batch.schema.field

    def put(name: str, array: pa.Array, **metadata: str) -> pa.RecordBatch:
        known = {**field(name).metadata, **{f"tessel.{k}".encode(): v for k, v in metadata.items()}}
        return batch.set_column(at[name], pa.field(name, array.type, metadata=known), array)

    lists = pa.large_list(pa.int64())
    return {
        "no metadata": batch.replace_schema_metadata(None),
        "no ids": batch.drop_columns(["event_id"]),
        "no paths": batch.drop_columns(["entity_path"]),
        "no counts": batch.drop_columns(["num_instances"]),
        "two counts": batch.append_column(field("num_instances"), batch.column("num_instances")),
        "ids that are text": put("event_id", pa.array(["a"])),
        "a null path": put("entity_path", pa.array([None], pa.string())),
        "a path that is none": put("entity_path", pa.array(["a//b"])),
        "another count": put("num_instances", pa.array([3], pa.uint32())),
        "a timeline of no kind": put("f", batch.column("f"), timeline="frames"),
        "a timeline of another kind": put("f", batch.column("f"), timeline="timestamp"),
        "a timeline without a name": put("f", batch.column("f"), timeline_name=""),
        "a component of no list": put("x", pa.array([1])),
        "a reserved component": put("x", batch.column("x"), component="tessel.mine"),
        "a component twice": batch.append_column(field("x"), batch.column("x")),
        "a component that clears and more": batch.append_column(
            pa.field("c", lists, metadata={"tessel.kind": "component",
                                           "tessel.component": "tessel.clear"}),
            pa.array([[1]], lists),
        ),
        "another kind of column": put("x", batch.column("x"), kind="other"),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(spoiled()))
def test_what_is_no_table_of_events_is_refused(name):
    with pytest.raises(TesselError):
        Table.from_arrow(spoiled()[name])


# --- what there is --------------------------------------------------------------------------------


def test_contents_name_every_component():
    store = LiveStore()
    store.insert(Table.from_rows(making.rows()))
    table = store.contents()
    assert table.schema.types[:2] == [EntityPathType(), ComponentNameType()]
    rows = making.rows()
    expected = sorted(
        {
            (row.entity, cell.component, str(cell.type))
            for row in rows
            for cell in row.cells
            if not cell.component.startswith("tessel.clear")
        }
    )
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert [each[:3] for each in found] == expected
    for entity, component, _, count in found:
        assert count == sum(r.entity == entity and r.cell(component) is not None for r in rows)
    assert LiveStore().contents().num_rows == 0

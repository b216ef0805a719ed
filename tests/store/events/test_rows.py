"""Cells, rows, tables, ids and timelines: what they hold, and what they are refused for."""

from __future__ import annotations

import datetime as dt
import os
import threading

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import DuplicateColumnError, InvalidInputError, UnsupportedTypeError
from tessel.store.events import (
    Cell,
    EventBatch,
    EventIds,
    LiveStore,
    Row,
    Table,
    Timeline,
    TimelineKind,
    id_bytes,
    id_parts,
    log_time,
)

ID = id_bytes(1_700_000_000_000_000_000, 7)


def test_cells_are_made_of_values_and_of_arrow():
    cell = Cell.from_values("x", [1.0, None])
    assert (cell.type, cell.to_list(), len(cell)) == (pa.float64(), [1.0, None], 2)
    assert Cell.from_arrow("x", pa.chunked_array([[1.0], [None]])) == cell
    assert Cell.empty("x", pa.string()).to_list() == []
    assert cell.to_arrow().equals(pa.array([1.0, None]))


def test_a_cell_gives_a_value_to_every_instance():
    assert Cell.from_values("x", [7]).instances(3).to_pylist() == [7, 7, 7]
    assert Cell.from_values("x", [1, 2]).instances(4).to_pylist() == [1, 2, 2, 2]
    assert Cell.empty("x", pa.int64()).instances(3).to_pylist() == []
    assert Cell.from_values("x", [1, 2]).instances(2).to_pylist() == [1, 2]


def test_cells_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="of no one type"):
        Cell.from_values("x", [1, "a"])
    with pytest.raises(UnsupportedTypeError, match="have no type"):
        Cell.from_values("x", [])
    with pytest.raises(InvalidInputError, match="is reserved"):
        Cell.from_values("tessel.clear", [1])
    with pytest.raises(InvalidInputError, match="names no component"):
        Cell.from_values("a/b", [1])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_cell_has_none_one_or_all_values(count):
    row = Row(ID, "a", {"frame": 1}, 3, [Cell.from_values("x", [1] * count, pa.int64())])
    assert len(row.cell("x")) == count


def test_other_numbers_of_values_and_a_component_twice_are_refused():
    row = Row(ID, "a", {"frame": 1}, 3)
    with pytest.raises(InvalidInputError, match="2 values in an event of 3 instances"):
        row.append_cell(Cell.from_values("x", [1, 2]))
    assert row.cells == []
    row.append_cell(Cell.from_values("x", [1]))
    with pytest.raises(DuplicateColumnError, match="twice"):
        row.append_cell(Cell.from_values("x", [2]))
    with pytest.raises(InvalidInputError, match="2 keys for 3 instances"):
        Row(ID, "a", num_instances=3, instance_keys=pa.array([1, 2]))
    with pytest.raises(InvalidInputError, match="have one key"):
        Row(ID, "a", num_instances=2, instance_keys=pa.array([1, 1]))


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "a\nb", 3], ids=repr)
def test_paths_that_are_none_are_refused(path):
    with pytest.raises(InvalidInputError, match="no path of an entity"):
        Row(ID, path)


def test_times_say_what_they_count():
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    row = Row(ID, "a", {"frame": 42, "at": moment, "for": dt.timedelta(seconds=1.5)})
    assert row.time_point == {
        Timeline("frame", TimelineKind.SEQUENCE): 42,
        Timeline("at", TimelineKind.TIMESTAMP): int(moment.timestamp()) * 10**9,
        Timeline("for", TimelineKind.DURATION): 1_500_000_000,
    }
    assert repr(row) == "Row('a', frame=#42, at=2024-01-01T00:00:00Z, for=1.5s, [])"
    assert Row(ID, "a", {"at": np.datetime64("2024-01-01")}).time_point == {
        Timeline("at", TimelineKind.TIMESTAMP): int(moment.timestamp()) * 10**9
    }


@pytest.mark.parametrize("time", [True, 1.5, "now", dt.datetime(2024, 1, 1), 2**63], ids=repr)
def test_times_that_are_none_are_refused(time):
    with pytest.raises(InvalidInputError, match="t="):
        Row(ID, "a", {"t": time})


def test_tables_refuse_another_type_and_another_content_of_an_id():
    table = Table.from_rows([Row(ID, "a", {"f": 1}, cells=[Cell.from_values("x", [1])])])
    other = id_bytes(1, 2)
    with pytest.raises(InvalidInputError, match="is int64 in a batch, and double now"):
        table.append_row(Row(other, "a", {"f": 1}, cells=[Cell.from_values("x", [1.0])]))
    with pytest.raises(InvalidInputError, match="two events have the id"):
        table.append_row(Row(ID, "a", {"f": 2}, cells=[Cell.from_values("x", [1])]))
    table.append_row(Row(ID, "a", {"f": 1}, cells=[Cell.from_values("x", [1])]))
    assert len(table) == 1
    with pytest.raises(InvalidInputError, match="without a cell"):
        Table.from_rows([Row(ID, "a")]).batches()


def test_a_store_refuses_a_batch_whole_and_stays_as_it_was():
    store = LiveStore()
    store.insert(Row(ID, "a", {"f": 1}, cells=[Cell.from_values("x", [1])]))
    good = Row(id_bytes(1, 1), "b", {"f": 1}, cells=[Cell.from_values("x", [1.5])])
    bad = [
        Row(id_bytes(1, 2), "a", {"f": 1}, cells=[Cell.from_values("x", ["text"])]),
        Row(id_bytes(1, 2), "c", {"f": dt.timedelta(1)}, cells=[Cell.from_values("x", [1])]),
        Row(ID, "c", {"f": 1}, cells=[Cell.from_values("x", [1])]),
    ]
    for row in bad:
        with pytest.raises(InvalidInputError):
            store.insert([good, row])
        assert (len(store), store.entities()) == (1, ["a"])
        store.check()
    assert store.insert([good]) == 1


def test_batches_say_what_they_are_and_others_are_refused():
    row = Row(ID, "a", {"f": 1}, 2, [Cell.from_values("x", [1, 2])])
    (batch,) = Table.from_rows([row]).batches()
    arrow = batch.to_arrow()
    kinds = {f.name: (f.metadata or {})[b"tessel.kind"].decode() for f in arrow.schema}
    assert kinds == {
        "event_id": "event_id",
        "f": "timeline",
        "num_instances": "num_instances",
        "x": "component",
    }
    assert EventBatch.from_arrow(arrow).to_arrow().equals(arrow)
    damaged = [
        arrow.replace_schema_metadata(None),
        arrow.drop_columns(["event_id"]),
        arrow.drop_columns(["num_instances"]),
        arrow.drop_columns(["x"]),
        arrow.set_column(2, arrow.schema.field(2), pa.array([3], pa.uint32())),
        arrow.append_column(arrow.schema.field("x"), arrow.column("x")),
        arrow.replace_schema_metadata({b"tessel.kind": b"events", b"tessel.entity": b"/"}),
    ]
    for each in damaged:
        with pytest.raises(InvalidInputError):
            EventBatch.from_arrow(each)


# --- ids ------------------------------------------------------------------------------------------


def test_ids_never_go_back_though_the_clock_does():
    clock = iter([5, 3, 9, 1])
    ids = EventIds(lambda: next(clock))
    found = [id_bytes(*ids.next()) for _ in range(4)]
    assert found == sorted(found)
    assert [id_parts(each)[0] for each in found] == [5, 5, 9, 9]
    assert log_time(found[0]) == np.datetime64(5, "ns")


def test_ids_of_threads_are_unique():
    ids = EventIds()
    found: list[tuple[int, int]] = []

    def make() -> None:
        found.extend([ids.next() for _ in range(2000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8000


def test_a_forked_child_counts_anew():
    ids = EventIds(lambda: 1)
    _, counter = ids.next()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, ids.next()[1].to_bytes(8, "big"))
        os._exit(0)
    os.waitpid(child, 0)
    assert abs(int.from_bytes(os.read(read, 8), "big") - counter) > 1
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("event_id", [b"", b"x" * 15, "x" * 16], ids=repr)
def test_ids_that_are_none_are_refused(event_id):
    with pytest.raises(InvalidInputError, match="is no event id"):
        Row(event_id, "a")

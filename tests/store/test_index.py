"""The segment index against a plain model of rows and columns, and its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.piece import SegmentKey
from tessel.errors import InvalidInputError, PlanFormatError
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.store import Repository, SegmentIndex, SegmentSource
from tessel.store.manifest.builder import ManifestBuilder
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.piece import PIECES, pieces_of
from tessel.store.names import new_id, segment_name
from tessel.store.objects import MemoryObjects
from tessel.store.segment.writer import WrittenSegment, WrittenSlice
from tests.store.helpers import index_of_manifests, load

ROWS = 12


def _view() -> Any:
    table = pa.table({"a": range(ROWS), "t": range(ROWS), "b": range(ROWS), "c": range(ROWS)})
    repository = Repository.open("memory://")
    with options(segment_rows=5, segment_columns=2):
        repository.write("s", table, index="t")
    return repository.view("s")


VIEW = _view()

_steps = st.lists(
    st.tuples(st.just("cut"), st.integers(0, ROWS + 1), st.integers(0, ROWS + 1))
    | st.tuples(st.just("mask"), st.lists(st.booleans(), min_size=3, max_size=3))
    | st.tuples(st.just("columns"), st.sets(st.sampled_from("atbc")))
    | st.tuples(st.just("split"), st.integers(1, ROWS)),
    max_size=5,
)


@given(steps=_steps)
def test_any_sequence_of_cuts_is_that_of_a_list_of_rows(steps: list[tuple[Any, ...]]) -> None:
    index: SegmentIndex = VIEW.index()
    total_segments, total_bytes = len(index), int(index.bytes.sum())
    slices = [list(range(0, 5)), list(range(5, 10)), list(range(10, 12))]
    names = ["a", "t", "b", "c"]
    for kind, *arguments in steps:
        if kind == "cut":
            start, stop = arguments
            kept = [row for rows in slices for row in rows][start:stop]
            slices = [[row for row in rows if row in kept] for rows in slices]
            index = index.cut_rows(start, stop, clause=kind, reason="r")
        elif kind == "mask":
            mask = (arguments[0] * ROWS)[: index.slices]
            slices = [rows for rows, keep in zip(slices, mask, strict=False) if keep]
            index = index.keep_slices(np.array(mask, dtype=bool), clause=kind, reason="r")
        elif kind == "columns":
            wanted = arguments[0] & set(names)
            names = [name for name in names if name in wanted]
            index = index.keep_columns(wanted, clause=kind, reason="r")
        else:
            before = index
            slices = [
                [row for row in rows if row % 5 // arguments[0] == part]
                for rows in slices
                for part in range(5)
            ]
            index = index.split(arguments[0])
            assert set(index.position.tolist()) == set(before.position.tolist())
            assert index.drops == before.drops
            total_segments += len(index) - len(before)
            total_bytes += int(index.bytes.sum() - before.bytes.sum())
        slices = [rows for rows in slices if rows]

        assert index.schema.names == names
        assert index.schema.index == ("t" if "t" in names else None)
        assert index.slices == len(slices)
        assert index.row_count == sum(map(len, slices))
        assert index.slice_row_start.tolist() == [rows[0] for rows in slices]
        assert index.slice_row_end.tolist() == [rows[-1] + 1 for rows in slices]
        assert set(index.slice_number.tolist()) == set(range(len(slices)))
        order = list(zip(index.slice_number.tolist(), index.position.tolist(), strict=True))
        assert order == sorted(order)
        assert index.row_start.tolist() == index.slice_row_start[index.slice_number].tolist()
        assert (index.segment_row_start == index.row_start % 5).all()
        assert total_segments - len(index) == sum(drop.segments for drop in index.drops)
        assert ROWS - index.row_count == sum(drop.rows for drop in index.drops)
        assert total_bytes - index.bytes.sum() == sum(drop.bytes for drop in index.drops)
        assert all(drop.segments or drop.rows or drop.bytes for drop in index.drops)
        if index.first_time is not None:
            assert (index.first_time <= index.row_start).all()
    rows = [row for kept in slices for row in kept]
    found = load(index, VIEW.source())
    assert found.to_pydict() == dict.fromkeys(names, rows)
    assert found.num_rows == len(rows)


def test_misuse_is_refused() -> None:
    index = VIEW.index()
    with pytest.raises(InvalidInputError, match="shape"):
        index.keep_slices(np.ones(2, dtype=bool), clause="c", reason="r")
    with pytest.raises(InvalidInputError, match="count from 0"):
        index.cut_rows(-1, 2, clause="c", reason="r")
    with pytest.raises(InvalidInputError, match="parts of 0 rows"):
        index.split(0)
    for position in (-1, len(index)):
        with pytest.raises(InvalidInputError, match="no segment"):
            index.source(position)


# --- pieces ---------------------------------------------------------------------------------------

_BROKEN: dict[str, pa.Array] = {
    "object": pa.nulls(1, pa.binary(16)),
    "offset": pa.array([-1]),
    "length": pa.array([None], pa.int64()),
    "metadata_start": pa.array([1 << 40]),
    "row_start": pa.array([ROWS + 1]),
    "first_time": pa.array([3], pa.int32()),
    "shape": pa.array(["no json"]).dictionary_encode(),
}
_SHAPES = ['["ab", [0], []]', '[["a"], [0, 1], []]', '[["a"], [true], []]', "[1, [], []]", "[]"]


@pytest.mark.parametrize("field", [*_BROKEN, *_SHAPES])
def test_broken_pieces_are_refused(field: str) -> None:
    sent = VIEW.index().source_columns(np.array([0]))
    columns = dict(zip(PIECES.names, sent.flatten(), strict=True))
    shape = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), [field])
    broken = {field: _BROKEN[field]} if field in _BROKEN else {"shape": shape}
    with pytest.raises(PlanFormatError):
        pieces_of(pa.StructArray.from_arrays(list((columns | broken).values()), PIECES.names))


def test_a_piece_of_another_symbol_is_refused() -> None:
    source: SegmentSource = VIEW.source()
    other = SegmentSource(source.objects, source.schema, dict.fromkeys(source.schema.names, 7))
    with pytest.raises(PlanFormatError, match="has not the id"):
        other.load(VIEW.index().source(0))


# --- columns that some segments lack, rows cut out of segments ------------------------------------


def test_columns_absent_from_some_rows_are_missing_there() -> None:
    repository = Repository.open("memory://")
    with options(segment_columns=1):
        repository.write("s", {"a": [1, 2], "b": ["x", "y"]})
    state = repository.history.newest().snapshot["s"]
    manifest = repository.manifest(state.manifests[0].reference)
    grown = TableSchema(state.schema.arrow.append(pa.field("new", pa.list_(pa.int8()))))
    ids = {**state.column_ids, "new": 9}
    index = index_of_manifests(state.id, [manifest, manifest], grown, ids, rows=4)
    source = SegmentSource(repository.objects, grown, ids)
    assert load(index, source).to_pydict() == {
        "a": [1, 2, 1, 2],
        "b": ["x", "y", "x", "y"],
        "new": [None] * 4,
    }
    only = index.keep_columns(["new"], clause="c", reason="r")
    assert len(only) == 2
    assert load(only, source).to_pydict() == {"new": [None] * 4}
    assert only.statistics.facts("new").missing.tolist() == [2, 2]


def test_a_type_widened_since_is_read_as_the_declared_one() -> None:
    repository = Repository.open("memory://")
    repository.write("s", {"a": pa.array([1, 2], pa.int8())})
    state = repository.history.newest().snapshot["s"]
    manifest = repository.manifest(state.manifests[0].reference)
    wide = TableSchema(pa.schema([("a", pa.int64())]))
    index = index_of_manifests(state.id, [manifest], wide, state.column_ids, rows=2)
    source = SegmentSource(repository.objects, wide, state.column_ids)
    assert load(index, source).equals(pa.table({"a": [1, 2]}))
    assert index.statistics.facts("a").maximum.equals(pa.array([2]))


# --- size -----------------------------------------------------------------------------------------


def test_a_hundred_thousand_segments_are_planned_without_an_object_each() -> None:
    count = 50_000
    schema = TableSchema(pa.schema([("t", pa.int64()), ("x", pa.int64())]), "t")
    ids = {"t": 0, "x": 1}

    def segment(column: int) -> WrittenSegment:
        key = SegmentKey(segment_name(new_id()), 0, 800, 0, 400)
        return WrittenSegment(key, column, column + 1)

    slices = [
        WrittenSlice(10, (segment(0), segment(1)), 10 * at, 10 * at + 9, {}) for at in range(count)
    ]
    builder = ManifestBuilder()
    builder.add_slices(1, slices, {})
    data, reference = builder.finish()
    objects = MemoryObjects.named("")
    objects.put_if_absent(reference.object, data)
    index = index_of_manifests(1, [Manifest(objects, reference)], schema, ids, rows=count * 10)
    assert len(index) == 2 * count
    assert index.slice_last_time is not None
    late = index.keep_slices(index.slice_last_time >= 10 * (count - 3), clause="d", reason="r")
    late = late.keep_columns(["x"], clause="s", reason="r").cut_rows(5, 25, clause="c", reason="r")
    assert [late.source(n).row_range for n in range(len(late))] == [
        index.source(2 * (count - 3 + n) + 1).row_range.__class__(start, stop)
        for n, (start, stop) in enumerate(
            [
                (10 * count - 25, 10 * count - 20),
                (10 * count - 20, 10 * count - 10),
                (10 * count - 10, 10 * count - 5),
            ]
        )
    ]
    assert sum(drop.segments for drop in late.drops) == 2 * count - 3

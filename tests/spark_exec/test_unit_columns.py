"""What tasks are told of their units: all of these, in order, and nothing that is damaged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel import options
from tessel.api import open_store
from tessel.clauses import QueryBuilder
from tessel.errors import PlanFormatError
from tessel.pipeline.plan import SourcePlan
from tessel.spark_exec.chains import Places
from tessel.spark_exec.flows import NarrowFlow
from tessel.spark_exec.unit_columns import ToldUnit, read_told
from tessel.spark_exec.wire import sequence

UNITS = 9


def _flow(count: int = UNITS, *, joins_units: bool = True) -> NarrowFlow:
    store = open_store(f"memory://unit-columns-{count}-{joins_units}")
    with options(segment_rows=4, segment_columns=1):
        store.write("x", {"t": range(4 * count), "v": [0.5] * 4 * count}, index="t")
    plan = store.explain("x", QueryBuilder().filter("v > 0")).plan
    (source,) = plan.inputs
    assert isinstance(source, SourcePlan)
    return NarrowFlow.from_source(source, None, "{}", joins_units=joins_units)


FLOW = _flow()


def _told(flow: NarrowFlow, tasks: int) -> list[list[ToldUnit]]:
    return [list(read_told(stream)) for stream in flow.described(flow.runs(tasks))]


@given(st.integers(1, 2 * UNITS))
def test_tasks_have_all_units_in_order(tasks: int) -> None:
    told = _told(FLOW, tasks)
    assert 1 <= len(told) <= tasks
    units = [unit for each in told for unit in each]
    index = FLOW.tracks[0].source.index
    assert [unit.seq for unit in units] == FLOW.seqs.tolist()
    assert [piece for unit in units for piece in unit.pieces] == [
        index.source(position) for position in range(len(index))
    ]
    assert {count for unit in units for count in unit.planned} == {1}


def test_small_units_are_one_as_on_threads() -> None:
    (units,) = _told(_flow(40), 1)
    assert [(unit.places, unit.joined) for unit in units] == [([(0, 0)], 16), ([(0, 16)], 24)]
    assert [piece.row_start for unit in units for piece in unit.pieces] == [
        row for row in range(0, 160, 4) for _ in ("t", "v")
    ]
    (alone,) = _told(_flow(40, joins_units=False), 1)
    assert {unit.joined for unit in alone} == {1}
    assert len(alone) == 40


def test_units_are_as_they_were_selected_numbered_and_cut() -> None:
    both = NarrowFlow.side_by_side([FLOW, FLOW.between(2, 4)])
    assert both.count == UNITS + 2
    seqs = both.seqs[[1, UNITS, UNITS + 1]]
    placed = both.placed(Places(seqs, 3, 40)).cut(
        {sequence(3, 42): (1, 2), sequence(3, 40): (0, 3)}
    )
    (told,) = _told(placed, 1)
    assert [(unit.track, unit.places, unit.cuts) for unit in told] == [
        (0, [(0, 1), (0, 1), (3, 40)], [(0, 3)]),
        (1, [(0, 3), (1, UNITS + 1), (3, 42)], [(1, 2)]),
    ]
    assert both.cut({}).count == 0
    assert both.cut({}).runs(4) == []


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=60), st.integers(1, 20))
def test_runs_have_about_as_many_bytes_each(sizes: list[int], tasks: int) -> None:
    from dataclasses import replace

    track = FLOW.tracks[0]
    count = len(sizes)
    units = track.units.take(np.zeros(count, np.int64))
    units = replace(units, bytes=np.array(sizes, np.int64))
    runs = replace(FLOW, tracks=(replace(track, units=units),)).runs(tasks)
    assert [at for run in runs for at in range(*run)] == list(range(count))
    assert len(runs) <= tasks
    even = (sum(sizes) + 4096 * count) / tasks
    assert all(sum(sizes[slice(*run)]) <= even + max(sizes) + 4096 for run in runs)


@pytest.mark.parametrize("damage", ["cut", "other", "none"])
def test_damage_is_told(damage: str) -> None:
    (stream,) = FLOW.described(FLOW.runs(1))
    sink = pa.BufferOutputStream()
    other = pa.record_batch({"a": [1]})
    with pa.ipc.new_stream(sink, other.schema) as writer:
        writer.write_batch(other)
    broken = {"cut": stream[: len(stream) // 2], "other": sink.getvalue(), "none": b""}[damage]
    with pytest.raises(PlanFormatError):
        list(read_told(broken))

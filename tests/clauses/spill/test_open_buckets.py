"""Pieces of hash buckets between two stages: few blocks, every row once, in plan order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from tessel import telemetry
from tessel.clauses.spill import Workspace
from tessel.clauses.structures import structure_by_bucket
from tessel.ecs import ColRange, ComponentManager, Piece, ProcessingUnit, RowRange, TimeRange
from tessel.expression.schema import TableSchema
from tessel.options import current
from tessel.pipeline.barrier import Barrier
from tests.clauses.helpers import events
from tests.strategies.tables import as_dictionary

UNITS, ROWS, BUCKETS = 60, 200, 7


def _units(*, codes: bool) -> list[ProcessingUnit]:
    random = np.random.default_rng(11)
    units = []
    for ordinal in range(UNITS):
        places = np.arange(ROWS) + ordinal * ROWS
        text = pa.array([None if at % 5 == 0 else f"t{at % 13}" for at in places.tolist()])
        if codes:
            text = pa.concat_arrays([text.slice(ordinal % 3), text.slice(0, ordinal % 3)])
            text = as_dictionary(text)  # each unit with a dictionary in an order of its own
        table = pa.table({"at": places, "text": text, "p": random.random(ROWS)})
        bucket = random.integers(0, BUCKETS, ROWS)
        times = TimeRange(ordinal * 10, ordinal * 10 + 9)
        pieces = [
            Piece(
                table.take(pa.array(np.flatnonzero(bucket == number))),
                RowRange(ordinal * ROWS, (ordinal + 1) * ROWS),
                ColRange(0, 3),
                times if number else None,
                bucket=number,
            )
            for number in range(BUCKETS)
        ]
        units.append(ProcessingUnit(ordinal, TableSchema(table.schema), pieces))
    return units


@pytest.mark.parametrize("codes", [False, True], ids=["text", "codes"])
@pytest.mark.parametrize("live_bytes", [0, 60_000, 1 << 30])
def test_rows_of_a_bucket_come_back_in_order_in_few_blocks(live_bytes: int, codes: bool) -> None:
    units = _units(codes=codes)
    whole = [
        pa.concat_tables([unit.pieces[number].table for unit in units]) for number in range(BUCKETS)
    ]
    workspace = Workspace(current().replace(live_bytes=live_bytes))
    with (
        events("spill.write") as written,
        ComponentManager() as manager,
        workspace,
        Barrier(manager, workspace, joins_pieces=True) as barrier,
    ):
        for unit in units:
            barrier.push(unit)
            assert workspace.account.alive <= live_bytes // 2
        barrier.complete()
        groups = structure_by_bucket(barrier.facts)
        barrier.expect(groups)
        for number, group in enumerate(groups):
            facts = [barrier.facts[at] for at in group]
            assert {each.bucket for each in facts} == {number}
            barrier.hand_over(group)
            unit = ProcessingUnit(number, units[0].schema, barrier.gather(group))
            assert unit.table.to_pylist() == whole[number].to_pylist()
            if live_bytes:
                spans = [piece.row_range for piece in unit.pieces]
                assert (spans[0].start, spans[-1].end) == (0, UNITS * ROWS)
                assert {each.time_range is None for each in facts} == {number == 0}
        assert workspace.account.alive == 0
    size = sum(unit.nbytes for unit in units)
    if live_bytes > 2 * size:
        assert written == []
    elif live_bytes:
        assert sum(event.attributes["rows"] for event in written) == UNITS * ROWS
        assert len(written) < UNITS * BUCKETS / 2
    else:
        assert len(written) == UNITS * BUCKETS  # nothing may be open, and no block is cut


def test_pieces_of_other_columns_stay_in_their_places() -> None:
    (first, second, *_) = _units(codes=False)
    other = second.select(["at", "p"])
    workspace = Workspace(current().replace(live_bytes=1 << 20))
    with (
        ComponentManager() as manager,
        workspace,
        Barrier(manager, workspace, joins_pieces=True) as barrier,
    ):
        for unit in (first, other, first):
            barrier.push(unit)
        barrier.complete()
        (group, *_) = structure_by_bucket(barrier.facts)
        barrier.expect([group])
        found = [piece.table.to_pydict() for piece in barrier.gather(group)]
    assert found == [unit.pieces[0].table.to_pydict() for unit in (first, other, first)]


def test_pieces_of_an_earlier_symbol_stay_behind_those_of_a_later_one() -> None:
    units = [
        ProcessingUnit(
            unit.ordinal,
            unit.schema,
            [dataclasses.replace(piece, symbol=symbol) for piece in unit.pieces],
        )
        for unit, symbol in zip(_units(codes=False)[:4], (0, 1, 0, 1), strict=True)
    ]
    workspace = Workspace(current().replace(live_bytes=1 << 20))
    with (
        ComponentManager() as manager,
        workspace,
        Barrier(manager, workspace, joins_pieces=True) as barrier,
    ):
        for unit in units:
            barrier.push(unit)
        barrier.complete()
        (group, *_) = structure_by_bucket(barrier.facts)
        barrier.expect([group])
        found = pa.concat_tables(piece.table for piece in barrier.gather(group))
    assert found.equals(pa.concat_tables(unit.pieces[0].table for unit in units))


def test_a_barrier_tells_what_it_holds() -> None:
    workspace = Workspace(current().replace(live_bytes=1 << 20))
    told: list[int] = []
    with (
        telemetry.subscribe(lambda event: told.append(event.attributes.get("bytes", 0))),
        ComponentManager() as manager,
        workspace,
        Barrier(manager, workspace, joins_pieces=True) as barrier,
    ):
        unit = _units(codes=False)[0]
        barrier.push(unit)
        assert workspace.account.alive == unit.nbytes
    assert told[-1] == 0

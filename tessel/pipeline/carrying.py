"""Running a stage whose first clause carries: summaries, a scan over them, units with both sides.

The scan is the same on threads and on Spark. Where only what lies before a unit matters, units
stream: each goes on as soon as those before it are summarised. Where something after it matters,
it waits until what was seen after it suffices, so that the look-ahead is as long as it must be.
Where units are told nothing, what they carry makes the rows that come last. On Spark all units are
summarised before the first one is processed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.base import Carry
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.spill.local_pool import LocalPool, Task
from tessel.clauses.spill.spill_buffer import BufferedUnit
from tessel.clauses.spill.workspace import Workspace
from tessel.ecs import ProcessingUnit
from tessel.lazy import dataclass
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import (
    carrying_clause,
    combine_carries,
    finish_units,
    nothing_carried,
    run_between,
    summarise,
)


@dataclass(frozen=True, slots=True)
class Between:
    """What lies before and after a unit."""

    before: pa.Table
    after: pa.Table


Unit = TypeVar("Unit")


_REMEMBERED_BYTES = 16
"""A row of a unit that does not wait: the number of its key and its place in the order of keys,
which the summary leaves for the processing."""


def carried_units(
    stage: Stage, units: Iterator[ProcessingUnit], pool: LocalPool, workspace: Workspace
) -> Iterator[ProcessingUnit]:
    """Run a stage whose first clause carries on units that come in plan order.

    Units that wait for what comes after them are put aside: in memory, then in a file. What is
    carried from before counts with the unit that it is carried to: where it is much, few units run
    at a time, each of which has a version of its own.
    """
    if stage.carries is Carry.END:
        yield from _finished(stage, units, pool)
        return
    with contextlib.closing(workspace.spill_buffer()) as buffer:

        def summary_task(unit: ProcessingUnit) -> Task[tuple[BufferedUnit, pa.Table]]:
            return Task(
                lambda: (BufferedUnit(unit, buffer, holds=not waits), summarise(stage, unit)),
                unit.nbytes + unit.num_rows * remembered,
            )

        def process_task(aside: BufferedUnit, between: Between) -> Task[ProcessingUnit]:
            return Task(
                lambda: run_between(stage, aside.unit(), between.before, between.after),
                aside.nbytes + aside.rows * remembered + between.before.nbytes,
            )

        waits = stage.carries is not Carry.BEFORE
        remembered = 0 if waits else _REMEMBERED_BYTES
        summarised = pool.map(summary_task(unit) for unit in units)
        yield from pool.map(process_task(*ready) for ready in carries_between(stage, summarised))


def _finished(
    stage: Stage, units: Iterator[ProcessingUnit], pool: LocalPool
) -> Iterator[ProcessingUnit]:
    """Run units as they come, then give the rows that what they carry makes."""
    nothing = carry = nothing_carried(stage)
    ordinal = row = symbol = 0

    def task(unit: ProcessingUnit) -> Task[tuple[ProcessingUnit, ProcessingUnit, pa.Table]]:
        return Task(
            lambda: (unit, run_between(stage, unit, nothing, nothing), summarise(stage, unit)),
            unit.nbytes,
        )

    for unit, found, summary in pool.map(map(task, units)):
        ordinal = unit.ordinal + 1
        for piece in unit.pieces:
            row, symbol = max(row, piece.row_range.end), max(symbol, piece.symbol)
        yield found
        carry = combine_carries(stage, carry, summary)
    yield from finish_units(stage, carry, ordinal, row, symbol)


def carries_between(
    stage: Stage, summarised: Iterable[tuple[Unit, pa.Table]]
) -> Iterator[tuple[Unit, Between]]:
    """Give each unit with what lies before and after it, as soon as that is known.

    Parameters
    ----------
    stage
        Its first clause carries.
    summarised
        Units, or what stands for them, with their summaries, in plan order. What is carried from
        after is not more than was taken of these when it sufficed.
    """
    if stage.carries is not Carry.BEFORE:
        yield from _held_back(stage, summarised)
        return
    nothing = before = nothing_carried(stage)
    for unit, summary in summarised:
        yield unit, Between(before, nothing)
        before = combine_carries(stage, before, summary)


def _held_back(
    stage: Stage, summarised: Iterable[tuple[Unit, pa.Table]]
) -> Iterator[tuple[Unit, Between]]:
    """Give each unit as soon as the summaries of those after it suffice, or at the end."""
    clause = carrying_clause(stage)
    nothing = before = nothing_carried(stage)
    waiting: deque[tuple[Unit, pa.Table]] = deque()
    ahead = _RunningFold(lambda earlier, later: combine_carries(stage, earlier, later), nothing)

    def first(after: pa.Table) -> tuple[Unit, Between]:
        nonlocal before
        unit, summary = waiting.popleft()
        ready = unit, Between(before, after)
        if stage.carries is Carry.BOTH:
            before = combine_carries(stage, before, summary)
        if waiting:
            ahead.drop_first()
        return ready

    for unit, summary in summarised:
        if waiting:
            ahead.add(summary)
        waiting.append((unit, summary))
        while waiting and clause.suffices(waiting[0][1], after := ahead.total()):
            yield first(after)
    while waiting:
        yield first(ahead.total())


def of_own_keys(stage: Stage, summary: pa.Table, between: Between) -> Between:
    """Return of what lies around a unit that of the keys that it has, if a key has its own.

    All that units are told together is then no more than their summaries, where with every key
    each unit would be told of all keys before it.
    """
    keys = stage.clauses[0].structure.carry_keys
    if not keys:
        return between
    before, after = (
        carry.filter(arrow_array(_has_key(keys, summary, carry)))
        for carry in (between.before, between.after)
    )
    return Between(before, after)


def _has_key(names: Sequence[str], summary: pa.Table, carry: pa.Table) -> NDArray[np.bool_]:
    """Return which rows of a carry have a key that a summary has."""
    both = concat_tables([summary.select(names), carry.select(names)])
    codes = group_codes(both.columns, drop_missing=False).codes
    own = np.zeros(len(codes), np.bool_)
    own[codes[: summary.num_rows]] = True
    return own[codes[summary.num_rows :]]


class _RunningFold:
    """The carry of a queue of summaries, at a few combinations a summary.

    Two stacks: of the older summaries each fold up to the youngest of them is kept, so that the
    oldest can go; of the younger ones only the fold of all (as sliding windows are aggregated,
    Tangwongsan et al., General Incremental Sliding-Window Aggregation, PVLDB 8(7), 2015).
    """

    def __init__(
        self, combine: Callable[[pa.Table, pa.Table], pa.Table], nothing: pa.Table
    ) -> None:
        self._combine = combine
        self._nothing = nothing
        self._older: list[pa.Table] = []
        self._younger: list[pa.Table] = []
        self._younger_fold = nothing

    def add(self, summary: pa.Table) -> None:
        self._younger_fold = (
            self._combine(self._younger_fold, summary) if self._younger else summary
        )
        self._younger.append(summary)

    def drop_first(self) -> None:
        if not self._older:
            while self._younger:
                last = self._younger.pop()
                self._older.append(self._combine(last, self._older[-1]) if self._older else last)
            self._younger_fold = self._nothing
        self._older.pop()

    def total(self) -> pa.Table:
        if not self._older:
            return self._younger_fold
        if not self._younger:
            return self._older[-1]
        return self._combine(self._older[-1], self._younger_fold)

"""What the steps of a join share, and which way a join is run.

A step names its join by its shape. One over a side that is held whole is bound to that side's rows
before it runs, and is the same clause to everybody else; one over hash buckets gives rows that say
where they belong.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence, Sized
from typing import Any, ClassVar

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import CombinedInput, PlanLimits
from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.joining.lookup import pairing_schema
from tessel.clauses.joining.shape import JoinShape
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.options import current

_BROADCAST_SHARE = 8
"""A right of at most this share of the bytes alive is held whole: stored bytes are fewer than those
in memory, and its keys are held once more in the table that finds them."""
_HELD_LEFT_SHARE = 64
"""A left that is held makes a sort of all that comes out: to exchange no rows pays for few."""
_MOST_BUCKETS = 1024
_PART_BYTES = 16 * 1024 * 1024
"""Aimed-for bytes of output that are made at a time, or fewer:"""
_PART_SHARE = 16
"""so many parts at least fit the bytes alive."""


def is_held_whole(right: CombinedInput, limits: PlanLimits) -> bool:
    """Return whether the right is read once and held, for units of the left to ask."""
    return right.bytes <= limits.live_bytes // _BROADCAST_SHARE


def is_left_held(left: CombinedInput, limits: PlanLimits) -> bool:
    """Return whether the left is held, for units of a large right to ask."""
    return limits.is_here and left.bytes <= limits.live_bytes // _HELD_LEFT_SHARE


def bucket_count(inputs: Sequence[CombinedInput], limits: PlanLimits) -> int:
    """Return how many hash buckets both sides are split into."""
    by_bytes = -(-sum(each.bytes for each in inputs) // limits.bucket_bytes)
    return min(_MOST_BUCKETS, max(limits.workers, by_bytes))


def part_bytes() -> int:
    """Return how many bytes of output are made at a time, where more can be made of a unit."""
    return min(_PART_BYTES, current().live_bytes // _PART_SHARE)


class JoinStep(Clause):
    """A step of a join, told to people by its shape; the planner makes it."""

    internal: ClassVar[bool] = True
    shape: AsofShape | JoinShape

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join."""
        return self.shape.schema

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.name}({self.shape.describe()})"


class UnboundStep(JoinStep):
    """A step that must be bound to the rows of the right before it runs."""

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Refuse: an executor binds the step first."""
        raise PlanError(
            f"{self.name} runs once it is bound to the rows of the right",
            hint=f"write {self.shape.verb}(...), of which the planner makes it",
        )


class BoundStep(Clause):
    """A step with what it was bound to: the same clause to everybody else.

    Nothing is changed after it is made. The rows it holds are no part of its plain form.
    """

    takes: ClassVar[Structure | None] = None
    """Of which structure its units are, where that is not what the step declares."""

    def __init__(self, step: Clause) -> None:
        self._step = step

    @property
    def name(self) -> str:  # type: ignore[override]
        """The word for the step."""
        return self._step.name

    @property
    def structure(self) -> ClauseInfo:
        """What the step declares, of the units that it is given."""
        info = self._step.structure
        return dataclasses.replace(info, input=self.takes or info.input)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return what the step returns."""
        return self._step.output_schema(input_schema)

    def to_json(self) -> dict[str, Any]:
        """Return the plain form of the step."""
        return self._step.to_json()

    def describe(self) -> str:
        """Return one line for people."""
        return self._step.describe()


class PartOfStep(BoundStep):
    """Some rows of the output of a step for one unit."""

    takes = Structure.ALL

    def __init__(self, step: Any, found: Any, start: int, stop: int) -> None:
        super().__init__(step)
        self._made: Callable[[ProcessingUnit], ProcessingUnit] = functools.partial(
            step.made, found=found, start=start, stop=stop
        )

    @classmethod
    def of(
        cls, step: Clause, found: Sized, unit: ProcessingUnit, width: int
    ) -> list[tuple[Clause, int]]:
        """Cut rows of output of ``width`` bytes into parts; return these, and the bytes of each."""
        # A unit is not cut finer than it came where its rows do not become more.
        rows = max(1, part_bytes() // width, unit.num_rows)
        stops = [min(at + rows, len(found)) for at in range(0, max(1, len(found)), rows)]
        return [
            (cls(step, found, at, stop), (stop - at) * width)
            for at, stop in itertools.pairwise([0, *stops])
        ]

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Make these rows; the unit is the one that was counted."""
        return self._made(unit)


class BucketStep(JoinStep):
    """A step that joins one bucket of both sides; the rows that come out say where they belong."""

    @property
    def structure(self) -> ClauseInfo:
        """Hash buckets in; out come parts of units in plan order, to be grouped by unit."""
        return ClauseInfo(
            Structure.HASH_BUCKETED,
            adds=frozenset(pairing_schema(self.shape).names),
            keeps_order=False,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of the join, and those that pair its rows."""
        return pairing_schema(self.shape)

"""Where the stages of a plan run on Spark, in tasks or in the driver: decided here alone.

The executor walks a plan by :class:`Walk` and asks :func:`step_of` before each stage; ``explain``
walks it in the same way, without units. How many bytes there will be only the executor sees, which
brings what is more than expected into tasks.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tessel.clauses.base import Carry, Clause, Structure
from tessel.clauses.capabilities import Broadcasts, Interleaves, Limits
from tessel.clauses.sort import MergeSorted
from tessel.display.documents import Table
from tessel.pipeline.plan import Plan, SourcePlan, Stage
from tessel.spark_exec.flows import DriverFlow, Flow, NarrowFlow

_MOST_RESULT_ROWS = 1_000_000
_MOST_FIRST_ROWS = 100_000
"""A limit of so many rows from the front is answered in rounds, which bring them here; where
something stands behind it, only few are worth less than the job that counts them."""

_MOST_BYTES_READ_HERE = 4 * 1024 * 1024
"""A job has a price: what is wanted here and is no more stored bytes is read here, too."""

F = TypeVar("F")


class Data(enum.Enum):
    """Where the units before a stage are."""

    NARROW = enum.auto()
    NARROW_EMPTY = enum.auto()
    FRAME = enum.auto()
    HERE = enum.auto()


class Step(enum.Enum):
    """What is done with units before a stage; where they are then (None where they stay), and why.

    A number tells those apart of which the same is told.
    """

    HERE = 0, Data.HERE, ""
    NO_UNITS = 1, Data.HERE, "there are no units"
    GO_ON = 2, None, ""
    CARRY = 3, None, "what is carried is combined in the driver"
    CARRY_TO_END = 4, Data.FRAME, ""
    REDUCE = 5, Data.HERE, "its input is about the size of the result"
    FIRST_ROWS = 6, Data.HERE, "the first rows are brought here"
    FEW_FIRST_ROWS = 7, Data.HERE, "the first rows are brought here, where they are few bytes"
    COUNT = 8, None, ""
    ROUTE = 9, Data.FRAME, ""
    BY_BUCKET = 10, Data.FRAME, ""
    BY_RANGE = 11, Data.FRAME, ""
    ALL_IN_ONE = 12, Data.FRAME, ""


def data_of(flow: Flow) -> Data:
    """Return where the units of a flow are."""
    if isinstance(flow, NarrowFlow):
        return Data.NARROW if flow.count else Data.NARROW_EMPTY
    return Data.HERE if isinstance(flow, DriverFlow) else Data.FRAME


def step_of(data: Data, stage: Stage, *, is_last: bool) -> Step:
    """Return what is done before a stage; ``is_last`` where it gives the result."""
    is_empty = data is Data.NARROW_EMPTY
    if data is Data.HERE:
        return Step.HERE
    if stage.carries is not None and not is_empty:
        return Step.CARRY_TO_END if stage.carries is Carry.END else Step.CARRY
    if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
        return Step.GO_ON
    if is_empty:
        return Step.NO_UNITS
    clause = stage.clauses[0]
    if clause.structure.reduced:
        return Step.REDUCE
    if isinstance(clause, Limits):
        demand = clause.demand() if data is Data.NARROW else None
        is_result = is_last and len(stage.clauses) == 1
        if demand is None or demand > (_MOST_RESULT_ROWS if is_result else _MOST_FIRST_ROWS):
            return Step.COUNT
        return Step.FIRST_ROWS if is_result else Step.FEW_FIRST_ROWS
    if clause.restructures:
        return Step.ROUTE
    if stage.input is Structure.HASH_BUCKETED:
        return Step.BY_BUCKET
    if isinstance(clause, MergeSorted):
        return Step.BY_RANGE
    return Step.ALL_IN_ONE if stage.input is Structure.ALL else Step.ROUTE


def side_by_side(sides: Collection[Data]) -> Data:
    """Return where the units of several inputs are, those of one after those of another."""
    if all(side in (Data.NARROW, Data.NARROW_EMPTY) for side in sides):
        return Data.NARROW if Data.NARROW in sides else Data.NARROW_EMPTY
    return Data.HERE if set(sides) == {Data.HERE} else Data.FRAME


def in_turn(sides: Collection[Data], clause: Clause) -> Data:
    """Return where the inputs of a clause that takes them in turn are when it groups their parts.

    Otherwise it takes them here.
    """
    grouped = clause.restructures and Data.NARROW_EMPTY not in sides
    return side_by_side(sides) if grouped else Data.HERE


def is_read_here(plan: Plan) -> bool:
    """Return whether a plan whose result is wanted here is of few bytes, and run here."""
    return plan.bytes <= _MOST_BYTES_READ_HERE


Inputs = tuple[int, ...]
"""Numbers of the inputs that lead to a plan, from the outermost plan on; none there."""


class Walk(ABC, Generic[F]):
    """Walks a plan: where the units of each of its inputs and stages are."""

    def flow(self, plan: Plan, inputs: Inputs = ()) -> F:
        """Return where the result of a plan is, after all of its stages."""
        first = plan.stages[0]
        sides = _sides(plan, inputs)
        begun, given = 1, None
        if sides and isinstance(first.clauses[0], Broadcasts):
            given = self.given(plan, sides[1:])
            begun, flow = 0, self.flow(*sides[0])
        elif not sides:
            (source,) = plan.inputs
            assert isinstance(source, SourcePlan)
            begun, flow = not first.is_read_apart, self.source(source, first, inputs)
        elif isinstance(first.clauses[0], Interleaves):
            flow = self.in_turn([self.side(*side) for side in sides], first, inputs)
        else:
            begun, flow = 0, self.side_by_side([self.side(*side) for side in sides])
        for number in range(begun, len(plan.stages)):
            flow = self.after(flow, plan, number, inputs, given)
        return flow

    def side(self, plan: Plan, inputs: Inputs) -> F:
        """Return the flow of one of several inputs."""
        return self.flow(plan, inputs)

    @abstractmethod
    def source(self, source: SourcePlan, first: Stage, inputs: Inputs) -> F:
        """Return the units of a symbol, after the first stage unless that groups what is read."""

    @abstractmethod
    def side_by_side(self, flows: list[F]) -> F:
        """Return the units of several inputs, one input after another."""

    @abstractmethod
    def in_turn(self, flows: list[F], first: Stage, inputs: Inputs) -> F:
        """Return the flow after a clause that takes several inputs in turn."""

    @abstractmethod
    def given(self, plan: Plan, others: Sequence[tuple[Plan, Inputs]]) -> Any:
        """Return what :meth:`after` needs of inputs that are computed first, and sent along."""

    @abstractmethod
    def after(self, flow: F, plan: Plan, number: int, inputs: Inputs, given: Any) -> F:
        """Return the flow after a stage of a plan, by its position."""


def _sides(plan: Plan, inputs: Inputs) -> list[tuple[Plan, Inputs]]:
    parts = [part for part in plan.inputs if isinstance(part, Plan)]
    return [(part, (*inputs, number)) for number, part in enumerate(parts, start=1)]


# --- for people -----------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Where the stage of a number runs: in the driver or in tasks, and what is moved for it."""

    inputs: Inputs
    stage: int
    clauses: tuple[Clause, ...]
    is_here: bool
    why: str


def placement_table(plan: Plan) -> Table:
    """Return what :func:`placed_stages` tells, as a table."""
    rows = [
        (
            "".join(f"input {number}: " for number in placed.inputs) + str(placed.stage),
            ", ".join(clause.name for clause in placed.clauses) or "read",
            "driver" if placed.is_here else "tasks",
            placed.why,
        )
        for placed in placed_stages(plan)
    ]
    return Table("on Spark", ("stage", "clauses", "runs in", "why"), tuple(rows))


def placed_stages(plan: Plan) -> list[Placed]:
    """Return where the stages of a plan run, those of its inputs first."""
    walk = _Explained()
    walk.flow(plan)
    return sorted(walk.found, key=lambda placed: (*placed.inputs, math.inf, placed.stage))


class _Explained(Walk[Data]):
    """Notes where stages run."""

    def __init__(self) -> None:
        self.found: list[Placed] = []
        self._sent = ""

    def source(self, source: SourcePlan, first: Stage, inputs: Inputs) -> Data:
        data = Data.NARROW if source.units else Data.NARROW_EMPTY
        return data if first.is_read_apart else self._noted(inputs, 1, first, data)

    def side_by_side(self, flows: list[Data]) -> Data:
        data = side_by_side(flows)
        self._sent = _sent(flows, data)
        return data

    def in_turn(self, flows: list[Data], first: Stage, inputs: Inputs) -> Data:
        if in_turn(flows, first.clauses[0]) is Data.HERE:
            return self._noted(inputs, 1, first, Data.HERE, "the inputs are taken in turn")
        return self._noted(inputs, 1, first, Data.FRAME, _sent(flows, Data.FRAME))

    def given(self, plan: Plan, others: Sequence[tuple[Plan, Inputs]]) -> str:
        for side in others:
            self._held(*side)
        return "the other inputs are sent along"

    def _held(self, part: Plan, inputs: Inputs) -> None:
        """Note the stages of an input that is wanted here."""
        if not is_read_here(part):
            self.flow(part, inputs)
            return
        for side in _sides(part, inputs):
            self._held(*side)
        for number, stage in enumerate(part.stages, start=1):
            self._noted(inputs, number, stage, Data.HERE, "it is small, and held whole")

    def after(self, flow: Data, plan: Plan, number: int, inputs: Inputs, given: Any) -> Data:
        stage = plan.stages[number]
        step = step_of(flow, stage, is_last=not inputs and stage is plan.stages[-1])
        _, data, why = step.value
        why = why or self._sent or ("" if number else given or "")
        self._sent = ""
        return self._noted(inputs, number + 1, stage, data or flow, why)

    def _noted(self, inputs: Inputs, number: int, stage: Stage, data: Data, why: str = "") -> Data:
        self.found.append(Placed(inputs, number, stage.clauses, data is Data.HERE, why))
        return data


def _sent(sides: Collection[Data], data: Data) -> str:
    if data is Data.HERE or Data.HERE not in sides:
        return ""
    return "inputs in the driver are sent out, where they are few bytes"

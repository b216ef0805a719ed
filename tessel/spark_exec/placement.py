"""Where each stage of a plan runs on Spark: in tasks, or here, in the driver. For people.

What is here follows :mod:`tessel.spark_exec.executor` decision by decision, from the plan alone, so
that ``explain`` can tell before anything runs. How many bytes there will be it does not know.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from tessel.clauses.base import Carry, Clause, Structure
from tessel.clauses.capabilities import Broadcasts, Interleaves, Limits
from tessel.display.documents import Table
from tessel.lazy import dataclass
from tessel.pipeline.plan import Plan, SourcePlan, Stage

_MOST_RESULT_ROWS = 1_000_000
_MOST_FIRST_ROWS = 100_000

_MOST_BYTES_READ_HERE = 4 * 1024 * 1024
"""A job has a price: what is wanted here and is no more stored bytes is read here, too."""

_HERE, _TASKS = "driver", "tasks"


class _Data(enum.Enum):
    """Where the units before a stage are."""

    NARROW = enum.auto()
    NARROW_EMPTY = enum.auto()
    FRAME = enum.auto()
    HERE = enum.auto()


@dataclass(frozen=True)
class Placed:
    """Where one stage runs.

    Attributes
    ----------
    inputs
        Numbers of the inputs that lead to it, from the outermost plan on; none there.
    stage
        Its number in its plan, from 1 on.
    clauses
        What it runs.
    is_here
        Whether that is the driver.
    why
        What is brought there, or sent out from it; empty where nothing is.
    """

    inputs: tuple[int, ...]
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
            _HERE if placed.is_here else _TASKS,
            placed.why,
        )
        for placed in placed_stages(plan)
    ]
    return Table("on Spark", ("stage", "clauses", "runs in", "why"), tuple(rows))


def placed_stages(plan: Plan) -> list[Placed]:
    """Return where the stages of a plan run, those of its inputs first."""
    walk = _Walk([], len(plan.stages))
    walk.flow(plan, ())
    return walk.found


@dataclass(frozen=True)
class _Walk:
    found: list[Placed]
    last: int

    def flow(self, plan: Plan, inputs: tuple[int, ...]) -> _Data:
        """Note the stages of a plan; return where its result is."""
        first = plan.stages[0]
        if first.clauses and isinstance(first.clauses[0], Broadcasts):
            sides = _inputs(plan, inputs)
            where, left = next(sides)
            data = self.flow(left, where)
            for where, part in sides:
                self._held(part, where)
            data = self._after(data, first, inputs, 1, sent="the other inputs are sent along")
        else:
            data = self._first(plan, first, inputs)
        for number, stage in enumerate(plan.stages[1:], start=2):
            data = self._after(data, stage, inputs, number)
        return data

    def _held(self, part: Plan, inputs: tuple[int, ...]) -> None:
        """Note the stages of an input that is wanted here."""
        if not is_read_here(part):
            self.flow(part, inputs)
            return
        for where, inner in _inputs(part, inputs):
            self._held(inner, where)
        for number, stage in enumerate(part.stages, start=1):
            self._note(inputs, number, stage, is_here=True, why="it is small, and held whole")

    def _first(self, plan: Plan, first: Stage, inputs: tuple[int, ...]) -> _Data:
        if len(plan.inputs) == 1 and isinstance(plan.inputs[0], SourcePlan):
            data = _Data.NARROW if plan.inputs[0].units else _Data.NARROW_EMPTY
            if first.is_read_apart:
                return self._after(data, first, inputs, 1)
            self._note(inputs, 1, first, is_here=False)
            return data
        sides = [self.flow(part, where) for where, part in _inputs(plan, inputs)]
        if isinstance(first.clauses[0], Interleaves):
            return self._interleaved(sides, first, inputs)
        data = _side_by_side(sides)
        return self._after(data, first, inputs, 1, sent=_sent(sides, data))

    def _interleaved(self, sides: list[_Data], first: Stage, inputs: tuple[int, ...]) -> _Data:
        clause = first.clauses[0]
        grouped = clause.restructures
        if grouped and _Data.NARROW_EMPTY not in sides and set(sides) != {_Data.HERE}:
            self._note(inputs, 1, first, is_here=False, why=_sent(sides, _Data.FRAME))
            return _Data.FRAME
        self._note(inputs, 1, first, is_here=True, why="the inputs are taken in turn")
        return _Data.HERE

    def _after(
        self, data: _Data, stage: Stage, inputs: tuple[int, ...], number: int, sent: str = ""
    ) -> _Data:
        after, why = _after(data, stage, is_last=not inputs and number == self.last)
        self._note(inputs, number, stage, is_here=after is _Data.HERE, why=why or sent)
        return after

    def _note(
        self, inputs: tuple[int, ...], number: int, stage: Stage, *, is_here: bool, why: str = ""
    ) -> None:
        self.found.append(Placed(inputs, number, stage.clauses, is_here, why))


def most_rows_in_rounds(stage: Stage, *, is_last: bool) -> int:
    """Return of how many rows a limit from the front is answered in rounds, which bring them here.

    Where something stands behind it, only few are worth less than the job that counts them.
    """
    is_result = is_last and len(stage.clauses) == 1
    return _MOST_RESULT_ROWS if is_result else _MOST_FIRST_ROWS


def is_read_here(plan: Plan) -> bool:
    """Return whether a plan whose result is wanted here is of few bytes, and run here."""
    return _bytes(plan) <= _MOST_BYTES_READ_HERE


def _bytes(plan: Plan | SourcePlan) -> int:
    if isinstance(plan, SourcePlan):
        return int(plan.index.bytes.sum())
    return sum(map(_bytes, plan.inputs))


def _inputs(plan: Plan, inputs: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Plan]]:
    for number, part in enumerate(plan.inputs, start=1):
        if isinstance(part, Plan):
            yield (*inputs, number), part


def _side_by_side(sides: list[_Data]) -> _Data:
    if all(side in (_Data.NARROW, _Data.NARROW_EMPTY) for side in sides):
        return _Data.NARROW if _Data.NARROW in sides else _Data.NARROW_EMPTY
    return _Data.HERE if set(sides) == {_Data.HERE} else _Data.FRAME


def _sent(sides: list[_Data], data: _Data) -> str:
    if data is _Data.HERE or _Data.HERE not in sides:
        return ""
    return "inputs in the driver are sent out, where they are few bytes"


def _after(data: _Data, stage: Stage, *, is_last: bool) -> tuple[_Data, str]:
    """Return where units are after a stage, and why they are moved."""
    if data is _Data.HERE:
        return data, ""
    if stage.carries is not None and data is not _Data.NARROW_EMPTY:
        if stage.carries is Carry.END:
            return _Data.FRAME, ""
        return data, "what is carried is combined in the driver"
    clause = stage.clauses[0] if stage.clauses else None
    if clause is None:
        return data, ""
    if stage.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
        return data, ""
    if data is _Data.NARROW_EMPTY:
        return _Data.HERE, "there are no units"
    if clause.structure.reduced:
        return _Data.HERE, "its input is about the size of the result"
    if isinstance(clause, Limits):
        demand = clause.demand()
        most = most_rows_in_rounds(stage, is_last=is_last)
        if data is _Data.NARROW and demand is not None and demand <= most:
            here = is_last and len(stage.clauses) == 1
            few = "" if here else ", where they are few bytes"
            return _Data.HERE, f"the first rows are brought here{few}"
        return data, ""
    return _Data.FRAME, ""

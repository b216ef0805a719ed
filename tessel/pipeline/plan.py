"""What an executor gets: inputs, stages and the schema of the result. Made by the planner."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import concat_tables
from tessel.cached import cached
from tessel.clauses.base import BUCKETED, Carry, Clause, Structure
from tessel.clauses.structures import UnitPositions, structure_by_row_slice
from tessel.errors import CancelledError, TesselError
from tessel.errors.arguments import refuses
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.bindings import Bindings
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import SegmentSource
from tessel.store.view import SymbolView

if TYPE_CHECKING:
    from tessel.pipeline.planner.draft import Draft


class Catalog(Protocol):
    """Where the planner finds symbols; every view it gives is of one snapshot."""

    def view(self, symbol: str, as_of: int | str | None) -> SymbolView:
        """Return a symbol at a version; None is the version that the query sees."""


class SourceUnits:
    """The segments of a symbol that are read, in units; what follows from these is found once.

    Runs of a plan share it, also those that find the plan in the cache.

    Parameters
    ----------
    index, units, absorbed
        As of a :class:`SourcePlan`, and of the same names there.

    Attributes
    ----------
    bindings
        What the clauses of the plan bound to the rows, and what was compiled of it.
    """

    def __init__(
        self, index: SegmentIndex, units: Sequence[Sequence[int]], absorbed: tuple[Clause, ...] = ()
    ) -> None:
        self.index = index
        self.units = UnitPositions.of(units)
        self.absorbed = absorbed
        self.bindings = Bindings(index.schema)

    @cached
    def fetches(self) -> dict[int, int]:
        """How many units fetch each segment, by position; one that is in no unit is not there."""
        positions, counts = np.unique(self.positions, return_counts=True)
        return dict(zip(positions.tolist(), counts.tolist(), strict=True))

    @cached
    def are_alone(self) -> bool:
        """Whether no segment is wanted by two units."""
        # As a rule they ascend, and nothing is sorted.
        known = self.positions
        return bool((known[1:] > known[:-1]).all()) or len(np.unique(known)) == len(known)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each unit begins in ``positions``, and the last ends; int64, ``(units + 1,)``."""
        return self.units.starts

    @property
    def positions(self) -> NDArray[np.int64]:
        """The segments of all units by position in the index, unit by unit; int64."""
        return self.units.positions

    @cached
    def rows(self) -> NDArray[np.int64]:
        """The rows of each unit, which has one row range; int64, shape ``(units,)``."""
        return self.index.row_end[self._first] - self.index.row_start[self._first]

    @cached
    def nbytes(self) -> NDArray[np.int64]:
        """The stored bytes of each unit, int64, shape ``(units,)``."""
        stored = np.append(0, np.cumsum(self.index.bytes[self.positions]))
        return np.diff(stored[self.starts])

    @cached
    def follow(self) -> NDArray[np.bool_]:
        """Which units begin where the one before ends, shape ``(units,)``."""
        starts, ends = self.index.row_start[self._first], self.index.row_end[self._first]
        return np.append(False, starts[1:] == ends[:-1])

    @cached
    def row_bytes(self) -> int:
        """The fewest bytes of a row in memory, where text and lists are not counted."""
        types = self.index.schema.arrow.types
        bits: int = sum(type_.bit_width for type_ in types if pa.types.is_primitive(type_))
        return bits // 8

    @cached
    def by_row_slice(self) -> SourceUnits:
        """The same segments, a unit a row slice: for a clause that takes all of them in parts."""
        return SourceUnits(self.index, structure_by_row_slice(self.index).units, self.absorbed)

    @property
    def cut_by_row_slice(self) -> SourceUnits:
        """The same units, each cut into the row slices that it has."""
        units = np.repeat(np.arange(len(self.units)), np.diff(self.starts))
        cut = units * max(1, self.index.slices) + self.index.slice_number[self.positions]
        _, first, of = np.unique(cut, return_index=True, return_inverse=True)
        order = np.argsort(first[of], kind="stable")  # as the unit has them, slices whole
        edges = np.flatnonzero(np.diff(first[of][order], prepend=-1, append=-2))
        return SourceUnits(self.index, UnitPositions(edges, self.positions[order]), self.absorbed)

    @property
    def _first(self) -> NDArray[np.int64]:
        return self.positions[self.starts[:-1]]


@dataclass(frozen=True)
class SourcePlan:
    """What is read of one symbol.

    Attributes
    ----------
    read
        What is read of it, in the units of the first stage.
    """

    view: SymbolView
    read: SourceUnits

    @property
    def index(self) -> SegmentIndex:
        """The segments that are left after pruning, with the reasons for those that are not."""
        return self.read.index

    def segments(self) -> SegmentSource:
        """Return what loads them."""
        return self.view.source(self.index.full_schema)

    @property
    def units(self) -> Sequence[list[int]]:
        """For each unit of the first stage the positions of its segments in the index."""
        return self.read.units

    @property
    def absorbed(self) -> tuple[Clause, ...]:
        """The clauses that the index alone has answered: they are in no stage."""
        return self.read.absorbed

    @property
    def schema(self) -> TableSchema:
        """The columns that are read."""
        return self.index.schema

    @property
    def bytes(self) -> int:
        """Estimated bytes to read."""
        return int(self.index.bytes.sum())


class Intake(enum.Enum):
    """How a stage takes the units of the stage before; the pipeline asks this, and explain."""

    CARRIED = "each with what lies around it"
    ONE_BY_ONE = "each by itself"
    STREAM = "one after another, by a clause that consumes them"
    GROUPED = "in groups, once all are there"


@dataclass(frozen=True)
class Stage:
    """Clauses that run back to back on one structure: one pass per unit, no barrier inside.

    Attributes
    ----------
    clauses
        What runs, in order; none in a stage that only reads.
    schemas
        The schema before the first clause and after each.
    """

    clauses: tuple[Clause, ...]
    schemas: tuple[TableSchema, ...]

    def after(self, done: int) -> Stage:
        """Return the stage without its first ``done`` clauses."""
        return Stage(self.clauses[done:], self.schemas[done:])

    @cached
    def input(self) -> Structure:
        """The structure of the units that come in."""
        return self.clauses[0].structure.input if self.clauses else Structure.ROW_SLICE

    @cached
    def carries(self) -> Carry | None:
        """From which side the first clause needs to know rows of other units."""
        return self.clauses[0].structure.carries if self.clauses else None

    @cached
    def intake(self) -> Intake:
        """How the units of the stage before are taken."""
        if self.carries is not None:
            return Intake.CARRIED
        if self.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL):
            return Intake.ONE_BY_ONE
        return Intake.STREAM if self.clauses[0].takes_stream else Intake.GROUPED

    @cached
    def is_read_apart(self) -> bool:
        """Whether segments are read by a stage of their own, where this one is the first."""
        if self.input in BUCKETED:
            return self.clauses[0].takes_stream
        return self.input is Structure.ALL or self.carries is not None

    @cached
    def joins_buckets(self) -> bool:
        """Whether hash buckets may be one unit: keys stay whole, however many units there are."""
        first = self.clauses[0] if self.clauses else None
        if first is None or self.input is not Structure.HASH_BUCKETED:
            return False
        return not (first.restructures or first.structure.apart)

    @cached
    def output(self) -> Structure:
        """The structure of the units that go out."""
        return self.clauses[-1].structure.output if self.clauses else Structure.ROW_SLICE

    @cached
    def takes_any_slices(self) -> bool:
        """Whether units may be joined: units of time, also where a filter is before, may not."""
        return all(clause.structure.input is Structure.ROW_SLICE for clause in self.clauses)

    @cached
    def keeps_count(self) -> bool:
        """Whether as many rows come out as go in."""
        return all(clause.structure.keeps_count for clause in self.clauses)


@dataclass(frozen=True, eq=False)
class Change:
    """One pass of the planner.

    Attributes
    ----------
    name
        Of the pass.
    before, after
        The query before the pass and after it; written out when people ask.
    """

    name: str
    before: Draft
    after: Draft


@dataclass(frozen=True)
class Plan:
    """A query ready to run.

    Attributes
    ----------
    inputs
        One symbol, or the plans of several whose units the first stage takes in this order.
    stages
        What runs. Between two stages lies a barrier where units are grouped anew.
    changes
        What the planner made of the query, pass by pass; for people.
    question
        What must be found out first. The rest of such a plan has the right shape, but is not what
        is run: an executor takes what :func:`answered` returns.
    is_collected
        Whether all of the result is wanted at once, which the byte budget leaves out.
    """

    inputs: tuple[SourcePlan | Plan, ...]
    stages: tuple[Stage, ...]
    schema: TableSchema
    changes: tuple[Change, ...] = ()
    question: Question | None = None
    is_collected: bool = False

    __getitem__ = refuses("a plan is no list", "plan.stages is, and .explain() shows it")

    @cached
    def bytes(self) -> int:
        """Estimated bytes to read for all inputs; asked for at each level of a nested plan."""
        return sum(each.bytes for each in self.inputs)

    @property
    def sources(self) -> tuple[SourcePlan, ...]:
        """What is read of each symbol, the inputs' own inputs among them."""
        own = (each.sources if isinstance(each, Plan) else (each,) for each in self.inputs)
        return tuple(itertools.chain.from_iterable(own))

    @cached
    def clauses(self) -> tuple[Clause, ...]:
        """All clauses, those of the inputs first."""
        before = [part.clauses for part in self.inputs if isinstance(part, Plan)]
        return tuple(itertools.chain(*before, *[stage.clauses for stage in self.stages]))


@dataclass(frozen=True)
class Question:
    """What a clause must know of all its input before a plan can be made.

    Attributes
    ----------
    revise
        Makes the plan that is run from the answer.
    saves
        Bytes that may not have to be read, shuffled or held, once it is answered, where the plan is
        right without the answer; None where it is not.
    purpose
        What the answer is for; for people.
    answer
        The plan that is run, where it is known already what ``revise`` makes of the answer.
    """

    plan: Plan
    revise: Callable[[pa.Table], Plan]
    saves: int | None = None
    purpose: str = ""
    answer: Plan | None = None


def answered(plan: Plan, run: Callable[[Plan], Iterator[pa.Table]], *, least: int = 0) -> Plan:
    """Return a plan without questions, also in its inputs, by running what answers them.

    Parameters
    ----------
    run
        Gives the parts of the result of a plan.
    least
        So many bytes must be saved for it to be worth running something for an answer that the plan
        is right without.
    """
    while (asked := plan.question) is not None and (asked.saves is None or asked.saves >= least):
        if asked.answer is not None:
            plan = asked.answer
            break
        try:
            parts = list(run(asked.plan))
            plan = asked.revise(concat_tables(parts) if parts else asked.plan.schema.empty())
        except CancelledError:
            raise
        except TesselError:
            if asked.saves is None:
                raise
            break  # whatever fails fails in the plan as well, which says more of it
    inputs = tuple(
        [answered(p, run, least=least) if isinstance(p, Plan) else p for p in plan.inputs]
    )
    if plan.question is None and all(map(operator.is_, inputs, plan.inputs)):
        return plan
    return dataclasses.replace(plan, inputs=inputs, question=None)


def cut_stages(clauses: tuple[Clause, ...], schema: TableSchema) -> tuple[Stage, ...]:
    """Cut a list of clauses into stages.

    A barrier lies where the structure before differs from the one a clause needs, and after every
    clause that leaves another structure than it needs. One lies also before every clause over time
    buckets, on both sides of one with a grouping of its own, and behind one that takes a stream,
    whose units are not those of its neighbours; and before every clause that carries from unit to
    unit.
    """
    stages: list[Stage] = []
    run: list[Clause] = []
    schemas = [schema]
    for clause in clauses:
        if run:
            before = run[-1].structure
            if (
                before.input is not before.output
                or before.output is not clause.structure.input
                or clause.structure.input is Structure.TIME_BUCKETED
                or clause.structure.carries is not None
                or clause.restructures
                or run[0].restructures
                or run[0].takes_stream
            ):
                stages.append(Stage(tuple(run), tuple(schemas)))
                run, schemas = [], schemas[-1:]
        run.append(clause)
        schemas.append(clause.output_schema(schemas[-1]))
    if run or not stages:
        stages.append(Stage(tuple(run), tuple(schemas)))
    return tuple(stages)


def continued(plan: Plan, clauses: tuple[Clause, ...]) -> Plan:
    """Return a plan with clauses added at its end."""
    if not clauses:
        return plan
    last = plan.stages[-1]
    stages = cut_stages((*last.clauses, *clauses), last.schemas[0])
    made = (*plan.stages[:-1], *stages)
    asked = plan.question
    if asked is not None:
        revise = asked.revise
        known = asked.answer and continued(asked.answer, clauses)
        asked = dataclasses.replace(
            asked, revise=lambda answer: continued(revise(answer), clauses), answer=known
        )
    return Plan(plan.inputs, made, stages[-1].schemas[-1], plan.changes, asked)


def plugins_of(plan: Plan) -> tuple[type[Clause], ...]:
    """Return the clause classes of a plan that are not part of the package."""
    return tuple(filter(is_plugin, dict.fromkeys(map(type, plan.clauses))))


def is_plugin(kind: type[Clause]) -> bool:
    """Return whether a clause class is not part of the package."""
    return not kind.__module__.startswith("tessel.")

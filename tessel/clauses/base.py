"""The contract of a clause: what a query is made of, and all that the pipeline knows of it.

A clause is one frozen dataclass in one file, registered by name. It declares how entities must be
grouped before it can run and how it leaves them (:class:`ClauseInfo`), says what columns come out
without seeing data (``output_schema``), and turns one work unit into another (``process``). The
pipeline does the rest: it restructures units where two neighbours disagree, and runs the same
``process`` in a thread or in a Spark task.

A clause of your own is one file::

    @register
    @dataclass(frozen=True)
    class DropNegative(Clause):
        name = "drop_negative"
        column: str

        @property
        def structure(self) -> ClauseInfo:
            return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, columns={self.column})

        def output_schema(self, input_schema: TableSchema) -> TableSchema:
            input_schema.require([self.column])
            return input_schema

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            return unit.filter(unit.evaluate(col(self.column) >= 0))

Optional powers are the methods with a body below and the protocols at the end; each says what the
default costs.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.clauses.plain import expression_form, fields_from_json
from tessel.clauses.structures import (
    StructuredUnits,
    UnitFacts,
    structure_all_as_one,
    structure_by_bucket,
    structure_by_row_slice,
)
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression import Expression
from tessel.expression.schema import TableSchema
from tessel.store import BlockScan, CandidateRows, SegmentIndex

__all__ = [
    "Asks",
    "Broadcasts",
    "Carries",
    "Carry",
    "Clause",
    "ClauseInfo",
    "Consumes",
    "Expands",
    "IndexEffect",
    "Interleaves",
    "Limits",
    "Narrows",
    "Proves",
    "Prunes",
    "Reduces",
    "ReducesPieces",
    "Scans",
    "Selects",
    "Structure",
]


class Structure(enum.Enum):
    """How entities are grouped into work units."""

    ROW_SLICE = "row_slice"
    """All column slices of one row range."""
    TIME_BUCKETED = "time_bucketed"
    """The row slices whose time buckets touch."""
    HASH_BUCKETED = "hash_bucketed"
    """Everything in one hash bucket of the key."""
    ALL = "all"
    """Everything, in order."""
    MULTI_SYMBOL = "multi_symbol"
    """The units of several symbols, renumbered."""


class IndexEffect(enum.Enum):
    """What a clause does to the time index."""

    KEEP = "keep"
    DROP = "drop"
    REPLACE = "replace"


class Carry(enum.Enum):
    """From which side a clause needs to know rows of other units; see :class:`Carries`."""

    BEFORE = "before"
    """Units stream through: each waits only for the summaries of those before it."""
    AFTER = "after"
    """A unit waits until what follows it suffices."""
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class ClauseInfo:
    """What the pipeline and the planner need to know of a clause.

    Attributes
    ----------
    input, output
        The structure the clause needs and the one it leaves.
    columns
        The columns it reads; None means all that arrive, and keeps the planner from pruning any.
    adds
        The columns it makes or replaces.
    uses_index
        Whether it reads the time index, whatever its name.
    keeps_order, keeps_count
        Whether rows come out in the order, and in the number, in which they went in.
    index
        What becomes of the time index.
    positional
        Whether the answer depends on the position of rows (head, tail, row_range). Statistics never
        prune with a predicate that has a positional clause to its left.
    reduced
        Whether its input is reduced to about the size of the result already, so that an executor
        may gather it where the result is wanted instead of spreading it again.
    carries
        From which side rows of other units matter; the clause then has the power
        :class:`Carries`, and begins a stage of its own. None where each unit is enough for itself.
    stored
        The columns that it takes as they are stored (codes, scaled integers) where it stands first,
        or behind clauses that can do so too; it has :class:`Reduces` then.
    """

    input: Structure
    output: Structure
    columns: frozenset[str] | None = None
    adds: frozenset[str] = frozenset()
    uses_index: bool = False
    keeps_order: bool = True
    keeps_count: bool = False
    index: IndexEffect = IndexEffect.KEEP
    positional: bool = False
    reduced: bool = False
    carries: Carry | None = None
    stored: frozenset[str] = frozenset()


class Clause(ABC):
    """One step of a query; subclass as a frozen dataclass and decorate with ``register``."""

    name: ClassVar[str]
    """The word for the clause: the builder's method, the ``"clause"`` key of the JSON form."""
    internal: ClassVar[bool] = False
    """Whether only the planner makes such clauses; they are no methods of a builder."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give every subclass equality by its plain form.

        What ``dataclass`` would make compares fields with ``==``, which builds an expression where
        a field is one. It leaves alone what a class has of its own.
        """
        super().__init_subclass__(**options)
        for method in (Clause.__eq__, Clause.__hash__):
            if method.__name__ not in cls.__dict__:
                setattr(cls, method.__name__, method)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def _text(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)

    @property
    @abstractmethod
    def structure(self) -> ClauseInfo:
        """The structure the clause needs and leaves, and what the planner may rely on."""

    @abstractmethod
    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the result, without data; refuse misuse here with a typed error."""

    @abstractmethod
    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Turn one work unit into another.

        Pure: the same unit gives the same answer, nothing outside the unit is read or changed. It
        is called from several threads at once, or in another process.
        """

    def structure_units(self, index: SegmentIndex) -> StructuredUnits:
        """Group the segments of a symbol into the first work units, before anything is read.

        Called only for the first clause of a query. It may drop, cut or reorder what the index
        holds. The default gives a clause over everything one unit, or a stream of row slices where
        it takes one, and every other clause row slices.
        """
        if self.structure.input is Structure.ALL and not isinstance(self, Consumes):
            return structure_all_as_one(index)
        return structure_by_row_slice(index)

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Group the outputs of the stage before into work units.

        Called only where the structure before differs from the one this clause needs.

        Parameters
        ----------
        units
            Facts of every piece that the stage before left, in plan order: no data.
        schema
            Schema of what the stage before left.

        Returns
        -------
        list of list of int
            For each new unit the positions of its pieces in ``units``. A position may stand in
            several units; its data is loaded once.
        """
        if self.structure.input is Structure.ALL:
            return [list(range(len(units)))]
        if self.structure.input is Structure.HASH_BUCKETED:
            return structure_by_bucket(units)
        if self.structure.input is Structure.TIME_BUCKETED:
            raise PlanError(
                f"clause {self.name!r} needs TIME_BUCKETED units but does not say how they touch",
                hint="implement restructure, for instance with structure_by_time_bucket",
                clause=self.name,
            )
        return [[position] for position in range(len(units))]

    def to_json(self) -> dict[str, Any]:
        """Return the clause as plain data: its name and its fields.

        Raises
        ------
        PlanError
            When a field holds something that has no plain form.
        """
        data: dict[str, Any] = {"clause": self.name}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            data[field.name] = _plain(getattr(self, field.name), f"{self.name}.{field.name}")
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a clause from its plain data; raises ``PlanFormatError`` on anything else."""
        return cls(**fields_from_json(cls, data))

    def describe(self) -> str:
        """Return one line for people: the name, and the arguments that are not the default."""
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Expression):
                shown.append(str(value))
            elif value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{self.name}({', '.join(shown)})"


def _plain(value: Any, place: str) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Expression):
        return {"expression": expression_form(value)}
    if isinstance(value, np.generic | enum.Enum):
        return value.item() if isinstance(value, np.generic) else value.value
    if dataclasses.is_dataclass(value) and hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [_plain(item, f"{place}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{place}.{key}") for key, item in value.items()}
    raise PlanError(
        f"{place} is a {type(value).__name__}, which has no plain form",
        hint="hold text, numbers, lists or expressions in the fields of a clause, or give the "
        "clause a to_json and a from_json of its own",
        field=place,
    )


# --- optional powers ------------------------------------------------------------------------------


@runtime_checkable
class Asks(Protocol):
    """A clause that must know something of all its input before it can run on a part of it.

    Without it a clause knows one unit at a time. The planner has the question answered by a query
    of its own, which reads only what it needs, and then plans with the clause that was answered.
    """

    @property
    def asks(self) -> bool:
        """Whether there is something left to ask."""

    def question(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the clauses that, run on the input of this one, find the answer."""

    def answered(self, answer: pa.Table) -> Clause:
        """Return the clause with the answer in it; it asks no more, whatever the answer is."""


@runtime_checkable
class Prunes(Protocol):
    """A clause that can drop or cut segments from their facts alone.

    Without it a clause never saves I/O. It is asked only where the planner has shown that its input
    still has the columns of the symbol and no positional clause stands to its left.
    """

    def prune(self, index: SegmentIndex) -> SegmentIndex:
        """Return the index without what cannot contribute, with the reason for each drop."""


@runtime_checkable
class Proves(Protocol):
    """A clause that can tell from the facts of segments that it keeps all of their rows.

    Without it, it runs on every segment that it did not drop.
    """

    def proves(self, index: SegmentIndex) -> npt.NDArray[np.bool_]:
        """Return for each row slice whether every row of it is kept. Shape ``(slices,)``."""


@runtime_checkable
class Selects(Protocol):
    """A clause that only drops rows, and can tell which before all their columns are read.

    Without it, a unit is read whole before its first clause runs. It is asked of the first clauses
    of a query, as long as each of them selects; ``process`` gives the same answer.
    """

    def select(self, rows: CandidateRows) -> bool:
        """Narrow the rows; False, with the rows as they were, leaves the unit to ``process``."""


@runtime_checkable
class Scans(Protocol):
    """A clause whose rows can be dropped, or columns computed, block by block on what is stored.

    Without it, the clauses behind it get values. It is asked of the first clauses of a query, as
    long as each of them scans, where one that reduces stands behind them.
    """

    def scan(self, rows: BlockScan) -> bool:
        """Add what the clause does to the scan; False leaves the unit to be read."""


@runtime_checkable
class Reduces(Protocol):
    """A clause that can make its result of rows as they are stored.

    Without it, or where it answers None, columns are decoded and ``process`` gets them; it gives
    the same answer.
    """

    def reduce(self, rows: BlockScan) -> pa.Table | None:
        """Return the table that ``process`` would leave of these rows, or None."""


@runtime_checkable
class Consumes(Protocol):
    """A clause over everything that does not need everything at once.

    Without it, an ALL clause gets one unit that holds all the data before it.
    """

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Take units in plan order, give units in plan order; stop taking to stop the stage before.

        ``schema`` is the schema of the input, known also where no unit arrives.
        """


@runtime_checkable
class Narrows(Protocol):
    """A clause that makes columns, each of which it can also leave out.

    Without it, all are made, and what they are made of is read, though nothing uses them.
    """

    def narrowed(self, needed: Set[str]) -> Clause | None:
        """Return a clause that makes no column but ``needed`` ones; None if none is left."""


@runtime_checkable
class Carries(Protocol):
    """A clause over row slices whose answer for a row depends on rows of other units.

    Declared by ``ClauseInfo.carries``. Without it, such a clause needs everything in one unit.

    What a run of units means to its neighbours is a *carry*: a small Arrow table of
    ``carry_schema``, the last rows or one state a key for instance. Units are summarised side by
    side, carries are combined from unit to unit, and units are then processed side by side, each
    with what lies before and after it. A table without rows stands for nothing on that side, and
    ``process`` gives the same as ``process_between`` with nothing on either side.

    Nothing may depend on where units are cut: combining the carries of two runs gives the carry of
    both, whichever way they were made. (A clause that carries from before alone may rely on its
    carries being combined in order, one unit at a time, from a table without rows on.)
    """

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of a carry, which may cross processes; checked wherever one is."""

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the carry of one unit; a copy, so that it keeps no unit alive. Pure."""

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return the carry of two runs of rows that follow one another. Pure.

        ``schema`` is the schema of the input.
        """

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether nothing later than ``after`` can matter to the unit of ``summary``.

        Asked only of clauses that carry from after; False holds the unit until more has been seen,
        or the end.
        """

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Turn a unit into another, knowing the carries of all before and of enough after. Pure."""


@runtime_checkable
class ReducesPieces(Protocol):
    """A clause that can reduce one work unit without holding all of it.

    It is asked only for units that are more than a query may hold; ``process`` gives the same
    answer. Without it, such a unit is gathered whole, and runs alone.
    """

    def reduce_pieces(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[pa.Table]:
        """Take the parts of one unit in order; give the result, of the promised schema."""


@runtime_checkable
class Interleaves(Protocol):
    """A clause over several symbols that takes units of all of them in turn.

    Without it, a MULTI_SYMBOL clause gets the units of one symbol after those of the other, one by
    one.
    """

    def interleave(self, inputs: Sequence[Iterator[ProcessingUnit]]) -> Iterator[ProcessingUnit]:
        """Take units of each input in their order, give units in plan order."""


@runtime_checkable
class Broadcasts(Protocol):
    """A clause over several symbols that takes units of the first, given the others whole.

    Without it, the units of all symbols come one after another. The others are read before the
    first unit of the first symbol; each later clause of the same query over these symbols that has
    this power is given them too.
    """

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return the clause that runs, over row slices or over what this one declares.

        ``others`` are the results of the second symbol and those after it. The clause that runs
        promises the columns that this one does, in this process or in another.
        """


@runtime_checkable
class Expands(Protocol):
    """A clause over row slices that can make many times the rows that it gets.

    Without it, all that a unit becomes is made at once, whatever its size.
    """

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return the clauses that make the output of a unit part by part, in order.

        Each is run on the same unit; what they give, one after another, is what ``process`` gives.
        Beside each stand the estimated bytes of what it makes, which count as alive.
        """


@runtime_checkable
class Limits(Protocol):
    """A clause that keeps row ranges of its input chosen from row counts alone.

    It lets an executor count first and then fetch only what is kept, or cut the index where row
    counts are known before anything ran.
    """

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows ``[start, stop)`` that are kept out of ``total``."""

    def demand(self) -> int | None:
        """Return how many leading rows suffice whatever the total; None when all must be seen."""

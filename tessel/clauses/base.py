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
            return ClauseInfo(columns=frozenset([self.column]))

        def output_schema(self, input_schema: TableSchema) -> TableSchema:
            input_schema.require([self.column])
            return input_schema

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            return unit.filter(unit.evaluate(col(self.column) >= 0))

Optional capabilities are the methods with a body below and the protocols of
:mod:`tessel.clauses.capabilities`; each says what the default costs.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa

from tessel.arrays import concat_tables
from tessel.clauses.capabilities import Consumes, has_capability
from tessel.clauses.plain import fields_from_json, plain_form
from tessel.clauses.structures import (
    StructuredUnits,
    UnitFacts,
    facts_of_segments,
    structure_all_as_one,
    structure_by_bucket,
    structure_by_row_slice,
)
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex


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


BUCKETED = (Structure.TIME_BUCKETED, Structure.HASH_BUCKETED)


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
    END = "end"
    """Units wait for none; what is carried from all of them makes the last rows."""


@dataclass(frozen=True, slots=True)
class ClauseInfo:
    """What the pipeline and the planner need to know of a clause.

    Attributes
    ----------
    input, output
        The structure the clause needs and the one it leaves; row slices, unless it says otherwise.
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
        From which side rows of other units matter; the clause then has the capability
        :class:`Carries`, and begins a stage of its own. None where each unit is enough for itself.
    carry_keys
        The columns of the carry that hold a key, where to the rows of a key nothing is carried but
        of rows of the same key: it has a row a key, which is combined with those of that key alone.
        Without them, what is carried on Spark goes whole to each unit, and is combined in one
        process.
    stored
        The columns that it takes as they are stored (codes, scaled integers) where it stands first,
        or behind clauses that bind what they do to the unit.
    coded
        The columns that it takes as codes where they are text that is stored so.
    apart
        Whether each hash bucket is a unit by itself, where otherwise several small ones may be one.
    whole
        Whether a clause that has :class:`Consumes` is given whole units, and takes as a stream only
        the parts of one that is more than a query may hold.
    """

    input: Structure = Structure.ROW_SLICE
    output: Structure = Structure.ROW_SLICE
    columns: frozenset[str] | None = None
    adds: frozenset[str] = frozenset()
    uses_index: bool = False
    keeps_order: bool = True
    keeps_count: bool = False
    index: IndexEffect = IndexEffect.KEEP
    positional: bool = False
    reduced: bool = False
    carries: Carry | None = None
    carry_keys: tuple[str, ...] = ()
    stored: frozenset[str] = frozenset()
    coded: frozenset[str] = frozenset()
    apart: bool = False
    whole: bool = False

    @property
    def keeps_slices(self) -> bool:
        """Whether it takes row slices and leaves them, each for itself."""
        return self.input is self.output is Structure.ROW_SLICE and self.carries is None


def drops_rows(clause: Clause) -> bool:
    """Return whether a clause over row slices does nothing but leave some of their rows out."""
    info = clause.structure
    return (
        info.keeps_slices
        and info.keeps_order
        and not info.keeps_count
        and not info.adds
        and info.index is IndexEffect.KEEP
    )


class Clause(ABC):
    """One step of a query; subclass as a frozen dataclass and decorate with ``register``."""

    name: ClassVar[str]
    """The word for the clause: the builder's method, the ``"clause"`` key of the JSON form."""
    internal: ClassVar[bool] = False
    """Whether only the planner makes such clauses; they are no methods of a builder."""
    attaches: ClassVar[tuple[type, ...]] = ()
    """The classes of components that it attaches to units; on Spark no others reach workers."""

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

    def lower(self, schema: TableSchema) -> Sequence[Clause]:
        """Return the clauses that this one is short for, on an input of a schema; itself if none.

        The planner asks it of classes that define it themselves, and then runs those.
        """
        return (self,)

    @abstractmethod
    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Turn one work unit into another.

        Pure: the same unit gives the same answer, nothing outside the unit is read or changed. It
        is called from several threads at once, or in another process.
        """

    def structure_units(self, index: SegmentIndex) -> StructuredUnits:
        """Group the segments of a symbol into the first work units, before anything is read.

        Called only for the first clause of a query. It may drop, cut or reorder what the index
        holds. The default groups time and hash buckets by the clause's own ``restructure``, as they
        are grouped at any later place of a query, gives a clause over everything one unit, and
        every other clause row slices, as one that takes a stream or groups everything in a way of
        its own: what they are given is grouped once it is read.
        """
        structure = self.structure.input
        if structure in BUCKETED and not self.takes_stream:
            return StructuredUnits(index, self.restructure(facts_of_segments(index), index.schema))
        if structure is Structure.ALL and not (self.restructures or self.takes_stream):
            return structure_all_as_one(index)
        return structure_by_row_slice(index)

    @property
    def takes_stream(self) -> bool:
        """Whether the clause is given all units before it one after another, ungrouped."""
        # Whether an object satisfies a protocol takes 40 µs to say: most are over row slices.
        info = self.structure
        grouped = info.input is Structure.ALL or info.input in BUCKETED
        return grouped and not info.whole and has_capability(self, Consumes)

    @property
    def restructures(self) -> bool:
        """Whether the clause groups units in a way of its own."""
        return type(self).restructure is not Clause.restructure

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Group the outputs of the stage before into work units.

        Called wherever the clause stands in a query, but for clauses over row slices and those that
        take a stream.

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

    def finish(self, carry: pa.Table, schema: TableSchema) -> Iterator[pa.Table]:
        """Give the rows behind the last, by the carry of all units; there are none by default.

        Asked of clauses that carry to the end, once they are bound where they are to be.
        """
        yield from ()

    def to_json(self) -> dict[str, Any]:
        """Return the clause as plain data: its name and its fields.

        Raises
        ------
        PlanError
            When a field holds something that has no plain form.
        """
        data: dict[str, Any] = {"clause": self.name}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            data[field.name] = plain_form(getattr(self, field.name), f"{self.name}.{field.name}")
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
            elif field.repr and value != field.default and not isinstance(value, TableSchema):
                shown.append(f"{field.name}={_for_people(value)}")
        return f"{self.name}({', '.join(shown)})"

    @property
    def as_written(self) -> str:
        """How errors name the clause."""
        return self.describe()


class ShortClause(Clause):
    """A clause that is short for others, which ``lower`` returns; the planner runs those."""

    @abstractmethod
    def lower(self, schema: TableSchema) -> Sequence[Clause]:
        """Return the clauses that this one is short for, on an input of a schema."""

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the result of the last of them."""
        for clause in self.lower(input_schema):
            input_schema = clause.output_schema(input_schema)
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Run them one after another."""
        for clause in self.lower(unit.schema):
            unit = clause.process(unit)
        return unit


class StreamClause(Clause):
    """A clause over everything that takes units one after another; one may be everything."""

    @abstractmethod
    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Take units and give units, as :class:`Consumes` says."""

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Take one unit, and put what it becomes together."""
        from tessel.clauses.index_values import with_times_of_index

        schema = self.output_schema(unit.schema)
        parts = [part.table for part in self.consume([unit], unit.schema)]
        found = unit.replace(concat_tables(parts) if parts else schema.empty())
        return with_times_of_index(found.with_pieces(found.pieces, schema))


@dataclass(frozen=True)
class LoweredClause(Clause):
    """A clause that the planner made of one that somebody wrote.

    Attributes
    ----------
    written
        That one: errors name it, so that they are the same whatever the planner chose.
    """

    written: str = dataclasses.field(default="", repr=False, kw_only=True)

    @property
    def as_written(self) -> str:
        """How errors name the clause."""
        return self.written or self.describe()


def _for_people(value: object) -> str:
    if isinstance(value, tuple):
        if value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            return f"{{{', '.join(': '.join(map(_for_people, pair)) for pair in value)}}}"
        return f"[{', '.join(map(_for_people, value))}]"
    describe = getattr(value, "describe", None)
    return repr(value) if describe is None else str(describe())

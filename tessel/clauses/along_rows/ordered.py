"""What clauses share that compute columns along the rows, each key by itself.

A subclass says of which type its results are, what it carries, and computes. Columns are pairs of
the name that is made and the name that is read; a result of the same name replaces its column.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.cached import cached
from tessel.clauses.along_rows.key_order import key_columns
from tessel.clauses.base import Carry, Clause, ClauseInfo
from tessel.clauses.grouped.grouping import check_key_type
from tessel.clauses.results import AggregatingClause
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated, shown
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.clauses.along_rows.gaps import Gaps
    from tessel.clauses.along_rows.neighbours import Reach, TimeReach

_MOST_ROWS = 2**62


class CarryingClause(Clause):
    """A clause over row slices to whose rows something is carried of other rows."""

    @abstractmethod
    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of a carry."""

    @abstractmethod
    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Compute a unit between others."""

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Compute a unit that is everything."""
        nothing = empty_table(self.carry_schema(unit.schema))
        return self.process_between(unit, nothing, nothing)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Return True: nothing is carried from after, unless a clause says otherwise."""
        return True


class LooksAround(CarryingClause):
    """A clause to whose rows those around them are carried, or what is known of those."""

    @abstractmethod
    def reach(self, schema: TableSchema) -> Reach | TimeReach | Gaps:
        """Return how far the clause looks on a table of a schema, and at what."""

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the schema of the carry: the keys, then the state of the rows of each key."""
        return self.reach(input_schema).schema(input_schema)

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return what rows outside of a unit look at."""
        return self.reach(unit.schema).summary(unit)

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return what rows outside of both runs look at."""
        return self.reach(schema).combined(earlier, later)


class _ByKey(CarryingClause):
    """One to whose rows nothing is carried but of rows of their key.

    Attributes
    ----------
    by
        Keys: only rows of equal keys are around one another. A missing key is a key like others.
    """

    by: tuple[str, ...]

    @property
    def carries(self) -> Carry | None:
        """From which side rows of other units matter."""
        return Carry.BEFORE


class AroundRows(AggregatingClause, _ByKey):
    """A clause that adds aggregates of the rows around each row."""

    @property
    @abstractmethod
    def uses_index(self) -> bool:
        """Whether what lies around a row is measured on the time index."""

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=frozenset(self.by).union(*(each.columns for each in self.aggregates)),
            adds=self.output_names,
            uses_index=self.uses_index,
            keeps_count=True,
            carries=self.carries,
            carry_keys=key_columns(self.by),
            coded=frozenset(self.by),
        )

    @cached
    def inputs(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        return tuple(dict.fromkeys(name for each in self.aggregates for name in each.inputs))

    def narrowed(self, needed: Set[str]) -> Self | None:
        """Return the clause with the needed results alone; None without any."""
        kept = tuple(each for each in self.aggregates if each.output in needed)
        return dataclasses.replace(self, aggregates=kept) if kept else None  # type: ignore[type-var]


@dataclass(frozen=True)
class OrderedColumns(_ByKey):
    """A clause that makes columns of columns, each row's value of the rows around it.

    Attributes
    ----------
    columns
        Pairs: the name of the result, the column that is read.
    by
        Keys: only rows of equal keys are around one another. A missing key is a key like others.
    """

    columns: tuple[tuple[str, str], ...]
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_pairs(self.name, self.columns)
        check_names(self.name, self.by)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=frozenset([*self.inputs, *self.by]),
            adds=frozenset(output for output, _ in self.columns),
            keeps_count=True,
            carries=self.carries,
            carry_keys=key_columns(self.by),
            coded=frozenset(self.by),
        )

    @property
    def inputs(self) -> list[str]:
        """The columns that are read, each once."""
        return list(dict.fromkeys(column for _, column in self.columns))

    @abstractmethod
    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return the type of the result for a column; refuse types that it means nothing for."""

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the columns added or replaced."""
        input_schema.require([*self.inputs, *self.by], where=self.name)
        check_keys(self.by, input_schema)
        return input_schema.with_columns(
            {
                output: self.result_type(column, input_schema.type_of(column))
                for output, column in self.columns
            }
        )

    def narrowed(self, needed: Set[str]) -> Self | None:
        """Return the clause with the needed results alone; None without any."""
        columns = tuple(pair for pair in self.columns if pair[0] in needed)
        return dataclasses.replace(self, columns=columns) if columns else None


def check_pairs(clause: str, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse what is no pairs of names, no pair at all, and two results of one name."""
    if not columns:
        raise PlanError(
            f"{clause} needs a column", hint=f'{clause}("price"), or {clause}({{"new": "price"}})'
        )
    for pair in columns:
        check_names(clause, pair)
    output = repeated(output for output, _ in columns)
    if output is not None:
        raise DuplicateColumnError(
            f"{clause} would make two columns named {output!r}",
            hint="give each result a name of its own",
            column=output,
        )


def check_names(clause: str, names: Sequence[str]) -> None:
    """Refuse names of columns that are none, and one that is given twice among keys."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise PlanError(f"{clause}: {name!r} is no column name", clause=clause)


def check_reach(clause: str, rows: int) -> None:
    """Refuse a number of rows that no table has, before it meets 64-bit arithmetic."""
    if abs(rows) > _MOST_ROWS:
        raise PlanError(
            f"{clause} looks {shown(rows)} rows far, further than rows can be counted",
            hint=f"give a number of rows up to {_MOST_ROWS}",
            clause=clause,
        )


def check_keys(by: Sequence[str], schema: TableSchema) -> None:
    """Refuse key columns whose values have no equality as a whole."""
    for name in by:
        check_key_type(name, schema.type_of(name))

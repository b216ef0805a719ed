"""Groups and the states of their aggregates: made, merged, finished and written down for all alike.

A state is that of a reduction (:mod:`tessel.clauses.aggregates.reductions`). What several
aggregates need is there once. An aggregate that is not made of reductions, such as one of somebody
else, enters as one of its own, whose state is its Arrow columns.

A *partial* table has one row a group of one unit: the key columns, then the states of the
aggregates (:class:`~tessel.clauses.grouped.group_states.StatePlan`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.present_rows import PresentRows
from tessel.clauses.aggregates.reductions import Reduction, ReductionSet
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.results import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import current

Codes = NDArray[np.int64]

StateKey = tuple[tuple[str, ...], str]
"""Input columns, and the name of a reduction of them."""

States = Mapping[StateKey, Any]
"""The states of groups, by reduction."""


class StatePlan(ReductionSet[StateKey]):
    """The reductions that some mergeable aggregates need, each once.

    Parameters
    ----------
    aggregates
        The aggregates.
    source
        Schema of the rows.

    Attributes
    ----------
    reductions
        By input columns and name.
    """

    def __init__(self, aggregates: Sequence[NamedAggregate], source: TableSchema) -> None:
        self._aggregates: list[tuple[NamedAggregate, pa.DataType | None, dict[str, StateKey]]] = []
        super().__init__({})
        for each, kind in ((each, each.input_type(source)) for each in aggregates):
            needed = (
                each.aggregate.reductions_of(kind)
                if isinstance(each.aggregate, FromReductions)
                else {f"\0{each.output}": _Own(_mergeable(each), kind)}
            )
            keys = {which: (each.inputs, which) for which in needed}
            self._aggregates.append((each, kind, keys))
            self.reductions |= {keys[which]: reduction for which, reduction in needed.items()}

    @property
    def is_compact(self) -> bool:
        """Whether the states of a group are small however many rows it has."""
        return all(reduction.compact for reduction in self.reductions.values())

    def fields(self) -> list[pa.Field]:
        """Return names and types of states as Arrow columns."""
        return [
            field.with_name(name)
            for key, reduction in self.reductions.items()
            for name, field in zip(self.names(key), reduction.fields(), strict=True)
        ]

    def of_rows(self, columns: Mapping[str, Any], codes: Codes, groups: int) -> States:
        """Return the states of some rows.

        Parameters
        ----------
        columns
            The inputs by name, in order of rows.
        codes
            int64, shape ``(rows,)``: the group of each row.
        groups
            How many groups there are.
        """
        rows: dict[tuple[str, ...], PresentRows] = {}
        for each, _, _ in self._aggregates:
            if each.inputs not in rows:
                several = len(each.inputs) > 1
                rows[each.inputs] = PresentRows(each.values(columns), codes, several=several)
        return self.reduce(lambda key: rows[key[0]], groups)

    def finish(self, states: States) -> dict[str, pa.Array]:
        """Return the result of each aggregate by its output, one value a group.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        results = self.results(states)
        found: dict[str, pa.Array] = {}
        for each, kind, keys in self._aggregates:
            reduced = {which: results[key] for which, key in keys.items()}
            if isinstance(each.aggregate, FromReductions):
                found[each.output] = each.aggregate.of_reductions(reduced, kind, each.column)
            else:
                (own,) = reduced.values()
                found[each.output] = _mergeable(each).finish(own, kind, each.column)
        return found

    def take(self, states: States, groups: Codes) -> States:
        """Return the states of some groups."""
        return {key: each.take(states[key], groups) for key, each in self.reductions.items()}

    def nbytes(self, states: States) -> int:
        """Return the bytes of states."""
        once: dict[int, int] = {}  # counts are of several
        for key, each in self.reductions.items():
            for line in each.lines(states[key]):
                once[id(line)] = int(line.nbytes)
        return sum(once.values())

    def names(self, key: StateKey) -> list[str]:
        """Return the names of the columns of one of the states."""
        inputs, which = key
        return ["\0".join([*inputs, which, f.name]) for f in self.reductions[key].fields()]


def _mergeable(each: NamedAggregate) -> MergeableAggregate:
    assert isinstance(each.aggregate, MergeableAggregate)  # the planner makes states of no other
    return each.aggregate


class _Own(Reduction):
    """The state of an aggregate that is not made of reductions: its columns."""

    def __init__(self, aggregate: MergeableAggregate, kind: pa.DataType | None) -> None:
        self._aggregate, self._kind = aggregate, kind
        self.compact = aggregate.compact

    def fields(self) -> list[pa.Field]:
        return self._aggregate.partial_fields(self._kind)

    def reduce(self, rows: PresentRows, groups: int) -> list[pa.Array]:
        return self._aggregate.partial(rows.values, rows.all_codes, groups)

    def merge(self, states: Sequence[Any], codes: Codes, groups: int) -> list[pa.Array]:
        columns = [pa.chunked_array(list(parts)) for parts in zip(*states, strict=True)]
        return self._aggregate.merge(columns, codes, groups, self._kind)

    def take(self, state: list[pa.Array], groups: Codes) -> list[pa.Array]:
        rows = arrow_array(groups)
        return [array.take(rows) for array in state]

    def lines(self, state: list[pa.Array]) -> Iterable[pa.Array]:
        return state

    def arrays(self, state: list[pa.Array]) -> list[pa.Array]:
        return state

    def state(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return list(arrays)


_LEAST_ROWS_REDUCED = 1 << 16
_BUDGET_A_ROW = 1024
"""Bytes of the budget for each row that is reduced at a time: exact sums take some 150 a row, and
each worker reduces some rows."""

POSITION = "__tessel_position"
"""Hidden column of a partitioned table: unit ordinal × 2³² + row, what first appearance goes by."""


@dataclass
class GroupShape:
    """What is grouped, and how.

    Attributes
    ----------
    keys, aggregates
        As in an aggregation; all aggregates are mergeable.
    source
        Schema of the rows before they were reduced.
    halves
        The shapes with those aggregates that were reduced as they are stored, and with those that
        were reduced by values, for the last unit of which some were; None before there was one.
    """

    keys: tuple[str, ...]
    aggregates: tuple[NamedAggregate, ...]
    source: TableSchema
    halves: tuple[GroupShape, GroupShape] | None = dataclasses.field(
        default=None, compare=False, repr=False
    )

    @cached
    def plan(self) -> StatePlan:
        """What states consist of."""
        return StatePlan(self.aggregates, self.source)

    def of(self, aggregates: Sequence[NamedAggregate]) -> GroupShape:
        """Return the shape with some of its aggregates."""
        return GroupShape(self.keys, tuple(aggregates), self.source)

    @cached
    def schema(self) -> pa.Schema:
        """The columns of a partial table: keys, then states."""
        keys = [pa.field(key, plain_type(self.source.type_of(key))) for key in self.keys]
        return pa.schema([*keys, *self.plan.fields()])

    @cached
    def table_schema(self) -> TableSchema:
        """That of a partial table, which has no index."""
        return TableSchema(self.schema)

    def of_states(self, keys: Sequence[pa.Array], states: States) -> pa.Table:
        """Return a partial table; keys are one array a column, one value a group."""
        return pa.Table.from_arrays([*keys, *self.plan.arrays(states)], schema=self.schema)


def parts_to_reduce(table: pa.Table) -> list[pa.Table]:
    """Return a table in parts that are reduced one after another, for the memory that takes.

    There is one part at least; the partial tables of several merge as those of units do.
    """
    rows = max(_LEAST_ROWS_REDUCED, current().live_bytes // _BUDGET_A_ROW)
    if table.num_rows <= rows:
        return [table]
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def complete_table(
    table: pa.Table, key_names: Sequence[str], aggregates: Sequence[NamedAggregate]
) -> tuple[pa.Table, np.ndarray]:
    """Aggregate a table in which every group is whole.

    Returns
    -------
    table
        One row a group, in order of first appearance.
    first_row
        Row of ``table`` at which each group first appears, int64, shape (groups,).
    """
    codes, keys, first_row = grouped(table, key_names)
    results = []
    for each in aggregates:
        values = each.values({name: table.column(name) for name in each.inputs})
        results.append(each.aggregate.compute(values, codes, len(first_row), each.column))
    fields = [*key_names, *(each.output for each in aggregates)]
    return pa.Table.from_arrays([*keys, *results], names=fields), first_row


def grouped(
    table: pa.Table, key_names: Sequence[str]
) -> tuple[np.ndarray, list[pa.Array], np.ndarray]:
    """Return the group of each row, the keys of the groups, and where each appears first.

    Without keys there is one group of everything, also of nothing.
    """
    if not key_names:
        return np.zeros(table.num_rows, np.int64), [], np.zeros(1, np.int64)
    found = group_codes([table.column(name) for name in key_names], drop_missing=False)
    return found.codes, found.keys, found.first_row

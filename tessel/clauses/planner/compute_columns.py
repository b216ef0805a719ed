"""Pass: compute what clauses that aggregate compute for themselves, in an ``apply`` before them.

The columns get names that no column has, and are gone behind the clause: groupby and resample leave
their keys and outputs alone, and behind rolling and ewm stands a ``drop``. Equal expressions are
computed once. A key whose name is taken by a column of the table is renamed behind the clause.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tessel.clauses.aggregation import Aggregation
from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.computed import ComputedColumn, free_name, key_names
from tessel.clauses.drop import Drop
from tessel.clauses.ewm import Ewm
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.partition import Partition
from tessel.clauses.planner.draft import Draft
from tessel.clauses.rename import Rename
from tessel.clauses.resample import Resample
from tessel.clauses.rolling import Rolling
from tessel.expression.schema import TableSchema

__all__ = ["compute_columns"]


def compute_columns(draft: Draft) -> Draft:
    """Put an ``apply`` before each clause that computes columns."""
    schemas = draft.schemas()
    clauses: list[Clause] = []
    position = 0
    while position < len(draft.clauses):
        clause, schema = draft.clauses[position], schemas[position]
        following = draft.clauses[position + 1] if position + 1 < len(draft.clauses) else None
        position += 1
        if type(clause) is Partition and type(following) is Aggregation:
            clauses += _groupby(clause, following, schema)
            position += 1
        elif type(clause) is Resample:
            columns = _Columns(schema, [each.output for each in clause.aggregates])
            lowered = columns.lowered(clause.aggregates)
            clauses += [*columns.applies, dataclasses.replace(clause, aggregates=lowered)]
        elif type(clause) is Rolling or type(clause) is Ewm:
            columns = _Columns(schema, [each.output for each in clause.aggregates])
            lowered = columns.lowered(clause.aggregates)
            clauses += [*columns.applies, dataclasses.replace(clause, aggregates=lowered)]
            if columns.applies:  # these keep the columns of their rows
                clauses.append(Drop(tuple(each.column for each in columns.applies)))
        else:
            clauses.append(clause)
    return draft.replace(clauses=tuple(clauses))


class _Columns:
    """The columns that are made for one clause."""

    def __init__(self, schema: TableSchema, outputs: Sequence[str]) -> None:
        self.applies: list[Apply] = []
        self._taken = {*schema.names, *outputs}
        self._made: dict[bytes, str] = {}

    def make(self, column: ComputedColumn, wanted: str) -> str:
        """Compute a column under a name of its own."""
        name = free_name(wanted, self._taken)
        self._taken.add(name)
        self.applies.append(Apply(name, column.expression))
        self._made.setdefault(column.expression.digest, name)
        return name

    def lowered(self, aggregates: Sequence[NamedAggregate]) -> tuple[NamedAggregate, ...]:
        """Compute the columns of aggregates, and let them read those."""
        found: list[NamedAggregate] = []
        for each in aggregates:
            names = {
                column.name: self._made.get(column.expression.digest)
                or self.make(column, column.name)
                for column in each.computed
            }
            found.append(each.with_inputs(names))
        return tuple(found)


def _groupby(partition: Partition, aggregation: Aggregation, schema: TableSchema) -> list[Clause]:
    outputs = [each.output for each in aggregation.aggregates]
    columns = _Columns(schema, [*outputs, *(key for key in partition.keys if isinstance(key, str))])
    keys: list[str] = []
    renamed: list[tuple[str, str]] = []
    for key in partition.keys:
        if isinstance(key, str):
            keys.append(key)
            continue
        keys.append(columns.make(key, key.name))
        if keys[-1] != key.name:
            renamed.append((keys[-1], key.name))
    lowered = columns.lowered(aggregation.aggregates)
    # An aggregation by other keys than its partition is refused later, as it was written.
    same = key_names(aggregation.keys) == key_names(partition.keys)
    clauses: list[Clause] = [
        *columns.applies,
        dataclasses.replace(partition, keys=tuple(keys)),
        dataclasses.replace(
            aggregation, keys=tuple(keys) if same else aggregation.keys, aggregates=lowered
        ),
    ]
    return [*clauses, Rename(tuple(renamed))] if renamed else clauses

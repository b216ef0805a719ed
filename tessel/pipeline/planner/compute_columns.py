"""Pass: compute what clauses that aggregate compute for themselves, in ``apply`` around them.

Before them those of the rows: keys and arguments of aggregates. The columns get names that no
column has, and are gone behind the clause: groupby and resample leave their keys and outputs alone,
and behind rolling and ewm stands a ``drop``. Equal expressions are computed once. A key whose name
is taken by a column of the table is renamed behind the clause.

Behind them what computes with the results of aggregates, which get names that no column has either;
a ``select`` of the outputs comes last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tessel.clauses.aggregation import Aggregation
from tessel.clauses.apply import Apply
from tessel.clauses.apply_together import together
from tessel.clauses.base import Clause
from tessel.clauses.computed import free_name, key_names
from tessel.clauses.partition import Partition
from tessel.clauses.results import AggregatingClause, NamedAggregate, is_itself
from tessel.clauses.select import Drop, Rename, Select
from tessel.expression.checking import rewrite
from tessel.expression.leaves import Column
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.commutation import is_one_of
from tessel.pipeline.planner.draft import Draft


def compute_columns(draft: Draft) -> Draft:
    """Put an ``apply`` before each clause that computes columns."""
    clauses: list[Clause] = []
    for clause, following, schema in draft.steps(Partition, Aggregation):
        if type(clause) is Partition and type(following) is Aggregation:
            clauses += _groupby(clause, following, schema)
        elif is_one_of(clause, ("resample",)):
            clauses += _resample(clause, schema)
        elif is_one_of(clause, ("ewm", "rolling")):
            clauses += _window(clause, schema)
        else:
            clauses.append(clause)
    return draft.replace(clauses=together(clauses))


def _window(clause: Clause, schema: TableSchema) -> list[Clause]:
    from tessel.clauses.ewm import Ewm
    from tessel.clauses.rolling import Rolling

    assert isinstance(clause, Rolling | Ewm)
    columns = _Columns(schema, clause)
    aggregates, results = columns.lowered(clause)
    lowered = dataclasses.replace(clause, aggregates=aggregates, results=())
    clauses: list[Clause] = [*columns.applies, lowered, *results]
    if results:
        clauses.append(Select(tuple(clause.output_schema(schema).names)))
    elif columns.applies:  # these keep the columns of their rows
        clauses.append(Drop(tuple(each.column for each in columns.applies)))
    return clauses


class _Columns:
    """The columns that are made for one clause."""

    def __init__(
        self,
        schema: TableSchema,
        clause: AggregatingClause,
        keys: Sequence[str | ComputedColumn] = (),
    ) -> None:
        self.applies: list[Apply] = []
        self.renamed: list[tuple[str, str]] = []
        self._taken = {*schema.names, *clause.output_names}
        self._taken |= {key for key in keys if isinstance(key, str)}
        self._made: dict[bytes, str] = {}

    def make(self, column: ComputedColumn, wanted: str) -> str:
        """Compute a column under a name of its own."""
        name = free_name(wanted, self._taken)
        self._taken.add(name)
        self.applies.append(Apply(name, column.expression))
        self._made.setdefault(column.expression.digest, name)
        return name

    def keys(self, keys: Sequence[str | ComputedColumn]) -> tuple[str, ...]:
        """Compute the keys that are expressions; note which are to be renamed behind the clause."""
        found: list[str] = []
        for key in keys:
            if isinstance(key, str):
                found.append(key)
                continue
            found.append(self.make(key, key.name))
            if found[-1] != key.name:
                self.renamed.append((found[-1], key.name))
        self._taken |= set(key_names(keys))
        return tuple(found)

    def lowered(self, clause: AggregatingClause) -> tuple[tuple[NamedAggregate, ...], list[Apply]]:
        """Compute the columns of aggregates, let them read those, and compute the results."""
        found: list[NamedAggregate] = []
        written = clause.output_names
        outputs: dict[str, str] = {}
        for each in clause.aggregates:
            names = {
                column.name: self._made.get(column.expression.digest)
                or self.make(column, column.name)
                for column in each.computed
            }
            output = each.output
            if output not in written:
                output = free_name(output, self._taken)
                self._taken.add(output)
            outputs[each.output] = output
            found.append(dataclasses.replace(each.with_inputs(names), output=output))

        def read(node: Expression) -> Expression:
            return Column(outputs[node.column]) if isinstance(node, Column) else node

        results = [
            Apply(each.name, rewrite(each.expression, read))
            for each in clause.results
            if not is_itself(each)
        ]
        return tuple(found), results


def _resample(clause: Clause, schema: TableSchema) -> list[Clause]:
    from tessel.clauses.resample import Resample

    assert isinstance(clause, Resample)
    columns = _Columns(schema, clause, clause.by)
    keys = columns.keys(clause.by)
    aggregates, results = columns.lowered(clause)
    lowered = dataclasses.replace(clause, by=keys, aggregates=aggregates, results=())
    return [*columns.applies, lowered, *_behind(clause, schema, columns, results)]


def _behind(
    clause: AggregatingClause, schema: TableSchema, columns: _Columns, results: Sequence[Apply]
) -> list[Clause]:
    """Return what stands behind a clause whose rows are keys and outputs."""
    renamed = [Rename(tuple(columns.renamed))] if columns.renamed else []
    if not clause.results:
        return [*renamed]
    return [*renamed, *results, Select(tuple(clause.output_schema(schema).names))]


def _groupby(partition: Partition, aggregation: Aggregation, schema: TableSchema) -> list[Clause]:
    columns = _Columns(schema, aggregation, partition.keys)
    keys = columns.keys(partition.keys)
    aggregates, results = columns.lowered(aggregation)
    # An aggregation by other keys than its partition is refused later, as it was written.
    same = key_names(aggregation.keys) == key_names(partition.keys)
    return [
        *columns.applies,
        dataclasses.replace(partition, keys=keys),
        dataclasses.replace(
            aggregation, keys=keys if same else aggregation.keys, aggregates=aggregates, results=()
        ),
        *_behind(aggregation, schema, columns, results),
    ]

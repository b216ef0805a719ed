"""Results that are computed of aggregates: what the clauses that aggregate share of them.

``agg(spread="max(price) - min(price)")`` aggregates twice and computes once. A clause holds the
aggregates, hidden ones under names that say what they are, and its outputs as expressions over
them; the planner makes the clause without results of it, an ``apply`` for each, and a ``select`` of
the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.computed import ComputedColumn
from tessel.clauses.named_aggregate import NamedAggregate, check_outputs
from tessel.errors import AggregateError, PlanError, nearest
from tessel.expression.leaves import Column
from tessel.expression.schema import TableSchema

__all__ = ["AggregatingClause", "is_itself"]


class AggregatingClause(Clause):
    """A clause with aggregates, of which its results may be computed.

    Attributes
    ----------
    aggregates
        What is aggregated.
    results
        The outputs where they are computed: expressions over the aggregates, by the names of their
        outputs. Without any the aggregates are the outputs.
    """

    aggregates: tuple[NamedAggregate, ...]
    results: tuple[ComputedColumn, ...] = ()

    def check_results(self, keys: Sequence[str]) -> None:
        """Refuse two outputs of one name, and results that are no expressions of the aggregates."""
        where = "groupby" if self.name == "aggregation" else self.name
        made = [each.output for each in self.aggregates]
        check_outputs([] if self.results else keys, made, where)
        if not self.results:
            return
        check_outputs(keys, [each.name for each in self.results], where)
        names = set(made)
        for result in self.results:
            for read in sorted(result.expression.columns() - names):
                match = nearest(read, sorted(names))
                raise AggregateError(
                    f"{where}: {result!r} reads {read!r}, which is none of the aggregates",
                    hint=(f"did you mean {match!r}?   " if match else "")
                    + f"aggregates: {sorted(names)}",
                    output=result.name,
                )
            if result.name in names and not is_itself(result):
                raise AggregateError(
                    f"{where}: {result!r} has the name of an aggregate, and is another",
                    hint="give the aggregate another output",
                    output=result.name,
                )

    @property
    def output_names(self) -> frozenset[str]:
        """The names of the outputs."""
        if self.results:
            return frozenset(each.name for each in self.results)
        return frozenset(each.output for each in self.aggregates)

    def output_fields(self, schema: TableSchema) -> list[pa.Field]:
        """Return the outputs, given the columns of the table; misuse is refused."""
        made = [pa.field(a.output, self.aggregate_type(a, schema)) for a in self.aggregates]
        if not self.results:
            return made
        of = TableSchema(pa.schema(made))
        return [pa.field(each.name, each.expression.result_type(of)) for each in self.results]

    def aggregate_type(self, aggregate: NamedAggregate, schema: TableSchema) -> pa.DataType:
        """Return the type of what an aggregate gives, given the columns of the table."""
        return aggregate.result_type(schema)

    def check_planned(self) -> None:
        """Refuse to run with results, which the planner computes."""
        if self.results:
            raise PlanError(
                f"{self.name}: the result {self.results[0]!r} is not computed yet",
                hint="the planner computes results of aggregates: give the clause to a query",
                output=self.results[0].name,
            )

    def to_json(self) -> dict[str, Any]:
        """Return the clause as plain data, with results only where it has some."""
        data: Mapping[str, Any] = super().to_json()
        return {name: value for name, value in data.items() if name != "results" or value}


def is_itself(result: ComputedColumn) -> bool:
    """Return whether a result is an aggregate as it is, under its own name."""
    return isinstance(result.expression, Column) and result.expression.column == result.name

"""One output of an aggregation: which aggregate of which column, under which name.

Results that are computed of aggregates: what the clauses that aggregate share of them.

``agg(spread="max(price) - min(price)")`` aggregates twice and computes once. A clause holds the
aggregates, hidden ones under names that say what they are, and its outputs as expressions over
them; the planner makes the clause without results of it, an ``apply`` for each, and a ``select`` of
the outputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tessel.cached import cached
from tessel.clauses.aggregates.base import Aggregate
from tessel.clauses.aggregates.registry import aggregate_from_json
from tessel.clauses.base import Clause
from tessel.clauses.computed import free_name, type_of_column
from tessel.errors import (
    AggregateError,
    DuplicateColumnError,
    PlanError,
    PlanFormatError,
    nearest,
    repeated,
)
from tessel.expression.leaves import Column
from tessel.expression.named import (
    ComputedColumn,
    expression_form,
    expression_from_form,
    shown_expression,
)
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.aggregate import Aggregated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

FORMS = 'x=("column", "sum"), x=col("column").sum() or x="sum(column)"'
"""How an output is written, for messages."""


@dataclass(frozen=True)
class NamedAggregate:
    """An aggregate of a column, and the name of the column that holds the result.

    Attributes
    ----------
    column
        What is aggregated; None for an aggregate that counts rows (``size``).
    further
        The other columns of an aggregate of several, such as a weight.
    computed
        Those of the columns that are expressions: the planner computes them first.
    """

    output: str
    column: str | None
    aggregate: Aggregate
    further: tuple[str, ...] = ()
    computed: tuple[ComputedColumn, ...] = ()

    @cached
    def inputs(self) -> tuple[str, ...]:
        """The names of what is aggregated, in order: one, none, or several."""
        return () if self.column is None else (self.column, *self.further)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the table that are read."""
        expressions = {each.name: each.expression for each in self.computed}
        stored = frozenset(name for name in self.inputs if name not in expressions)
        return stored.union(*(each.columns() for each in expressions.values()))

    def input_type(self, schema: TableSchema) -> pa.DataType | None:
        """Return the type of the values; None for an aggregate that reads none."""
        if self.column is None:
            return None
        kinds = [type_of_column(name, self.computed, schema) for name in self.inputs]
        if not self.further:
            return kinds[0]
        return pa.struct(list(zip(("value", *self.aggregate.further), kinds, strict=True)))

    def values(self, columns: Mapping[str, Any]) -> Any:
        """Return the values of columns by name; structs for an aggregate of several of them."""
        if self.column is None:
            return None
        if not self.further:
            return columns[self.column]
        names = ["value", *self.aggregate.further]
        inputs = [columns[name] for name in self.inputs]
        return pa.Table.from_arrays(inputs, names=names).to_struct_array()

    def result_type(self, schema: TableSchema) -> pa.DataType:
        """Return the type of the result; unknown columns and impossible aggregates are refused."""
        return self.aggregate.result_type(self.input_type(schema), self.column)

    def with_inputs(self, names: Mapping[str, str]) -> NamedAggregate:
        """Return the aggregate reading columns of the table under other names, none computed."""
        inputs = [names.get(name, name) for name in self.inputs]
        column = inputs[0] if inputs else None
        return dataclasses.replace(self, column=column, further=tuple(inputs[1:]), computed=())

    def to_json(self) -> dict[str, Any]:
        """Return the plain form."""
        forms: dict[str, Any] = {
            each.name: {"expression": expression_form(each.expression)} for each in self.computed
        }
        inputs = [forms.get(name, name) for name in self.inputs]
        data = {
            "output": self.output,
            "column": inputs[0] if inputs else None,
            "aggregate": self.aggregate.to_json(),
        }
        return data | {"further": inputs[1:]} if self.further else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NamedAggregate:
        """Rebuild from the plain form; raises ``PlanFormatError`` on anything else."""
        output, column, further = data.get("output"), data.get("column"), data.get("further", [])
        known = {"output", "column", "aggregate", "further"}
        if (
            not isinstance(output, str)
            or not isinstance(further, list)
            or not {"aggregate"} <= set(data) <= known
        ):
            raise PlanFormatError(f"not the plain form of an aggregate: {dict(data)!r}")
        columns = [] if column is None else [_input_from_json(column)]
        columns += [_input_from_json(each) for each in further]
        return named_aggregate(output, aggregate_from_json(data["aggregate"]), columns)

    @property
    def shown(self) -> str:
        """What is aggregated and how, for people."""
        shown = {each.name: shown_expression(each.expression) for each in self.computed}
        return self.aggregate.describe(*(shown.get(name, name) for name in self.inputs))

    def __repr__(self) -> str:
        return self.shown if self.output == self.shown else f"{self.output}={self.shown}"


def _input_from_json(form: Any) -> str | Expression:
    if isinstance(form, str):
        return form
    if isinstance(form, Mapping) and set(form) == {"expression"}:
        return expression_from_form(form["expression"])
    raise PlanFormatError(
        f"not the plain form of a column: {form!r}", hint='its name, or {"expression": "a * b"}'
    )


def named_aggregate(
    output: str, aggregate: Aggregate, columns: Sequence[str | Expression]
) -> NamedAggregate:
    """Bind an aggregate to columns by name and to expressions."""
    if not aggregate.reads_values:
        return NamedAggregate(output, None, aggregate)
    wanted = 1 + len(aggregate.further)
    if len(columns) != wanted:
        what = " and ".join(["column", *aggregate.further])
        needs = f"needs a {what}" if len(columns) < wanted else f"takes a {what} and no more"
        raise AggregateError(
            f"{output}: {aggregate.name} {needs}",
            hint=f"write {output}="
            + repr(("column", aggregate.name, *aggregate.further)).replace("'", '"'),
            output=output,
        )
    names: list[str] = []
    computed: list[ComputedColumn] = []
    taken = {each for each in columns if isinstance(each, str)}
    taken |= {each.column for each in columns if isinstance(each, Column)}
    for each in columns:
        if isinstance(each, Column):
            names.append(each.column)
        elif isinstance(each, Expression):
            _check_rows(output, each)
            name = free_name(f"({shown_expression(each)})", taken)
            taken.add(name)
            computed.append(ComputedColumn(name, each))
            names.append(name)
        elif isinstance(each, str):
            names.append(each)
        else:
            raise AggregateError(
                f"{output}: a column is named by text or is an expression, not {each!r}",
                hint=f"write {FORMS.replace('x=', output + '=')}",
                output=output,
            )
    return NamedAggregate(output, names[0], aggregate, tuple(names[1:]), tuple(computed))


def _check_rows(output: str, expression: Expression) -> None:
    for node in post_order(expression):
        if isinstance(node, Aggregated):
            raise AggregateError(
                f"{output}: {node} is an aggregate inside an aggregate",
                hint="aggregate in two steps: groupby(...).agg(...).groupby(...).agg(...)",
                output=output,
            )


def check_outputs(keys: Sequence[str], outputs: Sequence[str], clause: str) -> None:
    """Refuse two outputs of one name, a key among them included."""
    name = repeated([*keys, *outputs])
    if name is not None:
        raise DuplicateColumnError(
            f"{clause} would make two columns named {name!r}",
            hint='name the outputs: agg(total=("column", "sum"))',
            column=name,
        )


class AggregatingClause(Clause):
    """A clause with aggregates, of which its results may be computed.

    Attributes
    ----------
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

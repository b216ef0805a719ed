"""One output of an aggregation: which aggregate of which column, under which name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tessel.clauses.aggregates import Aggregate, aggregate_from_json, find_aggregate
from tessel.errors import AggregateError, DuplicateColumnError, PlanFormatError
from tessel.expression.schema import TableSchema

__all__ = ["AggregateLike", "NamedAggregate", "check_outputs", "named_aggregates"]

AggregateLike = str | Aggregate


@dataclass(frozen=True)
class NamedAggregate:
    """An aggregate of a column, and the name of the column that holds the result.

    Attributes
    ----------
    output
        Name of the result.
    column
        What is aggregated; None for an aggregate that counts rows (``size``).
    aggregate
        How.
    """

    output: str
    column: str | None
    aggregate: Aggregate

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are read: one, or none."""
        return frozenset() if self.column is None else frozenset([self.column])

    def input_type(self, schema: TableSchema) -> pa.DataType | None:
        """Return the type of the aggregated column; None for an aggregate that reads none."""
        return None if self.column is None else schema.type_of(self.column)

    def result_type(self, schema: TableSchema) -> pa.DataType:
        """Return the type of the result; unknown columns and impossible aggregates are refused."""
        return self.aggregate.result_type(self.input_type(schema), self.column)

    def to_json(self) -> dict[str, Any]:
        """Return the plain form."""
        aggregate = self.aggregate.to_json()
        return {"output": self.output, "column": self.column, "aggregate": aggregate}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NamedAggregate:
        """Rebuild from the plain form; raises ``PlanFormatError`` on anything else."""
        output, column = data.get("output"), data.get("column")
        is_text = isinstance(output, str) and (column is None or isinstance(column, str))
        if not is_text or "aggregate" not in data:
            raise PlanFormatError(f"not the plain form of an aggregate: {dict(data)!r}")
        return _named(str(output), column, aggregate_from_json(data["aggregate"]))

    def __repr__(self) -> str:
        return f"{self.output}={self.aggregate.describe(self.column or '')}"


def named_aggregates(
    by_column: Mapping[str, Any] | None, by_output: Mapping[str, Any]
) -> tuple[NamedAggregate, ...]:
    """Read the forms in which people write aggregates.

    Parameters
    ----------
    by_column
        ``{"qty": "sum"}`` makes a column ``qty``; ``{"qty": ["sum", "max"]}`` makes ``qty_sum`` and
        ``qty_max``; ``{"total": ("qty", "sum")}`` makes ``total``.
    by_output
        ``total=("qty", "sum")``; an aggregate of rows alone: ``rows="size"``.
    """
    found: list[NamedAggregate] = []
    for name, value in (by_column or {}).items():
        if isinstance(value, tuple):
            found.append(_from_pair(name, value))
        elif isinstance(value, list):
            found += [_named(f"{name}_{each.name}", name, each) for each in map(_aggregate, value)]
        else:
            found.append(_named(name, name, _aggregate(value)))
    found += [_from_pair(name, value) for name, value in by_output.items()]
    if not found:
        raise AggregateError(
            "agg needs at least one aggregate", hint='write agg(total=("column", "sum"))'
        )
    return tuple(found)


def _named(output: str, column: str | None, aggregate: Aggregate) -> NamedAggregate:
    if not aggregate.reads_values:
        column = None
    elif column is None:
        raise AggregateError(
            f"{output}: {aggregate.name} needs a column",
            hint=f'write {output}=("column", "{aggregate.name}")',
            output=output,
        )
    return NamedAggregate(output, column, aggregate)


def _from_pair(output: str, value: Any) -> NamedAggregate:
    if isinstance(value, str | Aggregate):
        return _named(output, None, _aggregate(value))
    if not (isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2):
        raise AggregateError(
            f"{output}={value!r} is not a column and an aggregate",
            hint=f'write {output}=("column", "sum")',
            output=output,
        )
    column, aggregate = value
    if not isinstance(column, str):
        raise AggregateError(
            f"{output}: the column is named by text, not by {column!r}",
            hint="make the column with apply first",
            output=output,
        )
    return _named(output, column, _aggregate(aggregate))


def _aggregate(value: Any) -> Aggregate:
    if isinstance(value, Aggregate):
        return value
    if isinstance(value, str):
        return find_aggregate(value)
    raise AggregateError(
        f"{value!r} is not an aggregate", hint='name it by text, such as "sum"', value=repr(value)
    )


def check_outputs(keys: Sequence[str], aggregates: Sequence[NamedAggregate], clause: str) -> None:
    """Refuse two outputs of one name, a key among them included."""
    names = [*keys, *(each.output for each in aggregates)]
    for name in names:
        if names.count(name) > 1:
            raise DuplicateColumnError(
                f"{clause} would make two columns named {name!r}",
                hint='name the outputs: agg(total=("column", "sum"))',
                column=name,
            )

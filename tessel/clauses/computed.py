"""Columns that a clause computes for itself: keys and aggregated values that are expressions.

``groupby(day=col("time").floor("1d"))`` groups by a column that the table does not have. The clause
holds its name and its expression; the planner makes an ``apply`` of it before the clause, under a
name that no column has, so that nobody sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tessel.clauses.plain import expression_form, expression_from_form
from tessel.errors import PlanError, PlanFormatError
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, eq=False)
class ComputedColumn:
    """A name, and the expression whose values stand under it.

    Attributes
    ----------
    name
        What the clause calls the column.
    expression
        What is computed of each row.
    """

    name: str
    expression: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(f"a computed column needs a name, not {self.name!r}")
        if not isinstance(self.expression, Expression):
            raise PlanError(
                f"{self.name} is computed by an expression, not by {self.expression!r}",
                hint='col("a") + col("b"), or text read by parse("a + b")',
            )

    def to_json(self) -> dict[str, Any]:
        """Return the plain form."""
        return {"name": self.name, "expression": expression_form(self.expression)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ComputedColumn:
        """Rebuild from the plain form; raises ``PlanFormatError`` on anything else."""
        if set(data) != {"name", "expression"} or not isinstance(data["name"], str):
            raise PlanFormatError(
                f"not the plain form of a computed column: {dict(data)!r}",
                hint='write {"name": "day", "expression": "floor(time, \'1d\')"}',
            )
        return cls(data["name"], expression_from_form(data["expression"]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ComputedColumn)
            and self.name == other.name
            and self.expression.equals(other.expression)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.expression.digest))

    def __repr__(self) -> str:
        return f"{self.name}={shown_expression(self.expression)}"


def shown_expression(expression: Expression) -> str:
    """Return the text of an expression for people, cut where it is long."""
    text = str(expression)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def free_name(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken, the wanted one or with a number behind it."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted} {number}"
    return name


def type_of_column(
    name: str, computed: tuple[ComputedColumn, ...], schema: TableSchema
) -> pa.DataType:
    """Return the type of a column of the table, or of one of those that are computed."""
    for column in computed:
        if column.name == name:
            return column.expression.result_type(schema)
    return schema.type_of(name)


# --- keys -----------------------------------------------------------------------------------------


def key_names(keys: Sequence[str | ComputedColumn]) -> tuple[str, ...]:
    """Return the names that keys have in the result."""
    return tuple(key if isinstance(key, str) else key.name for key in keys)


def columns_of_keys(keys: Sequence[str | ComputedColumn]) -> frozenset[str]:
    """Return the columns of the table that keys are made of."""
    stored = frozenset(key for key in keys if isinstance(key, str))
    return stored.union(*(k.expression.columns() for k in keys if not isinstance(k, str)))


def types_of_keys(
    keys: Sequence[str | ComputedColumn], schema: TableSchema
) -> list[tuple[str, pa.DataType]]:
    """Return names and types of keys; unknown columns are refused."""
    schema.require(tuple(key for key in keys if isinstance(key, str)))
    return [
        (key, schema.type_of(key))
        if isinstance(key, str)
        else (key.name, key.expression.result_type(schema))
        for key in keys
    ]


def stored_names(keys: Sequence[str | ComputedColumn]) -> tuple[str, ...]:
    """Return keys that are all columns of the table, as the planner makes them."""
    for key in keys:
        if not isinstance(key, str):
            raise PlanError(
                f"the key {key!r} is not computed yet",
                hint="the planner computes keys of a groupby before it runs: give the clauses to "
                "a query",
                key=key.name,
            )
    return tuple(key for key in keys if isinstance(key, str))

"""A query on its way through the planner."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

from tessel.clauses.base import Clause
from tessel.expression.schema import TableSchema

__all__ = ["Draft"]


@dataclass(frozen=True)
class Draft:
    """The clauses on one symbol, and what was learnt of them.

    Attributes
    ----------
    schema
        The columns of the input: all of them, until a pass finds those that are read.
    clauses
        What is to run, in order.
    pruning
        Clauses asked to prune the index, in order. Those that are positional cut it exactly and
        are in ``clauses`` no more; the others still run.
    columns
        The columns to read; None is all.
    bytes
        Estimated bytes of the input.
    workers
        Slots that the plan is made for.
    bucket_bytes
        Aimed-for bytes of a hash bucket.
    """

    schema: TableSchema
    clauses: tuple[Clause, ...]
    pruning: tuple[Clause, ...] = ()
    columns: tuple[str, ...] | None = None
    bytes: int = 0
    workers: int = 1
    bucket_bytes: int = 32 * 1024 * 1024

    def replace(self, **changes: object) -> Self:
        """Return the draft with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def schemas(self) -> list[TableSchema]:
        """Return the schema before the first clause and after each."""
        schemas = [self.schema]
        for clause in self.clauses:
            schemas.append(clause.output_schema(schemas[-1]))
        return schemas

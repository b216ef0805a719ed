"""Scalar subqueries: buckets that begin at the first or the last time, which is found out first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard, cast

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.combining import SubQuery
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Plan, Question

if TYPE_CHECKING:
    from tessel.clauses.resample import Resample


def asks_for_origin(clause: Clause) -> TypeGuard[Resample]:
    """Return whether the buckets of a clause depend on a time of the rows that is not known yet."""
    return bool(getattr(clause, "asks", False))


def plan_question(
    query: SubQuery, at: int, schema: TableSchema, plan: Callable[[SubQuery], Plan]
) -> Plan:
    """Return the plan of a query with a resample that asks for its origin.

    Its shape is that of an answer from no rows, for people to look at; its question makes the plan
    that is run. What the clauses before drop is dropped before it is asked, and the answer may be
    followed by more questions.
    """
    clause = cast("Resample", query.clauses[at])
    clause.output_schema(schema)  # misuse is refused before anything is asked
    before, after = query.clauses[:at], query.clauses[at + 1 :]

    def revise(answer: pa.Table) -> Plan:
        known = clause.answered(answer)
        return plan(dataclasses.replace(query, clauses=(*before, known, *after)))

    asking = plan(dataclasses.replace(query, clauses=(*before, *clause.question(schema))))
    shape = revise(asking.schema.empty())
    return dataclasses.replace(shape, question=Question(asking, revise))

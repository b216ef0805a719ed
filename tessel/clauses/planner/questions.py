"""Clauses that must know something of all their input: the plan that asks first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from tessel.clauses.capabilities import Asks
from tessel.clauses.combining import SubQuery
from tessel.clauses.plan import Plan, Question
from tessel.expression.schema import TableSchema

__all__ = ["plan_question"]


def plan_question(
    query: SubQuery, at: int, schema: TableSchema, plan: Callable[[SubQuery], Plan]
) -> Plan:
    """Return the plan of a query with a clause that asks.

    Its shape is that of an answer from no rows, for people to look at; its question makes the plan
    that is run. What the clauses before drop is dropped before it is asked, and the answer may be
    followed by more questions.

    Parameters
    ----------
    query, at
        The query, and the position of the clause.
    schema
        What the clause gets.
    plan
        Plans a query.
    """
    clause = query.clauses[at]
    assert isinstance(clause, Asks)
    clause.output_schema(schema)  # misuse is refused before anything is asked
    before, after = query.clauses[:at], query.clauses[at + 1 :]

    def revise(answer: pa.Table) -> Plan:
        known = clause.answered(answer)
        return plan(dataclasses.replace(query, clauses=(*before, known, *after)))

    asking = plan(dataclasses.replace(query, clauses=(*before, *clause.question(schema))))
    shape = revise(asking.schema.empty())
    return dataclasses.replace(shape, question=Question(asking, revise))

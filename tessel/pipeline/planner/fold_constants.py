"""Pass: compute what is the same in every row once, and settle predicates that follow from it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tessel.clauses.apply import Apply
from tessel.clauses.apply_together import ApplyTogether
from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.errors import TesselError
from tessel.expression.build import lit
from tessel.expression.leaves import Column, Literal
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And, Or
from tessel.expression.schema import TableSchema
from tessel.expression.types import Family, family
from tessel.pipeline.planner.draft import Draft

_NOT_FOLDED = (Family.TEXT, Family.NULL)
"""A text literal is read as an instant or a number where it stands beside one; text that was
computed is not. A null literal has no type."""


def fold_constants(draft: Draft) -> Draft:
    """Replace constant sub-expressions by their value, and predicates that are known by it.

    A filter that keeps every row falls away; one that keeps none becomes ``filter(false)``. What
    cannot be computed stays as it is: it raises, as written, when a row reaches it.
    """
    return draft.rewritten(_settled)


def _settled(clause: Clause, schema: TableSchema) -> list[Clause]:
    if type(clause) is Apply:
        value = _folded(clause.expression, schema)
        return [clause if value is clause.expression else Apply(clause.column, value)]
    if type(clause) is ApplyTogether:
        values = [_folded(each.expression, known) for each, known in clause.in_turn(schema)]
        made = map(ComputedColumn, (each.name for each in clause.columns), values)
        same = all(v is each.expression for v, each in zip(values, clause.columns, strict=True))
        return [clause if same else ApplyTogether(tuple(made))]
    if type(clause) is not Filter:
        return [clause]
    from tessel.expression.intervals import FALSE, TRUE

    predicate = _folded(clause.predicate, schema)
    proof = _proof(predicate, schema)
    if proof == TRUE:
        return []
    if proof == FALSE:
        return [Filter(lit(False), clause.optimise)]
    return [clause if predicate is clause.predicate else Filter(predicate, clause.optimise)]


def _folded(expression: Expression, schema: TableSchema) -> Expression:
    """Return the expression with constants computed; itself where its type would be another."""
    from tessel.expression.checking import rewrite

    def value(node: Expression) -> Expression:
        if isinstance(node, And | Or):
            node = _without_idle_operands(node)
        operands = node.children
        if not operands or not all(isinstance(each, Literal) for each in operands):
            return node
        try:
            from tessel.expression.evaluate import evaluate

            (scalar,) = evaluate(node, _ONE_ROW)
            folded = lit(scalar)
        except TesselError:
            return node
        return node if family(scalar.type) in _NOT_FOLDED or not scalar.is_valid else folded

    found = rewrite(expression, value)
    if found is expression:
        return expression
    try:
        same = found.result_type(schema) == expression.result_type(schema)
    except TesselError:
        return expression
    return found if same else expression


_ONE_ROW = pa.table({"": pa.nulls(1)})


def _without_idle_operands(node: And | Or) -> Expression:
    """Return a chain without the operands that decide nothing, cut where one decides it all.

    What stands after an operand that decides everything was reached by no row.
    """
    decisive = isinstance(node, Or)
    operands: list[Expression] = []
    for operand in node.operands:
        if isinstance(operand, Literal) and operand.kind == "bool":
            if operand.value is decisive:
                return operand
            continue
        operands.append(operand)
    if len(operands) == len(node.operands):
        return node
    if not operands:
        return lit(not decisive)
    if len(operands) > 1:
        return type(node)(tuple(operands))
    return operands[0]


def _proof(predicate: Expression, schema: TableSchema) -> int:
    """Return what is known of a predicate where nothing but the schema is known."""
    from tessel.expression.intervals import evaluate_statistics

    if isinstance(predicate, Column):
        return 0
    return int(evaluate_statistics(predicate, _AnyRows(schema), schema)[0])


class _AnyFacts:
    """A column of which nothing is known, but that an index is never missing."""

    minimum = maximum = pa.nulls(1)
    minimum_exact = maximum_exact = np.zeros(1, dtype=bool)
    numbers = None

    def __init__(self, missing: int) -> None:
        self.missing = np.array([missing])


class _AnyRows:
    """One row slice that may hold any rows."""

    row_counts = np.ones(1, dtype=np.int64)

    def __init__(self, schema: TableSchema) -> None:
        self._index = schema.index

    def facts(self, name: str) -> _AnyFacts:
        return _AnyFacts(0 if name == self._index else -1)

"""Steps of a query as plain data, and the query that they make.

A chain is a list of :class:`Step`, each a verb of the builder with its arguments. Conditions and
values are small trees (:class:`Tree`), so that whoever interprets a chain needs no parser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from tessel.clauses.builder import QueryBuilder
from tessel.clauses.combining import SubQuery
from tessel.expression.build import col, lit, when
from tessel.expression.node import Expression
from tessel.lazy import dataclass

__all__ = ["Step", "Tree", "build", "expression_of"]


@dataclass(frozen=True)
class Tree:
    """A condition or a value: an operator and what it works on.

    Attributes
    ----------
    operator
        ``"column"``, ``"literal"``, a comparison such as ``"<"``, ``"and"``, ``"or"``, ``"not"``,
        ``"missing"``, ``"in"``, ``"between"``, ``"+"``, ``"*"``, ``"/"`` or ``"when"``.
    operands
        Trees, or plain values for columns and literals.
    """

    operator: str
    operands: tuple[Any, ...]


_BUILD: dict[str, Callable[..., Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: ~a,
    "missing": lambda a: a.is_missing(),
    "between": lambda a, low, high: a.between(low, high),
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "when": lambda c, a, b: when(c).then(a).otherwise(b),
}


def expression_of(tree: Tree) -> Expression:
    """Return the expression of a tree."""
    if tree.operator == "column":
        return col(tree.operands[0])
    if tree.operator == "literal":
        return lit(tree.operands[0])
    if tree.operator == "in":
        return expression_of(tree.operands[0]).is_in(list(tree.operands[1]))
    made: Expression = _BUILD[tree.operator](*(expression_of(each) for each in tree.operands))
    return made


@dataclass(frozen=True)
class Step:
    """One verb of a query with its arguments.

    Attributes
    ----------
    verb
        ``filter``, ``apply``, ``select``, ``drop``, ``rename``, ``date_range``, ``head``, ``tail``,
        ``row_range``, ``sort``, ``top_k``, ``distinct``, ``groupby``, ``agg``, ``resample``,
        ``concat``, ``join`` or ``join_asof``.
    arguments
        As the verb takes them; trees for expressions, a list of steps for what another symbol runs
        first.
    """

    verb: str
    arguments: dict[str, Any] = field(default_factory=dict)


def build(steps: Sequence[Step], query: QueryBuilder | None = None) -> QueryBuilder:
    """Return the query of a chain of steps."""
    query = query or QueryBuilder()
    for step in steps:
        query = _BUILDERS.get(step.verb, _plain_verb(step.verb))(query, **step.arguments)
    return query


def _plain_verb(verb: str) -> Callable[..., QueryBuilder]:
    def add(query: QueryBuilder, **arguments: Any) -> QueryBuilder:
        made: QueryBuilder = getattr(query, verb)(**arguments)
        return made

    return add


def _outputs(aggregates: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
    return {
        name: how if column is None else (column, how) for name, (column, how) in aggregates.items()
    }


_BUILDERS: dict[str, Callable[..., QueryBuilder]] = {
    "filter": lambda q, condition: q.filter(expression_of(condition)),
    "apply": lambda q, name, value: q.apply(name, expression_of(value)),
    "select": lambda q, columns: q.select(columns),
    "distinct": lambda q, columns, keep: q.distinct(columns, keep=keep),
    "drop": lambda q, columns: q.drop(columns),
    "rename": lambda q, columns: q.rename(columns),
    "agg": lambda q, aggregates: q.agg(**_outputs(aggregates)),
    "groupby": lambda q, keys, aggregates, sort, drop_missing: q.groupby(
        keys, sort=sort, drop_missing=drop_missing
    ).agg(**_outputs(aggregates)),
    "resample": lambda q, rule, aggregates, **options: q.resample(rule, **options).agg(
        **_outputs(aggregates)
    ),
    "concat": lambda q, symbol, steps, join: q.concat(
        SubQuery(symbol, None, build(steps).clauses), join=join
    ),
    "join": lambda q, symbol, steps, on, how, suffix: q.join(
        SubQuery(symbol, None, build(steps).clauses), on, how, suffix=suffix
    ),
    "join_asof": lambda q, symbol, steps, by, direction, exact: q.join_asof(
        SubQuery(symbol, None, build(steps).clauses),
        by=by,
        direction=direction,
        allow_exact_matches=exact,
    ),
}

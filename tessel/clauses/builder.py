"""QueryBuilder: how people write a query. Immutable: every verb returns a new one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessel.cached import cached
from tessel.clauses.base import Clause
from tessel.clauses.combining import check_fields, check_nesting, clauses_from_json
from tessel.clauses.plain import check_flags, check_texts
from tessel.clauses.verbs import Verbs
from tessel.errors import PlanError, PlanFormatError
from tessel.errors.arguments import checks_arguments, refuses
from tessel.expression.build import col
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

PLAN_FORMAT = 1


@checks_arguments
@dataclass(frozen=True, eq=False, init=False, repr=False)
class QueryBuilder(Verbs):
    """A query: an immutable list of clauses, not bound to a symbol or store.

    Examples
    --------
    >>> q = QueryBuilder().filter("price > 100").groupby("symbol").agg(total=("qty", "sum"))
    >>> q = q[q["total"] > 1000].head(10)

    Two builders are equal when their plain forms are.
    """

    _added: tuple[Clause, ...]
    _before: QueryBuilder | None

    def __init__(self, clauses: tuple[Clause, ...] = ()) -> None:
        if not isinstance(clauses, tuple):  # what is in it, ``then`` and the planner check
            raise PlanError(
                f"the clauses of a query are a tuple, not {clauses!r:.80}",
                hint="QueryBuilder().filter(...).head(10)",
            )
        object.__setattr__(self, "_added", clauses)
        object.__setattr__(self, "_before", None)

    def __bool__(self) -> bool:
        return True  # also without clauses

    if not TYPE_CHECKING:  # for those who try
        __call__ = refuses("a query is no function", '.filter("price > 1") adds a step to one')
        __len__ = refuses(
            "a query has no rows",
            'store.read("trades", query=q) gives rows; q.clauses are its steps',
        )

    @cached
    def clauses(self) -> tuple[Clause, ...]:
        """What runs, in order."""
        # Each builder holds what it added to another: so many verbs take linear time.
        added = [self._added]
        before = self._before
        while before is not None and "clauses" not in before.__dict__:
            added.append(before._added)
            before = before._before
        first = () if before is None else before.clauses
        return tuple(itertools.chain(first, *reversed(added)))

    def then(self, *clauses: Clause) -> QueryBuilder:
        """Return the query with clauses added at the end: the way in for clauses of your own.

        Examples
        --------
        >>> shared = ts.QueryBuilder().filter("qty > 2").clauses
        >>> ts.QueryBuilder().head(3).then(*shared)
        QueryBuilder()
          .head(n=3)
          .filter(qty > 2)
        """
        for clause in clauses:
            if not isinstance(clause, Clause):
                raise PlanError(
                    f"{clause!r} is not a clause", hint="pass an instance: q.then(MyClause(...))"
                )
            check_texts(clause, f"a text of {clause.name}")
            check_flags(clause)
        longer = QueryBuilder(clauses)
        object.__setattr__(longer, "_before", self)
        return longer

    def __getitem__(self, item: Any) -> Any:
        """``q["price"]`` is a column; ``q[predicate]`` filters; ``q[["a", "b"]]`` selects."""
        if isinstance(item, str):
            return col(item)
        if isinstance(item, Expression):
            return self.filter(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        raise PlanError(
            f"a query is not indexed by {item!r}",
            hint='q["column"], q[condition], or q.row_range(start, stop)',
        )

    def schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the result for an input, without data; misuse is refused here.

        Examples
        --------
        >>> ts.QueryBuilder().select("qty").schema(store.schema("trades")).names
        ['qty']
        """
        for clause in self.clauses:
            input_schema = clause.output_schema(input_schema)
        return input_schema

    def to_json(self) -> dict[str, Any]:
        """Return the plain form: ``{"tessel_plan": 1, "clauses": [...]}``.

        Examples
        --------
        >>> ts.QueryBuilder().head(2).to_json()
        {'tessel_plan': 1, 'clauses': [{'clause': 'head', 'n': 2}]}
        """
        clauses = [clause.to_json() for clause in self.clauses]
        return {"tessel_plan": PLAN_FORMAT, "clauses": clauses}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> QueryBuilder:
        """Rebuild a query from its plain form, or the text of it.

        Raises
        ------
        PlanFormatError
            For anything that is not the plain form of a query.
        NameNotFoundError
            For a clause that is not installed here.

        Examples
        --------
        >>> ts.QueryBuilder.from_json(ts.QueryBuilder().head(2).to_json())
        QueryBuilder()
          .head(n=2)
        """
        if isinstance(data, str):
            data = _decoded(data)
        if not isinstance(data, Mapping) or data.get("tessel_plan") != PLAN_FORMAT:
            raise PlanFormatError(
                "not the plain form of a query",
                hint=f'it starts {{"tessel_plan": {PLAN_FORMAT}, "clauses": [...]}}',
            )
        check_fields(data, ("tessel_plan", "clauses"))
        check_nesting(data)
        return cls(clauses_from_json(data.get("clauses")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryBuilder) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return (QueryBuilder.from_json, (json.dumps(self.to_json()),))


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise PlanFormatError(
            "the text of a plan is nested too deeply to be read",
            hint="queries within queries are limited by the option max_query_depth",
            option="max_query_depth",
        ) from error
    except ValueError as error:  # also for a number of too many digits
        raise PlanFormatError(f"the text of a plan is not JSON: {error}") from error

"""The verbs of a query, a family a module: how the methods are spelled that add clauses.

A family holds typed methods and their documentation, and no logic: a verb reads its arguments and
adds a clause. Clauses that have no method here, also those of other people, are verbs all the same,
by their names.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tessel.clauses.base import Clause
from tessel.clauses.registry import clause_names, find_clause
from tessel.clauses.verbs.arguments import QueryType
from tessel.clauses.verbs.columns import ColumnVerbs
from tessel.clauses.verbs.combining import CombiningVerbs
from tessel.clauses.verbs.grouping import GroupingVerbs
from tessel.clauses.verbs.ordered import OrderedVerbs
from tessel.clauses.verbs.rows import RowVerbs
from tessel.display.shown import InNotebooks
from tessel.errors import NameNotFoundError, UnknownVerbError
from tessel.errors.arguments import checks_arguments, explain_misfits, refuses

__all__ = ["Verbs"]

if TYPE_CHECKING:
    from tessel.display.documents import Document


@checks_arguments
class Verbs(RowVerbs, ColumnVerbs, GroupingVerbs, OrderedVerbs, CombiningVerbs, InNotebooks):
    """The verbs of a query, shared by :class:`QueryBuilder` and lazy tables.

    A subclass says what a new query with one more clause is (``then``).
    """

    _kind = "builder"

    @property
    def _title(self) -> str:
        return "QueryBuilder()"

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """What runs, in order."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._title + "".join(f"\n  .{clause.describe()}" for clause in self.clauses)

    def _document(self) -> Document:
        """Return what a notebook shows: the clauses."""
        from tessel.display.documents import Document, Tree

        lines = tuple(Tree(clause.describe()) for clause in self.clauses)
        return Document("", (Tree(self._title, (), lines),))

    def __dir__(self) -> list[str]:
        public = {name for name in clause_names() if not find_clause(name).internal}
        return sorted({*super().__dir__(), *public})

    if not TYPE_CHECKING:  # else no misspelt verb would be found before it runs
        __setitem__ = refuses(
            "a query is never changed: each verb returns a new one",
            '.with_columns(twice=ts.col("price") * 2)',
        )

        def __getattr__(self, name: str) -> Any:
            # Reached only for names that are no verbs above: registered clauses are verbs too.
            if name.startswith("_"):  # others ask for these to see what an object is
                raise AttributeError(name)
            try:
                found = find_clause(name)
            except NameNotFoundError:
                found = None
            if found is not None and not found.internal:
                return functools.partial(_then_clause, self, found)
            from tessel.clauses.aggregates.registry import aggregate_names
            from tessel.errors.foreign_names import foreign_name, missing_attribute

            known = foreign_name(name, (self._kind, "query"))
            if known is None and not hasattr(type(self), name) and name in aggregate_names():
                raise UnknownVerbError.before_agg(name, "rows", is_how=True)
            return missing_attribute(self, name, self._kind, "query")


def _then_clause(
    query: QueryType, clause: type[Clause], *arguments: Any, **named: Any
) -> QueryType:
    try:
        made = clause(*arguments, **named)
    except Exception as error:
        explain_misfits(clause, clause.name, arguments, named, error)
        raise
    return query.then(made)

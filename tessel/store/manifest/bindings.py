"""What clauses bind to rows that are not read: conjuncts, bounds, computed columns, other names.

It is symbolic: it knows columns and types, and no row. All batches of a query begin with the same
:class:`Bindings`, which keep what each binding led to; so what a clause means is worked out at the
first batch, and found at those after it, also by the next query with the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.lru_cache import LruCache

if TYPE_CHECKING:
    from tessel.expression.node import Expression


@dataclass(frozen=True, eq=False)
class Conjunct:
    """Rows pass where ``predicate`` is true.

    Attributes
    ----------
    predicate
        In the names inside of the batch.
    stored
        Whether it reads a column: those are stored ones, what is computed is part of it.
    may_raise
        Whether it may have no result for a row.
    """

    predicate: Expression
    stored: bool
    may_raise: bool
    clause: str


@dataclass(frozen=True, eq=False)
class IndexBounds:
    """Rows pass where the time index lies in ``[low, high)``; None is no bound."""

    low: int | None
    high: int | None
    clause: str


@dataclass(frozen=True, eq=False)
class Computed:
    """A column, under its name inside of the batch; it may have no result for a row."""

    name: str
    expression: Expression
    may_raise: bool
    clause: str


Bound = Conjunct | IndexBounds | Computed
_Needed = tuple[list[Conjunct | Computed], list[str]]

_DEEPEST = 32
"""A predicate on columns computed in more steps waits for them: each would be done once more."""

_MOST_COMPILED = 64
"""Segments of more forms than this hardly share programs; dictionaries are part of a form."""

_MOST_MEMOS = 64
"""More different bindings come from a clause that binds other things to each unit."""


class Bindings:
    """What is bound to rows of one schema, in the order in which it was written.

    Immutable: every operation returns others, the same ones where it was asked for before.

    Attributes
    ----------
    columns
        The name inside of the batch for every column of ``schema``: what is stored keeps the name
        that it is stored under, what is computed has one of its own.
    compiled
        What was compiled of it and of questions about its rows, by the forms of stored columns.
    """

    def __init__(self, source: TableSchema) -> None:
        self.source = source
        self.schema = source
        self.columns: Mapping[str, str] = {name: name for name in source.names}
        self.steps: tuple[Bound, ...] = ()
        self._inlined: Mapping[str, tuple[Expression, int]] = {}
        self._forget()

    # --- binding ----------------------------------------------------------------------------------

    def filter(self, predicate: Expression, clause: str) -> Bindings:
        """Bind a conjunct: the last of the steps."""
        from tessel.expression.checking import cannot_raise

        def bind(found: Bindings) -> None:
            may_raise = not cannot_raise(predicate, self.schema)
            renamed = self._renamed(predicate)
            inside, _ = self._of_stored(renamed)
            stored = bool(inside.columns()) and self._inlined.keys().isdisjoint(inside.columns())
            bound = Conjunct(inside if stored else renamed, stored, may_raise, clause)
            found.steps = (*self.steps, bound)

        return self._bound(("filter", predicate.digest, clause), bind)

    def between(self, low: int | None, high: int | None, clause: str) -> Bindings:
        """Bind bounds of the time index."""

        def bind(found: Bindings) -> None:
            found.steps = (*self.steps, IndexBounds(low, high, clause))

        return self._bound(("between", low, high, clause), bind)

    def with_columns(self, columns: Mapping[str, Expression], clause: str) -> Bindings:
        """Bind columns that are added, or replaced; each reads those before it."""
        from tessel.expression.checking import cannot_raise

        def bind(found: Bindings) -> None:
            types: dict[str, pa.DataType] = {}
            found._inlined, found.columns = inlined, names = dict(self._inlined), dict(self.columns)
            made = list(self.steps)
            for name, each in columns.items():
                schema = self.schema.of_columns(each.columns(), types)
                types[name], may_raise = each.result_type(schema), not cannot_raise(each, schema)
                inside = found._renamed(each)
                own, number = name, len(inlined)
                while own in inlined or own in self.source:
                    number += 1
                    own = f"{name}\0{number}"
                made.append(Computed(own, inside, may_raise, clause))
                inlined[own] = found._of_stored(inside)
                names[name] = own
            found.steps = tuple(made)
            found.schema = self.schema.with_columns(types)

        key = tuple((name, each.digest) for name, each in columns.items())
        return self._bound(("with_columns", key, clause), bind)

    def select(self, names: Sequence[str]) -> Bindings:
        """Keep these columns, in this order."""

        def bind(found: Bindings) -> None:
            found.schema = self.schema.select(names)
            found.columns = {name: self.columns[name] for name in names}

        return self._bound(("select", tuple(names)), bind)

    def rename(self, names: Mapping[str, str]) -> Bindings:
        """Give columns other names, all at once."""

        def bind(found: Bindings) -> None:
            found.schema = self.schema.rename(names)
            found.columns = {names.get(name, name): own for name, own in self.columns.items()}

        return self._bound(("rename", tuple(names.items())), bind)

    def without_conditions(self) -> Bindings:
        """Drop what rows have to pass, for rows that have passed it."""

        def bind(found: Bindings) -> None:
            found.steps = tuple(each for each in self.steps if isinstance(each, Computed))

        return self._bound("without conditions", bind)

    # --- looking ----------------------------------------------------------------------------------

    def can_filter(self, predicate: Expression) -> bool:
        """Return whether an expression reads columns and is true or false of a row.

        Raises TesselError where it does not fit the columns.
        """

        def found() -> bool:
            kind = predicate.result_type(self.schema)
            is_truth = pa.types.is_boolean(kind) or pa.types.is_null(kind)
            return is_truth and bool(predicate.columns())

        return self._filters.get_or_make(predicate.digest, found)

    def are_stored(self, names: Iterable[str]) -> bool:
        """Return whether columns, as the next clause sees them, are stored and not computed."""
        return self._inlined.keys().isdisjoint(map(self.columns.__getitem__, names))

    @property
    def may_raise(self) -> bool:
        """Whether something may have no result for a row."""
        return any(each.may_raise for each in self.steps if not isinstance(each, IndexBounds))

    @property
    def may_raise_behind(self) -> bool:
        """Whether a column may have no result for a row that conditions leave."""
        return any(each.may_raise for each in self.steps if isinstance(each, Computed))

    @property
    def keeps_rows(self) -> bool:
        """Whether no row is dropped."""
        return all(isinstance(each, Computed) for each in self.steps)

    @property
    def keeps_names(self) -> bool:
        """Whether the columns are stored ones, under the names that they are stored under."""
        return all(name == own for name, own in self.columns.items()) and not any(
            isinstance(each, Computed) for each in self.steps
        )

    def needed(self, names: tuple[str, ...], passed: tuple[Conjunct, ...]) -> _Needed:
        """Return the steps that columns are made by, and the stored columns that both read.

        Predicates on stored columns come first, and the rest is computed for the rows that they
        leave: the caller has seen that nothing raises.

        Parameters
        ----------
        passed
            Conjuncts that are known to be true of all rows.
        """
        key = names, passed
        return self._needed.get_or_make(key, lambda: self._found_needed(names, passed))

    # --- inside -----------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._next: LruCache[Hashable, Bindings] = LruCache(_MOST_MEMOS)
        self._needed: LruCache[Hashable, _Needed] = LruCache(_MOST_MEMOS)
        self._filters: LruCache[Hashable, bool] = LruCache(_MOST_MEMOS)
        self.compiled: LruCache[Hashable, Any] = LruCache(_MOST_COMPILED)

    def _found_needed(self, names: tuple[str, ...], passed: tuple[Conjunct, ...]) -> _Needed:
        needed = {self.columns[name] for name in names}
        true = set(map(id, passed))
        used: list[Conjunct | Computed] = []
        for each in reversed(self.steps):
            if (
                isinstance(each, IndexBounds)
                or id(each) in true
                or (isinstance(each, Computed) and not each.may_raise and each.name not in needed)
            ):
                continue
            needed |= (each.predicate if isinstance(each, Conjunct) else each.expression).columns()
            used.append(each)
        used.reverse()
        used.sort(key=lambda each: isinstance(each, Computed) or not each.stored)
        return used, sorted(needed.intersection(self.source.names))

    def _bound(self, key: Hashable, bind: Callable[[Bindings], None]) -> Bindings:
        found = self._next.get(key)
        if found is None:
            found = Bindings.__new__(Bindings)
            found.__dict__.update(self.__dict__)
            found._forget()
            bind(found)
            self._next.put(key, found)
        return found

    def _of_stored(self, expression: Expression) -> tuple[Expression, int]:
        """Return an expression with what is computed put in its place, and how deep that goes."""
        from tessel.expression.checking import with_columns

        used = {name: self._inlined[name] for name in expression.columns() & self._inlined.keys()}
        depth = 1 + max((depth for _, depth in used.values()), default=0)
        if depth > _DEEPEST:
            return expression, depth
        return with_columns(expression, {name: own for name, (own, _) in used.items()}), depth

    def _renamed(self, expression: Expression) -> Expression:
        """Return an expression in the names inside of the batch; unknown names raise."""
        from tessel.expression.build import col
        from tessel.expression.checking import with_columns

        names = expression.columns()
        if not names <= self.columns.keys():
            self.schema.require(sorted(names))
        others = {name: self.columns[name] for name in names if self.columns[name] != name}
        return with_columns(expression, {old: col(new) for old, new in others.items()})

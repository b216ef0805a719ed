"""What every family of verbs stands on: a query to which a clause can be added.

How the arguments of verbs are read: what people may write, as what clauses hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.combining import SubQuery
from tessel.errors import PlanError, UnknownVerbError, shown
from tessel.expression.build import lit
from tessel.expression.leaves import Column
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression

QueryType = TypeVar("QueryType", bound="Query")


class Query:
    """Something that clauses can be added to; the families of verbs are its subclasses."""

    def then(self: QueryType, *clauses: Clause) -> QueryType:
        """Return the query with clauses added at the end: the way in for clauses of your own."""
        raise TypeError(f"{type(self).__name__} does not say how a clause is added")

    def _queries(self, verb: str, others: Sequence[Any]) -> tuple[SubQuery, ...]:
        """Return symbols by name, or with clauses of their own first, as queries."""
        for each in others:
            if not isinstance(each, str | SubQuery):
                raise PlanError(
                    f"{verb} takes symbols, not {_of_other_kind(each)}",
                    hint=f'{verb}("other"), or {verb}(store.scan("other")...); rows that are not '
                    'stored are written first: store.write("other", ...)',
                )
        return tuple(SubQuery(each) if isinstance(each, str) else each for each in others)


class AwaitsAggregates:
    """Rows that are grouped in some way, before it is said what is computed of each group."""

    _what: ClassVar[str] = "groups"

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # others ask for these to see what an object is
                raise AttributeError(name)
            from tessel.clauses.aggregates.registry import aggregate_names

            raise UnknownVerbError.before_agg(name, self._what, is_how=name in aggregate_names())

        def __getitem__(self, item: object) -> Any:
            raise UnknownVerbError.before_agg(item, self._what, is_how=False)


ExpressionLike = Expression | ComputedColumn | str
KeyLike = str | Expression | ComputedColumn


def as_ends(start: Any, end: Any) -> tuple[Any, Any]:
    """Return the two ends of a range, which may be given as one pair."""
    if end is None and isinstance(start, tuple | list) and len(start) == 2:
        return start[0], start[1]
    return start, end


def as_expression(value: Any) -> Expression:
    """Return an expression as it is, text parsed, any other value as a literal."""
    if isinstance(value, ComputedColumn):
        return value.expression
    if isinstance(value, Expression):
        return value
    if not isinstance(value, str):
        return lit(value)
    from tessel.expression.text import parse

    return parse(value)


def as_names(names: tuple[str | Column | Sequence[str], ...]) -> tuple[str, ...]:
    """Return names of columns, given one by one or in lists, as one tuple."""
    flat: list[Any] = []
    for name in names:
        single = isinstance(name, str | Expression) or not isinstance(name, Iterable)
        flat += [name] if single else list(name)
    flat = [name.column if isinstance(name, Column) else name for name in flat]
    for name in flat:
        if isinstance(name, Expression | ComputedColumn):
            raise PlanError(
                f"a column is named here, and {name} computes one",
                hint="make it first, under a name: with_columns(name=...)",
            )
        if not isinstance(name, str):
            raise PlanError(
                f"a column is named by text, not by {shown(name)}", hint='such as "price"'
            )
    return tuple(flat)


def as_pairs(verb: str, on: Any, left_on: Any, right_on: Any) -> tuple[tuple[str, str], ...]:
    """Return key columns of two sides, however they are named, as pairs."""
    if on is not None:
        if left_on is not None or right_on is not None:
            raise PlanError(
                f"{verb} takes on, or left_on and right_on, and not both",
                hint='on="key", or left_on="key", right_on="id"',
            )
        if isinstance(on, Mapping):
            return _pairs(verb, list(on.items()))
        return _pairs(verb, [on] if isinstance(on, str) else on)
    if left_on is None and right_on is None:
        return ()
    left, right = ([side] if isinstance(side, str) else side for side in (left_on, right_on))
    if left is None or right is None or len(list(left)) != len(list(right)):
        raise PlanError(
            f"{verb} takes as many columns in left_on as in right_on, not {left_on!r} and "
            f"{right_on!r}",
            hint='left_on=["key", "day"], right_on=["id", "date"]',
        )
    return _pairs(verb, list(zip(left, right, strict=True)))


def _pairs(verb: str, names: Any) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name in names if isinstance(names, Iterable) else [names]:
        pair = (name, name) if isinstance(name, str) else name
        fits = isinstance(pair, tuple | list) and len(pair) == 2
        if not fits or not all(isinstance(each, str) for each in pair):
            raise PlanError(
                f"{verb} takes the names of key columns, or pairs of them, not {name!r}",
                hint='on="key", on=["key", "day"] or on={"key": "id"}',
            )
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def as_keys(
    keys: Sequence[Any], named: Mapping[str, Any], example: str = "groupby(name={})"
) -> tuple[str | ComputedColumn, ...]:
    """Return keys of a group, by name, as expressions or in mappings from name to expression.

    ``example`` shows in errors how an expression gets a name.
    """
    found: list[str | ComputedColumn] = []
    for key in keys:
        if isinstance(key, Mapping):
            found += [_named_key(name, value) for name, value in key.items()]
        elif isinstance(key, ComputedColumn):
            found.append(_named_key(key.name, key.expression))
        elif isinstance(key, Expression):
            found.append(_unnamed_key(key, example))
        elif isinstance(key, str) or not isinstance(key, Iterable):
            found += as_names((key,))
        else:
            found += as_keys(list(key), {}, example)
    return (*found, *(_named_key(name, value) for name, value in named.items()))


def _named_key(name: str, value: Any) -> str | ComputedColumn:
    expression = as_expression(value)
    is_itself = isinstance(expression, Column) and expression.column == name
    return name if is_itself else ComputedColumn(name, expression)


def _unnamed_key(expression: Expression, example: str) -> str | ComputedColumn:
    columns = sorted(expression.columns())
    if len(columns) != 1:
        what = f"reads {', '.join(columns)}" if columns else "reads no column"
        raise PlanError(f"{expression} {what}, so it needs a name", hint=example.format(expression))
    return _named_key(columns[0], expression)


def _of_other_kind(value: object) -> str:
    plain = value is None or isinstance(value, int | float)
    return repr(value) if plain else f"a {type(value).__name__}"


def as_row_count(verb: str, n: Any) -> int:
    """Return a whole number of rows; anything else is refused."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise PlanError(
            f"{verb} takes a whole number of rows, not {n!r}", hint=f"such as {verb}(5)"
        )
    return int(n.__index__())


def ordered_by(
    verb: str,
    keys: tuple[Any, ...],
    descending: bool | Sequence[bool],
    make: Callable[[tuple[str, ...], tuple[bool, ...]], Clause],
) -> tuple[Clause, ...]:
    """Return a clause that orders rows, among what makes and drops columns for expressions.

    Parameters
    ----------
    keys
        Given one by one or in a list; text names a column.
    make
        Makes the clause of the names of columns and of their directions.
    """
    flat: list[Any] = []
    for key in keys:
        flat += list(key) if isinstance(key, list | tuple) else [key]
    names: list[str] = []
    made: list[Apply] = []
    for key in flat:
        if isinstance(key, Column):
            names.append(key.column)
        elif isinstance(key, Expression):
            made.append(Apply(f"__tessel_key_{len(made)}", key))
            names.append(made[-1].column)
        elif isinstance(key, str):
            names.append(key)
        else:
            raise PlanError(
                f"{verb} takes columns or expressions, not {key!r}",
                hint='top_k(3, "price"): first how many' if verb == "top_k" else 'such as "price"',
            )
    if isinstance(descending, bool):
        descending = [descending] * len(names)
    if not isinstance(descending, list | tuple):
        raise PlanError(
            f"{verb}: descending is true or false, or one of them for each key, not {descending!r}"
        )
    clause = make(tuple(names), tuple(descending))
    if not made:
        return (clause,)
    from tessel.clauses.select import Drop

    return *made, clause, Drop(tuple(each.column for each in made))

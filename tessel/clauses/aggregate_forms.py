"""The forms in which people write aggregates, and what clauses hold of them.

``agg(total=("qty", "sum"), spread="max(price) - min(price)")``: an output is an aggregate of a
column or of an expression, or computes with the results of several. Those of the second kind become
expressions over hidden aggregates, of which equal ones are one (:class:`Outputs`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tessel.clauses.aggregates.base import Aggregate, AggregateBundle
from tessel.clauses.aggregates.registry import (
    aggregate_from_json,
    bind_aggregate,
    find_aggregate,
    find_bundle,
)
from tessel.clauses.base import Clause
from tessel.clauses.computed import free_name
from tessel.clauses.results import FORMS, NamedAggregate, named_aggregate
from tessel.errors import AggregateError, InvalidInputError
from tessel.expression.checking import rewrite
from tessel.expression.leaves import Column, Literal
from tessel.expression.named import ComputedColumn
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.aggregate import Aggregated
from tessel.lazy import dataclass

AggregateLike = str | Aggregate
AggregateForm = str | Aggregate | Expression | ComputedColumn | tuple[Any, ...]
_Named = Expression | ComputedColumn
AllForms = str | Mapping[str, AggregateForm | list[AggregateLike]] | _Named | Sequence[_Named]

_Output = NamedAggregate | ComputedColumn


@dataclass(frozen=True)
class Outputs:
    """What ``agg`` was given, as clauses hold it.

    Attributes
    ----------
    aggregates
        What is aggregated. Without results these are the outputs.
    results
        The outputs, in order, of expressions over the aggregates, where one of them computes.
    """

    aggregates: tuple[NamedAggregate, ...]
    results: tuple[ComputedColumn, ...] = ()


def read_outputs(
    by_column: AllForms | None,
    by_output: Mapping[str, Any],
    more: Sequence[Expression | ComputedColumn] = (),
) -> Outputs:
    """Read the forms in which people write aggregates.

    Raises AggregateError for what is no aggregate, an aggregate inside another, and a column that
    is computed with beside aggregates.

    Parameters
    ----------
    by_column
        ``{"qty": "sum"}`` makes a column ``qty``; ``{"qty": ["sum", "max"]}`` makes ``qty_sum`` and
        ``qty_max``. Names of outputs may stand here as well, with the forms below. An expression,
        ``col("price").mean()``, or its text makes an output with the name of its column, as do
        ``more``.
    by_output
        ``total=("qty", "sum")``, with further columns and parameters behind:
        ``price=("price", "weighted_mean", "qty")``, ``high=("price", "quantile", 0.9)``; an
        expression, ``total=(col("price") * col("qty")).sum()``, or its text,
        ``total="sum(price * qty)"``; what computes with the results of several,
        ``spread="max(price) - min(price)"``; an aggregate of rows alone: ``rows="size"``. A bundle
        such as ``ohlc`` makes several outputs, each with the name and what it is: ``bar_open``.
    """
    found: list[_Output] = []
    if isinstance(by_column, list | tuple) and by_column:
        first, *others = by_column
        by_column, more = first, (*others, *more)
    if isinstance(by_column, Expression | ComputedColumn) or _is_call(by_column) or more:
        unnamed = (by_column, *more)
        by_output = {**dict(map(_with_name, unnamed)), **by_output}
        if len(by_output) < len(unnamed):
            raise AggregateError(
                "two of these aggregates read one column, and would have its name",
                hint='name them: agg(low=col("price").min(), high=col("price").max())',
            )
        by_column = None
    elif not isinstance(by_column, Mapping | None):
        if isinstance(by_column, str):
            raise AggregateError(
                f"agg takes one aggregate of all columns, and {by_column!r} stands in a list",
                hint='agg("mean"); of a column several: agg({"price": ["min", "max"]})',
            )
        raise InvalidInputError.no_value(by_column)
    for name, value in (by_column or {}).items():
        if isinstance(value, list):
            for each in value:
                found += _of_column(name, each, several=True)
        elif isinstance(value, tuple | Expression | ComputedColumn) or _is_call(value):
            found += _of_output(name, value)
        else:
            found += _of_column(name, value, several=False)
    for name, value in by_output.items():
        found += _of_output(name, value)
    if not found:
        raise AggregateError(
            "agg needs at least one aggregate", hint='write agg(total=("column", "sum"))'
        )
    return _outputs(found)


def aggregated(
    clauses: tuple[Clause, ...],
    by_column: AllForms | None,
    more: Sequence[Expression | ComputedColumn],
    outputs: Mapping[str, Any],
) -> tuple[Clause, ...]:
    """Return clauses of which the last groups rows, with the aggregates that ``agg`` was given."""
    *before, clause = clauses
    if not isinstance(by_column, str) or _is_call(by_column):
        found = read_outputs(by_column, outputs, more)
        filled: Any = dataclasses.replace(
            clause,  # type: ignore[type-var]
            aggregates=found.aggregates,
            results=found.results,
        )
        return (*before, filled)
    if more or outputs:
        raise AggregateError(
            f"agg({by_column!r}) is of all columns, and stands alone",
            hint=f'name what is computed: agg(total=("column", "{by_column}"), rows="count")',
        )
    from tessel.clauses.aggregate_columns import AggregateColumns

    drops = [each.drop_missing for each in before if hasattr(each, "drop_missing")]
    return (AggregateColumns(by_column, clause, *drops),)  # type: ignore[arg-type]


def _with_name(expression: Any) -> tuple[str, Any]:
    """Return an aggregate with its name: the one it was given, or that of its column."""
    if isinstance(expression, ComputedColumn):
        return expression.name, expression.expression
    if _is_call(expression):
        from tessel.expression.text import parse

        expression = parse(expression)
    columns: list[str] = sorted(expression.columns()) if isinstance(expression, Expression) else []
    if len(columns) != 1:
        raise AggregateError(
            f"{expression} has no name: it reads {', '.join(columns) or 'no column'}",
            hint=f"name it: agg(total={expression})",
        )
    return columns[0], expression


def _is_call(value: Any) -> bool:
    return isinstance(value, str) and "(" in value


def _of_column(column: str, aggregate: Any, *, several: bool) -> Iterator[NamedAggregate]:
    if isinstance(aggregate, str):
        bundle = find_bundle(aggregate)
        if bundle is not None:
            yield from _bundled(column, bundle, column)
            return
        aggregate, _ = bind_aggregate(aggregate, [column])
    found = _checked(aggregate)
    yield named_aggregate(f"{column}_{found.suffix}" if several else column, found, [column])


def _of_output(output: str, value: Any) -> Iterator[_Output]:
    if isinstance(value, ComputedColumn):
        value = value.expression
    if isinstance(value, str) and not _is_call(value):
        how = "size" if value.lower() == "count" else value  # of no column: of rows
        yield named_aggregate(output, find_aggregate(how), [])
    elif isinstance(value, Aggregate):
        yield named_aggregate(output, value, [])
    elif isinstance(value, str | Expression):
        from tessel.expression.text import parse

        expression = parse(value) if isinstance(value, str) else value
        if not isinstance(expression, Aggregated):
            yield _computed(output, expression)
            return
        yield from _called(output, expression.how, expression.operands)
    elif isinstance(value, Sequence) and len(value) >= 2:
        column, how, *rest = value
        if isinstance(how, str):
            yield from _called(output, how, (column, *rest))
        else:
            yield named_aggregate(output, _checked(how), [column, *rest])
    else:
        raise AggregateError(
            f"{output}={value!r} is not a column and an aggregate",
            hint=f"write {FORMS.replace('x=', output + '=')}",
            output=output,
        )


def _computed(output: str, expression: Expression) -> ComputedColumn:
    """Return an output that computes with the results of aggregates; refuse what does not."""
    if not any(isinstance(node, Aggregated) for node in post_order(expression)):
        raise AggregateError(
            f"{output}={expression} is not an aggregate",
            hint=f"say which: {output}=({expression}).sum()",
            output=output,
        )
    beside = _column_beside(expression)
    if beside is not None:
        raise AggregateError(
            f"{output}={expression} reads column {beside.column!r} outside of an aggregate, where "
            "a group has many values of it",
            hint=f"say which of them: first({beside}), max({beside}), ...",
            output=output,
            column=beside.column,
        )
    return ComputedColumn(output, expression)


def _column_beside(expression: Expression) -> Column | None:
    """Return a column that is read outside of every aggregate."""
    seen: set[int] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Column):
            return node
        if id(node) not in seen and not isinstance(node, Aggregated):
            seen.add(id(node))
            waiting += reversed(node.children)
    return None


def _called(output: str, how: str, arguments: Sequence[Any]) -> Iterator[NamedAggregate]:
    """Read ``how(*arguments)``: columns first, then parameters."""
    bundle = find_bundle(how)
    if bundle is not None:
        if len(arguments) != 1:
            raise AggregateError(
                f"{how} takes one column, not {len(arguments)} arguments",
                hint=f'write {output}=("column", "{how}")',
                output=output,
            )
        yield from _bundled(output, bundle, *arguments)
        return
    plain = [each.value if isinstance(each, Literal) else each for each in arguments]
    aggregate, columns = bind_aggregate(how, plain)
    yield named_aggregate(output, aggregate, arguments[: len(columns)])


def _bundled(output: str, bundle: AggregateBundle, column: Any) -> Iterator[NamedAggregate]:
    for part, each in bundle.parts().items():
        yield named_aggregate(f"{output}_{part}", each, [column])


def _checked(value: Any) -> Aggregate:
    if isinstance(value, Aggregate):
        return value
    if isinstance(value, Mapping):
        return aggregate_from_json(value)
    raise AggregateError(
        f"{value!r} is not an aggregate", hint='name it by text, such as "sum"', value=repr(value)
    )


# --- results that compute ------------------------------------------------------------------------


def _outputs(written: Sequence[_Output]) -> Outputs:
    """Give every aggregate inside of an expression a name; equal ones are one."""
    stored = tuple(each for each in written if isinstance(each, NamedAggregate))
    if len(stored) == len(written):
        return Outputs(stored)
    inner = _Inner(stored, {_name(each) for each in written})
    results: list[ComputedColumn] = []
    for each in written:
        expression = (
            inner.read_from(each)
            if isinstance(each, ComputedColumn)
            else inner.column(each)  # of two equal outputs the second is the first
        )
        results.append(ComputedColumn(_name(each), expression))
    return Outputs(inner.aggregates, tuple(results))


def _name(written: _Output) -> str:
    return written.output if isinstance(written, NamedAggregate) else written.name


class _Inner:
    """The aggregates that outputs are computed of, each once, by name."""

    def __init__(self, stored: Sequence[NamedAggregate], taken: set[str]) -> None:
        self._taken = taken
        self._found: dict[str, NamedAggregate] = {}
        for each in stored:
            self._found.setdefault(_identity(each), each)

    @property
    def aggregates(self) -> tuple[NamedAggregate, ...]:
        """All of them: those that are outputs themselves first."""
        return tuple(self._found.values())

    def column(self, aggregate: NamedAggregate) -> Column:
        """Return the column that holds an aggregate."""
        known = self._found.get(_identity(aggregate))
        if known is None:
            name = free_name(aggregate.shown, self._taken)
            self._taken.add(name)
            known = dataclasses.replace(aggregate, output=name)
            self._found[_identity(aggregate)] = known
        return Column(known.output)

    def read_from(self, written: ComputedColumn) -> Expression:
        """Return an expression with the aggregates in it as columns."""
        output = written.name
        columns: dict[bytes, Column] = {}
        for node in post_order(written.expression):
            if isinstance(node, Aggregated):
                found = tuple(_called(output, node.how, node.operands))
                if len(found) != 1:
                    parts = ", ".join(each.aggregate.name for each in found)
                    raise AggregateError(
                        f"{output}={written.expression}: {node} is several aggregates",
                        hint=f"name one of them: {parts}",
                        output=output,
                    )
                columns[node.digest] = self.column(found[0])
        # The operands of an aggregate hold none (that is refused), so its digest stays.
        return rewrite(written.expression, lambda node: columns.get(node.digest, node))


def _identity(aggregate: NamedAggregate) -> str:
    """Return what equal aggregates have in common, whatever their outputs are called."""
    return json.dumps(dataclasses.replace(aggregate, output="").to_json(), sort_keys=True)

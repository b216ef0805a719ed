"""What the faster domains ask of storage. Storage implements these; expressions only read them.

The interval domain: what minimum, maximum and missing counts prove of whole ranges of rows.

Planner rules enter here with the statistics of row slices, and selections with the zone maps of
pages. Sound or silent. A predicate answers, per range, which of true, false and missing its rows
*can* be; FALSE is "no row can be true", TRUE is "no row can be anything else". All ranges are
computed at once, on arrays as long as there are ranges.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar, fill_null, numpy_array
from tessel.errors import TesselError
from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.expression.values import Value, coerce
from tessel.lazy import dataclass


class NumberBounds(Protocol):
    """Bounds of one column as numpy compares them with a constant, one a row slice."""

    @property
    def type(self) -> pa.DataType:
        """The type of the column: integers, float64 or instants by their counts, or text."""

    @property
    def low(self) -> npt.NDArray[Any]:
        """Not greater than any value present; to be looked at where ``known``."""

    @property
    def high(self) -> npt.NDArray[Any]:
        """Not less than any value present."""

    @property
    def bounded(self) -> npt.NDArray[np.bool_]:
        """Whether some value is neither null nor NaN."""

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether both bounds are known."""

    def without(self, text: str) -> npt.NDArray[np.bool_]:
        """Return a mask: which row slices do not hold a text, for a column of text."""


class ColumnFacts(Protocol):
    """Statistics of one column, one value per row slice."""

    @property
    def minimum(self) -> pa.Array:
        """Not greater than any value present; null where unknown or where nothing is present.

        Of the column's type (its dictionary's values), or of null type without an order.
        """

    @property
    def maximum(self) -> pa.Array:
        """Not less than any value present; as `minimum`."""

    @property
    def minimum_exact(self) -> npt.NDArray[np.bool_]:
        """Whether the minimum is a value of the column; another bound never proves TRUE."""

    @property
    def maximum_exact(self) -> npt.NDArray[np.bool_]:
        """Whether the maximum is a value of the column."""

    @property
    def missing(self) -> npt.NDArray[np.int64]:
        """An upper limit of the values that are null or NaN; negative where it is unknown.

        Where it reaches the row count and the column has an order but no bounds, every value is
        missing.
        """

    @property
    def numbers(self) -> NumberBounds | None:
        """The same bounds as numbers, where they are at hand; Arrow arrays are not made then."""


class StatisticsView(Protocol):
    """What is known, before any data is read, of a number of row slices."""

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of each row slice."""

    def facts(self, name: str) -> ColumnFacts:
        """Return what is known of a column that the schema has."""


Flags = npt.NDArray[np.bool_]

FALSE, UNKNOWN, TRUE = -1, 0, 1
"""No row can be true · nothing is proved · every row is true."""


@dataclass(frozen=True, eq=False)
class Interval:
    """What is known of a node in every range of rows.

    Attributes
    ----------
    value, missing
        Whether a row can have a value, and whether one can be missing.
    exact
        Whether the bounds used may prove TRUE.
    ends
        Bounds of the values present: arrays, or scalars for all ranges; None where unknown.
    true, false
        Whether a row can be true or false, for truth values; None for other types.
    facts
        Of a column, which has its bounds from there.
    """

    value: Flags
    missing: Flags
    exact: Flags
    ends: tuple[Value, Value] | None = None
    true: Flags | None = None
    false: Flags | None = None
    facts: ColumnFacts | None = None

    @property
    def bounds(self) -> tuple[Value, Value] | None:
        """The bounds of the values present; those of a column are made Arrow arrays now."""
        if self.facts is None or pa.types.is_null(self.facts.minimum.type):
            return self.ends
        return self.facts.minimum, self.facts.maximum

    def truth(self) -> tuple[Flags, Flags]:
        """Return whether a row can be true, and whether it can be false."""
        if self.true is not None and self.false is not None:
            return self.true, self.false
        can = [self.value, self.value]
        low, high = self.bounds or (None, None)
        # A row can be true where the maximum is, and false where the minimum is.
        for place, bound in enumerate((high, low)):
            if bound is None:
                continue
            same = pc.equal(coerce(bound, pa.bool_()), arrow_scalar(place == 0))
            if isinstance(same, pa.Scalar):
                can[place] = self.value & (same.as_py() is not False)
            else:
                can[place] = self.value & numpy_array(fill_null(same, True))
        return can[0], can[1]


@dataclass(frozen=True, eq=False)
class Operation:
    """One node on its way through the rules, with what is known of its operands.

    Attributes
    ----------
    yes, no
        One flag for every range, all true and all false.
    """

    node: Expression
    type: NodeType
    operands: tuple[Interval, ...]
    yes: Flags
    no: Flags

    @property
    def ranges(self) -> int:
        """How many ranges of rows there are."""
        return len(self.yes)

    def exact(self) -> Flags:
        """Return where the bounds of all operands may prove TRUE."""
        return reduce(np.logical_and, [operand.exact for operand in self.operands], self.yes)

    def missing(self) -> Flags:
        """Return where an operand can be missing."""
        return reduce(np.logical_or, [operand.missing for operand in self.operands], self.no)

    def present(self) -> Flags:
        """Return where all operands can have a value."""
        return reduce(np.logical_and, [operand.value for operand in self.operands], self.yes)

    def proved(self, value: Value) -> Flags:
        """Return where a computed condition is true; null proves nothing."""
        if isinstance(value, pa.Scalar):
            return self.yes if value.as_py() is True else self.no
        return np.asarray(numpy_array(fill_null(value, False)), dtype=bool)

    def nothing(self) -> Interval:
        """Return what is known without a rule: any row can be anything."""
        return Interval(self.yes, self.yes, self.yes)

    def outcome(self, never_true: Flags, never_false: Flags) -> Interval:
        """Return the outcome of a comparison of values that are present."""
        present, missing = self.present(), self.missing()
        true, false = present & ~never_true, present & ~never_false
        return Interval(true | false, missing, self.exact(), true=true, false=false)


def evaluate_statistics(
    expression: ExpressionContext | Expression, view: StatisticsView, schema: TableSchema
) -> npt.NDArray[np.int8]:
    """Say what statistics prove of a predicate, for every range of rows of a view.

    Raises ColumnNotFoundError or ExpressionTypeError where the predicate does not fit the schema.

    Parameters
    ----------
    expression
        A predicate (of bool or null type).
    view
        The statistics; ranges of the same order as the answer.

    Returns
    -------
    numpy.ndarray of int8
        `FALSE` (-1) where no row can be true, `TRUE` (1) where every row is, `UNKNOWN` (0)
        elsewhere. A range without rows is FALSE.
    """
    from tessel.expression.interval_rules import interval_of

    context = ExpressionContext.of(expression)
    types = node_types(context, schema)
    rows = np.asarray(view.row_counts, dtype=np.int64)
    yes, no = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    known: dict[str, Interval] = {}
    for name in context.order:
        node = context.expression(name)
        if isinstance(node, Column):
            known[name] = _column(node, view, rows)
            continue
        operands = tuple([known[child] for child in context.children(name)])
        operation = Operation(node, types[name], operands, yes, no)
        try:
            known[name] = interval_of(operation)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TesselError):
            known[name] = operation.nothing()  # its kernels cannot take the bounds
    answer = known[context.root]
    true, false = answer.truth()
    result = np.zeros(len(rows), dtype=np.int8)
    result[~false & ~answer.missing & answer.exact] = TRUE
    result[~true | (rows == 0)] = FALSE
    return result


def _column(node: Column, view: StatisticsView, rows: npt.NDArray[np.int64]) -> Interval:
    facts = view.facts(node.column)
    missing = np.asarray(facts.missing)
    exact = np.asarray(facts.minimum_exact) & np.asarray(facts.maximum_exact)
    if facts.numbers is not None:
        bounded = facts.numbers.bounded
    elif pa.types.is_null(facts.minimum.type):
        bounded = np.ones(len(rows), dtype=bool)
    else:
        unbounded = pc.and_(facts.minimum.is_null(), facts.maximum.is_null())
        bounded = ~np.asarray(numpy_array(unbounded), dtype=bool)
    value = bounded | (missing < rows)
    # Bounds that are absent because nothing is present do not make a proof inexact.
    return Interval(value, missing != 0, exact | ~value, facts=facts)

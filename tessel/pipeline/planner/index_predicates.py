"""Pass: turn predicates on the time index into date ranges, which are found by binary search.

``t > '2021-03-01'``, ``t == …``, ``t.between(…)`` and what ``and`` makes of them say exactly what a
date range says, since an index is never missing; they are replaced by it. ``t in (…)`` and ``or``
bound the index too; there the filter stays, and the range goes before it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.expression.build import all_of
from tessel.expression.comparable import fitted_literal
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.boolean import And, Not, Or
from tessel.expression.operators.comparison import (
    FLIPPED,
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
)
from tessel.expression.schema import TableSchema
from tessel.expression.types import UNIT_NANOSECONDS, Operand, counted_nanoseconds
from tessel.lazy import dataclass
from tessel.pipeline.planner.draft import Draft

if TYPE_CHECKING:
    from tessel.clauses.date_range import DateRange

_Closed = OneOf["both", "left", "right", "neither"]


@dataclass(frozen=True)
class _Span:
    """Nanoseconds ``[low, high)`` outside of which a predicate is never true; None is no bound.

    ``exact``: inside of which it is always true.
    """

    low: int | None
    high: int | None
    exact: bool = True

    def within(self, other: _Span) -> _Span:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return _Span(max(lows, default=None), min(highs, default=None), self.exact and other.exact)

    def around(self, other: _Span) -> _Span:
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return _Span(low, high, exact=False)


def index_predicates(draft: Draft) -> Draft:
    """Take out of filters what they ask of the time index, as date ranges before them."""
    return draft.rewritten(_taken_apart)


def _taken_apart(clause: Clause, schema: TableSchema) -> list[Clause]:
    if type(clause) is not Filter or schema.index is None:
        return [clause]
    kind = schema.type_of(schema.index)
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return [clause]
    predicate = clause.predicate
    operands = predicate.operands if isinstance(predicate, And) else (predicate,)
    whole = _Span(None, None)
    left: list[Expression] = []
    for operand in operands:
        span = _span(operand, schema.index, kind)
        if span is not None:
            whole = whole.within(span)
        if span is None or not span.exact:
            left.append(operand)
    dates = _date_range(whole, kind)
    if dates is None:
        return [clause]
    return [dates, Filter(all_of(left), clause.optimise)] if left else [dates]


def _date_range(span: _Span, kind: pa.DataType) -> DateRange | None:
    """Return the date range of a span; None where there is none, or it lies past the calendar.

    Nor is there one of conditions that no time fulfils: they stay a filter.
    """
    if span.low is None and span.high is None:
        return None
    if span.low is not None and span.high is not None and span.low >= span.high:
        return None
    from tessel.clauses.date_range import DateRange

    start, left = _end(span.low, kind, is_start=True)
    end, right = _end(span.high, kind, is_start=False)
    if (start is None) != (span.low is None) or (end is None) != (span.high is None):
        return None
    closed: dict[tuple[bool, bool], _Closed] = {
        (True, True): "both",
        (True, False): "left",
        (False, True): "right",
        (False, False): "neither",
    }
    return DateRange(start, end, closed[left, right])


def _end(bound: int | None, kind: pa.DataType, *, is_start: bool) -> tuple[str | None, bool]:
    """Return the instant that an end names, and whether it is included: the rounder of the two."""
    from tessel.clauses.date_range import instant

    if bound is None:
        return None, True
    included = bound if is_start else bound - 1
    excluded = included + (-1 if is_start else 1)
    if excluded % UNIT_NANOSECONDS["us"] == 0 and included % UNIT_NANOSECONDS["us"]:
        return instant(excluded, kind), False
    return instant(included, kind), True


# --- what predicates say of the index -------------------------------------------------------------


def _span(predicate: Expression, index: str, kind: pa.DataType) -> _Span | None:
    """Return where a predicate on the index can be true; None where it says nothing of it."""
    spans: dict[int, _Span | None] = {}
    for node in post_order(predicate):  # however deep: a function that calls itself ends at 300
        spans[id(node)] = _span_of(node, index, kind, spans)
    return spans[id(predicate)]


def _span_of(
    predicate: Expression, index: str, kind: pa.DataType, below: dict[int, _Span | None]
) -> _Span | None:
    """Return the span of a predicate from the spans of its operands."""
    match predicate:
        case Comparison(left=Column(column=name), right=Literal() as literal) if name == index:
            return _compared(type(predicate), literal, kind)
        case Comparison(left=Literal() as literal, right=Column(column=name)) if name == index:
            return _compared(FLIPPED.get(type(predicate)), literal, kind)
        case Not(operand=Comparison() as inner) if type(inner) in _NEGATED:
            negated = _NEGATED[type(inner)](inner.left, inner.right)
            return _span_of(negated, index, kind, below)
        case Expression(name="is_in"):
            return _listed(predicate, index, kind)
        case And(operands=operands) | Or(operands=operands):
            spans = [below[id(each)] for each in operands]
            found = [span for span in spans if span is not None]
            is_whole = len(found) == len(spans)
            if not found:
                return None
            if isinstance(predicate, And):
                return functools.reduce(_Span.within, found, _Span(None, None, is_whole))
            return functools.reduce(_Span.around, found) if is_whole else None
        case _:
            return None


_NEGATED: dict[type[Comparison], type[Comparison]] = {
    Less: GreaterEqual,
    LessEqual: Greater,
    Greater: LessEqual,
    GreaterEqual: Less,
}


def _listed(predicate: Expression, index: str, kind: pa.DataType) -> _Span | None:
    """Return the span of the values that a predicate lists for the index; None without one."""
    from tessel.expression.operators.membership import IsIn, members

    match predicate:
        case IsIn(operand=Column(column=name), values=values) if name == index:
            instants = members(values, kind)[0]
        case _:
            return None
    if not len(instants):
        return None
    unit = counted_nanoseconds(instants.type)
    ends = pc.min_max(instants)
    low, high = ends["min"].value * unit, ends["max"].value * unit
    return _Span(low, high + 1, exact=low == high)


def _compared(
    operator: type[Comparison] | None, literal: Literal, kind: pa.DataType
) -> _Span | None:
    at = _nanoseconds(literal, kind)
    if operator is None or at is None:
        return None
    spans: dict[type[Comparison], _Span] = {
        Equal: _Span(at, at + 1),
        Less: _Span(None, at),
        LessEqual: _Span(None, at + 1),
        Greater: _Span(at + 1, None),
        GreaterEqual: _Span(at, None),
    }
    return spans.get(operator)


def _nanoseconds(literal: Literal, kind: pa.DataType) -> int | None:
    """Return the instant of a literal beside the index; None where it is missing or none."""
    value = fitted_literal(literal, Operand(kind, ""))
    if value.value is None:
        return None
    unit = counted_nanoseconds(value.type)
    alike = pa.types.is_date(kind) == pa.types.is_date(value.type)
    return int(value.value) * unit if unit is not None and alike else None

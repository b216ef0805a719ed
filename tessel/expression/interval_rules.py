"""The rules of the interval domain: what is known of each operator from its operands.

One function per operator that has a rule; an operator without one is simply not known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar, fill_null, numpy_array
from tessel.expression.checking import NodeType
from tessel.expression.intervals import Flags, Interval, Operation
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.comparison import (
    FLIPPED,
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
    comparing,
)
from tessel.expression.types import Family, family
from tessel.expression.values import Value, coerce, literal_value, nan_to_null

if TYPE_CHECKING:
    from tessel.expression.operators.membership import IsIn
    from tessel.expression.operators.text import StartsWith

_Rule = Callable[[Any, Operation], Interval]

_rules: dict[str, _Rule] = {}

_LOOKED_UP_ONE_BY_ONE = 64
"""Sets of texts up to this size are compared value by value, larger ones by their ends."""


def interval_of(operation: Operation) -> Interval:
    """Return what is known of a node from what is known of its operands; by default nothing."""
    rule = _rules.get(operation.node.name)
    return operation.nothing() if rule is None else rule(operation.node, operation)


def _rule(*operators: str) -> Callable[[_Rule], _Rule]:
    """Enter a function as the rule of operators, by their names; used as a decorator."""

    def entered(rule: _Rule) -> _Rule:
        _rules.update(dict.fromkeys(operators, rule))
        return rule

    return entered


@_rule("literal")
def _literal(node: Literal, operation: Operation) -> Interval:
    yes, no = operation.yes, operation.no
    if node.is_missing_value:
        return Interval(no, yes, yes, true=no, false=no)
    return Interval(yes, no, yes, (node.scalar, node.scalar))


# --- truth ----------------------------------------------------------------------------------------


def _chain(operation: Operation, decisive: bool) -> Interval:
    """Join truth values; one operand of ``decisive`` decides alone (Kleene)."""
    decided, neutral, undecided = operation.no, operation.yes, operation.yes
    for operand in operation.operands:
        true, false = operand.truth()
        one, other = (true, false) if decisive else (false, true)
        decided = decided | one
        neutral = neutral & other
        undecided = undecided & (other | operand.missing)
    missing = undecided & operation.missing()
    true, false = (decided, neutral) if decisive else (neutral, decided)
    return Interval(true | false, missing, operation.exact(), true=true, false=false)


_rules["and"] = lambda node, operation: _chain(operation, decisive=False)
_rules["or"] = lambda node, operation: _chain(operation, decisive=True)


@_rule("not")
def _not(node: Expression, operation: Operation) -> Interval:
    (operand,) = operation.operands
    true, false = operand.truth()
    return Interval(operand.value, operand.missing, operand.exact, true=false, false=true)


@_rule("is_missing")
def _is_missing(node: Expression, operation: Operation) -> Interval:
    (operand,) = operation.operands
    yes = operation.yes
    # counts of missing values are limits, not bounds: they may prove TRUE
    return Interval(yes, ~yes, yes, true=operand.missing, false=operand.value)


@_rule("coalesce")
def _coalesce(node: Expression, operation: Operation) -> Interval:
    if family(operation.type.result) is not Family.BOOL:
        return operation.nothing()
    true, false, missing = operation.no, operation.no, operation.yes
    for operand in operation.operands:
        can_be_true, can_be_false = operand.truth()
        true = true | (missing & can_be_true)
        false = false | (missing & can_be_false)
        missing = missing & operand.missing
    return Interval(true | false, missing, operation.exact(), true=true, false=false)


# --- comparison -----------------------------------------------------------------------------------

_Ends = tuple[str, type[Comparison], str]

_NEVER: dict[type[Comparison], tuple[_Ends, _Ends]] = {
    Less: (("low", GreaterEqual, "high"), ("high", Less, "low")),
    LessEqual: (("low", Greater, "high"), ("high", LessEqual, "low")),
    Greater: (("high", LessEqual, "low"), ("low", Greater, "high")),
    GreaterEqual: (("high", Less, "low"), ("low", GreaterEqual, "high")),
}
"""For each order, the comparison of ends that rules out true, and the one that rules out false."""


@_rule("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
def _comparison(node: Comparison, operation: Operation) -> Interval:
    found = _of_numbers(node, operation)
    if found is not None:
        return operation.outcome(*found)
    ends = _bounds(operation)
    if ends is None:
        return operation.outcome(operation.no, operation.no)

    def proved(end: str, comparison: type[Comparison], other: str, *, sides: str = "lr") -> Flags:
        values = [ends[sides[0]][end], ends[sides[1]][other]]
        return operation.proved(comparison.compute(node, values, pa.bool_()))

    if type(node) in _NEVER:
        never_true, never_false = _NEVER[type(node)]
        return operation.outcome(proved(*never_true), proved(*never_false))
    apart = proved("high", Less, "low") | proved("low", Greater, "high")
    same = (
        proved("low", Equal, "high", sides="ll")
        & proved("low", Equal, "high", sides="rr")
        & proved("low", Equal, "low")
    )
    return (
        operation.outcome(same, apart)
        if isinstance(node, NotEqual)
        else operation.outcome(apart, same)
    )


_MOST_MEMOS = 256
_sargable_memo: dict[tuple[bytes, pa.DataType], tuple[type[Comparison], Any] | None] = {}

_OF_NUMPY: dict[type[Comparison], Callable[[Any, Any], Flags]] = {
    Less: operator.lt,
    LessEqual: operator.le,
    Greater: operator.gt,
    GreaterEqual: operator.ge,
}


def _of_numbers(node: Comparison, operation: Operation) -> tuple[Flags, Flags] | None:
    """Return where a sargable comparison, of a column with a constant, is never true, never false.

    None where the bounds of the column are no numbers, as those of zone maps are. Computing
    the operators proves the same, but costs more than reading the pages that they might prune.
    """
    one, other = operation.operands
    facts = other.facts if one.facts is None else one.facts
    numbers = None if facts is None else facts.numbers
    if numbers is None:
        return None
    key = node.digest, numbers.type
    if key not in _sargable_memo:
        if len(_sargable_memo) >= _MOST_MEMOS:
            _sargable_memo.clear()
        _sargable_memo[key] = _sargable(node, operation.type, numbers.type)
    found = _sargable_memo[key]
    if found is None:
        return None
    asked, constant = found
    if isinstance(constant, str):
        return numbers.without(constant), operation.no
    low, high = numbers.low, numbers.high
    if asked is Equal:
        never, always = (low > constant) | (high < constant), (low == constant) & (high == constant)
    else:
        never, always = (
            _OF_NUMPY[comparison](low if end == "low" else high, constant)
            for end, comparison, _ in _NEVER[asked]
        )
    return numbers.known & never, numbers.known & always


def _sargable(
    node: Comparison, kind: NodeType, stored: pa.DataType
) -> tuple[type[Comparison], Any] | None:
    """Return operator and constant of a comparison with a column; None of one not sargable."""
    assert kind.signature is not None
    asked: type[Comparison] = type(node)
    operand, target = kind.operands[1], kind.signature.inputs[1]
    if not isinstance(node.children[0], Column):
        asked = FLIPPED[asked]
        operand, target = kind.operands[0], kind.signature.inputs[0]
    literal = operand.literal
    if literal is None or literal.is_missing_value or asked is NotEqual:
        return None
    integers = pa.types.is_integer(stored) and pa.types.is_integer(target)
    if len(set(kind.signature.inputs)) != 1 or not (integers or stored == target):
        return None
    value = literal_value(literal, target)
    if integers or pa.types.is_float64(stored):
        return asked, value.as_py()
    if pa.types.is_timestamp(stored) or pa.types.is_duration(stored):
        return asked, value.value
    if pa.types.is_string(stored) and asked is Equal:
        return asked, value.as_py()
    return None


def _bounds(operation: Operation) -> dict[str, dict[str, Value]] | None:
    """Return the ends of both operands in the types they are compared in; None if unknown."""
    assert operation.type.signature is not None
    ends: dict[str, dict[str, Value]] = {}
    for side, known, operand, target in zip(
        "lr",
        operation.operands,
        operation.type.operands,
        operation.type.signature.inputs,
        strict=True,
    ):
        if operand.literal is not None:
            end = literal_value(operand.literal, target)
            ends[side] = {"low": end, "high": end}
        elif known.bounds is None:
            return None
        else:
            low, high = known.bounds
            ends[side] = {"low": coerce(low, target), "high": coerce(high, target)}
    return ends


@_rule("is_in")
def _is_in(node: IsIn, operation: Operation) -> Interval:
    (operand,) = operation.operands
    no, yes = operation.no, operation.yes
    if not len(node.values):
        return Interval(yes, no, yes, true=no, false=yes)
    from tessel.expression.operators.membership import members

    plain = operation.type.operands[0].type
    found, has_missing = members(node.values, plain)
    never_true = no if len(found) else yes
    never_false = operation.no
    bounds = operand.bounds
    if bounds is not None and len(found):
        low, high = (_slices(coerce(bound, plain), operation) for bound in bounds)
        never_true = _outside(found, low, high, operation)
        one_value = operation.proved(pc.and_kleene(pc.equal(low, high), pc.is_in(low, found)))
        never_false = one_value
    answer = operation.outcome(never_true, never_false)
    if not has_missing:
        return answer
    assert answer.true is not None
    # what is not in the set may be the missing value of the set
    assert answer.false is not None
    return Interval(
        answer.value, answer.missing | answer.false, answer.exact, true=answer.true, false=no
    )


def _slices(bound: Value, operation: Operation) -> pa.Array:
    return pa.repeat(bound, operation.ranges) if isinstance(bound, pa.Scalar) else bound


def _outside(found: pa.Array, low: pa.Array, high: pa.Array, operation: Operation) -> Flags:
    """Return where no value of a set lies between the bounds."""
    if family(found.type) in (Family.TEXT, Family.BINARY, Family.DECIMAL, Family.BOOL):
        values = found.to_pylist()
        if len(values) > _LOOKED_UP_ONE_BY_ONE:
            first, last = (arrow_scalar(end, found.type) for end in (min(values), max(values)))
            return operation.proved(_less(high, first)) | operation.proved(_less(last, low))
        outside = operation.yes.copy()
        for value in values:
            one = arrow_scalar(value, found.type)
            outside &= operation.proved(_less(high, one)) | operation.proved(_less(one, low))
        return outside
    unknown = numpy_array(pc.or_(low.is_null(), high.is_null()))
    members_found, lows, highs = (_counts(array) for array in (found, low, high))
    ordered = np.sort(members_found)
    inside = np.searchsorted(ordered, highs, "right") > np.searchsorted(ordered, lows, "left")
    return np.asarray(~inside & ~unknown, dtype=bool)


def _less(left: Value, right: Value) -> Value:
    return comparing(pc.less)(None, [left, right], pa.bool_())


def _counts(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return np.asarray(numpy_array(fill_null(array, 0)))


@_rule("starts_with")
def _starts_with(node: StartsWith, operation: Operation) -> Interval:
    (operand,) = operation.operands
    if operand.bounds is None:
        return operation.outcome(operation.no, operation.no)
    plain = operation.type.operands[0].type
    prefix, length = arrow_scalar(node.part, plain), len(node.part)
    low, high = (coerce(bound, plain) for bound in operand.bounds)
    low_start, high_start = (
        pc.utf8_slice_codeunits(bound, start=0, stop=length) for bound in (low, high)
    )
    apart = operation.proved(pc.less(high, prefix)) | operation.proved(
        pc.greater(low_start, prefix)
    )
    same = operation.proved(pc.equal(low_start, prefix)) & operation.proved(
        pc.equal(high_start, prefix)
    )
    return operation.outcome(apart, same)


# --- values whose bounds follow from those of their operands --------------------------------------


def _sum(operation: Operation, low_of: tuple[str, str], high_of: tuple[str, str]) -> Interval:
    """Bound a sum: rounding to the nearest keeps order, and checked integers raise."""
    ends = _bounds(operation)
    if ends is None:
        return operation.nothing()
    result = operation.type.result
    low, high = (
        nan_to_null(operation.node.compute([ends["l"][left], ends["r"][right]], result))
        for left, right in (low_of, high_of)
    )
    # inf - inf is NaN, hence missing
    missing = operation.missing() | pa.types.is_floating(result)
    return Interval(operation.present(), missing, operation.exact(), (low, high))


_rules["add"] = lambda node, operation: _sum(operation, ("low", "low"), ("high", "high"))
_rules["subtract"] = lambda node, operation: _sum(operation, ("low", "high"), ("high", "low"))


@_rule("year", "date", "floor")
def _rising(node: Expression, operation: Operation) -> Interval:
    """Bound a function that never falls, on instants without changes of clocks."""
    (operand,) = operation.operands
    plain = operation.type.operands[0].type
    clocks_change = pa.types.is_timestamp(plain) and plain.tz not in (None, "UTC")
    if clocks_change or operand.bounds is None:
        return operation.nothing()
    low, high = (
        node.compute([coerce(bound, plain)], operation.type.result) for bound in operand.bounds
    )
    return Interval(operand.value, operand.missing, operand.exact, (low, high))

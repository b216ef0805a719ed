"""The rules of the statistics domain: what is known of each operator from its operands.

One function per operator that has a rule; an operator without one is simply not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar, fill_null, numpy_array
from tessel.expression.kernels import kernel_of
from tessel.expression.kernels.values import Value, coerce, literal_value, nan_to_null
from tessel.expression.known import Asked, Flags, Known, as_truth, nothing_known, null_flags
from tessel.expression.leaves import Literal
from tessel.expression.node import Expression
from tessel.expression.operators.comparison import (
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
)
from tessel.expression.types import Family, family

if TYPE_CHECKING:
    from tessel.expression.operators.membership import IsIn
    from tessel.expression.operators.text import StartsWith

__all__ = ["known_of"]

_Rule = Callable[[Any, Asked], Known]

_rules: dict[str, _Rule] = {}

_LOOKED_UP_ONE_BY_ONE = 64
"""Sets of texts up to this size are compared value by value, larger ones by their ends."""


def known_of(node: Expression, asked: Asked) -> Known:
    """Return what is known of a node from what is known of its operands; by default nothing."""
    rule = _rules.get(node.name)
    return nothing_known(asked) if rule is None else rule(node, asked)


def _rule(*operators: str) -> Callable[[_Rule], _Rule]:
    """Enter a function as the rule of operators, by their names; used as a decorator."""

    def entered(rule: _Rule) -> _Rule:
        _rules.update(dict.fromkeys(operators, rule))
        return rule

    return entered


@_rule("literal")
def _literal(node: Literal, asked: Asked) -> Known:
    there, yes = asked.flags(not node.is_missing_value), asked.flags(True)
    if node.is_missing_value:
        return Known(there, yes, yes, true=there, false=there)
    return Known(there, ~there, yes, node.scalar, node.scalar)


# --- truth ----------------------------------------------------------------------------------------


def _chain(asked: Asked, decisive: bool) -> Known:
    """Join truth values; one operand of ``decisive`` decides alone (Kleene)."""
    operands = [as_truth(operand, asked.slices) for operand in asked.operands]
    decided, neutral, undecided = asked.flags(False), asked.flags(True), asked.flags(True)
    for operand in operands:
        assert operand.true is not None
        assert operand.false is not None
        one, other = (operand.true, operand.false) if decisive else (operand.false, operand.true)
        decided = decided | one
        neutral = neutral & other
        undecided = undecided & (other | operand.missing)
    missing = undecided & asked.missing()
    true, false = (decided, neutral) if decisive else (neutral, decided)
    return Known(true | false, missing, asked.exact(), true=true, false=false)


_rules["and"] = lambda node, asked: _chain(asked, decisive=False)
_rules["or"] = lambda node, asked: _chain(asked, decisive=True)


@_rule("not")
def _not(node: Expression, asked: Asked) -> Known:
    operand = as_truth(asked.operands[0], asked.slices)
    return Known(
        operand.value, operand.missing, operand.exact, true=operand.false, false=operand.true
    )


@_rule("is_missing")
def _is_missing(node: Expression, asked: Asked) -> Known:
    (operand,) = asked.operands
    yes = asked.flags(True)
    # counts of missing values are limits, not bounds: they may prove TRUE
    return Known(yes, ~yes, yes, true=operand.missing, false=operand.value)


@_rule("coalesce")
def _coalesce(node: Expression, asked: Asked) -> Known:
    if family(asked.type.result) is not Family.BOOL:
        return nothing_known(asked)
    true, false, missing = asked.flags(False), asked.flags(False), asked.flags(True)
    for operand in (as_truth(operand, asked.slices) for operand in asked.operands):
        assert operand.true is not None
        assert operand.false is not None
        true = true | (missing & operand.true)
        false = false | (missing & operand.false)
        missing = missing & operand.missing
    return Known(true | false, missing, asked.exact(), true=true, false=false)


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
def _comparison(node: Comparison, asked: Asked) -> Known:
    ends = _bounds(asked)
    if ends is None:
        return asked.truth(asked.flags(False), asked.flags(False))

    def proved(end: str, comparison: type[Comparison], other: str, *, sides: str = "lr") -> Flags:
        values = [ends[sides[0]][end], ends[sides[1]][other]]
        return asked.proved(kernel_of(comparison)(node, values, pa.bool_()))

    if type(node) in _NEVER:
        never_true, never_false = _NEVER[type(node)]
        return asked.truth(proved(*never_true), proved(*never_false))
    apart = proved("high", Less, "low") | proved("low", Greater, "high")
    same = (
        proved("low", Equal, "high", sides="ll")
        & proved("low", Equal, "high", sides="rr")
        & proved("low", Equal, "low")
    )
    return asked.truth(same, apart) if isinstance(node, NotEqual) else asked.truth(apart, same)


def _bounds(asked: Asked) -> dict[str, dict[str, Value]] | None:
    """Return the ends of both operands in the types they are compared in; None if unknown."""
    assert asked.type.signature is not None
    ends: dict[str, dict[str, Value]] = {}
    for side, known, operand, target in zip(
        "lr", asked.operands, asked.type.operands, asked.type.signature.inputs, strict=True
    ):
        if operand.literal is not None:
            end = literal_value(operand.literal, target)
            ends[side] = {"low": end, "high": end}
        elif known.low is None or known.high is None:
            return None
        else:
            ends[side] = {"low": coerce(known.low, target), "high": coerce(known.high, target)}
    return ends


@_rule("is_in")
def _is_in(node: IsIn, asked: Asked) -> Known:
    (operand,) = asked.operands
    no, yes = asked.flags(False), asked.flags(True)
    if not len(node.values):
        return Known(yes, no, yes, true=no, false=yes)
    from tessel.expression.kernels.membership import members

    plain = asked.type.operands[0].type
    found, has_missing = members(node.values, plain)
    never_true = asked.flags(len(found) == 0)
    never_false = asked.flags(False)
    if operand.low is not None and operand.high is not None and len(found):
        low, high = (_slices(coerce(b, plain), asked) for b in (operand.low, operand.high))
        never_true = _outside(found, low, high, asked)
        one_value = asked.proved(pc.and_kleene(pc.equal(low, high), pc.is_in(low, found)))
        never_false = one_value
    answer = asked.truth(never_true, never_false)
    if not has_missing:
        return answer
    assert answer.true is not None
    # what is not in the set may be the missing value of the set
    assert answer.false is not None
    return Known(
        answer.value, answer.missing | answer.false, answer.exact, true=answer.true, false=no
    )


def _slices(bound: Value, asked: Asked) -> pa.Array:
    return pa.repeat(bound, asked.slices) if isinstance(bound, pa.Scalar) else bound


def _outside(found: pa.Array, low: pa.Array, high: pa.Array, asked: Asked) -> Flags:
    """Return where no value of a set lies between the bounds."""
    if family(found.type) in (Family.TEXT, Family.BINARY, Family.DECIMAL, Family.BOOL):
        values = found.to_pylist()
        if len(values) > _LOOKED_UP_ONE_BY_ONE:
            first, last = (arrow_scalar(end, found.type) for end in (min(values), max(values)))
            return asked.proved(_less(high, first)) | asked.proved(_less(last, low))
        outside = asked.flags(True)
        for value in values:
            one = arrow_scalar(value, found.type)
            outside &= asked.proved(_less(high, one)) | asked.proved(_less(one, low))
        return outside
    unknown = null_flags(low) | null_flags(high)
    members_found, lows, highs = (_counts(array) for array in (found, low, high))
    ordered = np.sort(members_found)
    inside = np.searchsorted(ordered, highs, "right") > np.searchsorted(ordered, lows, "left")
    return np.asarray(~inside & ~unknown, dtype=bool)


def _less(left: Value, right: Value) -> Value:
    return kernel_of(Less)(None, [left, right], pa.bool_())


def _counts(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return np.asarray(numpy_array(fill_null(array, 0)))


@_rule("starts_with")
def _starts_with(node: StartsWith, asked: Asked) -> Known:
    (operand,) = asked.operands
    if operand.low is None or operand.high is None:
        return asked.truth(asked.flags(False), asked.flags(False))
    plain = asked.type.operands[0].type
    prefix, length = arrow_scalar(node.part, plain), len(node.part)
    low, high = coerce(operand.low, plain), coerce(operand.high, plain)
    low_start, high_start = (
        pc.utf8_slice_codeunits(bound, start=0, stop=length) for bound in (low, high)
    )
    apart = asked.proved(pc.less(high, prefix)) | asked.proved(pc.greater(low_start, prefix))
    same = asked.proved(pc.equal(low_start, prefix)) & asked.proved(pc.equal(high_start, prefix))
    return asked.truth(apart, same)


# --- values whose bounds follow from those of their operands --------------------------------------


def _sum(asked: Asked, low_of: tuple[str, str], high_of: tuple[str, str]) -> Known:
    """Bound a sum: rounding to the nearest keeps order, and checked integers raise."""
    ends = _bounds(asked)
    if ends is None:
        return nothing_known(asked)
    kernel = kernel_of(type(asked.node))
    result = asked.type.result
    low, high = (
        nan_to_null(kernel(asked.node, [ends["l"][left], ends["r"][right]], result))
        for left, right in (low_of, high_of)
    )
    # inf - inf is NaN, hence missing
    missing = asked.missing() | pa.types.is_floating(result)
    return Known(asked.present(), missing, asked.exact(), low, high)


_rules["add"] = lambda node, asked: _sum(asked, ("low", "low"), ("high", "high"))
_rules["subtract"] = lambda node, asked: _sum(asked, ("low", "high"), ("high", "low"))


@_rule("year", "date", "floor")
def _rising(node: Expression, asked: Asked) -> Known:
    """Bound a function that never falls, on instants without changes of clocks."""
    (operand,) = asked.operands
    plain = asked.type.operands[0].type
    clocks_change = pa.types.is_timestamp(plain) and plain.tz not in (None, "UTC")
    if clocks_change or operand.low is None or operand.high is None:
        return nothing_known(asked)
    kernel = kernel_of(type(node))
    low, high = (
        kernel(node, [coerce(bound, plain)], asked.type.result)
        for bound in (operand.low, operand.high)
    )
    return Known(operand.value, operand.missing, operand.exact, low, high)
